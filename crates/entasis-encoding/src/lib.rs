//! Entasis encodings.

pub mod fsst;
pub mod lane;
pub mod simd;
pub use lane::*;
