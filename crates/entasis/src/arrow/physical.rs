//! Which physical type holds the values of an Arrow type; see *Layouts* in `spec/file.md`.

use arrow_schema::{DataType, IntervalUnit};
use entasis_encoding::{Fixed, MAX_NESTING, Physical};

use super::plain_type;
use crate::{Error, Result};

/// The physical type of the blocks of a column. Types whose layout nests more than [`MAX_NESTING`] deep are unsupported.
pub fn physical_of(data_type: &DataType) -> Result<Physical> {
    nested_physical_of(&plain_type(data_type), MAX_NESTING)
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
        DataType::Int32
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Decimal32(..)
        | DataType::Interval(IntervalUnit::YearMonth) => Fixed::I32,
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
        DataType::Dictionary(_, value) => nested_physical_of(value, depth)?,
        _ => return Err(unsupported(data_type, "there is no physical type for it")),
    })
}

fn unsupported(data_type: &DataType, why: &str) -> Error {
    Error::Unsupported(format!("type {data_type}: {why}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, Fields, TimeUnit, UnionFields, UnionMode};

    use super::*;

    fn field(data_type: DataType) -> Arc<Field> {
        Arc::new(Field::new("item", data_type, true))
    }

    fn dictionary(value: DataType) -> DataType {
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(value))
    }

    #[test]
    fn types_are_laid_out_as_the_spec_says() {
        use Physical::{Bytes, FixedList, List, Struct};
        let item = field(DataType::Date32);
        let fixed = Physical::Fixed;
        let list = |item| List(Box::new(item));
        let runs = |values| DataType::RunEndEncoded(field(DataType::Int16), field(values));
        let entries = field(DataType::Struct(vec![field(DataType::Utf8), field(DataType::Boolean)].into()));
        let fields = UnionFields::try_new([3, 1], [item.clone(), field(DataType::Utf8)]).unwrap();
        let day_time = Struct(vec![fixed(Fixed::I32), fixed(Fixed::I32)]);
        let cases = [
            (DataType::Null, Physical::Null),
            (DataType::Boolean, Physical::Bool),
            (DataType::Timestamp(TimeUnit::Second, None), fixed(Fixed::I64)),
            (DataType::Time32(TimeUnit::Second), fixed(Fixed::I32)),
            (DataType::Decimal256(3, 1), fixed(Fixed::I256)),
            (DataType::FixedSizeBinary(3), Bytes),
            (DataType::Interval(IntervalUnit::YearMonth), fixed(Fixed::I32)),
            (DataType::Interval(IntervalUnit::DayTime), day_time.clone()),
            (
                DataType::Interval(IntervalUnit::MonthDayNano),
                Struct(vec![fixed(Fixed::I32), fixed(Fixed::I32), fixed(Fixed::I64)]),
            ),
            (dictionary(DataType::Utf8View), Bytes),
            (dictionary(DataType::Float16), fixed(Fixed::F16)),
            (dictionary(DataType::List(item.clone())), list(fixed(Fixed::I32))),
            (dictionary(dictionary(DataType::Interval(IntervalUnit::DayTime))), day_time),
            (DataType::LargeList(item.clone()), list(fixed(Fixed::I32))),
            (DataType::ListView(item.clone()), list(fixed(Fixed::I32))),
            (DataType::LargeListView(field(runs(DataType::Utf8))), list(Bytes)),
            (DataType::FixedSizeList(item, 7), FixedList(7, Box::new(fixed(Fixed::I32)))),
            (DataType::Struct(Fields::empty()), Struct(vec![])),
            (DataType::Map(entries, false), list(Struct(vec![Bytes, Physical::Bool]))),
            (runs(DataType::Boolean), Physical::Bool),
            (
                DataType::Union(fields.clone(), UnionMode::Sparse),
                Struct(vec![fixed(Fixed::U8), fixed(Fixed::I32), Bytes]),
            ),
            (
                DataType::Union(fields, UnionMode::Dense),
                Struct(vec![fixed(Fixed::U8), list(fixed(Fixed::I32)), list(Bytes)]),
            ),
        ];
        for (data_type, physical) in cases {
            assert_eq!(physical_of(&data_type).unwrap(), physical, "{data_type}");
        }
    }

    #[test]
    fn layouts_that_nest_too_deep_are_unsupported() {
        let nested = |levels: usize, wrap: &dyn Fn(DataType) -> DataType| {
            (1..levels).fold(DataType::Int8, |inner, _| wrap(inner))
        };
        let lists = |inner| DataType::ListView(field(inner));
        assert!(physical_of(&nested(MAX_NESTING, &lists)).is_ok());
        assert!(matches!(physical_of(&nested(MAX_NESTING + 1, &lists)), Err(Error::Unsupported(_))));
        let unions =
            |inner| DataType::Union(UnionFields::from_fields([Field::new("u", inner, true)]), UnionMode::Dense);
        assert!(physical_of(&nested(16, &unions)).is_ok());
        assert!(matches!(physical_of(&nested(17, &unions)), Err(Error::Unsupported(_))), "each is a struct and a list");
        let negative = DataType::FixedSizeList(field(DataType::Int8), -1);
        assert!(matches!(physical_of(&negative), Err(Error::Unsupported(_))));
    }
}
