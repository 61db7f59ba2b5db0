"""Columnar files that are small, fast to decode, and open at once.

`write_table` and `read_table` are what most people need; `EntasisFile` and `EntasisWriter` are for parts of files.
What `pyarrow.parquet` calls by a name has that name here. Nothing has to be installed beside this package: tables come
and go by the Arrow PyCapsule interface, which pyarrow, pandas, Polars and DuckDB have.
"""

from typing import Any, NamedTuple

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


def read_pandas(source: Any, *, columns: Any = None, **arguments: Any) -> Any:
    """Reads a `pandas.DataFrame`: all columns, or those that are named, and the index that the table was written with.

    Other arguments are those of `read_table`. pandas and pyarrow have to be installed.

    >>> import entasis, pandas as pd
    >>> frame = pd.DataFrame({"columns": [50, 36], "length": [60, 58]}, index=["Paestum", "Segesta"])
    >>> entasis.write_table(frame, "temples.ent")
    >>> entasis.read_pandas("temples.ent", columns=["columns"])
             columns
    Paestum       50
    Segesta       36
    """
    from ._pandas import read

    return read(source, columns, arguments)


def inspect(source: Any, **arguments: Any) -> Any:
    """What is in a file: sizes and cascades of its columns; text when it is printed, a page with pictures in notebooks.

    `columns` holds the same as values. All blocks are read. Arguments are `filesystem` and `storage_options` of
    `EntasisFile`.

    >>> import entasis, pyarrow as pa
    >>> entasis.write_table(pa.table({"day": range(2000), "sky": ["blue", "grey"] * 1000}), "days.ent")
    >>> print(entasis.inspect("days.ent"))
    2,000 rows, 2 columns, 1 row group, ... written by entasis ...
    column  type   bytes  ratio  nulls  encoded as
    day     Int64  ...
    sky     Utf8   ...
    >>> [column.path for column in entasis.inspect("days.ent").columns]
    ['day', 'sky']
    """
    from ._inspect import Inspection

    return Inspection(source, arguments)


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
    "inspect",
    "read_metadata",
    "read_pandas",
    "read_schema",
    "read_table",
    "write_table",
]
