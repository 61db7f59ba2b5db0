//! Spreading packed values over the rows that have one: the way back from values that were stored without their nulls.

use crate::values::Bits;

/// Turns the values behind `start`, one per set bit, into one per bit, in place: a clear bit repeats the value before it, and
/// those before the first set bit become `nothing`. For the ends of strings, with the end before them as `nothing`, that makes
/// the strings of clear bits empty.
///
/// Panics unless there is a value per set bit.
pub fn spread<T: Copy>(values: &mut Vec<T>, start: usize, bits: Bits<'_>, nothing: T) {
    let packed_end = values.len();
    assert_eq!(packed_end - start, bits.count_ones(), "a value per set bit");
    values.resize(start + bits.len(), nothing);
    // From the end to the beginning, so that no value is overwritten before it was moved.
    let mut unread = packed_end;
    let mut first_row = bits.len().next_multiple_of(64);
    while first_row > 0 && unread > start {
        first_row -= 64;
        let row_count = (bits.len() - first_row).min(64);
        let (word, place) = (bits.word(first_row), start + first_row);
        match word.count_ones() as usize {
            0 => {
                let value = values[unread - 1];
                values[place..place + row_count].fill(value);
            }
            count if count == row_count => {
                if unread == place + count {
                    // All rows so far have values, which lie where they belong.
                    return;
                }
                values.copy_within(unread - count..unread, place);
                unread -= count;
            }
            _ => unread = spread_word(values, place, row_count, unread, word),
        }
    }
    let valueless = (0..bits.len()).step_by(64).map(|row| (row, bits.word(row))).find(|&(_, word)| word != 0);
    let first_value = valueless.map_or(bits.len(), |(row, word)| row + word.trailing_zeros() as usize);
    values[start..start + first_value].fill(nothing);
}

/// Spreads up to 64 rows at `place`; `unread` is the end of the values that are left, at least one. Returns the new one.
fn spread_word<T: Copy>(values: &mut [T], place: usize, row_count: usize, mut unread: usize, word: u64) -> usize {
    assert!(place + row_count <= values.len() && (1..=place + row_count).contains(&unread));
    for row in (0..row_count).rev() {
        // SAFETY: `unread` only falls, so `unread - 1` is in bounds where it is not negative; at 0 the first value stands in,
        // for a row whose value is set by the caller. `place + row` is below the length, as asserted.
        unsafe {
            let value = *values.get_unchecked(unread.max(1) - 1);
            *values.get_unchecked_mut(place + row) = value;
        }
        unread = unread.saturating_sub((word >> row & 1) as usize);
    }
    unread
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
    fn bits_go_where_the_mask_is() {
        assert_eq!(deposit(0b101, 0b1101_0000), 0b1001_0000);
        assert_eq!(deposit(u64::MAX, 0xF0F0), 0xF0F0);
        assert_eq!(deposit(5, u64::MAX), 5);
        assert_eq!(deposit(u64::MAX, 0), 0);
    }
}
