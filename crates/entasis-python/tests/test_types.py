"""Every Arrow type both ways: by pyarrow, and by the PyCapsule interface alone."""

import arrow_types
import entasis
import hypothesis
import pyarrow as pa
import pytest
from equal import assert_same, taken
from hypothesis import strategies as st


def assert_round_trip(table: pa.Table, path, **options) -> None:
    entasis.write_table(table, path, **options)
    with entasis.EntasisFile(path) as file:
        read = file.read()
        assert_same(read.to_arrow(), table)
        assert pa.schema(file.schema_arrow).equals(table.schema, check_metadata=True)
        rows = [table.num_rows - 1, 0] if table.num_rows else []
        assert_same(file.take(rows).to_arrow(), taken(table, rows))
    # What was read goes in again, and gives the same file.
    again = path.with_name("again.ent")
    entasis.write_table(read, again, **options)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("data_type", "values"), arrow_types.FLAT, ids=[str(case[0]) for case in arrow_types.FLAT])
@pytest.mark.parametrize("repeat", [1, 700])
def test_types(data_type, values, repeat, tmp_path):
    array = arrow_types.array_of(data_type, values, repeat)
    assert_round_trip(pa.table({"x": array}), tmp_path / "a.ent")
    assert_round_trip(pa.table({"x": array[1:-1]}), tmp_path / "a.ent", row_group_rows=1_024)


@pytest.mark.parametrize("way", arrow_types.NESTED)
@pytest.mark.parametrize(("data_type", "values"), arrow_types.FLAT, ids=[str(case[0]) for case in arrow_types.FLAT])
def test_types_in_others(way, data_type, values, tmp_path):
    items = arrow_types.array_of(data_type, values, 50)
    array = arrow_types.NESTED[way](items)
    array.validate(full=True)
    assert_round_trip(pa.table({"x": array}), tmp_path / "a.ent")
    assert_round_trip(pa.table({"x": array[3:-2]}), tmp_path / "a.ent")


def test_types_nested_deeply(tmp_path):
    item = pa.struct({"a": pa.list_(pa.struct({"b": pa.large_list(pa.string()), "c": pa.list_(pa.float32(), 2)}))})
    values = [
        {"a": [{"b": ["x", None], "c": [1, 2]}, None, {"b": None, "c": None}]},
        None,
        {"a": None},
        {"a": []},
    ]
    assert_round_trip(pa.table({"x": pa.array(values * 500, item)}), tmp_path / "a.ent")


def test_extension_types_keep_their_names(tmp_path):
    uuid = pa.array([b"0123456789abcdef", None], pa.uuid())
    table = pa.table({"id": uuid, "j": pa.array(['{"a": 1}', None], pa.json_())})
    entasis.write_table(table, tmp_path / "a.ent")
    assert entasis.read_table(tmp_path / "a.ent").to_arrow().equals(table)


FLAT_TYPES = [case for case in arrow_types.FLAT if case[1]]


@st.composite
def arrays(draw, rows: int) -> pa.Array:
    """An array of any flat type, or of lists or structs of them, with so many rows."""
    data_type, values = draw(st.sampled_from(FLAT_TYPES))
    if pa.types.is_integer(data_type):
        width = data_type.bit_width
        signed = str(data_type).startswith("int")
        value = st.integers(-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else st.integers(0, 2**width - 1)
    elif pa.types.is_float64(data_type):
        value = st.floats()
    elif pa.types.is_string(data_type) or pa.types.is_large_string(data_type):
        value = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
    else:
        value = st.sampled_from(values)
    value = st.none() | value
    shape = draw(st.sampled_from(["flat", "list", "struct", "map"]))
    if shape == "list":
        data_type, value = pa.list_(data_type), st.none() | st.lists(value, max_size=3)
    elif shape == "struct":
        data_type, value = pa.struct({"a": data_type}), st.none() | st.fixed_dictionaries({"a": value})
    elif shape == "map":
        entries = st.lists(st.tuples(st.sampled_from("ab"), value), max_size=2)
        data_type, value = pa.map_(pa.string(), data_type), st.none() | entries
    few = draw(st.lists(value, min_size=1, max_size=8))
    # Runs, repeats and noise: what encodings are chosen by.
    order = draw(st.sampled_from(["repeat", "runs", "shuffle"]))
    if order == "repeat":
        indices = [row % len(few) for row in range(rows)]
    elif order == "runs":
        indices = [row * len(few) // max(rows, 1) for row in range(rows)]
    else:
        chance = draw(st.randoms(use_true_random=False))
        indices = [chance.randrange(len(few)) for _ in range(rows)]
    return pa.array([few[index] for index in indices], data_type)


@st.composite
def tables(draw) -> pa.Table:
    rows = draw(st.sampled_from([0, 1, 2, 1_000, 1_024, 1_025, 3_000]))
    columns = [draw(arrays(rows)) for _ in range(draw(st.integers(1, 4)))]
    # Names that contain a zero byte end there in the C data interface.
    letters = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
    names = [draw(st.text(letters, max_size=5)) for _ in columns]
    table = pa.Table.from_arrays(columns, names=names)
    if rows and draw(st.booleans()):
        cut = draw(st.integers(0, rows))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    return table


@hypothesis.settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
@hypothesis.given(tables(), st.sampled_from([None, 1_024]), st.sampled_from([1, 3]))
def test_any_table_comes_back(tmp_path, table, row_group_rows, threads):
    path = tmp_path / "any.ent"
    entasis.write_table(table, path, row_group_rows=row_group_rows, threads=threads)
    with entasis.EntasisFile(path) as file:
        assert_same(file.read(threads=threads).to_arrow(), table)
        if table.num_rows:
            rows = [table.num_rows - 1, 0, table.num_rows // 2]
            assert_same(file.take(rows).to_arrow(), taken(table, rows))
