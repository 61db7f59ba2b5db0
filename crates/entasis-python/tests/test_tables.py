"""Whole tables: written, read, and what files say of themselves."""

import io
import random
from pathlib import Path

import entasis
import pyarrow as pa
import pytest
from equal import assert_same


def test_a_table_comes_back(trips, trips_path):
    table = entasis.read_table(trips_path)
    assert table.shape == (10_000, 5) and len(table) == 10_000
    assert table.column_names == ["id", "price", "city", "tags", "place"]
    assert table.nbytes > 10_000 * 8
    assert_same(table.to_arrow(), trips)
    assert_same(pa.table(table), trips)


def test_batches_come_back(trips, tmp_path):
    batch = trips.combine_chunks().to_batches()[0]
    entasis.write_table(batch, tmp_path / "a.ent")
    read = entasis.read_table(tmp_path / "a.ent").to_batches()
    assert [len(part) for part in read] == [10_000]
    assert pa.record_batch(read[0]) == batch
    assert read[0].to_arrow() == batch
    assert read[0].shape == (10_000, 5)
    # What was read can be written.
    entasis.write_table(read[0], tmp_path / "b.ent")
    entasis.write_table(entasis.read_table(tmp_path / "a.ent"), tmp_path / "c.ent")
    whole = (tmp_path / "a.ent").read_bytes()
    assert (tmp_path / "b.ent").read_bytes() == whole
    assert (tmp_path / "c.ent").read_bytes() == whole


def test_columns_are_read_in_the_order_of_their_names(trips, trips_path):
    table = entasis.read_table(trips_path, columns=["price", "id"])
    assert_same(table.to_arrow(), trips.select(["price", "id"]))
    table = entasis.read_table(trips_path, columns=("place.lon",))
    assert table.to_arrow().column("place").combine_chunks().field("lon").to_pylist()[:3] == [0, -0.25, -0.5]
    nothing = entasis.read_table(trips_path, columns=[])
    assert nothing.shape == (10_000, 0)


def test_bytes_depend_on_rows_and_options_alone(trips, tmp_path):
    written = []
    for number, table in enumerate([trips, trips.combine_chunks(), pa.Table.from_batches(trips.to_batches(77))]):
        for threads in (1, 2, 5):
            entasis.write_table(table, tmp_path / f"{number}.ent", threads=threads)
            written.append((tmp_path / f"{number}.ent").read_bytes())
    assert len(set(written)) == 1


def test_many_row_groups(trips, tmp_path):
    path = tmp_path / "many.ent"
    entasis.write_table(trips, path, row_group_rows=100)
    metadata = entasis.read_metadata(path)
    assert (metadata.num_rows, metadata.num_row_groups) == (10_000, 100)
    assert metadata.row_group_rows == [100] * 100
    for threads in (None, 1, 3):
        assert_same(entasis.read_table(path, threads=threads).to_arrow(), trips)


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_of_no_row_and_of_one(trips, tmp_path, rows):
    entasis.write_table(trips.slice(0, rows), tmp_path / "a.ent")
    read = entasis.read_table(tmp_path / "a.ent")
    assert read.num_rows == rows
    assert_same(read.to_arrow(), trips.slice(0, rows))


def test_a_table_without_columns(tmp_path):
    table = pa.table({"x": [1, 2, 3]}).select([])
    entasis.write_table(table, tmp_path / "a.ent")
    assert entasis.read_table(tmp_path / "a.ent").shape == (3, 0)
    assert entasis.read_metadata(tmp_path / "a.ent").num_rows == 3


def test_several_columns_of_one_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["x"]), pa.array([2.5])], names=["a", "a", "b"])
    entasis.write_table(table, tmp_path / "a.ent")
    assert_same(entasis.read_table(tmp_path / "a.ent").to_arrow(), table)
    assert entasis.read_table(tmp_path / "a.ent", columns=["a"]).column_names == ["a", "a"]


def test_the_schema_comes_back_with_its_metadata(tmp_path):
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False, metadata={"unit": "none"}),
            pa.field("when", pa.timestamp("us", "Europe/Rome")),
        ],
        metadata={"about": "nothing", "ü": "ö"},
    )
    entasis.write_table(schema.empty_table(), tmp_path / "a.ent")
    read = entasis.read_schema(tmp_path / "a.ent")
    assert read.names == ["id", "when"] and len(read) == 2
    assert pa.schema(read).equals(schema, check_metadata=True)
    assert read.to_arrow().equals(schema, check_metadata=True)
    assert read.metadata == schema.metadata
    assert read == entasis.read_schema(tmp_path / "a.ent")
    assert "id: Int32" in repr(read)


def test_metadata_of_the_file(trips, tmp_path):
    path = tmp_path / "a.ent"
    entasis.write_table(trips, path, metadata={"text": "ü", "bytes": b"\xff\x00"}, sorted_by=["id"])
    metadata = entasis.read_metadata(path)
    assert metadata.metadata == {"text": "ü".encode(), "bytes": b"\xff\x00"}
    assert list(metadata.metadata) == ["text", "bytes"]
    assert metadata.created_by.startswith("entasis ")
    assert metadata.size_bytes == path.stat().st_size
    assert (metadata.num_columns, metadata.num_row_groups) == (5, 1)
    assert repr(metadata) == "entasis.FileMetadata: 10000 rows, 5 columns, 1 row group"


def test_profiles_weigh_bytes_against_time(trips, tmp_path):
    sizes = {}
    for profile in ("size", "balanced", "scan"):
        entasis.write_table(trips, tmp_path / f"{profile}.ent", profile=profile)
        assert_same(entasis.read_table(tmp_path / f"{profile}.ent").to_arrow(), trips)
        sizes[profile] = (tmp_path / f"{profile}.ent").stat().st_size
    assert sizes["size"] <= sizes["balanced"] <= sizes["scan"]
    entasis.write_table(trips, tmp_path / "default.ent")
    assert (tmp_path / "default.ent").read_bytes() == (tmp_path / "balanced.ent").read_bytes()
    with pytest.raises(entasis.InvalidArgumentError, match="size, balanced and scan"):
        entasis.write_table(trips, tmp_path / "a.ent", profile="small")


def test_columns_have_the_encodings_that_are_asked_for(trips, tmp_path):
    path = tmp_path / "a.ent"
    encodings = {"id": "BitPacking", "place.lat": "Plain"}
    with entasis.EntasisWriter(path, trips.schema, profile="scan", encodings=encodings) as writer:
        writer.write(trips)
    assert_same(entasis.read_table(path).to_arrow(), trips)
    words = {column.path: column.cascade_words for column in entasis.inspect(path).columns}
    assert words["id"].startswith("BitPacking") and words["place.lat"] == "Plain"
    with pytest.raises(entasis.InvalidArgumentError, match="Alp"):
        entasis.write_table(trips, path, encodings={"city": "Alp"})
    with pytest.raises(entasis.InvalidArgumentError, match="none"):
        entasis.write_table(trips, path, encodings={"none": "Plain"})


def test_columns_have_the_bloom_filters_that_are_asked_for(tmp_path):
    path = tmp_path / "a.ent"
    rows, chance = range(70_000), random.Random(1)
    ids = [chance.getrandbits(62) for _ in rows]
    table = pa.table({"id": ids, "key": [f"{number:016x}" for number in ids], "row": rows})
    entasis.write_table(table, path, bloom=["id", "row"])
    assert_same(entasis.read_table(path).to_arrow(), table)
    usual, none, ascending = (column.bloom_bytes for column in entasis.inspect(path).columns)
    assert usual > 80_000 and (none, ascending) == (0, 0)
    assert "Bloom filters" in repr(entasis.inspect(path)) and "Bloom filters" in entasis.inspect(path)._repr_html_()
    with entasis.EntasisWriter(path, table.schema, bloom={"id": 0.1, "key": 0.001}) as writer:
        writer.write(table)
    few, many, _ = (column.bloom_bytes for column in entasis.inspect(path).columns)
    assert few < usual < many
    for wrong in ["id", [1], {"id": "often"}, 7]:
        with pytest.raises(TypeError, match="bloom: a list of column names, or a dictionary of them to rates"):
            entasis.write_table(table, path, bloom=wrong)
    for wrong, what in [(["none"], "names no column of values"), ({"id": 1}, "at a rate of 1")]:
        with pytest.raises(entasis.InvalidArgumentError, match=what):
            entasis.write_table(table, path, bloom=wrong)


def test_the_sort_order_is_verified(trips, tmp_path):
    path = tmp_path / "a.ent"
    orders = [
        ("id", [entasis.SortColumn("id")]),
        ([entasis.SortColumn("place.lon", descending=True), "id"], None),
        ([("place.lat", False, True)], [entasis.SortColumn("place.lat", nulls_first=True)]),
    ]
    for sorted_by, expected in orders:
        entasis.write_table(trips, path, sorted_by=sorted_by)
        expected = expected or [entasis.SortColumn("place.lon", True), entasis.SortColumn("id")]
        assert entasis.read_metadata(path).sorted_by == expected
    with pytest.raises(entasis.InvalidArgumentError, match="order"):
        entasis.write_table(trips, path, sorted_by="price")
    # The earlier file is still there.
    assert entasis.read_metadata(path).num_rows == 10_000


def test_strings_come_as_views_or_with_offsets(tmp_path):
    table = pa.table(
        {"text": ["a", None, "a text that is longer than a view"], "bytes": pa.array([b"", b"\xff", None])}
    )
    entasis.write_table(table, tmp_path / "a.ent")
    views = entasis.read_table(tmp_path / "a.ent", views=True).to_arrow()
    assert views.schema.types == [pa.string_view(), pa.binary_view()]
    assert views.to_pydict() == table.to_pydict()
    entasis.write_table(views, tmp_path / "b.ent")
    assert_same(entasis.read_table(tmp_path / "b.ent").to_arrow(), views)
    assert_same(entasis.read_table(tmp_path / "b.ent", views=False).to_arrow(), table)


def test_dictionaries_come_back(tmp_path):
    chunks = [pa.array(["x", None, "y"]).dictionary_encode(), pa.array(["z", "y"]).dictionary_encode()]
    table = pa.table({"d": pa.chunked_array(chunks)})
    entasis.write_table(table, tmp_path / "a.ent")
    read = entasis.read_table(tmp_path / "a.ent").to_arrow()
    assert read.schema == table.schema
    assert read.to_pydict() == {"d": ["x", None, "y", "z", "y"]}


def test_slices_are_written_as_they_are(trips, tmp_path):
    for start, length in [(1, 1), (7, 100), (1_230, 10), (9_999, 1)]:
        entasis.write_table(trips.slice(start, length), tmp_path / "a.ent")
        assert_same(entasis.read_table(tmp_path / "a.ent").to_arrow(), trips.slice(start, length))


def test_representations(trips_path):
    table = entasis.read_table(trips_path, columns=["id", "city"])
    assert repr(table) == "entasis.Table: 10000 rows × 2 columns\n  id: Int64\n  city: Utf8"
    assert repr(table.to_batches()[0]).startswith("entasis.RecordBatch: 4096 rows")
    buffer = io.BytesIO()
    entasis.write_table(pa.table({f"c{number}": [1] for number in range(30)}), buffer)
    assert "… and 10 more" in repr(entasis.read_table(buffer))


def test_paths_may_be_anything_that_is_a_path(trips, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ["~/a ü.ent", tmp_path / "b.ent", str(tmp_path / "c.ent"), (tmp_path / "d%20e.ent").as_uri()]:
        entasis.write_table(trips, path)
        assert entasis.read_metadata(path).num_rows == 10_000
    assert sorted(Path(tmp_path).iterdir()) == [tmp_path / name for name in ["a ü.ent", "b.ent", "c.ent", "d%20e.ent"]]
