//! Predicates on strings that lie back to back as they are, or as symbols encode them (see [`crate::fsst`]), answered where they lie.
//!
//! What the order of strings says is told from their first codes ([`CodedCuts`]); ends and substrings are looked for among the codes
//! ([`CodedEnd`], [`Anchored`]). Of other patterns these find the strings that may match, and only they are decoded.

use std::ops::{Bound, Range};

use memchr::memmem::Finder;

use super::anchor::{Anchored, CodedEnd};
use super::bytes::BytesTest;
use super::coded_cuts::{CodedCuts, Sorted};
use super::cuts::{Cuts, behind_prefix};
use super::pattern::Shape;
use crate::fsst::{SymbolError, SymbolTable};
use crate::simd::{ESCAPE, Edges};
use crate::values::BitBuffer;

/// What codes stand for.
#[derive(Clone, Copy)]
pub(crate) enum Alphabet<'a> {
    /// A symbol each, but for escapes and the bytes behind them.
    Symbols(&'a SymbolTable),
    /// Themselves: strings as they are.
    Bytes,
}

impl Alphabet<'_> {
    /// Whether this code says that the next byte stands for itself.
    #[inline(always)]
    pub fn is_escape(self, code: u8) -> bool {
        code == ESCAPE && matches!(self, Alphabet::Symbols(_))
    }

    /// What a code that is no escape stands for, the first byte lowest, and its length in bytes; the length is 0 if that is nothing.
    #[inline(always)]
    pub fn symbol(self, code: u8) -> (u64, usize) {
        match self {
            Alphabet::Symbols(table) => table.symbol(code),
            Alphabet::Bytes => (u64::from(code), 1),
        }
    }
}

/// Codes of strings back to back.
#[derive(Clone, Copy)]
pub(crate) struct CodedStrings<'a> {
    pub alphabet: Alphabet<'a>,
    pub codes: &'a [u8],
    /// Where the codes of each string end: ascending, the last where the codes do.
    pub ends: &'a [u32],
}

/// A test of byte strings, made ready for strings of one alphabet.
#[derive(Debug)]
pub(crate) struct CodedSearch {
    /// A string that is found is found by each of these.
    parts: Vec<Part>,
    /// Whether every string that they find passes the test; else it has to be asked.
    is_certain: bool,
    /// Those that are found don't pass, and the others do.
    negated: bool,
}

#[derive(Debug)]
enum Part {
    Cuts(Box<CodedCuts>),
    /// Those that the first and the last code don't rule out.
    Sorted(Box<CodedCuts>),
    End(Box<CodedEnd>),
    Inside(Box<Anchored>),
    /// Of strings as they are.
    Found(Box<Finder<'static>>),
}

impl Part {
    /// What holds a text; nothing if that is looked for in vain too often.
    fn inside(text: &[u8], strings: &CodedStrings<'_>) -> Option<Self> {
        match strings.alphabet {
            Alphabet::Bytes => Some(Part::Found(Box::new(Finder::new(text).into_owned()))),
            Alphabet::Symbols(table) => {
                let anchored = Anchored::new(text, strings, table);
                (anchored.share <= MOST_LOOKED_AT).then(|| Part::Inside(Box::new(anchored)))
            }
        }
    }
}

/// Of more literals than these it is only asked what codes strings with one of them begin and end with.
const MOST_LITERALS: usize = 16;

/// If more of all codes have to be looked at one by one, decoding is quicker.
const MOST_LOOKED_AT: f64 = 0.4;

impl CodedSearch {
    /// Nothing if the test says nothing of codes, or if that would take longer than to decode; `strings` are some of those that it is for.
    pub fn new(test: &BytesTest, strings: &CodedStrings<'_>) -> Option<Self> {
        let coded = |cuts| Box::new(CodedCuts::new(cuts, strings.alphabet));
        if let Some((literals, negated)) = test.literals().filter(|(literals, _)| literals.len() > MOST_LITERALS) {
            let parts = vec![Part::Sorted(coded(Cuts::one_of(literals, false)))];
            return Some(Self { parts, is_certain: false, negated });
        }
        if let Some(of_test) = test.cuts() {
            return Some(Self { parts: vec![Part::Cuts(coded(of_test))], is_certain: true, negated: false });
        }
        let (pattern, negated) = test.pattern()?;
        let [begin, end, inside] = pattern.texts();
        let mut parts = Vec::new();
        if let Some(begin) = begin {
            let behind = behind_prefix(begin);
            let behind = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            parts.push(Part::Cuts(coded(Cuts::within(Bound::Included(begin), behind, false))));
        }
        parts.extend(end.map(|end| Part::End(Box::new(CodedEnd::new(end, strings.alphabet)))));
        if let Some(inside) = inside {
            parts.extend(Part::inside(inside, strings));
        }
        let is_certain = matches!(pattern.shape(), Shape::End(_) | Shape::Inside(_));
        (!parts.is_empty()).then_some(Self { parts, is_certain, negated })
    }

    /// Appends a bit for each of `strings`, set where it passes, and returns how many of them had to be decoded, to at most `limit_bytes`.
    ///
    /// # Errors
    /// Any [`SymbolError`], of strings that were looked at.
    pub fn answer(
        &mut self,
        test: &BytesTest,
        strings: &CodedStrings<'_>,
        limit_bytes: usize,
        out: &mut BitBuffer,
    ) -> Result<usize, SymbolError> {
        let count = strings.ends.len();
        let mut found = constant_words(true, count);
        let needs_edges = self.parts.iter().any(|part| !matches!(part, Part::Inside(_) | Part::Found(_)));
        let edges = if needs_edges {
            Edges::of(strings.codes, strings.ends).ok_or(SymbolError::Ends)?
        } else {
            Edges::default()
        };
        for part in &mut self.parts {
            if found.iter().all(|word| *word == 0) {
                break;
            }
            let words = match part {
                Part::Cuts(cuts) => cuts.find(strings, &edges).ok_or(SymbolError::UnknownCode)?,
                Part::Sorted(cuts) => {
                    let Sorted { passing, unknown } = cuts.sort(&edges);
                    passing.into_iter().zip(unknown).map(|(passing, unknown)| passing | unknown).collect()
                }
                Part::End(end) => end.find(strings, &edges),
                Part::Inside(anchored) => anchored.find(strings),
                Part::Found(finder) => strings.find(finder),
            };
            found.iter_mut().zip(words).for_each(|(found, word)| *found &= word);
        }
        let decoded = if self.is_certain { 0 } else { strings.retain(test, self.negated, limit_bytes, &mut found)? };
        let negated = if self.negated { u64::MAX } else { 0 };
        for (index, word) in found.into_iter().enumerate() {
            let bits = (count - 64 * index).min(64);
            out.extend_word((word ^ negated) & u64::MAX >> (64 - bits), bits);
        }
        Ok(decoded)
    }
}

impl CodedStrings<'_> {
    /// Where the codes of a string are.
    #[inline(always)]
    pub fn place(&self, row: usize) -> Range<usize> {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        start as usize..self.ends[row] as usize
    }

    /// Looks at the strings whose bit is set, and keeps the bits of those that pass (`negated`: that don't); returns how many had to be decoded.
    fn retain(
        &self,
        test: &BytesTest,
        negated: bool,
        limit_bytes: usize,
        found: &mut [u64],
    ) -> Result<usize, SymbolError> {
        let keep = |found: &mut [u64], row: usize, string: &[u8]| {
            if test.holds(string) == negated {
                found[row / 64] &= !(1 << (row % 64));
            }
        };
        let rows: Vec<usize> = (0..self.ends.len()).filter(|row| found[row / 64] >> (row % 64) & 1 == 1).collect();
        let Alphabet::Symbols(table) = self.alphabet else {
            rows.iter().for_each(|&row| keep(found, row, &self.codes[self.place(row)]));
            return Ok(0);
        };
        let (mut codes, mut code_ends) = (Vec::new(), Vec::with_capacity(rows.len()));
        for &row in &rows {
            codes.extend_from_slice(&self.codes[self.place(row)]);
            code_ends.push(codes.len() as u32);
        }
        let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(rows.len()));
        table.decode_many(&codes, &code_ends, &mut bytes, &mut ends, limit_bytes)?;
        let mut start = 0;
        for (&row, &end) in rows.iter().zip(&ends) {
            let start = std::mem::replace(&mut start, end as usize);
            keep(found, row, &bytes[start..end as usize]);
        }
        Ok(rows.len())
    }

    /// A word of bits for every 64 strings, set where one holds what is looked for, which isn't empty. All are searched at once: what
    /// is found across two of them is none.
    fn find(&self, finder: &Finder<'_>) -> Vec<u64> {
        let mut out = constant_words(false, self.ends.len());
        let (mut row, mut from) = (0, 0);
        while let Some(at) = finder.find(&self.codes[from..]).map(|at| from + at) {
            while self.ends.get(row).is_some_and(|&end| end as usize <= at) {
                row += 1;
            }
            let Some(&end) = self.ends.get(row) else { break };
            from = at + 1;
            if at + finder.needle().len() <= end as usize {
                out[row / 64] |= 1 << (row % 64);
                from = end as usize;
            }
        }
        out
    }
}

/// Words of equal bits, for so many strings.
pub(crate) fn constant_words(bit: bool, count: usize) -> Vec<u64> {
    vec![if bit { u64::MAX } else { 0 }; count.div_ceil(64)]
}
