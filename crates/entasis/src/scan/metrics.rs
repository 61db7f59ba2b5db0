//! What a scan did, rung by rung.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;

use crate::{error::Result, source::Source};

/// What a scan did so far. Rows that fall on a rung aren't seen by the next.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScanMetrics {
    /// Rows that were asked for, as far as the scan has come.
    pub rows: u64,
    /// Row groups that the scan has come to.
    pub row_groups: u64,
    /// Row groups of which no row was left by zones and Bloom filters.
    pub row_groups_fallen: u64,
    /// Rows that fell by zones.
    pub rows_fallen_by_zones: u64,
    /// Rows that zones left, and that fell by Bloom filters.
    pub rows_fallen_by_blooms: u64,
    /// Rows that fell on encoded values.
    pub rows_fallen_encoded: u64,
    /// Rows that fell on decoded values, by expressions.
    pub rows_fallen_decoded: u64,
    /// Rows that passed.
    pub rows_passed: u64,
    /// Values that predicates had decoded, those of dictionaries among them.
    pub decoded_values: u64,
    /// Values that predicates were answered on as they are encoded.
    pub compared_values: u64,
    /// Distinct values that expressions were evaluated for, instead of for rows: those of dictionaries and runs.
    pub asked_values: u64,
    /// Rows that expressions were evaluated for.
    pub evaluated_rows: u64,
    /// Rows of columns of which zones told all that was wanted of them.
    pub aggregated_by_zones: u64,
    /// Values that aggregates were made of as they are encoded.
    pub aggregated_encoded: u64,
    /// Values that aggregates had decoded, those of dictionaries among them.
    pub aggregated_decoded: u64,
    /// Requests for bytes of the file; near ranges are one.
    pub requests: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// What each of the conditions that must all hold did, in the order in which they are now evaluated.
    pub conditions: Vec<ConditionMetrics>,
}

/// What one of the conditions did that must all hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConditionMetrics {
    /// The condition, in words.
    pub condition: String,
    /// Rows that it was asked about.
    pub rows: u64,
    /// Rows that passed it.
    pub rows_passed: u64,
    /// Time that it took, reading not counted.
    pub elapsed_ns: u64,
}

/// A source that counts what is read.
pub(super) struct CountedSource {
    inner: Arc<dyn Source>,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl CountedSource {
    pub fn new(inner: Arc<dyn Source>) -> Arc<Self> {
        Arc::new(Self { inner, requests: AtomicU64::new(0), bytes: AtomicU64::new(0) })
    }

    /// Requests, and bytes that they read.
    pub fn counts(&self) -> (u64, u64) {
        (self.requests.load(Relaxed), self.bytes.load(Relaxed))
    }

    fn count(&self, read: &[Bytes]) {
        self.requests.fetch_add(read.len() as u64, Relaxed);
        self.bytes.fetch_add(read.iter().map(|bytes| bytes.len() as u64).sum(), Relaxed);
    }
}

impl Source for CountedSource {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn request_bytes(&self) -> u64 {
        self.inner.request_bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let read = self.inner.read(range)?;
        self.count(std::slice::from_ref(&read));
        Ok(read)
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        // Memory lends every range by itself, and what has been fetched already was counted as it was fetched.
        if self.request_bytes() == u64::MAX {
            let read = self.inner.read_many(ranges)?;
            self.count(&read);
            return Ok(read);
        }
        let runs = crate::source::coalesce(ranges, self.request_bytes());
        let read = self.inner.read_many(ranges)?;
        self.requests.fetch_add(runs.len() as u64, Relaxed);
        self.bytes.fetch_add(runs.iter().map(|run| run.end - run.start).sum(), Relaxed);
        Ok(read)
    }
}
