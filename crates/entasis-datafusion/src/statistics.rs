//! What the zones of a file say about its columns, in DataFusion's words: exact only where they are.
//!
//! DataFusion orders floats totally: a NaN lies beyond both infinities, on the side of its sign. A zone leaves NaNs out,
//! so that where there are any, neither bound holds.

use std::sync::Arc;

use arrow_schema::{DataType, Schema, SortOptions, TimeUnit};
use datafusion::{
    arrow::datatypes::i256,
    common::{ColumnStatistics, Result, ScalarValue, Statistics, stats::Precision},
    physical_expr::{LexOrdering, PhysicalSortExpr, expressions::Column},
};
use entasis::{
    BlockRef, ColumnRecord,
    encoding::Scalar,
    zone::{Bound, ZoneValue},
};
use half::f16;

use crate::{opened::OpenFile, schema::widens};

/// Statistics of a file's rows for a table with the fields of `table`.
pub(crate) async fn statistics_of(file: &OpenFile, table: &Schema) -> Result<Statistics> {
    let rows = Precision::Exact(file.rows() as usize);
    let mut statistics = Statistics::default().with_num_rows(rows);
    for field in table.fields() {
        let column = match file.schema().index_of(field.name()) {
            Ok(index) => {
                let record = file.call(|reader| reader.column(index)).await?;
                column_statistics(&record, field.data_type())
            }
            // What a file lacks is null.
            Err(_) => ColumnStatistics::new_unknown().with_null_count(rows),
        };
        statistics.column_statistics.push(column);
    }
    statistics.calculate_total_byte_size(table);
    Ok(statistics)
}

/// The order of a file's rows for a table, as far as DataFusion has the same order: floats end it.
pub(crate) async fn ordering_of(file: &OpenFile, table: &Schema) -> Result<Option<LexOrdering>> {
    let mut keys = Vec::new();
    for key in file.sort_order().await? {
        let stored = file.schema().field_with_name(&key.column).map(|field| field.data_type());
        let (Ok(stored), Ok(index)) = (stored, table.index_of(&key.column)) else { break };
        if stored.is_floating() || stored.is_nested() || !widens(stored, table.field(index).data_type()) {
            break;
        }
        let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        keys.push(PhysicalSortExpr::new(Arc::new(Column::new(&key.column, index)), options));
    }
    Ok(LexOrdering::new(keys))
}

/// Statistics of a column that a table has as `wanted`.
fn column_statistics(record: &ColumnRecord, wanted: &DataType) -> ColumnStatistics {
    let stored = record.field.data_type();
    let blocks = || record.chunks.iter().flat_map(|chunk| &chunk.blocks);
    let rows: usize = blocks().map(|block| block.rows as usize).sum();
    let mut statistics = ColumnStatistics::new_unknown();
    // A null in a dictionary's values isn't counted, and of a struct only fields have values.
    if stored.is_nested() || matches!(stored, DataType::Dictionary(..) | DataType::RunEndEncoded(..) | DataType::Null) {
        return statistics;
    }
    let nulls: usize = blocks().map(|block| block.zone.null_count as usize).sum();
    statistics.null_count = Precision::Exact(nulls);
    if let Some(distinct) =
        blocks().map(|block| block.zone.distinct).reduce(|one, other| Some(one?.max(other?))).flatten()
    {
        statistics.distinct_count = Precision::Inexact(distinct as usize);
    }
    if let Some(width) = wanted.primitive_width() {
        statistics.byte_size = Precision::Exact(rows * width);
    }
    if nulls == rows || !widens(stored, wanted) || blocks().any(|block| block.zone.nan_count > 0) {
        return statistics;
    }
    let bound = |of: fn(&BlockRef) -> &Option<Bound>, keep_other: fn(&ZoneValue, &ZoneValue) -> bool| {
        let found =
            outermost(blocks().filter(|block| block.zone.null_count < u64::from(block.rows)).map(of), keep_other);
        found.and_then(|bound| precise(&bound, stored, wanted)).unwrap_or(Precision::Absent)
    };
    statistics.min_value = bound(|block| &block.zone.min, |best, other| other < best);
    statistics.max_value = bound(|block| &block.zone.max, |best, other| other > best);
    let sums = blocks().map(|block| block.zone.sum).reduce(|one, other| one?.checked_add(other?)).flatten();
    if let Some(sum) = sums.and_then(|sum| sum_value(sum, wanted)) {
        statistics.sum_value = Precision::Exact(sum);
    }
    statistics
}

/// The bound of all blocks; `None` if one of them has none. Of equal ones an exact one is kept.
fn outermost<'a>(
    bounds: impl Iterator<Item = &'a Option<Bound>>,
    is_further: fn(&ZoneValue, &ZoneValue) -> bool,
) -> Option<Bound> {
    let mut best: Option<&Bound> = None;
    for bound in bounds {
        let bound = bound.as_ref()?;
        best = match best {
            Some(best) if !is_further(&best.value, &bound.value) => {
                let is_better = bound.value == best.value && bound.is_exact;
                Some(if is_better { bound } else { best })
            }
            _ => Some(bound),
        };
    }
    best.cloned()
}

fn precise(bound: &Bound, stored: &DataType, wanted: &DataType) -> Option<Precision<ScalarValue>> {
    let value = scalar(&bound.value, stored)?;
    let value = if stored == wanted { value } else { value.cast_to(wanted).ok()? };
    Some(if bound.is_exact { Precision::Exact(value) } else { Precision::Inexact(value) })
}

/// The sum in the type that DataFusion sums integers of `data_type` in; `None` where it overflows there.
fn sum_value(sum: i128, data_type: &DataType) -> Option<ScalarValue> {
    if data_type.is_signed_integer() {
        i64::try_from(sum).ok().map(|sum| ScalarValue::Int64(Some(sum)))
    } else if data_type.is_unsigned_integer() {
        u64::try_from(sum).ok().map(|sum| ScalarValue::UInt64(Some(sum)))
    } else {
        None
    }
}

/// A zone's value as one of `data_type`; `None` for types that have no order here.
fn scalar(value: &ZoneValue, data_type: &DataType) -> Option<ScalarValue> {
    use ScalarValue as S;
    Some(match (value, data_type) {
        (ZoneValue::Bool(value), DataType::Boolean) => S::Boolean(Some(*value)),
        (ZoneValue::Int(value), _) => integer(*value, data_type)?,
        (ZoneValue::UInt(value), DataType::UInt8) => S::UInt8(Some((*value).try_into().ok()?)),
        (ZoneValue::UInt(value), DataType::UInt16) => S::UInt16(Some((*value).try_into().ok()?)),
        (ZoneValue::UInt(value), DataType::UInt32) => S::UInt32(Some((*value).try_into().ok()?)),
        (ZoneValue::UInt(value), DataType::UInt64) => S::UInt64(Some(*value)),
        (ZoneValue::I256(value), DataType::Decimal256(precision, scale)) => {
            S::Decimal256(Some(*value), *precision, *scale)
        }
        (ZoneValue::Float(value), DataType::Float16) => S::Float16(Some(f16::from_f64(*value))),
        (ZoneValue::Float(value), DataType::Float32) => S::Float32(Some(*value as f32)),
        (ZoneValue::Float(value), DataType::Float64) => S::Float64(Some(*value)),
        (ZoneValue::Bytes(bytes), DataType::Utf8) => S::Utf8(Some(String::from_utf8(bytes.clone()).ok()?)),
        (ZoneValue::Bytes(bytes), DataType::LargeUtf8) => S::LargeUtf8(Some(String::from_utf8(bytes.clone()).ok()?)),
        (ZoneValue::Bytes(bytes), DataType::Utf8View) => S::Utf8View(Some(String::from_utf8(bytes.clone()).ok()?)),
        (ZoneValue::Bytes(bytes), DataType::Binary) => S::Binary(Some(bytes.clone())),
        (ZoneValue::Bytes(bytes), DataType::LargeBinary) => S::LargeBinary(Some(bytes.clone())),
        (ZoneValue::Bytes(bytes), DataType::BinaryView) => S::BinaryView(Some(bytes.clone())),
        _ => return None,
    })
}

/// A value of a block as one of `data_type`; `None` for types that have no order here.
pub(crate) fn value_of(value: &Scalar, data_type: &DataType) -> Option<ScalarValue> {
    let value = match value {
        Scalar::Bool(value) => ZoneValue::Bool(*value),
        Scalar::Int(value) if data_type.is_unsigned_integer() => ZoneValue::UInt(u64::try_from(*value).ok()?),
        Scalar::Int(value) => ZoneValue::Int(*value),
        Scalar::Int256(value) => ZoneValue::I256(i256::from_parts(value.low, value.high as i128)),
        Scalar::Float(value) => ZoneValue::Float(*value),
        Scalar::Bytes(bytes) => ZoneValue::Bytes(bytes.clone()),
    };
    scalar(&value, data_type)
}

/// A signed integer as a value of `data_type`: an integer, a date, a time, a duration or a decimal.
fn integer(value: i128, data_type: &DataType) -> Option<ScalarValue> {
    use ScalarValue as S;
    let narrow = || i32::try_from(value).ok().map(Some);
    let wide = || i64::try_from(value).ok().map(Some);
    Some(match data_type {
        DataType::Int8 => S::Int8(Some(value.try_into().ok()?)),
        DataType::Int16 => S::Int16(Some(value.try_into().ok()?)),
        DataType::Int32 => S::Int32(narrow()?),
        DataType::Int64 => S::Int64(wide()?),
        DataType::Date32 => S::Date32(narrow()?),
        DataType::Date64 => S::Date64(wide()?),
        DataType::Time32(TimeUnit::Second) => S::Time32Second(narrow()?),
        DataType::Time32(TimeUnit::Millisecond) => S::Time32Millisecond(narrow()?),
        DataType::Time64(TimeUnit::Microsecond) => S::Time64Microsecond(wide()?),
        DataType::Time64(TimeUnit::Nanosecond) => S::Time64Nanosecond(wide()?),
        DataType::Timestamp(TimeUnit::Second, zone) => S::TimestampSecond(wide()?, zone.clone()),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => S::TimestampMillisecond(wide()?, zone.clone()),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => S::TimestampMicrosecond(wide()?, zone.clone()),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => S::TimestampNanosecond(wide()?, zone.clone()),
        DataType::Duration(TimeUnit::Second) => S::DurationSecond(wide()?),
        DataType::Duration(TimeUnit::Millisecond) => S::DurationMillisecond(wide()?),
        DataType::Duration(TimeUnit::Microsecond) => S::DurationMicrosecond(wide()?),
        DataType::Duration(TimeUnit::Nanosecond) => S::DurationNanosecond(wide()?),
        DataType::Decimal32(precision, scale) => S::Decimal32(narrow()?, *precision, *scale),
        DataType::Decimal64(precision, scale) => S::Decimal64(wide()?, *precision, *scale),
        DataType::Decimal128(precision, scale) => S::Decimal128(Some(value), *precision, *scale),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(value: i128, is_exact: bool) -> Option<Bound> {
        Some(Bound { value: ZoneValue::Int(value), is_exact })
    }

    #[test]
    fn the_outermost_bound_is_exact_where_a_block_holds_it() {
        let least = |bounds: &[Option<Bound>]| outermost(bounds.iter(), |best, other| other < best);
        assert_eq!(least(&[bound(5, true), bound(3, false), bound(4, true)]), bound(3, false));
        assert_eq!(least(&[bound(3, false), bound(3, true)]), bound(3, true));
        assert_eq!(least(&[bound(3, true), bound(3, false)]), bound(3, true));
        assert_eq!(least(&[bound(3, true), None]), None);
        assert_eq!(least(&[]), None);
    }

    #[test]
    fn bounds_are_values_of_their_type() {
        let timestamp = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let expected = ScalarValue::TimestampMillisecond(Some(7), Some("UTC".into()));
        assert_eq!(scalar(&ZoneValue::Int(7), &timestamp), Some(expected));
        assert_eq!(scalar(&ZoneValue::Int(700), &DataType::Int8), None);
        assert_eq!(scalar(&ZoneValue::Bytes(vec![0xFF]), &DataType::Utf8), None);
        assert_eq!(sum_value(1 << 70, &DataType::Int64), None);
        assert_eq!(sum_value(5, &DataType::UInt8), Some(ScalarValue::UInt64(Some(5))));
    }
}
