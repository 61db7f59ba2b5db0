//! Parquet in, by arrow-rs. The Arrow schema that writers leave in the file's metadata is honoured.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::{Input, InputOptions, with_schema};
use crate::columns::Picks;
use crate::exit::Failure;

struct ParquetInput {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    schema: SchemaRef,
    picks: Option<Picks>,
    rows: u64,
    rows_done: u64,
}

/// Opens a Parquet file.
pub fn open(path: &Path, options: &InputOptions) -> Result<Box<dyn Input>, Failure> {
    let failure = |error| Failure::parquet(path, error);
    let file = File::open(path).map_err(|error| Failure::io(path, &error))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failure)?;
    let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
    let picks = options.columns.as_ref().map(|names| Picks::new(builder.schema(), names, path)).transpose()?;
    let mask = match &picks {
        Some(picks) => ProjectionMask::roots(builder.parquet_schema(), picks.roots()),
        None => ProjectionMask::all(),
    };
    let schema = match &picks {
        Some(picks) => picks.schema(),
        None => builder.schema().clone(),
    };
    let mut builder = builder.with_projection(mask).with_batch_size(options.batch_rows);
    if let Some(limit) = options.row_limit {
        builder = builder.with_limit(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let reader = builder.build().map_err(failure)?;
    let picks = picks.as_ref().map(Picks::among_roots);
    Ok(Box::new(ParquetInput { path: path.to_owned(), reader, schema, picks, rows, rows_done: 0 }))
}

impl Iterator for ParquetInput {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        let batch = batch.and_then(|batch| match &self.picks {
            Some(picks) => picks.apply(&batch),
            // The reader's batches lack the schema's metadata.
            None => with_schema(batch, &self.schema),
        });
        self.rows_done += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        Some(batch.map_err(|error| Failure::arrow(&self.path, error)))
    }
}

impl Input for ParquetInput {
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
