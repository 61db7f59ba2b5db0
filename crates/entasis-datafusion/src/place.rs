//! Where files are, and how their bytes come: from their store, or through a session's cache.

use std::sync::Arc;

use datafusion::{
    catalog::Session,
    common::Result,
    execution::object_store::ObjectStoreUrl,
    object_store::{ObjectMeta, ObjectStore},
};
use entasis::{AsyncReader, AsyncSource};

#[cfg(feature = "cache")]
pub(crate) use crate::cached::Behind;
#[cfg(feature = "cache")]
use crate::cached::SessionCache;
use crate::error::{external, replaced};

/// There is none.
#[cfg(not(feature = "cache"))]
#[derive(Clone)]
pub(crate) enum Behind {}

#[cfg(not(feature = "cache"))]
impl Behind {
    fn source(&self, _store: &Arc<dyn ObjectStore>, _meta: &ObjectMeta) -> Arc<dyn AsyncSource> {
        match *self {}
    }
}

/// A store, and the cache before it if there is one.
#[derive(Clone)]
pub(crate) struct Place {
    pub store: Arc<dyn ObjectStore>,
    pub behind: Option<Behind>,
}

impl Place {
    /// The place of files of a session's store: before it is the session's cache, if the session knows by now which URL the store has.
    pub fn of(state: &dyn Session, store: &Arc<dyn ObjectStore>) -> Self {
        #[cfg(feature = "cache")]
        let behind = SessionCache::of(state).and_then(|cache| cache.before(store));
        #[cfg(not(feature = "cache"))]
        let (behind, _) = (None, state);
        Self { store: store.clone(), behind }
    }

    /// The place of files of the store at a URL, which the session's cache knows from here on.
    pub fn at(state: &dyn Session, url: &ObjectStoreUrl) -> Result<Self> {
        let store = state.runtime_env().object_store(url)?;
        #[cfg(feature = "cache")]
        if let Some(cache) = SessionCache::of(state) {
            cache.learn(&store, url);
        }
        Ok(Self::of(state, &store))
    }

    /// The version of a file that `meta` describes, through the cache, if there is one.
    pub fn cached(&self, meta: &ObjectMeta) -> Option<Arc<dyn AsyncSource>> {
        self.behind.as_ref().map(|behind| behind.source(&self.store, meta))
    }

    /// Opens the file that `meta` describes, by its store or through the cache.
    pub async fn open(&self, meta: &ObjectMeta) -> Result<AsyncReader> {
        if let Some(source) = self.cached(meta) {
            return AsyncReader::open_source(source).await.map_err(external);
        }
        let reader = AsyncReader::open(self.store.clone(), meta.location.clone()).await.map_err(external)?;
        let same_tag = meta.e_tag.is_none() || reader.e_tag().is_none() || meta.e_tag.as_deref() == reader.e_tag();
        if reader.size_bytes() != meta.size || !same_tag {
            return Err(replaced(meta.location.as_ref()));
        }
        Ok(reader)
    }
}

/// Whether a store is this machine's disk.
pub(crate) fn is_local(store: &dyn ObjectStore) -> bool {
    store.to_string().starts_with("LocalFileSystem")
}
