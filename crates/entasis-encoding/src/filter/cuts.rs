//! Predicates on the order of byte strings, for strings that are seen a piece at a time.
//!
//! A cut parts the strings below it from itself and those above it. Whatever intervals of strings pass, their bounds are cuts, and where
//! one passes is known from the number of cuts at or below it: `= 'b'` has the cuts `b` and `b\0`, which nothing lies between;
//! `LIKE 'b%'` has `b` and `c`.

use std::ops::Bound;

/// Bytes that a word holds.
const WORD_BYTES: usize = 8;

/// Ascending cuts of all byte strings, between which they pass by turns.
#[derive(Debug, Clone)]
pub(crate) struct Cuts {
    cuts: Vec<Cut>,
    /// Whether the strings below the first cut pass.
    first_passes: bool,
    /// Leading bytes that all cuts have in common.
    shared_bytes: usize,
    /// Ascending, what the strings that pass are, or those that don't, where these are single strings.
    literals: Option<Vec<Vec<u8>>>,
}

#[derive(Debug, Clone)]
struct Cut {
    /// With a word of zeros behind.
    padded: Vec<u8>,
    length: usize,
}

/// What is known of the place of a string of which the first bytes are known. They are the first of every cut that is left too, and none
/// of all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// So many cuts are at or below the string.
    from: u32,
    /// All cuts from this one on are above it.
    to: u32,
    /// How many bytes are known.
    depth: u32,
}

impl Place {
    /// Whether more bytes can't change the answer.
    #[inline(always)]
    pub fn is_decided(self) -> bool {
        self.from == self.to
    }
}

/// Some bytes of a string.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// The first byte highest, and zeros behind the last.
    word: u64,
    /// 1 to 8.
    length: usize,
}

impl Piece {
    /// Bytes of a word that has the first one lowest, 1 to 8 of them.
    #[inline(always)]
    pub fn new(word: u64, length: usize) -> Self {
        Self { word: word.swap_bytes(), length }
    }
}

impl Cut {
    fn new(bytes: &[u8]) -> Self {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len() + WORD_BYTES, 0);
        Self { padded, length: bytes.len() }
    }

    fn bytes(&self) -> &[u8] {
        &self.padded[..self.length]
    }

    /// The bytes at `depth`, at most the length, the first one highest.
    #[inline(always)]
    fn word(&self, depth: usize) -> u64 {
        self.padded[depth..].first_chunk::<WORD_BYTES>().map_or(0, |word| u64::from_be_bytes(*word))
    }
}

/// The least string that is above all that begin with `prefix`, if there is one.
pub(crate) fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

/// The string right behind `string`.
fn successor(string: &[u8]) -> Vec<u8> {
    [string, &[0]].concat()
}

impl Cuts {
    /// The strings within two bounds (`negated`: without them).
    pub fn within(low: Bound<&[u8]>, high: Bound<&[u8]>, negated: bool) -> Self {
        let low = match low {
            Bound::Unbounded => None,
            Bound::Included(low) => Some(low.to_vec()),
            Bound::Excluded(low) => Some(successor(low)),
        };
        let high = match high {
            Bound::Unbounded => None,
            Bound::Included(high) => Some(successor(high)),
            Bound::Excluded(high) => Some(high.to_vec()),
        };
        if low.as_ref().zip(high.as_ref()).is_some_and(|(low, high)| low >= high) {
            return Self::new(Vec::new(), negated, None);
        }
        let first_passes = low.is_none() != negated;
        Self::new(low.into_iter().chain(high).collect(), first_passes, None)
    }

    /// These strings, ascending and each once (`negated`: all others).
    pub fn one_of(literals: &[Vec<u8>], negated: bool) -> Self {
        let mut cuts: Vec<Vec<u8>> = Vec::with_capacity(2 * literals.len());
        for literal in literals {
            // A string and its successor make one interval.
            if cuts.last() == Some(literal) {
                cuts.pop();
            } else {
                cuts.push(literal.clone());
            }
            cuts.push(successor(literal));
        }
        Self::new(cuts, negated, Some(literals.to_vec()))
    }

    fn new(cuts: Vec<Vec<u8>>, first_passes: bool, literals: Option<Vec<Vec<u8>>>) -> Self {
        debug_assert!(cuts.is_sorted_by(|one, other| one < other), "cuts ascend");
        // What the first and the last have in common, all between them have.
        let shared_bytes = match (cuts.first(), cuts.last()) {
            (Some(first), Some(last)) => first.iter().zip(last).take_while(|(one, other)| one == other).count(),
            _ => 0,
        };
        Self { cuts: cuts.iter().map(|cut| Cut::new(cut)).collect(), first_passes, shared_bytes, literals }
    }

    /// The bytes that all cuts begin with.
    pub fn shared(&self) -> &[u8] {
        self.cuts.first().map_or(&[], |cut| &cut.bytes()[..self.shared_bytes])
    }

    /// Ascending, what the strings that pass are, or those that don't, where these are single strings. Then all others have the answer
    /// of [`Cuts::others_pass`].
    pub fn literals(&self) -> Option<&[Vec<u8>]> {
        self.literals.as_deref()
    }

    /// Whether strings pass that are none of [`Cuts::literals`].
    pub fn others_pass(&self) -> bool {
        self.first_passes
    }

    /// The place of a string of which nothing is known yet but that it has more than no bytes, unless all cuts have too.
    pub fn any_place(&self) -> Place {
        let empty = u32::from(self.cuts.first().is_some_and(|cut| cut.length == 0));
        Place { from: empty, to: self.cuts.len() as u32, depth: 0 }
    }

    /// The place of a string of which more bytes are known.
    #[inline(always)]
    pub fn narrow(&self, place: Place, piece: Piece) -> Place {
        /// More cuts than these are searched.
        const COMPARED: u32 = 6;
        let depth = place.depth as usize;
        let mask = u64::MAX << (64 - 8 * piece.length);
        // Zeros behind a cut's end are the least bytes, so that a shorter cut is below or it is at a string that goes on with zeros.
        let is_reached = |cut: &Cut| {
            let word = cut.word(depth) & mask;
            word < piece.word || word == piece.word && cut.length <= depth + piece.length
        };
        let is_left = |cut: &Cut| cut.word(depth) & mask <= piece.word;
        let (mut from, mut to) = (place.from, place.to);
        if to - from > COMPARED {
            let left = &self.cuts[from as usize..to as usize];
            (from, to) = (from + left.partition_point(is_reached) as u32, from + left.partition_point(is_left) as u32);
        } else {
            while from < to && is_reached(&self.cuts[from as usize]) {
                from += 1;
            }
            while from < to && !is_left(&self.cuts[to as usize - 1]) {
                to -= 1;
            }
        }
        Place { from, to, depth: (depth + piece.length) as u32 }
    }

    /// Whether a string passes that ends here, or whose place is decided.
    #[inline(always)]
    pub fn passes(&self, place: Place) -> bool {
        (place.from % 2 == 1) != self.first_passes
    }

    /// Whether a string passes.
    #[cfg(test)]
    pub fn holds(&self, string: &[u8]) -> bool {
        (self.cuts.iter().filter(|cut| cut.bytes() <= string).count() % 2 == 1) != self.first_passes
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use super::*;
    use crate::random::Random;

    fn string(random: &mut Random) -> Vec<u8> {
        (0..random.below(12)).map(|_| random.pick(&[0, 0, 1, b'a', b'a', b'b', 254, 255, 255])).collect()
    }

    /// The answer of cuts to a string that comes in pieces.
    fn pass_in_pieces(cuts: &Cuts, string: &[u8], random: &mut Random) -> bool {
        let (mut place, mut rest) = (cuts.any_place(), string);
        while !rest.is_empty() {
            let length = 1 + random.below(rest.len().min(WORD_BYTES));
            let mut word = [0; WORD_BYTES];
            word[..length].copy_from_slice(&rest[..length]);
            place = cuts.narrow(place, Piece::new(u64::from_le_bytes(word), length));
            rest = &rest[length..];
        }
        cuts.passes(place)
    }

    #[test]
    fn pieces_are_answered_as_whole_strings_are() {
        let mut random = Random::new(5);
        let mut passing = 0;
        for round in 0..20_000 {
            let negated = random.below(2) == 1;
            let mut literals: Vec<Vec<u8>> = (0..random.below(9)).map(|_| string(&mut random)).collect();
            let bound = |random: &mut Random| match random.below(3) {
                0 => Bound::Unbounded,
                1 => Bound::Included(string(random)),
                _ => Bound::Excluded(string(random)),
            };
            let (low, high) = (bound(&mut random), bound(&mut random));
            let range = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
            literals.sort();
            literals.dedup();
            let cuts = match round % 2 {
                0 => Cuts::one_of(&literals, negated),
                _ => Cuts::within(range.0, range.1, negated),
            };
            for _ in 0..4 {
                let string = match random.below(3) {
                    0 if !literals.is_empty() => random.pick(&literals),
                    _ => string(&mut random),
                };
                let is_found = match round % 2 {
                    0 => literals.contains(&string),
                    _ => RangeBounds::<[u8]>::contains(&range, string.as_slice()),
                };
                assert_eq!(cuts.holds(&string), is_found != negated, "{cuts:?} {string:?}");
                assert_eq!(pass_in_pieces(&cuts, &string, &mut random), is_found != negated, "{cuts:?} {string:?}");
                passing += usize::from(is_found);
            }
        }
        assert!(passing > 15_000, "{passing} of 80,000 are found");
    }

    #[test]
    fn prefixes_end_where_the_next_begins() {
        let behind = |prefix: &[u8]| behind_prefix(prefix).unwrap_or_default();
        assert_eq!(
            (behind(b"ab"), behind(b"a\xff\xff"), behind(b"\xff"), behind(b"")),
            (b"ac".into(), b"b".into(), vec![], vec![])
        );
    }
}
