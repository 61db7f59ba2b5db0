"""Where files come from and go to, as far as the extension doesn't open them itself.

Nothing is imported before it is needed: `import entasis` stays quick.
"""

from __future__ import annotations

import os
from typing import Any

# Bytes that come in the time of a request: of a local file object, and of a store.
FILE_REQUEST_BYTES = 16 * 1024
STORE_REQUEST_BYTES = 1024 * 1024

OBSTORE_SCHEMES = {"s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https"}


def find_source(source: Any, filesystem: Any = None, storage_options: Any = None) -> Any:
    """The path (`str`) or the bytes of what is to be read, or an object that reads ranges of it."""
    if filesystem is not None:
        return _of_filesystem(filesystem, _name_in(filesystem, source), storage_options).reading()
    if isinstance(source, bytes):
        return source
    if isinstance(source, (bytearray, memoryview)):
        return bytes(source)
    if hasattr(source, "read") and hasattr(source, "seek"):
        return FileRanges(source)
    place = _place(source, "a path, a URL, bytes or a file object", storage_options)
    return place if isinstance(place, str) else place.reading()


def find_target(where: Any, filesystem: Any = None, storage_options: Any = None) -> Any:
    """The path (`str`) of what is to be written, or an object with `write`, `commit` and `abort`."""
    if filesystem is not None:
        return _of_filesystem(filesystem, _name_in(filesystem, where), storage_options).writing()
    if hasattr(where, "write"):
        return FileTarget(where)
    place = _place(where, "a path, a URL or a file object", storage_options)
    return place if isinstance(place, str) else place.writing()


def _place(source: Any, expected: str, storage_options: Any) -> Any:
    """A local path, or an object of a store."""
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"{expected} was expected, not {type(source).__name__}")
    path = os.fsdecode(source)
    scheme, separator, _ = path.partition("://")
    if not separator or isinstance(source, os.PathLike):
        if storage_options is not None:
            raise ValueError("storage_options are for URLs, not for local paths")
        return os.path.expanduser(path)
    if scheme == "file":
        from urllib.parse import urlsplit
        from urllib.request import url2pathname

        return url2pathname(urlsplit(path).path)
    return _of_url(path, scheme, storage_options or {})


def _of_url(url: str, scheme: str, options: dict[str, Any]) -> Any:
    """An object by its URL: by obstore where it is installed and knows the scheme, else by fsspec."""
    if scheme in OBSTORE_SCHEMES and "?" not in url:
        try:
            from obstore.store import from_url
        except ImportError:
            pass
        else:
            host, _, path = url[len(scheme) + 3 :].partition("/")
            if scheme == "http":
                options = {**options, "client_options": {"allow_http": True, **options.get("client_options", {})}}
            return StoreObject(from_url(f"{scheme}://{host}", **options), path)
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            f"{url}: obstore or fsspec has to be installed to reach it: pip install entasis[stores]"
        ) from None
    return FsspecFile(*url_to_fs(url, **options))


def _name_in(filesystem: Any, path: Any) -> str:
    if isinstance(path, (str, os.PathLike)):
        return os.fsdecode(path)
    raise TypeError(f"a path in the {type(filesystem).__name__} was expected, not {type(path).__name__}")


def _of_filesystem(filesystem: Any, path: str, storage_options: Any) -> Any:
    if storage_options is not None:
        raise ValueError("storage_options are for URLs: a filesystem has its own")
    if hasattr(filesystem, "get_ranges") and hasattr(filesystem, "head"):
        return StoreObject(filesystem, path)
    if hasattr(filesystem, "cat_ranges"):
        return FsspecFile(filesystem, path)
    if hasattr(filesystem, "open_input_file"):
        return ArrowFile(filesystem, path)
    raise TypeError(
        f"an fsspec or pyarrow filesystem or an obstore store was expected, not {type(filesystem).__name__}"
    )


class FileRanges:
    """Ranges of a file object that can seek. It stays open, and its position moves."""

    request_bytes = FILE_REQUEST_BYTES

    def __init__(self, file: Any):
        from threading import Lock

        self._file, self._lock = file, Lock()
        self.name = str(getattr(file, "name", None) or f"a {type(file).__name__}")
        file.seek(0, os.SEEK_END)
        self.size_bytes = file.tell()
        file.seek(0)
        if not isinstance(file.read(0), bytes):
            raise TypeError(f"{self.name}: a file that is open in binary mode was expected")

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        with self._lock:
            return [self._read(start, end) for start, end in ranges]

    def _read(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        pieces = []
        while start < end and (piece := self._file.read(end - start)):
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class FileTarget:
    """A file object that is written to. It stays open; what an error leaves in it is its owner's."""

    def __init__(self, file: Any):
        self._file = file
        self.name = str(getattr(file, "name", None) or f"a {type(file).__name__}")

    def write(self, data: bytes) -> None:
        while data:
            written = self._file.write(data)
            # Some file objects don't say how much they took, which means all.
            data = data[written if isinstance(written, int) else len(data) :]

    def commit(self) -> None:
        if hasattr(self._file, "flush"):
            self._file.flush()

    def abort(self) -> None:
        pass


class Upload:
    """A file that is kept on disk until it is whole, and only then sent to its store."""

    def __init__(self, name: str, send: Any):
        import tempfile

        self.name, self._send = name, send
        self._file = tempfile.NamedTemporaryFile(prefix="entasis-", suffix=".ent")

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def commit(self) -> None:
        with self._file:
            self._file.flush()
            self._file.seek(0)
            self._send(self._file)

    def abort(self) -> None:
        self._file.close()


class StoreObject:
    """An object in a store of obstore."""

    request_bytes = STORE_REQUEST_BYTES

    def __init__(self, store: Any, path: str):
        self._store, self.name = store, path
        self.size_bytes = 0

    def reading(self) -> StoreObject:
        self.size_bytes = self._store.head(self.name)["size"]
        return self

    def writing(self) -> Upload:
        return Upload(self.name, lambda file: self._store.put(self.name, file))

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        return [bytes(data) for data in self._store.get_ranges(self.name, starts=starts, ends=ends)]


class FsspecFile:
    """A file of an fsspec filesystem."""

    request_bytes = STORE_REQUEST_BYTES

    def __init__(self, filesystem: Any, path: str):
        self._filesystem, self.name = filesystem, path
        self.size_bytes = 0

    def reading(self) -> FsspecFile:
        size_bytes = self._filesystem.size(self.name)
        if size_bytes is None:
            raise OSError(f"{self.name}: its store doesn't say how large it is")
        self.size_bytes = size_bytes
        return self

    def writing(self) -> Upload:
        return Upload(self.name, lambda file: self._filesystem.put_file(file.name, self.name))

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
        return [
            bytes(data)
            for data in self._filesystem.cat_ranges([self.name] * len(ranges), starts, ends, on_error="raise")
        ]


class ArrowFile:
    """A file of a pyarrow filesystem."""

    def __init__(self, filesystem: Any, path: str):
        self._filesystem, self.name = filesystem, path

    def reading(self) -> FileRanges:
        return FileRanges(self._filesystem.open_input_file(self.name))

    def writing(self) -> Upload:
        return Upload(self.name, self._send)

    def _send(self, file: Any) -> None:
        from shutil import copyfileobj

        with self._filesystem.open_output_stream(self.name) as out:
            copyfileobj(file, out, STORE_REQUEST_BYTES)
