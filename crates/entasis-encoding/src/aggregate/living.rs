//! Which of some rows are alive.

use crate::simd;
use crate::values::{BitBuffer, Bits};

/// Which of some rows are alive.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Living<'a> {
    /// All of so many.
    All(usize),
    /// Those whose bit is set.
    Some(Bits<'a>),
}

impl<'a> Living<'a> {
    /// The rows whose bit is set, of which there may be all.
    pub fn of(bits: &'a BitBuffer) -> Self {
        let bits = bits.bits();
        if bits.count_ones() == bits.len() { Self::All(bits.len()) } else { Self::Some(bits) }
    }

    /// Rows, alive or not.
    pub fn rows(self) -> usize {
        match self {
            Self::All(rows) => rows,
            Self::Some(bits) => bits.len(),
        }
    }

    /// Rows alive.
    pub fn count(self) -> usize {
        match self {
            Self::All(rows) => rows,
            Self::Some(bits) => bits.count_ones(),
        }
    }

    /// Of `len` rows from `start`.
    pub fn slice(self, start: usize, len: usize) -> Self {
        match self {
            Self::All(_) => Self::All(len),
            Self::Some(bits) => Self::Some(bits.slice(start, len)),
        }
    }

    /// Up to 64 rows from `row`, the first in the lowest place; a bit is set for a row that is alive.
    pub fn word(self, row: usize) -> u64 {
        match self {
            Self::All(rows) if row >= rows => 0,
            Self::All(rows) => u64::MAX >> (64 - (rows - row).min(64)),
            Self::Some(bits) => bits.word(row),
        }
    }

    /// The rows that are alive, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> + 'a {
        (0..self.rows()).step_by(64).flat_map(move |row| {
            let mut word = self.word(row);
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(row + bit)
            })
        })
    }

    /// A bit for each row, set where it is alive and its bit is set.
    pub fn and(self, bits: Bits<'_>) -> BitBuffer {
        let mut out = BitBuffer::default();
        for row in (0..self.rows()).step_by(64) {
            out.extend_word(self.word(row) & bits.word(row), (self.rows() - row).min(64));
        }
        out
    }

    /// Of the rows whose bit is set in `which`, as if there were no others.
    pub fn packed(self, which: Bits<'_>) -> BitBuffer {
        let mut out = BitBuffer::default();
        for row in (0..self.rows()).step_by(64) {
            let mask = which.word(row);
            out.extend_word(simd::extract(self.word(row), mask), mask.count_ones() as usize);
        }
        out
    }
}
