//! What reading yields: which Arrow types, and which form of byte strings to decode into for them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, UnionMode};
use entasis_encoding::{BytesForm, Decoded, DecodedValues, Fixed, Physical};

use super::{is_plain, physical_of};
use crate::Result;

/// How strings and binaries come out of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strings {
    /// As the types of the file say.
    #[default]
    AsStored,
    /// As views: values are lent by blocks where they can be.
    Views,
    /// With offsets instead of views; offsets keep their width.
    Offsets,
}

/// The type that a column of `data_type` comes out as. The mapping reaches into lists, maps, structs, unions and run-end
/// encoded values; dictionaries and fixed-size binaries stay what they are.
pub fn target_type(data_type: &DataType, strings: Strings) -> DataType {
    let mapped = |field: &FieldRef| Arc::new(target_field(field, strings));
    match (data_type, strings) {
        (DataType::Utf8 | DataType::LargeUtf8, Strings::Views) => DataType::Utf8View,
        (DataType::Binary | DataType::LargeBinary, Strings::Views) => DataType::BinaryView,
        (DataType::Utf8View, Strings::Offsets) => DataType::Utf8,
        (DataType::BinaryView, Strings::Offsets) => DataType::Binary,
        (DataType::List(item), _) => DataType::List(mapped(item)),
        (DataType::LargeList(item), _) => DataType::LargeList(mapped(item)),
        (DataType::FixedSizeList(item, size), _) => DataType::FixedSizeList(mapped(item), *size),
        (DataType::ListView(item), _) => DataType::ListView(mapped(item)),
        (DataType::LargeListView(item), _) => DataType::LargeListView(mapped(item)),
        (DataType::Struct(fields), _) => DataType::Struct(fields.iter().map(mapped).collect()),
        (DataType::Map(entries, is_sorted), _) => DataType::Map(mapped(entries), *is_sorted),
        (DataType::RunEndEncoded(run_ends, values), _) => DataType::RunEndEncoded(run_ends.clone(), mapped(values)),
        (DataType::Union(fields, mode), _) => {
            DataType::Union(fields.iter().map(|(id, field)| (id, mapped(field))).collect(), *mode)
        }
        (other, _) => other.clone(),
    }
}

/// A field with the type of [`target_type`]; name, nullability and metadata stay.
pub fn target_field(field: &Field, strings: Strings) -> Field {
    field.clone().with_data_type(target_type(field.data_type(), strings))
}

/// The form that byte strings are decoded into for a type without children; for others, and for types without byte
/// strings, any form will do. Dictionaries are rebuilt from views, which are the cheapest to tell apart.
pub fn bytes_form_of(data_type: &DataType) -> BytesForm {
    match data_type {
        DataType::LargeUtf8 | DataType::LargeBinary => BytesForm::Offsets64,
        DataType::Utf8View | DataType::BinaryView | DataType::Dictionary(..) => BytesForm::Views,
        _ => BytesForm::Offsets32,
    }
}

/// What to decode into for [`to_arrow`](super::to_arrow): every node of byte strings has the form that its type needs.
pub fn empty_decoded(data_type: &DataType) -> Result<Decoded> {
    let physical = physical_of(data_type)?;
    let values = match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => empty_list(item)?,
        DataType::RunEndEncoded(_, values) => return empty_decoded(values.data_type()),
        DataType::Dictionary(_, value) if !is_plain(data_type) => return empty_decoded(value),
        DataType::Union(fields, mode) => {
            let ids = Decoded::new(&Physical::Fixed(Fixed::U8), BytesForm::default());
            let child = |field: &FieldRef| match mode {
                UnionMode::Sparse => empty_decoded(field.data_type()),
                UnionMode::Dense => Ok(Decoded { rows: 0, validity: None, values: empty_list(field)? }),
            };
            let children = fields.iter().map(|(_, field)| child(field));
            DecodedValues::Struct([Ok(ids)].into_iter().chain(children).collect::<Result<_>>()?)
        }
        DataType::FixedSizeList(item, size) => {
            DecodedValues::FixedList(*size as u32, Box::new(empty_decoded(item.data_type())?))
        }
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| empty_decoded(field.data_type()));
            DecodedValues::Struct(fields.collect::<Result<_>>()?)
        }
        _ => return Ok(Decoded::new(&physical, bytes_form_of(data_type))),
    };
    Ok(Decoded { rows: 0, validity: None, values })
}

fn empty_list(item: &Field) -> Result<DecodedValues> {
    Ok(DecodedValues::List(vec![0], Box::new(empty_decoded(item.data_type())?)))
}

#[cfg(test)]
mod tests {
    use arrow_schema::UnionFields;
    use entasis_encoding::DecodedBytes;

    use super::*;

    fn list(item: DataType) -> DataType {
        DataType::LargeList(Arc::new(Field::new("item", item, false)))
    }

    #[test]
    fn strings_are_mapped_at_any_depth() {
        let nested = |text: DataType, bytes: DataType| {
            let fields = vec![Field::new("t", text, true), Field::new("b", bytes, false)];
            list(DataType::FixedSizeList(Arc::new(Field::new("f", DataType::Struct(fields.into()), true)), 3))
        };
        let stored = nested(DataType::LargeUtf8, DataType::Binary);
        assert_eq!(target_type(&stored, Strings::AsStored), stored);
        assert_eq!(target_type(&stored, Strings::Offsets), stored);
        let views = nested(DataType::Utf8View, DataType::BinaryView);
        assert_eq!(target_type(&stored, Strings::Views), views);
        assert_eq!(target_type(&views, Strings::Offsets), nested(DataType::Utf8, DataType::Binary));
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        assert_eq!(target_type(&dictionary, Strings::Views), dictionary);
        let field = |data_type| Arc::new(Field::new("f", data_type, false));
        let others = |text: DataType| {
            let entries = DataType::Struct(vec![field(text.clone()), field(text.clone())].into());
            let runs = DataType::RunEndEncoded(field(DataType::Int16), field(text.clone()));
            let fields = UnionFields::try_new([4, 2], [field(text), field(DataType::Int8)]).unwrap();
            [
                DataType::Map(field(entries), true),
                DataType::ListView(field(runs)),
                DataType::LargeListView(field(DataType::Union(fields, UnionMode::Sparse))),
            ]
        };
        for (stored, views) in others(DataType::Utf8).iter().zip(&others(DataType::Utf8View)) {
            assert_eq!(&target_type(stored, Strings::Views), views);
            assert_eq!(&target_type(views, Strings::Offsets), stored);
        }
    }

    #[test]
    fn each_node_of_byte_strings_has_its_own_form() {
        let fields = vec![Field::new("v", DataType::Utf8View, true), Field::new("l", DataType::LargeBinary, true)];
        let decoded = empty_decoded(&list(DataType::Struct(fields.into()))).unwrap();
        let DecodedValues::List(offsets, child) = decoded.values else { panic!("a list") };
        assert_eq!(offsets, [0]);
        let DecodedValues::Struct(fields) = child.values else { panic!("a struct") };
        assert!(matches!(fields[0].values, DecodedValues::Bytes(DecodedBytes::Views(..))));
        assert!(matches!(fields[1].values, DecodedValues::Bytes(DecodedBytes::Offsets64(..))));
    }
}
