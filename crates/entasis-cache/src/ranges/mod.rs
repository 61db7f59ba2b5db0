//! Bytes of objects, through the cache, for readers that ask for ranges, as that of `.ent` files does. What they ask for is blocks already; so it is
//! cached as it is, in pages.

mod object;
mod store;

pub use object::CachedObject;
pub use store::CachedStore;

/// Bytes of a page, the unit in which objects are cached: the first of an object begins with it. Fetching less takes hardly less time.
pub const RANGE_PAGE_BYTES: u64 = 256 * 1024;

/// The leaf of cells that are pages of an object: no column has this number.
pub const RANGES_LEAF: usize = usize::MAX;
