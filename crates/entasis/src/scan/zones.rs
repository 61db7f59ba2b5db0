//! What zones tell about predicates: blocks in which no row passes, and those in which all do.

use std::cmp::Ordering;

use entasis_encoding::{Comparison, FloatOrder, Like, Predicate, Scalar};

use super::literal::wide;
use crate::zone::{Zone, ZoneValue};

/// Which rows of a block pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No row.
    None,
    /// Only the values can tell.
    Some,
    /// Every row.
    All,
}

impl Verdict {
    /// Of the rows that pass both.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Verdict::None, _) | (_, Verdict::None) => Verdict::None,
            (Verdict::All, Verdict::All) => Verdict::All,
            _ => Verdict::Some,
        }
    }

    /// Of the rows that pass either.
    pub(super) fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }

    /// Of the rows that don't pass.
    pub(super) fn not(self) -> Self {
        match self {
            Verdict::None => Verdict::All,
            Verdict::Some => Verdict::Some,
            Verdict::All => Verdict::None,
        }
    }

    fn of(none: bool, all: bool) -> Self {
        match (none, all) {
            (true, _) => Verdict::None,
            (_, true) => Verdict::All,
            _ => Verdict::Some,
        }
    }
}

/// What the zone of a block of `rows` tells of a predicate.
pub fn verdict(predicate: &Predicate, zone: &Zone, rows: u64) -> Verdict {
    let of_nulls = Verdict::of(zone.null_count == 0, zone.null_count == rows);
    match predicate {
        Predicate::IsNull => return of_nulls,
        Predicate::IsNotNull => return of_nulls.not(),
        _ => {}
    }
    if of_nulls == Verdict::All {
        return Verdict::None;
    }
    let values = Bounds { min: zone.min().map(scalar), max: zone.max().map(scalar) };
    let numbers_left = zone.null_count + zone.nan_count < rows;
    let of_numbers = if numbers_left { values.verdict(predicate) } else { None };
    let of_nans = (zone.nan_count > 0).then(|| of_nans(predicate));
    let of_values = match (of_numbers, of_nans) {
        (Some(one), Some(other)) if one != other => Verdict::Some,
        (Some(verdict), _) | (None, Some(verdict)) => verdict,
        (None, None) => Verdict::Some,
    };
    match of_values {
        Verdict::All if of_nulls != Verdict::None => Verdict::Some,
        verdict => verdict,
    }
}

/// NaNs may be of either sign, and of any payload.
fn of_nans(predicate: &Predicate) -> Verdict {
    let is_nan = |scalar: &Scalar| matches!(scalar, Scalar::Float(value) if value.is_nan());
    let literals: Vec<&Scalar> = match predicate {
        Predicate::Compare(_, literal, _) => vec![literal],
        Predicate::In { values, .. } => values.iter().collect(),
        Predicate::Between { low, high, .. } => vec![low, high],
        _ => Vec::new(),
    };
    if literals.into_iter().any(is_nan) {
        return Verdict::Some;
    }
    let holds = |sign: f64| predicate.holds(Some(&Scalar::Float(f64::NAN.copysign(sign))));
    let (minus, plus) = (holds(-1.0), holds(1.0));
    Verdict::of(!minus && !plus, minus && plus)
}

/// Bounds of values that are neither null nor NaN.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Bounds {
    /// No value is less; `None` if no such bound is known.
    pub min: Option<Scalar>,
    /// No value is greater; `None` if no such bound is known.
    pub max: Option<Scalar>,
}

/// Where all values stand to a literal, as far as is known.
struct Standing {
    min: Option<Ordering>,
    max: Option<Ordering>,
}

impl Bounds {
    /// What they tell of a predicate on the values; `None` if it asks for nulls.
    pub fn verdict(&self, predicate: &Predicate) -> Option<Verdict> {
        let compare = |comparison, literal: &Scalar, order| self.compare(comparison, literal, order);
        Some(match predicate {
            Predicate::Compare(comparison, literal, order) => compare(*comparison, literal, *order),
            Predicate::Between { low, high, negated, order } => {
                let inside = compare(Comparison::GreaterOrEqual, low, *order).and(compare(
                    Comparison::LessOrEqual,
                    high,
                    *order,
                ));
                // A bound that is NaN makes neither true: what isn't inside needn't be outside.
                match (*negated, inside) {
                    (false, inside) => inside,
                    (true, _) => compare(Comparison::Less, low, *order).or(compare(Comparison::Greater, high, *order)),
                }
            }
            Predicate::In { values, negated, order } => {
                let equal = |literal| compare(Comparison::Equal, literal, *order);
                let found = values.iter().map(equal).fold(Verdict::None, Verdict::or);
                if *negated { found.not() } else { found }
            }
            Predicate::Like(like) => {
                let matching = self.like(like);
                if like.negated { matching.not() } else { matching }
            }
            Predicate::IsNull | Predicate::IsNotNull => return None,
        })
    }

    fn compare(&self, comparison: Comparison, literal: &Scalar, order: FloatOrder) -> Verdict {
        let to_literal = |bound: &Option<Scalar>| bound.as_ref().and_then(|bound| bound.compare(literal, order));
        let stand = Standing { min: to_literal(&self.min), max: to_literal(&self.max) };
        let (less, greater) = (stand.less(), stand.greater());
        match comparison {
            Comparison::Less => less,
            Comparison::GreaterOrEqual => stand.at_least(),
            Comparison::Greater => greater,
            Comparison::LessOrEqual => stand.at_most(),
            Comparison::Equal => stand.equal(),
            Comparison::NotEqual => stand.equal().not(),
        }
    }

    /// Strings that match begin as the pattern does.
    fn like(&self, like: &Like) -> Verdict {
        let ends = |byte: &u8| matches!(byte, b'%' | b'_') || like.escape == Some(*byte);
        let prefix: Vec<u8> = like.pattern.iter().copied().take_while(|byte| !ends(byte)).collect();
        let bytes = |bound: &Option<Scalar>| match bound {
            Some(Scalar::Bytes(bytes)) => Some(bytes.clone()),
            _ => None,
        };
        let before = bytes(&self.max).is_some_and(|max| max < prefix);
        let behind = bytes(&self.min).is_some_and(|min| min > prefix && !min.starts_with(&prefix));
        if before || behind { Verdict::None } else { Verdict::Some }
    }
}

impl Standing {
    fn less(&self) -> Verdict {
        Verdict::of(self.min.is_some_and(Ordering::is_ge), self.max.is_some_and(Ordering::is_lt))
    }

    fn at_least(&self) -> Verdict {
        Verdict::of(self.max.is_some_and(Ordering::is_lt), self.min.is_some_and(Ordering::is_ge))
    }

    fn greater(&self) -> Verdict {
        Verdict::of(self.max.is_some_and(Ordering::is_le), self.min.is_some_and(Ordering::is_gt))
    }

    fn at_most(&self) -> Verdict {
        Verdict::of(self.min.is_some_and(Ordering::is_gt), self.max.is_some_and(Ordering::is_le))
    }

    fn equal(&self) -> Verdict {
        let apart = self.min.is_some_and(Ordering::is_gt) || self.max.is_some_and(Ordering::is_lt);
        Verdict::of(apart, self.min.is_some_and(Ordering::is_eq) && self.max.is_some_and(Ordering::is_eq))
    }
}

pub(super) fn scalar(value: &ZoneValue) -> Scalar {
    match value {
        ZoneValue::Bool(value) => Scalar::Bool(*value),
        ZoneValue::Int(value) => Scalar::Int(*value),
        ZoneValue::UInt(value) => Scalar::Int(i128::from(*value)),
        ZoneValue::I256(value) => wide(*value),
        ZoneValue::Float(value) => Scalar::Float(*value),
        ZoneValue::Bytes(bytes) => Scalar::Bytes(bytes.clone()),
    }
}
