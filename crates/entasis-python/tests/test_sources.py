"""Where files may come from and go to."""

import io
import os
import pickle
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import entasis
import fsspec
import obstore.store
import pyarrow as pa
import pyarrow.fs
import pytest
from entasis import _sources
from equal import assert_same


@pytest.fixture
def small() -> pa.Table:
    return pa.table({"x": range(1_000), "s": [str(row % 13) * 20 for row in range(1_000)]})


def test_bytes(small, trips_path):
    buffer = io.BytesIO()
    entasis.write_table(small, buffer)
    assert not buffer.closed
    for source in (buffer.getvalue(), bytearray(buffer.getvalue()), memoryview(buffer.getvalue()), buffer):
        assert_same(entasis.read_table(source).to_arrow(), small)
        assert entasis.read_metadata(source).num_rows == 1_000
        assert entasis.EntasisFile(source).take([3], ["x"]).to_arrow().to_pydict() == {"x": [3]}
    path = trips_path.with_name("b.ent")
    entasis.write_table(small, path)
    assert path.read_bytes() == buffer.getvalue()


def test_paths(small, tmp_path, monkeypatch):
    class Named:
        """Something of somebody's that has a path."""

        def __init__(self, path):
            self.path = path

        def __fspath__(self):
            return self.path

    class Opened(Named):
        """A file object that has a path besides: it is read as what it is."""

        def __init__(self, path, file):
            super().__init__(path)
            self.read, self.seek, self.tell = file.read, file.seek, file.tell

    class Text(str):
        pass

    (tmp_path / "x:").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    names = ["a.ent", "ünïcödé ☃.ent", "a b.ent", "~", "x:/a.ent", os.fsdecode(b"\xff.ent")]
    for name in names:
        path = tmp_path / name
        entasis.write_table(small, path)
        for source in (str(path), path, Named(str(path)), Named(os.fsencode(path)), Text(path), Path(name)):
            if source == Path("~"):
                continue
            assert_same(entasis.read_table(source).to_arrow(), small)
            assert entasis.read_schema(source).names == ["x", "s"]
    assert entasis.read_metadata("~/a.ent").num_rows == 1_000
    assert entasis.read_metadata(Path("~/a.ent")).num_rows == 1_000
    assert entasis.read_metadata((tmp_path / "a.ent").as_uri()).num_rows == 1_000
    # A path object that looks like a URL is none.
    assert entasis.read_metadata(Named("x://a.ent")).num_rows == 1_000
    with (tmp_path / "a.ent").open("rb") as file:
        assert entasis.read_metadata(Opened("nowhere.ent", file)).num_rows == 1_000
    for missing in ("nowhere.ent", tmp_path / "nowhere.ent"):
        with pytest.raises(FileNotFoundError, match="nowhere.ent"):
            entasis.read_table(missing)
    with pytest.raises(TypeError, match="a path, a URL, bytes or a file object was expected, not int"):
        entasis.read_table(3)
    with pytest.raises(ValueError, match="storage_options"):
        entasis.read_table("a.ent", storage_options={"key": "value"})


def test_file_objects(small, tmp_path):
    path = tmp_path / "a.ent"
    for arguments in ({}, {"buffering": 0}):
        with path.open("wb", **arguments) as file:
            entasis.write_table(small, file)
            assert not file.closed
        with path.open("rb", **arguments) as file:
            assert_same(entasis.read_table(file).to_arrow(), small)
            with entasis.EntasisFile(file) as opened:
                assert opened.take([999]).num_rows == 1
            assert not file.closed
    with pa.memory_map(str(path)) as file:
        assert_same(entasis.read_table(file).to_arrow(), small)
    with path.open("rb") as file, entasis.EntasisWriter(io.BytesIO(), small.schema) as writer:
        writer.write(entasis.EntasisFile(file).iter_batches())


def test_a_file_object_is_shared_by_threads(trips, trips_path):
    with trips_path.open("rb") as raw:
        file = entasis.EntasisFile(raw)
        threads = [threading.Thread(target=file.read) for _ in range(8)]
        for thread in threads:
            thread.start()
        assert_same(file.read().to_arrow(), trips)
        for thread in threads:
            thread.join()


def test_file_objects_that_are_none(small, tmp_path):
    with pytest.raises(TypeError, match="binary mode"):
        entasis.read_table(io.StringIO("text"))
    with pytest.raises(TypeError, match="a path, a URL, bytes or a file object was expected, not int"):
        entasis.read_table(5)
    with pytest.raises(TypeError, match="a path, a URL or a file object was expected, not bytes"):
        entasis.write_table(small, b"a.ent")
    with pytest.raises(ValueError, match="storage_options"):
        entasis.read_table(tmp_path / "a.ent", storage_options={})
    with pytest.raises(TypeError, match="filesystem"):
        entasis.read_table("a.ent", filesystem="s3")
    with pytest.raises(TypeError, match="a path in the"):
        entasis.read_table(b"a.ent", filesystem=fsspec.filesystem("memory"))


class Failing(io.BytesIO):
    """A file that fails after some calls, with an error of its own."""

    def __init__(self, data: bytes, calls: int):
        super().__init__(data)
        self.calls = calls

    def _count(self):
        self.calls -= 1
        if self.calls < 0:
            raise LookupError("the shelf is empty")

    def read(self, size=-1):
        self._count()
        return super().read(size)

    def write(self, data):
        self._count()
        return super().write(data)


def test_errors_of_file_objects_come_as_they_are(small, trips, tmp_path):
    entasis.write_table(trips, tmp_path / "a.ent")
    whole = (tmp_path / "a.ent").read_bytes()
    with pytest.raises(LookupError, match="the shelf is empty"):
        entasis.EntasisFile(Failing(whole, 1))
    file = entasis.EntasisFile(Failing(whole, 2))
    with pytest.raises(LookupError, match="the shelf is empty"):
        file.read()
    with pytest.raises(LookupError, match="the shelf is empty"):
        entasis.write_table(small, Failing(b"", 0))


class Stream:
    """Arrow data that fails when it is asked for."""

    def __init__(self, schema, batches):
        self.reader = pa.RecordBatchReader.from_batches(schema, batches)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.reader.__arrow_c_stream__(requested_schema)


def test_errors_of_streams_leave_no_file(small, tmp_path):
    def batches():
        yield from small.to_batches(100)
        raise RuntimeError("the well is dry")

    with pytest.raises(ValueError, match="the well is dry"):
        entasis.write_table(Stream(small.schema, batches()), tmp_path / "a.ent")
    assert list(tmp_path.iterdir()) == []


def stores(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    return {
        "fsspec memory": fsspec.filesystem("memory"),
        "fsspec local": fsspec.filesystem("dir", path=str(folder), target_protocol="file"),
        "obstore memory": obstore.store.MemoryStore(),
        "obstore local": obstore.store.LocalStore(folder),
        "pyarrow": pa.fs.SubTreeFileSystem(str(folder), pa.fs.LocalFileSystem()),
    }


def test_filesystems_and_stores(trips, trips_path, tmp_path):
    for name, store in stores(tmp_path).items():
        path = f"{name.replace(' ', '-')}.ent"
        entasis.write_table(trips, path, filesystem=store, row_group_rows=4_096)
        file = entasis.EntasisFile(path, filesystem=store)
        assert file.num_row_groups == 3, name
        assert_same(file.read().to_arrow(), trips)
        assert_same(file.take([9_000, 5]).to_arrow(), trips.take([9_000, 5]))
        assert file.metadata.size_bytes == trips_path.stat().st_size
        with entasis.EntasisWriter(path, trips.schema, filesystem=store) as writer:
            writer.write(trips)
        assert entasis.read_metadata(path, filesystem=store).num_row_groups == 1, name
        assert len(entasis.read_schema(path, filesystem=store)) == 5
        with pytest.raises(FileNotFoundError):
            entasis.read_table("none.ent", filesystem=store)


def test_failed_uploads_leave_the_earlier_object(trips, tmp_path):
    for name, store in stores(tmp_path).items():
        entasis.write_table(trips.slice(0, 5), "a.ent", filesystem=store)
        with pytest.raises(RuntimeError), entasis.EntasisWriter("a.ent", trips.schema, filesystem=store) as writer:
            writer.write(trips)
            raise RuntimeError
        assert entasis.read_metadata("a.ent", filesystem=store).num_rows == 5, name


class Ranges(SimpleHTTPRequestHandler):
    """A server of files that answers requests for ranges, and takes files: as much of S3 as is needed."""

    def do_PUT(self):
        path = Path(self.translate_path(self.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        with open(self.translate_path(self.path), "rb") as file:
            data = file.read()
        status, wanted = 200, self.headers.get("Range")
        headers = {"Accept-Ranges": "bytes", "ETag": '"1"', "Last-Modified": "Thu, 29 Feb 2024 12:00:00 GMT"}
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(data) - 1), len(data) - 1) + 1
            status, headers["Content-Range"] = 206, f"bytes {start}-{end - 1}/{len(data)}"
            data = data[start:end]
        self.send_response(status)
        for key, value in {**headers, "Content-Length": len(data)}.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(trips_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=trips_path.parent))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_urls(server, trips, trips_path):
    url = f"{server}/{trips_path.name}"
    assert_same(entasis.read_table(url).to_arrow(), trips)
    options = {"client_options": {"timeout": "10s"}}
    with entasis.EntasisFile(url, storage_options=options) as file:
        assert file.take([8_000], ["id"]).to_arrow().to_pydict() == {"id": [8_000]}
    with pytest.raises(FileNotFoundError):
        entasis.read_table(trips_path.with_name("none.ent").as_uri())


def test_s3_with_options(server, trips, trips_path):
    options = {
        "endpoint": server,
        "region": "eu-south-1",
        "skip_signature": True,
        "client_options": {"allow_http": True},
    }
    entasis.write_table(trips, "s3://bucket/folder/trips.ent", storage_options=options, row_group_rows=4_096)
    written = trips_path.with_name("bucket") / "folder" / "trips.ent"
    assert written.read_bytes() == trips_path.read_bytes()
    with entasis.EntasisFile("s3://bucket/folder/trips.ent", storage_options=options) as file:
        assert_same(file.read(["price", "tags"]).to_arrow(), trips.select(["price", "tags"]))
        assert_same(file.take([9_999, 0]).to_arrow(), trips.take([9_999, 0]))
        other = pickle.loads(pickle.dumps(file))
    assert other.num_rows == 10_000
    with pytest.raises(FileNotFoundError):
        entasis.read_table("s3://bucket/none.ent", storage_options=options)


def test_urls_of_fsspec(small):
    entasis.write_table(small, "memory://folder/a.ent")
    assert_same(entasis.read_table("memory://folder/a.ent").to_arrow(), small)
    with pytest.raises(ValueError, match="nothing-knows-this"):
        entasis.read_table("nothing-knows-this://a")


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://bucket/a/b.ent", {"region": "eu-south-1", "skip_signature": True}),
        ("gs://bucket/a/b.ent", {"skip_signature": True}),
        ("az://container/a/b.ent", {"account_name": "a", "skip_signature": True}),
        ("https://example.org/a/b.ent", {}),
    ],
)
def test_urls_of_stores_are_understood(url, options):
    found = _sources._of_url(url, url.partition(":")[0], options)
    assert isinstance(found, _sources.StoreObject)
    assert found.name == "a/b.ent"


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"pip install entasis\[stores\]"):
        entasis.read_table("s3://bucket/a.ent")
