"""Where people work: pandas, NumPy, Polars, DuckDB."""

import datetime

import duckdb
import entasis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest


def frames():
    values = {"a": [1, 2, 3], "b": ["x", None, "z"], "c": pd.Categorical(["u", "v", "u"])}
    when = pd.date_range("2024-02-28", periods=3, freq="D", name="when")
    yield pd.DataFrame(values)
    yield pd.DataFrame(values, index=pd.RangeIndex(10, 16, 2, name="tens"))
    yield pd.DataFrame(values, index=["one", "two", "three"])
    yield pd.DataFrame(values, index=when.tz_localize("Europe/Rome"))
    yield pd.DataFrame(values, index=pd.MultiIndex.from_product([["k"], [1, 2, 3]], names=["l", None]))
    yield pd.DataFrame({1: [1.5, np.nan], 2: [True, False]})
    yield pd.DataFrame(np.zeros((2, 2)), columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    yield pd.DataFrame({"a": [1], "b": ["x"]}).iloc[:0]
    yield pd.DataFrame(index=[1, 2, 3])


@pytest.mark.parametrize("frame", list(frames()))
def test_frames_come_back_with_their_index(frame, tmp_path):
    entasis.write_table(frame, tmp_path / "a.ent")
    read = entasis.read_table(tmp_path / "a.ent").to_pandas()
    pd.testing.assert_frame_equal(read, pa.Table.from_pandas(frame).to_pandas())
    # pyarrow forgets the categories of no rows.
    if len(frame):
        pd.testing.assert_frame_equal(read, frame, check_freq=False)


ORDERED = {
    "texts": pd.Categorical(["high", None, "low"] * 700, categories=["low", "mid", "high"], ordered=True),
    "numbers": pd.Categorical([3, 1, 3] * 700, categories=[9, 3, 1, -4], ordered=True),
    "times": pd.Categorical(pd.to_datetime(["2024-05-01", "2023-05-01"] * 1_050), ordered=True),
}


@pytest.mark.parametrize("name", ORDERED)
def test_ordered_categories_keep_their_order(name, tmp_path):
    frame = pd.DataFrame({"c": ORDERED[name]})
    path = tmp_path / "a.ent"
    with entasis.EntasisWriter(path, pa.Schema.from_pandas(frame), row_group_rows=1_024) as writer:
        for start in range(0, len(frame), 300):
            writer.write(pa.RecordBatch.from_pandas(frame[start : start + 300]))
    expected = frame["c"].cat.categories
    with entasis.EntasisFile(path) as file:
        pd.testing.assert_frame_equal(file.read().to_pandas(), frame)
        taken = file.take([5, 0, 2_099]).to_pandas()
        pd.testing.assert_frame_equal(taken, frame.iloc[[5, 0, 2_099]].reset_index(drop=True))
        for batch in file.iter_batches(500):
            assert pa.record_batch(batch).column("c").dictionary.to_pylist() == expected.to_list()
    low, high = frame["c"].min(), frame["c"].max()
    read = entasis.read_pandas(path)["c"]
    assert (read.min(), read.max()) == (low, high)


def test_some_columns_come_with_the_index(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=pd.Index(["x", "y"], name="k"))
    entasis.write_table(frame, tmp_path / "a.ent")
    pd.testing.assert_frame_equal(entasis.read_pandas(tmp_path / "a.ent", columns=["b"]), frame[["b"]])
    pd.testing.assert_frame_equal(entasis.read_pandas(tmp_path / "a.ent"), frame)
    ranged = frame.reset_index(drop=True)
    entasis.write_table(ranged, tmp_path / "b.ent")
    pd.testing.assert_frame_equal(entasis.read_pandas(tmp_path / "b.ent", columns=["a"]), ranged[["a"]])
    entasis.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "c.ent")
    assert list(entasis.read_pandas(tmp_path / "c.ent", columns=["b"]).columns) == ["b"]


def test_arguments_go_to_pyarrow(tmp_path):
    entasis.write_table(pa.table({"a": [1, None]}), tmp_path / "a.ent")
    frame = entasis.read_table(tmp_path / "a.ent").to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    assert frame["a"].dtype == pd.Int64Dtype()
    assert len(entasis.read_table(tmp_path / "a.ent").to_batches()[0].to_pandas()) == 2


NUMBERS = [f"{kind}{size}" for kind in ("int", "uint") for size in (8, 16, 32, 64)] + ["float16", "float32", "float64"]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_are_looked_at_without_a_copy(dtype, tmp_path):
    values = np.arange(1_000).astype(dtype)
    vectors = np.arange(8_000).astype(dtype).reshape(1_000, 8)
    cubes = vectors.reshape(1_000, 2, 4)
    table = pa.table(
        {
            "one": values,
            "two": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), 8),
            "three": pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(cubes.reshape(-1), 4), 2),
        }
    )
    entasis.write_table(table, tmp_path / "a.ent")
    read = entasis.read_table(tmp_path / "a.ent")
    for column, expected in [("one", values), ("two", vectors), ("three", cubes)]:
        array = read.to_numpy(column)
        assert array.dtype == expected.dtype and array.shape == expected.shape
        np.testing.assert_array_equal(array, expected)
        assert not array.flags.writeable and not array.flags.owndata
        again = read.to_batches()[0].to_numpy(column)
        assert again.ctypes.data == array.ctypes.data
        leaf = read.to_arrow()[column].chunk(0)
        while pa.types.is_fixed_size_list(leaf.type):
            leaf = leaf.values
        assert array.ctypes.data == leaf.buffers()[1].address + leaf.offset * leaf.type.bit_width // 8


def test_arrays_outlive_what_they_were_read_from(tmp_path):
    entasis.write_table(pa.table({"x": range(100_000)}), tmp_path / "a.ent")
    with entasis.EntasisFile(tmp_path / "a.ent", memory_map=True) as file:
        array = file.read_row_group(0).to_batches()[0].to_numpy("x")
    del file
    np.testing.assert_array_equal(array, np.arange(len(array)))


def test_chunks_are_joined_and_none_are_empty(tmp_path):
    vectors = np.random.default_rng(3).normal(size=(150_000, 4)).astype("float32")
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(vectors.reshape(-1), 4)})
    entasis.write_table(table, tmp_path / "a.ent")
    read = entasis.read_table(tmp_path / "a.ent")
    assert len(read.to_batches()) > 1
    np.testing.assert_array_equal(read.to_numpy("v"), vectors)
    with entasis.EntasisFile(tmp_path / "a.ent") as file:
        whole = next(file.iter_batches(file.num_rows)).to_numpy("v")
    np.testing.assert_array_equal(whole, vectors)
    assert not whole.flags.owndata
    entasis.write_table(table.slice(0, 0), tmp_path / "a.ent")
    empty = entasis.read_table(tmp_path / "a.ent").to_numpy("v")
    assert empty.shape == (0, 4) and empty.dtype == np.float32


def test_dates_and_durations(tmp_path):
    moment = datetime.datetime(2024, 2, 29, 12)
    table = pa.table(
        {
            "t": pa.array([moment], pa.timestamp("ms", "UTC")),
            "d": pa.array([datetime.timedelta(seconds=5)], pa.duration("us")),
        }
    )
    entasis.write_table(table, tmp_path / "a.ent")
    read = entasis.read_table(tmp_path / "a.ent")
    np.testing.assert_array_equal(read.to_numpy("t"), np.array([moment], dtype="datetime64[ms]"))
    np.testing.assert_array_equal(read.to_numpy("d"), np.array([5_000_000], dtype="timedelta64[us]"))


def test_what_numpy_has_not(tmp_path):
    table = pa.table(
        {"s": ["a"], "n": pa.array([None], pa.int8()), "b": [True], "l": pa.array([[1, None]], pa.list_(pa.int8(), 2))}
    )
    entasis.write_table(table, tmp_path / "a.ent")
    read = entasis.read_table(tmp_path / "a.ent")
    for column, words in [
        ("s", "no array of Utf8"),
        ("n", "nulls, 1 of them"),
        ("b", "no array of Boolean"),
        ("l", "nulls"),
    ]:
        with pytest.raises(ValueError, match=words):
            read.to_numpy(column)
    with pytest.raises(KeyError, match="none"):
        read.to_numpy("none")


def test_polars(trips, trips_path, tmp_path):
    frame = pl.DataFrame(entasis.read_table(trips_path))
    assert frame.equals(pl.from_arrow(trips))
    entasis.write_table(frame, tmp_path / "a.ent")
    assert pl.DataFrame(entasis.read_table(tmp_path / "a.ent")).equals(frame)
    assert pl.DataFrame(entasis.EntasisFile(tmp_path / "a.ent").iter_batches(999)).equals(frame)


def test_duckdb(trips_path, tmp_path):
    table = entasis.read_table(trips_path)
    batches = entasis.EntasisFile(trips_path).iter_batches(1_000, columns=["city", "id"])
    for relation in (table, batches):
        query = "SELECT city, sum(id)::BIGINT AS ids FROM relation GROUP BY city ORDER BY city"
        answer = duckdb.sql(query)
        entasis.write_table(answer, tmp_path / "a.ent")
        assert entasis.read_table(tmp_path / "a.ent").to_arrow().to_pydict() == {
            "city": ["Paestum", "Segesta", None],
            "ids": [16_668_333, 16_661_667, 16_665_000],
        }
        del relation
