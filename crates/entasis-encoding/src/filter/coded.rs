//! Predicates on strings that lie back to back as they are, or as symbols encode them (see [`crate::fsst`]), answered where they lie.
//!
//! What the order of strings says is told from their first codes ([`CodedCuts`]) or bytes ([`Keys`]); ends and substrings are looked for
//! among the codes ([`CodedEnd`], [`Anchored`]). Of other patterns these find the strings that may match, and only they are decoded.

use std::ops::{Bound, Range};

use memchr::memmem::Finder;

use super::anchor::{Anchored, CodedEnd};
use super::bytes::BytesTest;
use super::coded_cuts::CodedCuts;
use super::cuts::{Cuts, behind_prefix};
use super::pattern::Shape;
use super::plain::{Among, Keys, holding};
use crate::fsst::{SymbolError, SymbolTable};
use crate::simd::Edges;
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
    /// Where strings under symbols stand in the order of strings.
    Cuts(Box<CodedCuts>),
    /// What strings end with.
    End(Box<CodedEnd>),
    /// What strings under symbols hold.
    Inside(Box<Anchored>),
    /// Where strings as they are stand in the order of strings.
    Keys(Keys),
    /// Which strings as they are may be one of some.
    Among(Box<Among>),
    /// What strings as they are hold.
    Found(Box<Finder<'static>>),
}

/// A bit per string, 64 to a word.
pub(crate) struct Sorted {
    /// Those that pass.
    pub passing: Vec<u64>,
    /// Those of which it isn't known yet.
    pub unknown: Vec<u64>,
}

/// If literals have more bytes than this, all together, what is learned of them takes longer than to decode.
const MOST_LITERAL_BYTES: usize = 4096;

/// If more of all codes have to be looked at one by one, decoding is quicker.
const MOST_LOOKED_AT: f64 = 0.4;

impl CodedSearch {
    /// Nothing if the test says nothing of codes, or if that would take longer than to decode; `strings` are some of those that it is for.
    pub fn new(test: &BytesTest, strings: &CodedStrings<'_>) -> Option<Self> {
        match strings.alphabet {
            Alphabet::Symbols(table) => Self::of_symbols(test, strings, table),
            Alphabet::Bytes => Self::of_bytes(test, strings),
        }
    }

    fn of_symbols(test: &BytesTest, strings: &CodedStrings<'_>, table: &SymbolTable) -> Option<Self> {
        let coded = |cuts| Part::Cuts(Box::new(CodedCuts::new(cuts, table)));
        let literal_bytes = test.literals().iter().map(Vec::len).sum::<usize>();
        if literal_bytes > MOST_LITERAL_BYTES {
            return None;
        }
        if let Some(cuts) = test.cuts() {
            return Some(Self { parts: vec![coded(cuts)], is_certain: true, negated: false });
        }
        let begin = |low: Bound<&[u8]>, high: Bound<&[u8]>| coded(Cuts::within(low, high, false));
        let inside = |text: &[u8]| {
            let anchored = Anchored::new(text, strings, table);
            (anchored.share <= MOST_LOOKED_AT).then(|| Part::Inside(Box::new(anchored)))
        };
        Self::of_pattern(test, strings, begin, inside)
    }

    fn of_bytes(test: &BytesTest, strings: &CodedStrings<'_>) -> Option<Self> {
        let negated = test.is_negated();
        if !test.literals().is_empty() {
            let parts = vec![Part::Among(Box::new(Among::new(test.literals())))];
            return Some(Self { parts, is_certain: false, negated });
        }
        if let Some((low, high)) = test.bounds() {
            return Some(Self { parts: vec![Part::Keys(Keys::new(low, high))], is_certain: true, negated });
        }
        let begin = |low: Bound<&[u8]>, high: Bound<&[u8]>| Part::Keys(Keys::new(low, high));
        let inside = |text: &[u8]| Some(Part::Found(Box::new(Finder::new(text).into_owned())));
        Self::of_pattern(test, strings, begin, inside)
    }

    /// What a pattern's texts say, given what finds strings within bounds, and strings with something inside.
    fn of_pattern(
        test: &BytesTest,
        strings: &CodedStrings<'_>,
        begin: impl Fn(Bound<&[u8]>, Bound<&[u8]>) -> Part,
        inside: impl Fn(&[u8]) -> Option<Part>,
    ) -> Option<Self> {
        let pattern = test.pattern()?;
        let texts = pattern.texts();
        let mut parts = Vec::new();
        if let Some(text) = texts[0] {
            let behind = behind_prefix(text);
            parts.push(begin(Bound::Included(text), behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded)));
        }
        parts.extend(texts[1].map(|end| Part::End(Box::new(CodedEnd::new(end, strings.alphabet)))));
        parts.extend(texts[2].and_then(inside));
        let is_certain = matches!(pattern.shape(), Shape::End(_) | Shape::Inside(_));
        (!parts.is_empty()).then_some(Self { parts, is_certain, negated: test.is_negated() })
    }

    /// Appends a bit for each of `strings`, set where it passes, and returns how many of them had to be decoded, to at most `limit_bytes`.
    ///
    /// # Errors
    /// Any [`SymbolError`], of strings that were looked at; nothing is appended then.
    pub fn answer(
        &mut self,
        test: &BytesTest,
        strings: &CodedStrings<'_>,
        limit_bytes: usize,
        out: &mut BitBuffer,
    ) -> Result<usize, SymbolError> {
        let count = strings.ends.len();
        let mut found = constant_words(true, count);
        let needs_edges = self.parts.iter().any(|part| matches!(part, Part::Cuts(_) | Part::End(_)));
        let edges = if needs_edges { Edges::of(strings.codes, strings.ends) } else { Some(Edges::default()) };
        let edges = edges.ok_or(SymbolError::Ends)?;
        for part in &mut self.parts {
            if found.iter().all(|word| *word == 0) {
                break;
            }
            let words = match part {
                Part::Cuts(cuts) => cuts.find(strings, &edges).ok_or(SymbolError::UnknownCode)?,
                Part::End(end) => end.find(strings, &edges),
                Part::Inside(anchored) => anchored.find(strings),
                Part::Among(among) => among.find(strings),
                Part::Found(finder) => holding(strings, finder),
                Part::Keys(keys) => {
                    let Sorted { mut passing, mut unknown } = keys.sort(strings);
                    if self.is_certain {
                        strings.retain(test, self.negated, limit_bytes, &mut unknown)?;
                    }
                    // Those that aren't known are asked for the whole pattern.
                    passing.iter_mut().zip(unknown).for_each(|(passing, unknown)| *passing |= unknown);
                    passing
                }
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

/// Appends a bit for each of many decoded strings, set where it passes. False, and nothing is appended, if each is better asked by itself:
/// only patterns take so long that it pays to search all strings at once.
pub(crate) fn answer_plain(test: &BytesTest, offsets: &[i32], data: &[u8], out: &mut BitBuffer) -> bool {
    if test.pattern().is_none() {
        return false;
    }
    let Some((&first, offsets)) = offsets.split_first() else { return false };
    let Some(codes) = data.get(first as usize..) else { return false };
    let ends: Vec<u32> = offsets.iter().map(|&end| (end - first) as u32).collect();
    let strings = CodedStrings { alphabet: Alphabet::Bytes, codes, ends: &ends };
    let Some(mut search) = CodedSearch::new(test, &strings) else { return false };
    search.answer(test, &strings, usize::MAX, out).is_ok()
}

impl CodedStrings<'_> {
    /// The symbols, if codes stand for such.
    pub fn table(&self) -> Option<&SymbolTable> {
        match self.alphabet {
            Alphabet::Symbols(table) => Some(table),
            Alphabet::Bytes => None,
        }
    }

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
}

/// Words of equal bits, for so many strings.
pub(crate) fn constant_words(bit: bool, count: usize) -> Vec<u64> {
    vec![if bit { u64::MAX } else { 0 }; count.div_ceil(64)]
}
