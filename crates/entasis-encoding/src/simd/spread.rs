//! Spreading packed values over the rows that have one: the way back from values that were stored without their nulls.

use std::mem::MaybeUninit;

use super::level::{Kernel, Level, run_at};
use crate::values::Bits;

/// Turns the values behind `start`, one per set bit, into one per bit, in place: a clear bit repeats the value before it, and
/// those before the first set bit become `nothing`. For the ends of strings, with the end before them as `nothing`, that makes
/// the strings of clear bits empty.
///
/// Panics unless there is a value per set bit.
pub fn spread<T: Copy>(values: &mut Vec<T>, start: usize, bits: Bits<'_>, nothing: T) {
    let packed_end = values.len();
    let end = start + bits.len();
    assert_eq!(packed_end - start, bits.count_ones(), "a value per set bit");
    values.reserve(end - packed_end);
    let at = values.as_mut_ptr();
    // From the end to the beginning, so that no value is overwritten before it was moved: its row is never before its place.
    let mut unread = packed_end;
    let mut first_row = bits.len().next_multiple_of(64);
    while first_row > 0 && unread > start {
        first_row -= 64;
        let row_count = (bits.len() - first_row).min(64);
        let (word, place) = (bits.word(first_row), start + first_row);
        let count = word.count_ones() as usize;
        if count == row_count && unread == place + count {
            // All rows so far have values, which lie where they belong.
            break;
        }
        // SAFETY: there is room for `end` values, of which rows `place..place + row_count` are some. `start < unread`, all values
        // below `unread` are initialised, and each set bit uses up one of those behind `start`: there are as many.
        unsafe {
            if count == 0 {
                let value = *at.add(unread - 1);
                std::slice::from_raw_parts_mut(at.add(place).cast::<MaybeUninit<T>>(), row_count)
                    .fill(MaybeUninit::new(value));
            } else if count == row_count {
                std::ptr::copy(at.add(unread - count), at.add(place), count);
            } else {
                let mut left = unread;
                for row in (0..row_count).rev() {
                    // Where no value is left and none lies before, the first stands in for what is set below.
                    *at.add(place + row) = *at.add(left.max(1) - 1);
                    left -= (word >> row & 1) as usize;
                }
            }
        }
        unread -= count;
    }
    let words = (0..bits.len()).step_by(64).map(|row| (row, bits.word(row)));
    let first_value = words.clone().find(|&(_, word)| word != 0);
    let valueless = first_value.map_or(bits.len(), |(row, word)| row + word.trailing_zeros() as usize);
    // SAFETY: there is room for `end` values. Those from the first set bit on were written above or lay there already, those
    // before are written here.
    unsafe {
        std::slice::from_raw_parts_mut(at.add(start).cast::<MaybeUninit<T>>(), valueless)
            .fill(MaybeUninit::new(nothing));
        values.set_len(end);
    }
}

/// Number of set bits.
pub fn count_ones(bytes: &[u8]) -> usize {
    run_at(Level::detect(), CountOnes { bytes })
}

struct CountOnes<'a> {
    bytes: &'a [u8],
}

impl Kernel for CountOnes<'_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let (words, rest) = self.bytes.as_chunks::<8>();
        let whole: usize = words.iter().map(|word| u64::from_le_bytes(*word).count_ones() as usize).sum();
        whole + rest.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
    }
}

/// The lowest bits of `packed`, one per set bit of `mask`, at the places of those.
pub fn deposit(mut packed: u64, mask: u64) -> u64 {
    let (mut left, mut spread) = (mask, 0);
    while left != 0 {
        let lowest = left & left.wrapping_neg();
        spread |= lowest & (packed & 1).wrapping_neg();
        packed >>= 1;
        left ^= lowest;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values;
    use crate::values::BitBuffer;

    fn naive(packed: &[u32], bits: &BitBuffer, nothing: u32) -> Vec<u32> {
        let mut rest = packed.iter();
        let mut last = nothing;
        bits.bits()
            .iter()
            .map(|bit| {
                if bit {
                    last = *rest.next().unwrap();
                }
                last
            })
            .collect()
    }

    #[test]
    fn values_go_where_the_bits_are() {
        let numbers: Vec<u64> = test_values::random(3).take(400).collect();
        for length in [0, 1, 5, 63, 64, 65, 128, 200, 1024, 1500] {
            for (shape, density) in [(0, 0), (1, 1), (2, 8), (3, 15), (4, 16), (5, 0), (6, 16)] {
                let bits: BitBuffer = (0..length)
                    .map(|row| match shape {
                        5 => row / 70 % 2 == 0,
                        6 => row / 130 % 3 == 1,
                        _ => numbers[row % 400] % 16 < density,
                    })
                    .collect();
                for before in [0usize, 3] {
                    let count = bits.bits().count_ones();
                    let mut values: Vec<u32> = (0..(before + count) as u32).map(|value| value + 100).collect();
                    let expected = [&values[..before], &naive(&values[before..], &bits, 7)].concat();
                    spread(&mut values, before, bits.bits(), 7);
                    assert_eq!(values, expected, "{length} rows of shape {shape} behind {before}");
                }
            }
        }
    }

    #[test]
    fn set_bits_are_counted() {
        let bytes: Vec<u8> = test_values::random(4).take(100).map(|number| number as u8).collect();
        for range in [0..0, 0..1, 3..10, 0..8, 1..100] {
            let expected: usize =
                bytes[range.clone()].iter().map(|byte| format!("{byte:b}").matches('1').count()).sum();
            assert_eq!(count_ones(&bytes[range]), expected);
        }
    }

    #[test]
    fn bits_go_where_the_mask_is() {
        assert_eq!(deposit(0b101, 0b1101_0000), 0b1001_0000);
        assert_eq!(deposit(u64::MAX, 0xF0F0), 0xF0F0);
        assert_eq!(deposit(5, u64::MAX), 5);
        assert_eq!(deposit(u64::MAX, 0), 0);
    }
}
