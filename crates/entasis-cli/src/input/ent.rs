//! Entasis in.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use entasis::{Batches, ReadRequest, Reader};

use super::{Input, InputOptions};
use crate::columns;
use crate::exit::Failure;
use crate::paths;

struct EntInput {
    batches: Batches,
    rows: u64,
    rows_done: u64,
}

/// Opens an Entasis file, for the commands that look into it.
pub fn open_reader(path: &Path) -> Result<Reader, Failure> {
    paths::require_file(path)?;
    Ok(Reader::open(path)?)
}

/// Opens an Entasis file as a table.
pub fn open(path: &Path, options: &InputOptions) -> Result<Box<dyn Input>, Failure> {
    let reader = open_reader(path)?;
    let mut request =
        ReadRequest { batch_rows: options.batch_rows, threads: options.threads, ..ReadRequest::default() };
    if let Some(columns) = &options.columns {
        columns::refuse_repeats(columns)?;
        request.projection = reader.projection(columns).map_err(|error| untold(&reader, columns, path, error))?;
    }
    request.rows = options.row_limit.map(|limit| 0..limit.min(reader.rows()));
    Ok(Box::new(EntInput { batches: reader.read(request)?, rows: reader.rows(), rows_done: 0 }))
}

/// Why columns weren't found. A name without a column is told as for all other formats.
fn untold(reader: &Reader, names: &[String], path: &Path, error: entasis::Error) -> Failure {
    let is_unknown = |name: &&String| {
        let found = reader.projection(std::slice::from_ref(*name));
        matches!(found, Err(entasis::Error::InvalidArgument(_)))
    };
    match (names.iter().find(is_unknown), reader.schema()) {
        (Some(name), Ok(schema)) => columns::unknown(&schema, name, path),
        _ => error.into(),
    }
}

impl Iterator for EntInput {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        self.rows_done += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        Some(batch.map_err(Failure::from))
    }
}

impl Input for EntInput {
    fn schema(&self) -> SchemaRef {
        self.batches.schema().clone()
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn fraction_done(&self) -> f64 {
        self.rows_done as f64 / self.rows.max(1) as f64
    }
}
