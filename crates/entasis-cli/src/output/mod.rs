//! Tables that go out, whatever their format: nothing is visible under the output's name before [`Output::finish`].

mod csv;
mod dates;
mod dictionaries;
mod ent;
mod ipc;
mod parquet;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use entasis::atomic::AtomicFile;

use crate::exit::Failure;
use crate::format::Format;

pub use self::csv::{check as check_csv, text_of as csv_text};
pub use self::dates::{are_whole_days, names as names_with_date64};
pub use self::parquet::zstd;

/// A table that is being written. Dropped before its end, it leaves nothing.
pub trait Output {
    /// Appends rows.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Failure>;

    /// Makes the file visible; its size in bytes.
    fn finish(self: Box<Self>) -> Result<u64, Failure>;
}

/// How to write.
#[derive(Clone, Debug)]
pub struct OutputOptions {
    /// Rows of a row group, for the formats that have them; `None` for the default.
    pub row_group_rows: Option<u64>,
    /// Threads that may encode, where the format can use them.
    pub threads: usize,
    /// Every date64 value of the table is a whole day, see [`are_whole_days`].
    pub whole_days: bool,
}

/// Begins a table.
pub fn create(
    path: &Path,
    format: Format,
    schema: &SchemaRef,
    options: &OutputOptions,
) -> Result<Box<dyn Output>, Failure> {
    match format {
        Format::Ent => ent::create(path, schema, options),
        Format::Parquet => parquet::create(path, schema, options),
        Format::Csv => csv::create(path, schema),
        Format::Arrow => ipc::create_file(path, schema),
        Format::ArrowStream => ipc::create_stream(path, schema),
    }
}

/// Writes a whole file at once.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut sink = Sink::create(path)?;
    sink.write_all(bytes).map_err(|error| Failure::io(path, &error))?;
    sink.commit(path).map(drop)
}

/// A buffered [`AtomicFile`] that knows its size.
struct Sink {
    file: BufWriter<AtomicFile>,
    size_bytes: u64,
}

impl Sink {
    fn create(path: &Path) -> Result<Self, Failure> {
        const BUFFER_BYTES: usize = 1 << 20;
        let file = BufWriter::with_capacity(BUFFER_BYTES, AtomicFile::create(path)?);
        Ok(Sink { file, size_bytes: 0 })
    }

    fn commit(self, path: &Path) -> Result<u64, Failure> {
        let file = self.file.into_inner().map_err(|error| Failure::io(path, error.error()))?;
        file.commit()?;
        Ok(self.size_bytes)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.size_bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
