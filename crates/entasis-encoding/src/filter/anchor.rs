//! Substrings of strings that symbols encode (see [`crate::fsst`]), found without decoding.
//!
//! A string that holds the needle has one code that stands for the needle's byte number *k*, the *anchor*, and few symbols can be that
//! one: they agree with the needle wherever they overlap it. All codes are searched for these at once, with vector instructions, and
//! only what is beside one that was found is held against the rest of the needle. The anchor is the byte whose symbols are rarest among
//! the codes at hand.

use super::coded::{Alphabet, CodedStrings, constant_words};
use crate::fsst::SymbolTable;
use crate::simd::{ByteSet, ESCAPE, Edges, SIEVE_HALF, Sieve, members, sift};

/// The anchor is one of so many first bytes.
const ANCHORS: usize = 16;
/// So many codes show which are rare.
const LOOKED_AT: usize = 4096;
/// A word of symbols.
const WORD_BYTES: usize = 8;

/// A needle, made ready for strings under one symbol table.
#[derive(Debug)]
pub(crate) struct Anchored {
    needle: Needle,
    anchor: usize,
    /// The codes of symbols that can stand for the anchor.
    codes: ByteSet,
    sieve: Box<Sieve>,
    /// Where in `overlaps` those of each code begin.
    firsts: [u16; 257],
    /// Where the needle's symbol begins in the needle, or before it.
    overlaps: Vec<i32>,
    /// Of all codes, the share that is looked at.
    pub share: f64,
    /// Bits of codes that can stand for the anchor, of escapes, and of bytes that are it.
    words: [Vec<u64>; 3],
    /// Places that the sieve keeps.
    kept: Vec<u32>,
}

/// The bit of an escape in a sieve: the byte behind it must be the anchor.
const ESCAPED: u32 = 8;

/// What lies beside codes that can stand for the anchor. A bit is a place, relative to the anchor, where a symbol ends (the lower half)
/// or begins (the upper); bytes have those bits that they agree with.
fn sieve_of(needle: &Needle, anchor: usize, table: &SymbolTable) -> Sieve {
    let mut sieve = Sieve { own: [0; 256], behind: [0; 256], before: [0; 256] };
    // A symbol that covers the anchor ends 1 to 8 bytes on.
    for bit in 0..WORD_BYTES {
        let end = anchor + 1 + bit;
        let may_follow = |code: u8| {
            let (word, length) = table.symbol(code);
            end >= needle.length || code == ESCAPE || length > 0 && needle.overlaps(word, length, end as i32)
        };
        (0..=u8::MAX).for_each(|code| sieve.behind[usize::from(code)] |= u32::from(may_follow(code)) << bit);
        // It begins 0 to 7 bytes before.
        let begin = anchor as i32 - bit as i32;
        let may_precede = |byte: u8| {
            let (word, length) = table.symbol(byte);
            begin <= 0
                || byte == needle.padded[begin as usize - 1]
                || length > 0 && needle.overlaps(word, length, begin - length as i32)
        };
        let bit = SIEVE_HALF + bit as u32;
        (0..=u8::MAX).for_each(|byte| sieve.before[usize::from(byte)] |= u32::from(may_precede(byte)) << bit);
    }
    for_each_overlap(needle, table, |code, length, at| {
        let (before, end) = (anchor as i32 - at, at + length as i32 - 1 - anchor as i32);
        if before >= 0 && end >= 0 {
            sieve.own[usize::from(code)] |= 1 << end | 1 << (SIEVE_HALF as i32 + before);
        }
    });
    sieve.own[usize::from(ESCAPE)] |= 1 << ESCAPED | 1 << SIEVE_HALF;
    sieve.behind[usize::from(needle.padded[anchor])] |= 1 << ESCAPED;
    sieve
}

/// What is looked for.
#[derive(Debug)]
pub(crate) struct Needle {
    /// With a word of zeros behind.
    padded: Vec<u8>,
    length: usize,
}

impl Needle {
    pub fn new(bytes: &[u8]) -> Self {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len() + WORD_BYTES, 0);
        Self { padded, length: bytes.len() }
    }

    /// Up to 8 bytes from `at` on, the first one lowest.
    #[inline(always)]
    fn word(&self, at: usize) -> u64 {
        self.padded[at..].first_chunk::<WORD_BYTES>().map_or(0, |word| u64::from_le_bytes(*word))
    }

    /// Whether a symbol that begins at `at` agrees where both are.
    fn overlaps(&self, word: u64, length: usize, at: i32) -> bool {
        let (skipped, at) = ((-at).max(0) as usize, at.max(0) as usize);
        let count = (length - skipped).min(self.length - at);
        (word >> (8 * skipped) ^ self.word(at)) & low_bytes(count) == 0
    }

    /// Whether the codes from `at` to below `end` stand for what begins with the needle's bytes from `from` on.
    #[inline(always)]
    fn follows(&self, strings: &CodedStrings<'_>, mut at: usize, end: usize, mut from: usize) -> bool {
        while from < self.length {
            if at >= end {
                return false;
            }
            let code = strings.codes[at];
            if code == ESCAPE {
                if at + 1 >= end || strings.codes[at + 1] != self.padded[from] {
                    return false;
                }
                (at, from) = (at + 2, from + 1);
                continue;
            }
            let (word, length) = strings.alphabet.symbol(code);
            if length == 0 || (word ^ self.word(from)) & low_bytes(length.min(self.length - from)) != 0 {
                return false;
            }
            (at, from) = (at + 1, from + length);
        }
        true
    }

    /// Whether the codes from `start` to below `at` stand for what ends with the needle's first `to` bytes.
    #[inline(always)]
    fn precedes(&self, strings: &CodedStrings<'_>, start: usize, mut at: usize, mut to: usize) -> bool {
        if let Alphabet::Bytes = strings.alphabet {
            return strings.codes[start..at].ends_with(&self.padded[..to]);
        }
        while to > 0 {
            if at <= start {
                return false;
            }
            at -= 1;
            if is_escaped(strings.codes, start, at) {
                if strings.codes[at] != self.padded[to - 1] {
                    return false;
                }
                (at, to) = (at - 1, to - 1);
                continue;
            }
            let (word, length) = strings.alphabet.symbol(strings.codes[at]);
            let count = length.min(to);
            if length == 0 || (word >> (8 * (length - count)) ^ self.word(to - count)) & low_bytes(count) != 0 {
                return false;
            }
            to -= count;
        }
        true
    }
}

/// The lowest 1 to 8 bytes of a word.
#[inline(always)]
fn low_bytes(count: usize) -> u64 {
    u64::MAX >> (64 - 8 * count)
}

/// Whether the code at `at`, of a string that begins at `start`, is a byte behind an escape: an odd number of escapes are before it.
#[inline(always)]
fn is_escaped(codes: &[u8], start: usize, at: usize) -> bool {
    let before = &codes[start..at];
    before.last() == Some(&ESCAPE) && before.iter().rev().take_while(|&&code| code == ESCAPE).count() % 2 == 1
}

impl Anchored {
    /// Looks at some of the codes that are to be searched. The needle isn't empty.
    pub fn new(needle: &[u8], strings: &CodedStrings<'_>, table: &SymbolTable) -> Self {
        let mut often = [0u32; 256];
        let looked_at = &strings.codes[..strings.codes.len().min(LOOKED_AT)];
        looked_at.iter().for_each(|&code| often[usize::from(code)] += 1);
        let needle = Needle::new(needle);
        let anchors = needle.length.min(ANCHORS);
        let mut cost = [0u32; ANCHORS];
        for_each_overlap(&needle, table, |code, length, at| {
            // Of codes that weren't seen, fewer are better too.
            let weight = 256 * often[usize::from(code)] + 1;
            let covered = at.max(0) as usize..((at + length as i32) as usize).min(anchors);
            cost[covered].iter_mut().for_each(|cost| *cost += weight);
        });
        let anchor = (0..anchors).min_by_key(|&anchor| cost[anchor]).unwrap_or(0);
        let (mut codes, mut overlaps, mut firsts) = (ByteSet::default(), Vec::new(), [0; 257]);
        for_each_overlap(&needle, table, |code, length, at| {
            if (at..at + length as i32).contains(&(anchor as i32)) {
                codes.insert(code);
                overlaps.push(at);
                firsts[usize::from(code) + 1] += 1;
            }
        });
        (1..firsts.len()).for_each(|code| firsts[code] += firsts[code - 1]);
        let seen: u32 = (0..=ESCAPE).filter(|&code| codes.contains(code)).map(|code| often[usize::from(code)]).sum();
        let share = f64::from(seen) / looked_at.len().max(1) as f64;
        let sieve = Box::new(sieve_of(&needle, anchor, table));
        Self { sieve, needle, anchor, codes, firsts, overlaps, share, words: Default::default(), kept: Vec::new() }
    }

    /// A word of bits for every 64 strings, set where one holds the needle.
    pub fn find(&mut self, strings: &CodedStrings<'_>) -> Vec<u64> {
        self.look(strings.codes);
        let mut out = constant_words(false, strings.ends.len());
        let (mut row, mut start, mut from) = (0, 0, 0);
        for &at in &self.kept {
            let at = at as usize;
            if at < from {
                continue;
            }
            while let Some(&end) = strings.ends.get(row)
                && end as usize <= at
            {
                (row, start) = (row + 1, end as usize);
            }
            let Some(&end) = strings.ends.get(row) else { break };
            if self.is_at(strings, start, at, end as usize) {
                out[row / 64] |= 1 << (row % 64);
                from = end as usize;
            }
        }
        out
    }

    /// Finds the places where the anchor may be.
    fn look(&mut self, codes: &[u8]) {
        let literal = self.needle.padded[self.anchor];
        let sets = [self.codes, ByteSet::from_iter([ESCAPE]), ByteSet::from_iter([literal])];
        for (words, set) in self.words.iter_mut().zip(sets) {
            words.clear();
            members(codes, &set, words);
        }
        let [words, escapes, literals] = &mut self.words;
        let behind = literals.iter().skip(1).copied().chain([0]);
        for (((word, escapes), literals), behind) in words.iter_mut().zip(escapes).zip(literals.iter()).zip(behind) {
            *word |= *escapes & (literals >> 1 | behind << 63);
        }
        sift(codes, words, &self.sieve, &mut self.kept);
    }

    /// Whether the needle lies in a string, with its anchor in what the code at `at` stands for.
    #[inline(always)]
    fn is_at(&self, strings: &CodedStrings<'_>, start: usize, at: usize, end: usize) -> bool {
        if is_escaped(strings.codes, start, at) {
            return false;
        }
        let code = strings.codes[at];
        if code == ESCAPE {
            return at + 1 < end
                && strings.codes[at + 1] == self.needle.padded[self.anchor]
                && self.needle.follows(strings, at + 2, end, self.anchor + 1)
                && self.needle.precedes(strings, start, at, self.anchor);
        }
        let overlaps = self.firsts[usize::from(code)]..self.firsts[usize::from(code) + 1];
        let length = strings.alphabet.symbol(code).1 as i32;
        self.overlaps[usize::from(overlaps.start)..usize::from(overlaps.end)].iter().any(|&first| {
            self.needle.follows(strings, at + 1, end, (first + length) as usize)
                && self.needle.precedes(strings, start, at, first.max(0) as usize)
        })
    }
}

/// Calls `visit` with every code, its symbol's length, and a place where it overlaps one of the needle's first bytes; by ascending codes.
fn for_each_overlap(needle: &Needle, table: &SymbolTable, mut visit: impl FnMut(u8, usize, i32)) {
    for code in 0..ESCAPE {
        let (word, length) = table.symbol(code);
        for at in 1 - length as i32..needle.length.min(ANCHORS) as i32 {
            if length > 0 && needle.overlaps(word, length, at) {
                visit(code, length, at);
            }
        }
    }
}

/// The end of strings, made ready for strings of one alphabet.
#[derive(Debug)]
pub(crate) struct CodedEnd {
    needle: Needle,
    /// The bytes that the codes of such strings can end with.
    last: ByteSet,
}

impl CodedEnd {
    /// The needle isn't empty.
    pub fn new(needle: &[u8], alphabet: Alphabet<'_>) -> Self {
        let may_end = |byte: &u8| {
            let (word, length) = alphabet.symbol(*byte);
            let symbol = word.to_le_bytes();
            let symbol = &symbol[..length];
            needle.last() == Some(byte) || length > 0 && (needle.ends_with(symbol) || symbol.ends_with(needle))
        };
        Self { last: (0..=u8::MAX).filter(may_end).collect(), needle: Needle::new(needle) }
    }

    /// A word of bits for every 64 strings, set where one ends with the needle.
    pub fn find(&self, strings: &CodedStrings<'_>, edges: &Edges) -> Vec<u64> {
        let mut out = Vec::with_capacity(edges.empty.len());
        members(&edges.lasts, &self.last, &mut out);
        for (index, (found, empty)) in out.iter_mut().zip(&edges.empty).enumerate() {
            *found &= !empty;
            let mut unknown = *found;
            while unknown != 0 {
                let lowest = unknown & unknown.wrapping_neg();
                unknown ^= lowest;
                let place = strings.place(64 * index + lowest.trailing_zeros() as usize);
                if !self.needle.precedes(strings, place.start, place.end, self.needle.length) {
                    *found ^= lowest;
                }
            }
        }
        out
    }
}
