//! CRC-32C, the checksum of runs, heads and large values. Where carry-less multiplication works on 512 bits, long inputs are folded by
//! it (Gopal et al., *Fast CRC computation for generic polynomials using PCLMULQDQ*, Intel, 2009): it verifies what is lent, which
//! nothing else looks at.

use super::level::Level;

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_at(Level::detect(), bytes)
}

/// [`crc32c()`] at a given level.
pub fn crc32c_at(level: Level, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= x86::LEAST_BYTES && level.or_scalar() == Level::Avx512 {
        // SAFETY: `or_scalar` returns this level only where the processor has its features, which are all that are needed.
        return unsafe { x86::folded(bytes) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = level;
    crc32c::crc32c(bytes)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Bytes of a register.
    const REGISTER_BYTES: usize = 64;
    /// Registers that are folded side by side, for a multiplication takes longer than until the next may begin.
    const REGISTERS: usize = 8;
    /// Shorter inputs are left to the processor's own instruction for CRC-32C.
    pub const LEAST_BYTES: usize = REGISTERS * REGISTER_BYTES;
    /// How far ahead bytes are asked for that aren't in the first cache. The processor itself looks ahead within a page at most, and what
    /// is verified is looked at from its beginning to its end, runs one after the other.
    const AHEAD_BYTES: usize = 2048;

    /// The polynomial but for x^32, its highest coefficient in the lowest bit.
    const POLYNOMIAL: u32 = 0x82F6_3B78;

    /// x^`power` modulo the polynomial, as a multiplicand: the coefficient of x^63 in the lowest bit.
    const fn power_of_x(power: u32) -> u64 {
        let mut remainder = 1 << 31;
        let mut done = 0;
        while done < power {
            remainder = (remainder >> 1) ^ if remainder & 1 == 1 { POLYNOMIAL } else { 0 };
            done += 1;
        }
        (remainder as u64) << 32
    }

    /// What the halves of 128 bits are multiplied by to be added `bytes` bytes further on. A carry-less product of two words stands for
    /// the product of their polynomials and x.
    const fn multiplicands(bytes: usize) -> [u64; 2] {
        let bits = bytes as u32 * 8;
        [power_of_x(bits + 63), power_of_x(bits - 1)]
    }

    const EIGHT: [u64; 2] = multiplicands(8 * REGISTER_BYTES);
    const FOUR: [u64; 2] = multiplicands(4 * REGISTER_BYTES);
    const THREE: [u64; 2] = multiplicands(3 * REGISTER_BYTES);
    const TWO: [u64; 2] = multiplicands(2 * REGISTER_BYTES);
    const ONE: [u64; 2] = multiplicands(REGISTER_BYTES);

    /// `sum`, moved so many bytes on as `multiplicands` are for, and `next`.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold(sum: __m512i, multiplicands: __m512i, next: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128::<0x00>(sum, multiplicands);
        let high = _mm512_clmulepi64_epi128::<0x11>(sum, multiplicands);
        // All three are added: exclusive or.
        _mm512_ternarylogic_epi64::<0x96>(low, high, next)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn everywhere(multiplicands: [u64; 2]) -> __m512i {
        _mm512_broadcast_i32x4(_mm_set_epi64x(multiplicands[1] as i64, multiplicands[0] as i64))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8; REGISTER_BYTES]) -> __m512i {
        // SAFETY: the bytes fill a register.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// Asks for the bytes that lie [`AHEAD_BYTES`] behind the beginning of `group`.
    #[inline]
    #[target_feature(enable = "sse")]
    #[allow(unused_unsafe, reason = "newer versions of Rust call it safe")]
    fn look_ahead(group: &[[u8; REGISTER_BYTES]; REGISTERS]) {
        for register in group {
            // SAFETY: to ask for bytes is no access: addresses without memory are ignored.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(register.as_ptr().wrapping_add(AHEAD_BYTES).cast()) };
        }
    }

    /// The checksum of at least [`LEAST_BYTES`] bytes.
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub fn folded(bytes: &[u8]) -> u32 {
        let (registers, rest) = bytes.as_chunks::<REGISTER_BYTES>();
        let (groups, single) = registers.as_chunks::<REGISTERS>();
        let Some((first, groups)) = groups.split_first() else { return crc32c::crc32c(bytes) };
        let mut sums: [__m512i; REGISTERS] = std::array::from_fn(|index| load(&first[index]));
        // The checksum begins with all bits set.
        sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1)));
        let (eight, four) = (everywhere(EIGHT), everywhere(FOUR));
        for group in groups {
            look_ahead(group);
            for (sum, next) in sums.iter_mut().zip(group) {
                *sum = fold(*sum, eight, load(next));
            }
        }
        let [first, second, third, last] = std::array::from_fn(|index| fold(sums[index], four, sums[index + 4]));
        let sum = fold(first, everywhere(THREE), last);
        let sum = fold(second, everywhere(TWO), sum);
        let mut sum = fold(third, everywhere(ONE), sum);
        for next in single {
            sum = fold(sum, everywhere(ONE), load(next));
        }
        let mut words = [0u64; REGISTER_BYTES / 8];
        // SAFETY: the words are as long as a register.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), sum) };
        let checksum = words.iter().fold(0, |checksum, &word| _mm_crc32_u64(checksum, word));
        let (words, rest) = rest.as_chunks::<8>();
        let checksum = words.iter().fold(checksum, |checksum, word| _mm_crc32_u64(checksum, u64::from_le_bytes(*word)));
        !rest.iter().fold(checksum as u32, |checksum, &byte| _mm_crc32_u8(checksum, byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn checksums_are_those_of_the_oracle_on_every_level() {
        let mut random = Random::new(61);
        let bytes: Vec<u8> = (0..20_000).map(|_| random.next() as u8).collect();
        let lengths = (0..700).chain([1024, 4096, 8191, 8192, 8193, 16_383, 19_000]);
        for length in lengths {
            let some = &bytes[random.below(900)..][..length];
            for level in Level::available() {
                assert_eq!(crc32c_at(level, some), crc32c::crc32c(some), "{length} bytes at {level:?}");
            }
        }
        // RFC 3720, B.4.
        assert_eq!([crc32c(&[0; 32]), crc32c(&[0xFF; 32])], [0x8A91_36AA, 0x62A8_AB43]);
    }
}
