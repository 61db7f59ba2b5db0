"""Open files, single rows, batches, and files written as rows come."""

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import entasis
import numpy as np
import pyarrow as pa
import pytest
from equal import assert_same


def test_an_open_file_says_what_it_is(trips, trips_path):
    with entasis.EntasisFile(trips_path) as file:
        assert (file.num_rows, file.num_columns, file.num_row_groups) == (10_000, 5, 3)
        assert pa.schema(file.schema_arrow).equals(trips.schema, check_metadata=True)
        assert file.metadata.row_group_rows == [4_096, 4_096, 1_808]
        assert not file.closed
        assert repr(file).endswith("10000 rows, 5 columns, 3 row groups")
        table = file.read(["id"])
    assert file.closed and repr(file) == "entasis.EntasisFile: closed"
    assert table.to_arrow() == trips.select(["id"])
    with pytest.raises(ValueError, match="closed"):
        file.read()
    with pytest.raises(ValueError, match="closed"):
        _ = file.num_rows
    file.close()


@pytest.mark.parametrize("memory_map", [False, True])
def test_row_groups(trips, trips_path, memory_map):
    file = entasis.EntasisFile(trips_path, memory_map=memory_map)
    assert_same(file.read_row_group(1).to_arrow(), trips.slice(4_096, 4_096))
    last_first = pa.concat_tables([trips.slice(8_192), trips.slice(0, 4_096)]).select(["city"])
    assert_same(file.read_row_groups([2, 0], ["city"]).to_arrow(), last_first)
    with pytest.raises(entasis.InvalidArgumentError, match="row group 3 of 3"):
        file.read_row_group(3)


def test_batches(trips, trips_path):
    file = entasis.EntasisFile(trips_path)
    batches = list(file.iter_batches(3_000, columns=["id", "tags"]))
    assert [len(batch) for batch in batches] == [3_000, 1_096, 3_000, 1_096, 1_808]
    read = pa.Table.from_batches([pa.record_batch(batch) for batch in batches])
    assert_same(read, trips.select(["id", "tags"]))
    assert [len(batch) for batch in file.iter_batches(row_groups=[2])] == [1_808]
    assert pa.schema(file.iter_batches().schema) == trips.schema
    assert [len(batch) for batch in file.iter_batches(threads=1)] == [4_096, 4_096, 1_808]


def test_batches_are_a_stream(trips, trips_path):
    file = entasis.EntasisFile(trips_path)
    batches = file.iter_batches(1_000)
    next(batches)
    rest = pa.RecordBatchReader.from_stream(batches).read_all()
    assert_same(rest, trips.slice(1_000))
    with pytest.raises(StopIteration):
        next(batches)
    with pytest.raises(ValueError, match="read already"):
        pa.RecordBatchReader.from_stream(batches)


def test_a_stream_goes_from_file_to_file(trips, trips_path, tmp_path):
    file = entasis.EntasisFile(trips_path)
    entasis.write_table(file.iter_batches(512), tmp_path / "copy.ent", row_group_rows=4_096)
    assert (tmp_path / "copy.ent").read_bytes() == trips_path.read_bytes()


def test_take(trips, trips_path):
    file = entasis.EntasisFile(trips_path)
    rows = [9_999, 0, 4_095, 4_096, 0, 8_191]
    expected = trips.take(rows)
    forms = [
        rows,
        tuple(rows),
        iter(rows),
        np.array(rows),
        np.array(rows, dtype="uint16"),
        np.array(rows, dtype=">i4"),
        np.array(rows, dtype=">i8"),
        np.array(rows, dtype="uint64"),
        np.repeat(rows, 2)[::2],
        pa.array(rows),
        pa.chunked_array([rows[:2], rows[2:]]),
    ]
    for form in forms:
        assert_same(file.take(form).to_arrow(), expected)
    assert_same(file.take(rows, ["price"]).to_arrow(), expected.select(["price"]))
    assert_same(file.take(range(100)).to_arrow(), trips.slice(0, 100))
    assert_same(file.take([]).to_arrow(), trips.slice(0, 0))
    assert file.take([1], views=True).to_arrow().schema.field("city").type == pa.string_view()


def test_take_many(trips, trips_path):
    rows = np.random.default_rng(7).integers(0, 10_000, 50_000)
    assert_same(entasis.EntasisFile(trips_path).take(rows).to_arrow(), trips.take(rows))


def test_rows_that_are_none(trips_path):
    file = entasis.EntasisFile(trips_path)
    for rows in ([10_000], [-1], np.array([0, 2**40]), np.array([2**63 + 1], dtype="uint64")):
        with pytest.raises(IndexError, match="of 10000"):
            file.take(rows)
    for rows in ([1.0], ["1"], [True], np.array([1.5]), np.array([[1]]), 5, None):
        with pytest.raises(TypeError, match="row numbers were expected"):
            file.take(rows)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_files_are_pickled_by_how_they_were_opened(trips_path, protocol):
    for source in (trips_path, str(trips_path), trips_path.read_bytes()):
        file = entasis.EntasisFile(source, memory_map=isinstance(source, str))
        other = pickle.loads(pickle.dumps(file, protocol))
        assert other.take([17], ["id"]).to_arrow().to_pydict() == {"id": [17]}
    with trips_path.open("rb") as raw, pytest.raises(TypeError, match="pickle"):
        pickle.dumps(entasis.EntasisFile(raw), protocol)


def _sum_of(file: entasis.EntasisFile, row_group: int) -> int:
    return sum(file.read_row_group(row_group, ["id"]).to_arrow().column("id").to_pylist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_files_in_other_processes(trips_path, method):
    file = entasis.EntasisFile(trips_path)
    # Threads have been at work before the fork.
    file.read()
    with multiprocessing.get_context(method).Pool(2) as pool:
        sums = pool.starmap(_sum_of, [(file, 0), (file, 1), (file, 2)])
    assert sum(sums) == sum(range(10_000))
    assert file.read().num_rows == 10_000


def test_several_threads_share_a_file(trips, trips_path):
    file = entasis.EntasisFile(trips_path)
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda number: file.read_row_group(number % 3).num_rows, range(60)))
        taken = list(pool.map(lambda row: file.take([row], ["id"]).to_arrow()["id"][0].as_py(), range(0, 10_000, 100)))
    assert read == [4_096, 4_096, 1_808] * 20
    assert taken == list(range(0, 10_000, 100))


def test_a_writer_takes_what_comes(trips, tmp_path):
    path = tmp_path / "a.ent"
    with entasis.EntasisWriter(path, trips.schema, row_group_rows=4_096, metadata={"k": "v"}) as writer:
        assert pa.schema(writer.schema) == trips.schema
        for batch in trips.to_batches(999):
            writer.write(batch)
            assert not path.exists()
        writer.write(trips)
        assert not writer.closed
    assert writer.closed
    assert_same(entasis.read_table(path).to_arrow(), pa.concat_tables([trips, trips]))
    assert entasis.read_metadata(path).metadata == {"k": b"v"}
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(trips)


def test_nothing_is_left_where_writing_fails(trips, tmp_path):
    path = tmp_path / "a.ent"
    with pytest.raises(RuntimeError, match="mine"), entasis.EntasisWriter(path, trips.schema) as writer:
        writer.write(trips)
        raise RuntimeError("mine")
    assert list(tmp_path.iterdir()) == []
    writer = entasis.EntasisWriter(path, trips.schema)
    writer.write(trips)
    writer.abort()
    assert writer.closed
    del writer
    assert list(tmp_path.iterdir()) == []


def test_rows_of_another_schema_are_refused_and_others_follow(trips, tmp_path):
    with entasis.EntasisWriter(tmp_path / "a.ent", trips.schema, sorted_by="id") as writer:
        writer.write(trips.slice(0, 10))
        with pytest.raises(entasis.InvalidArgumentError, match="schema"):
            writer.write(trips.select(["id"]))
        with pytest.raises(entasis.InvalidArgumentError, match="order"):
            writer.write(trips.slice(5, 10))
        writer.write(trips.slice(10, 10))
    assert_same(entasis.read_table(tmp_path / "a.ent").to_arrow(), trips.slice(0, 20))
