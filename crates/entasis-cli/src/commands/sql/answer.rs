//! The rows of an answer, as any other table that comes in.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_schema::{Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use entasis::Strings;
use entasis::arrow::target_field;
use futures::StreamExt;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;

use super::errors::failure;
use super::interrupt::{Interrupt, broken};
use super::workers::Workers;
use crate::exit::Failure;
use crate::input::Input;

/// Batches of a query that is running. Dropped, it stops.
pub struct Answer {
    workers: Arc<Workers>,
    batches: Receiver<datafusion::common::Result<RecordBatch>>,
    /// Nothing once it has ended.
    task: Option<JoinHandle<()>>,
    schema: SchemaRef,
    interrupt: Interrupt,
}

impl Answer {
    /// The rows of a stream, with strings as every reader of files knows them instead of the engine's views. It is computed by a task of its own: whoever
    /// asks for rows can give it up while it computes.
    pub fn new(workers: Arc<Workers>, mut stream: SendableRecordBatchStream, interrupt: Interrupt) -> Self {
        let stored = stream.schema();
        let fields: Vec<_> = stored.fields().iter().map(|field| target_field(field, Strings::Offsets)).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, stored.metadata().clone()));
        let (sender, batches) = channel(1);
        let task = workers.spawn(async move {
            while let Some(batch) = stream.next().await {
                if sender.send(batch).await.is_err() {
                    break;
                }
            }
        });
        Self { workers, batches, task: Some(task), schema, interrupt }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Iterator for Answer {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.interrupt.unless_pressed(&self.workers, self.batches.recv()) {
            Err(stopped) => return Some(Err(stopped)),
            Ok(Some(batch)) => batch,
            Ok(None) => {
                let ended = self.workers.wait(self.task.take()?);
                return ended.map_err(broken).err().map(Err);
            }
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
