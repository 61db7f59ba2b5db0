//! Many values to one: sums, the range of floats; and of many values those that are wanted.

use super::level::{Kernel, Level, run_at};
use crate::values::Bits;
use crate::{Lane, PackedLane};

/// The sum of `values`, as signed integers (of two's complement) if `is_signed`.
pub fn sum<T: PackedLane>(values: &[T], is_signed: bool) -> i128 {
    sum_at(Level::detect(), values, is_signed)
}

/// [`sum`] at a given level.
pub fn sum_at<T: PackedLane>(level: Level, values: &[T], is_signed: bool) -> i128 {
    match is_signed {
        true => run_at(level, Sum::<T, true> { values, weights: None }),
        false => run_at(level, Sum::<T, false> { values, weights: None }),
    }
}

/// The sum of `values`, each as often as its weight says; there are as many weights.
pub fn weighted_sum<T: PackedLane>(values: &[T], weights: &[u32], is_signed: bool) -> i128 {
    weighted_sum_at(Level::detect(), values, weights, is_signed)
}

/// [`weighted_sum`] at a given level.
pub fn weighted_sum_at<T: PackedLane>(level: Level, values: &[T], weights: &[u32], is_signed: bool) -> i128 {
    match is_signed {
        true => run_at(level, Sum::<T, true> { values, weights: Some(weights) }),
        false => run_at(level, Sum::<T, false> { values, weights: Some(weights) }),
    }
}

struct Sum<'a, T, const SIGNED: bool> {
    values: &'a [T],
    weights: Option<&'a [u32]>,
}

/// Values that are added in 64 bits: their halves are of 32 bits, and weights, too.
const STRIDE: usize = 1 << 16;

impl<T: PackedLane, const SIGNED: bool> Kernel for Sum<'_, T, SIGNED> {
    type Output = i128;

    #[inline(always)]
    fn run(self) -> i128 {
        let shift = 64 - T::BITS;
        let extended =
            |value: T| if SIGNED { ((value.to_u64() << shift) as i64) >> shift } else { value.to_u64() as i64 };
        let high = |value: T| if SIGNED { extended(value) >> 32 } else { (value.to_u64() >> 32) as i64 };
        let low = |value: T| (value.to_u64() & u64::from(u32::MAX)) as i64;
        let mut sum = 0;
        let Some(weights) = self.weights else {
            for values in self.values.chunks(STRIDE) {
                if T::BITS <= 32 {
                    sum += i128::from(values.iter().map(|&value| extended(value)).sum::<i64>());
                } else {
                    // Neither half overflows within a stride.
                    sum += i128::from(values.iter().map(|&value| low(value)).sum::<i64>());
                    sum += i128::from(values.iter().map(|&value| high(value)).sum::<i64>()) << 32;
                }
            }
            return sum;
        };
        for (&value, &weight) in self.values.iter().zip(weights) {
            let value = if SIGNED { i128::from(extended(value)) } else { i128::from(value.to_u64()) };
            sum += value * i128::from(weight);
        }
        sum
    }
}

/// The least and the greatest of `values` that aren't NaN as IEEE 754's total order has it, and how many are NaN: patterns whose bits
/// without the sign are above those of `infinity`.
pub fn float_range<T: PackedLane>(values: &[T], infinity: T) -> (Option<(T, T)>, usize) {
    float_range_at(Level::detect(), values, infinity)
}

/// [`float_range`] at a given level.
pub fn float_range_at<T: PackedLane>(level: Level, values: &[T], infinity: T) -> (Option<(T, T)>, usize) {
    run_at(level, FloatRange { values, infinity })
}

struct FloatRange<'a, T> {
    values: &'a [T],
    infinity: T,
}

impl<T: PackedLane> Kernel for FloatRange<'_, T> {
    type Output = (Option<(T, T)>, usize);

    #[inline(always)]
    fn run(self) -> (Option<(T, T)>, usize) {
        let (sign, all) = (T::from_u64(1 << (T::BITS - 1)), T::from_u64(u64::MAX));
        // Keys have, as unsigned integers, the order of the floats: of negative ones all bits are flipped, of others the sign.
        let flip = |is_negative: bool| if is_negative { all } else { sign };
        let xor = |left: T, right: T| (left | right).subtract(left & right);
        let (mut min, mut max) = (all, T::default());
        let mut nans = 0;
        for values in self.values.chunks(128) {
            // As narrow as a lane, so that many are counted in a register.
            let mut some = T::default();
            for &value in values {
                let is_nan = value & all.subtract(sign) > self.infinity;
                let key = xor(value, flip(value & sign != T::default()));
                let (low, high) = if is_nan { (all, T::default()) } else { (key, key) };
                min = min.min(low);
                max = max.max(high);
                some = some.add(T::from_u64(u64::from(is_nan)));
            }
            nans += some.to_u64() as usize;
        }
        // The ends of all keys are those of NaNs: they stay only where nothing but NaN was met.
        let value = |key: T| xor(key, flip(key & sign == T::default()));
        ((min <= max).then(|| (value(min), value(max))), nans)
    }
}

/// Keeps the values whose bit is set. There are as many bits.
///
/// # Panics
/// If there are more bits.
pub fn compact<T: Lane>(values: &mut Vec<T>, bits: Bits<'_>) {
    compact_at(Level::detect(), values, bits);
}

/// [`compact`] at a given level.
pub fn compact_at<T: Lane>(level: Level, values: &mut Vec<T>, bits: Bits<'_>) {
    let level = level.or_scalar();
    let found = &mut values[..bits.len()];
    let mut count = 0;
    for row in (0..found.len()).step_by(64) {
        let word = bits.word(row);
        if found.len() - row >= 64 {
            count += compact_word(level, found, count, row, word);
            continue;
        }
        let mut left = word;
        while left != 0 {
            found[count] = found[row + left.trailing_zeros() as usize];
            count += 1;
            left &= left - 1;
        }
    }
    values.truncate(count);
}

/// Moves those of 64 values from `row` on whose bit is set to `count`, which isn't behind `row`, and says how many they are.
#[inline(always)]
fn compact_word<T: Lane>(level: Level, values: &mut [T], count: usize, row: usize, word: u64) -> usize {
    assert!(count <= row && row + 64 <= values.len(), "64 values from {row}");
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 {
        let at = values.as_mut_ptr();
        // SAFETY: there are 64 lanes of this width from `row`, which isn't before `count`, and the processor has the level.
        unsafe {
            let (to, from) = (at.add(count), at.add(row));
            match T::BYTES {
                1 => return x86::compact_8(to.cast(), from.cast(), word),
                2 => return x86::compact_16(to.cast(), from.cast(), word),
                4 => return x86::compact_32(to.cast(), from.cast(), word),
                8 => return x86::compact_64(to.cast(), from.cast(), word),
                _ => {}
            }
        }
    }
    let _ = level;
    let (mut kept, mut left) = (0, word);
    while left != 0 {
        values[count + kept] = values[row + left.trailing_zeros() as usize];
        kept += 1;
        left &= left - 1;
    }
    kept
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// A function for lanes of one width: moves those of 64 whose bit is set, back to back, and says how many they are.
    macro_rules! compact {
        ($name:ident, $lane:ty, $lanes:literal, $mask:ty, $load:ident, $compress:ident, $store:ident) => {
            /// # Safety
            /// There are 64 lanes at `from`, and as many may be written at `to`, which isn't behind `from`. The processor has AVX-512 F, BW
            /// and VBMI2.
            #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
            pub(super) unsafe fn $name(to: *mut $lane, from: *const $lane, word: u64) -> usize {
                let mut kept = 0;
                for part in 0..64 / $lanes {
                    let mask = (word >> (part * $lanes)) as $mask;
                    // SAFETY: as the caller says. What is written ends before the lanes that are still to be read: as many as were kept, and a
                    // register's from there, are at most those that were read.
                    unsafe { $store(to.add(kept), $compress(mask, $load(from.add(part * $lanes)))) };
                    kept += mask.count_ones() as usize;
                }
                kept
            }
        };
    }

    compact!(compact_8, i8, 64, u64, _mm512_loadu_epi8, _mm512_maskz_compress_epi8, _mm512_storeu_epi8);
    compact!(compact_16, i16, 32, u32, _mm512_loadu_epi16, _mm512_maskz_compress_epi16, _mm512_storeu_epi16);
    compact!(compact_32, i32, 16, u16, _mm512_loadu_epi32, _mm512_maskz_compress_epi32, _mm512_storeu_epi32);
    compact!(compact_64, i64, 8, u8, _mm512_loadu_epi64, _mm512_maskz_compress_epi64, _mm512_storeu_epi64);
}

/// Adds to `counts[code]` the number of its codes. False if a code lies beyond them; what was counted is unspecified then.
#[must_use]
pub fn count_codes<T: PackedLane>(codes: &[T], counts: &mut [u32]) -> bool {
    let Some(last) = counts.len().checked_sub(1) else { return codes.is_empty() };
    let mut greatest = 0;
    for &code in codes {
        let code = code.to_u64() as usize;
        greatest = greatest.max(code);
        counts[code.min(last)] += 1;
    }
    greatest <= last
}

/// The bits of `bits` at the set bits of `mask`, in the lowest places: what `deposit` undoes.
pub fn extract(bits: u64, mask: u64) -> u64 {
    if mask == u64::MAX {
        return bits;
    }
    let (mut left, mut packed, mut place) = (mask, 0, 0);
    while left != 0 {
        packed |= (bits >> left.trailing_zeros() & 1) << place;
        place += 1;
        left &= left - 1;
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::deposit;
    use crate::simd::test_values::{self, for_each_lane};
    use crate::values::BitBuffer;

    fn sums_agree_with_their_definition<T: PackedLane>() {
        let shift = 64 - T::BITS;
        for row_count in [0, 1, 63, 1000, 70_000] {
            let weights: Vec<u32> = test_values::random(3).map(|number| number as u32).take(row_count).collect();
            for values in test_values::adversarial::<T>(row_count) {
                for is_signed in [false, true] {
                    let of = |value: &T| match is_signed {
                        true => i128::from(((value.to_u64() << shift) as i64) >> shift),
                        false => i128::from(value.to_u64()),
                    };
                    let plain: i128 = values.iter().map(of).sum();
                    let weighted: i128 =
                        values.iter().zip(&weights).map(|(value, &weight)| of(value) * i128::from(weight)).sum();
                    for level in Level::available() {
                        assert_eq!(sum_at(level, &values, is_signed), plain, "{level:?}");
                        assert_eq!(weighted_sum_at(level, &values, &weights, is_signed), weighted, "{level:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn sums_are_exact_on_every_level() {
        for_each_lane!(sums_agree_with_their_definition);
    }

    fn keeps<T: PackedLane>() {
        for row_count in [0, 1, 64, 129, 1000] {
            for values in test_values::adversarial::<T>(row_count) {
                for share in [1, 3, 64] {
                    let bits: BitBuffer =
                        test_values::random(share).take(row_count).map(|number| number % share == 0).collect();
                    let kept = (0..row_count).filter(|&row| bits.bits().get(row)).map(|row| values[row]);
                    let kept: Vec<T> = kept.collect();
                    for level in Level::available() {
                        let mut values = values.clone();
                        compact_at(level, &mut values, bits.bits());
                        assert_eq!(values, kept, "{level:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_wanted_is_kept_in_its_order() {
        for_each_lane!(keeps);
    }

    #[test]
    fn floats_are_ordered_and_nans_counted() {
        let special = [0.0, -0.0, 1.5, -7.25, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, f64::MIN_POSITIVE];
        for count in [0, 1, 2, 5, 130, 1000] {
            for seed in 0..20 {
                let values: Vec<f64> = test_values::random(seed)
                    .take(count)
                    .map(|number| special[number as usize % (1 + seed as usize % special.len())])
                    .collect();
                let numbers = || values.iter().copied().filter(|value| !value.is_nan());
                let ends = numbers().min_by(f64::total_cmp).zip(numbers().max_by(f64::total_cmp));
                let ends = ends.map(|(min, max)| (min.to_bits(), max.to_bits()));
                let lanes: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
                for level in Level::available() {
                    let found = float_range_at(level, &lanes, f64::INFINITY.to_bits());
                    assert_eq!(found, (ends, count - numbers().count()), "{level:?} {values:?}");
                }
            }
        }
        let halves: Vec<u16> = [0x3C00, 0xBC00, 0x7C01, 0xFC00].repeat(100);
        assert_eq!(float_range(&halves, 0x7C00), (Some((0xFC00, 0x3C00)), 100));
    }

    #[test]
    fn bits_are_packed_as_they_were_spread() {
        for (bits, mask) in test_values::random(5).zip(test_values::random(6)).take(1000) {
            assert_eq!(deposit(extract(bits, mask), mask), bits & mask);
        }
        assert_eq!(extract(0b1011, u64::MAX), 0b1011);
    }

    #[test]
    fn codes_are_counted_and_bad_ones_told() {
        let mut counts = [1, 0, 0];
        assert!(count_codes(&[2u8, 0, 2], &mut counts));
        assert_eq!(counts, [2, 0, 2]);
        assert!(!count_codes(&[3u32], &mut counts));
        assert!(count_codes::<u16>(&[], &mut []) && !count_codes(&[0u16], &mut []));
    }
}
