//! Parquet out, by arrow-rs: Zstandard 3, its defaults otherwise. The Arrow schema travels in the file's metadata.
//!
//! Parquet has no type for Arrow's date64. If every value is a whole day, which Arrow asks for, the column is a DATE; readers that know
//! the Arrow schema make the same date64 of it. Else it is an INT64 of milliseconds, and only the Arrow schema says that they are dates.
//! Types that it can't hold at all are refused before anything is written.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, FieldRef, IntervalUnit, SchemaRef};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::dates::schema_as_days;
use super::{Output, OutputOptions, Sink};
use crate::exit::Failure;

struct ParquetOutput {
    path: PathBuf,
    writer: ArrowWriter<Sink>,
}

/// Zstandard at level 3, the usual choice for files that are kept.
pub fn zstd() -> Result<Compression, ParquetError> {
    Ok(Compression::ZSTD(ZstdLevel::try_new(3)?))
}

/// Begins a Parquet file.
pub fn create(path: &Path, schema: &SchemaRef, options: &OutputOptions) -> Result<Box<dyn Output>, Failure> {
    check(path, schema)?;
    let failure = |error| Failure::parquet(path, error);
    let mut properties = WriterProperties::builder().set_compression(zstd().map_err(failure)?);
    if let Some(rows) = options.row_group_rows {
        properties = properties.set_max_row_group_row_count(usize::try_from(rows).ok());
    }
    let sink = Sink::create(path)?;
    let mut writer_options = ArrowWriterOptions::new().with_properties(properties.build());
    if options.whole_days {
        let as_days = ArrowSchemaConverter::new().convert(&schema_as_days(schema)).map_err(failure)?;
        writer_options = writer_options.with_parquet_schema(as_days);
    }
    let writer = ArrowWriter::try_new_with_options(sink, schema.clone(), writer_options).map_err(failure)?;
    Ok(Box::new(ParquetOutput { path: path.to_owned(), writer }))
}

/// Fails with the name of the first column that Parquet can't hold, and what is in it.
fn check(path: &Path, schema: &SchemaRef) -> Result<(), Failure> {
    let found = schema.fields().iter().find_map(|field| Some((field.name(), without_parquet(field.data_type())?)));
    let Some((name, what)) = found else { return Ok(()) };
    Err(Failure::usage(format!(
        "{}: Parquet can't hold {what}, which column {name:?} has (choose other columns with --columns, or write .arrow)",
        path.display()
    )))
}

/// What a type has that there are no Parquet files of: in the format, or by arrow-rs.
fn without_parquet(data_type: &DataType) -> Option<&'static str> {
    let within = |field: &FieldRef| without_parquet(field.data_type());
    match data_type {
        DataType::Union(..) => Some("unions"),
        DataType::Interval(IntervalUnit::MonthDayNano) => Some("intervals of months, days and nanoseconds"),
        DataType::Struct(fields) if fields.is_empty() => Some("structs without fields"),
        DataType::Struct(fields) => fields.iter().find_map(within),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => match item.data_type() {
            DataType::RunEndEncoded(..) => Some("run-end encoded arrays in others"),
            _ => within(item),
        },
        DataType::RunEndEncoded(_, values) => within(values),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale)
            if *scale < 0 =>
        {
            Some("decimals of negative scale")
        }
        DataType::FixedSizeBinary(0) => Some("fixed-size binaries of size 0"),
        DataType::Dictionary(_, values) => dictionary_without_parquet(values),
        _ => None,
    }
}

/// Of dictionaries, arrow-rs writes or reads but some; of others it writes what it can't read.
fn dictionary_without_parquet(values: &DataType) -> Option<&'static str> {
    match values {
        DataType::Utf8View | DataType::BinaryView => Some("dictionaries of views"),
        DataType::Boolean => Some("dictionaries of booleans"),
        DataType::Null => Some("dictionaries of nulls"),
        DataType::Float16 => Some("dictionaries of 16-bit floats"),
        DataType::Interval(_) => Some("dictionaries of intervals"),
        decimal if decimal.is_decimal() => Some("dictionaries of decimals"),
        DataType::FixedSizeBinary(_) => Some("dictionaries of fixed-size binaries"),
        DataType::Dictionary(..) => Some("dictionaries of dictionaries"),
        nested if nested.is_nested() => Some("dictionaries of nested values"),
        other => without_parquet(other),
    }
}

impl Output for ParquetOutput {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.writer.write(batch).map_err(|error| Failure::parquet(&self.path, error))
    }

    fn finish(self: Box<Self>) -> Result<u64, Failure> {
        let sink = self.writer.into_inner().map_err(|error| Failure::parquet(&self.path, error))?;
        sink.commit(&self.path)
    }
}
