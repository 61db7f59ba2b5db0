#!/usr/bin/env python3
"""Makes the tables of benchmarks/tpcds.sql: two of TPC-DS, the larger with a random number for each row.

    peers/bin/python benchmarks/tpcds.py FOLDER --scale 7
    target/release/entasis bench queries FOLDER benchmarks/tpcds.sql

`catalog_sales` has 1.44 million rows at scale 1 and ten million at scale 7; `customer_demographics` has 1,920,800 at
any. The number, `draw`, is 0 to 99,999, drawn evenly and always the same: `draw < 10` holds for one row in ten
thousand, wherever it lies, which is how rows of a random bit vector are asked for in SQL. tpcgen-cli generates the
tables.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

DRAWS = 100_000
SEED = 20_261_123


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the tables go")
    parser.add_argument("--scale", type=float, default=1, help="scale factor (1)")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as scratch:
        program = Path(sysconfig.get_path("scripts")) / "tpcgen-cli"
        tables = "--tables=catalog_sales,customer_demographics"
        subprocess.run(
            [program, "tpcds", "parquet", "-s", str(arguments.scale), tables, f"--output-dir={scratch}"], check=True
        )
        sales, demographics = "catalog_sales.parquet", "customer_demographics.parquet"
        with_draws(Path(scratch) / sales, Path(scratch) / "drawn.parquet")
        (Path(scratch) / "drawn.parquet").replace(arguments.folder / sales)
        (Path(scratch) / demographics).replace(arguments.folder / demographics)
    return 0


def with_draws(source: Path, target: Path) -> None:
    """Copies a table with one more column, in row groups of pyarrow's default size."""
    random = np.random.default_rng(SEED)
    with pa.parquet.ParquetFile(source) as file:
        schema = file.schema_arrow.append(pa.field("draw", pa.int32(), nullable=False))
        with pa.parquet.ParquetWriter(target, schema) as writer:
            for batch in file.iter_batches(1 << 20):
                draws = random.integers(0, DRAWS, batch.num_rows, dtype=np.int32)
                writer.write_batch(pa.record_batch([*batch.columns, pa.array(draws)], schema=schema))


if __name__ == "__main__":
    sys.exit(main())
