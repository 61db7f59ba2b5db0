//! Zones: the statistics of one block, over its values that are neither null nor NaN (*Zones* in `spec/file.md`).

mod compute;
mod wire;

use arrow_buffer::i256;

/// Byte strings keep at most this many bytes in a zone.
pub const ZONE_STRING_BYTES: usize = 32;

/// A block of fewer rows has no sum: what it would save isn't worth its bytes.
pub const ZONE_SUM_ROWS: usize = 16_384;

/// The statistics of one block.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Zone {
    /// Rows that are null.
    pub null_count: u64,
    /// Rows that are NaN; they are neither in `min` nor in `max`.
    pub nan_count: u64,
    /// No value is less; `None` if there is no value, or if the type has no order here.
    pub min: Option<Bound>,
    /// No value is greater; also `None` where a long byte string has no short upper bound.
    pub max: Option<Bound>,
    /// Exact sum of the values of integers.
    pub sum: Option<i128>,
    /// Estimate of the number of distinct values.
    pub distinct: Option<u64>,
}

/// One end of the range of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The value. A zero is −0.0 in a minimum and +0.0 in a maximum.
    pub value: ZoneValue,
    /// True if the block holds this very value, down to the sign of a zero; only then it answers an aggregate.
    pub is_exact: bool,
}

/// A value of a zone. What it means is for the Arrow type to say: a date is the integer of its days.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ZoneValue {
    Bool(bool),
    /// Signed integers of 8 to 128 bits.
    Int(i128),
    /// Unsigned integers of 8 to 64 bits.
    UInt(u64),
    I256(i256),
    /// Floats of every width; widening is exact. Never NaN.
    Float(f64),
    Bytes(Vec<u8>),
}

impl Zone {
    /// The least value or a bound below it.
    pub fn min(&self) -> Option<&ZoneValue> {
        self.min.as_ref().map(|bound| &bound.value)
    }

    /// The greatest value or a bound above it.
    pub fn max(&self) -> Option<&ZoneValue> {
        self.max.as_ref().map(|bound| &bound.value)
    }
}

impl std::fmt::Display for ZoneValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ZoneValue::Bool(value) => write!(f, "{value}"),
            ZoneValue::Int(value) => write!(f, "{value}"),
            ZoneValue::UInt(value) => write!(f, "{value}"),
            ZoneValue::I256(value) => write!(f, "{value}"),
            ZoneValue::Float(value) => write!(f, "{value:?}"),
            ZoneValue::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => write!(f, "{text:?}"),
                Err(_) => {
                    f.write_str("0x")?;
                    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
                }
            },
        }
    }
}

/// In words, such as `min 1, max about 9, 3 nulls`.
impl std::fmt::Display for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let about = |bound: &Bound| if bound.is_exact { "" } else { "about " };
        let mut words = Vec::new();
        if let Some(min) = &self.min {
            words.push(format!("min {}{}", about(min), min.value));
        }
        if let Some(max) = &self.max {
            words.push(format!("max {}{}", about(max), max.value));
        }
        words.push(format!("{} nulls", self.null_count));
        if self.nan_count > 0 {
            words.push(format!("{} NaN", self.nan_count));
        }
        if let Some(sum) = self.sum {
            words.push(format!("sum {sum}"));
        }
        if let Some(distinct) = self.distinct {
            words.push(format!("about {distinct} distinct"));
        }
        f.write_str(&words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_shown_in_words() {
        let bound = |value, is_exact| Some(Bound { value, is_exact });
        let zone = Zone {
            null_count: 3,
            nan_count: 1,
            min: bound(ZoneValue::Float(-0.0), true),
            max: bound(ZoneValue::Float(2.5), false),
            sum: None,
            distinct: Some(7),
        };
        assert_eq!(zone.to_string(), "min -0.0, max about 2.5, 3 nulls, 1 NaN, about 7 distinct");
        let zone = Zone { min: bound(ZoneValue::Bytes(b"a\"".to_vec()), true), sum: Some(-1), ..Zone::default() };
        assert_eq!(zone.to_string(), "min \"a\\\"\", 0 nulls, sum -1");
        assert_eq!(ZoneValue::Bytes(vec![0xFF, 1]).to_string(), "0xff01");
    }
}
