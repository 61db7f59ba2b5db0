//! Who is measured: Entasis and Parquet by arrow-rs, each from Arrow to bytes in memory and back, on one thread.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use entasis::{EncodeOptions, ReadRequest, Reader, WriteOptions, Writer};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::source::Source;
use crate::exit::Failure;
use crate::output::zstd;

/// Rows of a batch when a file is read: what query engines ask for (DataFusion's default), so that a batch stays in the processor's
/// caches and the next one is written where it was. Larger ones would measure how fast the system hands out memory.
pub const BATCH_ROWS: usize = 8192;

/// A file format with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Entasis with its defaults.
    Entasis,
    /// Parquet, uncompressed.
    ParquetPlain,
    /// Parquet with Snappy.
    ParquetSnappy,
    /// Parquet with Zstandard 3.
    ParquetZstd,
}

impl Contender {
    /// All, in the order of tables.
    pub const ALL: [Contender; 4] =
        [Contender::Entasis, Contender::ParquetPlain, Contender::ParquetSnappy, Contender::ParquetZstd];

    /// What tables and JSON call it.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Entasis => "entasis",
            Contender::ParquetPlain => "parquet",
            Contender::ParquetSnappy => "parquet_snappy",
            Contender::ParquetZstd => "parquet_zstd",
        }
    }

    /// What people read.
    pub fn words(self) -> &'static str {
        match self {
            Contender::Entasis => "Entasis",
            Contender::ParquetPlain => "Parquet, uncompressed",
            Contender::ParquetSnappy => "Parquet + Snappy",
            Contender::ParquetZstd => "Parquet + Zstd 3",
        }
    }

    /// Why it can't write tables of this schema, if so.
    pub fn refusal(self, schema: &Schema) -> Option<String> {
        let schema = Arc::new(schema.clone());
        match self.encode_batches(&schema, &[RecordBatch::new_empty(schema.clone())]) {
            Ok(_) => None,
            Err(failure) => Some(failure.to_string()),
        }
    }

    /// The bytes of a file with the table.
    pub fn encode(self, source: &Source) -> Result<Bytes, Failure> {
        self.encode_batches(&source.schema, &source.batches)
    }

    fn encode_batches(self, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Bytes, Failure> {
        let compression = match self {
            Contender::Entasis => return encode_entasis(schema, batches, EncodeOptions::default()),
            Contender::ParquetPlain => Ok(Compression::UNCOMPRESSED),
            Contender::ParquetSnappy => Ok(Compression::SNAPPY),
            Contender::ParquetZstd => zstd(),
        };
        let encoded = compression.and_then(|compression| encode_parquet(schema, batches, compression));
        encoded.map_err(|error| self.failure(error))
    }

    /// Calls `take` with every batch of a file, of [`BATCH_ROWS`] rows for all; the file's schema.
    pub fn decode(self, encoded: Bytes, take: &mut dyn FnMut(RecordBatch)) -> Result<SchemaRef, Failure> {
        match self {
            Contender::Entasis => decode_entasis(encoded, take),
            _ => decode_parquet(encoded, take).map_err(|error| self.failure(error)),
        }
    }

    fn failure(self, error: ParquetError) -> Failure {
        Failure::parquet(Path::new(self.name()), error)
    }
}

/// The bytes of an Entasis file whose blocks are encoded as `encode` says.
pub fn encode_entasis(schema: &SchemaRef, batches: &[RecordBatch], encode: EncodeOptions) -> Result<Bytes, Failure> {
    let options = WriteOptions { threads: 1, encode, ..WriteOptions::default() };
    let mut writer = Writer::new(Vec::new(), schema.clone(), options)?;
    for batch in batches {
        writer.write(batch)?;
    }
    let (encoded, _) = writer.finish()?;
    Ok(encoded.into())
}

fn decode_entasis(encoded: Bytes, take: &mut dyn FnMut(RecordBatch)) -> Result<SchemaRef, Failure> {
    let request = ReadRequest { batch_rows: BATCH_ROWS, threads: 1, ..ReadRequest::default() };
    let batches = Reader::from_bytes(encoded)?.read(request)?;
    let schema = batches.schema().clone();
    for batch in batches {
        take(batch?);
    }
    Ok(schema)
}

fn encode_parquet(
    schema: &SchemaRef,
    batches: &[RecordBatch],
    compression: Compression,
) -> Result<Bytes, ParquetError> {
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    Ok(writer.into_inner()?.into())
}

fn decode_parquet(encoded: Bytes, take: &mut dyn FnMut(RecordBatch)) -> Result<SchemaRef, ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(encoded)?;
    let schema = builder.schema().clone();
    for batch in builder.with_batch_size(BATCH_ROWS).build()? {
        take(batch?);
    }
    Ok(schema)
}
