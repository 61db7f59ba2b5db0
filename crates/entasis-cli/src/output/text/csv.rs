//! CSV out, with a line of names first. Nested values have no place in CSV.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_csv::WriterBuilder;
use arrow_schema::SchemaRef;

use super::Text;
use crate::cells;
use crate::exit::Failure;

/// A table as CSV.
pub struct Csv {
    path: PathBuf,
    schema: SchemaRef,
}

impl Csv {
    /// Fails with the names of the columns that CSV can't hold; `path` is what messages begin with.
    pub fn new(path: &Path, schema: &SchemaRef) -> Result<Self, Failure> {
        let nested = schema.fields().iter().filter(|field| field.data_type().is_nested());
        let nested: Vec<&str> = nested.map(|field| field.name().as_str()).collect();
        if nested.is_empty() {
            return Ok(Csv { path: path.to_owned(), schema: schema.clone() });
        }
        Err(Failure::usage(format!(
            "{}: CSV can't hold nested values: {} (choose other columns with --columns, or NDJSON, which holds them)",
            path.display(),
            nested.join(", ")
        )))
    }

    fn text(&self, batch: &RecordBatch, header: bool, rows_done: u64) -> Result<Vec<u8>, Failure> {
        let mut writer = WriterBuilder::new().with_header(header).build(Vec::new());
        let written = writer.write(batch);
        written.map_err(|error| {
            without_calendar(&self.path, batch, rows_done).unwrap_or_else(|| Failure::arrow(&self.path, error))
        })?;
        Ok(writer.into_inner())
    }
}

impl Text for Csv {
    fn head(&self) -> Result<Vec<u8>, Failure> {
        self.text(&RecordBatch::new_empty(self.schema.clone()), true, 0)
    }

    fn rows(&self, batch: &RecordBatch, rows_done: u64) -> Result<Vec<u8>, Failure> {
        self.text(batch, false, rows_done)
    }
}

/// Names the value of a batch that no calendar has.
pub fn without_calendar(path: &Path, batch: &RecordBatch, rows_done: u64) -> Option<Failure> {
    let (column, row) = without_text(batch)?;
    let name = batch.schema_ref().field(column).name().clone();
    let value = cells::formatter(batch.column(column)).map(|cells| cells.value(row).to_string());
    let (row, value) = (rows_done + row as u64, value.unwrap_or_default());
    let what = format!("column {name:?}, row {row}: no calendar has {value}; there is no other text for it");
    Some(Failure::corrupt(path, what))
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
