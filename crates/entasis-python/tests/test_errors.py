"""Errors: which class, and what they say."""

import errno
import pickle
import random

import entasis
import pyarrow as pa
import pytest


def test_what_the_system_says(trips, trips_path, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        entasis.read_table(tmp_path / "none.ent")
    assert caught.value.errno == errno.ENOENT
    assert caught.value.filename == str(tmp_path / "none.ent")
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{tmp_path / 'none.ent'}'"
    with pytest.raises(FileNotFoundError):
        entasis.write_table(trips, tmp_path / "folder" / "a.ent")
    with pytest.raises(ValueError, match="is a folder"):
        entasis.read_table(tmp_path)
    with pytest.raises(NotADirectoryError):
        entasis.read_table(trips_path / "a")


def test_classes():
    for error in (entasis.CorruptError, entasis.UnsupportedError, entasis.InvalidArgumentError):
        assert issubclass(error, entasis.EntasisError)
        assert error.__module__ == "entasis" and error.__doc__
        assert type(pickle.loads(pickle.dumps(error("a")))) is error
    assert issubclass(entasis.InvalidArgumentError, ValueError)
    assert issubclass(entasis.UnsupportedError, NotImplementedError)


def test_what_is_not_a_file_of_entasis(trips_path):
    for data in (b"", b"PAR1", b"something else" * 100):
        with pytest.raises(entasis.UnsupportedError, match="isn't an Entasis file"):
            entasis.read_table(data)
    for length in (9, 100, 5_000):
        with pytest.raises(entasis.CorruptError, match="truncated"):
            entasis.read_table(trips_path.read_bytes()[:length])


def test_damaged_files_raise(trips, trips_path):
    """Every byte that is changed gives an error of Entasis, or the same values."""
    whole = trips_path.read_bytes()
    chance = random.Random(5)
    raised = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        try:
            assert entasis.read_table(damaged).to_arrow() == trips
        except entasis.EntasisError as error:
            raised += 1
            assert isinstance(error, (entasis.CorruptError, entasis.UnsupportedError)), error
    assert raised > 250


def test_files_that_are_cut_raise(trips_path):
    whole = trips_path.read_bytes()
    for length in random.Random(6).sample(range(len(whole)), 200):
        with pytest.raises((entasis.CorruptError, entasis.UnsupportedError)):
            entasis.read_table(whole[:length])


def test_a_damage_says_where_and_spares_the_rest(trips_path):
    damaged = bytearray(trips_path.read_bytes())
    damaged[100] ^= 255
    with pytest.raises(
        entasis.CorruptError, match=r'corrupt column "\w+", row group 0, block 0.* at byte \d+'
    ) as caught:
        entasis.read_table(damaged)
    names = entasis.read_schema(damaged).names
    hurt = [name for name in names if f'"{name}"' in str(caught.value)]
    assert len(hurt) == 1
    assert entasis.read_table(damaged, columns=[name for name in names if name not in hurt]).num_rows == 10_000
    with entasis.EntasisFile(damaged) as file:
        assert file.read_row_group(1).num_rows == 4_096


def test_arguments_that_are_wrong(trips, trips_path, tmp_path):
    file = entasis.EntasisFile(trips_path)
    wrong = [
        (TypeError, "list of names was expected, not str", lambda: file.read("id")),
        (TypeError, "list of names was expected, not int", lambda: file.read(5)),
        (TypeError, "list of names was expected, not one of int", lambda: file.read([5])),
        (ValueError, 'has no column "none"', lambda: file.read(["none"])),
        (ValueError, "at least 1", lambda: file.iter_batches(0)),
        (OverflowError, "negative", lambda: file.iter_batches(-1)),
        (ValueError, "0 threads", lambda: file.read(threads=0)),
        (TypeError, "threads", lambda: file.read(threads="two")),
        (TypeError, "views", lambda: file.read(views="yes")),
        (TypeError, "unexpected keyword argument 'colums'", lambda: file.read(colums=["id"])),
        (TypeError, "Arrow data was expected .* not dict", lambda: entasis.write_table({}, tmp_path / "a.ent")),
        (TypeError, "rows with columns were expected, not an array of Int64", lambda: write(pa.array([1]))),
        (TypeError, "rows with columns were expected", lambda: write(pa.chunked_array([[1]]))),
        (ValueError, "row groups of 0 rows", lambda: write(trips, row_group_rows=0)),
        (ValueError, "row groups of 0 bytes", lambda: write(trips, row_group_bytes=0)),
        (TypeError, "dictionary of str", lambda: write(trips, metadata={"a": 1})),
        (TypeError, "dictionary of str", lambda: write(trips, metadata={1: "a"})),
        (TypeError, "encodings", lambda: write(trips, encodings={"id": 1})),
        (TypeError, "encodings", lambda: write(trips, encodings=["Plain"])),
        (TypeError, "profile", lambda: write(trips, profile=1)),
        (TypeError, "sorted_by", lambda: write(trips, sorted_by=[1])),
        (TypeError, "sorted_by", lambda: write(trips, sorted_by=3)),
        (ValueError, "none", lambda: write(trips, sorted_by=["none"])),
        (TypeError, "Arrow schema was expected", lambda: entasis.EntasisWriter(tmp_path / "a.ent", {})),
    ]

    def write(table, **arguments):
        entasis.write_table(table, tmp_path / "a.ent", **arguments)

    for error, words, call in wrong:
        with pytest.raises(error, match=words):
            call()
    assert list(tmp_path.iterdir()) == [trips_path]


def test_rows_that_are_null_as_wholes_are_refused(tmp_path):
    rows = pa.array([{"a": 1}, None])
    for data in (rows, pa.chunked_array([rows])):
        with pytest.raises(ValueError, match="null"):
            entasis.write_table(data, tmp_path / "a.ent")
    entasis.write_table(rows[:1], tmp_path / "a.ent")
    assert entasis.read_table(tmp_path / "a.ent").to_arrow().to_pydict() == {"a": [1]}


def test_nulls_where_the_schema_has_none(tmp_path):
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    table = pa.Table.from_arrays([pa.array([1, None])], schema=schema)
    with pytest.raises(ValueError, match="non-nullable"):
        entasis.write_table(table, tmp_path / "a.ent")
