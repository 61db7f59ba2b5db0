//! What of a value is hashed: the same for equal values, whatever order floats are compared by.

use entasis_encoding::{Column, Fixed, Lane, Physical, Scalar, U256, Values, with_lanes};
use half::f16;
use xxhash_rust::xxh3::xxh3_64;

/// Whether columns of this type can have Bloom filters.
pub fn has_filters(physical: &Physical) -> bool {
    matches!(physical, Physical::Fixed(_) | Physical::Bytes)
}

/// The hash of every value that isn't null, in the order of the rows; none for types without filters.
pub fn hashes_of(column: &Column<'_>) -> Vec<u64> {
    let is_valid = |row: &usize| column.validity.is_none_or(|validity| validity.get(*row));
    let rows = (0..column.rows).filter(is_valid);
    match &column.values {
        Values::Bytes(strings) => rows.map(|row| xxh3_64(strings[row])).collect(),
        Values::Fixed(fixed, lanes) => {
            with_lanes!(lanes, lanes => rows.map(|row| hash_of_lane(*fixed, lanes[row].widen())).collect())
        }
        Values::Null | Values::Bool(_) | Values::List(..) | Values::FixedList(..) | Values::Struct(_) => Vec::new(),
    }
}

/// The hash of the values of a column of type `physical` that equal `scalar`, in any order of floats; `None` if no value of the type does.
pub fn hash_of_scalar(scalar: &Scalar, physical: &Physical) -> Option<u64> {
    let fixed = match (physical, scalar) {
        (Physical::Bytes, Scalar::Bytes(bytes)) => return Some(xxh3_64(bytes)),
        (Physical::Fixed(fixed), _) => *fixed,
        _ => return None,
    };
    let lane = match *scalar {
        Scalar::Int(value) if !fixed.is_float() => {
            let unused_bits = 128 - 8 * fixed.size_bytes().min(16);
            U256 { low: value as u128 & u128::MAX >> unused_bits, high: 0 }
        }
        Scalar::Int256(wide) => wide,
        Scalar::Float(value) => {
            let bits = match fixed {
                Fixed::F16 => f16::from_f64(value).to_bits().into(),
                Fixed::F32 => (value as f32).to_bits().into(),
                _ => value.to_bits(),
            };
            U256 { low: bits.into(), high: 0 }
        }
        Scalar::Int(_) | Scalar::Bool(_) | Scalar::Bytes(_) => return None,
    };
    let is_same = match (Scalar::from_lane(fixed, lane), scalar) {
        (Scalar::Float(back), Scalar::Float(value)) => back == *value || (back.is_nan() && value.is_nan()),
        (back, scalar) => back == *scalar,
    };
    is_same.then(|| hash_of_lane(fixed, lane))
}

/// The hash of a lane, which is zero-extended.
fn hash_of_lane(fixed: Fixed, mut lane: U256) -> u64 {
    if fixed.is_float() {
        lane.low = canonical(fixed, lane.low);
    }
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&lane.low.to_le_bytes());
    bytes[16..].copy_from_slice(&lane.high.to_le_bytes());
    xxh3_64(&bytes[..fixed.size_bytes()])
}

/// The pattern that stands for all floats that are equal to this one in some order.
fn canonical(fixed: Fixed, bits: u128) -> u128 {
    let (infinity, quiet) = match fixed {
        Fixed::F16 => (0x7C00, 0x7E00),
        Fixed::F32 => (0x7F80_0000, 0x7FC0_0000),
        _ => (0x7FF0_0000_0000_0000, 0x7FF8_0000_0000_0000),
    };
    let sign = 1 << (fixed.size_bytes() * 8 - 1);
    match bits & !sign {
        0 => 0,
        magnitude if magnitude > infinity => quiet,
        _ => bits,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, Decimal256Array, DictionaryArray, Float16Array, Float32Array, Float64Array, Int8Array, Int64Array,
        StringViewArray, UInt16Array, types::Int8Type,
    };
    use arrow_buffer::i256;

    use super::*;
    use crate::{
        arrow::{physical_of, with_column},
        scan::scalar_of,
    };

    /// What is hashed of every value of an array, as the specification says, is what a literal of the value hashes to.
    #[test]
    fn literals_hash_as_values_do() {
        let nan = f64::from_bits(0xFFF0_0000_0000_0007);
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::from(vec![-128, -1, 0, 127])),
            Arc::new(UInt16Array::from(vec![0, 65_535])),
            Arc::new(Int64Array::from(vec![i64::MIN, -1, i64::MAX])),
            Arc::new(Decimal256Array::from(vec![i256::MIN, i256::MINUS_ONE, i256::MAX])),
            Arc::new(Float16Array::from(vec![f16::from_f32(1.5), f16::NAN, f16::NEG_ZERO])),
            Arc::new(Float32Array::from(vec![0.1, f32::INFINITY, -0.0, f32::NAN])),
            Arc::new(Float64Array::from(vec![0.1, nan, -0.0, f64::MIN_POSITIVE])),
            Arc::new(StringViewArray::from(vec!["", "a", "longer than sixteen bytes"])),
            Arc::new(DictionaryArray::<Int8Type>::from_iter(["b", "a", "b"])),
        ];
        for array in arrays {
            let physical = physical_of(array.data_type()).unwrap();
            let hashes = with_column(&array, hashes_of).unwrap();
            for (row, hash) in hashes.into_iter().enumerate() {
                let scalar = scalar_of(&*array.slice(row, 1)).unwrap();
                assert_eq!(hash_of_scalar(&scalar, &physical), Some(hash), "{scalar:?} of {}", array.data_type());
            }
        }
    }

    #[test]
    fn hashes_are_those_of_the_specification() {
        let lane = |bytes: &[u8]| Some(xxh3_64(bytes));
        let hash = |scalar, fixed| hash_of_scalar(&scalar, &Physical::Fixed(fixed));
        assert_eq!(hash(Scalar::Int(-2), Fixed::I32), lane(&[0xFE, 0xFF, 0xFF, 0xFF]));
        assert_eq!(hash(Scalar::Int(258), Fixed::U64), lane(&[2, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!(hash(Scalar::Float(-0.0), Fixed::F32), lane(&[0; 4]));
        assert_eq!(hash(Scalar::Float(-f64::NAN), Fixed::F16), lane(&[0, 0x7E]));
        assert_eq!(hash(Scalar::Float(f64::NAN), Fixed::F64), lane(&[0, 0, 0, 0, 0, 0, 0xF8, 0x7F]));
    }

    #[test]
    fn what_no_value_of_the_type_equals_has_no_hash() {
        for (scalar, fixed) in [
            (Scalar::Int(128), Fixed::I8),
            (Scalar::Int(-1), Fixed::U64),
            (Scalar::Int(1), Fixed::F64),
            (Scalar::Float(0.1), Fixed::F32),
            (Scalar::Float(1.0), Fixed::I64),
            (Scalar::Int(1), Fixed::I256),
            (Scalar::Int256(U256::default()), Fixed::I128),
            (Scalar::Bytes(vec![0]), Fixed::U8),
            (Scalar::Bool(true), Fixed::U8),
        ] {
            assert_eq!(hash_of_scalar(&scalar, &Physical::Fixed(fixed)), None, "{scalar:?} as {fixed:?}");
        }
        assert_eq!(hash_of_scalar(&Scalar::Bool(true), &Physical::Bool), None);
        assert_eq!(hash_of_scalar(&Scalar::Int(1), &Physical::Bytes), None);
    }
}
