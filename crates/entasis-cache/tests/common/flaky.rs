//! A store that fails, waits, and gives other bytes than were asked for.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult,
};

use super::Random;

/// A future that is pending a few times, woken each time.
struct Pauses(usize);

impl Future for Pauses {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A store of whose answers some percent are wrong, in one way or another, and late.
#[derive(Debug)]
pub struct Flaky {
    inner: Box<dyn ObjectStore>,
    percent: usize,
    random: Mutex<u64>,
    /// Tells neither ETags nor times.
    is_mute: bool,
    /// Requests so far.
    pub requests: AtomicU64,
}

impl Flaky {
    /// The store `inner`, with so many percent of wrong answers.
    pub fn new(inner: impl ObjectStore, percent: usize) -> Self {
        Self { inner: Box::new(inner), percent, random: Mutex::new(7), is_mute: false, requests: AtomicU64::new(0) }
    }

    /// The store `inner`, as of an HTTP server that sends neither ETags nor times.
    #[allow(dead_code, reason = "not in every test")]
    pub fn mute(inner: impl ObjectStore) -> Self {
        Self { is_mute: true, ..Self::new(inner, 0) }
    }

    fn below(&self, end: usize) -> usize {
        let mut state = self.random.lock().unwrap();
        let mut random = Random(*state);
        let number = random.below(end);
        *state = random.0;
        number
    }
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flaky")
    }
}

#[async_trait]
impl ObjectStore for Flaky {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> object_store::Result<GetResult> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        Pauses(self.below(4)).await;
        let is_wrong = self.below(100) < self.percent;
        let mut found = self.inner.get_opts(location, options).await?;
        if self.is_mute {
            found.meta = ObjectMeta { e_tag: None, last_modified: Default::default(), ..found.meta };
        }
        if !is_wrong || found.range.is_empty() {
            return Ok(found);
        }
        let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let bytes = found.bytes().await?;
        let answer = |bytes: Bytes, range: Range<u64>| {
            let payload = GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed());
            Ok(GetResult { payload, meta: meta.clone(), range, attributes })
        };
        match self.below(3) {
            0 => Err(object_store::Error::Generic { store: "flaky", source: "not now".into() }),
            1 => answer(bytes.slice(..bytes.len() / 2), range),
            _ => answer(bytes, range.start + 1..range.end + 1),
        }
    }

    async fn put_opts(&self, at: &Path, payload: PutPayload, options: PutOptions) -> object_store::Result<PutResult> {
        self.inner.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
