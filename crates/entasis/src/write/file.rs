//! Writing a file of the local file system.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::{Summary, WriteOptions, Writer};
use crate::{atomic::AtomicFile, error::Result};

/// A [`Writer`] over a file that appears at its path complete, when [`Self::finish`] returns, or not at all: dropping
/// the writer, an error and the end of the process leave nothing, and an earlier file of the path stays.
pub struct FileWriter {
    writer: Writer<AtomicFile>,
}

impl FileWriter {
    /// Begins a file that will be at `path`.
    pub fn create(path: &Path, schema: SchemaRef, options: WriteOptions) -> Result<Self> {
        let name = path.display().to_string();
        Ok(Self { writer: Writer::named(AtomicFile::create(path)?, name, schema, options)? })
    }

    /// The schema that was given.
    pub fn schema(&self) -> &SchemaRef {
        self.writer.schema()
    }

    /// Appends the rows of `batch`: see [`Writer::write`].
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch)
    }

    /// Completes the file, makes it durable and visible.
    pub fn finish(self) -> Result<Summary> {
        let (file, summary) = self.writer.finish()?;
        file.commit()?;
        Ok(summary)
    }
}
