//! Least and greatest values, from zones to text.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Decimal256Array, Int64Array, IntervalYearMonthArray,
    Time32MillisecondArray, Time32SecondArray, make_array,
};
use arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};
use entasis::zone::{Bound, Zone, ZoneValue};
use entasis::{BlockRef, ColumnRecord};

#[cfg(feature = "text")]
use crate::cells;

/// Least and greatest value of some blocks, as far as zones tell.
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// No value is less.
    pub min: Option<Shown>,
    /// No value is greater.
    pub max: Option<Shown>,
}

/// A bound as text.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The value, as its Arrow type is written.
    pub text: String,
    /// False if it is only a bound: a long string that was cut, or a zero of unknown sign.
    pub is_exact: bool,
    is_cut: bool,
}

impl Shown {
    fn new(bound: &Bound, data_type: &DataType) -> Self {
        let is_cut = !bound.is_exact && matches!(bound.value, ZoneValue::Bytes(_));
        Shown { text: text(&bound.value, data_type), is_exact: bound.is_exact, is_cut }
    }

    /// With `…` where it was cut.
    pub fn words(&self) -> String {
        if self.is_cut { format!("{}…", self.text) } else { self.text.clone() }
    }
}

/// The range of a whole column.
pub fn range(record: &ColumnRecord) -> Range {
    let blocks = || record.chunks.iter().flat_map(|chunk| &chunk.blocks).filter(|block| has_values(block));
    let data_type = record.field.data_type();
    let least = |one: &Bound, two: &Bound| two.value < one.value;
    let greatest = |one: &Bound, two: &Bound| two.value > one.value;
    Range {
        min: outermost(blocks().map(|block| block.zone.min.as_ref()), least).map(|bound| Shown::new(bound, data_type)),
        max: outermost(blocks().map(|block| block.zone.max.as_ref()), greatest)
            .map(|bound| Shown::new(bound, data_type)),
    }
}

/// The range of one block.
pub fn range_of(zone: &Zone, data_type: &DataType) -> Range {
    let shown = |bound: &Option<Bound>| bound.as_ref().map(|bound| Shown::new(bound, data_type));
    Range { min: shown(&zone.min), max: shown(&zone.max) }
}

/// Blocks of nothing but nulls and NaNs have no bounds, and need none.
pub fn has_values(block: &BlockRef) -> bool {
    block.zone.null_count + block.zone.nan_count < u64::from(block.rows)
}

/// The bound that is further out than all others; `None` if one of them is unknown.
fn outermost<'a>(
    bounds: impl Iterator<Item = Option<&'a Bound>>,
    is_further: impl Fn(&Bound, &Bound) -> bool,
) -> Option<&'a Bound> {
    let bounds: Vec<&Bound> = bounds.collect::<Option<_>>()?;
    bounds.into_iter().reduce(|one, two| if is_further(one, two) { two } else { one })
}

fn text(value: &ZoneValue, data_type: &DataType) -> String {
    let shown = array(value, data_type).and_then(|array| {
        let array = array.ok_or_else(|| ArrowError::NotYetImplemented(String::new()))?;
        first_as_written(&array)
    });
    match (shown, value, data_type) {
        (Ok(text), ..) => text,
        // Zones don't tell the sign of a zero.
        (_, ZoneValue::Float(0.0), _) => "0".to_owned(),
        (_, ZoneValue::Float(value), DataType::Float32 | DataType::Float16) => (*value as f32).to_string(),
        (_, value, _) => plain(value),
    }
}

#[cfg(feature = "text")]
fn first_as_written(array: &dyn Array) -> Result<String, ArrowError> {
    Ok(cells::formatter(array)?.value(0).to_string())
}

/// Without what writes all of Arrow's types: times of UTC or of no zone; of others the number is shown.
#[cfg(not(feature = "text"))]
fn first_as_written(array: &dyn Array) -> Result<String, ArrowError> {
    use arrow_array::temporal_conversions as times;

    let unknown = || ArrowError::NotYetImplemented(array.data_type().to_string());
    let DataType::Timestamp(unit, zone) = array.data_type() else { return Err(unknown()) };
    let suffix = match zone.as_deref() {
        None => "",
        Some("UTC" | "+00:00") => "Z",
        Some(_) => return Err(unknown()),
    };
    let number = array.to_data().buffer::<i64>(0)[0];
    let time = match unit {
        TimeUnit::Second => times::timestamp_s_to_datetime(number),
        TimeUnit::Millisecond => times::timestamp_ms_to_datetime(number),
        TimeUnit::Microsecond => times::timestamp_us_to_datetime(number),
        TimeUnit::Nanosecond => times::timestamp_ns_to_datetime(number),
    };
    time.map(|time| format!("{time:?}{suffix}")).ok_or_else(unknown)
}

/// The value without a thought of its type.
fn plain(value: &ZoneValue) -> String {
    match value {
        ZoneValue::Bool(value) => value.to_string(),
        ZoneValue::Int(value) => value.to_string(),
        ZoneValue::UInt(value) => value.to_string(),
        ZoneValue::I256(value) => value.to_string(),
        ZoneValue::Float(value) => value.to_string(),
        ZoneValue::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
        },
    }
}

/// An Arrow array with an integer in its type, for the types whose integers mean something else; `None` for all others.
fn array(value: &ZoneValue, data_type: &DataType) -> Result<Option<ArrayRef>, ArrowError> {
    let out_of_range = |_| ArrowError::InvalidArgumentError("out of the type's range".to_owned());
    let array: ArrayRef = match (value, data_type) {
        (_, DataType::Dictionary(_, values)) => return array(value, values),
        (_, DataType::RunEndEncoded(_, values)) => return array(value, values.data_type()),
        (ZoneValue::Int(value), data_type) if data_type.is_decimal() => {
            let (precision, scale) = precision_and_scale(data_type);
            Arc::new(Decimal128Array::from(vec![*value]).with_precision_and_scale(precision, scale)?)
        }
        (ZoneValue::I256(value), data_type) => {
            let (precision, scale) = precision_and_scale(data_type);
            Arc::new(Decimal256Array::from(vec![*value]).with_precision_and_scale(precision, scale)?)
        }
        (
            ZoneValue::Int(value),
            DataType::Date32 | DataType::Time32(_) | DataType::Interval(IntervalUnit::YearMonth),
        ) => {
            let value = i32::try_from(*value).map_err(out_of_range)?;
            match data_type {
                DataType::Interval(_) => Arc::new(IntervalYearMonthArray::from(vec![value])),
                DataType::Time32(TimeUnit::Second) => Arc::new(Time32SecondArray::from(vec![value])),
                DataType::Time32(_) => Arc::new(Time32MillisecondArray::from(vec![value])),
                _ => Arc::new(Date32Array::from(vec![value])),
            }
        }
        (ZoneValue::Int(value), data_type) if data_type.is_temporal() => {
            let value = Int64Array::from(vec![i64::try_from(*value).map_err(out_of_range)?]);
            make_array(value.into_data().into_builder().data_type(data_type.clone()).build()?)
        }
        _ => return Ok(None),
    };
    Ok((array.null_count() == 0).then_some(array))
}

fn precision_and_scale(data_type: &DataType) -> (u8, i8) {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        _ => (76, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "text")]
    #[test]
    fn integers_read_as_their_types() {
        let zoned = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        for (value, data_type, expected) in [
            (ZoneValue::Int(-7), DataType::Int8, "-7"),
            (ZoneValue::Int(19_844), DataType::Date32, "2024-05-01"),
            (ZoneValue::Int(1_714_521_600_000), zoned, "2024-05-01T00:00:00Z"),
            (ZoneValue::Int(123), DataType::Decimal64(10, 2), "1.23"),
            (ZoneValue::Int(15), DataType::Interval(IntervalUnit::YearMonth), "1 years 3 mons"),
            (ZoneValue::Int(3_600), DataType::Time32(TimeUnit::Second), "01:00:00"),
            (ZoneValue::Float(f64::from(23.1f32)), DataType::Float32, "23.1"),
            (ZoneValue::Float(-0.0), DataType::Float64, "0"),
            (ZoneValue::Bytes(b"abc".to_vec()), DataType::Utf8, "abc"),
            (ZoneValue::Bytes(vec![0xff, 1]), DataType::Binary, "0xff01"),
            (ZoneValue::Int(i64::MAX.into()), DataType::Date64, "9223372036854775807 ms"),
            (ZoneValue::Int(i128::MAX), DataType::Date32, "170141183460469231731687303715884105727"),
        ] {
            assert_eq!(text(&value, &data_type), expected, "{data_type}");
        }
    }

    #[test]
    fn a_cut_bound_says_so() {
        let bound = Bound { value: ZoneValue::Bytes(b"abc".to_vec()), is_exact: false };
        assert_eq!(Shown::new(&bound, &DataType::Utf8).words(), "abc…");
        assert!(outermost([None, Some(&bound)].into_iter(), |_, _| true).is_none());
    }
}
