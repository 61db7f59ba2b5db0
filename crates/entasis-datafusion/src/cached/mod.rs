//! Files behind the cache: Parquet, tables that DataFusion knows, scanned as `.ent` files are, and `.ent` files themselves, if they aren't this
//! machine's.

mod far;
mod opener;
mod rule;
mod table;
mod task;

pub(crate) use far::{Behind, SessionCache};
pub(crate) use opener::CachedOpener;
pub use rule::cache_tables;
