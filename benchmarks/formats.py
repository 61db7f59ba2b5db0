"""The peers: each writes a table to a path, reads it, and reads single rows of it.

Every peer works on one thread where it lets itself be told, and yields a `pyarrow.Table` of the types that it likes
best; the caller casts to the types that are asked for, and counts that.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa


class Peer(ABC):
    """A format with one choice of settings."""

    # What the report calls it, and the modules that it needs.
    name = ""
    settings = ""
    modules: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """Why the peer can't take part, if it can't."""
        for module in self.modules:
            try:
                importlib.import_module(module)
            except ImportError as error:
                return str(error)
        return None

    @abstractmethod
    def write(self, table: pa.Table, path: Path) -> None:
        """The table as a file, or as a folder of files."""

    @abstractmethod
    def read(self, path: Path, schema: pa.Schema) -> pa.Table:
        """All of it again, in columns of the types of `schema`."""

    def take(self, path: Path, rows: np.ndarray, columns: list[str], schema: pa.Schema) -> pa.Table:
        """Rows, ascending. What can't read single rows reads the table."""
        return self.read(path, schema).select(columns).take(rows)


class Entasis(Peer):
    modules = ("entasis",)

    def __init__(self, name: str, settings: str, **options: Any):
        self.name, self.settings, self.options = name, settings, options

    def write(self, table, path):
        import entasis

        entasis.write_table(table, path, threads=1, **self.options)

    def read(self, path, schema):
        import entasis

        return entasis.read_table(path, threads=1, views=wants_views(schema)).to_arrow()

    def take(self, path, rows, columns, schema):
        import entasis

        with entasis.EntasisFile(path) as file:
            return file.take(rows, columns, views=wants_views(schema)).to_arrow()


class Parquet(Peer):
    modules = ("pyarrow.parquet",)

    def __init__(self, name: str, settings: str, **options: Any):
        self.name, self.settings, self.options = name, settings, options

    def write(self, table, path):
        import pyarrow.parquet as pq

        pq.write_table(table, path, **self.options)

    def read(self, path, schema):
        import pyarrow.parquet as pq

        return pq.ParquetFile(path).read(use_threads=False)

    def take(self, path, rows, columns, schema):
        import pyarrow.parquet as pq

        file = pq.ParquetFile(path)
        ends = np.cumsum([file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)])
        groups = np.searchsorted(ends, rows, side="right")
        taken = []
        for group in np.unique(groups):
            first = ends[group] - file.metadata.row_group(group).num_rows
            read = file.read_row_group(group, columns=columns, use_threads=False)
            taken.append(read.take(pa.array(rows[groups == group] - first)))
        return pa.concat_tables(taken).select(columns)


class Orc(Peer):
    modules = ("pyarrow.orc",)

    def __init__(self, name: str, settings: str, **options: Any):
        self.name, self.settings, self.options = name, settings, options

    def write(self, table, path):
        from pyarrow import orc

        orc.write_table(table, path, **self.options)

    def read(self, path, schema):
        from pyarrow import orc

        return orc.ORCFile(path).read()

    def take(self, path, rows, columns, schema):
        from pyarrow import orc

        return orc.ORCFile(path).read(columns=columns).select(columns).take(pa.array(rows))


class Feather(Peer):
    modules = ("pyarrow.feather",)

    def __init__(self, name: str, settings: str, **options: Any):
        self.name, self.settings, self.options = name, settings, options

    def write(self, table, path):
        from pyarrow import feather

        feather.write_feather(table, path, **self.options)

    def read(self, path, schema):
        from pyarrow import feather

        return feather.read_table(path, use_threads=False, memory_map=False)

    def take(self, path, rows, columns, schema):
        from pyarrow import feather

        return feather.read_table(path, columns=columns, use_threads=False).take(pa.array(rows))


class Vortex(Peer):
    modules = ("vortex",)

    def __init__(self, name: str, settings: str, compact: bool):
        self.name, self.settings, self.compact = name, settings, compact

    def write(self, table, path):
        import vortex

        options = vortex.io.VortexWriteOptions
        (options.compact() if self.compact else options.default()).write(table, str(path))

    def read(self, path, schema):
        import vortex

        return vortex.open(str(path), without_segment_cache=True).to_arrow(schema=schema).read_all()

    def take(self, path, rows, columns, schema):
        import vortex

        file = vortex.open(str(path), without_segment_cache=True)
        asked = pa.schema([schema.field(column) for column in columns])
        return file.to_arrow(columns, indices=vortex.array(pa.array(rows, pa.uint64())), schema=asked).read_all()


class Lance(Peer):
    modules = ("lance.file",)

    def __init__(self, name: str, settings: str, compression: str | None = None):
        self.name, self.settings, self.compression = name, settings, compression

    def write(self, table, path):
        from lance.file import LanceFileWriter

        if self.compression:
            metadata = {"lance-encoding:compression": self.compression}
            fields = [field.with_metadata({**(field.metadata or {}), **metadata}) for field in table.schema]
            table = table.cast(pa.schema(fields))
        with LanceFileWriter(str(path), table.schema) as writer:
            for batch in table.to_batches():
                writer.write_batch(batch)

    def read(self, path, schema):
        from lance.file import LanceFileReader

        return LanceFileReader(str(path)).read_all(batch_size=65_536).to_table()

    def take(self, path, rows, columns, schema):
        from lance.file import LanceFileReader

        return LanceFileReader(str(path), columns=columns).take_rows(rows.tolist()).to_table().select(columns)


class NumPy(Peer):
    """Embeddings as `.npy` files: for tables whose columns are fixed-size lists of numbers, and numbers."""

    name = "NumPy"
    settings = "numpy.save, mapped; fixed-size lists and numbers without nulls only"

    def write(self, table, path):
        path.mkdir()
        for index, column in enumerate(table.columns):
            chunk = pa.concat_arrays(column.chunks)
            leaf, shape = chunk, [len(chunk)]
            while pa.types.is_fixed_size_list(leaf.type):
                shape.append(leaf.type.list_size)
                leaf = leaf.flatten()
            if chunk.null_count or leaf.null_count or not is_number(leaf.type):
                raise TypeError(f"NumPy has no column of {column.type}")
            np.save(path / f"{index}.npy", leaf.to_numpy().reshape(shape))

    def read(self, path, schema):
        loaded = (np.load(path / f"{index}.npy") for index in range(len(schema)))
        return pa.Table.from_arrays([as_arrow(array) for array in loaded], names=schema.names)

    def take(self, path, rows, columns, schema):
        places = [schema.get_field_index(column) for column in columns]
        taken = [np.load(path / f"{index}.npy", mmap_mode="r")[rows] for index in places]
        return pa.Table.from_arrays([as_arrow(array) for array in taken], names=columns)


def is_number(data_type: pa.DataType) -> bool:
    return pa.types.is_integer(data_type) or pa.types.is_floating(data_type)


def as_arrow(array: np.ndarray) -> pa.Array:
    leaf = pa.array(array.reshape(-1))
    for size in reversed(array.shape[1:]):
        leaf = pa.FixedSizeListArray.from_arrays(leaf, size)
    return leaf


def wants_views(schema: pa.Schema) -> bool:
    return any(pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type) for data_type in schema.types)


# By name; the default settings of each first.
PEERS: list[Peer] = [
    Entasis("Entasis", "default: profile balanced"),
    Entasis("Entasis, size", "profile size", profile="size"),
    Entasis("Entasis, scan", "profile scan", profile="scan"),
    Parquet("Parquet", "default: Snappy"),
    Parquet(
        "Parquet, Zstd",
        "compression zstd 3, pages of version 2",
        compression="zstd",
        compression_level=3,
        data_page_version="2.0",
    ),
    Parquet(
        "Parquet, Zstd 9",
        "compression zstd 9, pages of version 2",
        compression="zstd",
        compression_level=9,
        data_page_version="2.0",
    ),
    Orc("ORC", "default"),
    Orc("ORC, Zstd", "compression zstd, dictionaries up to 0.8", compression="zstd", dictionary_key_size_threshold=0.8),
    Feather("Feather", "default: LZ4"),
    Feather("Feather, Zstd", "compression zstd 3", compression="zstd", compression_level=3),
    Vortex("Vortex", "default", compact=False),
    Vortex("Vortex, compact", "compact", compact=True),
    Lance("Lance", "files of the default version"),
    Lance("Lance, Zstd", "lance-encoding:compression = zstd on every column", compression="zstd"),
    NumPy(),
]
