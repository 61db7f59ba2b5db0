//! The `.ent` file format.

pub mod arrow;
pub mod compare;
mod error;
#[doc(hidden)]
pub mod generate;
pub mod zone;

pub use error::{Error, Result};
