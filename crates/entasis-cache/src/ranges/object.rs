//! One version of an object, whose bytes are read through a cache.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use entasis::AsyncSource;
use futures::future::{BoxFuture, FutureExt};
use object_store::{ObjectMeta, ObjectStore};

use super::{RANGE_PAGE_BYTES, RANGES_LEAF};
use crate::read::Object;
use crate::{Cache, CellId, ColumnId, Error, Fill, Lookup, Version};

/// One version of an object, read through a cache page by page, as [`CachedStore`](super::CachedStore) reads those of a store: for who knows
/// already which version there is, from a listing for instance. The store isn't asked for it again, whether or not it has ETags: every answer of
/// the store has to be of that version. Of one that has neither an ETag nor a time nothing is kept. Cheap to clone.
#[derive(Clone)]
pub struct CachedObject {
    cache: Cache,
    object: Object,
}

impl CachedObject {
    /// The version that `store` described so. `url` names the store: equal paths in stores of different URLs are different objects.
    pub fn new(cache: &Cache, store: Arc<dyn ObjectStore>, url: impl Into<Arc<str>>, meta: ObjectMeta) -> Self {
        Self { cache: cache.clone(), object: Object::found(store, url.into(), meta) }
    }

    /// What the store said of it.
    pub fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    /// The version that is read.
    pub fn version(&self) -> &Version {
        self.object.version()
    }

    /// The bytes of a range.
    ///
    /// # Errors
    /// [`Error::Changed`] if some of it is lacking and the object is of another version by now; what the store says.
    pub async fn range(&self, range: Range<u64>) -> crate::Result<Bytes> {
        let mut pieces = self.pieces(range).await?;
        Ok(if pieces.len() == 1 { pieces.remove(0) } else { pieces.concat().into() })
    }

    /// The bytes of a range, in pieces.
    pub(super) async fn pieces(&self, range: Range<u64>) -> crate::Result<Vec<Bytes>> {
        if range.start > range.end || range.end > self.object.size_bytes() {
            let what = format!("bytes {range:?} of {}", self.object.size_bytes());
            return Err(Error::damaged(self.version(), what));
        }
        if !Version::is_told(self.meta()) {
            return self.object.clone().fetch(&[range]).await;
        }
        let numbers = range.start / RANGE_PAGE_BYTES..range.end.div_ceil(RANGE_PAGE_BYTES);
        let pages = self.pages(numbers.map(|number| number as usize).collect()).await?;
        let piece = |(number, page): (usize, Bytes)| {
            let first = number as u64 * RANGE_PAGE_BYTES;
            let start = range.start.saturating_sub(first) as usize;
            let end = (range.end - first).min(page.len() as u64) as usize;
            page.slice(start..end)
        };
        Ok(pages.into_iter().map(piece).collect())
    }

    /// Pages: from the cache, from others who fetch them, or from the store. What is to be fetched here is fetched before anybody else is
    /// waited for.
    async fn pages(&self, wanted: BTreeSet<usize>) -> crate::Result<BTreeMap<usize, Bytes>> {
        let mut found = BTreeMap::new();
        let mut lacking = wanted;
        while !lacking.is_empty() {
            let (mut duties, mut waits) = (Vec::new(), Vec::new());
            for &number in &lacking {
                let column = ColumnId { version: self.version().clone(), leaf: RANGES_LEAF };
                match self.cache.lookup(&CellId { column, row_group: 0, piece: number }) {
                    Lookup::Hit(cell) => drop(found.insert(number, self.checked(number, cell.bytes())?)),
                    Lookup::Miss(duty) => duties.push((number, duty)),
                    Lookup::Wait(waiter) => waits.push((number, waiter)),
                }
            }
            self.fetch_pages(duties, &mut found).await?;
            for (number, waiter) in waits {
                if let Some(cell) = waiter.await {
                    found.insert(number, self.checked(number, cell.bytes())?);
                }
            }
            // Who was waited for may have given up.
            lacking.retain(|number| !found.contains_key(number));
        }
        Ok(found)
    }

    /// Fetches pages, those that follow each other by one request.
    async fn fetch_pages(&self, duties: Vec<(usize, Fill)>, found: &mut BTreeMap<usize, Bytes>) -> crate::Result<()> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (number, _) in &duties {
            let page = self.page_range(*number);
            match runs.last_mut() {
                Some(run) if run.end == page.start => run.end = page.end,
                _ => runs.push(page),
            }
        }
        // A clone: who reads this for long doesn't keep a file open that it may be.
        let fetched = self.object.clone().fetch(&runs).await?;
        for (number, duty) in duties {
            let range = self.page_range(number);
            let index = runs.partition_point(|run| run.end < range.end);
            let start = (range.start - runs[index].start) as usize;
            let bytes = &fetched[index][start..start + (range.end - range.start) as usize];
            // In memory of its own: pages that were fetched together come and go one by one.
            let page = Bytes::from(Box::<[u8]>::from(bytes));
            duty.complete_bytes(page.clone());
            found.insert(number, page);
        }
        Ok(())
    }

    /// Where a page lies.
    fn page_range(&self, number: usize) -> Range<u64> {
        let start = number as u64 * RANGE_PAGE_BYTES;
        start..(start + RANGE_PAGE_BYTES).min(self.object.size_bytes())
    }

    /// A page that was found, if it is one.
    fn checked(&self, number: usize, bytes: Option<Bytes>) -> crate::Result<Bytes> {
        let range = self.page_range(number);
        let page = bytes.filter(|bytes| bytes.len() as u64 == range.end.saturating_sub(range.start));
        page.ok_or_else(|| Error::damaged(self.version(), format!("page {number} in the cache is another")))
    }
}

impl AsyncSource for CachedObject {
    fn size_bytes(&self) -> u64 {
        self.object.size_bytes()
    }

    fn name(&self) -> &str {
        self.meta().location.as_ref()
    }

    fn fetch(&self, range: Range<u64>) -> BoxFuture<'_, entasis::Result<Bytes>> {
        async move {
            let failed = |source| match source {
                Error::Entasis(error) => error,
                source => {
                    entasis::Error::io(self.name(), std::io::Error::other(RangeError { range: range.clone(), source }))
                }
            };
            self.range(range.clone()).await.map_err(failed)
        }
        .boxed()
    }
}

impl fmt::Debug for CachedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CachedObject").field(self.version()).finish()
    }
}

/// Bytes that there aren't.
#[derive(Debug, thiserror::Error)]
#[error("bytes {range:?}: {source}")]
struct RangeError {
    range: Range<u64>,
    source: Error,
}
