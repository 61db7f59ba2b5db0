//! Which values lie within intervals of the circle of their bit patterns: what every comparison comes to.

use super::level::{Kernel, Level, run_at};
use crate::values::BitBuffer;
use crate::{Lane, PackedLane};

/// Patterns from `first` on, around the circle, and the `span` behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within<T> {
    /// The first that is within.
    pub first: T,
    /// So many more are.
    pub span: T,
}

impl<T: PackedLane> Within<T> {
    #[inline(always)]
    fn contains(self, pattern: T) -> bool {
        pattern.subtract(self.first) <= self.span
    }
}

/// Appends a bit for each value, set if it lies within one of the intervals. `keyed` floats are compared by their place in IEEE 754's
/// total order: as signed integers, of which negative ones have all bits but the sign flipped.
pub fn within<T: PackedLane>(values: &[T], intervals: &[Within<T>], keyed: bool, out: &mut BitBuffer) {
    within_at(Level::detect(), values, intervals, keyed, out);
}

/// [`within`] at a given level.
pub fn within_at<T: PackedLane>(level: Level, values: &[T], intervals: &[Within<T>], keyed: bool, out: &mut BitBuffer) {
    let level = level.or_scalar();
    let (words, rest) = values.as_chunks::<64>();
    for values in words {
        let word = intervals.iter().fold(0, |word, interval| word | word_within(level, values, *interval, keyed));
        out.extend_word(word, 64);
    }
    let passes = |value: &T| intervals.iter().any(|interval| interval.contains(place(*value, keyed)));
    let word = rest.iter().rev().fold(0u64, |word, value| word << 1 | u64::from(passes(value)));
    out.extend_word(word, rest.len());
}

/// A pattern's place on the circle.
#[inline(always)]
fn place<T: PackedLane>(pattern: T, keyed: bool) -> T {
    if keyed && pattern >> (T::BITS - 1) != T::default() {
        let others = T::from_u64(u64::MAX >> 1 >> (64 - T::BITS));
        return T::from_u64(pattern.to_u64() ^ others.to_u64());
    }
    pattern
}

/// A bit for each of 64 values, set if it lies within the interval; the level is one that the processor has.
#[inline(always)]
pub(super) fn word_within<T: PackedLane>(level: Level, values: &[T; 64], interval: Within<T>, keyed: bool) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let at = values.as_ptr();
        let (first, span) = (interval.first.to_u64(), interval.span.to_u64());
        // SAFETY: there are 64 lanes of this width, and the processor has the level.
        unsafe {
            match (level, T::BYTES) {
                (Level::Avx512, 1) if !keyed => return x86::avx512_8(at.cast(), first, span),
                (Level::Avx512, 2) => return x86::avx512_16(at.cast(), first, span, keyed),
                (Level::Avx512, 4) => return x86::avx512_32(at.cast(), first, span, keyed),
                (Level::Avx512, 8) => return x86::avx512_64(at.cast(), first, span, keyed),
                _ => {}
            }
        }
    }
    run_at(level, WordWithin { values, interval, keyed })
}

struct WordWithin<'a, T> {
    values: &'a [T; 64],
    interval: Within<T>,
    keyed: bool,
}

impl<T: PackedLane> Kernel for WordWithin<'_, T> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        // A byte each, which compilers vectorise, and then the bytes' lowest bits.
        let mut bytes = [0u8; 64];
        for (byte, value) in bytes.iter_mut().zip(self.values) {
            *byte = u8::from(self.interval.contains(place(*value, self.keyed)));
        }
        let gather = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        let (eights, _) = bytes.as_chunks::<8>();
        eights.iter().rev().fold(0, |word, eight| word << 8 | gather(eight))
    }
}

/// Appends a bit for each code: that of `bits`, a byte 0 or 1 for each possible code. False if a code lies beyond them; what was appended
/// is unspecified then.
#[must_use]
pub fn look_up<T: Lane>(codes: &[T], bits: &[u8], out: &mut BitBuffer) -> bool {
    look_up_at(Level::detect(), codes, bits, out)
}

/// [`look_up`] at a given level.
#[must_use]
pub fn look_up_at<T: Lane>(level: Level, codes: &[T], bits: &[u8], out: &mut BitBuffer) -> bool {
    /// More than all codes of a byte would say.
    const BYTE_CODES: usize = 256;
    if T::BYTES > 1 {
        return look_up_words(codes, |code| bits.get(code).copied().unwrap_or(2), out);
    }
    let mut table = [2; BYTE_CODES];
    let known = bits.len().min(BYTE_CODES);
    table[..known].copy_from_slice(&bits[..known]);
    #[cfg(target_arch = "x86_64")]
    if level.or_scalar() == Level::Avx512 {
        let (words, rest) = codes.as_chunks::<64>();
        let mut are_known = true;
        for codes in words {
            // SAFETY: there are 64 codes of a byte each, and the processor has the level.
            let (word, is_known) = unsafe { x86::look_up_64(codes.as_ptr().cast(), &table) };
            are_known &= is_known;
            out.extend_word(word, 64);
        }
        return look_up_words(rest, |code| table[code % BYTE_CODES], out) && are_known;
    }
    let _ = level;
    look_up_words(codes, |code| table[code % BYTE_CODES], out)
}

/// [`look_up`] in what `bit` says of a code: 0, 1, or 2 for one that isn't known.
fn look_up_words<T: Lane>(codes: &[T], bit: impl Fn(usize) -> u8, out: &mut BitBuffer) -> bool {
    let mut seen = 0;
    for piece in codes.chunks(64) {
        let mut word = 0;
        for (index, code) in piece.iter().enumerate() {
            let bit = bit(code.low_bits() as usize);
            seen |= bit;
            word |= u64::from(bit & 1) << index;
        }
        out.extend_word(word, piece.len());
    }
    seen < 2
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// # Safety
    /// There are 64 lanes at `at`, and the processor has AVX-512 BW.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn avx512_8(at: *const i8, first: u64, span: u64) -> u64 {
        // SAFETY: as the caller says.
        let values = unsafe { _mm512_loadu_epi8(at) };
        let behind = _mm512_sub_epi8(values, _mm512_set1_epi8(first as i8));
        _mm512_cmple_epu8_mask(behind, _mm512_set1_epi8(span as i8))
    }

    /// The lowest bits of what the table says of 64 codes, and whether it says no more than those.
    ///
    /// # Safety
    /// There are 64 codes at `at`, and the processor has AVX-512 BW and VBMI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) unsafe fn look_up_64(at: *const i8, table: &[u8; 256]) -> (u64, bool) {
        // SAFETY: as the caller says; the table has four times 64 bytes.
        let (codes, quarter) = unsafe {
            let table = table.as_ptr().cast::<i8>();
            (_mm512_loadu_epi8(at), [0, 64, 128, 192].map(|place| _mm512_loadu_epi8(table.add(place))))
        };
        let low = _mm512_permutex2var_epi8(quarter[0], codes, quarter[1]);
        let high = _mm512_permutex2var_epi8(quarter[2], codes, quarter[3]);
        let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high);
        let word = _mm512_test_epi8_mask(found, _mm512_set1_epi8(1));
        (word, _mm512_test_epi8_mask(found, _mm512_set1_epi8(2)) == 0)
    }

    /// A function for lanes of one width: which of 64 lie within, the first in the lowest bit.
    macro_rules! avx512 {
        ($name:ident, $lane:ty, $lanes:literal, $sign:literal, $most:expr, $load:ident, $set:ident, $subtract:ident, $compare:ident, $shift:ident, $and:ident, $xor:ident) => {
            /// # Safety
            /// There are 64 lanes at `at`, and the processor has AVX-512 F and BW.
            #[target_feature(enable = "avx512f,avx512bw")]
            pub(super) unsafe fn $name(at: *const $lane, first: u64, span: u64, keyed: bool) -> u64 {
                let (first, span) = ($set(first as $lane), $set(span as $lane));
                let mut word = 0;
                for part in 0..64 / $lanes {
                    // SAFETY: as the caller says.
                    let mut values = unsafe { $load(at.add(part * $lanes)) };
                    if keyed {
                        values = $xor(values, $and($shift::<$sign>(values), $set($most)));
                    }
                    word |= u64::from($compare($subtract(values, first), span)) << (part * $lanes);
                }
                word
            }
        };
    }

    avx512!(
        avx512_16,
        i16,
        32,
        15,
        i16::MAX,
        _mm512_loadu_epi16,
        _mm512_set1_epi16,
        _mm512_sub_epi16,
        _mm512_cmple_epu16_mask,
        _mm512_srai_epi16,
        _mm512_and_si512,
        _mm512_xor_si512
    );
    avx512!(
        avx512_32,
        i32,
        16,
        31,
        i32::MAX,
        _mm512_loadu_epi32,
        _mm512_set1_epi32,
        _mm512_sub_epi32,
        _mm512_cmple_epu32_mask,
        _mm512_srai_epi32,
        _mm512_and_si512,
        _mm512_xor_si512
    );
    avx512!(
        avx512_64,
        i64,
        8,
        63,
        i64::MAX,
        _mm512_loadu_epi64,
        _mm512_set1_epi64,
        _mm512_sub_epi64,
        _mm512_cmple_epu64_mask,
        _mm512_srai_epi64,
        _mm512_and_si512,
        _mm512_xor_si512
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values::{self, for_each_lane};

    fn agrees_with_the_definition<T: PackedLane>() {
        let least = T::from_u64(1 << (T::BITS - 1));
        let intervals = [
            vec![],
            vec![Within { first: T::default(), span: T::from_u64(u64::MAX) }],
            vec![Within { first: least, span: least.subtract(T::from_u64(2)) }],
            vec![Within { first: T::from_u64(u64::MAX - 3), span: T::from_u64(9) }],
            vec![
                Within { first: T::from_u64(1), span: T::default() },
                Within { first: T::from_u64(100), span: T::from_u64(99) },
            ],
        ];
        for row_count in [0, 1, 63, 64, 65, 300, 1024] {
            for values in test_values::adversarial::<T>(row_count) {
                for intervals in &intervals {
                    for keyed in [false, true] {
                        let passes = |value: &T| {
                            let is_negative = value.to_u64() >> (T::BITS - 1) == 1;
                            let others = u64::MAX >> (65 - T::BITS);
                            let place = if keyed && is_negative { value.to_u64() ^ others } else { value.to_u64() };
                            let place = T::from_u64(place);
                            intervals.iter().any(|within| place.subtract(within.first) <= within.span)
                        };
                        let expected: BitBuffer = [true].into_iter().chain(values.iter().map(passes)).collect();
                        for level in Level::available() {
                            let mut out: BitBuffer = [true].into_iter().collect();
                            within_at(level, &values, intervals, keyed, &mut out);
                            assert_eq!(out, expected, "{level:?} {keyed} {intervals:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_level_agrees_with_the_definition() {
        for_each_lane!(agrees_with_the_definition);
    }

    fn looks_up<T: PackedLane>() {
        for table in [&[1u8, 0, 0, 1, 1][..], &[0, 1].repeat(100), &[1, 1, 0].repeat(85), &[0, 0, 1].repeat(5000)] {
            let most = table.len().min(1usize.checked_shl(T::BITS).unwrap_or(usize::MAX));
            for row_count in [0usize, 1, 63, 64, 65, 200, 1024] {
                let numbers: Vec<usize> =
                    test_values::random(9).take(row_count).map(|number| number as usize % most).collect();
                let codes: Vec<T> = numbers.iter().map(|number| T::from_u64(*number as u64)).collect();
                for level in Level::available() {
                    let mut out: BitBuffer = [true].into_iter().collect();
                    assert!(look_up_at(level, &codes, table, &mut out), "{level:?}");
                    assert_eq!(
                        out,
                        [true].into_iter().chain(numbers.iter().map(|number| table[*number] == 1)).collect()
                    );
                    if most < 200 && row_count > 0 {
                        for place in [0, row_count / 2, row_count - 1] {
                            let mut codes = codes.clone();
                            codes[place] = T::from_u64(most as u64);
                            assert!(!look_up_at(level, &codes, table, &mut BitBuffer::default()), "{level:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn codes_look_up_their_bits_and_bad_ones_are_told() {
        for_each_lane!(looks_up);
        assert!(!look_up(&[0u8], &[], &mut BitBuffer::default()));
    }
}
