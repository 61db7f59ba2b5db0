//! Ordered dictionaries: their values come back whole and in their order, however rows are read.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringArray, StructArray, cast::AsArray,
    types::Int8Type,
};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use common::{assert_same, collect, read_all, write};
use entasis::{Projection, ReadRequest, Reader, ScanRequest, Strings, WriteOptions};

const GRADES: [&str; 4] = ["low", "mid", "high", "never"];

fn texts<T: AsRef<str>>(values: &[T]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn ordered(value: DataType) -> Field {
    let data_type = DataType::Dictionary(DataType::Int8.into(), value.into());
    Field::new("grade", data_type, true).with_dict_is_ordered(true)
}

/// A batch of rows that refer to `values`; negative keys are nulls.
fn batch(values: &ArrayRef, keys: &[i8]) -> RecordBatch {
    let keys = Int8Array::from_iter(keys.iter().map(|&key| (key >= 0).then_some(key)));
    let array = DictionaryArray::<Int8Type>::new(keys, values.clone());
    let schema = Schema::new(vec![ordered(values.data_type().clone())]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(array)]).unwrap()
}

fn written(batches: &[RecordBatch]) -> Reader {
    let bytes: Bytes = write(&batches[0].schema(), batches, WriteOptions::default());
    let reader = Reader::from_bytes(bytes).unwrap();
    assert!(reader.verify(&mut |_| {}).unwrap().is_empty());
    reader
}

/// The dictionary of the first column.
fn categories(batch: &RecordBatch) -> ArrayRef {
    batch.column(0).as_any_dictionary().values().clone()
}

#[test]
fn every_category_comes_back_in_its_order_however_rows_are_read() {
    let whole = batch(&texts(&GRADES), &[2, -1, 0, 0, 2, 1, -1, 2]);
    let reader = written(std::slice::from_ref(&whole));
    let read = read_all(&reader).unwrap();
    assert_eq!(read.column(0).to_data(), whole.column(0).to_data(), "keys and values, not only rows");
    assert_eq!(read.schema(), whole.schema());

    let rows = |rows| ReadRequest { rows: Some(rows), ..ReadRequest::default() };
    let some = collect(reader.read(rows(4..5)).unwrap()).unwrap();
    assert_eq!(some.column(0).to_data(), whole.column(0).slice(4, 1).to_data());
    let taken = reader.take(&[7, 2, 7], &Projection::all(), Strings::AsStored).unwrap();
    assert_same(&taken, &batch(&texts(&GRADES), &[2, 0, 2]), "taken");
    assert_eq!(categories(&taken).as_ref(), texts(&GRADES).as_ref());
    let scanned = reader.scan(ScanRequest::default()).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(scanned.len(), 1);
    assert_eq!(categories(&scanned[0]).as_ref(), texts(&GRADES).as_ref());
}

#[test]
fn batches_may_bring_other_dictionaries() {
    let (first, second) = (texts(&["low", "high"]), texts(&["high", "low", "highest"]));
    let batches = [batch(&first, &[1, 0]), batch(&second, &[0, 2, 1]), batch(&first, &[0])];
    let reader = written(&batches);
    let read = read_all(&reader).unwrap();
    let expected = texts(&["low", "high", "highest"]);
    assert_same(&read, &batch(&expected, &[1, 0, 1, 2, 0, 0]), "values");
    assert_eq!(categories(&read).as_ref(), expected.as_ref(), "the first order holds, what is new follows");

    let twice_and_null: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("b")]));
    let read = read_all(&written(&[batch(&twice_and_null, &[3, 1, 2, 0])])).unwrap();
    assert_same(&read, &batch(&texts(&["b", "a"]), &[0, -1, 1, 0]), "values");
    assert_eq!(categories(&read).as_ref(), texts(&["b", "a"]).as_ref());
}

#[test]
fn categories_are_of_any_type_and_at_any_depth_of_structs() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 0, i64::MIN]));
    let read = read_all(&written(&[batch(&numbers, &[1, 1, -1])])).unwrap();
    assert_eq!(categories(&read).as_ref(), numbers.as_ref());

    let bounds = |name: &str, values: [i64; 3]| {
        let field = Arc::new(Field::new(name, DataType::Int64, true));
        (field, Arc::new(Int64Array::from(values.to_vec())) as ArrayRef)
    };
    let intervals: ArrayRef =
        Arc::new(StructArray::from(vec![bounds("left", [20, 0, 10]), bounds("right", [30, 10, 20])]));
    let inner = batch(&intervals, &[2, -1, 2, 0]);
    let nested = StructArray::new(inner.schema().fields().clone(), inner.columns().to_vec(), None);
    let field = Field::new("s", nested.data_type().clone(), true);
    let nested = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![Arc::new(nested)]).unwrap();
    let read = read_all(&written(std::slice::from_ref(&nested))).unwrap();
    assert_same(&read, &nested, "intervals");
    assert_eq!(read.column(0).to_data(), nested.column(0).to_data(), "keys and values, not only rows");
}

#[test]
fn what_cannot_be_kept_costs_the_order_and_no_row() {
    let many = |first: usize| texts(&(first..first + 100).map(|value| format!("{value}")).collect::<Vec<_>>());
    let batches = [batch(&many(0), &[99, 0]), batch(&many(100), &[99, 0])];
    let reader = written(&batches);
    assert!(reader.column(0).unwrap().categories.is_empty(), "200 are more than keys of eight bits can tell apart");
    let read = read_all(&reader).unwrap();
    assert_eq!(categories(&read).as_ref(), texts(&["99", "0", "199", "100"]).as_ref());

    let large = "large value ".repeat(2_000);
    let reader = written(&[batch(&texts(&[&large, "small"]), &[1, 0])]);
    assert!(reader.column(0).unwrap().categories.is_empty());
    assert_eq!(categories(&read_all(&reader).unwrap()).as_ref(), texts(&["small", &large]).as_ref());

    let field = Field::clone(&ordered(DataType::Utf8)).with_dict_is_ordered(false);
    let unordered = batch(&texts(&GRADES), &[2, 0]);
    let unordered = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), unordered.columns().to_vec()).unwrap();
    assert_eq!(categories(&read_all(&written(&[unordered])).unwrap()).as_ref(), texts(&["high", "low"]).as_ref());
}

#[test]
fn how_batches_cut_rows_changes_no_byte() {
    let keys: Vec<i8> = (0..3_000).map(|row| (row % 7) as i8 - 1).map(|key| key.min(3)).collect();
    let whole = batch(&texts(&GRADES), &keys);
    let cut: Vec<_> = (0..3).map(|part| whole.slice(part * 1_000, 1_000)).collect();
    let options = WriteOptions::default;
    assert_eq!(
        write(&whole.schema(), std::slice::from_ref(&whole), options()),
        write(&whole.schema(), &cut, options())
    );
}
