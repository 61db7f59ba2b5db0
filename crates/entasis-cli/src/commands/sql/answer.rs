//! The rows of an answer, as any other table that comes in.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use entasis::Strings;
use entasis::arrow::target_field;
use futures::StreamExt;
use tokio::runtime::Runtime;

use super::errors::{failure, stopped};
use crate::exit::Failure;
use crate::input::Input;

/// Batches of a query that is running. Dropped, it stops.
pub struct Answer {
    runtime: Arc<Runtime>,
    stream: SendableRecordBatchStream,
    schema: SchemaRef,
}

impl Answer {
    /// The rows of a stream, with strings as every reader of files knows them instead of the engine's views.
    pub fn new(runtime: Arc<Runtime>, stream: SendableRecordBatchStream) -> Self {
        let stored = stream.schema();
        let fields: Vec<_> = stored.fields().iter().map(|field| target_field(field, Strings::Offsets)).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, stored.metadata().clone()));
        Self { runtime, stream, schema }
    }
}

impl Iterator for Answer {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.runtime.block_on(async {
            tokio::select! {
                batch = self.stream.next() => Some(batch),
                _ = tokio::signal::ctrl_c() => None,
            }
        });
        let batch = match batch {
            None => return Some(Err(stopped())),
            Some(batch) => batch?,
        };
        Some(
            batch
                .map_err(|error| failure(&error))
                .and_then(|batch| with_schema(&batch, &self.schema).map_err(|error| failure(&error.into()))),
        )
    }
}

fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(array, field)| {
        if array.data_type() == field.data_type() { Ok(array.clone()) } else { cast(array, field.data_type()) }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

impl Input for Answer {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn fraction_done(&self) -> f64 {
        0.0
    }
}
