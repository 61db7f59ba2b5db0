//! Where a file's bytes come from: paths and bytes by the core, all else by a Python object of `entasis._sources`.

use std::{io, ops::Range, path::PathBuf, sync::Arc};

use bytes::Bytes;
use entasis::{
    Error, ReadLimits, Reader,
    source::{BytesSource, FileSource, Source},
};
use pyo3::{
    intern,
    prelude::*,
    pybacked::PyBackedBytes,
    sync::PyOnceLock,
    types::{PyBytes, PyString},
};

use crate::{
    error::{Failure, Result},
    interrupt::is_stopped,
};

/// What a caller named, found but not opened yet.
pub enum Found {
    /// A local file; mapped into memory where that was asked for.
    Path(PathBuf, bool),
    /// A file in memory.
    Bytes(PyBackedBytes),
    /// An object with `name`, `size_bytes`, `request_bytes` and `read_ranges`.
    Ranges(PythonSource),
}

impl Found {
    /// Finds what `source` is: see `entasis._sources.find_source`.
    pub fn new(
        source: &Bound<'_, PyAny>,
        filesystem: Option<&Bound<'_, PyAny>>,
        storage_options: Option<&Bound<'_, PyAny>>,
        memory_map: bool,
    ) -> PyResult<Self> {
        let py = source.py();
        if filesystem.is_none()
            && storage_options.is_none()
            && let Some(path) = plain_path(source)
        {
            return Ok(Self::Path(path, memory_map));
        }
        static FIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let find = FIND.import(py, "entasis._sources", "find_source")?;
        let found = find.call1((source, filesystem, storage_options))?;
        if found.is_instance_of::<PyString>() {
            return Ok(Self::Path(found.extract()?, memory_map));
        }
        match found.cast::<PyBytes>() {
            Ok(bytes) => Ok(Self::Bytes(bytes.clone().into())),
            Err(_) => Ok(Self::Ranges(PythonSource::new(&found)?)),
        }
    }

    /// Whether its bytes are on this machine, as far as paths tell, and are read without Python.
    pub fn is_near(&self) -> bool {
        !matches!(self, Self::Ranges(_))
    }

    /// Opens it; to be called without the interpreter's lock.
    pub fn open(self) -> Result<Reader> {
        let source: Arc<dyn Source> = match self {
            Self::Path(path, false) => Arc::new(FileSource::open(&path)?),
            Self::Path(path, true) => Arc::new(BytesSource::map(&path)?),
            Self::Bytes(bytes) => Arc::new(BytesSource::new(Bytes::from_owner(bytes), "bytes in memory")),
            Self::Ranges(source) => Arc::new(source),
        };
        Ok(Reader::from_source(source, ReadLimits::default())?)
    }
}

/// The path that `source` is, where it stands for itself: it is no URL, and begins in nobody's home (`~`). Most are, and are found here
/// without a detour: what Python looks up on it has left the caches when the next table is read.
fn plain_path(source: &Bound<'_, PyAny>) -> Option<PathBuf> {
    let py = source.py();
    let path = match source.cast::<PyString>() {
        Ok(path) => path.clone(),
        // A file object may have a path as well.
        Err(_) if source.hasattr(intern!(py, "read")).ok()? => return None,
        Err(_) => source.call_method0(intern!(py, "__fspath__")).ok()?.cast_into().ok()?,
    };
    let path = path.to_str().ok()?;
    (!path.contains("://") && !path.starts_with('~')).then(|| path.into())
}

/// A file object or an object in a store, through a Python object that reads ranges.
pub struct PythonSource {
    object: Py<PyAny>,
    name: String,
    size_bytes: u64,
    request_bytes: u64,
}

impl PythonSource {
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = object.py();
        Ok(Self {
            name: object.getattr(intern!(py, "name"))?.extract()?,
            size_bytes: object.getattr(intern!(py, "size_bytes"))?.extract()?,
            request_bytes: object.getattr(intern!(py, "request_bytes"))?.extract()?,
            object: object.clone().unbind(),
        })
    }

    fn call(&self, ranges: &[Range<u64>]) -> PyResult<Vec<PyBackedBytes>> {
        let pairs: Vec<(u64, u64)> = ranges.iter().map(|range| (range.start, range.end)).collect();
        // A caller that has gone may use the file by itself.
        if is_stopped() {
            return Err(Failure::Stopped.into());
        }
        let read =
            Python::try_attach(|py| self.object.bind(py).call_method1(intern!(py, "read_ranges"), (pairs,))?.extract());
        read.unwrap_or_else(|| Err(gone()))
    }
}

impl Source for PythonSource {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn read(&self, range: Range<u64>) -> entasis::Result<Bytes> {
        match range.is_empty() {
            true => Ok(Bytes::new()),
            false => Ok(self.read_runs(&[range])?.remove(0)),
        }
    }

    fn read_runs(&self, runs: &[Range<u64>]) -> entasis::Result<Vec<Bytes>> {
        let truncated = |what: String| Error::Truncated { file: self.name.clone(), what };
        if let Some(run) = runs.iter().find(|run| run.start > run.end || run.end > self.size_bytes) {
            return Err(truncated(format!("bytes {run:?} of a file of {} bytes", self.size_bytes)));
        }
        let read = self.call(runs).map_err(|error| Error::io(self.name.clone(), io::Error::other(error)))?;
        let lengths = || runs.iter().map(|run| run.end - run.start);
        if !lengths().eq(read.iter().map(|bytes| bytes.len() as u64)) {
            let bytes = read.iter().map(|bytes| bytes.len()).sum::<usize>();
            return Err(truncated(format!("{} bytes were asked for and {bytes} came", lengths().sum::<u64>())));
        }
        Ok(read.into_iter().map(Bytes::from_owner).collect())
    }
}

fn gone() -> PyErr {
    pyo3::exceptions::PyRuntimeError::new_err("the interpreter is shutting down")
}
