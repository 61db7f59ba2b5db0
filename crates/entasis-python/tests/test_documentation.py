"""The tutorial and the README's examples run, and say what happens."""

import doctest
import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PLOTS = ("columns.png", "hours.png")


def run_examples(page: Path) -> int:
    """Runs all examples of a page in one session; how many there were."""
    failed, count = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert failed == 0
    return count


@pytest.mark.usefixtures("in_tmp_path")
def test_the_tutorial(tmp_path):
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    assert run_examples(ROOT / "docs" / "python.md") > 40
    for plot in PLOTS:
        assert (tmp_path / plot).read_bytes().startswith(b"\x89PNG")
        # How the pictures of the page are made anew.
        if "ENTASIS_KEEP_PLOTS" in os.environ:
            shutil.copy(tmp_path / plot, ROOT / "docs" / "images")
        assert (ROOT / "docs" / "images" / plot).exists(), "the page shows plots that the repository lacks"


@pytest.mark.usefixtures("in_tmp_path")
def test_the_readme(tmp_path):
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    assert run_examples(ROOT / "README.md") >= 5
