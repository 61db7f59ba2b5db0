"""Row numbers, however they come."""

from __future__ import annotations

from typing import Any


def to_integers(indices: Any) -> Any:
    """Row numbers as a list of `int`, or as the bytes of 64-bit integers where an array has them."""
    if hasattr(indices, "__arrow_c_array__") or hasattr(indices, "__arrow_c_stream__"):
        indices = indices.to_numpy() if hasattr(indices, "to_numpy") else indices.to_pylist()
    dtype = getattr(indices, "dtype", None)
    if dtype is None or not hasattr(indices, "astype"):
        try:
            numbers = list(indices)
        except TypeError:
            raise TypeError(f"row numbers were expected, not {type(indices).__name__}") from None
        if any(isinstance(number, bool) or not hasattr(number, "__index__") for number in numbers):
            raise TypeError("row numbers were expected: a list or an array of integers")
        return numbers
    if dtype.kind not in "iu" or indices.ndim != 1:
        raise TypeError(f"row numbers were expected: one dimension of integers, not {indices.ndim} of {dtype}")
    # Numbers from 2**63 on are negative then: no row has either.
    is_as_wanted = dtype.itemsize == 8 and dtype.isnative
    return (indices if is_as_wanted else indices.astype("int64")).tobytes()


def call(function: Any, argument: Any, options: dict[str, Any]) -> Any:
    """What `pickle` calls to open a file again."""
    return function(argument, **options)
