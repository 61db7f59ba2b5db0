"""Data frames, and the columns that their index is kept in."""

from __future__ import annotations

import json
from typing import Any

from ._entasis import EntasisFile

OPENING = ("filesystem", "storage_options", "memory_map")


def read(source: Any, columns: Any, arguments: dict[str, Any]) -> Any:
    """The columns as a data frame, with its index."""
    opening = {name: arguments.pop(name) for name in OPENING if name in arguments}
    with EntasisFile(source, **opening) as file:
        if columns is not None and not isinstance(columns, str):
            columns = [*columns]
            columns += [name for name in index_columns(file) if name not in columns]
        return file.read(columns, **arguments).to_pandas()


def index_columns(file: EntasisFile) -> list[str]:
    """Columns that hold the index, as the schema's metadata name them; a range is described there and has none."""
    described = json.loads(file.schema_arrow.metadata.get(b"pandas", b"{}"))
    return [index for index in described.get("index_columns", []) if isinstance(index, str)]
