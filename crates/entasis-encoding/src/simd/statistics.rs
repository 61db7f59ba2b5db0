//! What a writer wants to know of values before it encodes them.

use super::level::{Kernel, Level, run_at};
use crate::{Lane, PackedLane};

/// The least and the greatest of `values` as unsigned integers, or nothing if there are none.
pub fn min_max<T: PackedLane>(values: &[T]) -> Option<(T, T)> {
    min_max_at(Level::detect(), values)
}

/// [`min_max`] at a given level.
pub fn min_max_at<T: PackedLane>(level: Level, values: &[T]) -> Option<(T, T)> {
    run_at(level, MinMax { values, offset: T::default() })
}

/// The least and the greatest of `values` as signed integers (of two's complement), or nothing if there are none.
pub fn min_max_signed<T: PackedLane>(values: &[T]) -> Option<(T, T)> {
    min_max_signed_at(Level::detect(), values)
}

/// [`min_max_signed`] at a given level.
pub fn min_max_signed_at<T: PackedLane>(level: Level, values: &[T]) -> Option<(T, T)> {
    run_at(level, MinMax { values, offset: T::from_u64(1 << (T::BITS - 1)) })
}

struct MinMax<'a, T> {
    values: &'a [T],
    /// Added (wrapping) before comparing: half the range turns signed order into unsigned order.
    offset: T,
}

impl<T: PackedLane> Kernel for MinMax<'_, T> {
    type Output = Option<(T, T)>;

    #[inline(always)]
    fn run(self) -> Option<(T, T)> {
        let first = self.values.first()?.add(self.offset);
        let (mut min, mut max) = (first, first);
        for &value in self.values {
            let value = value.add(self.offset);
            min = min.min(value);
            max = max.max(value);
        }
        Some((min.subtract(self.offset), max.subtract(self.offset)))
    }
}

/// How many runs of equal values `values` consist of.
pub fn count_runs<T: Lane>(values: &[T]) -> usize {
    count_runs_at(Level::detect(), values)
}

/// [`count_runs`] at a given level.
pub fn count_runs_at<T: Lane>(level: Level, values: &[T]) -> usize {
    run_at(level, CountRuns { values })
}

struct CountRuns<'a, T> {
    values: &'a [T],
}

impl<T: Lane> Kernel for CountRuns<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Some((_, later)) = self.values.split_first() else { return 0 };
        // Counted in pieces, in a counter that is narrow enough to keep many in a register.
        let pieces = self.values.chunks(usize::from(u16::MAX)).zip(later.chunks(usize::from(u16::MAX)));
        let changes = |(values, later): (&[T], &[T])| {
            usize::from(values.iter().zip(later).map(|(value, next)| u16::from(value != next)).sum::<u16>())
        };
        1 + pieces.map(changes).sum::<usize>()
    }
}

/// Adds to `histogram[w]` the number of `values` whose difference from `reference` (wrapping) has `w` significant bits.
pub fn width_histogram<T: PackedLane>(values: &[T], reference: T, histogram: &mut [u32; 65]) {
    width_histogram_at(Level::detect(), values, reference, histogram);
}

/// [`width_histogram`] at a given level.
pub fn width_histogram_at<T: PackedLane>(level: Level, values: &[T], reference: T, histogram: &mut [u32; 65]) {
    run_at(level, WidthHistogram { values, reference, histogram });
}

struct WidthHistogram<'a, T> {
    values: &'a [T],
    reference: T,
    histogram: &'a mut [u32; 65],
}

impl<T: PackedLane> Kernel for WidthHistogram<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        // Neighbours often have the same width: with a histogram each, none waits for the other's count.
        let mut parts = [[0u32; 65]; 4];
        let width = |value: T| 64 - value.subtract(self.reference).to_u64().leading_zeros() as usize;
        let (fours, rest) = self.values.as_chunks::<4>();
        for four in fours {
            for (part, &value) in parts.iter_mut().zip(four) {
                part[width(value)] += 1;
            }
        }
        for &value in rest {
            parts[0][width(value)] += 1;
        }
        for (width, count) in self.histogram.iter_mut().enumerate() {
            *count += parts.iter().map(|part| part[width]).sum::<u32>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::U256;
    use crate::simd::test_values::{self, for_each_lane};

    fn agrees_with_the_definition<T: PackedLane>() {
        let sign = T::from_u64(1 << (T::BITS - 1));
        for row_count in [0, 1, 2, 15, 64, 129, 1000, 70_000] {
            for values in test_values::adversarial::<T>(row_count) {
                let ends = |key: &dyn Fn(&T) -> T| {
                    Some((*values.iter().min_by_key(|v| key(v))?, *values.iter().max_by_key(|v| key(v))?))
                };
                let runs = values.chunk_by(|value, next| value == next).count();
                let mut widths = [5; 65];
                for value in &values {
                    widths[64 - value.subtract(T::from_u64(1)).to_u64().leading_zeros() as usize] += 1;
                }
                for level in Level::available() {
                    assert_eq!(min_max_at(level, &values), ends(&|value| *value), "{level:?}");
                    assert_eq!(min_max_signed_at(level, &values), ends(&|value| value.add(sign)), "{level:?}");
                    assert_eq!(count_runs_at(level, &values), runs, "{level:?}");
                    let mut histogram = [5; 65];
                    width_histogram_at(level, &values, T::from_u64(1), &mut histogram);
                    assert_eq!(histogram, widths, "{level:?}");
                }
            }
        }
    }

    #[test]
    fn all_agree_with_their_definitions_on_every_level() {
        for_each_lane!(agrees_with_the_definition);
    }

    #[test]
    fn runs_of_wide_lanes_are_counted() {
        assert_eq!(count_runs(&[1u128 << 100, 1 << 100, 0]), 2);
        assert_eq!(count_runs(&[U256 { low: 1, high: 2 }, U256 { low: 1, high: 3 }, U256 { low: 1, high: 3 }]), 2);
    }
}
