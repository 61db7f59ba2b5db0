"""Equality of Arrow data, as the benchmark beside peers judges it: bit for bit, types and metadata too."""

import pyarrow as pa
from same import first_difference


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Same schema with metadata, same values; NaN is what has its bits, −0.0 isn't 0.0."""
    found.validate(full=True)
    assert found.schema.equals(expected.schema, check_metadata=True), f"{found.schema}\n{expected.schema}"
    assert first_difference(expected, found) is None


def taken(table: pa.Table, rows: list[int]) -> pa.Table:
    """Some rows; pyarrow's own `take` doesn't know every type."""
    return pa.concat_tables([table.slice(0, 0), *(table.slice(row, 1) for row in rows)])
