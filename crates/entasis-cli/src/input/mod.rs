//! Tables that come in, whatever their format: a schema, and batches one after the other.

mod ent;
mod guarded;
mod ipc;
#[cfg(feature = "orc")]
mod orc;
mod parquet;
#[cfg(feature = "text")]
pub mod text;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};

use crate::exit::Failure;
use crate::format::Format;
use crate::paths;

pub use self::ent::open_reader;
#[cfg(feature = "text")]
pub use self::text::TextOptions;

/// A table that is being read. Memory holds about one batch (and what the format needs to decode it).
pub trait Input: Iterator<Item = Result<RecordBatch, Failure>> {
    /// The schema of every batch.
    fn schema(&self) -> SchemaRef;

    /// Rows of the table, if the format knows them before reading it all.
    fn rows(&self) -> Option<u64>;

    /// How much of the table has been read, from 0 to 1.
    fn fraction_done(&self) -> f64;
}

/// How to read.
#[derive(Clone, Debug)]
pub struct InputOptions {
    /// Keep only these columns, in this order; `None` for all.
    pub columns: Option<Vec<String>>,
    /// Rows of a batch, at most.
    pub batch_rows: usize,
    /// Stop after this many rows; `None` for all.
    pub row_limit: Option<u64>,
    /// Threads that may decode, where the format can use them.
    pub threads: usize,
    /// How text is read.
    #[cfg_attr(not(feature = "text"), expect(dead_code, reason = "there is nothing to say"))]
    pub text: TextOptions,
}

impl Default for InputOptions {
    fn default() -> Self {
        InputOptions { columns: None, batch_rows: 65_536, row_limit: None, threads: 1, text: TextOptions::default() }
    }
}

/// How text is read: it isn't.
#[cfg(not(feature = "text"))]
#[derive(Clone, Debug, Default)]
pub struct TextOptions {}

/// Opens a table.
pub fn open(path: &Path, format: Format, options: &InputOptions) -> Result<Box<dyn Input>, Failure> {
    paths::require_file(path)?;
    let input: Box<dyn Input> = match format {
        Format::Ent => ent::open(path, options)?,
        Format::Parquet => guarded::open(path, || parquet::open(path, options))?,
        #[cfg(feature = "text")]
        Format::Csv => text::csv::open(path, options)?,
        #[cfg(feature = "text")]
        Format::Ndjson => text::ndjson::open(path, options)?,
        #[cfg(not(feature = "text"))]
        Format::Csv | Format::Ndjson => return Err(Failure::without_feature(path, "text")),
        Format::Arrow | Format::ArrowStream => guarded::open(path, || ipc::open(path, options))?,
        #[cfg(feature = "orc")]
        Format::Orc => guarded::open(path, || orc::open(path, options))?,
        #[cfg(not(feature = "orc"))]
        Format::Orc => return Err(Failure::without_feature(path, "orc")),
    };
    Ok(match options.row_limit {
        Some(limit) => Box::new(Limited { input, left: limit }),
        None => input,
    })
}

/// The same columns under another schema of the same types.
fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), batch.columns().to_vec(), &options)
}

/// Opens a file to read it from its beginning to its end, counting.
fn open_counted(path: &Path) -> Result<(Counted<File>, Position), Failure> {
    let file = File::open(path).map_err(|error| Failure::io(path, &error))?;
    let metadata = file.metadata().map_err(|error| Failure::io(path, &error))?;
    let position = Position { at: Arc::default(), size_bytes: metadata.len() };
    Ok((Counted { inner: file, at: position.at.clone() }, position))
}

/// How far a [`Counted`] file has been read.
struct Position {
    at: Arc<AtomicU64>,
    size_bytes: u64,
}

impl Position {
    fn fraction(&self) -> f64 {
        self.at.load(Ordering::Relaxed) as f64 / self.size_bytes.max(1) as f64
    }
}

/// Counts the bytes that are read.
struct Counted<R> {
    inner: R,
    at: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.at.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let at = self.inner.seek(to)?;
        self.at.store(at, Ordering::Relaxed);
        Ok(at)
    }
}

/// The first rows of a table.
struct Limited {
    input: Box<dyn Input>,
    left: u64,
}

impl Iterator for Limited {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let batch = self.input.next()?;
        Some(batch.map(|batch| {
            let rows = self.left.min(batch.num_rows() as u64);
            self.left -= rows;
            batch.slice(0, rows as usize)
        }))
    }
}

impl Input for Limited {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn fraction_done(&self) -> f64 {
        self.input.fraction_done()
    }
}

/// Several tables of one schema, one after the other.
pub struct Chained {
    schema: SchemaRef,
    rows: Option<u64>,
    remaining: std::vec::IntoIter<(PathBuf, Format)>,
    options: InputOptions,
    current: Option<Box<dyn Input>>,
    opened: usize,
    count: usize,
}

impl Chained {
    /// Opens every table once, to see that their schemas are equal before any row is read.
    pub fn new(tables: Vec<(PathBuf, Format)>, options: InputOptions) -> Result<Self, Failure> {
        let mut first: Option<(SchemaRef, PathBuf)> = None;
        let mut rows = Some(0);
        for (path, format) in &tables {
            let input = open(path, *format, &options)?;
            rows = rows.zip(input.rows()).map(|(sum, rows)| sum + rows);
            match &first {
                None => first = Some((input.schema(), path.clone())),
                Some((schema, of)) => equal_fields(schema, of, &input.schema(), path)?,
            }
        }
        let (schema, _) = first.ok_or_else(|| Failure::usage("no input"))?;
        let count = tables.len();
        Ok(Chained { schema, rows, remaining: tables.into_iter(), options, current: None, opened: 0, count })
    }
}

impl Iterator for Chained {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.current.as_mut().and_then(Iterator::next) {
                // Metadata of the schema may differ from file to file: the first file's counts.
                let schema = self.schema.clone();
                return Some(batch.and_then(|batch| {
                    batch.with_schema(schema).map_err(|error| Failure::usage(format!("the schema changed: {error}")))
                }));
            }
            let (path, format) = self.remaining.next()?;
            self.opened += 1;
            match open(&path, format, &self.options) {
                Ok(input) => self.current = Some(input),
                Err(failure) => return Some(Err(failure)),
            }
        }
    }
}

impl Input for Chained {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> Option<u64> {
        self.rows
    }

    fn fraction_done(&self) -> f64 {
        let current = self.current.as_ref().map_or(0.0, |input| input.fraction_done());
        (self.opened.saturating_sub(1) as f64 + current) / self.count as f64
    }
}

/// Says in which column two tables that should go into one differ.
fn equal_fields(first: &SchemaRef, first_path: &Path, other: &SchemaRef, path: &Path) -> Result<(), Failure> {
    let differ = |what: String| {
        Err(Failure::usage(format!(
            "{}: {what} in {}; tables that go into one file need equal schemas (give a folder as the output to convert \
             each by itself)",
            path.display(),
            first_path.display()
        )))
    };
    for (one, two) in first.fields().iter().zip(other.fields()) {
        if one.name() != two.name() {
            return differ(format!("column {:?} stands where {:?} does", two.name(), one.name()));
        }
        if one.data_type() != two.data_type() {
            return differ(format!("column {:?} is {}, but {}", one.name(), two.data_type(), one.data_type()));
        }
        if one.is_nullable() != two.is_nullable() {
            let word = |nullable| if nullable { "nullable" } else { "not nullable" };
            let words = (word(two.is_nullable()), word(one.is_nullable()));
            return differ(format!("column {:?} is {}, but {}", one.name(), words.0, words.1));
        }
    }
    match (first.fields().len(), other.fields().len()) {
        (one, two) if one != two => differ(format!("there are {two} columns, but {one}")),
        _ => Ok(()),
    }
}
