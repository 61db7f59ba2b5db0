//! Kinds of columns.

use arrow_schema::DataType;
use clap::ValueEnum;

/// Kinds of columns that are compared with one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Numbers, dates and decimals, and fixed-size lists of them
    FixedWidth,
    /// Text and binary data
    Strings,
    /// Booleans, nulls, dictionaries and what is nested
    Others,
}

impl Kind {
    /// The kind of a type.
    pub fn of(data_type: &DataType) -> Self {
        use DataType as T;
        match data_type {
            T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView => Kind::Strings,
            T::FixedSizeList(item, _) if Kind::of(item.data_type()) == Kind::FixedWidth => Kind::FixedWidth,
            other if other.primitive_width().is_some() => Kind::FixedWidth,
            _ => Kind::Others,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Field;
    use std::sync::Arc;

    #[test]
    fn lists_of_fixed_size_are_as_wide_as_their_items() {
        let list = |item| DataType::FixedSizeList(Arc::new(Field::new("item", item, true)), 3);
        assert_eq!(Kind::of(&list(list(DataType::Float32))), Kind::FixedWidth);
        assert_eq!([Kind::of(&list(DataType::Utf8)), Kind::of(&DataType::Boolean)], [Kind::Others; 2]);
        assert_eq!(Kind::of(&DataType::LargeUtf8), Kind::Strings);
    }
}
