//! How many distinct values a column has, as a few of its rows show: before all of them are told apart, and when a part of them is.

use xxhash_rust::xxh3::xxh3_64;

use super::distinct::hash_lane;
use super::statistics::frequencies;
use crate::values::{Column, Values};
use crate::{VECTOR_ROWS, with_lanes};

/// A value that so many of a few rows have is told apart from all others when those are counted.
const FREQUENT_TIMES: u32 = 16;
/// One row of so many is looked at, and more of few.
const FEW_OF_ROWS: usize = 64;
/// The share of a few rows that is most of them.
const MOST_SHARE: f64 = 0.75;
/// No more rows are looked at: items of lists may be far more than a block has rows.
const MOST_ROWS: usize = 4 * VECTOR_ROWS;
/// How many distinct values there are, as a few rows show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DistinctOfFew {
    /// Hardly fewer: twice what chance may hide is taken off.
    pub least: usize,
    /// About so many, or more where some are more frequent than others or come again only nearby.
    about: usize,
    /// True where most of these rows differ: then the values may be far more than pairs tell.
    mostly_differ: bool,
}

impl DistinctOfFew {
    /// Nothing is known where all rows are looked at as quickly.
    pub const UNKNOWN: Self = Self { least: 0, about: 0, mostly_differ: false };

    /// What a few rows of this column show.
    pub fn of(column: &Column<'_>) -> Self {
        match &column.values {
            Values::Fixed(_, lanes) => with_lanes!(lanes, lanes => Self::of_values(lanes, hash_lane)),
            Values::Bytes(strings) => Self::of_values(strings, |string| xxh3_64(string)),
            _ => Self::UNKNOWN,
        }
    }

    /// Of n rows drawn from d values, at least n² / 2d pairs are alike, and more where some values are more frequent than others: pairs that
    /// are alike tell the fewest values that there may be. What comes again only nearby shows in neighbours, all else in rows far apart.
    fn of_values<T>(values: &[T], hash: impl Fn(&T) -> u64) -> Self {
        if values.len() < 4 * VECTOR_ROWS {
            return Self::UNKNOWN;
        }
        let step = FEW_OF_ROWS.min(values.len() / VECTOR_ROWS).max(values.len().div_ceil(MOST_ROWS));
        let (distinct, far) = Self::by_pairs(values.iter().step_by(step).map(&hash).collect());
        if far.least <= distinct {
            return Self { least: distinct, ..far };
        }
        let middle = values.len() / 2 / VECTOR_ROWS * VECTOR_ROWS;
        let (_, near) = Self::by_pairs(values[middle..middle + VECTOR_ROWS].iter().map(&hash).collect());
        Self { least: distinct.max(far.least.min(near.least)), ..far }
    }

    /// How many of these hashes are distinct, and what their pairs tell of all.
    fn by_pairs(hashes: Vec<u64>) -> (usize, Self) {
        let (mut distinct, mut frequent, mut rows, mut alike) = (0, 0, 0, 0.0);
        for times in frequencies(&hashes) {
            distinct += 1;
            // A few values that many rows have would hide how many the others are.
            if times >= FREQUENT_TIMES {
                frequent += 1;
                continue;
            }
            rows += times as usize;
            alike += f64::from(times) * f64::from(times - 1) / 2.0;
        }
        let pairs = (rows * rows.saturating_sub(1) / 2) as f64;
        let least = frequent + (pairs / (alike + 2.0 * f64::sqrt(alike) + 3.0)) as usize;
        let about = frequent + (pairs / (alike + 1.0)) as usize;
        (distinct, Self { least, about, mostly_differ: distinct as f64 > hashes.len() as f64 * MOST_SHARE })
    }

    /// True if the values of a column are plainly more than `limit`, when so many have been found in one row of `parts` at its beginning: of
    /// values in any order, rows that bring new ones grow fewer no faster than where all are equally frequent.
    pub fn is_hopeless(self, rows: usize, parts: usize, distinct_of_part: usize, limit: usize) -> bool {
        let new_share = distinct_of_part as f64 / (rows as f64 / parts as f64).max(1.0);
        let all = distinct_of_part as f64 * (1.0 + (parts - 1) as f64 * new_share.powi(parts as i32));
        // Values that come again only much later show in rows far apart.
        self.about * 2 > limit && all > limit as f64
    }

    /// True unless a few rows show plainly fewer values than that: those that some rows have and most don't show in few of them.
    pub fn may_be_more_than(self, limit: usize) -> bool {
        self.about * 8 > limit || self.mostly_differ
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chooser::distinct::ODD;
    use crate::random::Random;

    fn of_few(values: &[u64]) -> DistinctOfFew {
        DistinctOfFew::of_values(values, hash_lane)
    }

    #[test]
    fn hardly_more_are_expected_than_there_are() {
        let mut random = Random::new(61);
        for distinct in [10, 300, 5000, 40_000] {
            let drawn: Vec<u64> = (0..65_536).map(|_| random.next() % distinct).collect();
            let mostly_zero: Vec<u64> = drawn.iter().map(|&value| value * (random.next() % 2)).collect();
            let in_runs: Vec<u64> = (0..65_536).map(|row| row * distinct / 65_536).collect();
            for values in [drawn, mostly_zero, in_runs] {
                let found = of_few(&values);
                assert!(found.least as u64 <= distinct, "{found:?} of {distinct}");
            }
        }
        assert_eq!(of_few(&[1, 2, 3]), DistinctOfFew::UNKNOWN);
    }

    #[test]
    fn what_recurs_nearby_alone_may_be_many() {
        let in_runs: Vec<u64> = (0..65_536u64).map(|row| (row / 32).wrapping_mul(ODD)).collect();
        let in_places: Vec<u64> = (0..65_536u64).map(|row| (row / 32 * 16 + row % 16).wrapping_mul(ODD)).collect();
        let few: Vec<u64> = (0..65_536u64).map(|row| (row * row % 101).wrapping_mul(ODD)).collect();
        assert!(of_few(&in_runs).may_be_more_than(2000));
        assert!(of_few(&in_places).may_be_more_than(32_000));
        assert!(!of_few(&few).may_be_more_than(2000));
    }

    #[test]
    fn what_recurs_is_never_hopeless_and_what_differs_is() {
        let mut random = Random::new(62);
        let cyclic: Vec<u64> = (0..65_536).map(|row| row % 20_000).collect();
        let different: Vec<u64> = (0..65_536).map(|_| random.next()).collect();
        let limit = 49_152;
        assert!(!of_few(&cyclic).is_hopeless(cyclic.len(), 16, 4096, limit));
        assert!(!of_few(&cyclic).is_hopeless(cyclic.len(), 4, 16_384, limit));
        for (parts, distinct) in [(16, 4096), (4, 16_384)] {
            assert!(of_few(&different).is_hopeless(different.len(), parts, distinct, limit));
            assert!(!of_few(&different).is_hopeless(different.len(), parts, distinct / 4, limit));
        }
    }
}
