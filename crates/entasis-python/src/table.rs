//! Tables, batches and schemas: Arrow data on the way to whoever asks for it.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use pyo3::{
    exceptions::{PyImportError, PyKeyError},
    intern,
    prelude::*,
    types::{PyBytes, PyCapsule, PyDict, PyTuple},
};
use pyo3_arrow::{
    error::PyArrowResult,
    ffi::{ArrayIterator, to_array_pycapsules, to_schema_pycapsule, to_stream_pycapsule},
};

use crate::numpy;

/// Rows of a file as Arrow arrays, in chunks.
///
/// Anything that takes Arrow takes it: ``pyarrow.table(table)``, ``polars.DataFrame(table)``, DuckDB by its name, without
/// copying.
///
/// >>> import entasis, pyarrow as pa
/// >>> entasis.write_table(pa.table({"city": ["Paestum", "Segesta"], "columns": [50, 36]}), "cities.ent")
/// >>> table = entasis.read_table("cities.ent")
/// >>> table
/// entasis.Table: 2 rows × 2 columns
///   city: Utf8
///   columns: Int64
/// >>> table.to_arrow().column("city").to_pylist()
/// ['Paestum', 'Segesta']
#[pyclass(frozen, module = "entasis", name = "Table")]
pub struct Table {
    pub schema: SchemaRef,
    pub batches: Vec<RecordBatch>,
}

/// One chunk of rows as Arrow arrays: see ``Table``.
///
/// ``pyarrow.record_batch(batch)`` takes it without copying.
#[pyclass(frozen, module = "entasis", name = "RecordBatch")]
pub struct Batch(pub RecordBatch);

/// The names and types of columns: ``pyarrow.schema(schema)`` takes it.
#[pyclass(frozen, module = "entasis", name = "Schema")]
pub struct PySchema(pub SchemaRef);

#[pymethods]
impl Table {
    /// Rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.schema.fields().len()
    }

    /// Rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.num_rows(), self.num_columns())
    }

    /// Bytes of all buffers.
    #[getter]
    fn nbytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// Names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        names(&self.schema)
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(self.schema.clone())
    }

    /// The chunks.
    fn to_batches(&self) -> Vec<Batch> {
        self.batches.iter().cloned().map(Batch).collect()
    }

    /// A ``pyarrow.Table`` of the same memory.
    fn to_arrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_pyarrow(slf.as_any(), "table")
    }

    /// A ``pandas.DataFrame``, by pyarrow; the index is that which the table was written with. Arguments are those of
    /// ``pyarrow.Table.to_pandas``.
    #[pyo3(signature = (**arguments))]
    fn to_pandas<'py>(slf: Bound<'py, Self>, arguments: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_arrow(slf)?.call_method("to_pandas", (), arguments)
    }

    /// A column as a NumPy array: numbers, dates and durations have one dimension, fixed-size lists of them two or more.
    ///
    /// Without a copy, and read-only, where the column is in one chunk; chunks are joined. Nulls, and types that NumPy hasn't,
    /// are a ``ValueError``.
    fn to_numpy<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyAny>> {
        let index = index_of(&self.schema, column)?;
        let chunks = self.batches.iter().map(|batch| batch.column(index).clone()).collect();
        numpy::to_numpy(py, column, self.schema.field(index), chunks)
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        describe("entasis.Table", self.num_rows(), &self.schema)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.schema.as_ref())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyCapsule>> {
        let arrays = self.batches.clone().into_iter().map(|batch| Ok(as_struct(batch)));
        to_stream_pycapsule(py, Box::new(ArrayIterator::new(arrays, row_field(&self.schema))), requested_schema)
    }
}

#[pymethods]
impl Batch {
    /// Rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// Columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.0.num_columns()
    }

    /// Rows and columns.
    #[getter]
    fn shape(&self) -> (usize, usize) {
        (self.0.num_rows(), self.0.num_columns())
    }

    /// Bytes of all buffers.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.get_array_memory_size()
    }

    /// Names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        names(self.0.schema_ref())
    }

    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(self.0.schema())
    }

    /// A ``pyarrow.RecordBatch`` of the same memory.
    fn to_arrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_pyarrow(slf.as_any(), "record_batch")
    }

    /// A ``pandas.DataFrame``: see ``Table.to_pandas``.
    #[pyo3(signature = (**arguments))]
    fn to_pandas<'py>(slf: Bound<'py, Self>, arguments: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_arrow(slf)?.call_method("to_pandas", (), arguments)
    }

    /// A column as a NumPy array, without a copy: see ``Table.to_numpy``.
    fn to_numpy<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyAny>> {
        let index = index_of(self.0.schema_ref(), column)?;
        numpy::to_numpy(py, column, self.0.schema_ref().field(index), vec![self.0.column(index).clone()])
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        describe("entasis.RecordBatch", self.0.num_rows(), self.0.schema_ref())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.0.schema_ref().as_ref())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyArrowResult<Bound<'py, PyTuple>> {
        to_array_pycapsules(py, row_field(self.0.schema_ref()), &as_struct(self.0.clone()), requested_schema)
    }
}

#[pymethods]
impl PySchema {
    /// Names of the columns, in order.
    #[getter]
    fn names(&self) -> Vec<String> {
        names(&self.0)
    }

    /// The schema's own metadata, as Arrow has it: names and values are ``bytes``.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metadata = PyDict::new(py);
        for (key, value) in self.0.metadata() {
            metadata.set_item(PyBytes::new(py, key.as_bytes()), PyBytes::new(py, value.as_bytes()))?;
        }
        Ok(metadata)
    }

    /// A ``pyarrow.Schema``.
    fn to_arrow<'py>(slf: Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        to_pyarrow(slf.as_any(), "schema")
    }

    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __repr__(&self) -> String {
        format!("entasis.Schema{}", columns_in_words(&self.0))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyArrowResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.0.as_ref())
    }
}

/// Rows as Arrow's interfaces for streams and arrays have them: structs.
pub fn as_struct(batch: RecordBatch) -> ArrayRef {
    Arc::new(StructArray::from(batch))
}

/// The field of [`as_struct`].
pub fn row_field(schema: &Schema) -> FieldRef {
    Arc::new(Field::new_struct("", schema.fields().clone(), false).with_metadata(schema.metadata().clone()))
}

fn names(schema: &Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

fn index_of(schema: &Schema, column: &str) -> PyResult<usize> {
    schema.index_of(column).map_err(|_| PyKeyError::new_err(column.to_owned()))
}

fn columns_in_words(schema: &Schema) -> String {
    const MOST: usize = 20;
    let fields = schema.fields();
    let mut words: String =
        fields.iter().take(MOST).map(|field| format!("\n  {}: {}", field.name(), field.data_type())).collect();
    if fields.len() > MOST {
        words += &format!("\n  … and {} more", fields.len() - MOST);
    }
    words
}

fn describe(class: &str, rows: usize, schema: &Schema) -> String {
    let columns = schema.fields().len();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let words = columns_in_words(schema);
    format!("{class}: {rows} row{} × {columns} column{}{words}", plural(rows), plural(columns))
}

/// `pyarrow.<function>(object)`.
pub fn to_pyarrow<'py>(object: &Bound<'py, PyAny>, function: &str) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let pyarrow = py.import(intern!(py, "pyarrow")).map_err(|error| {
        let needed = PyImportError::new_err("pyarrow has to be installed for this: pip install entasis[pandas]");
        needed.set_cause(py, Some(error));
        needed
    })?;
    pyarrow.call_method1(function, (object,))
}
