//! Strings as phrases of a text and literals between, compared without being put together: most differ from what is asked in their first
//! phrase, so that their literals aren't needed.

use std::cmp::Ordering;
use std::ops::Bound;

use super::bytes::{BytesTest, StringBounds};
use super::coded::{Sorted, constant_words};
use super::plain::{KEY_BYTES, Keys};
use crate::simd::{self, GatherError};

/// If a string is asked for more literals than this, it is put together.
const MOST_LITERALS: usize = 8;

/// Strings taken apart: see *Phrases* in `spec/encodings.md`.
pub(crate) struct PiecedStrings<'a> {
    text: &'a [u8],
    /// Number of each string's first phrase, and of all phrases.
    firsts: Vec<u32>,
    segments: &'a [u32],
    phrases: &'a [u32],
}

/// What strings are asked for that can be told piece by piece.
#[derive(Clone, Copy)]
enum Asked<'a> {
    OneOf(&'a [Vec<u8>]),
    Within(StringBounds<'a>),
}

impl<'a> Asked<'a> {
    fn of(test: &'a BytesTest) -> Option<Self> {
        match (test.literals(), test.bounds()) {
            ([], bounds) => bounds.map(Self::Within),
            (literals, _) => (literals.len() <= MOST_LITERALS).then_some(Self::OneOf(literals)),
        }
    }
}

/// One string.
#[derive(Clone, Copy)]
struct Pieces<'a> {
    /// Number of its first phrase.
    first: usize,
    text: &'a [u8],
    segments: &'a [u32],
    phrases: &'a [u32],
}

impl<'a> PiecedStrings<'a> {
    /// Strings of `counts` phrases each, of the `text`. For each phrase there are in `segments` the literals of its string before it, since
    /// the phrase before, in `phrases` its offset in the text (the high 16 bits) and its length less one. The counts must come to as many.
    pub fn new(text: &'a [u8], counts: &[u32], segments: &'a [u32], phrases: &'a [u32]) -> Self {
        let mut firsts = Vec::with_capacity(counts.len() + 1);
        firsts.push(0);
        firsts.extend_from_slice(counts);
        simd::prefix_sum(0, &mut firsts);
        Self { text, firsts, segments, phrases }
    }

    /// Whether strings can be told by their pieces what this asks.
    pub fn may_sort(test: &BytesTest) -> bool {
        Asked::of(test).is_some()
    }

    /// Which strings pass, and which may once their literals are known: bits behind the last string are of no account.
    ///
    /// # Errors
    /// [`GatherError::BadCode`] of a phrase that leaves the text, if it was looked at.
    pub fn sort(&self, test: &BytesTest) -> Result<Sorted, GatherError> {
        let negated = if test.is_negated() { u64::MAX } else { 0 };
        let mut sorted = match Asked::of(test) {
            Some(Asked::OneOf(literals)) => {
                let mut unknown = constant_words(false, self.len());
                for literal in literals {
                    self.screen(literal, &mut unknown);
                }
                let may_be = |row| {
                    let string = self.string(row);
                    literals.iter().try_fold(false, |may_be, literal| Ok(may_be || string.may_be(literal)?))
                };
                keep(&mut unknown, may_be)?;
                Sorted { passing: constant_words(false, self.len()), unknown }
            }
            Some(Asked::Within(bounds)) => {
                let mut sorted = self.sort_by_keys(bounds);
                let Sorted { passing, unknown } = &mut sorted;
                let is_told = |row: usize| match is_within(bounds, |bound| self.string(row).known_order(bound))? {
                    Some(is_within) => {
                        passing[row / 64] |= u64::from(is_within) << (row % 64);
                        Ok(false)
                    }
                    None => Ok(true),
                };
                keep(unknown, is_told)?;
                sorted
            }
            None => Sorted { passing: constant_words(false, self.len()), unknown: constant_words(true, self.len()) },
        };
        for (passing, unknown) in sorted.passing.iter_mut().zip(&sorted.unknown) {
            *passing = (*passing ^ negated) & !unknown;
        }
        Ok(sorted)
    }

    /// Sets the bits of those of the strings in `unknown` that pass; `literals` are theirs, asked for one after the other.
    ///
    /// # Errors
    /// [`GatherError::BadCode`] of a phrase that leaves the text, or its string.
    pub fn settle<'l>(
        &self,
        test: &BytesTest,
        sorted: &mut Sorted,
        mut literals: impl FnMut(usize) -> &'l [u8],
    ) -> Result<(), GatherError> {
        let Some(asked) = Asked::of(test) else { return Ok(()) };
        let Sorted { passing, unknown } = sorted;
        let mut passes = |row| {
            let (string, literals) = (self.string(row), literals(row));
            string.check(literals)?;
            let is_found = match asked {
                Asked::OneOf(all) => all.iter().any(|literal| string.compare(literals, literal).is_eq()),
                Asked::Within(bounds) => {
                    is_within(bounds, |bound| Ok(Some(string.compare(literals, bound))))? == Some(true)
                }
            };
            Ok(is_found != test.is_negated())
        };
        keep(unknown, &mut passes)?;
        passing.iter_mut().zip(unknown).for_each(|(passing, found)| *passing |= *found);
        Ok(())
    }

    fn len(&self) -> usize {
        self.firsts.len() - 1
    }

    #[inline(always)]
    fn string(&self, row: usize) -> Pieces<'a> {
        let own = self.firsts[row] as usize..self.firsts[row + 1] as usize;
        Pieces { first: own.start, text: self.text, segments: &self.segments[own.clone()], phrases: &self.phrases[own] }
    }

    /// The first phrase of each string: the literals before it, its length, and its first eight bytes with whatever is behind it. Nothing of
    /// one that has no phrases, or whose first phrase ends where the text does.
    #[inline(always)]
    fn first_phrases(&self) -> impl Iterator<Item = Option<(usize, usize, &'a [u8; KEY_BYTES])>> {
        self.firsts.windows(2).map(|ends| {
            let first = ends[0] as usize;
            let (&segment, &phrase) = (self.segments.get(first)?, self.phrases.get(first)?);
            let bytes = self.text.get((phrase >> 16) as usize..)?.first_chunk()?;
            (ends[1] > ends[0]).then_some((segment as usize, (phrase & 0xFFFF) as usize + 1, bytes))
        })
    }

    /// Sets the bits of the strings that may be this literal, as the beginnings of their first phrases say.
    fn screen(&self, literal: &[u8], found: &mut [u64]) {
        let mut padded = literal.to_vec();
        padded.resize(literal.len() + KEY_BYTES, 0);
        for (row, first) in self.first_phrases().enumerate() {
            let may_be = first.is_none_or(|(segment, length, bytes)| {
                let there = padded.get(segment..).and_then(|rest| rest.first_chunk());
                let there = u64::from_le_bytes(*there.unwrap_or(bytes));
                let counts = u64::MAX >> (64 - 8 * length.min(KEY_BYTES));
                ((u64::from_le_bytes(*bytes) ^ there) & counts == 0) & (segment + length <= literal.len())
            });
            found[row / 64] |= u64::from(may_be) << (row % 64);
        }
    }

    /// Which strings are within bounds, and which may be, as the beginnings of their first phrases say.
    fn sort_by_keys(&self, bounds: StringBounds<'_>) -> Sorted {
        let keys = Keys::new(bounds.0, bounds.1);
        let words = || constant_words(false, self.len());
        let mut sorted = Sorted { passing: words(), unknown: words() };
        for (row, first) in self.first_phrases().enumerate() {
            // What begins with less than a key may go on as any bound does.
            let told = first.filter(|(segment, length, _)| (*segment == 0) & (*length >= KEY_BYTES));
            let (passes, is_unknown) = match told {
                Some((_, _, bytes)) => keys.told(u64::from_be_bytes(*bytes)),
                None => (false, true),
            };
            sorted.passing[row / 64] |= u64::from(passes) << (row % 64);
            sorted.unknown[row / 64] |= u64::from(is_unknown) << (row % 64);
        }
        sorted
    }
}

/// Keeps the bits of which `is_kept` says so.
fn keep(words: &mut [u64], mut is_kept: impl FnMut(usize) -> Result<bool, GatherError>) -> Result<(), GatherError> {
    for (index, word) in words.iter_mut().enumerate() {
        let mut left = *word;
        while left != 0 {
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            if !is_kept(64 * index + bit)? {
                *word &= !(1 << bit);
            }
        }
    }
    Ok(())
}

impl<'a> Pieces<'a> {
    #[inline(always)]
    fn phrase(&self, number: usize) -> Result<&'a [u8], GatherError> {
        let phrase = self.phrases[number];
        let (start, length) = ((phrase >> 16) as usize, (phrase & 0xFFFF) as usize + 1);
        self.text.get(start..start + length).ok_or(GatherError::BadCode(self.first + number))
    }

    /// Whether it is this literal, if its own literals are those between.
    #[inline(always)]
    fn may_be(&self, literal: &[u8]) -> Result<bool, GatherError> {
        let mut place = 0;
        for (number, &segment) in self.segments.iter().enumerate() {
            place += segment as usize;
            let phrase = self.phrase(number)?;
            let Some(there) = literal.get(place..place + phrase.len()) else { return Ok(false) };
            if !is_same(phrase, there) {
                return Ok(false);
            }
            place += phrase.len();
        }
        Ok(place <= literal.len())
    }

    /// How it compares with a literal, as far as the phrases say that it begins with.
    #[inline(always)]
    fn known_order(&self, literal: &[u8]) -> Result<Option<Ordering>, GatherError> {
        let mut rest = literal;
        for (number, &segment) in self.segments.iter().enumerate() {
            if segment > 0 {
                return Ok(None);
            }
            let phrase = self.phrase(number)?;
            let (own, others) = (&phrase[..phrase.len().min(rest.len())], &rest[..phrase.len().min(rest.len())]);
            if own != others {
                return Ok(Some(own.cmp(others)));
            }
            if phrase.len() > rest.len() {
                return Ok(Some(Ordering::Greater));
            }
            rest = &rest[phrase.len()..];
        }
        Ok(None)
    }

    /// Holds the phrases against the text, and the segments against the literals.
    fn check(&self, literals: &[u8]) -> Result<(), GatherError> {
        (0..self.phrases.len()).try_for_each(|number| self.phrase(number).map(drop))?;
        let sum: u64 = self.segments.iter().map(|&segment| u64::from(segment)).sum();
        if sum > literals.len() as u64 { Err(GatherError::BadCode(self.first)) } else { Ok(()) }
    }

    /// What it consists of, one behind the other; it must have been checked.
    fn pieces<'l>(self, literals: &'l [u8]) -> impl Iterator<Item = &'l [u8]>
    where
        'a: 'l,
    {
        let mut start = 0;
        let phrases = self.segments.iter().enumerate().flat_map(move |(number, &segment)| {
            let before = start..start + segment as usize;
            start = before.end;
            [&literals[before], self.phrase(number).unwrap_or_default()]
        });
        let behind = self.segments.iter().map(|&segment| segment as usize).sum::<usize>();
        phrases.chain(std::iter::once(&literals[behind..]))
    }

    /// How it compares with a literal.
    fn compare(&self, literals: &[u8], literal: &[u8]) -> Ordering {
        let mut rest = literal;
        for piece in self.pieces(literals) {
            let common = piece.len().min(rest.len());
            let order = piece[..common].cmp(&rest[..common]);
            if order.is_ne() {
                return order;
            }
            if piece.len() > common {
                return Ordering::Greater;
            }
            rest = &rest[common..];
        }
        if rest.is_empty() { Ordering::Equal } else { Ordering::Less }
    }
}

/// Whether a string is within bounds of which `order` says how it compares with them, if that is known.
#[inline(always)]
fn is_within(
    (low, high): StringBounds<'_>,
    mut order: impl FnMut(&[u8]) -> Result<Option<Ordering>, GatherError>,
) -> Result<Option<bool>, GatherError> {
    let is_above = match low {
        Bound::Unbounded => Some(true),
        Bound::Included(low) => order(low)?.map(Ordering::is_ge),
        Bound::Excluded(low) => order(low)?.map(Ordering::is_gt),
    };
    if is_above == Some(false) {
        return Ok(is_above);
    }
    let is_below = match high {
        Bound::Unbounded => Some(true),
        Bound::Included(high) => order(high)?.map(Ordering::is_le),
        Bound::Excluded(high) => order(high)?.map(Ordering::is_lt),
    };
    Ok(if is_below == Some(false) { is_below } else { is_above.and(is_below) })
}

/// Whether two stretches of equal length are the same: mostly their first bytes say that they aren't.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (one.first_chunk::<8>(), other.first_chunk::<8>()) {
        (Some(first), Some(others)) => first == others && one[8..] == other[8..],
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::{Comparison, FloatOrder, Like, Predicate, Scalar};

    const TEXT: &[u8] = b"abcabcabdabacadaeaaaaaaaaaaab";

    /// Strings as any writer may take them apart, what they are, and their literals.
    #[derive(Default)]
    struct Sample {
        counts: Vec<u32>,
        segments: Vec<u32>,
        phrases: Vec<u32>,
        literals: Vec<Vec<u8>>,
        strings: Vec<Vec<u8>>,
    }

    impl Sample {
        fn new(count: usize, random: &mut Random) -> Self {
            let mut sample = Self::default();
            let letters = |most: usize, random: &mut Random| -> Vec<u8> {
                (0..random.below(most + 1)).map(|_| random.pick(b"abc")).collect()
            };
            for _ in 0..count {
                let (mut string, mut own) = (Vec::new(), Vec::new());
                let phrases = random.below(4);
                for _ in 0..phrases {
                    let segment = if random.below(2) == 0 { Vec::new() } else { letters(3, random) };
                    let start = random.below(TEXT.len() - 1);
                    let length = 1 + random.below((TEXT.len() - start).min(12));
                    sample.segments.push(segment.len() as u32);
                    sample.phrases.push((start << 16 | (length - 1)) as u32);
                    string.extend(segment.iter().chain(&TEXT[start..start + length]));
                    own.extend(segment);
                }
                let behind = letters(3, random);
                string.extend(&behind);
                own.extend(behind);
                sample.counts.push(phrases as u32);
                sample.literals.push(own);
                sample.strings.push(string);
            }
            sample
        }

        fn pieced(&self) -> PiecedStrings<'_> {
            PiecedStrings::new(TEXT, &self.counts, &self.segments, &self.phrases)
        }
    }

    fn predicates(sample: &Sample, random: &mut Random) -> Vec<Predicate> {
        let order = FloatOrder::Ieee;
        let mut literal = || {
            let mut literal = random.pick(&sample.strings).clone();
            if random.below(3) == 0 {
                literal.truncate(random.below(literal.len() + 1));
            }
            if random.below(4) == 0 {
                literal.push(random.pick(b"\0abz"));
            }
            Scalar::Bytes(literal)
        };
        let mut all: Vec<Predicate> =
            Comparison::ALL.map(|comparison| Predicate::Compare(comparison, literal(), order)).into();
        for negated in [false, true] {
            all.push(Predicate::In { values: vec![literal(), literal(), literal()], negated, order });
            all.push(Predicate::Between { low: literal(), high: literal(), negated, order });
            let Scalar::Bytes(begin) = literal() else { continue };
            let begin = if begin.is_empty() { b"a".to_vec() } else { begin };
            all.push(Predicate::Like(Like { pattern: [&begin[..], b"%"].concat(), escape: None, negated }));
        }
        all
    }

    #[test]
    fn what_pieces_say_is_what_strings_say() {
        let mut random = Random::new(18);
        let mut told = [0; 2];
        for _ in 0..300 {
            let sample = Sample::new(1 + random.below(150), &mut random);
            for predicate in predicates(&sample, &mut random) {
                let test = BytesTest::of(&predicate);
                assert!(PiecedStrings::may_sort(&test), "{predicate:?}");
                let mut sorted = sample.pieced().sort(&test).unwrap();
                let bit = |words: &[u64], row: usize| words[row / 64] >> (row % 64) & 1 == 1;
                for (row, string) in sample.strings.iter().enumerate() {
                    let (passes, is_unknown) = (bit(&sorted.passing, row), bit(&sorted.unknown, row));
                    told[usize::from(is_unknown)] += 1;
                    assert!(is_unknown || passes == test.holds(string), "{predicate:?} of {string:?}");
                    assert!(!(is_unknown && passes), "{predicate:?} of {string:?}");
                }
                sample.pieced().settle(&test, &mut sorted, |row| &sample.literals[row]).unwrap();
                for (row, string) in sample.strings.iter().enumerate() {
                    assert_eq!(bit(&sorted.passing, row), test.holds(string), "{predicate:?} of {string:?}");
                }
            }
        }
        assert!(told[0] > told[1] / 2, "{told:?}");
    }

    #[test]
    fn what_leaves_the_text_or_its_string_is_found() {
        let test = |text: &[u8]| {
            BytesTest::of(&Predicate::Compare(Comparison::Equal, Scalar::Bytes(text.to_vec()), FloatOrder::Ieee))
        };
        let beyond = [(TEXT.len() as u32 - 2) << 16 | 2];
        let bad = PiecedStrings::new(TEXT, &[1], &[0], &beyond);
        assert!(matches!(bad.sort(&test(b"abc")), Err(GatherError::BadCode(0))));
        let unsettled = || Sorted { passing: vec![0], unknown: vec![1] };
        assert!(bad.settle(&test(b"abc"), &mut unsettled(), |_| b"").is_err());
        let long = PiecedStrings::new(TEXT, &[1], &[3], &[0]);
        assert!(long.settle(&test(b"abca"), &mut unsettled(), |_| b"ab").is_err(), "more literals than it has");
        let mut sorted = long.sort(&test(b"abca")).unwrap();
        assert_eq!(sorted.unknown, [1]);
        long.settle(&test(b"abca"), &mut sorted, |_| b"abc").unwrap();
        assert_eq!(sorted.passing, [1]);
    }
}
