//! ORC in, by orc-rust. Timestamps are read in nanoseconds, which is what ORC keeps; outside the years 1677 to 2262 they are an error.

use std::fs::File;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use orc_rust::arrow_reader::{ArrowReader, ArrowReaderBuilder};
use orc_rust::error::OrcError;
use orc_rust::projection::ProjectionMask;

use super::{Input, InputOptions, with_schema};
use crate::columns::Picks;
use crate::exit::Failure;

struct OrcInput {
    path: PathBuf,
    reader: ArrowReader<File>,
    schema: SchemaRef,
    picks: Option<Picks>,
    rows: u64,
    rows_done: u64,
}

/// Opens an ORC file.
pub fn open(path: &Path, options: &InputOptions) -> Result<Box<dyn Input>, Failure> {
    let file = File::open(path).map_err(|error| Failure::io(path, &error))?;
    let builder = guarded(path, || ArrowReaderBuilder::try_new(file).map_err(|error| failure(path, error)))?;
    let picks = options.columns.as_ref().map(|names| Picks::new(&builder.schema(), names, path)).transpose()?;
    let root = builder.file_metadata().root_data_type();
    let mask = match &picks {
        Some(picks) => {
            let columns: Vec<usize> = root.children().iter().map(|column| column.data_type().column_index()).collect();
            let roots: Vec<usize> = picks.roots().into_iter().map(|index| columns[index]).collect();
            ProjectionMask::roots(root, roots)
        }
        None => ProjectionMask::all(),
    };
    let reader = builder.with_projection(mask).with_batch_size(options.batch_rows);
    let schema = picks.as_ref().map_or_else(|| reader.schema(), Picks::schema);
    let reader = guarded(path, || Ok(reader.build()))?;
    let (path, rows) = (path.to_owned(), reader.total_row_count());
    Ok(Box::new(OrcInput { path, reader, schema, picks: picks.as_ref().map(Picks::among_roots), rows, rows_done: 0 }))
}

/// The reader was not made for damaged files: where it panics over one, that is the file's fault.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| ()));
    let read = panic::catch_unwind(AssertUnwindSafe(read));
    panic::set_hook(hook);
    read.unwrap_or_else(|_| Err(Failure::corrupt(path, "no ORC file, or a damaged one")))
}

fn failure(path: &Path, error: OrcError) -> Failure {
    match error {
        OrcError::IoError { source, .. } => Failure::read(path, source),
        other => Failure::corrupt(path, other),
    }
}

fn arrow_failure(path: &Path, error: ArrowError) -> Failure {
    match error {
        ArrowError::ExternalError(source) => match source.downcast::<OrcError>() {
            Ok(error) => failure(path, *error),
            Err(other) => Failure::corrupt(path, other),
        },
        other => Failure::arrow(path, other),
    }
}

impl Iterator for OrcInput {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let OrcInput { path, reader, picks, schema, .. } = self;
        let batch = guarded(path, || {
            let batch = reader.next().transpose().map_err(|error| arrow_failure(path, error))?;
            let batch = batch.map(|batch| match picks {
                Some(picks) => picks.apply(&batch),
                // The reader's batches lack the schema's metadata.
                None => with_schema(batch, schema),
            });
            batch.transpose().map_err(|error| Failure::arrow(path, error))
        });
        self.rows_done += batch.as_ref().map_or(0, |batch| batch.as_ref().map_or(0, |batch| batch.num_rows() as u64));
        batch.transpose()
    }
}

impl Input for OrcInput {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn fraction_done(&self) -> f64 {
        self.rows_done as f64 / self.rows.max(1) as f64
    }
}
