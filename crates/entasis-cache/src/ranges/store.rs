//! An object store in front of another one, whose objects are read through a cache.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::CachedObject;
use crate::{Cache, Error};

/// Objects of which is remembered what the store said of them.
const KNOWN_OBJECTS: usize = 4_096;

/// What errors call it.
const STORE: &str = "entasis-cache";

/// A range, and its bytes in pieces.
type Found = (Range<u64>, Vec<Bytes>);

/// How often a read that asks for no version in particular begins anew if the object is overwritten under it.
const ATTEMPTS: usize = 3;

/// A store whose objects are read through a cache, page by page, each page under the version that it is of.
///
/// A request without `If-Match` asks the store which version there is, and is answered of that one, so that a query which starts after an
/// overwrite sees the new object. One with `If-Match` is answered of the version that it names, without asking if all of it is cached: who opened
/// that version reads it to the end, or gets [`Precondition`](object_store::Error::Precondition) where some of it is lacking and the object has
/// changed. Requests under other conditions, for other than ranges, and everything but reading go to the store.
pub struct CachedStore {
    cache: Cache,
    store: Arc<dyn ObjectStore>,
    url: Arc<str>,
    /// What the store said last of objects.
    known: Mutex<HashMap<Path, ObjectMeta>>,
}

impl CachedStore {
    /// The store `store`, read through `cache`. `url` names it: equal paths in stores of different URLs are different objects.
    pub fn new(cache: &Cache, store: Arc<dyn ObjectStore>, url: impl Into<Arc<str>>) -> Self {
        Self { cache: cache.clone(), store, url: url.into(), known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Path, ObjectMeta>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, meta: ObjectMeta) -> CachedObject {
        let mut known = self.known();
        if known.len() >= KNOWN_OBJECTS && !known.contains_key(&meta.location) {
            known.clear();
        }
        known.insert(meta.location.clone(), meta.clone());
        CachedObject::new(&self.cache, self.store.clone(), self.url.clone(), meta)
    }

    /// The version that the object has now; or, of one with this ETag, what is known of it.
    async fn find(&self, location: &Path, if_match: Option<&String>) -> Result<CachedObject> {
        let known = if_match
            .and_then(|tag| self.known().get(location).filter(|meta| meta.e_tag.as_ref() == Some(tag)).cloned());
        if let Some(meta) = known {
            return Ok(self.object(meta));
        }
        let options = GetOptions { head: true, if_match: if_match.cloned(), ..GetOptions::default() };
        let meta = self.store.get_opts(location, options).await?.meta;
        let differs = if_match.is_some() && meta.e_tag.as_ref() != if_match;
        let object = self.object(meta);
        if differs { Err(failure(Error::Changed(object.version().clone()), location)) } else { Ok(object) }
    }

    /// Ranges of the version that there is now, read anew if that was overwritten meanwhile; or, once, of the version of an ETag.
    async fn read(
        &self,
        location: &Path,
        if_match: Option<&String>,
        wanted: &[GetRange],
    ) -> Result<(ObjectMeta, Vec<Found>)> {
        let mut attempts = if if_match.is_some() { 1 } else { ATTEMPTS };
        loop {
            let object = self.find(location, if_match).await?;
            attempts -= 1;
            match ranges(&object, wanted).await {
                Ok(found) => return Ok((object.meta().clone(), found)),
                Err(Error::Changed(_)) if attempts > 0 => {}
                Err(error) => return Err(failure(error, location)),
            }
        }
    }
}

async fn ranges(object: &CachedObject, wanted: &[GetRange]) -> crate::Result<Vec<Found>> {
    let mut found = Vec::with_capacity(wanted.len());
    for range in wanted {
        let range = range.as_range(object.meta().size);
        let range = range.map_err(|error| object_store::Error::Generic { store: STORE, source: error.into() })?;
        found.push((range.clone(), object.pieces(range).await?));
    }
    Ok(found)
}

fn failure(error: Error, location: &Path) -> object_store::Error {
    match error {
        Error::Store(error) => error,
        Error::Changed(_) => object_store::Error::Precondition { path: location.to_string(), source: error.into() },
        other => object_store::Error::Generic { store: STORE, source: other.into() },
    }
}

/// Whether a request is for a range of some version, and of nothing else.
fn is_for_range(options: &GetOptions) -> bool {
    let one_tag = options.if_match.as_ref().is_none_or(|tags| tags != "*" && !tags.contains(','));
    let is_plain = options.if_none_match.is_none()
        && options.if_modified_since.is_none()
        && options.if_unmodified_since.is_none()
        && options.version.is_none()
        && !options.head;
    one_tag && is_plain && options.range.is_some()
}

#[async_trait]
impl ObjectStore for CachedStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if !is_for_range(&options) {
            return self.store.get_opts(location, options).await;
        }
        let (meta, mut found) = self.read(location, options.if_match.as_ref(), options.range.as_slice()).await?;
        let (range, pieces) = found.pop().unwrap_or_default();
        let payload = GetResultPayload::Stream(stream::iter(pieces.into_iter().map(Ok)).boxed());
        Ok(GetResult { payload, meta, range, attributes: Default::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let wanted: Vec<GetRange> = ranges.iter().cloned().map(GetRange::Bounded).collect();
        let (_, found) = self.read(location, None, &wanted).await?;
        let whole = |(_, mut pieces): Found| if pieces.len() == 1 { pieces.remove(0) } else { pieces.concat().into() };
        Ok(found.into_iter().map(whole).collect())
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

impl fmt::Debug for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedStore").field("store", &self.store).field("url", &self.url).finish_non_exhaustive()
    }
}

impl fmt::Display for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} through a cache", self.store)
    }
}
