"""The package itself: examples, stubs, what importing costs, and what is left behind."""

import doctest
import gc
import inspect
import os
import re
import subprocess
import sys
import threading
from importlib.metadata import distribution
from pathlib import Path

import entasis
import pyarrow as pa
import pytest


def documented():
    """Everything public that has words, by name."""
    for name in entasis.__all__:
        item = getattr(entasis, name)
        yield name, item
        if inspect.isclass(item) and item.__module__ == "entasis":
            yield from ((f"{name}.{key}", value) for key, value in vars(item).items() if not key.startswith("_"))


def test_everything_public_is_documented():
    silent = [name for name, item in documented() if not isinstance(item, str) and not inspect.getdoc(item)]
    assert silent == []


@pytest.mark.usefixtures("in_tmp_path")
def test_the_examples_of_the_documentation():
    parser, count = doctest.DocTestParser(), 0
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    for name, item in documented():
        test = parser.get_doctest(inspect.getdoc(item) or "", {}, name, None, None)
        count += len(test.examples)
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    assert count > 20


def test_the_stubs_say_what_is_there():
    check = [sys.executable, "-m", "mypy.stubtest", "entasis", "--ignore-disjoint-bases"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_are_checked(tmp_path):
    """A program that uses the package passes the strictest checks, and its mistakes are found."""
    program = tmp_path / "program.py"
    program.write_text(
        "import entasis\n"
        "with entasis.EntasisFile('a.ent') as file:\n"
        "    rows: int = file.read(['a']).num_rows\n"
        "    for batch in file.iter_batches():\n"
        "        entasis.write_table(batch, 'b.ent', sorted_by=[entasis.SortColumn('a')])\n"
        "file.read(columns=5)\n"
    )
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", str(program)], capture_output=True, text=True)
    assert re.findall(r":(\d+): error", done.stdout) == ["6"], done.stdout + done.stderr


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_importing_is_quick_and_brings_nothing_along():
    program = (
        "import sys, time; start = time.process_time(); import entasis; print(time.process_time() - start);"
        "print([name for name in ('numpy', 'pandas', 'pyarrow', 'fsspec', 'obstore') if name in sys.modules])"
    )
    found = [run(program).splitlines() for _ in range(5)]
    assert {line for _, line in found} == {"[]"}
    assert min(float(seconds) for seconds, _ in found) < 0.060


def test_nothing_else_is_needed(trips_path):
    """Without pyarrow, NumPy and pandas: files are read and written, and errors say what to install."""
    program = f"""
import sys
for name in ("pyarrow", "numpy", "pandas"):
    sys.modules[name] = None
import entasis
table = entasis.read_table({str(trips_path)!r})
entasis.write_table(table, {str(trips_path.with_name("copy.ent"))!r}, row_group_rows=4096)
print(table.shape, entasis.EntasisFile({str(trips_path)!r}).take([1]).num_rows)
try:
    table.to_pandas()
except ImportError as error:
    print(error)
"""
    assert run(program) == "(10000, 5) 1\npyarrow has to be installed for this: pip install entasis[pandas]\n"
    assert trips_path.with_name("copy.ent").read_bytes() == trips_path.read_bytes()


def test_the_wheel_is_small():
    installed = distribution("entasis").files
    assert any(path.name == "py.typed" for path in installed)
    assert any(path.name.endswith((".abi3.so", ".pyd")) for path in installed)
    wheel = os.environ.get("ENTASIS_WHEEL")
    if wheel is not None:
        assert Path(wheel).stat().st_size < 15_000_000


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts what Linux shows")
def test_thousands_of_opens_leave_nothing_behind(trips_path, tmp_path):
    data = trips_path.read_bytes()
    small = pa.table({"x": [1, 2, 3]})

    def some():
        for source in (trips_path, data):
            with entasis.EntasisFile(source) as file:
                pa.table(file.take([5, 9_000]))
            entasis.EntasisFile(source, memory_map=True).read_row_group(2, ["id"]).to_numpy("id")
        with pytest.raises(entasis.EntasisError):
            entasis.read_table(data[:1_000])
        entasis.write_table(small, tmp_path / "small.ent")
        next(iter(entasis.EntasisFile(trips_path).iter_batches(100)))

    for _ in range(100):
        some()
    gc.collect()
    descriptors, threads, resident = open_descriptors(), threading.active_count(), resident_bytes()
    for _ in range(600):
        some()
    gc.collect()
    assert open_descriptors() <= descriptors
    assert threading.active_count() == threads
    assert resident_bytes() - resident < 12_000_000
