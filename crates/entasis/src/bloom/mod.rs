//! Bloom filters: what blocks don't hold, told without reading them (*Bloom filters* in `spec/file.md`).
//!
//! The filters of a chunk's blocks lie interleaved, bucket by bucket:
//!
//! ```text
//! ┌──────────── stripe 0 ───────────┬─── stripe 1 ──┬─ … ─┬──────────┬─ … ─┬──────────┐
//! │ block 0 │ block 1 │ … │ block n │ block 0 │ … │     │ checksum │     │ checksum │
//! │ 32 B    │ 32 B    │   │ 32 B    │ 32 B    │   │     │ of a run │     │ of a run │
//! └─────────────────────────────────┴───────────────┴─────┴──────────┴─────┴──────────┘
//! ```
//!
//! The hash of a value names a stripe: the run that holds it, some 4 KiB, answers for all blocks of the chunk.

mod bucket;
mod build;
mod hash;
mod layout;
mod size;

pub(crate) use self::{
    build::{distinct_hashes, filters},
    hash::{has_filters, hash_of_scalar, hashes_of},
};
pub use self::{
    layout::{BloomLayout, BloomRef},
    size::{BLOOM_RATE, BLOOM_RATES},
};
