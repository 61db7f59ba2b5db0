//! Entasis encodings.

pub mod lane;
pub mod simd;
pub use lane::*;
