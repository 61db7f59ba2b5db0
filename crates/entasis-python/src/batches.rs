//! Batches of a file, one after the other.

use std::sync::{Mutex, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};
use entasis::Batches;
use pyo3::{
    exceptions::{PyRuntimeError, PyStopIteration, PyValueError},
    prelude::*,
    types::PyCapsule,
};
use pyo3_arrow::{
    error::PyArrowResult,
    ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule},
};

use crate::{
    interrupt::run,
    table::{Batch, PySchema, as_struct, row_field},
};

/// Batches of rows, read as they are asked for: an iterator of ``RecordBatch``, and an Arrow stream.
///
/// >>> import entasis, pyarrow as pa
/// >>> entasis.write_table(pa.table({"x": range(5)}), "five.ent")
/// >>> with entasis.EntasisFile("five.ent") as file:
/// ...     [len(batch) for batch in file.iter_batches(2)]
/// [2, 2, 1]
/// >>> with entasis.EntasisFile("five.ent") as file:
/// ...     pa.RecordBatchReader.from_stream(file.iter_batches(2)).read_all().num_rows
/// 5
#[pyclass(frozen, module = "entasis")]
pub struct BatchReader {
    schema: SchemaRef,
    /// Values of a whole batch.
    batch_values: u64,
    state: Mutex<State>,
}

enum State {
    Open(Box<Batches>),
    /// Somebody reads the next batch.
    Busy,
    /// All were read, somebody else took them over, or reading was stopped.
    Over,
}

impl BatchReader {
    /// Batches of up to so many values.
    pub fn new(batches: Batches, batch_values: u64) -> Self {
        let schema = batches.schema().clone();
        Self { schema, batch_values, state: Mutex::new(State::Open(Box::new(batches))) }
    }

    fn set(&self, state: State) -> State {
        std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), state)
    }

    fn take_next(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        let mut batches = match self.set(State::Busy) {
            State::Open(batches) => batches,
            State::Busy => return Err(PyRuntimeError::new_err("another thread is reading a batch from here")),
            State::Over => {
                self.set(State::Over);
                return Ok(None);
            }
        };
        let read = run(py, self.batch_values, move |_| {
            let next = batches.next();
            Ok((next, batches))
        });
        let (next, batches) = read.inspect_err(|_| drop(self.set(State::Over)))?;
        match next {
            Some(batch) => {
                self.set(State::Open(batches));
                Ok(Some(batch.map_err(crate::error::to_python)?))
            }
            None => {
                self.set(State::Over);
                Ok(None)
            }
        }
    }
}

#[pymethods]
impl BatchReader {
    /// Names and types of the columns.
    #[getter]
    fn schema(&self) -> PySchema {
        PySchema(self.schema.clone())
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Batch> {
        self.take_next(py)?.map(Batch).ok_or_else(|| PyStopIteration::new_err(()))
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
        let State::Open(batches) = self.set(State::Over) else {
            return Err(PyValueError::new_err("these batches have been read already").into());
        };
        let arrays = batches.map(|batch| -> Result<ArrayRef, ArrowError> {
            batch.map(as_struct).map_err(|error| ArrowError::ExternalError(Box::new(error)))
        });
        to_stream_pycapsule(py, Box::new(ArrayIterator::new(arrays, row_field(&self.schema))), requested_schema)
    }
}
