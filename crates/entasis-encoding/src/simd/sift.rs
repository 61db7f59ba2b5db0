//! Bytes that are told by what is beside them.

use super::Level;
use super::level::{Kernel, run_at};

/// What a byte, the one before and the one behind it must have in common: a bit of the lower half of `own` and `behind`, and one of the
/// upper half of `own` and `before`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sieve {
    /// Of the byte itself.
    pub own: [u32; 256],
    /// Of the byte behind it.
    pub behind: [u32; 256],
    /// Of the byte before it.
    pub before: [u32; 256],
}

/// Where the upper half of a sieve's bits begins.
pub const SIEVE_HALF: u32 = 16;

/// Replaces `places` by where in `bytes` those lie that pass the sieve, of those whose bit is set in `words`, 64 to a word. What lies
/// before the first byte and behind the last passes as a 0 does.
pub fn sift(bytes: &[u8], words: &[u64], sieve: &Sieve, places: &mut Vec<u32>) {
    sift_at(Level::detect(), bytes, words, sieve, places);
}

/// [`sift`] at a given level.
pub fn sift_at(level: Level, bytes: &[u8], words: &[u64], sieve: &Sieve, places: &mut Vec<u32>) {
    run_at(level, Sift { bytes, words, sieve, places });
}

struct Sift<'a> {
    bytes: &'a [u8],
    words: &'a [u64],
    sieve: &'a Sieve,
    places: &'a mut Vec<u32>,
}

impl Kernel for Sift<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let byte = |at: usize| usize::from(self.bytes.get(at).copied().unwrap_or(0));
        let mut count = 0;
        for (index, mut word) in self.words.iter().copied().enumerate() {
            if word == 0 {
                continue;
            }
            if self.places.len() < count + 64 {
                self.places.resize(2 * count + 256, 0);
            }
            while word != 0 {
                let at = 64 * index + word.trailing_zeros() as usize;
                word &= word - 1;
                let beside = self.sieve.behind[byte(at + 1)] | self.sieve.before[byte(at.wrapping_sub(1))];
                let common = self.sieve.own[byte(at)] & beside;
                // Written always and counted where it passes: which does, no branch can predict.
                self.places[count] = at as u32;
                count += usize::from((common as u16 != 0) & (common >> SIEVE_HALF != 0));
            }
        }
        self.places.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn what_passes_has_both_in_common() {
        let mut random = Random::new(17);
        let mut places = Vec::new();
        for size in [0usize, 1, 2, 63, 64, 65, 700] {
            let mut table = || std::array::from_fn(|_| (random.next() & random.next() & random.next()) as u32);
            let sieve = Sieve { own: table(), behind: table(), before: table() };
            let bytes: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
            let words: Vec<u64> = (0..size.div_ceil(64)).map(|_| random.next() | random.next()).collect();
            let byte = |at: usize| usize::from(bytes.get(at).copied().unwrap_or(0));
            let passes = |at: &usize| {
                let own = sieve.own[byte(*at)];
                let (behind, before) = (sieve.behind[byte(at + 1)], sieve.before[byte(at.wrapping_sub(1))]);
                // The halves of the tables beside are joined, so that each may answer for both.
                words[at / 64] >> (at % 64) & 1 == 1
                    && own & (behind | before) & 0xFFFF != 0
                    && own & (behind | before) >> 16 << 16 != 0
            };
            let expected: Vec<u32> = (0..64 * words.len()).filter(passes).map(|at| at as u32).collect();
            for level in Level::available() {
                sift_at(level, &bytes, &words, &sieve, &mut places);
                assert_eq!(places, expected, "{level:?}, {size} bytes");
            }
        }
    }
}
