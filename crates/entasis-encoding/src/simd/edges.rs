//! What strings that lie back to back begin and end with.

use super::Level;
use super::level::{Kernel, run_at};

/// Strings in a word of bits.
const WORD_STRINGS: usize = 64;

/// The first and the last byte of strings that lie back to back, unspecified where a string is empty, and which are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Edges {
    /// A byte per string.
    pub firsts: Vec<u8>,
    /// A byte per string.
    pub lasts: Vec<u8>,
    /// A bit per string, 64 to a word, set where it is empty.
    pub empty: Vec<u64>,
}

impl Edges {
    /// Those of strings that end in `bytes` where `ends`, ascending, says; nothing if one ends beyond.
    pub fn of(bytes: &[u8], ends: &[u32]) -> Option<Self> {
        Self::at(Level::detect(), bytes, ends)
    }

    /// [`Edges::of`] at a given level.
    pub fn at(level: Level, bytes: &[u8], ends: &[u32]) -> Option<Self> {
        let last = ends.last().map_or(0, |&end| end as usize);
        let bytes = bytes.get(..last)?;
        if !super::ascends_at(level, ends) {
            return None;
        }
        Some(run_at(level, Find { bytes, ends }))
    }
}

struct Find<'a> {
    bytes: &'a [u8],
    ends: &'a [u32],
}

impl Kernel for Find<'_> {
    type Output = Edges;

    #[inline(always)]
    fn run(self) -> Edges {
        let (count, words) = (self.ends.len(), self.ends.len().div_ceil(WORD_STRINGS));
        let mut edges = Edges {
            firsts: Vec::with_capacity(words * WORD_STRINGS),
            lasts: Vec::with_capacity(words * WORD_STRINGS),
            empty: Vec::with_capacity(words),
        };
        // Strings without any bytes are given one.
        let bytes = if self.bytes.is_empty() { &[0] } else { self.bytes };
        let behind = bytes.len() as u32 - 1;
        let mut start = 0;
        for ends in self.ends.chunks(WORD_STRINGS) {
            // Behind the last string, more empty ones.
            let mut whole = [ends[ends.len() - 1]; WORD_STRINGS];
            whole[..ends.len()].copy_from_slice(ends);
            let (mut firsts, mut lasts, mut empty) = ([0; WORD_STRINGS], [0; WORD_STRINGS], [0; WORD_STRINGS]);
            for (index, &end) in whole.iter().enumerate() {
                empty[index] = u8::from(start == end);
                let (first, last) = (start.min(behind) as usize, end.max(1) as usize - 1);
                // SAFETY: ends ascend to at most the number of bytes, of which there is at least one.
                (firsts[index], lasts[index]) = unsafe { (*bytes.get_unchecked(first), *bytes.get_unchecked(last)) };
                start = end;
            }
            edges.firsts.extend_from_slice(&firsts);
            edges.lasts.extend_from_slice(&lasts);
            edges.empty.push(word_of(&empty) & u64::MAX >> (WORD_STRINGS - ends.len()));
        }
        edges.firsts.truncate(count);
        edges.lasts.truncate(count);
        edges
    }
}

/// The lowest bits of 64 bytes that are 0 or 1.
#[inline(always)]
pub fn word_of(bytes: &[u8; WORD_STRINGS]) -> u64 {
    let gather = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    bytes.as_chunks::<8>().0.iter().rev().fold(0, |word, eight| word << 8 | gather(eight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn edges_are_those_of_the_strings() {
        let mut random = Random::new(8);
        for count in (0..140).chain([1000]) {
            let strings: Vec<Vec<u8>> = (0..count)
                .map(|_| (0..random.below(1 + count % 5)).map(|_| random.below(256) as u8).collect())
                .collect();
            let ends: Vec<u32> = strings
                .iter()
                .scan(0, |end, string| {
                    *end += string.len() as u32;
                    Some(*end)
                })
                .collect();
            let bytes = strings.concat();
            for level in Level::available() {
                let edges = Edges::at(level, &bytes, &ends).unwrap();
                assert_eq!(
                    (edges.firsts.len(), edges.lasts.len(), edges.empty.len()),
                    (count, count, count.div_ceil(64))
                );
                for (row, string) in strings.iter().enumerate() {
                    assert_eq!(edges.empty[row / 64] >> (row % 64) & 1 == 1, string.is_empty());
                    if let (Some(first), Some(last)) = (string.first(), string.last()) {
                        assert_eq!((edges.firsts[row], edges.lasts[row]), (*first, *last));
                    }
                }
                assert!(edges.empty.last().is_none_or(|word| count % 64 == 0 || word >> (count % 64) == 0));
                assert_eq!(Edges::at(level, &bytes, &[1, 0]), None);
                assert_eq!(Edges::at(level, &bytes, &[bytes.len() as u32 + 1]), None);
            }
        }
    }
}
