//! Entasis out.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use entasis::{EncodeOptions, FileWriter, WriteOptions};

use super::{Output, OutputOptions};
use crate::exit::Failure;

struct EntOutput(FileWriter);

/// Begins an Entasis file.
pub fn create(path: &Path, schema: &SchemaRef, options: &OutputOptions) -> Result<Box<dyn Output>, Failure> {
    let mut write_options = WriteOptions {
        threads: options.threads,
        encode: EncodeOptions::of(options.encoding.profile),
        encodings: options.encoding.columns.clone(),
        bloom: options.encoding.bloom.clone(),
        ..WriteOptions::default()
    };
    if let Some(rows) = options.row_group_rows {
        write_options.row_group_rows = rows;
    }
    Ok(Box::new(EntOutput(FileWriter::create(path, schema.clone(), write_options)?)))
}

impl Output for EntOutput {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        Ok(self.0.write(batch)?)
    }

    fn finish(self: Box<Self>) -> Result<u64, Failure> {
        Ok(self.0.finish()?.size_bytes)
    }
}
