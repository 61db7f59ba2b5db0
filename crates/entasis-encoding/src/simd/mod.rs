//! Kernels over slices, each compiled for every [`Level`] and chosen at run time, so that a build for the oldest
//! processor runs at the speed of one for the newest. All functions are safe. `name` runs at [`Level::detect`],
//! `name_at` at a given level; both give the same bits on every level. Kernels append to vectors: their memory is
//! written once, never zero-filled first.
//!
//! Most kernels are portable Rust over rows of 1,024 bits, written once and compiled per level (`level.rs`); intrinsics
//! appear only where the compiler falls short of them, as in prefix sums.

#![allow(unsafe_code, reason = "this is where vector instructions and uninitialised memory are handled")]
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only x86-64 has registers so far"))]

#[cfg(target_endian = "big")]
compile_error!("the kernels read little-endian words in place");

mod alp;
mod alp_rd;
mod ascending;
mod bitpack;
mod checksum;
mod edges;
mod expand;
mod gather;
mod level;
mod members;
mod neighbours;
mod phrases;
mod prefix_sum;
mod prefixes;
mod reduce;
mod register;
mod runs;
mod sequence;
mod sift;
mod spread;
mod statistics;
mod strings;
mod symbols;
#[cfg(target_arch = "x86_64")]
mod symbols_avx512;
#[cfg(test)]
pub(crate) mod test_values;
mod within;

pub use alp::*;
pub use alp_rd::*;
pub use ascending::*;
pub use bitpack::*;
pub use checksum::*;
pub use edges::*;
pub use expand::*;
pub use gather::*;
pub use level::{LEVEL_VARIABLE, Level};
pub use members::*;
pub use neighbours::*;
pub use phrases::*;
pub use prefix_sum::*;
pub use prefixes::*;
pub use reduce::*;
pub use runs::*;
pub use sequence::*;
pub use sift::*;
pub use spread::*;
pub use statistics::*;
pub use strings::*;
pub use symbols::*;
pub use within::*;
