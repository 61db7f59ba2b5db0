//! Spreading packed values over the rows that have one: the way back from values that were stored without their nulls.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::level::{Kernel, Level, run_at};
use crate::values::Bits;

/// Turns the values behind `start`, one per set bit, into one per bit, in place: a clear bit repeats the value before it, and
/// those before the first set bit become `nothing`. For the ends of strings, with the end before them as `nothing`, that makes
/// the strings of clear bits empty.
///
/// Panics unless there is a value per set bit.
pub fn spread<T: Copy>(values: &mut Vec<T>, start: usize, bits: Bits<'_>, nothing: T) {
    spread_at(Level::detect(), values, start, bits, nothing);
}

/// [`spread`] at a given level.
pub fn spread_at<T: Copy>(level: Level, values: &mut Vec<T>, start: usize, bits: Bits<'_>, nothing: T) {
    let level = level.or_scalar();
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
        if count == 0 {
            // Rows without a value come many together.
            let last_row = first_row + row_count;
            while first_row >= 64 && bits.word(first_row - 64) == 0 {
                first_row -= 64;
            }
            // SAFETY: there is room for `end` values, and `start < unread`: the value before the rows is initialised.
            unsafe {
                let value = *at.add(unread - 1);
                let rows = at.add(start + first_row).cast::<MaybeUninit<T>>();
                run_at(level, Fill { rows: std::slice::from_raw_parts_mut(rows, last_row - first_row), value });
            }
            continue;
        }
        if count == row_count && unread == place + count {
            // All rows so far have values, which lie where they belong.
            break;
        }
        // SAFETY: there is room for `end` values, of which rows `place..place + row_count` are some. `start < unread`, all values
        // below `unread` are initialised, and each set bit uses up one of those behind `start`: there are as many.
        unsafe {
            if count == row_count {
                std::ptr::copy(at.add(unread - count), at.add(place), count);
            } else {
                spread_word(level, at, place, unread, word, row_count);
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
        let rows = std::slice::from_raw_parts_mut(at.add(start).cast::<MaybeUninit<T>>(), valueless);
        run_at(level, Fill { rows, value: nothing });
        values.set_len(end);
    }
}

struct Fill<'a, T> {
    rows: &'a mut [MaybeUninit<T>],
    value: T,
}

impl<T: Copy> Kernel for Fill<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        self.rows.fill(MaybeUninit::new(self.value));
    }
}

/// Spreads the values before `unread` over the rows `place..place + row_count`, one for each set bit of `word`.
///
/// # Safety
/// There are as many values before `unread` as set bits, and room for the rows. The processor has the level.
unsafe fn spread_word<T: Copy>(level: Level, at: *mut T, place: usize, unread: usize, word: u64, row_count: usize) {
    // SAFETY: as the caller says; lanes are copied as what is as wide.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        match size_of::<T>() {
            4 if level == Level::Avx512 => return x86::spread_word_32(at.cast(), place, unread, word, row_count),
            8 if level == Level::Avx512 => return x86::spread_word_64(at.cast(), place, unread, word, row_count),
            _ => {}
        }
        let _ = level;
        spread_rows(at, place, unread, word, 0..row_count);
    }
}

/// [`spread_word`] for some rows: a row after the other.
///
/// # Safety
/// As [`spread_word`].
#[inline(always)]
unsafe fn spread_rows<T: Copy>(at: *mut T, place: usize, unread: usize, word: u64, rows: Range<usize>) {
    let mut left = unread;
    for row in rows.rev() {
        // SAFETY: as the caller says. Where no value is left and none lies before, the first stands in for what is set below.
        unsafe { *at.add(place + row) = *at.add(left.max(1) - 1) };
        left -= (word >> row & 1) as usize;
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::spread_rows;

    /// For each mask of eight rows, how many set bits there are up to each row.
    static RANKS: [[u8; 8]; 256] = {
        let mut ranks = [[0; 8]; 256];
        let mut mask = 0;
        while mask < 256 {
            let mut row = 0;
            while row < 8 {
                ranks[mask][row] = (mask & ((2 << row) - 1)).count_ones() as u8;
                row += 1;
            }
            mask += 1;
        }
        ranks
    };

    /// A function that spreads lanes of one width, eight rows at a time: each row picks from the value before them and up to seven more.
    macro_rules! spread_lanes {
        ($name:ident, $lane:ty, $load:ident, $ranks:ident, $permute:ident, $store:ident) => {
            /// # Safety
            /// As [`super::spread_word`].
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
            pub(super) unsafe fn $name(at: *mut $lane, place: usize, unread: usize, word: u64, row_count: usize) {
                let mut left = unread;
                for first in (0..row_count.div_ceil(8)).rev().map(|byte| byte * 8) {
                    let (mask, rows) = ((word >> first) as u8, (row_count - first).min(8));
                    let count = mask.count_ones() as usize;
                    // SAFETY: the values that are read lie before `left`, those that are written in the rows; masked lanes aren't
                    // touched. Rows never lie before the values for them, so that what is still unread stays.
                    unsafe {
                        if count == left || count == 8 {
                            // No value before these, or one more than fits beside it.
                            spread_rows(at, place, left, word, first..first + rows);
                        } else {
                            let values = $load((1u16 << (count + 1)).wrapping_sub(1) as u8, at.add(left - count - 1));
                            let ranks = $ranks(_mm_loadl_epi64(RANKS[mask as usize].as_ptr().cast()));
                            let written = (u16::MAX >> (16 - rows)) as u8;
                            $store(at.add(place + first), written, $permute(ranks, values));
                        }
                    }
                    left -= count;
                }
            }
        };
    }

    spread_lanes!(
        spread_word_32,
        i32,
        _mm256_maskz_loadu_epi32,
        _mm256_cvtepu8_epi32,
        _mm256_permutexvar_epi32,
        _mm256_mask_storeu_epi32
    );
    spread_lanes!(
        spread_word_64,
        i64,
        _mm512_maskz_loadu_epi64,
        _mm512_cvtepu8_epi64,
        _mm512_permutexvar_epi64,
        _mm512_mask_storeu_epi64
    );
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
                    for level in Level::available() {
                        let mut spread = values.clone();
                        spread_at(level, &mut spread, before, bits.bits(), 7);
                        assert_eq!(spread, expected, "{level:?}: {length} rows of shape {shape} behind {before}");
                        let mut wide: Vec<u64> = values.iter().map(|&value| u64::from(value) << 20).collect();
                        spread_at(level, &mut wide, before, bits.bits(), 7 << 20);
                        assert!(wide.iter().zip(&expected).all(|(&wide, &value)| wide == u64::from(value) << 20));
                        assert_eq!(wide.len(), expected.len());
                    }
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
