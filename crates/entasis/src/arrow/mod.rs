//! The Arrow side: types on disk, arrays lent to the encodings, decoded values as arrays.

mod physical;
mod shred;
pub mod types;

pub use physical::physical_of;
pub use shred::{ColumnNode, Split, shred};
