//! What several tests need: files in memory, and comparison by the crate's own oracle.

#![allow(dead_code, clippy::unwrap_used, reason = "every test uses some of it, and may panic")]

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use entasis::{
    Batches, Error, ReadRequest, Reader, Result, WriteOptions, Writer, compare::first_difference, source::Source,
};

/// A file of these batches.
pub fn write(schema: &SchemaRef, batches: &[RecordBatch], options: WriteOptions) -> Bytes {
    let mut writer = Writer::new(Vec::new(), schema.clone(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    let (bytes, summary) = writer.finish().unwrap();
    assert_eq!(summary.size_bytes, bytes.len() as u64);
    assert_eq!(summary.rows, batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>());
    bytes.into()
}

/// All rows of a request as one batch.
pub fn collect(batches: Batches) -> Result<RecordBatch> {
    let schema = batches.schema().clone();
    let batches = batches.collect::<Result<Vec<_>>>()?;
    Ok(concat(&schema, &batches))
}

/// The batches one after the other, also where they have no columns.
pub fn concat(schema: &SchemaRef, batches: &[RecordBatch]) -> RecordBatch {
    if schema.fields().is_empty() {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        return RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
    }
    arrow_select::concat::concat_batches(schema, batches).unwrap()
}

pub fn read_all(reader: &Reader) -> Result<RecordBatch> {
    collect(reader.read(ReadRequest::default())?)
}

/// Fails unless the batches together are `expected`. Piece by piece: Arrow can't put dictionaries together whose values are
/// more than their keys can count.
pub fn assert_read(batches: Batches, expected: &RecordBatch, context: &str) {
    let mut rows = 0;
    for batch in batches {
        let batch = batch.unwrap();
        assert_eq!(batch.schema(), expected.schema(), "{context}");
        assert_same(&batch, &expected.slice(rows, batch.num_rows()), context);
        rows += batch.num_rows();
    }
    assert_eq!(rows, expected.num_rows(), "{context}");
}

/// Fails, with the place, unless the batches hold the same.
pub fn assert_same(left: &RecordBatch, right: &RecordBatch, context: &str) {
    assert_eq!(left.num_rows(), right.num_rows(), "{context}");
    if let Some(difference) = first_difference(left, right).unwrap() {
        panic!("{context}: {difference}");
    }
}

/// A source that counts what is read of it.
pub struct Counted<S> {
    pub source: S,
    /// What it says that a request costs.
    pub request_bytes: u64,
    pub reads: AtomicU64,
    pub bytes: AtomicU64,
    pub ranges: Mutex<Vec<Range<u64>>>,
    /// Which reads fail, as on a network.
    pub fails: Mutex<Fails>,
}

/// Which reads of a source fail, counted from 0.
#[derive(Clone, Copy, Default)]
pub enum Fails {
    #[default]
    Never,
    At(u64),
    Every(u64),
}

impl Fails {
    fn holds(self, read: u64) -> bool {
        match self {
            Fails::Never => false,
            Fails::At(number) => read == number,
            Fails::Every(count) => read % count == count - 1,
        }
    }
}

impl<S: Source> Counted<S> {
    pub fn new(source: S) -> Arc<Self> {
        Self::with_request_bytes(source, entasis::source::REQUEST_BYTES)
    }

    pub fn with_request_bytes(source: S, request_bytes: u64) -> Arc<Self> {
        let (reads, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { source, request_bytes, reads, bytes, ranges: Mutex::default(), fails: Mutex::default() })
    }

    /// Reads and bytes since the last call.
    pub fn take_counts(&self) -> (u64, u64) {
        self.ranges.lock().unwrap().clear();
        (self.reads.swap(0, Ordering::Relaxed), self.bytes.swap(0, Ordering::Relaxed))
    }
}

impl<S: Source> Source for Counted<S> {
    fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let number = self.reads.fetch_add(1, Ordering::Relaxed);
        if self.fails.lock().unwrap().holds(number) {
            return Err(Error::Io { path: self.name().to_owned(), source: std::io::ErrorKind::TimedOut.into() });
        }
        self.bytes.fetch_add(range.end - range.start, Ordering::Relaxed);
        self.ranges.lock().unwrap().push(range.clone());
        self.source.read(range)
    }
}
