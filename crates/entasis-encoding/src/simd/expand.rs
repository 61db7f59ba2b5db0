//! One value for most rows, and others where bits say so.

use super::Level;
use crate::Lane;
use crate::values::Bits;

/// Appends a value per bit: `frequent` for a clear one, for set ones `others` one after the other. Panics unless there is one for each.
pub fn expand<T: Lane>(others: &[T], bits: Bits<'_>, frequent: T, out: &mut Vec<T>) {
    expand_at(Level::detect(), others, bits, frequent, out);
}

/// [`expand`] at a given level.
pub fn expand_at<T: Lane>(level: Level, others: &[T], bits: Bits<'_>, frequent: T, out: &mut Vec<T>) {
    assert_eq!(others.len(), bits.count_ones(), "a value per set bit");
    #[cfg(target_arch = "x86_64")]
    if level.or_scalar() == Level::Avx512 && T::BYTES <= 8 {
        out.reserve(bits.len());
        let (from, to, value) = (others.as_ptr(), out.spare_capacity_mut().as_mut_ptr(), &raw const frequent);
        // SAFETY: `or_scalar` returns this level only where the processor has its features. `T` is an integer of the width matched;
        // there are as many others as set bits, and there is room for a value per bit, each of which is written.
        unsafe {
            match T::BYTES {
                1 => x86::expand_8(from.cast(), bits, value.cast::<i8>().read(), to.cast()),
                2 => x86::expand_16(from.cast(), bits, value.cast::<i16>().read(), to.cast()),
                4 => x86::expand_32(from.cast(), bits, value.cast::<i32>().read(), to.cast()),
                _ => x86::expand_64(from.cast(), bits, value.cast::<i64>().read(), to.cast()),
            }
            out.set_len(out.len() + bits.len());
        }
        return;
    }
    let _ = level;
    expand_portably(others, bits, frequent, out);
}

fn expand_portably<T: Lane>(others: &[T], bits: Bits<'_>, frequent: T, out: &mut Vec<T>) {
    let before = out.len();
    out.resize(before + bits.len(), frequent);
    let mut others = others.iter();
    for (word, slots) in out[before..].chunks_mut(64).enumerate() {
        let mut left = bits.word(word * 64);
        // Counted first, so that no value is taken that the word doesn't need.
        for (_, &other) in (0..left.count_ones()).zip(others.by_ref()) {
            slots[left.trailing_zeros() as usize] = other;
            left &= left - 1;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use crate::values::Bits;

    /// A function that expands lanes of one width, a register at a time.
    macro_rules! expand_lanes {
        ($name:ident, $lane:ty, $mask:ty, $rows:expr, $splat:ident, $load:ident, $expand:ident, $store:ident) => {
            /// # Safety
            /// There are as many lanes at `others` as set bits, and there is room for as many as bits at `out`.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,popcnt")]
            pub(super) unsafe fn $name(mut others: *const $lane, bits: Bits<'_>, frequent: $lane, mut out: *mut $lane) {
                let frequent = $splat(frequent);
                for first in (0..bits.len()).step_by(64) {
                    let (word, row_count) = (bits.word(first), (bits.len() - first).min(64));
                    for row in (0..row_count).step_by($rows) {
                        let mask = (word >> row) as $mask;
                        let stored = (row_count - row).min($rows);
                        let first_rows =
                            |count: usize| (u64::MAX >> (64 - count.max(1))) as $mask * <$mask>::from(count > 0);
                        let count = mask.count_ones() as usize;
                        // SAFETY: only lanes of `others` that set bits stand for are read, as many as there are, and only those
                        // of rows are written: masked lanes aren't touched.
                        unsafe {
                            let next = $load(first_rows(count), others);
                            $store(out, first_rows(stored), $expand(frequent, mask, next));
                            others = others.add(count);
                            out = out.add(stored);
                        }
                    }
                }
            }
        };
    }

    expand_lanes!(
        expand_8,
        i8,
        u64,
        64,
        _mm512_set1_epi8,
        _mm512_maskz_loadu_epi8,
        _mm512_mask_expand_epi8,
        _mm512_mask_storeu_epi8
    );
    expand_lanes!(
        expand_16,
        i16,
        u32,
        32,
        _mm512_set1_epi16,
        _mm512_maskz_loadu_epi16,
        _mm512_mask_expand_epi16,
        _mm512_mask_storeu_epi16
    );
    expand_lanes!(
        expand_32,
        i32,
        u16,
        16,
        _mm512_set1_epi32,
        _mm512_maskz_loadu_epi32,
        _mm512_mask_expand_epi32,
        _mm512_mask_storeu_epi32
    );
    expand_lanes!(
        expand_64,
        i64,
        u8,
        8,
        _mm512_set1_epi64,
        _mm512_maskz_loadu_epi64,
        _mm512_mask_expand_epi64,
        _mm512_mask_storeu_epi64
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::U256;
    use crate::simd::test_values;
    use crate::values::BitBuffer;

    fn agrees_with_the_definition<T: Lane>(value: impl Fn(u64) -> T) {
        let numbers: Vec<u64> = test_values::random(12).take(1500).collect();
        for row_count in [0, 1, 7, 8, 63, 64, 65, 100, 1024, 1500] {
            for share in [0, 1, 30, 99, 100] {
                let bits: BitBuffer = numbers[..row_count].iter().map(|number| number % 100 < share).collect();
                // Not from the beginning of a byte, either.
                for skipped in [0, 3].into_iter().filter(|&skipped| skipped <= row_count) {
                    let bits = bits.bits().slice(skipped, row_count - skipped);
                    let others: Vec<T> = (0..bits.count_ones() as u64).map(|number| value(number + 5)).collect();
                    let mut left = others.iter();
                    let expected: Vec<T> =
                        bits.iter().map(|bit| if bit { *left.next().unwrap() } else { value(2) }).collect();
                    for level in Level::available() {
                        let mut out = vec![value(1)];
                        expand_at(level, &others, bits, value(2), &mut out);
                        assert_eq!(out[1..], expected, "{share} % of {row_count} rows at {level:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn rows_have_their_values_on_every_level() {
        agrees_with_the_definition(|number| number as u8);
        agrees_with_the_definition(|number| number as u16 ^ 0x5a5a);
        agrees_with_the_definition(|number| number as u32 ^ 0xa5a5_a5a5);
        agrees_with_the_definition(|number| number << 40 | number);
        agrees_with_the_definition(|number| u128::from(number) << 70 | 3);
        agrees_with_the_definition(|number| U256 { low: u128::from(number), high: 7 << 100 });
    }
}
