//! A few of a column's sequences of values, chosen by what they hold: one that comes again is chosen again.

use super::level::{Kernel, Level, run_at};
use super::within::{Within, word_within};
use crate::Lane;

/// Values that a sequence has: each is moved up when another follows, and so many later none of its bits is left.
pub const SEQUENCE_VALUES: usize = 7;
/// Bits by which a value's are moved up when another follows.
const SHIFT: u32 = 5;
/// The fraction 2^32 / φ, made odd: a multiplier that spreads bits upwards.
const ODD: u32 = 0x9E37_79B9;
/// Sequences between two looks at memory.
const PIECE: usize = 256;
/// Values that a word is made of before those that left no bit are counted off; a power of two.
const SUMMED: usize = 8;

/// Appends a number for each sequence that is chosen, one in 2^`shift` where they are many: the same for the same values, wherever they
/// stand.
pub fn choose_sequences<T: Lane>(values: &[T], shift: u32, out: &mut Vec<u64>) {
    choose_sequences_at(Level::detect(), values, shift, out);
}

/// [`choose_sequences`] at a given level.
pub fn choose_sequences_at<T: Lane>(level: Level, values: &[T], shift: u32, out: &mut Vec<u64>) {
    let level = level.or_scalar();
    let chosen = Within { first: 0, span: u32::MAX >> shift };
    let (mut words, mut spread) = ([0u32; PIECE + SUMMED - 1], [0u32; PIECE]);
    for start in (0..values.len().saturating_sub(SUMMED - 1)).step_by(PIECE) {
        let values = &values[start..values.len().min(start + PIECE + SUMMED - 1)];
        let count = values.len() - (SUMMED - 1);
        run_at(level, Words { values, words: &mut words, spread: &mut spread });
        for (piece, spread) in spread.as_chunks::<64>().0.iter().enumerate().take(count.div_ceil(64)) {
            let of_piece = u64::MAX >> (64 - (count - piece * 64).min(64));
            let mut bits = word_within(level, spread, chosen, false) & of_piece;
            while bits != 0 {
                out.push(words[piece * 64 + bits.trailing_zeros() as usize].into());
                bits &= bits - 1;
            }
        }
    }
}

struct Words<'a, T> {
    /// As many as words are wanted and [`SUMMED`] − 1 more.
    values: &'a [T],
    words: &'a mut [u32; PIECE + SUMMED - 1],
    /// The words with their bits spread, by which some are chosen.
    spread: &'a mut [u32; PIECE],
}

impl<T: Lane> Kernel for Words<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let words = &mut self.words[..self.values.len()];
        for (word, value) in words.iter_mut().zip(self.values) {
            let bits = value.low_bits();
            let spread = (bits ^ bits >> u32::BITS) as u32;
            let spread = spread.wrapping_mul(ODD);
            *word = spread ^ spread >> 16;
        }
        // Words of two, of four, of eight.
        for count in [1, 2, 4] {
            for place in 0..words.len() - count {
                words[place] = words[place + count].wrapping_add(words[place] << (SHIFT * count as u32));
            }
        }
        for (spread, word) in self.spread.iter_mut().zip(words) {
            *spread = word.wrapping_mul(ODD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values::{self, for_each_lane};

    fn agrees_with_the_definition<T: crate::PackedLane>() {
        for row_count in [0, 1, 7, 8, 9, 70, 255, 256, 262, 263, 264, 1000] {
            for values in test_values::adversarial::<T>(row_count) {
                // One value after the other: each moves those before it up.
                let mut word = 0u32;
                let mut expected = Vec::new();
                for (row, value) in values.iter().enumerate() {
                    let folded = (value.low_bits() ^ value.low_bits() >> 32) as u32;
                    let spread = folded.wrapping_mul(ODD);
                    word = (word << SHIFT).wrapping_add(spread ^ spread >> 16);
                    let is_chosen = row + 1 >= SUMMED && word.wrapping_mul(ODD).leading_zeros() >= 3;
                    expected.extend(is_chosen.then_some(u64::from(word)));
                }
                for level in Level::available() {
                    let mut chosen = Vec::new();
                    choose_sequences_at(level, &values, 3, &mut chosen);
                    assert_eq!(chosen, expected, "{level:?}");
                }
            }
        }
    }

    #[test]
    fn those_of_the_definition_are_chosen_on_every_level() {
        for_each_lane!(agrees_with_the_definition);
    }

    #[test]
    fn what_comes_again_is_chosen_again_and_what_was_before_a_sequence_leaves_no_trace() {
        let pattern: Vec<u16> = test_values::random(7).take(200).map(|number| number as u16).collect();
        let others = |seed| test_values::random(seed).take(300).map(|number| number as u16);
        let chosen = |seed| {
            let values: Vec<u16> = others(seed).chain(pattern.iter().copied()).collect();
            let mut all = Vec::new();
            choose_sequences(&values[300 - SUMMED + SEQUENCE_VALUES..], 2, &mut all);
            all
        };
        assert!(chosen(1).len() > 20);
        assert_eq!(chosen(1), chosen(2));
    }
}
