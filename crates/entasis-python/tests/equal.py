"""Equality of Arrow data, as the benchmark beside peers judges it: bit for bit, types and metadata too."""

import pyarrow as pa
from same import first_difference


def assert_same(found: pa.Table, expected: pa.Table) -> None:
    """Same schema with metadata, same values; NaN is what has its bits, −0.0 isn't 0.0."""
    found.validate(full=True)
    assert found.schema.equals(expected.schema, check_metadata=True), f"{found.schema}\n{expected.schema}"
    assert first_difference(expected, found) is None
