"""Columnar files that are small, fast to decode, and open at once.

`write_table` and `read_table` are what most people need; `EntasisFile` and `EntasisWriter` are for parts of files. What
`pyarrow.parquet` calls by a name has that name here. Nothing has to be installed beside this package: tables come and go
by the Arrow PyCapsule interface, which pyarrow, pandas, Polars and DuckDB have.
"""

from typing import NamedTuple

from ._entasis import (
    BatchReader,
    EntasisFile,
    EntasisWriter,
    FileMetadata,
    RecordBatch,
    Schema,
    Table,
    __version__,
    read_metadata,
    read_schema,
    read_table,
    write_table,
)
from ._errors import CorruptError, EntasisError, InvalidArgumentError, UnsupportedError


class SortColumn(NamedTuple):
    """A column of a sort order: its name, or names of structs and a field joined by dots."""

    column: str
    descending: bool = False
    nulls_first: bool = False


for _class in (CorruptError, EntasisError, InvalidArgumentError, UnsupportedError):
    _class.__module__ = "entasis"

__all__ = [
    "BatchReader",
    "CorruptError",
    "EntasisError",
    "EntasisFile",
    "EntasisWriter",
    "FileMetadata",
    "InvalidArgumentError",
    "RecordBatch",
    "Schema",
    "SortColumn",
    "Table",
    "UnsupportedError",
    "__version__",
    "read_metadata",
    "read_schema",
    "read_table",
    "write_table",
]
