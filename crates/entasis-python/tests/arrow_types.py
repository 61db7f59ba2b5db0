"""Every Arrow type that pyarrow has and Entasis covers, with values of each."""

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import pyarrow as pa

NAN, INFINITY = float("nan"), float("inf")
DAY = datetime.date(2024, 2, 29)
MOMENT = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)


def _units() -> list[tuple[pa.DataType, list[Any]]]:
    ticks = [0, 1, -1, 2**62, -(2**62)]
    types: list[pa.DataType] = []
    for unit in ("s", "ms", "us", "ns"):
        types += [
            pa.timestamp(unit),
            pa.timestamp(unit, "Europe/Rome"),
            pa.timestamp(unit, "+01:30"),
            pa.duration(unit),
        ]
    return [(data_type, [pa.scalar(tick, pa.int64()).cast(data_type) for tick in ticks]) for data_type in types]


def _integers() -> list[tuple[pa.DataType, list[Any]]]:
    cases = []
    for bits in (8, 16, 32, 64):
        signed, unsigned = getattr(pa, f"int{bits}")(), getattr(pa, f"uint{bits}")()
        cases.append((signed, [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]))
        cases.append((unsigned, [0, 1, 2**bits - 1]))
    return cases


# Types without children, with values; nulls are added by the tests.
FLAT: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), []),
    (pa.bool_(), [True, False]),
    *_integers(),
    (pa.float16(), [0.0, -0.0, 1.5, -65_504.0, NAN, INFINITY]),
    (pa.float32(), [0.0, -0.0, 1.5, NAN, -INFINITY]),
    (pa.float64(), [0.0, -0.0, 0.1, 1e308, NAN, INFINITY, 5e-324]),
    (pa.string(), ["", "a", "ü€𝄞", "a text that is longer than a view"]),
    (pa.large_string(), ["", "a", "a text that is longer than a view"]),
    (pa.string_view(), ["", "a", "a text that is longer than a view"]),
    (pa.binary(), [b"", b"\x00\xff", b"bytes that are longer than a view"]),
    (pa.large_binary(), [b"", b"\x00\xff"]),
    (pa.binary_view(), [b"", b"\x00\xff", b"bytes that are longer than a view"]),
    (pa.binary(3), [b"abc", b"\x00\x00\x00"]),
    (pa.date32(), [DAY, datetime.date(1, 1, 1)]),
    (pa.date64(), [DAY, datetime.date(1, 1, 1)]),
    (pa.time32("s"), [datetime.time(0, 0, 0), datetime.time(23, 59, 59)]),
    (pa.time32("ms"), [datetime.time(23, 59, 59, 999_000)]),
    (pa.time64("us"), [datetime.time(23, 59, 59, 999_999)]),
    (pa.time64("ns"), [datetime.time(23, 59, 59, 999_999)]),
    *_units(),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3]), pa.MonthDayNano([-1, 0, -(2**62)])]),
    (pa.decimal32(9, 2), [decimal.Decimal("1234567.89"), decimal.Decimal("-0.01")]),
    (pa.decimal64(18, -2), [decimal.Decimal("1200"), decimal.Decimal("-100")]),
    (pa.decimal128(38, 10), [decimal.Decimal("1.0000000001"), decimal.Decimal(-(10**27))]),
    (pa.decimal256(76, 0), [decimal.Decimal(10**75), decimal.Decimal(-(10**75))]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
    (pa.dictionary(pa.uint32(), pa.int64()), [5, 7, 5]),
    (pa.dictionary(pa.int64(), pa.float64()), [1.5, 2.5]),
]


def array_of(data_type: pa.DataType, values: list[Any], repeat: int = 1) -> pa.Array:
    """The values, with nulls among them, so many times."""
    return pa.array(([None, *values, None] if values else [None, None]) * repeat, data_type)


def _offsets(items: int) -> list[int]:
    """Lists of one, none, two, three … items, to the end."""
    lengths, offsets = [1, 0, 2, 3, 0, 5], [0]
    while offsets[-1] < items:
        offsets.append(min(offsets[-1] + lengths[len(offsets) % len(lengths)], items))
    return offsets


def _lists(kind: Any) -> Callable[[pa.Array], pa.Array]:
    def nest(items: pa.Array) -> pa.Array:
        offsets = _offsets(len(items))
        nulls = [index % 4 == 3 and offsets[index] == offsets[index + 1] for index in range(len(offsets) - 1)]
        return kind.from_arrays(offsets, items, mask=pa.array(nulls, pa.bool_()))

    return nest


def _fixed_size_lists(items: pa.Array) -> pa.Array:
    lists = pa.FixedSizeListArray.from_arrays(items[: len(items) // 2 * 2], 2)
    return pa.concat_arrays([lists, pa.nulls(2, lists.type)])


def _structs(items: pa.Array) -> pa.Array:
    nulls = pa.array([index % 3 == 1 for index in range(len(items))], pa.bool_())
    return pa.StructArray.from_arrays([items, pa.array(range(len(items)))], names=["a", "b"], mask=nulls)


def _list_views(kind: Any) -> Callable[[pa.Array], pa.Array]:
    def nest(items: pa.Array) -> pa.Array:
        # Out of order, and some items in several views.
        starts = [start for start in range(0, len(items) - 3, 2)][::-1]
        return pa.concat_arrays(
            [kind.from_arrays(starts, [start % 4 for start in starts], items), pa.nulls(1, kind_of(items))]
        )

    def kind_of(items: pa.Array) -> pa.DataType:
        return (pa.list_view if kind is pa.ListViewArray else pa.large_list_view)(items.type)

    return nest


def _maps(items: pa.Array) -> pa.Array:
    keys = pa.array([f"key {index % 7}" for index in range(len(items))])
    maps = pa.MapArray.from_arrays(_offsets(len(items)), keys, items)
    return pa.concat_arrays([maps, pa.nulls(2, maps.type)])


def _runs(items: pa.Array) -> pa.Array:
    # Neighbours that differ: runs come back as the longest that there are.
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(2, 4), pa.int32()), items[:2])


def _sparse_union(items: pa.Array) -> pa.Array:
    types = pa.array([index % 2 for index in range(len(items))], pa.int8())
    return pa.UnionArray.from_sparse(types, [items, pa.array(range(len(items)))], ["items", "numbers"], [0, 1])


def _dense_union(items: pa.Array) -> pa.Array:
    types = pa.array([5, 9] * len(items), pa.int8())
    offsets = pa.array([index // 2 for index in range(2 * len(items))], pa.int32())
    return pa.UnionArray.from_dense(types, offsets, [items, pa.array(range(len(items)))], ["items", "numbers"], [5, 9])


# Ways to put arrays into others.
NESTED: dict[str, Callable[[pa.Array], pa.Array]] = {
    "list": _lists(pa.ListArray),
    "large list": _lists(pa.LargeListArray),
    "fixed-size list": _fixed_size_lists,
    "struct": _structs,
    "list view": _list_views(pa.ListViewArray),
    "large list view": _list_views(pa.LargeListViewArray),
    "map": _maps,
    "runs": _runs,
    "sparse union": _sparse_union,
    "dense union": _dense_union,
}
