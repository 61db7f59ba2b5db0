//! Parquet, read through the cache.
//!
//! A query opens an object, which finds the version that it has now, and reads row group by row group. Row groups fall by Parquet's
//! statistics. Predicate columns come first: from the cache, or decoded whole, once for predicate and output and for whoever asks at the same
//! time. Then output columns, of the 65,536 rows each that have survivors: from the cache; whole, into the cache, where many
//! rows survive or where it is the second time; else just the survivors, as arrow-rs finds them, past the cache.

mod chunks;
mod condition;
mod decode;
mod expression;
mod file;
mod footers;
mod layout;
mod near;
mod object;
mod pages;
mod prune;
mod request;
mod rows;
mod sparse;
mod stream;

pub use file::{ParquetFile, leaf_name, parquet_bytes};
pub(crate) use footers::Footers;
pub(crate) use object::Object;
pub(crate) use pages::Pages;
pub use request::{ParquetRequest, ReadMetrics};
pub use rows::ParquetRows;
pub(crate) use sparse::Sparse;
