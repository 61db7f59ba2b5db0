#!/usr/bin/env python3
"""Queries on Entasis beside other engines and formats: DataFusion and DuckDB, on Parquet and on Vortex.

    cargo build --release -p entasis-cli
    python -m venv peers && peers/bin/pip install -r benchmarks/requirements.txt
    peers/bin/python benchmarks/queries.py FOLDER QUERIES --entasis target/release/entasis --out report/

Each Parquet file of the folder is a table, and is converted to the other formats with their default settings. The file
with the queries has one after the other, each ended by a semicolon at the end of a line; what isn't a query, such as
CREATE VIEW, is carried out first. `--vortex-sql` names the program of benchmarks/vortex-sql, which is Vortex in the
same DataFusion; without it that is left out. `--duckdb` names a file with the same queries in DuckDB's dialect, where
that differs. Answers are compared first, as sets of rows, floats to nine digits; where a limit cuts rows that are
alike, as many rows must come. Then the contenders take turns, and medians of CPU time count, planning included. A
contender that can't answer a query is reported, and counts for nothing in it.

`queries.json` has every number. Linux only: it knows what CPU time another process took.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.ipc
import pyarrow.parquet

SAMPLE_SECONDS = 0.05
"""Queries that take less are repeated in each round."""

BETTER = "Parquet, the better of both"

Ask = Callable[[str], pa.Table]


def main() -> int:
    arguments = parse_arguments()
    tables = sorted(arguments.folder.glob("*.parquet"))
    if not tables:
        print(f"{arguments.folder}: there is no .parquet file", file=sys.stderr)
        return 2
    texts = statements_of(arguments.queries)
    other = statements_of(arguments.duckdb) if arguments.duckdb else texts
    if len(texts[1]) != len(other[1]):
        print(f"{arguments.duckdb} has {len(other[1])} queries instead of {len(texts[1])}", file=sys.stderr)
        return 2
    measured = []
    with tempfile.TemporaryDirectory(prefix="queries-") as scratch:
        contenders = open_contenders(arguments, tables, texts, other, arguments.keep or Path(scratch))
        print("  ".join(["query", *(f"{one.name:>22}" for one in contenders), "answers"]))
        for number in range(1, len(texts[1]) + 1):
            if not arguments.only or number in arguments.only:
                measured.append(measure(number, contenders, arguments.rounds))
                print(line_of(measured[-1], contenders), flush=True)
        for contender in contenders:
            contender.close()
    for query in measured:
        parquet = [query["cpu_seconds"][one.name] for one in contenders[1:3] if one.name in query["cpu_seconds"]]
        if parquet:
            query["cpu_seconds"][BETTER] = min(parquet)
    others = [*(one.name for one in contenders[1:]), BETTER]
    means = {name: mean_ratio(measured, contenders[0].name, name) for name in others}
    for name, mean in means.items():
        print(f"{contenders[0].name} over {name}: geometric mean {mean:.3f}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "queries.json").write_text(json.dumps({"means": means, "queries": measured}, indent=1))
    return 1 if any(one["answers"] == "different" for one in measured) else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a Parquet file for each table; the file's name is the table's")
    parser.add_argument("queries", type=Path, help="the queries, in DataFusion's dialect")
    parser.add_argument("--duckdb", type=Path, help="the same queries in DuckDB's dialect")
    parser.add_argument("--entasis", type=Path, required=True, help="the program `entasis`, with SQL")
    parser.add_argument("--vortex-sql", type=Path, help="the program of benchmarks/vortex-sql: Vortex in DataFusion")
    parser.add_argument("--only", type=int, nargs="*", default=[], help="only these queries, counted from 1")
    parser.add_argument("--rounds", type=int, default=7, help="rounds in which all take turns (7)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each engine (2)")
    parser.add_argument("--keep", type=Path, help="where converted tables are kept and found again")
    parser.add_argument("--out", type=Path, default=Path("queries-report"), help="where queries.json goes")
    return parser.parse_args()


def statements_of(path: Path) -> tuple[list[str], list[str]]:
    """What is carried out first, and the queries."""
    statements = [text.strip() for text in re.split(r";[ \t]*(?:\n|$)", path.read_text())]
    statements = [text for text in statements if text]
    queries = [text for text in statements if re.match(r"(?i)(--.*\s+)*(select|with)\b", text)]
    return [text for text in statements if text not in queries], queries


class Contender:
    """Who answers queries, and what CPU time that has taken so far."""

    def __init__(self, name: str, queries: Sequence[str], ask: Ask, clock: Callable[[], float], close: Any) -> None:
        self.name = name
        self.queries = queries
        self.ask = ask
        self.clock = clock
        self.close = close

    def seconds(self, query: str) -> float:
        """CPU seconds of one answer."""
        begin, done, seconds = self.clock(), 0, 0.0
        while seconds < SAMPLE_SECONDS:
            self.ask(query)
            done += 1
            seconds = self.clock() - begin
        return seconds / done


def open_contenders(
    arguments: argparse.Namespace,
    tables: list[Path],
    texts: tuple[list[str], list[str]],
    other: tuple[list[str], list[str]],
    folder: Path,
) -> list[Contender]:
    folder.mkdir(parents=True, exist_ok=True)
    stored = {path.stem: folder / f"{path.stem}.ent" for path in tables}
    for path in tables:
        if not stored[path.stem].exists():
            subprocess.run(
                [arguments.entasis, "convert", path, stored[path.stem]], check=True, stdout=subprocess.DEVNULL
            )
    parquet = {path.stem: path for path in tables}
    command = [arguments.entasis, "sql", "--format", "arrow", "--threads", str(arguments.threads)]
    pushed = ["SET datafusion.execution.parquet.pushdown_filters = true", *texts[0]]
    contenders = [
        data_fusion("Entasis", command, "ENTASIS", stored, texts[0], texts[1]),
        data_fusion("Parquet", command, "PARQUET", parquet, texts[0], texts[1]),
        data_fusion("Parquet, pushed down", command, "PARQUET", parquet, pushed, texts[1]),
    ]
    try:
        import vortex
    except ImportError as error:
        print(f"Vortex was left out: {error}")
        vortexes = {}
    else:
        vortexes = {path.stem: folder / f"{path.stem}.vortex" for path in tables}
        for path in tables:
            if not (target := vortexes[path.stem]).exists():
                with pyarrow.parquet.ParquetFile(path) as file:
                    batches = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
                    vortex.io.write(batches, str(target))
    if vortexes and arguments.vortex_sql:
        own = [arguments.vortex_sql, str(arguments.threads)]
        contenders.append(data_fusion("Vortex, DataFusion", own, "VORTEX", vortexes, texts[0], texts[1]))
    try:
        import duckdb
    except ImportError as error:
        print(f"DuckDB was left out: {error}")
        return contenders

    def duck(name: str, sources: dict[str, Any]) -> Contender:
        connection = duckdb.connect(config={"threads": arguments.threads})
        for table, source in sources.items():
            if isinstance(source, Path):
                connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{source}')")
            else:
                connection.register(table, source)
        for statement in other[0]:
            connection.execute(statement)

        def ask(query: str) -> pa.Table:
            return connection.sql(query).to_arrow_table()

        return Contender(name, other[1], ask, time.process_time, connection.close)

    contenders.append(duck("DuckDB, Parquet", parquet))
    if vortexes:
        datasets = {table: vortex.open(str(path)).to_dataset() for table, path in vortexes.items()}
        contenders.append(duck("DuckDB, Vortex", datasets))
    return contenders


def data_fusion(
    name: str,
    command: list[Any],
    stored_as: str,
    tables: dict[str, Path],
    first: list[str],
    queries: list[str],
) -> Contender:
    """DataFusion in a process of its own, which answers statement by statement with Arrow streams."""
    located = [
        f"CREATE EXTERNAL TABLE {table} STORED AS {stored_as} LOCATION '{tables[table].resolve()}'" for table in tables
    ]

    def started() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write("".join(f"{statement};\n" for statement in [*located, *first]).encode())
        return process

    process = started()

    def ask(query: str) -> pa.Table:
        nonlocal process
        try:
            process.stdin.write(f"{query};\n".encode())
            process.stdin.flush()
            with pa.ipc.open_stream(process.stdout) as stream:
                return stream.read_all()
        except (OSError, pa.ArrowInvalid):
            # It ends with the first statement that fails, and says why.
            process.kill()
            process.wait()
            process = started()
            raise

    def close() -> None:
        process.stdin.close()
        process.wait()

    def clock() -> float:
        """CPU time of the process: the clock that clock_getcpuclockid gives."""
        return time.clock_gettime((~process.pid << 3) | 2)

    return Contender(name, queries, ask, clock, close)


def measure(number: int, contenders: list[Contender], rounds: int) -> dict[str, Any]:
    """Median CPU seconds of each contender, and whether all answers are the same."""
    answers: dict[str, pa.Table] = {}
    failures: dict[str, str] = {}
    for contender in contenders:
        try:
            answers[contender.name] = contender.ask(contender.queries[number - 1])
        except Exception as error:
            failures[contender.name] = str(error).partition("\n")[0][:200]
    able = [one for one in contenders if one.name in answers]
    turns = [{one.name: one.seconds(one.queries[number - 1]) for one in able} for _ in range(rounds)]
    return {
        "query": number,
        "sql": contenders[0].queries[number - 1],
        "answers": agreement(contenders[0].queries[number - 1], list(answers.values())),
        "failures": failures,
        "cpu_seconds": {one.name: statistics.median(turn[one.name] for turn in turns) for one in able},
        "turns": turns,
    }


def agreement(query: str, answers: list[pa.Table]) -> str:
    """Whether all answers are `same`, or `alike`: as many rows, where a limit leaves open which."""
    rows = [Counter(tuple(map(canonical, row.values())) for row in answer_rows(answer)) for answer in answers]
    if all(one == rows[0] for one in rows):
        return "same"
    limited = re.search(r"(?i)\blimit\s+\d+", query)
    return "alike" if limited and len({answer.num_rows for answer in answers}) == 1 else "different"


def answer_rows(answer: pa.Table) -> list[dict[str, Any]]:
    """Rows by number of column: names may be anything, and come twice."""
    return answer.rename_columns([str(column) for column in range(answer.num_columns)]).to_pylist()


def canonical(value: Any) -> Any:
    """What is equal for equal values of different engines' types."""
    if isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool):
        return "nan" if math.isnan(value) else f"{float(value):.9g}"
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, datetime.date):
        return datetime.datetime(value.year, value.month, value.day).isoformat()
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def mean_ratio(measured: list[dict[str, Any]], ours: str, theirs: str) -> float:
    times = [one["cpu_seconds"] for one in measured if {ours, theirs} <= one["cpu_seconds"].keys()]
    return statistics.geometric_mean(time[ours] / time[theirs] for time in times) if times else math.nan


def line_of(query: dict[str, Any], contenders: list[Contender]) -> str:
    times = (query["cpu_seconds"].get(one.name) for one in contenders)
    cells = (f"{'-':>22}" if seconds is None else f"{seconds * 1e3:>19.2f} ms" for seconds in times)
    failed = "".join(f"\n       {name}: {why}" for name, why in query["failures"].items())
    return "  ".join([f"{query['query']:>5}", *cells, query["answers"]]) + failed


if __name__ == "__main__":
    sys.exit(main())
