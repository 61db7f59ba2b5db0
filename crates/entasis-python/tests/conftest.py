"""What the tests share."""

from pathlib import Path

import entasis
import pyarrow as pa
import pytest


@pytest.fixture
def trips() -> pa.Table:
    """A table of several kinds of columns, with nulls, over several chunks."""
    rows = 10_000
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "price": pa.array([None if row % 7 == 0 else row % 100 / 4 for row in range(rows)], pa.float64()),
            "city": pa.array([["Paestum", "Segesta", None][row % 3] for row in range(rows)]),
            "tags": pa.array([[str(tag) for tag in range(row % 4)] for row in range(rows)]),
            "place": pa.array([{"lat": row / 8, "lon": -row / 4} for row in range(rows)]),
        }
    )
    return pa.concat_tables([table.slice(0, 1_234), table.slice(1_234)])


@pytest.fixture
def trips_path(trips: pa.Table, tmp_path: Path) -> Path:
    """The table of `trips` in a file of three row groups."""
    path = tmp_path / "trips.ent"
    entasis.write_table(trips, path, row_group_rows=4_096)
    return path


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
