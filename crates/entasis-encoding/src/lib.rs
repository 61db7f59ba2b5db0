//! Self-describing encoded blocks: the same bytes on disk, in memory and on the wire, and operations that run on them.

mod error;
mod lane;
mod physical;
mod values;
pub mod wire;

pub use error::{Error, Result};
pub use lane::{Lane, PackedLane, U256};
pub use physical::{Fixed, MAX_NESTING, Physical};
pub use values::{
    BitBuffer, Bits, BytesForm, Column, Decoded, DecodedBytes, DecodedValues, LaneAccess, Lanes, LargeValues, Values,
};

/// Values per vector: the unit of decoding, skipping and SIMD.
pub const VECTOR_ROWS: usize = 1024;

/// Most rows of a block, and most values of a shared part.
pub const BLOCK_ROWS: usize = 65_536;

/// Byte strings of this length and more go to the region for large values.
pub const LARGE_VALUE_BYTES: usize = 16_384;
