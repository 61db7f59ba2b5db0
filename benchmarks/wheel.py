#!/usr/bin/env python3
"""What Python adds: reading and taking through the wheel beside the same work in Rust.

    cargo build --release -p entasis-cli --example read_time
    peers/bin/python benchmarks/wheel.py FOLDER --rust target/release/examples/read_time

Every Parquet file of the folder is written as an Entasis file, which is then read whole with one thread, and asked for
1,000 scattered rows of at most 8 columns: by the wheel, as a pyarrow table, and by a program in Rust with the same
library, both from a file that isn't open. They take turns; the medians of the ratios of CPU time count. Build both
from the same sources.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import entasis
import numpy as np
import pyarrow as pa
import pyarrow.parquet

TAKEN_ROWS = 1_000
TAKEN_COLUMNS = 8
SAMPLE_SECONDS = 0.02


def main() -> int:
    arguments = parse_arguments()
    paths = [path for path in sorted(arguments.folder.rglob("*.parquet")) if arguments.filter in str(path)]
    if not paths:
        print(f"{arguments.folder}: there is no .parquet file", file=sys.stderr)
        return 2
    measured = []
    with Rust(arguments.rust) as rust, tempfile.TemporaryDirectory() as folder:
        print(f"{'table':40} {'read':>10} {'/ Rust':>7} {'take':>10} {'/ Rust':>7}")
        for path in paths:
            measured.append({"table": path.name, **measure(path, Path(folder) / "table.ent", rust, arguments.rounds)})
            print(line_of(measured[-1]), flush=True)
    total = {
        work: {
            "geometric_mean": statistics.geometric_mean(table[work]["ratio"] for table in measured),
            "total": sum(table[work]["python"] for table in measured) / sum(table[work]["rust"] for table in measured),
        }
        for work in ("read", "take")
    }
    for work, ratios in total.items():
        print(f"{work} over Rust: geometric mean {ratios['geometric_mean']:.3f}, all together {ratios['total']:.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"total": total, "tables": measured}, indent=1))
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What Python adds to reading and taking.")
    parser.add_argument("folder", type=Path, help="tables, as Parquet")
    parser.add_argument("--rust", type=Path, required=True, help="the built example read_time")
    parser.add_argument("--rounds", type=int, default=7, help="rounds in which both take turns (7)")
    parser.add_argument("--filter", default="", help="only tables whose path contains this")
    parser.add_argument("--json", type=Path, help="a file for every number")
    return parser.parse_args()


class Rust:
    """The program that does the same in Rust."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Rust:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait()

    def times(self, request: dict[str, Any]) -> dict[str, float]:
        """CPU seconds of each work."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the program in Rust ended over {request['path']}")
        return json.loads(line)


def measure(source: Path, path: Path, rust: Rust, rounds: int) -> dict[str, Any]:
    """CPU seconds, and the ratios of those of one round."""
    table = pyarrow.parquet.read_table(source)
    entasis.write_table(table, path)
    rows = np.sort(np.random.default_rng(1).choice(len(table), min(TAKEN_ROWS, len(table)), replace=False))
    names = table.column_names
    columns = [name for name in names if names.count(name) == 1 and "." not in name][:TAKEN_COLUMNS]

    def read() -> pa.Table:
        return pa.table(entasis.read_table(path, threads=1))

    def take() -> pa.Table:
        with entasis.EntasisFile(path) as file:
            return pa.table(file.take(rows, columns))

    if read().num_rows != len(table) or take().num_rows != len(rows):
        raise ValueError(f"{source}: other rows come back")
    request = {"path": str(path), "rows": rows.tolist(), "columns": columns}
    rust.times(request)
    turns = [({"read": timed(read), "take": timed(take)}, rust.times(request)) for _ in range(rounds)]
    return {
        work: {
            "python": statistics.median(python[work] for python, _ in turns),
            "rust": statistics.median(other[work] for _, other in turns),
            "ratio": statistics.median(python[work] / other[work] for python, other in turns),
        }
        for work in ("read", "take")
    }


def timed(work: Callable[[], Any]) -> float:
    """CPU seconds of one run; what is too short for the clock is repeated."""
    begin, done, seconds = time.process_time(), 0, 0.0
    while seconds < SAMPLE_SECONDS:
        work()
        done += 1
        seconds = time.process_time() - begin
    return seconds / done


def line_of(table: dict[str, Any]) -> str:
    cells = (f"{table[work]['python'] * 1e3:7.3f} ms {table[work]['ratio']:7.3f}" for work in ("read", "take"))
    return f"{table['table'][:40]:40} {' '.join(cells)}"


if __name__ == "__main__":
    sys.exit(main())
