#!/usr/bin/env python3
"""Entasis beside its peers, in one process: bytes, CPU time of encoding and decoding, and single rows.

    python -m venv peers && peers/bin/pip install -r benchmarks/requirements.txt entasis-*.whl
    peers/bin/python benchmarks/peers.py FOLDER --out report/

Every table of the folder (.parquet, .arrow, .feather) goes through every peer. What a peer gives back is compared with
what went in before anything is timed; a peer that gives back something else, or can't hold the table, is reported with
the reason and counts for nothing. All peers yield the same Arrow types: strings with offsets, and apart from that
strings as views; what a peer needs to get there is part of its time. Every page of every buffer is then read once,
within the time.

`report.html` shows it, by itself; `report.json` has every number.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import report
from formats import PEERS, Peer
from same import first_difference

PAGE_BYTES = 4_096
TAKEN_ROWS = 1_000
TAKEN_COLUMNS = 8


def main() -> int:
    arguments = parse_arguments()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    paths = [path for path in sorted(arguments.folder.rglob("*")) if path.suffix in (".parquet", ".arrow", ".feather")]
    paths = [path for path in paths if arguments.filter in str(path)]
    if not paths:
        print(f"{arguments.folder}: there is no .parquet, .arrow or .feather file", file=sys.stderr)
        return 2
    wanted = [peer for peer in PEERS if not arguments.peers or peer.name in arguments.peers]
    missing = {peer.name: why for peer in wanted if (why := peer.missing())}
    for name, why in missing.items():
        print(f"{name} was left out: {why}")
    peers = [peer for peer in wanted if peer.name not in missing]
    measured: dict[str, Any] = {
        "machine": machine(),
        "versions": versions(),
        "settings": {peer.name: peer.settings for peer in peers},
        "missing": missing,
        "rounds": arguments.rounds,
        "tables": [],
        "columns": [],
    }
    with tempfile.TemporaryDirectory(prefix="peers-", dir=arguments.scratch) as scratch:
        for path in paths:
            table = load(path, arguments.rows)
            name = str(path.relative_to(arguments.folder))
            measured["tables"].append(measure_table(name, table, peers, Path(scratch), arguments.rounds))
            print(line_of(measured["tables"][-1]), flush=True)
            for column in table.column_names[: arguments.columns]:
                one = table.select([column])
                if one.num_columns == 1:
                    found = measure_table(f"{name}: {column}", one, peers, Path(scratch), 1, rows_too=False)
                    measured["columns"].append(found)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "report.json").write_text(json.dumps(measured, indent=1))
    (arguments.out / "report.html").write_text(report.page(measured))
    print(report.summary(measured))
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the tables are")
    parser.add_argument("--out", type=Path, default=Path("peers-report"), help="where the report goes (peers-report)")
    parser.add_argument("--filter", default="", help="only tables whose path contains this")
    parser.add_argument("--peers", nargs="*", help="only these peers, by name")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of timing, of which the best counts (3)")
    parser.add_argument("--rows", type=int, default=None, help="only the first rows of each table")
    parser.add_argument("--columns", type=int, default=8, help="columns of each table that are measured alone (8)")
    parser.add_argument("--scratch", type=Path, default=None, help="where files are written meanwhile")
    return parser.parse_args()


def load(path: Path, rows: int | None) -> pa.Table:
    """A table with strings as offsets, without dictionaries, in one chunk per column: what everybody is given."""
    if path.suffix == ".parquet":
        table = pyarrow.parquet.ParquetFile(path).read()
    else:
        table = pyarrow.feather.read_table(path, memory_map=False)
    table = (table if rows is None else table.slice(0, rows)).replace_schema_metadata(None)
    for index, field in enumerate(table.schema):
        # Only what has to change: Arrow's cast stumbles over some nested columns that it would leave as they are.
        if (plain := plain_type(field.type)) != field.type:
            table = table.set_column(index, field.with_type(plain), table.column(index).cast(plain))
    return table.combine_chunks()


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type that every peer is to yield."""
    if pa.types.is_dictionary(data_type):
        return plain_type(data_type.value_type)
    same = {
        pa.string_view(): pa.string(),
        pa.large_string(): pa.string(),
        pa.binary_view(): pa.binary(),
        pa.large_binary(): pa.binary(),
    }
    return same.get(data_type, data_type)


def with_views(schema: pa.Schema) -> pa.Schema:
    views = {pa.string(): pa.string_view(), pa.binary(): pa.binary_view()}
    return pa.schema([field.with_type(views.get(field.type, field.type)) for field in schema])


def measure_table(
    name: str, table: pa.Table, peers: list[Peer], scratch: Path, rounds: int, rows_too: bool = True
) -> dict[str, Any]:
    """Every peer on one table, in a folder of its own."""
    measured = {
        "name": name,
        "rows": table.num_rows,
        "columns": table.num_columns,
        "arrow_bytes": table.nbytes,
        "peers": {},
    }
    if table.num_columns == 1:
        measured["type"] = str(table.schema.types[0])
    for peer in peers:
        folder = Path(tempfile.mkdtemp(dir=scratch))
        try:
            measured["peers"][peer.name] = measure(peer, table, folder, rounds, rows_too)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # A panic in a peer's native code isn't an Exception everywhere.
            measured["peers"][peer.name] = {"error": f"{type(error).__name__}: {error}"[:300]}
        finally:
            shutil.rmtree(folder)
    return measured


def measure(peer: Peer, table: pa.Table, folder: Path, rounds: int, rows_too: bool) -> dict[str, Any]:
    offsets, views = table.schema, with_views(table.schema)
    path = folder / "table"
    peer.write(table, path)
    found: dict[str, Any] = {"bytes": size_of(path)}

    def decode(schema: pa.Schema) -> pa.Table:
        return as_types(peer.read(path, schema), schema)

    for key, schema, expected in [("offsets", offsets, table), ("views", views, table.cast(views))]:
        if (difference := first_difference(expected, decode(schema))) is not None:
            raise ValueError(f"with {key}: {difference}")
        if key == "offsets" or views != offsets:
            found[f"decode_{key}_cpu"] = best(lambda schema=schema: touch(decode(schema)), rounds)
    found.setdefault("decode_views_cpu", found["decode_offsets_cpu"])
    encoded = iter(range(rounds))
    found["encode_cpu"] = best(lambda: peer.write(table, folder / f"again {next(encoded)}"), rounds)
    if rows_too and table.num_rows:
        found |= measure_take(peer, table, path, rounds)
    return found


def measure_take(peer: Peer, table: pa.Table, path: Path, rounds: int) -> dict[str, float]:
    """Scattered rows of some columns, from a file that isn't open."""
    count = min(TAKEN_ROWS, table.num_rows)
    rows = np.sort(np.random.default_rng(1).choice(table.num_rows, count, replace=False))
    names = table.column_names
    columns = [name for name in names if names.count(name) == 1][:TAKEN_COLUMNS]
    schema = pa.schema([table.schema.field(column) for column in columns])
    expected = table.select(columns).take(pa.array(rows))

    def take() -> pa.Table:
        return as_types(peer.take(path, rows, columns, table.schema), schema)

    if (difference := first_difference(expected, take())) is not None:
        raise ValueError(f"single rows: {difference}")
    return {
        "take_cpu": best(lambda: touch(take()), rounds),
        "take_wall": best(lambda: touch(take()), rounds, time.perf_counter),
    }


def as_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with these types; nothing is done where it has them."""
    if table.schema.types == schema.types and table.schema.names == schema.names:
        return table
    return pa.Table.from_arrays(
        [
            column if column.type == data_type else column.cast(data_type)
            for column, data_type in zip(table.columns, schema.types, strict=True)
        ],
        names=table.schema.names,
    )


def touch(table: pa.Table) -> int:
    """Reads a byte of every page of every buffer: what was only mapped, or promised, is fetched now."""
    total = 0
    for column in table.columns:
        for chunk in column.chunks:
            for buffer in chunk.buffers():
                if buffer is not None and buffer.size:
                    total += int(np.frombuffer(buffer, np.uint8)[::PAGE_BYTES].sum(dtype=np.int64))
    return total


def best(work: Callable[[], Any], rounds: int, clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of the quickest round; CPU time is that of all threads of the process."""
    seconds = []
    for _ in range(rounds):
        start = clock()
        work()
        seconds.append(clock() - start)
    return min(seconds)


def size_of(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )


def machine() -> dict[str, Any]:
    processor = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), processor)
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    found = {}
    for package in ("entasis", "pyarrow", "vortex-data", "pylance", "numpy"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def line_of(table: dict[str, Any]) -> str:
    sizes = [
        f"{peer} {found['bytes'] / 1e6:.3g} MB" if "bytes" in found else f"{peer}: {found['error'][:60]}"
        for peer, found in table["peers"].items()
    ]
    return f"{table['name']} ({table['rows']:,} × {table['columns']}): {', '.join(sizes)}"


if __name__ == "__main__":
    sys.exit(main())
