//! Entasis encodings.

pub mod lane;
pub use lane::*;
