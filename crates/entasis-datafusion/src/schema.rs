//! One schema for files that differ: columns may be missing, in another order, or narrower.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::{Result, plan_err};
use entasis::{Strings, arrow::target_type};

/// The fields of a file as a scan yields them.
pub(crate) fn read_schema(stored: &Schema, strings: Strings) -> Schema {
    let field = |field: &FieldRef| {
        let data_type = target_type(field.data_type(), strings);
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    Schema::new(stored.fields().iter().map(field).collect::<Fields>())
}

/// How strings are read for a table: as views where its schema has any.
pub(crate) fn strings_of(table: &Schema) -> Strings {
    let has_views = |field: &FieldRef| has_views(field.data_type());
    if table.fields().iter().any(has_views) { Strings::Views } else { Strings::AsStored }
}

fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => has_views(item.data_type()),
        _ => false,
    }
}

/// A schema that holds what all of `schemas` do, each with the name of its file: columns in the order in which they come
/// first, each of the widest type; nullable where any is, or where a file lacks it. Fails for types of which none holds
/// the other's values.
pub(crate) fn merge(schemas: &[(String, Schema)]) -> Result<SchemaRef> {
    let Some(((_, first), others)) = schemas.split_first() else { return Ok(Arc::new(Schema::empty())) };
    let mut merged: Vec<FieldRef> = first.fields().iter().cloned().collect();
    for (file, schema) in others {
        if let Err(column) = merge_fields(&mut merged, schema.fields()) {
            return plan_err!("{file}: the type of column {column} and those of other files have none in common");
        }
    }
    Ok(Arc::new(Schema::new(merged)))
}

/// Adds `fields` to `merged`; the error names the column.
fn merge_fields(merged: &mut Vec<FieldRef>, fields: &Fields) -> Result<(), String> {
    let nullable = |field: &FieldRef| Arc::new(field.as_ref().clone().with_nullable(true));
    for present in merged.iter_mut() {
        let Some((_, field)) = fields.find(present.name()) else {
            *present = nullable(present);
            continue;
        };
        let data_type = match (present.data_type(), field.data_type()) {
            (DataType::Struct(one), DataType::Struct(other)) => {
                let mut inner = one.to_vec();
                merge_fields(&mut inner, other).map_err(|column| format!("{}.{column}", present.name()))?;
                DataType::Struct(inner.into())
            }
            (one, other) => wider(one, other).ok_or_else(|| format!("{} ({other})", present.name()))?.clone(),
        };
        let is_nullable = present.is_nullable() || field.is_nullable();
        *present = Arc::new(present.as_ref().clone().with_data_type(data_type).with_nullable(is_nullable));
    }
    let known = merged.len();
    for field in fields {
        if !merged[..known].iter().any(|present: &Arc<Field>| present.name() == field.name()) {
            merged.push(nullable(field));
        }
    }
    Ok(())
}

/// Whichever of two types holds all values of both.
fn wider<'a>(one: &'a DataType, other: &'a DataType) -> Option<&'a DataType> {
    if widens(one, other) {
        Some(other)
    } else if widens(other, one) {
        Some(one)
    } else {
        None
    }
}

/// Whether every value of `narrow` is one of `wide`, and in the same order: then bounds may be cast as values are.
pub(crate) fn widens(narrow: &DataType, wide: &DataType) -> bool {
    use DataType::*;
    let int_bits = |data_type: &DataType| match data_type {
        Int8 => Some((true, 8)),
        Int16 => Some((true, 16)),
        Int32 => Some((true, 32)),
        Int64 => Some((true, 64)),
        UInt8 => Some((false, 8)),
        UInt16 => Some((false, 16)),
        UInt32 => Some((false, 32)),
        UInt64 => Some((false, 64)),
        _ => None,
    };
    if narrow == wide || *narrow == Null {
        return true;
    }
    if let (Some((signed, bits)), Some((wide_signed, wide_bits))) = (int_bits(narrow), int_bits(wide)) {
        return if signed == wide_signed { bits <= wide_bits } else { wide_signed && bits < wide_bits };
    }
    if let Some((_, bits)) = int_bits(narrow) {
        return matches!(wide, Float64) && bits <= 32 || matches!(wide, Float32) && bits <= 16;
    }
    match (narrow, wide) {
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Utf8 | LargeUtf8, Utf8View) | (Utf8, LargeUtf8) => true,
        (Binary | LargeBinary, BinaryView) | (Binary, LargeBinary) => true,
        (
            Decimal32(precision, scale) | Decimal64(precision, scale) | Decimal128(precision, scale),
            Decimal64(wide_precision, wide_scale)
            | Decimal128(wide_precision, wide_scale)
            | Decimal256(wide_precision, wide_scale),
        ) => scale == wide_scale && precision <= wide_precision,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType)]) -> (String, Schema) {
        let fields: Vec<_> =
            fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), false)).collect();
        ("f.ent".to_owned(), Schema::new(fields))
    }

    #[test]
    fn schemas_are_merged_by_name_and_widened() {
        use DataType::*;
        let inner = |data_type| Struct(vec![Field::new("x", data_type, false)].into());
        let one = schema(&[("a", Int16), ("b", Utf8View), ("s", inner(Float32))]);
        let other = schema(&[("s", inner(Float64)), ("a", Int64), ("c", Boolean)]);
        let merged = merge(&[one.clone(), other]).unwrap();
        let found: Vec<_> =
            merged.fields().iter().map(|f| (f.name().as_str(), f.data_type().clone(), f.is_nullable())).collect();
        assert_eq!(
            found,
            [("a", Int64, false), ("b", Utf8View, true), ("s", inner(Float64), false), ("c", Boolean, true)]
        );
        let error = merge(&[one, schema(&[("s", inner(Utf8))])]).unwrap_err().to_string();
        assert!(error.contains("f.ent") && error.contains("s.x (Utf8)"), "{error}");
        assert_eq!(merge(&[]).unwrap().fields().len(), 0);
    }

    #[test]
    fn widening_keeps_values_and_order() {
        use DataType::*;
        assert!(widens(&UInt32, &Int64) && widens(&Int32, &Float64) && widens(&Null, &Utf8));
        assert!(
            !widens(&UInt64, &Int64) && !widens(&Int64, &Float64) && !widens(&Int32, &UInt64) && !widens(&Utf8, &Int32)
        );
        assert!(widens(&Decimal64(9, 2), &Decimal128(20, 2)) && !widens(&Decimal64(9, 2), &Decimal128(20, 3)));
    }
}
