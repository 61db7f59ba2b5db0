"""The benchmark beside peers, on tables of a moment: it compares, it counts, and it reports."""

import json
import math

import numpy as np
import peers
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import report
from formats import PEERS, Peer
from same import first_difference

HERE = {"Entasis", "Parquet", "ORC", "Feather", "NumPy"}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    rows = 2_000
    table = pa.table(
        {
            "weird <name>": pa.array([f"text {row % 50}" for row in range(rows)], pa.large_string()),
            "x": pa.array(range(rows), pa.int32()),
            "f": pa.array([row % 17 / 4 if row % 5 else math.nan for row in range(rows)]),
            "d": pa.array([["a", "b", None][row % 3] for row in range(rows)]).dictionary_encode(),
            "l": pa.array([[row, None] for row in range(rows)]),
        }
    )
    pyarrow.parquet.write_table(table, folder / "mixed.parquet")
    vectors = np.random.default_rng(2).normal(size=1_000 * 8).astype("float32")
    pyarrow.feather.write_feather(
        pa.table({"v": pa.FixedSizeListArray.from_arrays(vectors, 8)}), folder / "vectors.arrow"
    )
    return folder


def run(monkeypatch, *arguments) -> int:
    monkeypatch.setattr("sys.argv", ["peers.py", *map(str, arguments)])
    return peers.main()


def test_a_folder_is_measured(folder, tmp_path, monkeypatch, capsys):
    out = tmp_path / "report"
    assert run(monkeypatch, folder, "--out", out, "--rounds", 1, "--columns", 2) == 0
    measured = json.loads((out / "report.json").read_text())
    assert [table["name"] for table in measured["tables"]] == ["mixed.parquet", "vectors.arrow"]
    assert len(measured["columns"]) == 3
    took_part = set(measured["settings"])
    # Who isn't installed is named, and nothing fails.
    assert took_part >= HERE and took_part | set(measured["missing"]) == {peer.name for peer in PEERS}
    mixed, vectors = measured["tables"]
    assert "error" in mixed["peers"].pop("NumPy")
    for name, found in [*mixed["peers"].items(), ("NumPy", vectors["peers"]["NumPy"])]:
        assert found.keys() >= set(report.METRICS), (name, found)
        assert found["bytes"] > 1_000 and all(seconds > 0 for seconds in found.values())
    assert vectors["peers"]["NumPy"]["bytes"] > 1_000 * 8 * 4
    page = (out / "report.html").read_text()
    assert page.count("<svg") > 3 and "weird &lt;name&gt;" in page and "<name>" not in page
    assert "src=" not in page and "href=" not in page
    assert "Entasis over the other" in capsys.readouterr().out


def test_folders_without_tables_are_an_error(tmp_path, monkeypatch):
    assert run(monkeypatch, tmp_path) == 2


class Wrong(Peer):
    """A peer that loses the last row, or a sign."""

    name = "Wrong"

    def __init__(self, change):
        self.change = change

    def write(self, table, path):
        path.write_bytes(b"1")
        self.table = table

    def read(self, path, schema):
        return self.change(self.table)


def negative_zeros(table: pa.Table) -> pa.Table:
    return table.set_column(0, "z", pa.array([-0.0, 1.0]))


@pytest.mark.parametrize(
    ("change", "words"), [(lambda table: table.slice(1), "1 rows instead of 2"), (negative_zeros, "other values")]
)
def test_values_are_compared_first(change, words, tmp_path):
    table = pa.table({"z": [0.0, 1.0]})
    found = peers.measure_table("a", table, [Wrong(change)], tmp_path, 1)
    assert words in found["peers"]["Wrong"]["error"] and "bytes" not in found["peers"]["Wrong"]


def test_differences_are_found():
    table = pa.table({"a": [[1.0, None], None], "b": pa.array(["x", "y"]).dictionary_encode()})
    assert first_difference(table, table) is None
    again = table.set_column(1, "b", pa.array(["y", "x"]).dictionary_encode().take([1, 0]))
    assert first_difference(table, again) is None
    for other in (
        table.set_column(0, "a", pa.array([[1.0, 2.0], None])),
        table.set_column(0, "a", pa.array([[1.0], [None]])),
        table.set_column(1, "b", pa.array(["x", "x"]).dictionary_encode()),
        table.rename_columns(["a", "c"]),
    ):
        assert first_difference(table, other) is not None


def test_every_page_is_touched():
    array = np.zeros(10_000, np.uint8)
    array[0], array[4_096], array[5_000] = 3, 5, 100
    assert peers.touch(pa.table({"x": pa.Array.from_buffers(pa.uint8(), 10_000, [None, pa.py_buffer(array)])})) == 8
