#!/usr/bin/env python3
"""What Python adds: reading and taking through the wheel beside the same work in Rust.

    cargo build --release -p entasis-cli --example read_time
    peers/bin/python benchmarks/wheel.py FOLDER --rust target/release/examples/read_time

Every Parquet file of the folder is written as an Entasis file, which is then read whole with one thread, and asked for
1,000 scattered rows of at most 8 columns: by the wheel, as its own table and as a pyarrow table, and by a program in
Rust with the same library, each from a file that isn't open. They take turns, and each begins its turn with runs that
don't count: what came before has given its memory back and filled the caches, and whoever had less to do would pay for
that. The medians of the ratios of CPU time count. Build both from the same sources.
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

# What is measured, and what Rust does meanwhile: reading and making a pyarrow table of it, reading alone, taking rows.
WORKS = {"read": "read", "only read": "read", "take": "take"}


def main() -> int:
    arguments = parse_arguments()
    paths = [path for path in sorted(arguments.folder.rglob("*.parquet")) if arguments.filter in str(path)]
    if not paths:
        print(f"{arguments.folder}: there is no .parquet file", file=sys.stderr)
        return 2
    measured = []
    with Rust(arguments.rust) as rust, tempfile.TemporaryDirectory() as folder:
        print(f"{'milliseconds, over Rust':40} {'columns':>7} " + " ".join(f"{work:>18}" for work in WORKS))
        for path in paths:
            measured.append({"table": path.name, **measure(path, Path(folder) / "table.ent", rust, arguments.rounds)})
            print(line_of(measured[-1]), flush=True)
    heaviest = sorted(measured, key=lambda table: -table["read"]["rust"])[:8]
    classes = {
        "all": measured,
        "a millisecond and more in Rust": [table for table in measured if table["read"]["rust"] >= 1e-3],
        "the eight that take longest": heaviest,
        "more than 1,000 columns": [table for table in measured if table["columns"] > 1_000],
        "up to 1,000 columns": [table for table in measured if table["columns"] <= 1_000],
    }
    total = {name: {work: total_of(tables, work) for work in WORKS} for name, tables in classes.items() if tables}
    print("over Rust, all together (geometric mean)")
    for name, ratios in total.items():
        cells = (f"{ratio['total']:.3f} ({ratio['geometric_mean']:.3f})" for ratio in ratios.values())
        print(f"{name[:36]:36} {len(classes[name]):3} {'':7} " + " ".join(f"{cell:>18}" for cell in cells))
    if arguments.json:
        arguments.json.write_text(json.dumps({"total": total, "tables": measured}, indent=1))
    return 0


def total_of(tables: list[dict[str, Any]], work: str) -> dict[str, float]:
    return {
        "geometric_mean": statistics.geometric_mean(table[work]["ratio"] for table in tables),
        "total": sum(table[work]["python"] for table in tables) / sum(table[work]["rust"] for table in tables),
    }


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

    def time(self, request: dict[str, Any]) -> float:
        """CPU seconds."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the program in Rust ended over {request['path']}")
        return float(line)


def measure(source: Path, path: Path, rust: Rust, rounds: int) -> dict[str, Any]:
    """CPU seconds, and the ratios of those of one round."""
    table = pyarrow.parquet.read_table(source)
    entasis.write_table(table, path)
    rows = np.sort(np.random.default_rng(1).choice(len(table), min(TAKEN_ROWS, len(table)), replace=False))
    names = table.column_names
    columns = [name for name in names if names.count(name) == 1 and "." not in name][:TAKEN_COLUMNS]

    def read() -> pa.Table:
        return pa.table(entasis.read_table(path, threads=1))

    def only_read() -> entasis.Table:
        return entasis.read_table(path, threads=1)

    def take() -> pa.Table:
        with entasis.EntasisFile(path) as file:
            return pa.table(file.take(rows, columns))

    if read().num_rows != len(table) or take().num_rows != len(rows):
        raise ValueError(f"{source}: other rows come back")
    measured: dict[str, Any] = {"columns": len(names)}
    for work, python in {"read": read, "only read": only_read, "take": take}.items():
        request = {"path": str(path), "work": WORKS[work], "rows": rows.tolist(), "columns": columns}
        turns = [(timed(python), rust.time(request)) for _ in range(rounds)]
        ratios = sorted(python / other for python, other in turns)
        measured[work] = {
            "python": statistics.median(python for python, _ in turns),
            "rust": statistics.median(other for _, other in turns),
            "ratio": statistics.median(ratios),
            "quartiles": [ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]],
        }
    return measured


def timed(work: Callable[[], Any]) -> float:
    """CPU seconds of one run, after runs that take as long and don't count."""
    sample(work)
    return sample(work)


def sample(work: Callable[[], Any]) -> float:
    """CPU seconds of one run; what is too short for the clock is repeated."""
    begin, done, seconds = time.process_time(), 0, 0.0
    while seconds < SAMPLE_SECONDS:
        work()
        done += 1
        seconds = time.process_time() - begin
    return seconds / done


def line_of(table: dict[str, Any]) -> str:
    cells = (f"{table[work]['python'] * 1e3:10.3f} {table[work]['ratio']:7.3f}" for work in WORKS)
    return f"{table['table'][:40]:40} {table['columns']:7} {' '.join(cells)}"


if __name__ == "__main__":
    sys.exit(main())
