//! Parquet out, by arrow-rs: Zstandard 3, its defaults otherwise. The Arrow schema travels in the file's metadata.
//!
//! Parquet has no type for Arrow's date64. If every value is a whole day, which Arrow asks for, the column is a DATE; readers that know
//! the Arrow schema make the same date64 of it. Else it is an INT64 of milliseconds, and only the Arrow schema says that they are dates.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
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

impl Output for ParquetOutput {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.writer.write(batch).map_err(|error| Failure::parquet(&self.path, error))
    }

    fn finish(self: Box<Self>) -> Result<u64, Failure> {
        let sink = self.writer.into_inner().map_err(|error| Failure::parquet(&self.path, error))?;
        sink.commit(&self.path)
    }
}
