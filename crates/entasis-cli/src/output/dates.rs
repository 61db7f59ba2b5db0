//! Arrow's date64 counts milliseconds and should hold whole days; Parquet's DATE counts days. Where the one is the other, every reader
//! is told that a column holds dates, and nothing is lost.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Schema};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The names of the columns with date64 in them.
pub fn names(schema: &Schema) -> Vec<String> {
    let dated = schema.fields().iter().filter(|field| as_days(field) != **field);
    let mut names: Vec<String> = dated.map(|field| field.name().clone()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The schema with date32, which Parquet has, for date64, which it hasn't. Dictionaries are left as they are.
pub fn schema_as_days(schema: &Schema) -> Schema {
    let fields: Vec<FieldRef> = schema.fields().iter().map(as_days).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn as_days(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Date64 => DataType::Date32,
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(as_days).collect()),
        DataType::List(item) => DataType::List(as_days(item)),
        DataType::LargeList(item) => DataType::LargeList(as_days(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(as_days(item), *size),
        DataType::Map(entries, is_sorted) => DataType::Map(as_days(entries), *is_sorted),
        _ => return field.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// Whether every date64 value is a whole day that DATE can hold. Values under nulls of structs and lists count, too: what they
/// are doesn't matter, and that they are odd is rare.
pub fn are_whole_days(batch: &RecordBatch) -> bool {
    batch.columns().iter().all(|column| data_is_whole(&column.to_data()))
}

fn data_is_whole(data: &ArrayData) -> bool {
    if data.data_type() != &DataType::Date64 {
        return data.child_data().iter().all(data_is_whole);
    }
    let is_whole = |value: i64| value % DAY_MS == 0 && i32::try_from(value / DAY_MS).is_ok();
    let values = &data.buffer::<i64>(0)[..data.len()];
    values.iter().enumerate().all(|(row, value)| data.is_null(row) || is_whole(*value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Date64Array, StructArray};

    #[test]
    fn days_are_whole_or_not_wherever_they_lie() {
        for (value, expected) in
            [(0, true), (-DAY_MS, true), (DAY_MS + 1, false), (DAY_MS << 31, false), (-(DAY_MS << 31), true)]
        {
            let days = Arc::new(Date64Array::from(vec![Some(7 * DAY_MS), Some(value), None])) as ArrayRef;
            let field = Arc::new(Field::new("d", DataType::Date64, true));
            let parent = Arc::new(StructArray::from(vec![(field, days.clone())])) as ArrayRef;
            for column in [days.slice(1, 2), parent] {
                let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
                assert_eq!(are_whole_days(&batch), expected, "{value}");
                assert_eq!(names(&batch.schema()), ["x"]);
                assert!(names(&schema_as_days(&batch.schema())).is_empty());
            }
        }
    }
}
