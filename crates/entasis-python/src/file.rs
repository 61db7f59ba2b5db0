//! Reading: open files, and whole tables at once.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_array::RecordBatch;
use entasis::{Error, ReadRequest, Reader, Strings};
use pyo3::{
    exceptions::PyValueError,
    prelude::*,
    types::{PyDict, PyTuple},
};

use crate::{
    batches::BatchReader,
    error::{Failure, Result},
    interrupt::{Stop, run, run_in_steps},
    metadata::FileMetadata,
    options::{Columns, batch_rows, row_numbers, strings, threads},
    source::Found,
    table::{PySchema, Table},
};

/// An open file.
///
/// ``source`` is a path, a URL (``file://``, ``s3://``, ``gs://``, ``az://``, ``https://``, and what else fsspec knows), ``bytes``, or a
/// file object that can seek; with ``filesystem``, a path in an fsspec or pyarrow filesystem or in an obstore store.
/// ``storage_options`` go to obstore's ``from_url`` where obstore is installed, else to fsspec. A file that is mapped
/// (``memory_map``) must not be shortened while it is open.
///
/// Opening reads the end of the file and takes as long for 100,000 columns as for one. Open files can be pickled (they
/// are opened again) and used by several threads.
///
/// >>> import entasis, pyarrow as pa
/// >>> table = pa.table({"city": ["Paestum", "Segesta", "Agrigento"], "columns": [50, 36, 34]})
/// >>> entasis.write_table(table, "cities.ent")
/// >>> with entasis.EntasisFile("cities.ent") as file:
/// ...     file.num_rows, file.take([2, 0], columns=["city"]).to_arrow().to_pydict()
/// (3, {'city': ['Agrigento', 'Paestum']})
#[pyclass(frozen, module = "entasis")]
pub struct EntasisFile {
    reader: Mutex<Option<Reader>>,
    is_near: bool,
    /// What the file was opened with, for pickling.
    source: Py<PyAny>,
    filesystem: Option<Py<PyAny>>,
    storage_options: Option<Py<PyAny>>,
    memory_map: bool,
}

impl EntasisFile {
    fn reader(&self) -> PyResult<Reader> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.clone().ok_or_else(|| PyValueError::new_err("the file is closed"))
    }

    fn read_groups(
        &self,
        py: Python<'_>,
        row_groups: Option<Vec<usize>>,
        columns: Option<&Bound<'_, PyAny>>,
        views: Option<bool>,
        threads: Option<usize>,
    ) -> PyResult<Table> {
        let reader = self.reader()?;
        Request::new(columns, row_groups, views, threads)?.read_all(py, reader, self.is_near)
    }
}

/// What is to be read.
struct Request {
    columns: Columns,
    row_groups: Option<Vec<usize>>,
    strings: Strings,
    threads: usize,
}

impl Request {
    fn new(
        columns: Option<&Bound<'_, PyAny>>,
        row_groups: Option<Vec<usize>>,
        views: Option<bool>,
        thread_count: Option<usize>,
    ) -> PyResult<Self> {
        let columns = Columns::new(columns)?;
        Ok(Self { columns, row_groups, strings: strings(views), threads: threads(thread_count) })
    }

    fn of(self, reader: &Reader) -> Result<ReadRequest> {
        Ok(ReadRequest {
            projection: self.columns.of(reader)?,
            row_groups: self.row_groups,
            strings: self.strings,
            threads: self.threads,
            // Whoever reads a table wants large chunks.
            column_bytes: u64::MAX,
            ..ReadRequest::default()
        })
    }

    /// The rows of a file; `is_near` says whether its bytes are.
    fn read_all(self, py: Python<'_>, reader: Reader, is_near: bool) -> PyResult<Table> {
        let values = self.columns.values(&reader, reader.rows());
        let batches = reader.rows().div_ceil(ReadRequest::default().batch_rows as u64).max(1);
        match is_near && reader.size_bytes() / batches <= STEP_BYTES {
            true => run_in_steps(py, values, move |stop| self.collect(&reader, stop)),
            false => run(py, values, move |stop| self.collect(&reader, stop)),
        }
    }

    fn collect(self, reader: &Reader, stop: &Arc<Stop>) -> Result<Table> {
        let asked = stop.clone();
        let stopped = move |_| Error::io(String::new(), io::ErrorKind::Interrupted.into());
        let batches = reader.read(self.of(reader)?)?.asking(move || asked.check().map_err(&stopped));
        let schema = batches.schema().clone();
        let mut read: Vec<RecordBatch> = Vec::new();
        for batch in batches {
            let batch = batch.map_err(Failure::from);
            stop.check()?;
            read.push(batch?);
        }
        Ok(Table { schema, batches: read })
    }
}

/// Bytes that are read for a batch in less than a tenth of a second, even from a disk that turns: what is larger is read on a thread of its
/// own, and so is what comes from further away.
const STEP_BYTES: u64 = 8 << 20;

#[pymethods]
impl EntasisFile {
    #[new]
    #[pyo3(signature = (source, *, filesystem = None, storage_options = None, memory_map = false))]
    fn new(
        py: Python<'_>,
        source: Bound<'_, PyAny>,
        filesystem: Option<Bound<'_, PyAny>>,
        storage_options: Option<Bound<'_, PyAny>>,
        memory_map: bool,
    ) -> PyResult<Self> {
        let found = Found::new(&source, filesystem.as_ref(), storage_options.as_ref(), memory_map)?;
        let is_near = found.is_near();
        let reader = py.detach(|| found.open())?;
        Ok(Self {
            reader: Mutex::new(Some(reader)),
            is_near,
            source: source.unbind(),
            filesystem: filesystem.map(Bound::unbind),
            storage_options: storage_options.map(Bound::unbind),
            memory_map,
        })
    }

    /// Names and types of the columns, exactly as they were written.
    #[getter]
    fn schema_arrow(&self, py: Python<'_>) -> PyResult<PySchema> {
        let reader = self.reader()?;
        Ok(PySchema(py.detach(|| reader.schema()).map_err(crate::error::to_python)?))
    }

    /// What the file says of itself.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> PyResult<FileMetadata> {
        let reader = self.reader()?;
        Ok(py.detach(|| FileMetadata::read(&reader))?)
    }

    /// Rows.
    #[getter]
    fn num_rows(&self) -> PyResult<u64> {
        Ok(self.reader()?.rows())
    }

    /// Top-level columns.
    #[getter]
    fn num_columns(&self) -> PyResult<usize> {
        Ok(self.reader()?.column_count())
    }

    /// Row groups.
    #[getter]
    fn num_row_groups(&self) -> PyResult<usize> {
        Ok(self.reader()?.row_group_count())
    }

    /// Reads all rows of all columns, or of those named: names, or paths of fields in structs (``"weather.celsius"``).
    ///
    /// Strings come as the file's schema says; with ``views=True`` as views, with ``views=False`` with offsets. ``threads`` is the
    /// number of processors unless it is said.
    #[pyo3(signature = (columns = None, *, views = None, threads = None))]
    fn read(
        &self,
        py: Python<'_>,
        columns: Option<&Bound<'_, PyAny>>,
        views: Option<bool>,
        threads: Option<usize>,
    ) -> PyResult<Table> {
        self.read_groups(py, None, columns, views, threads)
    }

    /// Reads one row group: see ``read``.
    #[pyo3(signature = (i, columns = None, *, views = None, threads = None))]
    fn read_row_group(
        &self,
        py: Python<'_>,
        i: usize,
        columns: Option<&Bound<'_, PyAny>>,
        views: Option<bool>,
        threads: Option<usize>,
    ) -> PyResult<Table> {
        self.read_groups(py, Some(vec![i]), columns, views, threads)
    }

    /// Reads several row groups, in the order of their numbers here: see ``read``.
    #[pyo3(signature = (row_groups, columns = None, *, views = None, threads = None))]
    fn read_row_groups(
        &self,
        py: Python<'_>,
        row_groups: Vec<usize>,
        columns: Option<&Bound<'_, PyAny>>,
        views: Option<bool>,
        threads: Option<usize>,
    ) -> PyResult<Table> {
        self.read_groups(py, Some(row_groups), columns, views, threads)
    }

    /// Reads batch by batch, each when it is asked for; a batch ends where its row group does.
    #[pyo3(signature = (batch_size = 65_536, *, row_groups = None, columns = None, views = None, threads = None))]
    fn iter_batches(
        &self,
        py: Python<'_>,
        batch_size: usize,
        row_groups: Option<Vec<usize>>,
        columns: Option<&Bound<'_, PyAny>>,
        views: Option<bool>,
        threads: Option<usize>,
    ) -> PyResult<BatchReader> {
        let reader = self.reader()?;
        let batch_rows = batch_rows(batch_size)?;
        let request = Request::new(columns, row_groups, views, threads)?;
        let values = request.columns.values(&reader, reader.rows().min(batch_rows as u64));
        let open = || {
            // As many rows as were asked for, even where fewer wouldn't have to be copied.
            let request = ReadRequest { batch_rows, end_at_lent_blocks: false, ..request.of(&reader)? };
            Ok::<_, Failure>(reader.read(request)?)
        };
        Ok(BatchReader::new(py.detach(open)?, values))
    }

    /// The rows of these numbers, in their order; a number may come several times. Numbers are integers, an Arrow array of
    /// them or a NumPy array.
    ///
    /// Of large blocks only what holds the rows is read; it is kept for further calls of the same open file.
    #[pyo3(signature = (indices, columns = None, *, views = None))]
    fn take(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        columns: Option<&Bound<'_, PyAny>>,
        views: Option<bool>,
    ) -> PyResult<Table> {
        let reader = self.reader()?;
        let (columns, strings) = (Columns::new(columns)?, strings(views));
        let rows = row_numbers(indices, reader.rows())?;
        let batch = run(py, columns.values(&reader, rows.len() as u64), move |_| {
            Ok(reader.take(&rows, &columns.of(&reader)?, strings)?)
        })?;
        Ok(Table { schema: batch.schema(), batches: vec![batch] })
    }

    /// Closes the file. Tables that were read stay.
    fn close(&self) {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Whether the file has been closed.
    #[getter]
    fn closed(&self) -> bool {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let arguments = PyDict::new(py);
        arguments.set_item("filesystem", &self.filesystem)?;
        arguments.set_item("storage_options", &self.storage_options)?;
        arguments.set_item("memory_map", self.memory_map)?;
        let opened = PyTuple::new(py, [py.get_type::<Self>().as_any(), self.source.bind(py), arguments.as_any()])?;
        Ok((py.import("entasis._rows")?.getattr("call")?, opened))
    }

    fn __repr__(&self) -> PyResult<String> {
        match self.reader() {
            Ok(reader) => Ok(format!(
                "entasis.EntasisFile({:?}): {} rows, {} columns, {} row groups",
                reader.name(),
                reader.rows(),
                reader.column_count(),
                reader.row_group_count()
            )),
            Err(_) => Ok("entasis.EntasisFile: closed".to_owned()),
        }
    }
}

/// Reads a table: all of it, or the columns that are named. For ``source``, ``filesystem``, ``storage_options`` and ``memory_map`` see
/// ``EntasisFile``; for ``columns``, ``views`` and ``threads`` its ``read``.
///
/// >>> import entasis, pyarrow as pa
/// >>> entasis.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), "small.ent")
/// >>> entasis.read_table("small.ent", columns=["b"]).to_arrow().to_pydict()
/// {'b': ['x', None]}
#[pyfunction]
#[pyo3(signature = (source, *, columns = None, views = None, threads = None, filesystem = None, storage_options = None, memory_map = false))]
#[allow(clippy::too_many_arguments, reason = "they have names in Python")]
pub fn read_table(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    columns: Option<&Bound<'_, PyAny>>,
    views: Option<bool>,
    threads: Option<usize>,
    filesystem: Option<&Bound<'_, PyAny>>,
    storage_options: Option<&Bound<'_, PyAny>>,
    memory_map: bool,
) -> PyResult<Table> {
    let request = Request::new(columns, None, views, threads)?;
    let found = Found::new(source, filesystem, storage_options, memory_map)?;
    let is_near = found.is_near();
    request.read_all(py, py.detach(|| found.open())?, is_near)
}

/// Reads the schema of a file: names, types and metadata, exactly as they were written.
///
/// >>> import entasis, pyarrow as pa
/// >>> entasis.write_table(pa.table({"a": [1, 2], "b": ["x", None]}), "small.ent")
/// >>> entasis.read_schema("small.ent")
/// entasis.Schema
///   a: Int64
///   b: Utf8
#[pyfunction]
#[pyo3(signature = (source, *, filesystem = None, storage_options = None))]
pub fn read_schema(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    filesystem: Option<&Bound<'_, PyAny>>,
    storage_options: Option<&Bound<'_, PyAny>>,
) -> PyResult<PySchema> {
    let found = Found::new(source, filesystem, storage_options, false)?;
    Ok(PySchema(py.detach(|| Ok::<_, Failure>(found.open()?.schema()?))?))
}

/// Reads what a file says of itself: see ``FileMetadata``.
#[pyfunction]
#[pyo3(signature = (source, *, filesystem = None, storage_options = None))]
pub fn read_metadata(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    filesystem: Option<&Bound<'_, PyAny>>,
    storage_options: Option<&Bound<'_, PyAny>>,
) -> PyResult<FileMetadata> {
    let found = Found::new(source, filesystem, storage_options, false)?;
    Ok(py.detach(|| FileMetadata::read(&found.open()?))?)
}
