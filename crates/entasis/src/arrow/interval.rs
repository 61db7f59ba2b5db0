//! Intervals of several numbers, as structs of them. (Months alone are lanes.)

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, IntervalDayTimeArray, IntervalMonthDayNanoArray, StructArray,
    cast::AsArray,
    types::{IntervalDayTimeType, IntervalMonthDayNanoType},
};
use arrow_buffer::{ArrowNativeType, IntervalDayTime, IntervalMonthDayNano, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, IntervalUnit};
use entasis_encoding::{Decoded, DecodedValues};

use super::output::mismatch;
use crate::{Error, Result};

/// The numbers of an interval.
pub(super) fn plain_fields(unit: IntervalUnit) -> Fields {
    let number = |name: &str, data_type| Field::new(name, data_type, false);
    match unit {
        IntervalUnit::YearMonth => vec![number("months", DataType::Int32)].into(),
        IntervalUnit::DayTime => vec![number("days", DataType::Int32), number("milliseconds", DataType::Int32)].into(),
        IntervalUnit::MonthDayNano => vec![
            number("months", DataType::Int32),
            number("days", DataType::Int32),
            number("nanoseconds", DataType::Int64),
        ]
        .into(),
    }
}

/// The numbers of intervals, side by side; zeros where there is a null.
pub(super) fn plain_array(array: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Interval(unit) = array.data_type() else {
        return Err(Error::Unsupported(format!("type {}", array.data_type())));
    };
    let columns: Vec<ArrayRef> = match unit {
        IntervalUnit::YearMonth => return Ok(array.clone()),
        IntervalUnit::DayTime => {
            let intervals = array.as_primitive::<IntervalDayTimeType>();
            let intervals = known(intervals.values(), array.nulls());
            vec![
                Arc::new(intervals.iter().map(|interval| interval.days).collect::<Int32Array>()),
                Arc::new(intervals.iter().map(|interval| interval.milliseconds).collect::<Int32Array>()),
            ]
        }
        IntervalUnit::MonthDayNano => {
            let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
            let intervals = known(intervals.values(), array.nulls());
            vec![
                Arc::new(intervals.iter().map(|interval| interval.months).collect::<Int32Array>()),
                Arc::new(intervals.iter().map(|interval| interval.days).collect::<Int32Array>()),
                Arc::new(intervals.iter().map(|interval| interval.nanoseconds).collect::<Int64Array>()),
            ]
        }
    };
    Ok(Arc::new(StructArray::try_new(plain_fields(*unit), columns, array.nulls().cloned())?))
}

/// The values, but zeros under nulls.
fn known<T: ArrowNativeType>(values: &[T], nulls: Option<&NullBuffer>) -> Vec<T> {
    let is_valid = |row| nulls.is_none_or(|nulls| nulls.is_valid(row));
    values.iter().enumerate().map(|(row, &value)| if is_valid(row) { value } else { T::default() }).collect()
}

/// Intervals of several numbers, from what was decoded of each.
pub(super) fn from_decoded(
    unit: IntervalUnit,
    fields: Vec<Decoded>,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let numbers: Vec<DecodedValues> = fields.into_iter().map(|field| field.values).collect();
    Ok(match (unit, numbers.as_slice()) {
        (IntervalUnit::DayTime, [DecodedValues::L32(days), DecodedValues::L32(milliseconds)]) => {
            expect_rows(rows, &[days.len(), milliseconds.len()])?;
            let both = days.iter().zip(milliseconds);
            let intervals: ScalarBuffer<_> =
                both.map(|(&days, &millis)| IntervalDayTime::new(days as i32, millis as i32)).collect();
            Arc::new(IntervalDayTimeArray::try_new(intervals, nulls)?)
        }
        (
            IntervalUnit::MonthDayNano,
            [DecodedValues::L32(months), DecodedValues::L32(days), DecodedValues::L64(nanoseconds)],
        ) => {
            expect_rows(rows, &[months.len(), days.len(), nanoseconds.len()])?;
            let all = months.iter().zip(days).zip(nanoseconds);
            let interval = |((&months, &days), &nanoseconds): ((&u32, &u32), &u64)| {
                IntervalMonthDayNano::new(months as i32, days as i32, nanoseconds as i64)
            };
            Arc::new(IntervalMonthDayNanoArray::try_new(all.map(interval).collect(), nulls)?)
        }
        _ => return Err(mismatch(&DecodedValues::Struct(Vec::new()), &DataType::Interval(unit))),
    })
}

fn expect_rows(rows: usize, lengths: &[usize]) -> Result<()> {
    match lengths.iter().all(|&length| length == rows) {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!("{lengths:?} numbers were decoded for {rows} intervals"))),
    }
}
