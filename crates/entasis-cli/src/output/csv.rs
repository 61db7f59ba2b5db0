//! CSV out, with a line of names first. Nested values have no place in CSV.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_csv::Writer;
use arrow_schema::{ArrowError, SchemaRef};

use super::{Output, Sink};
use crate::cells;
use crate::exit::Failure;

struct CsvOutput {
    path: PathBuf,
    writer: Writer<Sink>,
    rows_done: u64,
    /// The line of names is written with the first batch; a table without rows has none but still names.
    schema: Option<SchemaRef>,
}

/// Begins a CSV file.
pub fn create(path: &Path, schema: &SchemaRef) -> Result<Box<dyn Output>, Failure> {
    check(path, schema)?;
    let writer = Writer::new(Sink::create(path)?);
    Ok(Box::new(CsvOutput { path: path.to_owned(), writer, rows_done: 0, schema: Some(schema.clone()) }))
}

/// Fails with the names of the columns that CSV can't hold; `path` is what the message begins with.
pub fn check(path: &Path, schema: &SchemaRef) -> Result<(), Failure> {
    let nested = schema.fields().iter().filter(|field| field.data_type().is_nested());
    let nested: Vec<&str> = nested.map(|field| field.name().as_str()).collect();
    if nested.is_empty() {
        return Ok(());
    }
    let names = nested.join(", ");
    Err(Failure::usage(format!(
        "{}: CSV can't hold nested values: {names} (choose other columns with --columns)",
        path.display()
    )))
}

impl Output for CsvOutput {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.schema = None;
        self.writer.write(batch).map_err(|error| failure(&self.path, batch, self.rows_done, error))?;
        self.rows_done += batch.num_rows() as u64;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u64, Failure> {
        if let Some(schema) = self.schema.take() {
            self.write(&RecordBatch::new_empty(schema))?;
        }
        self.writer.into_inner().commit(&self.path)
    }
}

/// Names and rows as CSV, as text: a value without one leaves no half of it on the screen.
pub fn text_of(path: &Path, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Vec<u8>, Failure> {
    let mut writer = Writer::new(Vec::new());
    let mut rows_done = 0;
    for batch in [&RecordBatch::new_empty(schema.clone())].into_iter().chain(batches) {
        writer.write(batch).map_err(|error| failure(path, batch, rows_done, error))?;
        rows_done += batch.num_rows() as u64;
    }
    Ok(writer.into_inner())
}

/// The CSV writer says `CsvError` to a value that has no text and to a full disk alike.
fn failure(path: &Path, batch: &RecordBatch, rows_done: u64, error: ArrowError) -> Failure {
    match (without_text(batch), error) {
        (Some((column, row)), _) => {
            let name = batch.schema_ref().field(column).name().clone();
            let value = cells::formatter(batch.column(column)).map(|cells| cells.value(row).to_string());
            let (row, value) = (rows_done + row as u64, value.unwrap_or_default());
            Failure::corrupt(
                path,
                format!("column {name:?}, row {row}: no calendar has {value}; CSV has no other text"),
            )
        }
        (None, ArrowError::CsvError(what)) => Failure::unusable(path, what),
        (None, other) => Failure::arrow(path, other),
    }
}

/// Column and row of the first value that Arrow can't write as text: a date or time outside every calendar.
fn without_text(batch: &RecordBatch) -> Option<(usize, usize)> {
    let options = FormatOptions::default();
    batch.columns().iter().enumerate().find_map(|(column, values)| {
        let formatter = ArrayFormatter::try_new(values, &options).ok()?;
        let row = (0..batch.num_rows()).find(|row| formatter.value(*row).try_to_string().is_err())?;
        Some((column, row))
    })
}
