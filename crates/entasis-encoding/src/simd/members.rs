//! Which bytes are in a set: by the bits of the set for their high five bits, or by nibbles (Langdale, Lemire: Parsing gigabytes of JSON
//! per second, VLDB Journal 2019, §3.1.2).

use super::Level;

/// A set of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByteSet {
    /// A bit per byte, from the lowest.
    words: [u64; 4],
}

impl ByteSet {
    /// Adds a byte.
    pub fn insert(&mut self, byte: u8) {
        self.words[usize::from(byte) / 64] |= 1 << (byte % 64);
    }

    /// Whether it holds a byte.
    pub fn contains(&self, byte: u8) -> bool {
        self.words[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
    }
}

impl FromIterator<u8> for ByteSet {
    fn from_iter<I: IntoIterator<Item = u8>>(bytes: I) -> Self {
        let mut set = Self::default();
        bytes.into_iter().for_each(|byte| set.insert(byte));
        set
    }
}

/// Bytes of a word of bits.
const WORD_BYTES: usize = 64;

/// Appends a word for every 64 of `bytes`, the last of them perhaps fewer: a bit for each byte, set if it is in the set.
pub fn members(bytes: &[u8], set: &ByteSet, out: &mut Vec<u64>) {
    members_at(Level::detect(), bytes, set, out);
}

/// [`members`] at a given level.
pub fn members_at(level: Level, bytes: &[u8], set: &ByteSet, out: &mut Vec<u64>) {
    out.reserve(bytes.len().div_ceil(WORD_BYTES));
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    let mut last = [0; WORD_BYTES];
    last[..rest.len()].copy_from_slice(rest);
    let count = out.len() + whole.len();
    match level.or_scalar() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `or_scalar` returns this level only where the processor has its features.
        Level::Avx512 => unsafe {
            x86::avx512(whole, set, out);
            x86::avx512(&[last], set, out);
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe {
            x86::avx2(whole, set, out);
            x86::avx2(&[last], set, out);
        },
        _ => {
            let table: [u8; 256] = std::array::from_fn(|byte| u8::from(set.contains(byte as u8)));
            let bit = |byte: &u8| u64::from(table[usize::from(*byte)]);
            let word = |bytes: &[u8; WORD_BYTES]| bytes.iter().rev().fold(0, |word, byte| word << 1 | bit(byte));
            out.extend(whole.iter().chain([&last]).map(word));
        }
    }
    match rest.len() {
        0 => out.truncate(count),
        rest => out[count] &= u64::MAX >> (WORD_BYTES - rest),
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{ByteSet, WORD_BYTES};

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn avx512(bytes: &[[u8; WORD_BYTES]], set: &ByteSet, out: &mut Vec<u64>) {
        let words = set.words.map(|word| word as i64);
        let eights = _mm512_set_epi64(0, 0, 0, 0, words[3], words[2], words[1], words[0]);
        let bits = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
        for bytes in bytes {
            // SAFETY: 64 bytes are read.
            let bytes = unsafe { _mm512_loadu_epi8(bytes.as_ptr().cast()) };
            let eight = _mm512_and_si512(_mm512_srli_epi16::<3>(bytes), _mm512_set1_epi8(31));
            let held = _mm512_permutexvar_epi8(eight, eights);
            let bit = _mm512_shuffle_epi8(bits, _mm512_and_si512(bytes, _mm512_set1_epi8(7)));
            out.push(_mm512_test_epi8_mask(held, bit));
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(bytes: &[[u8; WORD_BYTES]], set: &ByteSet, out: &mut Vec<u64>) {
        // By the low nibble, a bit for each high nibble: those below 8, and the others.
        let by_low = |high: u8| {
            let bits = |low: u8| (0..8).fold(0, |bits, at| bits | u8::from(set.contains((high + at) << 4 | low)) << at);
            let bytes: [u8; 16] = std::array::from_fn(|low| bits(low as u8));
            // SAFETY: 16 bytes are read.
            _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
        };
        let (lower, upper) = (by_low(0), by_low(8));
        let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let half = |bytes: &[u8]| {
            debug_assert_eq!(bytes.len(), WORD_BYTES / 2);
            // SAFETY: 32 bytes are read, half of what there is.
            let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            // A shuffle gives 0 where the highest bit is set.
            let held = _mm256_or_si256(
                _mm256_shuffle_epi8(lower, bytes),
                _mm256_shuffle_epi8(upper, _mm256_xor_si256(bytes, _mm256_set1_epi8(-128))),
            );
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), _mm256_set1_epi8(7));
            let bit = _mm256_shuffle_epi8(bits, high);
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_and_si256(held, bit), bit)) as u32
        };
        for bytes in bytes {
            let (low, high) = bytes.split_at(WORD_BYTES / 2);
            out.push(u64::from(half(low)) | u64::from(half(high)) << 32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn members_are_those_of_the_set() {
        let mut random = Random::new(31);
        for size in (0..200).chain([1000, 4096]) {
            let set: ByteSet = match size % 4 {
                0 => (0..random.below(300)).map(|_| random.below(256) as u8).collect(),
                1 => [random.below(256) as u8].into_iter().collect(),
                2 => ByteSet::default(),
                _ => (0..=255).collect(),
            };
            let bytes: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
            let mut expected = vec![7; 1];
            expected.extend(bytes.chunks(64).map(|bytes| {
                bytes.iter().enumerate().fold(0, |word, (at, byte)| word | u64::from(set.contains(*byte)) << at)
            }));
            for level in Level::available() {
                let mut found = vec![7];
                members_at(level, &bytes, &set, &mut found);
                assert_eq!(found, expected, "{level:?}, {size} bytes");
            }
        }
    }
}
