//! Writing: whole tables at once, and files as their rows come.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use entasis::{FileWriter, WriteOptions, Writer};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    intern,
    prelude::*,
    types::{PyBytes, PyDict, PyString, PyTuple},
};

use crate::{
    error::Result,
    incoming::Incoming,
    interrupt::{Stop, is_stopped, run},
    options::WriteArguments,
};

/// Work that may take long, however few its rows are.
const MANY_VALUES: u64 = u64::MAX;

/// Where a file goes.
enum Target {
    Path(PathBuf),
    /// An object with `write`, `commit` and `abort`.
    Object(Py<PyAny>),
}

impl Target {
    fn new(
        target: &Bound<'_, PyAny>,
        filesystem: Option<&Bound<'_, PyAny>>,
        storage_options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = target.py();
        let find = py.import(intern!(py, "entasis._sources"))?.getattr(intern!(py, "find_target"))?;
        let found = find.call1((target, filesystem, storage_options))?;
        match found.is_instance_of::<PyString>() {
            true => Ok(Self::Path(found.extract()?)),
            false => Ok(Self::Object(found.unbind())),
        }
    }

    /// Begins the file; to be called without the interpreter's lock.
    fn begin(self, schema: SchemaRef, options: WriteOptions) -> Result<Output> {
        Ok(match self {
            Self::Path(path) => Output::File(Box::new(FileWriter::create(&path, schema, options)?)),
            Self::Object(object) => Output::Object(Box::new(Writer::new(PythonSink(object), schema, options)?)),
        })
    }
}

/// A file that is being written.
enum Output {
    File(Box<FileWriter>),
    Object(Box<Writer<PythonSink>>),
}

impl Output {
    fn write(&mut self, batch: &RecordBatch) -> entasis::Result<()> {
        match self {
            Self::File(writer) => writer.write(batch),
            Self::Object(writer) => writer.write(batch),
        }
    }

    /// Completes the file, unless nobody waits for it any more.
    fn finish(self, stop: &Stop) -> Result<()> {
        stop.check()?;
        match self {
            Self::File(writer) => drop(writer.finish()?),
            Self::Object(writer) => {
                let (sink, _) = writer.finish()?;
                stop.check()?;
                sink.call("commit")?;
            }
        }
        Ok(())
    }
}

/// An object with `write`, `commit` and `abort`; dropped without `commit`, it is told to abort.
struct PythonSink(Py<PyAny>);

impl PythonSink {
    fn call(&self, method: &str) -> Result<()> {
        let called = Python::try_attach(|py| self.0.bind(py).call_method0(method).map(drop));
        called.unwrap_or(Ok(())).map_err(crate::error::Failure::Python)
    }
}

impl Write for PythonSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A caller that has gone may use the file by itself.
        if is_stopped() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let written = Python::try_attach(|py| {
            self.0.bind(py).call_method1(intern!(py, "write"), (PyBytes::new(py, bytes),)).map(drop)
        });
        match written {
            Some(Ok(())) => Ok(bytes.len()),
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for PythonSink {
    fn drop(&mut self) {
        // What led here is more important than what aborting says.
        let _ = self.call("abort");
    }
}

/// Writes a table: anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, such as tables and batches of pyarrow, data frames of
/// pandas and Polars, relations of DuckDB.
///
/// ``where`` is a path, a URL or a file object; with ``filesystem``, a path in an fsspec or pyarrow filesystem or in an obstore
/// store: see ``EntasisFile``. A file appears at a path when it is whole, or not at all; what an error leaves in a file object is
/// its owner's.
///
/// - ``profile``: ``"size"`` for the fewest bytes, ``"scan"`` for the quickest decoding, ``"balanced"`` for both.
/// - ``encodings``: the encoding that a column's values must have, by the column's name; the chooser's choice for all others.
/// - ``bloom``: columns that get Bloom filters, by which lookups of single values read few blocks: names, or a dictionary of names to the
///   share of other blocks that may be read nevertheless (0.01 unless it is said).
/// - ``row_group_rows``: rows of a row group, 1,048,576 unless it is said; ``row_group_bytes`` bounds its decoded bytes (512 MiB).
/// - ``sorted_by``: the order in which the rows are, as names or ``SortColumn``; it is verified, not made.
/// - ``metadata``: what the file should say of itself, ``str`` or ``bytes`` by name.
/// - ``threads``: the number of processors unless it is said; the bytes don't depend on it.
///
/// >>> import entasis, pyarrow as pa
/// >>> entasis.write_table(pa.table({"a": [1, 2, 3]}), "a.ent", sorted_by=["a"], metadata={"made by": "an example"})
/// >>> entasis.write_table(pa.table({"a": [3, 1, 2]}), "a.ent", sorted_by=["a"])
/// Traceback (most recent call last):
/// entasis.InvalidArgumentError: invalid argument: ...
#[pyfunction]
#[pyo3(signature = (table, r#where, *, profile = "balanced", encodings = None, bloom = None, row_group_rows = None, row_group_bytes = None, sorted_by = None, metadata = None, threads = None, filesystem = None, storage_options = None))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn write_table(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    r#where: &Bound<'_, PyAny>,
    profile: &str,
    encodings: Option<&Bound<'_, PyDict>>,
    bloom: Option<&Bound<'_, PyAny>>,
    row_group_rows: Option<u64>,
    row_group_bytes: Option<u64>,
    sorted_by: Option<&Bound<'_, PyAny>>,
    metadata: Option<&Bound<'_, PyDict>>,
    threads: Option<usize>,
    filesystem: Option<&Bound<'_, PyAny>>,
    storage_options: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let arguments =
        WriteArguments { profile, encodings, bloom, row_group_rows, row_group_bytes, sorted_by, metadata, threads };
    let options = arguments.options()?;
    let incoming = Incoming::new(table)?;
    let target = Target::new(r#where, filesystem, storage_options)?;
    run(py, MANY_VALUES, move |stop| {
        let mut output = target.begin(incoming.schema.clone(), options)?;
        incoming.drain(stop, |batch| output.write(batch))?;
        output.finish(stop)
    })
}

/// Writes a file as its rows come. Arguments are those of ``write_table``.
///
/// The file is there, whole, when ``close`` returns. Leaving a ``with`` block closes it, unless an exception does: then nothing
/// is left.
///
/// >>> import entasis, pyarrow as pa
/// >>> schema = pa.schema({"x": pa.int64()})
/// >>> with entasis.EntasisWriter("x.ent", schema) as writer:
/// ...     for start in range(0, 30, 10):
/// ...         writer.write(pa.table({"x": range(start, start + 10)}))
/// >>> entasis.read_metadata("x.ent").num_rows
/// 30
#[pyclass(frozen, module = "entasis")]
pub struct EntasisWriter {
    schema: SchemaRef,
    state: Mutex<State>,
}

enum State {
    Open(Output),
    /// Closed, given up, or in use.
    Not(&'static str),
}

impl EntasisWriter {
    /// Takes the output out of the writer, for `why`.
    fn take(&self, why: &'static str) -> PyResult<Output> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Not(why)) {
            State::Open(output) => Ok(output),
            State::Not(reason) => {
                *state = State::Not(reason);
                Err(PyValueError::new_err(reason))
            }
        }
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

#[pymethods]
impl EntasisWriter {
    #[new]
    #[pyo3(signature = (r#where, schema, *, profile = "balanced", encodings = None, bloom = None, row_group_rows = None, row_group_bytes = None, sorted_by = None, metadata = None, threads = None, filesystem = None, storage_options = None))]
    #[allow(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        r#where: &Bound<'_, PyAny>,
        schema: &Bound<'_, PyAny>,
        profile: &str,
        encodings: Option<&Bound<'_, PyDict>>,
        bloom: Option<&Bound<'_, PyAny>>,
        row_group_rows: Option<u64>,
        row_group_bytes: Option<u64>,
        sorted_by: Option<&Bound<'_, PyAny>>,
        metadata: Option<&Bound<'_, PyDict>>,
        threads: Option<usize>,
        filesystem: Option<&Bound<'_, PyAny>>,
        storage_options: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let arguments =
            WriteArguments { profile, encodings, bloom, row_group_rows, row_group_bytes, sorted_by, metadata, threads };
        let options = arguments.options()?;
        if !schema.hasattr(intern!(py, "__arrow_c_schema__"))? {
            let found = schema.get_type().name()?;
            return Err(PyTypeError::new_err(format!("an Arrow schema was expected, not {found}")));
        }
        let schema: SchemaRef = schema.extract::<pyo3_arrow::PySchema>()?.into_inner();
        let target = Target::new(r#where, filesystem, storage_options)?;
        let output = py.detach(|| target.begin(schema.clone(), options))?;
        Ok(Self { schema, state: Mutex::new(State::Open(output)) })
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> crate::table::PySchema {
        crate::table::PySchema(self.schema.clone())
    }

    /// Appends rows: anything that ``write_table`` takes, of the schema of the file. Rows of another schema or out of order are an
    /// error, and more can be written after it; after any other error, and after Ctrl-C, the file is given up.
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let incoming = Incoming::new(data)?;
        let mut output = self.take("the writer was stopped in the middle of a write: nothing was written")?;
        let (result, output) = run(py, MANY_VALUES, move |stop| {
            let result = incoming.drain(stop, |batch| output.write(batch));
            Ok((result, output))
        })?;
        self.set(State::Open(output));
        Ok(result?)
    }

    /// Completes the file and makes it visible.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.closed() {
            return Ok(());
        }
        let output = self.take("the writer is closed")?;
        run(py, MANY_VALUES, move |stop| output.finish(stop))
    }

    /// Gives the file up: nothing is left.
    fn abort(&self, py: Python<'_>) {
        if let Ok(output) = self.take("the writer is closed") {
            py.detach(|| drop(output));
        }
    }

    /// Whether the file has been completed or given up.
    #[getter]
    fn closed(&self) -> bool {
        !matches!(*self.state.lock().unwrap_or_else(PoisonError::into_inner), State::Open(_))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        match exception.get_item(0) {
            Ok(class) if !class.is_none() => {
                self.abort(py);
                Ok(())
            }
            _ => self.close(py),
        }
    }
}
