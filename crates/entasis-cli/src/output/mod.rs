//! Tables that go out, whatever their format: nothing is visible under the output's name before [`Output::finish`].

mod dates;
mod dictionaries;
mod ent;
mod ipc;
mod parquet;
#[cfg(feature = "text")]
mod text;

use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use entasis::atomic::AtomicFile;
use entasis::{BloomColumn, Profile};

use crate::exit::Failure;
use crate::format::Format;

pub use self::dates::{are_whole_days, names as names_with_date64};
pub use self::parquet::zstd;
#[cfg(feature = "text")]
pub use self::text::{Csv, Ndjson, Text, whole as whole_text};

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
    /// How an Entasis file is encoded.
    pub encoding: Encoding,
}

/// What can be asked of the columns of an Entasis file.
#[derive(Clone, Debug, Default)]
pub struct Encoding {
    /// What a byte is worth against the time that decoding takes.
    pub profile: Profile,
    /// Columns, and the encoding that the values of each must have.
    pub columns: Vec<(String, String)>,
    /// Columns that get Bloom filters.
    pub bloom: Vec<BloomColumn>,
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
        Format::Arrow => ipc::create_file(path, schema),
        #[cfg(feature = "text")]
        Format::Csv => text::create(path, Csv::new(path, schema)?, Sink::create(path)?),
        #[cfg(feature = "text")]
        Format::Ndjson => text::create(path, Ndjson::new(path, schema)?, Sink::create(path)?),
        #[cfg(not(feature = "text"))]
        Format::Csv | Format::Ndjson => Err(Failure::without_feature(path, "text")),
        Format::ArrowStream => ipc::create_stream(path, schema, Sink::create(path)?),
        Format::Orc => Err(Failure::usage(format!("{}: ORC is read, not written", path.display()))),
    }
}

/// Begins a table on standard output, in a format that needs no more than to be written from its beginning to its end.
#[cfg(feature = "text")]
pub fn create_standard(format: StreamFormat, schema: &SchemaRef) -> Result<Box<dyn Output>, Failure> {
    let path = Path::new("standard output");
    match format {
        StreamFormat::Csv => text::create(path, Csv::new(path, schema)?, Sink::standard()),
        StreamFormat::Ndjson => text::create(path, Ndjson::new(path, schema)?, Sink::standard()),
        StreamFormat::Arrow => ipc::create_stream(path, schema, Sink::standard()),
    }
}

/// What [`create_standard`] writes.
#[cfg(feature = "text")]
#[derive(Clone, Copy, Debug)]
pub enum StreamFormat {
    /// Comma-separated values.
    Csv,
    /// A JSON object per line.
    Ndjson,
    /// Arrow IPC, stream format.
    Arrow,
}

/// Writes a whole file at once.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut sink = Sink::create(path)?;
    sink.write_all(bytes).map_err(|error| Failure::io(path, &error))?;
    sink.commit(path).map(drop)
}

/// A buffered file, or standard output, that knows its size.
struct Sink {
    target: BufWriter<Target>,
    size_bytes: u64,
}

enum Target {
    File(AtomicFile),
    Standard(Stdout),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::File(file) => file.write(bytes),
            Target::Standard(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::File(file) => file.flush(),
            Target::Standard(out) => out.flush(),
        }
    }
}

impl Sink {
    fn create(path: &Path) -> Result<Self, Failure> {
        const BUFFER_BYTES: usize = 1 << 20;
        let target = BufWriter::with_capacity(BUFFER_BYTES, Target::File(AtomicFile::create(path)?));
        Ok(Sink { target, size_bytes: 0 })
    }

    #[cfg_attr(not(feature = "text"), expect(dead_code, reason = "only `cat` writes there"))]
    fn standard() -> Self {
        Sink { target: BufWriter::new(Target::Standard(io::stdout())), size_bytes: 0 }
    }

    fn commit(self, path: &Path) -> Result<u64, Failure> {
        let target = self.target.into_inner().map_err(|error| Failure::io(path, error.error()))?;
        match target {
            Target::File(file) => file.commit()?,
            Target::Standard(mut out) => out.flush().map_err(|error| Failure::io(path, &error))?,
        }
        Ok(self.size_bytes)
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.target.write(bytes)?;
        self.size_bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}
