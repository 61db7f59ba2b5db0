//! Real floats: the bits of each in two parts, the left ones few and the right ones many (ALP for real doubles: Afroozeh, Kuffo,
//! Boncz, SIGMOD 2023, §3.4).

use super::level::{Kernel, Level, run_at};
use crate::PackedLane;

/// Left parts by their codes, shifted to where they belong; a code is a byte, so that none lies outside.
pub type LeftParts<T> = [T; 256];

/// Adds to each of `right` the left part of its code. Panics unless there are as many codes.
pub fn join_parts<T: PackedLane>(left: &LeftParts<T>, codes: &[u8], right: &mut [T]) {
    join_parts_at(Level::detect(), left, codes, right);
}

/// [`join_parts`] at a given level.
pub fn join_parts_at<T: PackedLane>(level: Level, left: &LeftParts<T>, codes: &[u8], right: &mut [T]) {
    assert_eq!(codes.len(), right.len(), "a code per value");
    #[cfg(target_arch = "x86_64")]
    if level.or_scalar() == Level::Avx512 {
        let (parts, values) = (left.as_ptr(), right.as_mut_ptr());
        // SAFETY: `or_scalar` returns this level only where the processor has its features. `T` is an integer of the width matched,
        // there are 256 parts, and as many values as codes.
        let joined = unsafe {
            match T::BYTES {
                4 => x86::join_32(parts.cast(), codes, values.cast()),
                8 => x86::join_64(parts.cast(), codes, values.cast()),
                _ => 0,
            }
        };
        let (codes, right) = (&codes[joined..], &mut right[joined..]);
        return run_at(level, JoinParts { left, codes, right });
    }
    run_at(level, JoinParts { left, codes, right });
}

struct JoinParts<'a, T> {
    left: &'a LeftParts<T>,
    codes: &'a [u8],
    right: &'a mut [T],
}

impl<T: PackedLane> Kernel for JoinParts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (value, &code) in self.right.iter_mut().zip(self.codes) {
            *value = *value | self.left[usize::from(code)];
        }
    }
}

/// The commonest parts have the least codes: those of two registers are looked up there, the rest in memory.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Joins whole registers of values and returns how many values that is.
    macro_rules! join_lanes {
        ($name:ident, $lane:ty, $rows:expr, $widen:expr, $splat:ident, $above:ident, $pick:ident, $load:ident, $or:ident, $store:ident) => {
            /// # Safety
            /// There are 256 parts, and as many values as codes.
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
            pub(super) unsafe fn $name(parts: *const $lane, codes: &[u8], values: *mut $lane) -> usize {
                let (groups, _) = codes.as_chunks::<$rows>();
                // SAFETY: of the parts two registers are read, of the values one per group of as many codes; a code is below 256.
                unsafe {
                    let (low, high) = ($load(parts), $load(parts.add($rows)));
                    for (group, codes) in groups.iter().enumerate() {
                        let values = values.add(group * $rows);
                        let wide = $widen(codes.as_ptr());
                        if $above(wide, $splat(2 * $rows - 1)) == 0 {
                            $store(values, $or($load(values), $pick(low, wide, high)));
                        } else {
                            for (row, &code) in codes.iter().enumerate() {
                                *values.add(row) |= *parts.add(usize::from(code));
                            }
                        }
                    }
                }
                groups.len() * $rows
            }
        };
    }

    join_lanes!(
        join_32,
        i32,
        16,
        |codes: *const u8| _mm512_cvtepu8_epi32(_mm_loadu_si128(codes.cast())),
        _mm512_set1_epi32,
        _mm512_cmpgt_epu32_mask,
        _mm512_permutex2var_epi32,
        _mm512_loadu_epi32,
        _mm512_or_epi32,
        _mm512_storeu_epi32
    );
    join_lanes!(
        join_64,
        i64,
        8,
        |codes: *const u8| _mm512_cvtepu8_epi64(_mm_loadl_epi64(codes.cast())),
        _mm512_set1_epi64,
        _mm512_cmpgt_epu64_mask,
        _mm512_permutex2var_epi64,
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
            for right_bits in [T::BITS - 16, T::BITS - 9, T::BITS - 1] {
                let left_parts = 1usize << (T::BITS - right_bits);
                // 200 left parts that are spread over all that there are.
                let used: Vec<usize> =
                    (0..left_parts.min(200)).map(|code| code * left_parts / left_parts.min(200)).collect();
                let mut code_of = vec![0; left_parts];
                let mut left = [T::default(); 256];
                for (code, &part) in used.iter().enumerate() {
                    code_of[part] = code as u8;
                    left[code] = T::from_u64((part as u64) << right_bits);
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
