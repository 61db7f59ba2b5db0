//! The `.ent` file format.

pub mod atomic;
pub mod error;
pub mod metadata;
pub mod source;

pub use error::{Error, ErrorKind, Result};
