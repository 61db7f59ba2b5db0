//! Hints: what was chosen for one block, for the next of the chunk. Columns seldom change, and choosing anew is where write time goes.

use super::Statistics;
use super::statistics::Lessons;
use crate::encodings::{Encoding, dictionary::Dictionary, plain::Plain, strings::Strings};

/// Blocks after which the chooser looks at everything again.
pub(super) const FRESH_BLOCKS: usize = 4;

/// A hinted encoding may promise so many times the bytes per row that it did for the block that it was chosen for. Where it promises
/// far fewer, another one may promise fewer still.
const LEAST: f64 = 0.85;
const MOST: f64 = 1.05;
/// So many bytes more say nothing: those of a node itself weigh more in fewer rows.
const LITTLE_BYTES: f64 = 64.0;
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
    ///
    /// A dictionary may promise far fewer where it shares values with blocks before: no other encoding does so for that.
    pub(super) fn holds(&self, priced_bytes: f64, statistics: &Statistics<'_>, shares_values: bool) -> bool {
        let was_encoded = ![Plain.id(), Strings.id()].contains(&self.encoding);
        let expected_bytes = self.bytes_per_row * statistics.rows as f64;
        let least = if shares_values && self.encoding == Dictionary.id() { 0.0 } else { LEAST };
        let is_as_expected = (expected_bytes * least..=expected_bytes * MOST + LITTLE_BYTES).contains(&priced_bytes);
        was_encoded && is_as_expected && self.likeness.is_like(Likeness::of(statistics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fixed;
    use crate::values::{Column, Lanes, Values};

    #[test]
    fn a_hint_holds_for_about_as_many_bytes() {
        let values: Vec<u32> = (0..10_000).map(|row| row * 7919 % 1009).collect();
        let column =
            Column { rows: values.len(), validity: None, values: Values::Fixed(Fixed::U32, Lanes::L32(&values)) };
        let statistics = Statistics::new(&column);
        let hint = |encoding: &dyn Encoding| Hint {
            encoding: encoding.id(),
            bytes_per_row: 1.0,
            likeness: Likeness::of(&statistics),
            lessons: Lessons::default(),
            children: Vec::new(),
        };
        let holds = |priced_bytes, shares_values| hint(&Dictionary).holds(priced_bytes, &statistics, shares_values);
        assert!(holds(10_000.0, false) && holds(8600.0, false) && holds(10_560.0, false));
        assert!(!holds(8400.0, false) && !holds(10_600.0, true));
        assert!(holds(4000.0, true), "values that other blocks have cost nothing");
        assert!(!hint(&Plain).holds(10_000.0, &statistics, true));
    }
}
