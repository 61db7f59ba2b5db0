//! A source that counts what is asked of it, and says how long a store far away would have taken.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use entasis::Result;
use entasis::source::{STORE_REQUEST_BYTES, Source, coalesce};

/// Requests that are under way at a time, as in the reader for object stores.
const CONCURRENT_REQUESTS: u64 = 10;

/// What a store takes for a request.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Until the first byte.
    pub latency_seconds: f64,
    /// Of all requests together.
    pub bytes_per_second: f64,
}

impl Network {
    /// Seconds for requests that are made together.
    fn seconds(&self, requests: u64, size_bytes: u64) -> f64 {
        requests.div_ceil(CONCURRENT_REQUESTS) as f64 * self.latency_seconds + size_bytes as f64 / self.bytes_per_second
    }
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// Requests; near ranges are one.
    pub requests: u64,
    /// Bytes of all requests.
    pub size_bytes: u64,
    /// Seconds that the network would have taken; 0 without one.
    pub network_seconds: f64,
}

/// Another source, and what was asked of it. Nothing sleeps: the network's time is added up.
pub struct Accounted {
    source: Arc<dyn Source>,
    network: Option<Network>,
    requests: AtomicU64,
    size_bytes: AtomicU64,
    network_nanoseconds: AtomicU64,
}

impl Accounted {
    /// Counts what is asked of `source`, as if it were behind `network`.
    pub fn new(source: Arc<dyn Source>, network: Option<Network>) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self { source, network, requests: zero(), size_bytes: zero(), network_nanoseconds: zero() })
    }

    /// What was read since the last call.
    pub fn take(&self) -> Account {
        Account {
            requests: self.requests.swap(0, Ordering::Relaxed),
            size_bytes: self.size_bytes.swap(0, Ordering::Relaxed),
            network_seconds: self.network_nanoseconds.swap(0, Ordering::Relaxed) as f64 * 1e-9,
        }
    }

    fn note(&self, runs: &[Range<u64>]) {
        let (requests, size_bytes) = (runs.len() as u64, runs.iter().map(|run| run.end - run.start).sum());
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.size_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        if let Some(network) = self.network {
            let nanoseconds = network.seconds(requests, size_bytes) * 1e9;
            self.network_nanoseconds.fetch_add(nanoseconds as u64, Ordering::Relaxed);
        }
    }
}

impl Source for Accounted {
    fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn request_bytes(&self) -> u64 {
        self.network.map_or_else(|| self.source.request_bytes(), |_| STORE_REQUEST_BYTES)
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.note(std::slice::from_ref(&range));
        self.source.read(range)
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        // Bytes that are lent aren't joined: each range counts by itself, and nothing between them.
        let gap_bytes = if self.request_bytes() == u64::MAX { 0 } else { self.request_bytes() };
        self.note(&coalesce(ranges, gap_bytes));
        self.source.read_many(ranges)
    }
}

#[cfg(test)]
mod tests {
    use entasis::source::BytesSource;

    use super::*;

    #[test]
    fn near_ranges_are_one_request_and_requests_together_wait_once() {
        let network = Network { latency_seconds: 0.01, bytes_per_second: 1e9 };
        let bytes = Arc::new(BytesSource::new(vec![7; 4_000_000].into(), "memory"));
        let source = Accounted::new(bytes, Some(network));
        assert_eq!(source.read_many(&[0..10, 900_000..1_000_000, 3_000_000..3_000_010]).unwrap()[1].len(), 100_000);
        let account = source.take();
        assert_eq!((account.requests, account.size_bytes), (2, 1_000_010));
        assert!((account.network_seconds - 0.011).abs() < 1e-6, "{account:?}");
        assert_eq!(source.take(), Account::default());
    }
}
