//! Tables as text, batch by batch: a value that has no text leaves no half of a batch behind.

mod csv;
mod ndjson;

use std::io::Write;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;

use crate::exit::Failure;
use crate::output::{Output, Sink};

pub use self::csv::Csv;
pub use self::ndjson::Ndjson;

/// A format of text.
pub trait Text {
    /// What stands before the first row.
    fn head(&self) -> Result<Vec<u8>, Failure>;

    /// Rows; `rows_done` were before them.
    fn rows(&self, batch: &RecordBatch, rows_done: u64) -> Result<Vec<u8>, Failure>;
}

struct TextOutput<T> {
    path: PathBuf,
    sink: Sink,
    text: T,
    rows_done: u64,
}

/// Begins a file of text.
pub fn create<T: Text + 'static>(path: &Path, text: T, mut sink: Sink) -> Result<Box<dyn Output>, Failure> {
    sink.write_all(&text.head()?).map_err(|error| Failure::io(path, &error))?;
    Ok(Box::new(TextOutput { path: path.to_owned(), sink, text, rows_done: 0 }))
}

/// A whole table.
pub fn whole(text: &dyn Text, batches: &[RecordBatch]) -> Result<Vec<u8>, Failure> {
    let mut bytes = text.head()?;
    let mut rows_done = 0;
    for batch in batches {
        bytes.extend(text.rows(batch, rows_done)?);
        rows_done += batch.num_rows() as u64;
    }
    Ok(bytes)
}

impl<T: Text> Output for TextOutput<T> {
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let rows = self.text.rows(batch, self.rows_done)?;
        self.sink.write_all(&rows).map_err(|error| Failure::io(&self.path, &error))?;
        self.rows_done += batch.num_rows() as u64;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<u64, Failure> {
        self.sink.commit(&self.path)
    }
}
