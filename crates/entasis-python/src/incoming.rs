//! Arrow data that comes in: whatever has `__arrow_c_stream__` or `__arrow_c_array__`.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, cast::AsArray};
use arrow_schema::{DataType, Schema, SchemaRef};
use entasis::{Error, encoding::BLOCK_ROWS};
use pyo3::{exceptions::PyTypeError, intern, prelude::*};
use pyo3_arrow::{PyArray, PyArrayReader, ffi::ArrayIterator, ffi::ArrayReader};

use crate::{error::Result, interrupt::Stop};

/// Batches of one schema, as they come.
pub struct Incoming {
    pub schema: SchemaRef,
    arrays: Box<dyn ArrayReader + Send>,
}

impl Incoming {
    /// The rows of a table, a batch, a stream of batches, a data frame.
    pub fn new(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = data.py();
        let arrays: Box<dyn ArrayReader + Send> = if data.hasattr(intern!(py, "__arrow_c_array__"))? {
            let (array, field) = data.extract::<PyArray>()?.into_inner();
            Box::new(ArrayIterator::new([Ok(array)], field))
        } else if data.hasattr(intern!(py, "__arrow_c_stream__"))? {
            data.extract::<PyArrayReader>()?.into_reader()?
        } else {
            let found = data.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "Arrow data was expected (a table, batch or data frame with __arrow_c_stream__ or __arrow_c_array__), not {found}"
            )));
        };
        let field = arrays.field();
        let DataType::Struct(fields) = field.data_type() else {
            let what = format!("rows with columns were expected, not an array of {}", field.data_type());
            return Err(PyTypeError::new_err(what));
        };
        let schema = Arc::new(Schema::new_with_metadata(fields.clone(), field.metadata().clone()));
        Ok(Self { schema, arrays })
    }

    /// Gives all rows to `write`, a block of rows at a time, so that it can be stopped.
    pub fn drain(self, stop: &Stop, mut write: impl FnMut(&RecordBatch) -> entasis::Result<()>) -> Result<()> {
        for array in self.arrays {
            let batch = to_batch(&self.schema, &array?)?;
            for start in (0..batch.num_rows()).step_by(BLOCK_ROWS) {
                stop.check()?;
                write(&batch.slice(start, BLOCK_ROWS.min(batch.num_rows() - start)))?;
            }
        }
        stop.check()
    }
}

fn to_batch(schema: &SchemaRef, array: &ArrayRef) -> entasis::Result<RecordBatch> {
    if array.null_count() > 0 {
        return Err(Error::InvalidArgument(format!("{} rows are null as wholes", array.null_count())));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(array.len()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), array.as_struct().columns().to_vec(), &options)?)
}
