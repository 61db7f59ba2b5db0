//! Parquet out, by arrow-rs: Zstandard 3, its defaults otherwise. The Arrow schema travels in the file's metadata.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

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
    let writer = ArrowWriter::try_new(sink, schema.clone(), Some(properties.build())).map_err(failure)?;
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
