//! A store in memory that answers as one far away does.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use async_trait::async_trait;
use datafusion::object_store::memory::InMemory;
use datafusion::object_store::path::Path;
use datafusion::object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};
use futures::stream::BoxStream;

/// From the question to the first byte.
pub const LATENCY: Duration = Duration::from_millis(30);
/// Bytes that come in a second.
pub const BYTES_PER_SECOND: u64 = 100_000_000;

/// Objects in memory, behind a network that is slept.
#[derive(Debug, Default)]
pub struct Slow {
    inner: InMemory,
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Slow {
    /// Requests and bytes since it was last asked.
    pub fn take_counts(&self) -> (u64, u64) {
        (self.requests.swap(0, Relaxed), self.bytes.swap(0, Relaxed))
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store far away")
    }
}

#[async_trait]
impl ObjectStore for Slow {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let found = self.inner.get_opts(location, options).await?;
        let size_bytes = if is_head { 0 } else { found.range.end - found.range.start };
        self.requests.fetch_add(1, Relaxed);
        self.bytes.fetch_add(size_bytes, Relaxed);
        tokio::time::sleep(LATENCY + Duration::from_secs_f64(size_bytes as f64 / BYTES_PER_SECOND as f64)).await;
        Ok(found)
    }

    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(&self, at: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
