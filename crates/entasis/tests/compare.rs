//! What counts as a difference, and what doesn't.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float32Array, Float64Array, Int8Array, Int32Array, LargeListArray,
    LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray, StructArray,
    types::{Int8Type, Int32Type},
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};
use entasis::compare::{Difference, first_array_difference, first_difference};

fn difference(left: &dyn Array, right: &dyn Array) -> Option<Difference> {
    let found = first_array_difference(left, right).unwrap();
    let mirrored = first_array_difference(right, left).unwrap();
    assert_eq!(found.as_ref().map(|found| found.row), mirrored.map(|found| found.row));
    found
}

#[test]
fn floats_are_compared_bit_for_bit() {
    let payload = f64::from_bits(0x7FF8_0000_0000_0001);
    let left = Float64Array::from(vec![f64::NAN, payload, -0.0]);
    assert_eq!(difference(&left, &Float64Array::from(vec![f64::NAN, payload, -0.0])), None);
    assert_eq!(difference(&left, &Float64Array::from(vec![f64::NAN, f64::NAN, -0.0])).unwrap().row, 1);
    let zeros = difference(&left, &Float64Array::from(vec![f64::NAN, payload, 0.0])).unwrap();
    assert_eq!((zeros.row, zeros.left.as_str()), (2, "-0.0 (bits 0x8000000000000000)"));
    let narrow = difference(&Float32Array::from(vec![1.5]), &Float32Array::from(vec![-1.5])).unwrap();
    assert_eq!(narrow.right, "-1.5 (bits 0xbfc00000)");
}

#[test]
fn representations_of_equal_values_are_equal() {
    let texts = vec![Some("a"), None, Some("a string longer than a view"), Some("a"), Some("")];
    let keys = Int8Array::from(vec![Some(2), Some(1), Some(0), Some(3), Some(4)]);
    let values = StringArray::from(vec![Some("a string longer than a view"), None, Some("a"), Some("a"), Some("")]);
    let arrays: [ArrayRef; 4] = [
        Arc::new(StringArray::from(texts.clone())),
        Arc::new(LargeStringArray::from(texts.clone())),
        Arc::new(StringViewArray::from(texts)),
        Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(values))),
    ];
    for left in &arrays {
        for right in &arrays {
            assert_eq!(difference(left, right), None);
            assert_eq!(difference(&left.slice(1, 3), &right.slice(1, 3)), None);
            assert_eq!(difference(&left.slice(0, 2), &right.slice(3, 2)).unwrap().row, 1);
        }
    }
    let rows = vec![Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(3)])];
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(rows.clone());
    assert_eq!(difference(&list, &LargeListArray::from_iter_primitive::<Int32Type, _, _>(rows)), None);
}

#[test]
fn values_under_nulls_do_not_count_at_any_depth() {
    let structs = |numbers: Vec<i32>, nulls: Vec<bool>| {
        let fields = Fields::from(vec![Field::new("n", DataType::Int32, true)]);
        StructArray::new(fields, vec![Arc::new(Int32Array::from(numbers))], Some(NullBuffer::from(nulls)))
    };
    let left = structs(vec![1, 2, 3], vec![true, false, true]);
    assert_eq!(difference(&left, &structs(vec![1, 9, 3], vec![true, false, true])), None);
    let inside = difference(&left, &structs(vec![1, 9, 4], vec![true, false, true])).unwrap();
    assert_eq!(inside.to_string(), "column \".n\", row 2: 3 on the left, 4 on the right");
    let nulls = difference(&left, &structs(vec![1, 2, 3], vec![true, true, true])).unwrap();
    assert_eq!((nulls.row, nulls.left.as_str(), nulls.right.as_str()), (1, "null", "a struct of 1 fields"));
    let numbers = Int32Array::new(vec![1, 2].into(), Some(NullBuffer::from(vec![true, false])));
    assert_eq!(difference(&numbers, &Int32Array::from(vec![Some(1), None])), None);
}

#[test]
fn the_first_differing_row_of_lists_is_found_whatever_their_lengths() {
    let list = |rows: Vec<Option<Vec<i32>>>| {
        let rows = rows.into_iter().map(|row| row.map(|items| items.into_iter().map(Some).collect::<Vec<_>>()));
        ListArray::from_iter_primitive::<Int32Type, _, _>(rows)
    };
    let left = list(vec![Some(vec![1, 2]), Some(vec![]), None, Some(vec![3]), Some(vec![4])]);
    let shorter = list(vec![Some(vec![1, 2]), Some(vec![]), None, Some(vec![]), Some(vec![4])]);
    let found = difference(&left, &shorter).unwrap();
    assert_eq!(found.to_string(), "column \"\", row 3: a list of 1 items on the left, a list of 0 items on the right");
    let other = list(vec![Some(vec![1, 2]), Some(vec![]), None, Some(vec![7]), Some(vec![])]);
    assert_eq!(difference(&left, &other).unwrap().to_string(), "column \"[]\", row 3: 3 on the left, 7 on the right");
    let not_null = list(vec![Some(vec![1, 2]), Some(vec![]), Some(vec![]), Some(vec![3]), Some(vec![4])]);
    assert_eq!(difference(&left, &not_null).unwrap().row, 2);
}

#[test]
fn batches_name_the_column() {
    let batch = |n: i32| {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![1, n]));
        RecordBatch::try_from_iter([("same", column.slice(0, 1)), ("n", column.slice(1, 1))]).unwrap()
    };
    assert_eq!(first_difference(&batch(2), &batch(2)).unwrap(), None);
    let found = first_difference(&batch(2), &batch(3)).unwrap().unwrap();
    let expected = Difference { column: "n".into(), row: 0, left: "2".into(), right: "3".into() };
    assert_eq!(found, expected);
}
