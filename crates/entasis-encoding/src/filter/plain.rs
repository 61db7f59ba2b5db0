//! Strings that lie back to back as they are, searched without asking each: by lengths, by the bytes that they begin and end with, and
//! all at once for what they hold.

use std::ops::Bound;

use memchr::memmem::Finder;

use super::coded::{CodedStrings, Sorted, constant_words};
use crate::simd::{ByteSet, Edges, members, word_of};

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 8;

/// Strings of which few are worth a look: those as long as one of the literals, or that begin and end as one does.
#[derive(Debug)]
pub(crate) struct Among {
    /// The length of the only literal.
    length: Option<usize>,
    firsts: ByteSet,
    lasts: ByteSet,
    has_empty: bool,
}

impl Among {
    pub fn new(literals: &[Vec<u8>]) -> Self {
        Self {
            length: if let [only] = literals { Some(only.len()) } else { None },
            firsts: literals.iter().filter_map(|literal| literal.first().copied()).collect(),
            lasts: literals.iter().filter_map(|literal| literal.last().copied()).collect(),
            has_empty: literals.iter().any(Vec::is_empty),
        }
    }

    /// A word of bits for every 64 strings, set where one may be a literal.
    pub fn find(&self, strings: &CodedStrings<'_>) -> Vec<u64> {
        /// If fewer strings than one of so many are left, each is asked.
        const FEW: usize = 8;
        let mut found = self.length.map(|length| of_length(strings.ends, length));
        let left = |found: &Vec<u64>| found.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        if let Some(found) = found.take_if(|found| left(found) * FEW <= strings.ends.len()) {
            return found;
        }
        let mut found = found.unwrap_or_else(|| constant_words(true, strings.ends.len()));
        let Some(edges) = Edges::of(strings.codes, strings.ends) else { return found };
        let (mut firsts, mut lasts) = (Vec::new(), Vec::new());
        members(&edges.firsts, &self.firsts, &mut firsts);
        members(&edges.lasts, &self.lasts, &mut lasts);
        for (((found, first), last), empty) in found.iter_mut().zip(firsts).zip(lasts).zip(&edges.empty) {
            *found &= if self.has_empty { first & last | empty } else { first & last & !empty };
        }
        found
    }
}

/// A word of bits for every 64 strings, set where one is so long.
fn of_length(ends: &[u32], length: usize) -> Vec<u64> {
    let mut start = 0;
    let words = ends.chunks(64).map(|ends| {
        let mut equal = [0; 64];
        for (equal, &end) in equal.iter_mut().zip(ends) {
            *equal = u8::from((end - start) as usize == length);
            start = end;
        }
        word_of(&equal)
    });
    words.collect()
}

/// Strings within bounds, told by their first eight bytes unless these are those of a bound.
#[derive(Debug)]
pub(crate) struct Keys {
    low: Option<u64>,
    high: Option<u64>,
}

/// The first eight bytes, the first one highest, with zeros behind the last: what is below another key is a string below the other's.
#[inline(always)]
fn key(string: &[u8]) -> u64 {
    match string.first_chunk::<KEY_BYTES>() {
        Some(first) => u64::from_be_bytes(*first),
        None => string.iter().rev().fold(0, |key, &byte| key >> 8 | u64::from(byte) << 56),
    }
}

impl Keys {
    pub fn new(low: Bound<&[u8]>, high: Bound<&[u8]>) -> Self {
        let key = |bound| match bound {
            Bound::Unbounded => None,
            Bound::Included(bytes) | Bound::Excluded(bytes) => Some(key(bytes)),
        };
        Self { low: key(low), high: key(high) }
    }

    /// Whether a string of this key is within the bounds, and whether it has to be asked.
    #[inline(always)]
    pub fn told(&self, key: u64) -> (bool, bool) {
        let (low, high) = (self.low.unwrap_or(0), self.high.unwrap_or(u64::MAX));
        let (has_low, has_high) = (self.low.is_some(), self.high.is_some());
        let passes = (!has_low | (key > low)) & (!has_high | (key < high));
        (passes, (has_low & (key == low)) | (has_high & (key == high)))
    }

    /// Which strings are within the bounds, and of which it has to be asked.
    pub fn sort(&self, strings: &CodedStrings<'_>) -> Sorted {
        let words = strings.ends.len().div_ceil(64);
        let mut sorted = Sorted { passing: Vec::with_capacity(words), unknown: Vec::with_capacity(words) };
        let mut start = 0;
        for ends in strings.ends.chunks(64) {
            let (mut passing, mut unknown) = ([0; 64], [0; 64]);
            for (index, &end) in ends.iter().enumerate() {
                let length = (end - start) as usize;
                let rest = &strings.codes[start as usize..];
                let key = match rest.first_chunk::<KEY_BYTES>() {
                    // What is behind the string isn't its own.
                    Some(first) if length > 0 => {
                        u64::from_be_bytes(*first) & u64::MAX << (8 * (KEY_BYTES - length.min(KEY_BYTES)))
                    }
                    _ => key(&rest[..length]),
                };
                let (passes, is_unknown) = self.told(key);
                passing[index] = u8::from(passes);
                unknown[index] = u8::from(is_unknown);
                start = end;
            }
            sorted.passing.push(word_of(&passing));
            sorted.unknown.push(word_of(&unknown));
        }
        sorted
    }
}

/// A word of bits for every 64 strings, set where one holds what is looked for, which isn't empty. All are searched at once: what is
/// found across two of them is none.
pub(crate) fn holding(strings: &CodedStrings<'_>, finder: &Finder<'_>) -> Vec<u64> {
    let mut out = constant_words(false, strings.ends.len());
    let (mut row, mut from) = (0, 0);
    while let Some(at) = finder.find(&strings.codes[from..]).map(|at| from + at) {
        while strings.ends.get(row).is_some_and(|&end| end as usize <= at) {
            row += 1;
        }
        let Some(&end) = strings.ends.get(row) else { break };
        from = at + 1;
        if at + finder.needle().len() <= end as usize {
            out[row / 64] |= 1 << (row % 64);
            from = end as usize;
        }
    }
    out
}
