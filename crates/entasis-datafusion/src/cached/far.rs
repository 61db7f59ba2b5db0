//! `.ent` files of stores that aren't this machine's disk, read through the cache of a session.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use datafusion::{
    catalog::Session,
    execution::object_store::ObjectStoreUrl,
    object_store::{ObjectMeta, ObjectStore},
};
use entasis::AsyncSource;
use entasis_cache::{Cache, CachedObject};
use futures::{FutureExt, future::BoxFuture};

use super::task::on_its_own;
use crate::place::is_local;

/// The cache of a session, and the stores whose URLs it knows: a format is told the store, and cells have to be named by the URL.
#[derive(Debug)]
pub(crate) struct SessionCache {
    cache: Cache,
    /// By address of the store.
    known: Mutex<HashMap<usize, Known>>,
}

#[derive(Debug)]
struct Known {
    /// Keeps the address its own.
    _store: Arc<dyn ObjectStore>,
    url: Arc<str>,
}

impl SessionCache {
    pub fn new(cache: &Cache) -> Self {
        Self { cache: cache.clone(), known: Mutex::default() }
    }

    /// That of a session that has one.
    pub fn of(state: &dyn Session) -> Option<Arc<Self>> {
        state.config().get_extension::<Self>()
    }

    /// Remembers the URL of a store. Files of this machine are read directly: reading them again costs less than their copies in memory.
    pub fn learn(&self, store: &Arc<dyn ObjectStore>, url: &ObjectStoreUrl) {
        if is_local(store) {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(address(store)).or_insert_with(|| Known { _store: store.clone(), url: url.as_str().into() });
    }

    /// The cache before a store whose URL is known.
    pub fn before(&self, store: &Arc<dyn ObjectStore>) -> Option<Behind> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&address(store)).map(|known| Behind { cache: self.cache.clone(), url: known.url.clone() })
    }
}

fn address(store: &Arc<dyn ObjectStore>) -> usize {
    Arc::as_ptr(store).cast::<()>() as usize
}

/// A cache, and the URL of the store that is behind it.
#[derive(Clone)]
pub(crate) struct Behind {
    cache: Cache,
    url: Arc<str>,
}

impl Behind {
    /// The version of an object that `meta` describes, through the cache.
    pub fn source(&self, store: &Arc<dyn ObjectStore>, meta: &ObjectMeta) -> Arc<dyn AsyncSource> {
        Arc::new(Far(CachedObject::new(&self.cache, store.clone(), self.url.clone(), meta.clone())))
    }
}

/// An object whose requests go on though nobody polls who made them: others may wait for what they bring.
struct Far(CachedObject);

impl AsyncSource for Far {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn fetch(&self, range: Range<u64>) -> BoxFuture<'_, entasis::Result<Bytes>> {
        let object = self.0.clone();
        async move {
            let fetched = on_its_own(async move { object.fetch(range).await }).await;
            fetched.unwrap_or_else(|error| Err(entasis::Error::io(self.name(), std::io::Error::other(error))))
        }
        .boxed()
    }
}
