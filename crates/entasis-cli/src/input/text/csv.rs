//! CSV in: types by a look at the first rows (or as stated), then arrow-rs' reader. What doesn't fit is told with line and column.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_csv::ReaderBuilder;
use arrow_csv::reader::Reader;
use arrow_schema::{DataType, Schema, SchemaRef};

use super::csv_blank::BlankLines;
use super::csv_quotes::{OpenQuote, Quotes};
use super::csv_range::RangeCheck;
use super::decompress::{self, Text};
use super::{InferRows, TextOptions, csv_error, csv_types};
use crate::columns::Picks;
use crate::exit::Failure;
use crate::input::{Input, InputOptions, Position};

struct CsvInput {
    path: PathBuf,
    reader: Reader<Quotes<BlankLines<Text>>>,
    open_quote: OpenQuote,
    position: Position,
    /// Of the whole file.
    file_schema: SchemaRef,
    /// Of what is kept.
    schema: SchemaRef,
    /// The columns that are read, ascending.
    columns: Vec<usize>,
    picks: Option<Picks>,
    range_check: RangeCheck,
    rows_done: u64,
    is_done: bool,
}

/// Opens a CSV file whose first line holds the names.
pub fn open(path: &Path, options: &InputOptions) -> Result<Box<dyn Input>, Failure> {
    let file_schema = Arc::new(schema(path, &options.text)?);
    let picks = options.columns.as_ref().map(|names| Picks::new(&file_schema, names, path)).transpose()?;
    let schema = picks.as_ref().map_or(file_schema.clone(), Picks::schema);
    let (text, position) = decompress::open(path)?;
    let mut builder = ReaderBuilder::new(file_schema.clone()).with_header(true).with_batch_size(options.batch_rows);
    if let Some(picks) = &picks {
        builder = builder.with_projection(picks.roots());
    }
    let (text, open_quote) = Quotes::new(BlankLines::new(text));
    let reader = builder.build(text).map_err(|error| Failure::arrow(path, error))?;
    let columns = picks.as_ref().map_or_else(|| (0..file_schema.fields().len()).collect(), Picks::roots);
    let picks = picks.as_ref().map(Picks::among_roots);
    Ok(Box::new(CsvInput {
        path: path.to_owned(),
        reader,
        open_quote,
        position,
        file_schema,
        schema,
        columns,
        picks,
        range_check: RangeCheck::new(path),
        rows_done: 0,
        is_done: false,
    }))
}

/// Names from the first line, types from the first rows, stated types over both.
fn schema(path: &Path, options: &TextOptions) -> Result<Schema, Failure> {
    let mut fields = csv_types::infer(path, options.infer_rows.limit(Some(InferRows::FIRST)))?;
    for (name, data_type) in &options.types {
        let mut named = fields.iter_mut().filter(|field| field.name() == name || name == "*").peekable();
        if named.peek().is_none() {
            return Err(Failure::usage(format!(
                "{}: --types names a column {name:?} that isn't there",
                path.display()
            )));
        }
        named.for_each(|field| field.set_data_type(data_type.clone()));
    }
    Ok(Schema::new(fields))
}

/// The words that `--types` understands, and the types that they stand for; beside them, Arrow's own spellings.
pub fn type_named(word: &str) -> Option<DataType> {
    use arrow_schema::TimeUnit;
    Some(match word {
        "string" => DataType::Utf8,
        "bool" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float32" => DataType::Float32,
        "float64" => DataType::Float64,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        other => other.parse().ok()?,
    })
}

impl Iterator for CsvInput {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(batch) = self.reader.next() else {
            let line = self.open_quote.line().filter(|_| !std::mem::replace(&mut self.is_done, true))?;
            let what = format!("line {line}: a field begins with a quote that is never closed");
            return Some(Err(Failure::corrupt(&self.path, what)));
        };
        let located = |error| csv_error::locate(&self.path, &self.file_schema, self.rows_done, error);
        let batch = batch.map_err(located).and_then(|batch| {
            self.range_check.check(&batch, &self.columns, self.rows_done)?;
            self.rows_done += batch.num_rows() as u64;
            match &self.picks {
                Some(picks) => picks.apply(&batch).map_err(|error| Failure::arrow(&self.path, error)),
                None => Ok(batch),
            }
        });
        Some(batch)
    }
}

impl Input for CsvInput {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn fraction_done(&self) -> f64 {
        self.position.fraction()
    }
}
