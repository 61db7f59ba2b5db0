"""`entasis.inspect`: the same as values, as text and as a page."""

import re
from html.parser import HTMLParser

import entasis
import pyarrow as pa
import pytest


def test_columns_are_described(trips_path):
    seen = entasis.inspect(trips_path)
    assert [column.path for column in seen.columns] == [
        "id", "price", "city", "tags", "place", "place.lat", "place.lon"
    ]  # fmt: skip
    first, price, *_ = seen.columns
    assert (first.type, first.rows, first.blocks, first.nulls) == ("Int64", 10_000, 3, 0)
    assert price.nulls == 1_429
    assert first.size_bytes < first.decoded_bytes == 80_000
    assert sum(column.size_bytes for column in seen.columns) < seen.metadata.size_bytes
    for column in seen.columns:
        assert sum(used.blocks for used in column.cascades) == column.blocks
        for used in column.cascades:
            assert used.words.startswith(used.tree.encoding)
            assert used.tree.rows <= 10_000
            assert used.tree.total_bytes >= used.tree.size_bytes
    assert price.cascades[0].words.startswith("Validity(")
    assert price.cascades[0].tree.children


def test_the_text(trips_path):
    lines = repr(entasis.inspect(trips_path)).splitlines()
    assert re.fullmatch(r"10,000 rows, 5 columns, 3 row groups, [\d.]+ kB, written by entasis \S+", lines[0])
    assert lines[1].split() == ["column", "type", "bytes", "ratio", "nulls", "encoded", "as"]
    assert lines[2].startswith("id         Int64")
    assert re.search(r"place +struct +0 +– +0", lines[6])


class Balance(HTMLParser):
    """Whether every element is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page(trips_path, tmp_path):
    table = pa.table({"<script>alert(1)</script>": [1, 2], "b&c": ["x", None]})
    entasis.write_table(table, tmp_path / "a.ent")
    page = entasis.inspect(tmp_path / "a.ent")._repr_html_()
    assert "<script" not in page and "&lt;script&gt;" in page and "b&amp;c" in page
    parser = Balance()
    parser.feed(entasis.inspect(trips_path)._repr_html_())
    assert parser.open == []
    assert {"id", "place.lat", "Int64"} <= set(parser.text)
    assert any(text.startswith("Delta") for text in parser.text)


def test_files_of_nothing_and_of_damage(tmp_path, trips_path):
    entasis.write_table(pa.table({"x": [1]}).select([]), tmp_path / "a.ent")
    seen = entasis.inspect(tmp_path / "a.ent")
    assert seen.columns == () and "1 row, 0 columns" in repr(seen) and "<table>" in seen._repr_html_()
    damaged = bytearray(trips_path.read_bytes())
    damaged[64] ^= 255
    with pytest.raises(entasis.CorruptError):
        entasis.inspect(damaged)
    with pytest.raises(FileNotFoundError):
        entasis.inspect(tmp_path / "none.ent")
