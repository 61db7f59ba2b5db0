//! Arrow IPC out: files and streams.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};

use super::{Output, Sink};
use crate::exit::Failure;

/// The file format: batches in any order, but one dictionary for each column.
struct FileOutput {
    path: PathBuf,
    writer: FileWriter<Sink>,
}

/// The stream format: dictionaries may change from batch to batch.
struct StreamOutput {
    path: PathBuf,
    writer: StreamWriter<Sink>,
}

/// Begins an IPC file.
pub fn create_file(path: &Path, schema: &SchemaRef) -> Result<Box<dyn Output>, Failure> {
    let writer = FileWriter::try_new(Sink::create(path)?, schema).map_err(|error| Failure::arrow(path, error))?;
    Ok(Box::new(FileOutput { path: path.to_owned(), writer }))
}

/// Begins an IPC stream.
pub fn create_stream(path: &Path, schema: &SchemaRef) -> Result<Box<dyn Output>, Failure> {
    let writer = StreamWriter::try_new(Sink::create(path)?, schema).map_err(|error| Failure::arrow(path, error))?;
    Ok(Box::new(StreamOutput { path: path.to_owned(), writer }))
}

impl Output for FileOutput {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.writer.write(batch).map_err(|error| match error {
            ArrowError::InvalidArgumentError(what) if what.contains("Dictionary replacement") => Failure::corrupt(
                &self.path,
                "an Arrow IPC file holds one dictionary for each column, but here it changes from batch to batch; \
                 write a stream (.arrows) instead",
            ),
            other => Failure::arrow(&self.path, other),
        })
    }

    fn finish(self: Box<Self>) -> Result<u64, Failure> {
        self.writer.into_inner().map_err(|error| Failure::arrow(&self.path, error))?.commit(&self.path)
    }
}

impl Output for StreamOutput {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        self.writer.write(batch).map_err(|error| Failure::arrow(&self.path, error))
    }

    fn finish(self: Box<Self>) -> Result<u64, Failure> {
        self.writer.into_inner().map_err(|error| Failure::arrow(&self.path, error))?.commit(&self.path)
    }
}
