//! CSV out, with a line of names first. Lists and structs have no place in CSV.

use std::io::Write;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_csv::Writer;
use arrow_schema::{ArrowError, SchemaRef};

use super::{Output, Sink};
use crate::exit::Failure;

struct CsvOutput {
    path: PathBuf,
    writer: Writer<Sink>,
    /// The line of names is written with the first batch; a table without rows has none but still names.
    schema: Option<SchemaRef>,
}

/// Begins a CSV file.
pub fn create(path: &Path, schema: &SchemaRef) -> Result<Box<dyn Output>, Failure> {
    check(path, schema)?;
    let writer = Writer::new(Sink::create(path)?);
    Ok(Box::new(CsvOutput { path: path.to_owned(), writer, schema: Some(schema.clone()) }))
}

/// Fails with the names of columns that CSV can't hold.
fn check(path: &Path, schema: &SchemaRef) -> Result<(), Failure> {
    let nested = schema.fields().iter().filter(|field| field.data_type().is_nested());
    let nested: Vec<&str> = nested.map(|field| field.name().as_str()).collect();
    if nested.is_empty() {
        return Ok(());
    }
    let what = format!("CSV can't hold lists and structs: {} (choose others with --columns)", nested.join(", "));
    Err(Failure::corrupt(path, what))
}

impl Output for CsvOutput {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.schema = None;
        self.writer.write(batch).map_err(|error| match error {
            // Types were looked at before: what the CSV writer itself still complains of is the disk.
            ArrowError::CsvError(what) => Failure::io(&self.path, what),
            other => Failure::arrow(&self.path, other),
        })
    }

    fn finish(mut self: Box<Self>) -> Result<u64, Failure> {
        if let Some(schema) = self.schema.take() {
            self.write(&RecordBatch::new_empty(schema))?;
        }
        self.writer.into_inner().commit(&self.path)
    }
}

/// Writes names and rows as CSV.
pub fn write_rows(out: impl Write, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<(), ArrowError> {
    let mut writer = Writer::new(out);
    writer.write(&RecordBatch::new_empty(schema.clone()))?;
    batches.iter().try_for_each(|batch| writer.write(batch))
}
