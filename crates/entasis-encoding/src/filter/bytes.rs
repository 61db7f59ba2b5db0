//! Predicates on byte strings, made ready to be asked of many.

use std::ops::{Bound, RangeBounds};

use super::cuts::{Cuts, behind_prefix};
use super::pattern::{Pattern, Shape};
use crate::predicate::{Comparison, Predicate, Scalar};

/// What strings are within.
pub type StringBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// What passes.
#[derive(Debug, Clone)]
pub(crate) struct BytesTest {
    kind: Kind,
    negated: bool,
}

#[derive(Debug, Clone)]
enum Kind {
    Never,
    Equal(Vec<u8>),
    Within(Bound<Vec<u8>>, Bound<Vec<u8>>),
    /// Ascending.
    OneOf(Vec<Vec<u8>>),
    Like(Box<Pattern>),
}

impl Kind {
    /// A pattern, as the simplest thing that says the same.
    fn of_pattern(pattern: Pattern) -> Self {
        match pattern.shape() {
            Shape::Equal(text) => Kind::Equal(text.to_vec()),
            Shape::Begin(text) => {
                let behind = behind_prefix(text).map_or(Bound::Unbounded, Bound::Excluded);
                Kind::Within(Bound::Included(text.to_vec()), behind)
            }
            Shape::End(_) | Shape::Inside(_) | Shape::Other => Kind::Like(Box::new(pattern)),
        }
    }
}

impl BytesTest {
    /// The string that strings have to equal, or, if true, mustn't; `None` if they are asked for something else.
    pub fn equal(&self) -> Option<(&[u8], bool)> {
        match &self.kind {
            Kind::Equal(text) => Some((text, self.negated)),
            _ => None,
        }
    }

    /// What passes `predicate` among byte strings. Literals of another kind are equal to none of them.
    pub fn of(predicate: &Predicate) -> Self {
        let bytes = |scalar: &Scalar| match scalar {
            Scalar::Bytes(bytes) => Some(bytes.clone()),
            _ => None,
        };
        let (kind, negated) = match predicate {
            Predicate::IsNull => (Some(Kind::Never), false),
            Predicate::IsNotNull => (Some(Kind::Never), true),
            Predicate::Compare(comparison, literal, _) => {
                let kind = bytes(literal).map(|literal| match comparison {
                    Comparison::Equal | Comparison::NotEqual => Kind::Equal(literal),
                    Comparison::Less => Kind::Within(Bound::Unbounded, Bound::Excluded(literal)),
                    Comparison::LessOrEqual => Kind::Within(Bound::Unbounded, Bound::Included(literal)),
                    Comparison::Greater => Kind::Within(Bound::Excluded(literal), Bound::Unbounded),
                    Comparison::GreaterOrEqual => Kind::Within(Bound::Included(literal), Bound::Unbounded),
                });
                (kind, *comparison == Comparison::NotEqual)
            }
            Predicate::In { values, negated, .. } => {
                let mut literals: Vec<Vec<u8>> = values.iter().filter_map(bytes).collect();
                literals.sort_unstable();
                literals.dedup();
                (Some(Kind::OneOf(literals)), *negated)
            }
            Predicate::Between { low, high, negated: false, .. } => {
                let bounds = bytes(low).zip(bytes(high));
                (bounds.map(|(low, high)| Kind::Within(Bound::Included(low), Bound::Included(high))), false)
            }
            Predicate::Between { low, high, negated: true, .. } => match (bytes(low), bytes(high)) {
                (Some(low), Some(high)) => (Some(Kind::Within(Bound::Included(low), Bound::Included(high))), true),
                // Below the one or above the other, of which one can't be told.
                (Some(low), None) => (Some(Kind::Within(Bound::Unbounded, Bound::Excluded(low))), false),
                (None, Some(high)) => (Some(Kind::Within(Bound::Excluded(high), Bound::Unbounded)), false),
                (None, None) => (None, false),
            },
            Predicate::Like(like) => (Some(Kind::of_pattern(Pattern::new(like))), like.negated),
        };
        Self { kind: kind.unwrap_or(Kind::Never), negated }
    }

    /// Whether every string passes, or none; `None` where that depends.
    pub fn verdict(&self) -> Option<bool> {
        match &self.kind {
            Kind::Never => Some(self.negated),
            Kind::OneOf(literals) if literals.is_empty() => Some(self.negated),
            Kind::Like(pattern) if pattern.is_any() => Some(!self.negated),
            _ => None,
        }
    }

    /// Whether strings have to be searched.
    pub fn is_search(&self) -> bool {
        matches!(self.kind, Kind::Like(_))
    }

    /// Where it only counts whether a string is empty: whether empty ones pass; the others then don't, or the other way round.
    pub fn of_empty(&self) -> Option<bool> {
        match &self.kind {
            Kind::Equal(literal) if literal.is_empty() => Some(!self.negated),
            Kind::OneOf(literals) if literals.len() == 1 && literals[0].is_empty() => Some(!self.negated),
            Kind::Within(Bound::Excluded(low), Bound::Unbounded) if low.is_empty() => Some(self.negated),
            _ => None,
        }
    }

    /// The cuts between what passes and what doesn't, where the order of strings says it.
    pub fn cuts(&self) -> Option<Cuts> {
        match &self.kind {
            Kind::Never | Kind::Like(_) => None,
            Kind::Equal(_) | Kind::OneOf(_) => Some(Cuts::one_of(self.literals(), self.negated)),
            Kind::Within(..) => self.bounds().map(|(low, high)| Cuts::within(low, high, self.negated)),
        }
    }

    /// Ascending, the literals that strings are one of, or mustn't be; none where something else is asked.
    pub fn literals(&self) -> &[Vec<u8>] {
        match &self.kind {
            Kind::Equal(literal) => std::slice::from_ref(literal),
            Kind::OneOf(literals) => literals,
            _ => &[],
        }
    }

    /// How many leading bytes `string` has in common with one of the literals or bounds, at most; `None` if there are none. Another string
    /// that begins with more bytes of `string` than that passes if it does, and doesn't if it doesn't.
    pub fn common_bytes(&self, string: &[u8]) -> Option<usize> {
        let common = |literal: &[u8]| string.iter().zip(literal).take_while(|(own, other)| own == other).count();
        let of_bound = |bound: Bound<&[u8]>| match bound {
            Bound::Included(bytes) | Bound::Excluded(bytes) => Some(common(bytes)),
            Bound::Unbounded => None,
        };
        match &self.kind {
            Kind::Equal(literal) => Some(common(literal)),
            Kind::OneOf(literals) => literals.iter().map(|literal| common(literal)).max(),
            Kind::Within(..) => self.bounds().and_then(|(low, high)| of_bound(low).max(of_bound(high))),
            Kind::Never | Kind::Like(_) => None,
        }
    }

    /// The bounds that strings are within, or mustn't be.
    pub fn bounds(&self) -> Option<StringBounds<'_>> {
        match &self.kind {
            Kind::Within(low, high) => Some((low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))),
            _ => None,
        }
    }

    /// The pattern that strings match, or mustn't.
    pub fn pattern(&self) -> Option<&Pattern> {
        match &self.kind {
            Kind::Like(pattern) => Some(pattern),
            _ => None,
        }
    }

    /// Whether what is found doesn't pass, and everything else does.
    pub fn is_negated(&self) -> bool {
        self.negated
    }

    /// Whether one string passes.
    pub fn holds(&self, value: &[u8]) -> bool {
        self.is_found(value) != self.negated
    }

    /// Calls `push` with whether each of the strings `value(0)`, `value(1)`, … up to `count` passes.
    pub fn each<'v>(&self, count: usize, value: impl Fn(usize) -> &'v [u8], mut push: impl FnMut(bool)) {
        // What is asked most is asked without looking each time what it is.
        if let Some(empty) = self.of_empty() {
            return (0..count).for_each(|row| push(value(row).is_empty() == empty));
        }
        match &self.kind {
            Kind::Equal(literal) => (0..count).for_each(|row| push((value(row) == literal.as_slice()) != self.negated)),
            _ => (0..count).for_each(|row| push(self.holds(value(row)))),
        }
    }

    fn is_found(&self, value: &[u8]) -> bool {
        match &self.kind {
            Kind::Never => false,
            Kind::Equal(literal) => value == literal.as_slice(),
            Kind::Within(low, high) => {
                let range = (low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice));
                RangeBounds::<[u8]>::contains(&range, value)
            }
            Kind::OneOf(literals) => literals.binary_search_by(|literal| literal.as_slice().cmp(value)).is_ok(),
            Kind::Like(pattern) => pattern.matches(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicate::{FloatOrder, Like};

    #[test]
    fn tests_say_what_predicates_say() {
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        let order = FloatOrder::Ieee;
        let texts = ["", "a", "ab", "abc", "b", "ba", "\u{fffd}", "aaa", "a%b"];
        let mut literals: Vec<Scalar> = texts.iter().map(|text| Scalar::Bytes(text.as_bytes().to_vec())).collect();
        literals.push(Scalar::Int(1));
        let mut predicates = vec![Predicate::IsNull, Predicate::IsNotNull];
        for low in &literals {
            for comparison in [Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual] {
                predicates.push(Predicate::Compare(comparison, low.clone(), order));
            }
            for negated in [false, true] {
                predicates.push(Predicate::In { values: vec![low.clone(), literals[3].clone()], negated, order });
                predicates.push(Predicate::In { values: Vec::new(), negated, order });
                for high in &literals {
                    predicates.push(Predicate::Between { low: low.clone(), high: high.clone(), negated, order });
                }
            }
        }
        for pattern in ["", "%", "a%", "%b", "%b%", "a_", "a\\%b"] {
            for negated in [false, true] {
                let pattern = pattern.as_bytes().to_vec();
                predicates.push(Predicate::Like(Like { pattern, escape: Some(b'\\'), negated }));
            }
        }
        for predicate in predicates {
            let test = BytesTest::of(&predicate);
            let mut each = Vec::new();
            test.each(texts.len(), |row| texts[row].as_bytes(), |passes| each.push(passes));
            for (text, passes) in texts.iter().zip(each) {
                let holds = predicate.holds(Some(&Scalar::Bytes(text.as_bytes().to_vec())));
                assert_eq!(passes, holds, "{predicate:?} of {text:?}");
                assert!(test.verdict().is_none_or(|verdict| verdict == holds), "{predicate:?} of {text:?}");
                let Some(common) = test.common_bytes(text.as_bytes()) else { continue };
                let alike =
                    |other: &&&str| text.len() > common && other.starts_with(text.get(..=common).unwrap_or("?"));
                for other in texts.iter().filter(alike) {
                    assert_eq!(test.holds(other.as_bytes()), holds, "{predicate:?} of {other:?} as of {text:?}");
                }
            }
        }
    }
}
