//! Predicates on one column, and the scalars that they compare with. A predicate yields its TRUE rows only: a null is in
//! neither a comparison nor its negation, which is SQL's three-valued logic without a third value.

use std::cmp::Ordering;
use std::fmt;

use half::f16;

use crate::{Fixed, U256};

/// One value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A boolean.
    Bool(bool),
    /// An integer of any width up to 128 bits.
    Int(i128),
    /// A 256-bit integer, as its two's complement.
    Int256(U256),
    /// A float of any width.
    Float(f64),
    /// A byte string.
    Bytes(Vec<u8>),
}

/// How floats compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FloatOrder {
    /// IEEE 754: NaN is neither equal to, less nor greater than anything; −0.0 equals 0.0 (PyArrow).
    #[default]
    Ieee,
    /// NaN equals NaN and is greater than every number; −0.0 equals 0.0 (DuckDB, Polars).
    NanGreatest,
    /// The total order of IEEE 754-2008 §5.10: −NaN < −∞ < … < −0.0 < 0.0 < … < ∞ < NaN (Arrow's kernels).
    Total,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Equal, Self::NotEqual, Self::Less, Self::LessOrEqual, Self::Greater, Self::GreaterOrEqual];

    /// True if a value that stands in `ordering` to the literal passes; `None` is unordered.
    pub fn holds(self, ordering: Option<Ordering>) -> bool {
        match (self, ordering) {
            (Comparison::NotEqual, None) => true,
            (_, None) => false,
            (Comparison::Equal, Some(ordering)) => ordering.is_eq(),
            (Comparison::NotEqual, Some(ordering)) => ordering.is_ne(),
            (Comparison::Less, Some(ordering)) => ordering.is_lt(),
            (Comparison::LessOrEqual, Some(ordering)) => ordering.is_le(),
            (Comparison::Greater, Some(ordering)) => ordering.is_gt(),
            (Comparison::GreaterOrEqual, Some(ordering)) => ordering.is_ge(),
        }
    }
}

/// What is asked of each value, in negation normal form: negations are other leaves, never nodes.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// The value compares so with the literal.
    Compare(Comparison, Scalar, FloatOrder),
    /// The value is one of these (`negated`: none of these).
    In {
        /// The literals.
        values: Vec<Scalar>,
        /// NOT IN.
        negated: bool,
        /// How floats compare.
        order: FloatOrder,
    },
    /// low ≤ value ≤ high (`negated`: value < low or value > high).
    Between {
        /// The least that passes.
        low: Scalar,
        /// The greatest that passes.
        high: Scalar,
        /// NOT BETWEEN.
        negated: bool,
        /// How floats compare.
        order: FloatOrder,
    },
    /// The byte string is as the pattern says.
    Like(Like),
    /// The value is null.
    IsNull,
    /// The value isn't null.
    IsNotNull,
}

/// SQL's LIKE: `%` stands for any number of characters, `_` for one. A character is a sequence of UTF-8, or a byte that begins none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Like {
    /// The pattern, as UTF-8.
    pub pattern: Vec<u8>,
    /// The byte that makes the next one of the pattern stand for itself.
    pub escape: Option<u8>,
    /// NOT LIKE.
    pub negated: bool,
}

impl Like {
    fn matches(&self, pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [escape, rest @ ..] if self.escape == Some(*escape) => {
                let (literal, rest) = rest.split_first().unwrap_or((escape, &[]));
                text.first() == Some(literal) && self.matches(rest, &text[1..])
            }
            [b'%', rest @ ..] => {
                self.matches(rest, text) || !text.is_empty() && self.matches(pattern, &text[first_character(text)..])
            }
            [b'_', rest @ ..] => !text.is_empty() && self.matches(rest, &text[first_character(text)..]),
            [literal, rest @ ..] => text.first() == Some(literal) && self.matches(rest, &text[1..]),
        }
    }
}

/// Bytes of the character that `text`, not empty, begins with.
pub(crate) fn first_character(text: &[u8]) -> usize {
    let length = match text[0] {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return 1,
    };
    let is_whole = text.len() >= length && text[1..length].iter().all(|byte| byte & 0xC0 == 0x80);
    if is_whole { length } else { 1 }
}

impl Predicate {
    /// Whether one value passes; `None` is a null. This is the oracle that every faster evaluation is held against.
    pub fn holds(&self, value: Option<&Scalar>) -> bool {
        let Some(value) = value else { return *self == Predicate::IsNull };
        match self {
            Predicate::IsNull => false,
            Predicate::IsNotNull => true,
            Predicate::Like(like) => match value {
                Scalar::Bytes(text) => like.matches(&like.pattern, text) != like.negated,
                _ => like.negated,
            },
            Predicate::Compare(comparison, literal, order) => comparison.holds(value.compare(literal, *order)),
            Predicate::In { values, negated, order } => {
                let found = values.iter().any(|literal| value.compare(literal, *order) == Some(Ordering::Equal));
                found != *negated
            }
            Predicate::Between { low, high, negated, order } => {
                let (low, high) = (value.compare(low, *order), value.compare(high, *order));
                if *negated {
                    Comparison::Less.holds(low) || Comparison::Greater.holds(high)
                } else {
                    Comparison::GreaterOrEqual.holds(low) && Comparison::LessOrEqual.holds(high)
                }
            }
        }
    }
}

impl Scalar {
    /// How `self` stands to `other`; `None` if they are unordered or of different kinds.
    pub fn compare(&self, other: &Scalar, order: FloatOrder) -> Option<Ordering> {
        match (self, other) {
            (Scalar::Bool(left), Scalar::Bool(right)) => Some(left.cmp(right)),
            (Scalar::Int(left), Scalar::Int(right)) => Some(left.cmp(right)),
            (Scalar::Int256(left), Scalar::Int256(right)) => Some(signed_key(*left).cmp(&signed_key(*right))),
            (Scalar::Float(left), Scalar::Float(right)) => compare_floats(*left, *right, order),
            (Scalar::Bytes(left), Scalar::Bytes(right)) => Some(left.cmp(right)),
            _ => None,
        }
    }

    /// The value that a lane's bits mean.
    pub fn from_lane(fixed: Fixed, bits: U256) -> Self {
        let low = bits.low;
        match fixed {
            Fixed::U8 | Fixed::U16 | Fixed::U32 | Fixed::U64 => Scalar::Int(low as i128),
            Fixed::I8 => Scalar::Int(i128::from(low as i8)),
            Fixed::I16 => Scalar::Int(i128::from(low as i16)),
            Fixed::I32 => Scalar::Int(i128::from(low as i32)),
            Fixed::I64 => Scalar::Int(i128::from(low as i64)),
            Fixed::I128 => Scalar::Int(low as i128),
            Fixed::I256 => Scalar::Int256(bits),
            Fixed::F16 => {
                let value = f16::from_bits(low as u16);
                Scalar::Float(if value.is_nan() { widen_nan(low as u64, 16, 10) } else { value.to_f64() })
            }
            Fixed::F32 => {
                let value = f32::from_bits(low as u32);
                Scalar::Float(if value.is_nan() { widen_nan(low as u64, 32, 23) } else { f64::from(value) })
            }
            Fixed::F64 => Scalar::Float(f64::from_bits(low as u64)),
        }
    }
}

/// The NaN whose payload begins with that of a narrower one. Processors set its quiet bit, which would change its place in the total
/// order.
fn widen_nan(pattern: u64, bits: u32, payload_bits: u32) -> f64 {
    let payload = pattern & ((1 << payload_bits) - 1);
    f64::from_bits(pattern >> (bits - 1) << 63 | 0x7FF << 52 | payload << (52 - payload_bits))
}

/// 256-bit two's complement as something that compares as the number does.
fn signed_key(value: U256) -> (i128, u128) {
    (value.high as i128, value.low)
}

fn compare_floats(left: f64, right: f64, order: FloatOrder) -> Option<Ordering> {
    match order {
        FloatOrder::Ieee => left.partial_cmp(&right),
        FloatOrder::Total => Some(left.total_cmp(&right)),
        FloatOrder::NanGreatest => Some(left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))),
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "<>",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        })
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(value) => write!(f, "{value}"),
            Scalar::Int(value) => write!(f, "{value}"),
            Scalar::Int256(value) => write!(f, "0x{:032x}{:032x}", value.high, value.low),
            Scalar::Float(value) => write!(f, "{value:?}"),
            Scalar::Bytes(bytes) => write_bytes(bytes, f),
        }
    }
}

/// As SQL would say it behind the column's name; long lists are cut.
impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let not = |negated: &bool| if *negated { "NOT " } else { "" };
        match self {
            Predicate::Compare(comparison, literal, _) => write!(f, "{comparison} {literal}"),
            Predicate::In { values, negated, .. } => {
                write!(f, "{}IN (", not(negated))?;
                for (index, value) in values.iter().take(SHOWN).enumerate() {
                    write!(f, "{}{value}", if index > 0 { ", " } else { "" })?;
                }
                match values.len().saturating_sub(SHOWN) {
                    0 => f.write_str(")"),
                    more => write!(f, ", and {more} more)"),
                }
            }
            Predicate::Between { low, high, negated, .. } => write!(f, "{}BETWEEN {low} AND {high}", not(negated)),
            Predicate::Like(like) => {
                write!(f, "{}LIKE ", not(&like.negated))?;
                write_bytes(&like.pattern, f)
            }
            Predicate::IsNull => f.write_str("IS NULL"),
            Predicate::IsNotNull => f.write_str("IS NOT NULL"),
        }
    }
}

/// Text in quotes, anything else as hexadecimal digits.
fn write_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match std::str::from_utf8(bytes) {
        Ok(text) => write!(f, "'{}'", text.replace('\'', "''")),
        Err(_) => {
            f.write_str("x'")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("'")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_in_neither_a_leaf_nor_its_negation() {
        for negated in [false, true] {
            let order = FloatOrder::Ieee;
            let (low, high) = (Scalar::Int(1), Scalar::Int(2));
            assert!(!Predicate::In { values: vec![low.clone()], negated, order }.holds(None));
            assert!(!Predicate::Between { low, high, negated, order }.holds(None));
        }
        assert!(Predicate::IsNull.holds(None));
        assert!(!Predicate::IsNotNull.holds(None));
    }

    #[test]
    fn predicates_are_shown_as_sql_would() {
        let order = FloatOrder::Ieee;
        let text = |text: &str| Scalar::Bytes(text.into());
        let shown = |predicate: Predicate| predicate.to_string();
        assert_eq!(shown(Predicate::Compare(Comparison::NotEqual, text("it's"), order)), "<> 'it''s'");
        assert_eq!(shown(Predicate::Compare(Comparison::Less, Scalar::Bytes(vec![0xFF, 1]), order)), "< x'ff01'");
        let values = (0..10).map(Scalar::Int).collect();
        let some = "NOT IN (0, 1, 2, 3, 4, 5, 6, 7, and 2 more)";
        assert_eq!(shown(Predicate::In { values, negated: true, order }), some);
        let (low, high) = (Scalar::Float(-0.0), Scalar::Float(1.5));
        assert_eq!(shown(Predicate::Between { low, high, negated: false, order }), "BETWEEN -0.0 AND 1.5");
    }

    #[test]
    fn float_orders_differ_where_they_should() {
        let (nan, zero, minus) = (Scalar::Float(f64::NAN), Scalar::Float(0.0), Scalar::Float(-0.0));
        let compare = |left: &Scalar, right: &Scalar| {
            [FloatOrder::Ieee, FloatOrder::NanGreatest, FloatOrder::Total].map(|order| left.compare(right, order))
        };
        use Ordering::{Equal, Greater, Less};
        assert_eq!(compare(&nan, &zero), [None, Some(Greater), Some(Greater)]);
        assert_eq!(compare(&nan, &nan), [None, Some(Equal), Some(Equal)]);
        assert_eq!(compare(&minus, &zero), [Some(Equal), Some(Equal), Some(Less)]);
        let different = Predicate::Compare(Comparison::NotEqual, zero, FloatOrder::Ieee);
        assert!(different.holds(Some(&nan)));
    }

    #[test]
    fn wide_integers_compare_as_signed() {
        let minus_one = Scalar::Int256(U256 { low: u128::MAX, high: u128::MAX });
        assert_eq!(minus_one.compare(&Scalar::Int256(U256::default()), FloatOrder::Ieee), Some(Ordering::Less));
    }
}
