"""Whether two tables hold the same values, bit for bit."""

import pyarrow as pa

BITS = {pa.float16(): pa.uint16(), pa.float32(): pa.uint32(), pa.float64(): pa.uint64()}


def first_difference(left: pa.Table, right: pa.Table) -> str | None:
    """Where two tables differ first, in words; `None` if they hold the same columns of the same types and values."""
    if left.schema.names != right.schema.names or left.schema.types != right.schema.types:
        return f"types {right.schema.types} instead of {left.schema.types}"
    if left.num_rows != right.num_rows:
        return f"{right.num_rows} rows instead of {left.num_rows}"
    for name, one, other in zip(left.column_names, left.columns, right.columns, strict=True):
        if not same_values(_whole(one), _whole(other)):
            return f"other values in column {name!r}"
    return None


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def same_values(left: pa.Array, right: pa.Array) -> bool:
    """Arrow's equality, but NaN is what has its bits, and −0.0 isn't 0.0."""
    data_type = left.type
    if data_type != right.type or len(left) != len(right):
        return False
    if pa.types.is_dictionary(data_type):
        # The same values may have other numbers.
        return same_values(left.dictionary_decode(), right.dictionary_decode())
    if not needs_a_look(data_type):
        return left.equals(right)
    if not left.is_null().equals(right.is_null()):
        return False
    if data_type in BITS:
        return left.view(BITS[data_type]).equals(right.view(BITS[data_type]))
    if pa.types.is_struct(data_type):
        return all(map(same_values, left.flatten(), right.flatten()))
    if pa.types.is_fixed_size_list(data_type):
        return same_values(left.flatten(), right.flatten())
    if pa.types.is_run_end_encoded(data_type) or pa.types.is_union(data_type):
        return repr(left.to_pylist()) == repr(right.to_pylist())
    if pa.types.is_map(data_type):
        left, right = map(_lists_of_entries, (left, right))
    return left.value_lengths().equals(right.value_lengths()) and same_values(left.flatten(), right.flatten())


def _lists_of_entries(maps: pa.MapArray) -> pa.ListArray:
    maps = maps.drop_null()
    return pa.ListArray.from_arrays(maps.offsets, pa.StructArray.from_arrays([maps.keys, maps.items], ["key", "value"]))


def needs_a_look(data_type: pa.DataType) -> bool:
    """Whether Arrow's equality isn't ours: there are floats, or dictionaries below the top."""
    if data_type in BITS or pa.types.is_dictionary(data_type):
        return True
    if pa.types.is_run_end_encoded(data_type):
        return needs_a_look(data_type.value_type)
    return any(needs_a_look(data_type.field(index).type) for index in range(data_type.num_fields))
