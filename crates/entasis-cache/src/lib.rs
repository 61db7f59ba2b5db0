//! A cache of columns: what queries touch of Parquet files, or of anything else that yields Arrow arrays, stays in memory and becomes
//! Entasis blocks in the background; the next query filters on them. Knows no query engine, no network, and has no runtime of its own.
//!
//! A *cell* is 65,536 rows of one leaf in one row group of one [`Version`] of one object. It comes in as the pages that a query fetched of
//! Parquet anyway, or as an Arrow array that somebody decoded, and the cache's threads encode it when queries leave them a core. All cells together never hold more than the
//! budget; a [`policy`] says who goes. With a folder ([`DiskOptions`]) what goes as blocks goes to disk, under a limit of its own, and is there
//! again after a restart. [`CachedStore`] keeps ranges of objects likewise, which readers of `.ent` files ask for.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, Int64Array};
//! use entasis_cache::{Cache, CacheOptions, CellId, ColumnId, Error, ObjectId, Stamp, State, Version};
//! use entasis_encoding::{Comparison, Filter, FilterWork, Fixed, FloatOrder, Physical, Predicate, Scalar, Selection};
//!
//! let cache = Cache::new(CacheOptions { memory_bytes: 64 << 20, transcoders: 0, ..CacheOptions::default() })?;
//! let object = ObjectId::new("s3://bucket", "trips/2026.parquet".into());
//! let version = Version::new(object, Stamp::ETag("5eb63bbb".to_owned()));
//! let id = CellId { column: ColumnId { version, leaf: 0 }, row_group: 0, piece: 0 };
//!
//! // Decoded once, however many ask.
//! let decode = || Ok::<ArrayRef, Error>(Arc::new(Int64Array::from_iter_values(0..65_536)));
//! assert_eq!(cache.get_or_decode(&id, decode)?.state(), State::Arrow);
//!
//! // Without threads of its own the cache transcodes when it is told to.
//! assert!(cache.transcode_one());
//! let cell = cache.get(&id).expect("it is there");
//! assert_eq!(cell.state(), State::Encoded);
//!
//! // Filtered on its encoded bytes; only what passes is decoded.
//! let less = Predicate::Compare(Comparison::Less, Scalar::Int(3), FloatOrder::default());
//! let filter = Filter::new(&less, &Physical::Fixed(Fixed::I64));
//! let mut selection = Selection::all(cell.rows());
//! cell.filter(&filter, &mut selection, &mut FilterWork::default())?;
//! assert_eq!(cell.select(&selection)?.as_ref(), &Int64Array::from(vec![0, 1, 2]));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

mod cache;
mod cell;
mod disk;
mod error;
mod flight;
#[cfg(test)]
mod interleavings;
mod ledger;
pub mod policy;
mod ranges;
pub mod read;
mod shelf;
pub mod statistics;
mod sync;
mod transcode;
mod values;
mod version;

pub use cache::{Arrival, Cache, CacheOptions, Fill, Inside, Lookup, Pin};
pub use cell::{CELL_ROWS, CellId, ColumnId};
pub use disk::{DISK_CELL_OVERHEAD_BYTES, DiskOptions};
pub use error::{Error, Result};
pub use flight::Waiter;
pub use ledger::CELL_OVERHEAD_BYTES;
pub use ranges::{CachedObject, CachedStore, RANGE_PAGE_BYTES, RANGES_LEAF};
pub use statistics::{Event, Observer, Statistics};
pub use values::{Cell, State};
pub use version::{ObjectId, Stamp, Version};
