//! Which physical type holds the values of an Arrow type; see the end of *Types* in `spec/file.md`.

use arrow_schema::DataType;
use entasis_encoding::{Fixed, MAX_NESTING, Physical};

use crate::{Error, Result};

/// The physical type of the blocks of a column. Types that have none yet, and those that nest more than
/// [`MAX_NESTING`] deep, are unsupported: the error names them.
pub fn physical_of(data_type: &DataType) -> Result<Physical> {
    nested_physical_of(data_type, MAX_NESTING)
}

/// What the lanes of a type of fixed width are; `None` for all other types.
pub(crate) fn fixed_of(data_type: &DataType) -> Option<Fixed> {
    Some(match data_type {
        DataType::UInt8 => Fixed::U8,
        DataType::UInt16 => Fixed::U16,
        DataType::UInt32 => Fixed::U32,
        DataType::UInt64 => Fixed::U64,
        DataType::Int8 => Fixed::I8,
        DataType::Int16 => Fixed::I16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(..) => Fixed::I32,
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Decimal64(..) => Fixed::I64,
        DataType::Decimal128(..) => Fixed::I128,
        DataType::Decimal256(..) => Fixed::I256,
        DataType::Float16 => Fixed::F16,
        DataType::Float32 => Fixed::F32,
        DataType::Float64 => Fixed::F64,
        _ => return None,
    })
}

fn nested_physical_of(data_type: &DataType, depth: usize) -> Result<Physical> {
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| Error::Unsupported(format!("types that nest more than {MAX_NESTING} deep")))?;
    if let Some(fixed) = fixed_of(data_type) {
        return Ok(Physical::Fixed(fixed));
    }
    Ok(match data_type {
        DataType::Null => Physical::Null,
        DataType::Boolean => Physical::Bool,
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Physical::Bytes,
        DataType::List(item) | DataType::LargeList(item) => {
            Physical::List(Box::new(nested_physical_of(item.data_type(), depth)?))
        }
        DataType::FixedSizeList(item, size) => {
            let size = u32::try_from(*size).map_err(|_| unsupported(data_type, "its size is negative"))?;
            Physical::FixedList(size, Box::new(nested_physical_of(item.data_type(), depth)?))
        }
        DataType::Struct(fields) => Physical::Struct(
            fields.iter().map(|field| nested_physical_of(field.data_type(), depth)).collect::<Result<_>>()?,
        ),
        DataType::Dictionary(_, value) => match nested_physical_of(value, depth)? {
            flat @ (Physical::Null | Physical::Bool | Physical::Fixed(_) | Physical::Bytes)
                if !matches!(**value, DataType::Dictionary(..)) =>
            {
                flat
            }
            _ => return Err(unsupported(data_type, "dictionaries of nested values aren't stored yet")),
        },
        DataType::Map(..) => return Err(unsupported(data_type, "maps aren't stored yet")),
        DataType::Union(..) => return Err(unsupported(data_type, "unions aren't stored yet")),
        DataType::RunEndEncoded(..) => return Err(unsupported(data_type, "run-end encoded arrays aren't stored yet")),
        DataType::Interval(_) => return Err(unsupported(data_type, "intervals aren't stored yet")),
        DataType::ListView(_) | DataType::LargeListView(_) => {
            return Err(unsupported(data_type, "list views aren't stored yet; cast to a list"));
        }
        _ => return Err(unsupported(data_type, "there is no physical type for it")),
    })
}

fn unsupported(data_type: &DataType, why: &str) -> Error {
    Error::Unsupported(format!("type {data_type}: {why}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, Fields, IntervalUnit, TimeUnit, UnionFields, UnionMode};

    use super::*;

    #[test]
    fn types_are_laid_out_as_the_spec_says() {
        let item = Arc::new(Field::new("item", DataType::Date32, true));
        let dictionary = |value| DataType::Dictionary(Box::new(DataType::Int8), Box::new(value));
        let cases = [
            (DataType::Null, Physical::Null),
            (DataType::Boolean, Physical::Bool),
            (DataType::Timestamp(TimeUnit::Second, None), Physical::Fixed(Fixed::I64)),
            (DataType::Time32(TimeUnit::Second), Physical::Fixed(Fixed::I32)),
            (DataType::Decimal256(3, 1), Physical::Fixed(Fixed::I256)),
            (DataType::FixedSizeBinary(3), Physical::Bytes),
            (dictionary(DataType::Utf8View), Physical::Bytes),
            (dictionary(DataType::Float16), Physical::Fixed(Fixed::F16)),
            (DataType::LargeList(item.clone()), Physical::List(Box::new(Physical::Fixed(Fixed::I32)))),
            (DataType::FixedSizeList(item, 7), Physical::FixedList(7, Box::new(Physical::Fixed(Fixed::I32)))),
            (DataType::Struct(Fields::empty()), Physical::Struct(vec![])),
        ];
        for (data_type, physical) in cases {
            assert_eq!(physical_of(&data_type).unwrap(), physical, "{data_type}");
        }
    }

    #[test]
    fn what_has_no_blocks_yet_is_named() {
        let item = Arc::new(Field::new("item", DataType::Int8, true));
        let entries = Arc::new(Field::new("entries", DataType::Struct(vec![item.clone(), item.clone()].into()), false));
        let unsupported = [
            (DataType::Map(entries, false), "map"),
            (DataType::Union(UnionFields::empty(), UnionMode::Dense), "union"),
            (DataType::RunEndEncoded(item.clone(), item.clone()), "run-end"),
            (DataType::Interval(IntervalUnit::DayTime), "interval"),
            (DataType::ListView(item.clone()), "list view"),
            (DataType::LargeListView(item.clone()), "list view"),
            (DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::List(item))), "dictionar"),
        ];
        for (data_type, named) in unsupported {
            let inside = DataType::List(Arc::new(Field::new("item", data_type.clone(), true)));
            for data_type in [data_type, inside] {
                match physical_of(&data_type) {
                    Err(Error::Unsupported(message)) => assert!(message.contains(named), "{message}"),
                    other => panic!("{data_type} gave {other:?}"),
                }
            }
        }
    }
}
