//! What fuzz targets do with bytes. Not part of the crate's interface.
//!
//! `exercise` asks a file everything, `mutate` changes files below their checksums, so that a fuzzer gets to the code
//! behind them, `round_trip` writes random batches and reads them back, and `scan` looks in them for what random conditions hold of.

mod blooms;
mod conditions;
mod exercise;
mod mutate;
mod round_trip;
mod scan;

pub use blooms::{blooms_of, look_up};
pub use conditions::{Hashed, passing_rows, random_condition};
pub use exercise::exercise;
pub use mutate::mutate;
pub use round_trip::round_trip;
pub use scan::scan;
