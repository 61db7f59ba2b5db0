//! Values that rise or fall by the same step.

use super::level::{Kernel, Level, run_at};
use crate::PackedLane;

/// Appends `count` values: `first`, and each later one the value before it plus `step`, wrapping.
pub fn sequence<T: PackedLane>(first: T, step: T, count: usize, out: &mut Vec<T>) {
    sequence_at(Level::detect(), first, step, count, out);
}

/// [`sequence`] at a given level.
pub fn sequence_at<T: PackedLane>(level: Level, first: T, step: T, count: usize, out: &mut Vec<T>) {
    out.reserve(count);
    run_at(level, Sequence { first, step, count, out });
}

struct Sequence<'a, T> {
    first: T,
    step: T,
    count: usize,
    out: &'a mut Vec<T>,
}

impl<T: PackedLane> Kernel for Sequence<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        /// Values that are advanced together, so that no addition waits for the one before.
        const TOGETHER: usize = 64;
        let Self { first, step, count, out } = self;
        let mut values = [first; TOGETHER];
        for index in 1..TOGETHER {
            values[index] = values[index - 1].add(step);
        }
        let stride = T::from_u64(step.to_u64().wrapping_mul(TOGETHER as u64));
        for _ in 0..count / TOGETHER {
            out.extend_from_slice(&values);
            values.iter_mut().for_each(|value| *value = value.add(stride));
        }
        out.extend_from_slice(&values[..count % TOGETHER]);
    }
}

/// Whether each of `values` is the one before it plus `step`, wrapping.
pub fn is_sequence<T: PackedLane>(values: &[T], step: T) -> bool {
    /// Values between two looks at whether there was another step.
    const PIECE_ROWS: usize = 1024;
    let later = values.get(1..).unwrap_or_default();
    let mut pieces = values.chunks(PIECE_ROWS).zip(later.chunks(PIECE_ROWS));
    pieces.all(|(values, later)| run_at(Level::detect(), IsSequence { values, later, step }))
}

struct IsSequence<'a, T> {
    values: &'a [T],
    later: &'a [T],
    step: T,
}

impl<T: PackedLane> Kernel for IsSequence<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let steps = self.values.iter().zip(self.later);
        steps.fold(true, |all, (value, next)| all & (next.subtract(*value) == self.step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values::for_each_lane;

    fn agrees_with_the_definition<T: PackedLane>() {
        for step in [0u64, 1, 3, 60, u64::MAX, 1 << 63, 0x8000_0001] {
            for first in [0u64, 7, u64::MAX - 5, 1 << 31] {
                for count in [0, 1, 2, 63, 64, 65, 1024, 3000] {
                    let value = |row: usize| T::from_u64(first.wrapping_add(step.wrapping_mul(row as u64)));
                    let expected: Vec<T> = (0..count).map(value).collect();
                    for level in Level::available() {
                        let mut out = vec![T::from_u64(9)];
                        sequence_at(level, T::from_u64(first), T::from_u64(step), count, &mut out);
                        assert_eq!(out[1..], expected, "{count} from {first} by {step} at {level:?}");
                    }
                    assert!(is_sequence(&expected, T::from_u64(step)));
                    for at in [0, 1, count / 2, count.saturating_sub(1)] {
                        let mut other = expected.clone();
                        let Some(value) = other.get_mut(at) else { continue };
                        *value = value.add(T::from_u64(1));
                        assert_eq!(is_sequence(&other, T::from_u64(step)), count < 2, "{at} of {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn sequences_are_the_same_on_every_level() {
        for_each_lane!(agrees_with_the_definition);
    }
}
