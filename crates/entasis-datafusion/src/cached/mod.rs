//! Parquet files behind the cache: tables that DataFusion knows, scanned as `.ent` files are.

mod opener;
mod rule;
mod table;

pub(crate) use opener::CachedOpener;
pub use rule::cache_parquet;
