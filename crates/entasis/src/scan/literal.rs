//! Literals: from values of Arrow types to the scalars that predicates compare with.

use arrow_array::{Array, cast::AsArray, types::*};
use arrow_buffer::i256;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use entasis_encoding::{Fixed, Scalar, U256};

/// The scalar that the only value of `array` is in predicates on columns of that very type: booleans; floats; strings and binaries as
/// bytes; integers, decimals, dates, times, timestamps and durations as integers; a dictionary's value. `None` for a null, for any
/// other type, and unless there is exactly one value.
pub fn scalar_of(array: &dyn Array) -> Option<Scalar> {
    if array.len() != 1 || array.is_null(0) {
        return None;
    }
    fn int<T: ArrowPrimitiveType<Native: Into<i128>>>(array: &dyn Array) -> Option<Scalar> {
        Some(Scalar::Int(array.as_primitive::<T>().value(0).into()))
    }
    // By their bits: widening would quiet NaNs, which changes their place in the total order.
    fn float(fixed: Fixed, bits: u64) -> Option<Scalar> {
        Some(Scalar::from_lane(fixed, U256 { low: bits.into(), high: 0 }))
    }
    match array.data_type() {
        DataType::Boolean => Some(Scalar::Bool(array.as_boolean().value(0))),
        DataType::Int8 => int::<Int8Type>(array),
        DataType::Int16 => int::<Int16Type>(array),
        DataType::Int32 => int::<Int32Type>(array),
        DataType::Int64 => int::<Int64Type>(array),
        DataType::UInt8 => int::<UInt8Type>(array),
        DataType::UInt16 => int::<UInt16Type>(array),
        DataType::UInt32 => int::<UInt32Type>(array),
        DataType::UInt64 => int::<UInt64Type>(array),
        DataType::Float16 => float(Fixed::F16, array.as_primitive::<Float16Type>().value(0).to_bits().into()),
        DataType::Float32 => float(Fixed::F32, array.as_primitive::<Float32Type>().value(0).to_bits().into()),
        DataType::Float64 => float(Fixed::F64, array.as_primitive::<Float64Type>().value(0).to_bits()),
        DataType::Date32 => int::<Date32Type>(array),
        DataType::Date64 => int::<Date64Type>(array),
        DataType::Time32(TimeUnit::Second) => int::<Time32SecondType>(array),
        DataType::Time32(_) => int::<Time32MillisecondType>(array),
        DataType::Time64(TimeUnit::Microsecond) => int::<Time64MicrosecondType>(array),
        DataType::Time64(_) => int::<Time64NanosecondType>(array),
        DataType::Timestamp(TimeUnit::Second, _) => int::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => int::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => int::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => int::<TimestampNanosecondType>(array),
        DataType::Duration(TimeUnit::Second) => int::<DurationSecondType>(array),
        DataType::Duration(TimeUnit::Millisecond) => int::<DurationMillisecondType>(array),
        DataType::Duration(TimeUnit::Microsecond) => int::<DurationMicrosecondType>(array),
        DataType::Duration(TimeUnit::Nanosecond) => int::<DurationNanosecondType>(array),
        DataType::Interval(IntervalUnit::YearMonth) => int::<IntervalYearMonthType>(array),
        DataType::Decimal32(..) => int::<Decimal32Type>(array),
        DataType::Decimal64(..) => int::<Decimal64Type>(array),
        DataType::Decimal128(..) => int::<Decimal128Type>(array),
        DataType::Decimal256(..) => Some(wide(array.as_primitive::<Decimal256Type>().value(0))),
        DataType::Utf8 => bytes(array.as_string::<i32>().value(0).as_bytes()),
        DataType::LargeUtf8 => bytes(array.as_string::<i64>().value(0).as_bytes()),
        DataType::Utf8View => bytes(array.as_string_view().value(0).as_bytes()),
        DataType::Binary => bytes(array.as_binary::<i32>().value(0)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(0)),
        DataType::BinaryView => bytes(array.as_binary_view().value(0)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(0)),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = *dictionary.normalized_keys().first()?;
            scalar_of(&*dictionary.values().slice(key, 1))
        }
        _ => None,
    }
}

fn bytes(value: &[u8]) -> Option<Scalar> {
    Some(Scalar::Bytes(value.to_vec()))
}

/// The integer that both a zone and a literal of 256 bits are.
pub(super) fn wide(value: i256) -> Scalar {
    let (low, high) = value.to_parts();
    Scalar::Int256(U256 { low, high: high as u128 })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BooleanArray, Date32Array, Decimal256Array, DictionaryArray, Float32Array, Int32Array, NullArray,
        StringViewArray, TimestampNanosecondArray, UInt64Array,
    };

    use super::*;

    #[test]
    fn literals_are_what_columns_of_their_type_hold() {
        let cases: Vec<(ArrayRef, Option<Scalar>)> = vec![
            (Arc::new(BooleanArray::from(vec![true])), Some(Scalar::Bool(true))),
            (Arc::new(UInt64Array::from(vec![u64::MAX])), Some(Scalar::Int(i128::from(u64::MAX)))),
            (Arc::new(Float32Array::from(vec![0.5])), Some(Scalar::Float(0.5))),
            (Arc::new(Date32Array::from(vec![-3])), Some(Scalar::Int(-3))),
            (Arc::new(TimestampNanosecondArray::from(vec![7]).with_timezone("UTC")), Some(Scalar::Int(7))),
            (
                Arc::new(Decimal256Array::from(vec![i256::MINUS_ONE])),
                Some(Scalar::Int256(U256 { low: u128::MAX, high: u128::MAX })),
            ),
            (Arc::new(StringViewArray::from(vec!["b"])), Some(Scalar::Bytes(b"b".to_vec()))),
            (Arc::new(DictionaryArray::<Int8Type>::from_iter(["c"])), Some(Scalar::Bytes(b"c".to_vec()))),
            (Arc::new(Int32Array::from(vec![None])), None),
            (Arc::new(Int32Array::from(vec![1, 2])), None),
            (Arc::new(NullArray::new(1)), None),
        ];
        for (array, scalar) in cases {
            assert_eq!(scalar_of(&array), scalar, "{}", array.data_type());
        }
    }
}
