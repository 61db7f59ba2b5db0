//! Words of values and of those before them, by which sequences that come again are found.

use super::level::{Kernel, Level, run_at};
use crate::Lane;

/// Values that a word of [`neighbour_words`] is made of: so many that one of their bits is shifted out when as many others have followed.
pub const NEIGHBOURS: usize = 8;
/// Bits by which a value's are moved up when another follows.
const SHIFT: u32 = 10;
/// The fraction 2^64 / φ, made odd: a multiplier that spreads bits upwards.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
/// Values between two looks at memory.
const PIECE: usize = 256;

/// Calls `visit` with words of 64 bits, some at a time: one for each value that has [`NEIGHBOURS`] − 1 before it, made of it and of those.
/// The same values give the same word, wherever they stand.
pub fn neighbour_words<T: Lane>(values: &[T], visit: impl FnMut(&[u64])) {
    neighbour_words_at(Level::detect(), values, visit);
}

/// [`neighbour_words`] at a given level.
pub fn neighbour_words_at<T: Lane>(level: Level, values: &[T], mut visit: impl FnMut(&[u64])) {
    let mut words = [0; PIECE + NEIGHBOURS];
    for start in (0..values.len().saturating_sub(NEIGHBOURS - 1)).step_by(PIECE) {
        let values = &values[start..values.len().min(start + PIECE + NEIGHBOURS - 1)];
        run_at(level, NeighbourWords { values, words: &mut words });
        visit(&words[..values.len() - (NEIGHBOURS - 1)]);
    }
}

struct NeighbourWords<'a, T> {
    values: &'a [T],
    words: &'a mut [u64; PIECE + NEIGHBOURS],
}

impl<T: Lane> Kernel for NeighbourWords<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let words = &mut self.words[..self.values.len()];
        for (word, value) in words.iter_mut().zip(self.values) {
            let spread = value.low_bits().wrapping_mul(ODD);
            *word = spread ^ spread >> u32::BITS;
        }
        // Words of two, of four, of eight.
        for count in [1, 2, 4] {
            for place in 0..words.len() - count {
                words[place] = words[place + count].wrapping_add(words[place] << (SHIFT * count as u32));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values::{self, for_each_lane};

    fn agrees_with_the_definition<T: crate::PackedLane>() {
        for row_count in [0, 1, 7, 8, 9, 255, 256, 262, 263, 264, 1000] {
            for values in test_values::adversarial::<T>(row_count) {
                // One value after the other: each moves those before it up.
                let mut word = 0u64;
                let mut expected = Vec::new();
                for (row, value) in values.iter().enumerate() {
                    let spread = value.low_bits().wrapping_mul(ODD);
                    word = (word << SHIFT).wrapping_add(spread ^ spread >> 32);
                    expected.extend((row + 1 >= NEIGHBOURS).then_some(word));
                }
                for level in Level::available() {
                    let mut words = Vec::new();
                    neighbour_words_at(level, &values, |some| words.extend_from_slice(some));
                    assert_eq!(words, expected, "{level:?}");
                }
            }
        }
    }

    #[test]
    fn words_are_those_of_the_definition_on_every_level() {
        for_each_lane!(agrees_with_the_definition);
    }
}
