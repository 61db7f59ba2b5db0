//! Real floats: the bits of each in two parts, the left ones few and the right ones many (ALP for real doubles: Afroozeh, Kuffo,
//! Boncz, SIGMOD 2023, §3.4).

use super::level::{Kernel, Level, run_at};
use crate::PackedLane;

/// Left parts by their codes, which are bytes, so that none lies outside.
#[derive(Clone)]
pub struct LeftParts {
    /// The parts; 0 where a code has none.
    pub parts: [u16; 256],
    /// By how many bits they are shifted to where they belong.
    pub right_bits: u32,
}

/// Adds to each of `right` the left part of its code. Panics unless there are as many codes.
pub fn join_parts<T: PackedLane>(left: &LeftParts, codes: &[u8], right: &mut [T]) {
    join_parts_at(Level::detect(), left, codes, right);
}

/// [`join_parts`] at a given level.
pub fn join_parts_at<T: PackedLane>(level: Level, left: &LeftParts, codes: &[u8], right: &mut [T]) {
    assert_eq!(codes.len(), right.len(), "a code per value");
    #[cfg(target_arch = "x86_64")]
    if level.or_scalar() == Level::Avx512 {
        let most = codes.iter().copied().max().unwrap_or(0);
        let values = right.as_mut_ptr();
        // SAFETY: `or_scalar` returns this level only where the processor has its features. `T` is an integer of the width matched,
        // there are as many values as codes, and no code is above `most`.
        let joined = unsafe {
            match (T::BYTES, most) {
                (4, 0..64) => x86::join_32::<1>(left, codes, values.cast()),
                (4, 64..128) => x86::join_32::<2>(left, codes, values.cast()),
                (4, _) => x86::join_32::<4>(left, codes, values.cast()),
                (8, 0..64) => x86::join_64::<1>(left, codes, values.cast()),
                (8, 64..128) => x86::join_64::<2>(left, codes, values.cast()),
                (8, _) => x86::join_64::<4>(left, codes, values.cast()),
                _ => 0,
            }
        };
        let (codes, right) = (&codes[joined..], &mut right[joined..]);
        return run_at(level, JoinParts { left, codes, right });
    }
    run_at(level, JoinParts { left, codes, right });
}

struct JoinParts<'a, T> {
    left: &'a LeftParts,
    codes: &'a [u8],
    right: &'a mut [T],
}

impl<T: PackedLane> Kernel for JoinParts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let LeftParts { parts, right_bits } = self.left;
        for (value, &code) in self.right.iter_mut().zip(self.codes) {
            *value = *value | T::from_u64(u64::from(parts[usize::from(code)]) << right_bits);
        }
    }
}

/// All parts lie in registers, 64 in a pair.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::LeftParts;

    /// Codes that are looked up at once.
    const CODES: usize = 32;

    /// The parts of 32 codes, all below 64 × `PAIRS`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn look_up<const PAIRS: usize>(registers: &[__m512i; 8], codes: &[u8; CODES]) -> __m512i {
        // SAFETY: 32 codes fill a register of half the width.
        let codes = _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) });
        let pair = |pair: usize| _mm512_permutex2var_epi16(registers[2 * pair], codes, registers[2 * pair + 1]);
        let has = |bit: i16| _mm512_test_epi16_mask(codes, _mm512_set1_epi16(bit));
        let two = |first: usize| _mm512_mask_mov_epi16(pair(first), has(64), pair(first + 1));
        match PAIRS {
            1 => pair(0),
            2 => two(0),
            _ => _mm512_mask_mov_epi16(two(0), has(128), two(2)),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    #[inline]
    fn registers(left: &LeftParts) -> [__m512i; 8] {
        // SAFETY: each eighth of the 256 parts fills a register.
        let eighth = |eighth: usize| unsafe { _mm512_loadu_epi16(left.parts.as_ptr().add(eighth * 32).cast()) };
        [0, 1, 2, 3, 4, 5, 6, 7].map(eighth)
    }

    /// A function that joins groups of 32 values and returns how many values that is.
    macro_rules! join_lanes {
        ($name:ident, $lane:ty, $lanes:expr, $widen:expr, $shift:ident, $load:ident, $or:ident, $store:ident) => {
            /// # Safety
            /// There are as many values as codes, which are below 64 × `PAIRS`.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub(super) unsafe fn $name<const PAIRS: usize>(
                left: &LeftParts,
                codes: &[u8],
                values: *mut $lane,
            ) -> usize {
                let registers = registers(left);
                let shift = _mm_cvtsi32_si128(left.right_bits as i32);
                let (groups, _) = codes.as_chunks::<CODES>();
                for (group, codes) in groups.iter().enumerate() {
                    let parts: [u16; CODES] = {
                        let mut parts = [0; CODES];
                        // SAFETY: 32 parts are written.
                        unsafe { _mm512_storeu_epi16(parts.as_mut_ptr().cast(), look_up::<PAIRS>(&registers, codes)) };
                        parts
                    };
                    for at in (0..CODES).step_by($lanes) {
                        // SAFETY: a register of values is read and written, of which there are as many as codes.
                        unsafe {
                            let values = values.add(group * CODES + at);
                            let parts = $shift($widen(parts.as_ptr().add(at)), shift);
                            $store(values, $or($load(values), parts));
                        }
                    }
                }
                groups.len() * CODES
            }
        };
    }

    join_lanes!(
        join_32,
        i32,
        16,
        |parts: *const u16| _mm512_cvtepu16_epi32(_mm256_loadu_si256(parts.cast())),
        _mm512_sll_epi32,
        _mm512_loadu_epi32,
        _mm512_or_epi32,
        _mm512_storeu_epi32
    );
    join_lanes!(
        join_64,
        i64,
        8,
        |parts: *const u16| _mm512_cvtepu16_epi64(_mm_loadu_si128(parts.cast())),
        _mm512_sll_epi64,
        _mm512_loadu_epi64,
        _mm512_or_epi64,
        _mm512_storeu_epi64
    );
}

/// Appends the code of each value's left part, what is above its lowest `right_bits`, to `codes`, and the rest to `right`. `code_of`
/// holds the code of every left part that may occur. Panics where it is too short for one.
pub fn split_parts<T: PackedLane>(
    values: &[T],
    right_bits: u32,
    code_of: &[u8],
    codes: &mut Vec<u8>,
    right: &mut Vec<T>,
) {
    let mask = T::from_u64((1 << right_bits) - 1);
    codes.extend(values.iter().map(|value| code_of[(value.to_u64() >> right_bits) as usize]));
    right.extend(values.iter().map(|&value| value & mask));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::test_values;

    #[test]
    fn parts_come_together_on_every_level() {
        fn check<T: PackedLane>() {
            let shapes = [(16, 200), (16, 256), (16, 128), (9, 60), (1, 2)];
            for (right_bits, count) in shapes.map(|(left_bits, count)| (T::BITS - left_bits, count)) {
                let left_parts = 1usize << (T::BITS - right_bits);
                // Some left parts that are spread over all that there are.
                let count = left_parts.min(count);
                let used: Vec<usize> = (0..count).map(|code| code * left_parts / count).collect();
                let mut code_of = vec![0; left_parts];
                let mut left = LeftParts { parts: [0; 256], right_bits };
                for (code, &part) in used.iter().enumerate() {
                    code_of[part] = code as u8;
                    left.parts[code] = part as u16;
                }
                let numbers: Vec<u64> = test_values::random(7).take(1000).collect();
                let values: Vec<T> = numbers
                    .iter()
                    .map(|&number| {
                        let part = used[number as usize % used.len()] as u64;
                        T::from_u64(part << right_bits | (number >> 8) & ((1 << right_bits) - 1))
                    })
                    .collect();
                let (mut codes, mut right) = (Vec::new(), Vec::new());
                split_parts(&values, right_bits, &code_of, &mut codes, &mut right);
                assert!(right.iter().all(|value| value.to_u64() >> right_bits == 0));
                for level in Level::available() {
                    let mut joined = right.clone();
                    join_parts_at(level, &left, &codes, &mut joined);
                    assert_eq!(joined, values, "{right_bits} bits at {level:?}");
                }
            }
        }
        check::<u32>();
        check::<u64>();
    }
}
