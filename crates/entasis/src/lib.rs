//! The `.ent` file format.

pub mod arrow;
mod error;

pub use error::{Error, Result};
