//! One version of an object in a store, and its bytes: those, or an error.

use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta, ObjectStore};

use super::near::NearFile;
use crate::{Error, Result, Version};

/// Ranges with at most so many bytes between them are fetched together: a request takes longer than they do.
const GAP_BYTES: u64 = 256 * 1024;

/// At most so many bytes are fetched together, unless one range alone has more.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// Requests at the same time.
const REQUESTS: usize = 8;

/// One version of an object.
#[derive(Debug)]
pub(crate) struct Object {
    store: Arc<dyn ObjectStore>,
    url: Arc<str>,
    meta: ObjectMeta,
    version: Version,
    /// Requests are answered by a file of this machine: known from the first on.
    is_near: Arc<AtomicBool>,
    /// That file, from the first request on.
    file: OnceLock<NearFile>,
}

/// A clone opens the file for itself: whoever keeps an object for long doesn't keep its file open.
impl Clone for Object {
    fn clone(&self) -> Self {
        let Self { store, url, meta, version, is_near, file: _ } = self;
        Self {
            store: store.clone(),
            url: url.clone(),
            meta: meta.clone(),
            version: version.clone(),
            is_near: is_near.clone(),
            file: OnceLock::new(),
        }
    }
}

impl Object {
    /// The version that the object has now.
    pub async fn find(store: Arc<dyn ObjectStore>, url: Arc<str>, path: &Path) -> Result<Self> {
        let meta = head(&*store, path).await?;
        Ok(Self::found(store, url, meta))
    }

    /// The version that the store described so.
    pub fn found(store: Arc<dyn ObjectStore>, url: Arc<str>, meta: ObjectMeta) -> Self {
        let version = Version::of(url.clone(), &meta);
        Self { store, url, meta, version, is_near: Arc::default(), file: OnceLock::new() }
    }

    /// The same, and what is known of it from when it was read before.
    pub fn known(mut self, is_near: &Arc<AtomicBool>) -> Self {
        self.is_near = is_near.clone();
        self
    }

    /// Whether requests cost next to nothing, for who reads it again.
    pub fn nearness(&self) -> &Arc<AtomicBool> {
        &self.is_near
    }

    /// What the store said of it.
    pub fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    pub fn version(&self) -> &Version {
        &self.version
    }

    pub fn size_bytes(&self) -> u64 {
        self.meta.size
    }

    /// Whether requests cost next to nothing, as far as is known.
    pub fn is_near(&self) -> bool {
        self.is_near.load(Relaxed)
    }

    /// The bytes of each range, in their order: near ones are fetched together, those of a file of this machine on this thread.
    ///
    /// # Errors
    /// [`Error::Changed`] if they would be of another version; what the store says.
    pub async fn fetch(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if self.is_near()
            && self.file.get().is_none()
            && let Some(first) = ranges.iter().find(|range| !range.is_empty())
        {
            self.request(first.clone()).await?;
        }
        if let Some(file) = self.file.get() {
            return self.read(file, ranges);
        }
        let merged = merge(ranges);
        let requests: Vec<BoxFuture<'_, Result<(Bytes, bool)>>> =
            merged.iter().map(|range| self.fetch_one(range.clone()).boxed()).collect();
        let fetched: Result<Vec<(Bytes, bool)>> = stream::iter(requests).buffered(REQUESTS).try_collect().await;
        // A local file can be written in place after it was opened: what was read is what was asked for only if it is still the same.
        if fetched.as_ref().map_or(self.is_near(), |all| all.iter().any(|(_, is_file)| *is_file)) {
            let found = head(&*self.store, &self.meta.location).await.map_err(|error| self.said(error))?;
            self.check(&found)?;
        }
        let fetched = fetched?;
        let part = |range: &Range<u64>| {
            // Every range lies in the last merged one that begins at or before it.
            let index = merged.partition_point(|merged| merged.start <= range.start).checked_sub(1)?;
            let start = usize::try_from(range.start - merged[index].start).ok()?;
            let end = usize::try_from(range.end - merged[index].start).ok()?;
            let (all, _) = &fetched[index];
            let bytes = all.get(start..end)?;
            // Copied where it came with others, so that none keeps its neighbours' memory.
            Some(if bytes.len() == all.len() { all.clone() } else { Bytes::copy_from_slice(bytes) })
        };
        let outside = || Error::damaged(&self.version, "ranges outside of the object");
        ranges.iter().map(|range| part(range).ok_or_else(outside)).collect()
    }

    /// The bytes of each range of a file that is open.
    fn read(&self, file: &NearFile, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().try_for_each(|range| self.check_range(range))?;
        let bytes = file.read(ranges);
        // It can be written in place: what was read is what was asked for only if it is still the same. Nor is it of use once it is
        // replaced.
        if !file.is_same() {
            return Err(Error::Changed(self.version.clone()));
        }
        Ok(bytes?)
    }

    /// The bytes of a range, and whether they are those of a local file that has to be looked at once more.
    async fn fetch_one(&self, range: Range<u64>) -> Result<(Bytes, bool)> {
        self.check_range(&range)?;
        if range.is_empty() {
            return Ok((Bytes::new(), false));
        }
        let wanted = range.end - range.start;
        let Some(result) = self.request(range.clone()).await? else {
            let bytes = self.file.get().map(|file| self.read(file, slice::from_ref(&range))).transpose()?;
            return Ok((bytes.into_iter().flatten().next().unwrap_or_default(), false));
        };
        let is_file = !matches!(result.payload, GetResultPayload::Stream(_));
        let bytes = result.bytes().await.map_err(|error| self.said(error))?;
        if bytes.len() as u64 != wanted {
            return Err(Error::damaged(&self.version, format!("the store gave {} bytes for {wanted}", bytes.len())));
        }
        Ok((bytes, is_file))
    }

    /// Asks the store for bytes of this version; `None` if they are those of a file of this machine, which is open from then on.
    async fn request(&self, range: Range<u64>) -> Result<Option<GetResult>> {
        let if_match = self.meta.e_tag.clone();
        let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), if_match, ..GetOptions::default() };
        let mut result = self.store.get_opts(&self.meta.location, options).await.map_err(|error| self.said(error))?;
        self.check(&result.meta)?;
        if result.range != range {
            let what = format!("the store gave bytes {:?} for {range:?}", result.range);
            return Err(Error::damaged(&self.version, what));
        }
        self.is_near.store(!matches!(result.payload, GetResultPayload::Stream(_)), Relaxed);
        if let GetResultPayload::File(file, path) = result.payload {
            match NearFile::new(file, path, &result.meta) {
                Ok(file) => {
                    self.file.get_or_init(|| file);
                    return Ok(None);
                }
                Err((file, path)) => result.payload = GetResultPayload::File(file, path),
            }
        }
        Ok(Some(result))
    }

    fn check_range(&self, range: &Range<u64>) -> Result<()> {
        if range.start <= range.end && range.end <= self.meta.size {
            return Ok(());
        }
        Err(Error::damaged(&self.version, format!("bytes {range:?} of {}", self.meta.size)))
    }

    fn check(&self, found: &ObjectMeta) -> Result<()> {
        if Version::of(self.url.clone(), found) == self.version {
            return Ok(());
        }
        Err(Error::Changed(self.version.clone()))
    }

    /// What a store says of an object that was there a moment ago.
    fn said(&self, error: object_store::Error) -> Error {
        match error {
            object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. } => {
                Error::Changed(self.version.clone())
            }
            other => other.into(),
        }
    }
}

/// What a store says of an object without its bytes.
async fn head(store: &dyn ObjectStore, path: &Path) -> object_store::Result<ObjectMeta> {
    Ok(store.get_opts(path, GetOptions { head: true, ..GetOptions::default() }).await?.meta)
}

/// The ranges in ascending order, near ones as one.
fn merge(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(last)
                if range.start < last.end
                    || (range.start - last.end <= GAP_BYTES && range.end.saturating_sub(last.start) <= MOST_BYTES) =>
            {
                last.end = last.end.max(range.end);
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(ranges: &[Range<u64>]) -> Vec<(u64, u64)> {
        merge(ranges).into_iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn near_ranges_are_merged() {
        let far = GAP_BYTES + 1;
        assert_eq!(merged(&[10..20, 5..8, 18..30]), [(5, 30)]);
        assert_eq!(merged(&[0..10, 10 + far..20 + far]), [(0, 10), (10 + far, 20 + far)]);
        assert_eq!(merged(&[0..10, 10 + GAP_BYTES..20 + GAP_BYTES]), [(0, 20 + GAP_BYTES)]);
        let half = MOST_BYTES / 2 + 1;
        assert_eq!(merged(&[0..half, half..2 * half]), [(0, half), (half, 2 * half)], "not more than that at once");
        assert_eq!(merged(&[0..2 * half, 5..6]), [(0, 2 * half)], "what overlaps is one");
        assert!(merged(&[]).is_empty());
    }
}
