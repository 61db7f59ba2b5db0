//! Hints: what was chosen for one block, for the next of the chunk. Columns seldom change, and choosing anew is where write time goes.

use crate::encodings::{Encoding, plain::Plain, strings::Strings};

/// Blocks after which the chooser looks at everything again.
pub(super) const FRESH_BLOCKS: usize = 4;

/// By how much a hinted encoding may promise more bytes per row than it did for the block that it was chosen for.
const TOLERANCE: f64 = 1.05;

/// The encoding that was chosen for a node, and those of its children.
#[derive(Debug, Clone)]
pub struct Hint {
    pub(super) encoding: u8,
    /// Bytes and price that it promised per row.
    pub(super) bytes_per_row: f64,
    /// In the order in which the encoding asks for its children; `None` for what wasn't chosen.
    pub(super) children: Vec<Option<Hint>>,
}

impl Hint {
    /// Whether so many bytes, price included, are no more than was promised before. Where values were left as they are, that says nothing:
    /// anything may do better.
    pub(super) fn holds(&self, priced_bytes: f64, rows: usize) -> bool {
        let was_encoded = ![Plain.id(), Strings.id()].contains(&self.encoding);
        was_encoded && priced_bytes <= self.bytes_per_row * rows as f64 * TOLERANCE
    }
}
