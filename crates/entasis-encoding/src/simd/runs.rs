//! Run-length expansion.

use super::level::{Kernel, Level, run_at};
use crate::Lane;
use crate::values::{BitBuffer, Bits};
use std::mem::MaybeUninit;

/// Why runs cannot be expanded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// There are not as many values as ends.
    #[error("{value_count} values for {run_count} runs")]
    Count {
        /// Values given.
        value_count: usize,
        /// Ends given.
        run_count: usize,
    },
    /// A run ends where it begins or earlier: its end is not above the end before it, or the first not above the start.
    #[error("the ends of runs do not rise")]
    NotRising,
    /// The runs end before the rows that were asked for do.
    #[error("the runs end at row {end}, before row {wanted}")]
    TooShort {
        /// Where the last run ends; the start where there is no run.
        end: u32,
        /// Where the rows end.
        wanted: u64,
    },
}

/// Rows `start..start + row_count` as runs, of which each covers the rows from the end before it (the first: from `start` or any
/// row below) to below its own.
#[derive(Debug, Clone, Copy)]
pub struct Runs<'a> {
    /// One per run, rising strictly from above `start`.
    pub ends: &'a [u32],
    /// The first row.
    pub start: u32,
    /// How many rows.
    pub row_count: usize,
}

impl Runs<'_> {
    /// How many of the rows lie before `end`, the end of a run.
    #[inline(always)]
    pub(super) fn rows_to(&self, end: u32) -> usize {
        self.row_count.min((end - self.start) as usize)
    }
}

/// Fails unless `ends` are as many as the values, rise strictly from above `start` and reach `start + row_count`.
pub(super) fn check_runs(value_count: usize, ends: &[u32], start: u32, row_count: usize) -> Result<(), RunError> {
    run_at(Level::detect(), CheckRuns { value_count, ends, start, row_count })
}

/// Appends the values of rows `start..start + row_count`, where run `k` holds `values[k]` and covers the rows from the
/// end before it (for the first run, from `start` or any row below) to below `ends[k]`. Runs beyond the rows are left
/// out.
///
/// # Errors
/// [`RunError`] where `values` and `ends` differ in length, `ends` do not rise strictly from above `start`, or do not
/// reach `start + row_count`; nothing is appended then.
pub fn expand_runs<T: Lane>(
    values: &[T],
    ends: &[u32],
    start: u32,
    row_count: usize,
    out: &mut Vec<T>,
) -> Result<(), RunError> {
    expand_runs_at(Level::detect(), values, ends, start, row_count, out)
}

/// [`expand_runs`] at a given level.
///
/// # Errors
/// As [`expand_runs`].
pub fn expand_runs_at<T: Lane>(
    level: Level,
    values: &[T],
    ends: &[u32],
    start: u32,
    row_count: usize,
    out: &mut Vec<T>,
) -> Result<(), RunError> {
    run_at(level, CheckRuns { value_count: values.len(), ends, start, row_count })?;
    out.reserve(row_count + block_rows::<T>());
    run_at(level, ExpandRuns { values, ends, start, row_count, out });
    Ok(())
}

/// Values that are stored at once: 64 bytes, so that most short runs take one store and no branch that depends on their
/// length.
const fn block_rows<T: Lane>() -> usize {
    64 / T::BYTES
}

struct CheckRuns<'a> {
    value_count: usize,
    ends: &'a [u32],
    start: u32,
    row_count: usize,
}

impl Kernel for CheckRuns<'_> {
    type Output = Result<(), RunError>;

    #[inline(always)]
    fn run(self) -> Result<(), RunError> {
        let Self { value_count, ends, start, row_count } = self;
        if value_count != ends.len() {
            return Err(RunError::Count { value_count, run_count: ends.len() });
        }
        let later = ends.get(1..).unwrap_or_default();
        let rising = ends.iter().zip(later).fold(true, |rising, (end, next)| rising & (end < next));
        if !rising || ends.first().is_some_and(|&end| end <= start) {
            return Err(RunError::NotRising);
        }
        let end = ends.last().copied().unwrap_or(start);
        let wanted = u64::from(start).saturating_add(row_count as u64);
        if u64::from(end) < wanted { Err(RunError::TooShort { end, wanted }) } else { Ok(()) }
    }
}

/// Expands runs that [`CheckRuns`] found right.
struct ExpandRuns<'a, T> {
    values: &'a [T],
    ends: &'a [u32],
    start: u32,
    row_count: usize,
    /// Has room for the rows and a block.
    out: &'a mut Vec<T>,
}

impl<T: Lane> Kernel for ExpandRuns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { values, ends, start, row_count, out } = self;
        let block = block_rows::<T>();
        let room = &mut out.spare_capacity_mut()[..row_count + block];
        let mut fill_block = |row: usize, value: T| {
            // SAFETY: every `row` below is at most `row_count`, and `room` holds a block beyond that.
            unsafe { room.get_unchecked_mut(row..row + block) }.fill(MaybeUninit::new(value));
        };
        let mut row = 0;
        for (&value, &end) in values.iter().zip(ends) {
            let end = row_count.min((end - start) as usize);
            // What is written beyond `end` is overwritten by the next run, or left over.
            fill_block(row, value);
            let mut filled = row + block;
            while filled < end {
                fill_block(filled, value);
                filled += block;
            }
            row = end;
            if row == row_count {
                break;
            }
        }
        // SAFETY: the runs reach `row_count`, and every row below it was written by its run.
        unsafe { out.set_len(out.len() + row_count) };
    }
}

/// As [`expand_runs`], of a bit per run. Only where one differs from the bit before is anything done for a run: the row at which it begins
/// is noted, and a row's bit is the parity of what is noted up to it.
///
/// # Errors
/// As [`expand_runs`].
pub fn expand_bit_runs(
    values: Bits<'_>,
    ends: &[u32],
    start: u32,
    row_count: usize,
    out: &mut BitBuffer,
) -> Result<(), RunError> {
    check_runs(values.len(), ends, start, row_count)?;
    let runs = Runs { ends, start, row_count };
    // What begins behind the last row has a place too.
    let mut words = vec![0u64; row_count / 64 + 1];
    let mut last = 0;
    for first in (0..values.len()).step_by(64) {
        let word = values.word(first);
        let mut changes = (word ^ (word << 1 | last)) & u64::MAX >> (64 - (values.len() - first).min(64));
        last = word >> 63;
        while changes != 0 {
            let run = first + changes.trailing_zeros() as usize;
            changes &= changes - 1;
            let row = run.checked_sub(1).map_or(0, |before| runs.rows_to(ends[before]));
            words[row / 64] ^= 1 << (row % 64);
        }
    }
    let mut before = 0;
    for (index, mut word) in words.into_iter().enumerate() {
        for shift in [1, 2, 4, 8, 16, 32] {
            word ^= word << shift;
        }
        word ^= before;
        before = if word >> 63 == 1 { u64::MAX } else { 0 };
        let count = (row_count - 64 * index).min(64);
        if count > 0 {
            out.extend_word(word & u64::MAX >> (64 - count), count);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::U256;
    use crate::simd::test_values;
    use proptest::prelude::*;

    fn agrees_with_the_definition<T: Lane>(value: impl Fn(u64) -> T) {
        for longest in [1, 2, 7, 40, 3000] {
            for start in [0u32, 5, u32::MAX - 400_000] {
                let lengths = test_values::random(longest).take(100).map(|number| 1 + number % longest);
                let ends: Vec<u32> = lengths
                    .scan(start, |end, length| {
                        *end += length as u32;
                        Some(*end)
                    })
                    .collect();
                let values: Vec<T> = (0..100).map(&value).collect();
                let whole = (ends[99] - start) as usize;
                for row_count in [0, 1, whole / 2, whole - 1, whole] {
                    let expected: Vec<T> = (0..row_count as u32)
                        .map(|row| values[ends.iter().position(|&end| start + row < end).unwrap()])
                        .collect();
                    for level in Level::available() {
                        let mut out = vec![value(1)];
                        expand_runs_at(level, &values, &ends, start, row_count, &mut out).unwrap();
                        assert_eq!(out[1..], expected, "runs up to {longest} from {start} at {level:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_are_those_of_their_runs_on_every_level() {
        agrees_with_the_definition(|number| number as u8);
        agrees_with_the_definition(|number| number as u16);
        agrees_with_the_definition(|number| number as u32);
        agrees_with_the_definition(|number| number << 50 | number);
        agrees_with_the_definition(|number| u128::from(number) << 90 | 1);
        agrees_with_the_definition(|number| U256 { low: u128::from(number), high: 5 });
    }

    #[test]
    fn wrong_runs_are_refused() {
        let expand = |values: &[u8], ends: &[u32], start, row_count| {
            let mut out = Vec::new();
            let result = expand_runs(values, ends, start, row_count, &mut out);
            assert!(result.is_ok() || out.is_empty());
            result
        };
        assert_eq!(expand(&[1], &[3, 4], 0, 2), Err(RunError::Count { value_count: 1, run_count: 2 }));
        assert_eq!(expand(&[1, 2], &[3, 3], 0, 2), Err(RunError::NotRising));
        assert_eq!(expand(&[1, 2], &[3, 2], 0, 2), Err(RunError::NotRising));
        assert_eq!(expand(&[1], &[7], 7, 0), Err(RunError::NotRising));
        assert_eq!(expand(&[1], &[7], 0, 8), Err(RunError::TooShort { end: 7, wanted: 8 }));
        assert_eq!(expand(&[], &[], 4, 1), Err(RunError::TooShort { end: 4, wanted: 5 }));
        assert!(expand(&[1], &[u32::MAX], 5, usize::MAX).is_err());
        assert_eq!(expand(&[], &[], 4, 0), Ok(()));
    }

    proptest! {
        #[test]
        fn any_ends_are_expanded_or_refused(ends in prop::collection::vec(0u32..50, 0..6), start in 0u32..50, row_count in 0usize..60) {
            let values: Vec<u64> = (0..ends.len() as u64).collect();
            let mut out = Vec::new();
            let result = expand_runs(&values, &ends, start, row_count, &mut out);
            prop_assert_eq!(out.len(), if result.is_ok() { row_count } else { 0 });
        }

        #[test]
        fn bits_are_expanded_as_values_are(
            runs in prop::collection::vec((1u32..90, any::<bool>()), 0..200),
            lead in 0u32..90,
            start in 0u32..50,
            row_count in 0usize..5000,
        ) {
            let ends: Vec<u32> = runs.iter().scan(start, |end, (rows, _)| { *end += rows; Some(*end) }).collect();
            let start = start + lead.min(runs.first().map_or(0, |(rows, _)| rows - 1));
            let values: Vec<u8> = runs.iter().map(|(_, bit)| u8::from(*bit)).collect();
            let (mut expected, mut out) = (vec![1], BitBuffer::default());
            out.push(true);
            let bits: BitBuffer = runs.iter().map(|(_, bit)| *bit).collect();
            let result = expand_runs(&values, &ends, start, row_count, &mut expected);
            prop_assert_eq!(expand_bit_runs(bits.bits(), &ends, start, row_count, &mut out), result);
            prop_assert_eq!(out.bits().iter().map(u8::from).collect::<Vec<_>>(), expected);
        }
    }
}
