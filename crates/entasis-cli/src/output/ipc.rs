//! Arrow IPC out: files and streams.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, SchemaRef};

use super::dictionaries::Dictionaries;
use super::{Output, Sink};
use crate::exit::Failure;

/// The file format: batches in any order, but one dictionary for each dictionary-typed field, which may grow.
struct FileOutput {
    path: PathBuf,
    writer: FileWriter<Sink>,
    dictionaries: Dictionaries,
}

/// The stream format: dictionaries may change from batch to batch.
struct StreamOutput {
    path: PathBuf,
    writer: StreamWriter<Sink>,
}

/// Begins an IPC file.
pub fn create_file(path: &Path, schema: &SchemaRef) -> Result<Box<dyn Output>, Failure> {
    // A dictionary that only grows is written piece by piece.
    let options = IpcWriteOptions::default().with_dictionary_handling(DictionaryHandling::Delta);
    let writer = FileWriter::try_new_with_options(Sink::create(path)?, schema, options);
    let writer = writer.map_err(|error| Failure::arrow(path, error))?;
    Ok(Box::new(FileOutput { path: path.to_owned(), writer, dictionaries: Dictionaries::new(schema) }))
}

/// Begins an IPC stream.
pub fn create_stream(path: &Path, schema: &SchemaRef, sink: Sink) -> Result<Box<dyn Output>, Failure> {
    let writer = StreamWriter::try_new(sink, schema).map_err(|error| Failure::arrow(path, error))?;
    Ok(Box::new(StreamOutput { path: path.to_owned(), writer }))
}

impl Output for FileOutput {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let unified = self.dictionaries.unify(batch);
        unified.and_then(|batch| self.writer.write(&batch)).map_err(|error| match error {
            ArrowError::InvalidArgumentError(_) | ArrowError::CastError(_) => Failure::corrupt(
                &self.path,
                format!(
                    "an Arrow IPC file holds one dictionary for each field, and here they can't become one ({error}); write a \
                     stream (.arrows) instead"
                ),
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
