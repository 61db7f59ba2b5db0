//! Hints: what was chosen for one block, for the next of the chunk. Columns seldom change, and choosing anew is where write time goes.

use super::Statistics;
use super::statistics::Lessons;
use crate::encodings::{Encoding, plain::Plain, strings::Strings};

/// Blocks after which the chooser looks at everything again.
pub(super) const FRESH_BLOCKS: usize = 4;

/// A hinted encoding may promise so many times the bytes per row that it did for the block that it was chosen for. Where it promises
/// far fewer, another one may promise fewer still.
const LEAST: f64 = 0.85;
const MOST: f64 = 1.05;
/// By how much what is measured of the values may change, up or down.
const LIKENESS: f64 = 1.15;

/// The encoding that was chosen for a node, and those of its children.
#[derive(Debug, Clone)]
pub struct Hint {
    pub(super) encoding: u8,
    /// Bytes and price that it promised per row.
    pub(super) bytes_per_row: f64,
    /// What the values were like.
    pub(super) likeness: Likeness,
    /// What was learned from them.
    pub(super) lessons: Lessons,
    /// In the order in which the encoding asks for its children; `None` for what wasn't chosen.
    pub(super) children: Vec<Option<Hint>>,
}

/// What is cheaply measured of values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Likeness {
    runs_per_row: f64,
    /// Packed bits of lanes, bytes of byte strings.
    value_size: f64,
}

impl Likeness {
    pub fn of(statistics: &Statistics<'_>) -> Self {
        let rows = statistics.rows.max(1) as f64;
        let value_size = match (statistics.lanes(), statistics.strings()) {
            (Some(lanes), _) => lanes.value_bits(),
            (_, Some(strings)) => strings.total_bytes as f64 / rows,
            _ => 0.0,
        };
        Self { runs_per_row: statistics.runs_per_row(), value_size }
    }

    fn is_like(self, other: Self) -> bool {
        // A little more of both, so that little things don't count.
        let alike = |left: f64, right: f64, little: f64| {
            let (less, more) = (left.min(right) + little, left.max(right) + little);
            more <= less * LIKENESS
        };
        alike(self.runs_per_row, other.runs_per_row, 0.001) && alike(self.value_size, other.value_size, 0.5)
    }
}

impl Hint {
    /// Drops what was learned, which takes more memory than all else.
    pub(super) fn forget_lessons(&mut self) {
        self.lessons = Lessons::default();
        self.children.iter_mut().flatten().for_each(Self::forget_lessons);
    }

    /// Whether values are like those that this was chosen for, and so many bytes, price included, about what was promised then. Where
    /// values were left as they are, that says nothing: anything may do better.
    pub(super) fn holds(&self, priced_bytes: f64, statistics: &Statistics<'_>) -> bool {
        let was_encoded = ![Plain.id(), Strings.id()].contains(&self.encoding);
        let ratio = priced_bytes / (self.bytes_per_row * statistics.rows as f64).max(1e-9);
        was_encoded && (LEAST..=MOST).contains(&ratio) && self.likeness.is_like(Likeness::of(statistics))
    }
}
