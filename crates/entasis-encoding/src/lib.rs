//! Self-describing encoded blocks: the same bytes on disk, in memory and on the wire, and operations that run on them.
//!
//! [`ChunkEncoder`] turns [`Column`]s into the bytes of blocks, [`Block`] opens such bytes and answers questions: decode a
//! range of rows, select survivors, filter, aggregate, get single rows. The bytes are fixed by `spec/block.md` and
//! `spec/encodings.md`.

#![cfg_attr(
    not(any(feature = "pco", feature = "zstd")),
    allow(dead_code, unused_imports, reason = "what only these encodings need")
)]

mod aggregate;
#[doc(hidden)]
pub mod bench;
mod block;
mod chooser;
#[cfg(test)]
mod conformance;
mod encodings;
mod error;
mod filter;
#[cfg(test)]
mod forged;
pub mod fsst;
#[doc(hidden)]
pub mod fuzzing;
mod lane;
mod phrases;
mod physical;
mod predicate;
#[doc(hidden)]
pub mod random;
mod scratch;
mod selection;
pub mod simd;
#[cfg(test)]
mod testing;
mod values;
mod views;
pub mod wire;

pub use aggregate::{AggregateWork, Aggregates, Wanted};
pub use block::{Block, Cascade, HEAD_PREFIX_BYTES, LayoutItem, Limits, Parts, Verified, digest};
pub use chooser::{
    Candidate, Choice, ChunkEncoder, EncodeOptions, EncodedBlock, Hint, Profile, Searched, explain, search,
};
pub use encodings::{encoding_names, is_for_size_alone};
pub use error::{Error, Result};
pub use filter::{Ask, AskCount, Filter, FilterWork, StringBounds};
pub use lane::{Lane, PackedLane, U256};
pub use physical::{Fixed, MAX_NESTING, Physical};
pub use predicate::{Comparison, FloatOrder, Like, Predicate, Scalar};
pub use selection::{Selection, VectorSelection};
pub use values::{
    BitBuffer, Bits, BytesForm, Column, Decoded, DecodedBytes, DecodedValues, LaneAccess, Lanes, LargeValues, Values,
};
pub use views::Views;

/// Values per vector: the unit of decoding, skipping and SIMD.
pub const VECTOR_ROWS: usize = 1024;

/// Most rows of a block, and most values of a shared part.
pub const BLOCK_ROWS: usize = 65_536;

/// Byte strings of this length and more go to the region for large values.
pub const LARGE_VALUE_BYTES: usize = 16_384;
