//! Layouts that blocks don't have: what comes back has the source's schema and values, as Arrow's own display, `cast`,
//! `take` and `concat` see them, in one form for each value (*Layouts* in `spec/file.md`).

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int16Array, Int32Array, Int64Array, IntervalDayTimeArray,
    ListViewArray, RecordBatch, RunArray, StringArray, UInt64Array, UnionArray,
    cast::AsArray,
    types::{Int8Type, Int16Type, Int32Type, IntervalDayTimeType},
};
use arrow_buffer::{IntervalDayTime, NullBuffer};
use arrow_cast::{
    cast,
    display::{ArrayFormatter, FormatOptions},
};
use arrow_schema::{DataType, Field, IntervalUnit, Schema, UnionFields, UnionMode};
use bytes::Bytes;
use common::{assert_same, read_all, write};
use entasis::{
    Projection, ReadRequest, Reader, Strings, WriteOptions,
    arrow::{plain_array, plain_type},
    compare::first_array_difference,
    generate::{Generator, flat_types, nested_types},
};

fn table(field: Field, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap()
}

fn column(array: &ArrayRef) -> RecordBatch {
    table(Field::new("column", array.data_type().clone(), true), array.clone())
}

fn written(batch: &RecordBatch) -> Bytes {
    let options = WriteOptions { row_group_rows: 1_500, ..WriteOptions::default() };
    write(&batch.schema(), std::slice::from_ref(batch), options)
}

/// The rows as Arrow shows them: no code of this crate has a part in it.
fn texts(array: &dyn Array) -> Vec<String> {
    let options = FormatOptions::default().with_null("∅").with_display_error(true);
    let formatter = ArrayFormatter::try_new(array, &options).unwrap();
    (0..array.len()).map(|row| formatter.value(row).to_string()).collect()
}

fn all_types() -> impl Iterator<Item = DataType> {
    let dictionary = |key, value| DataType::Dictionary(Box::new(key), Box::new(value));
    let twice = dictionary(DataType::Int16, dictionary(DataType::Int32, DataType::Utf8View));
    nested_types().into_iter().chain(flat_types()).chain([twice]).chain(unions_of_shared_values())
}

/// Sparse unions of intervals and structs, some in dictionaries and runs: something lies under their nulls.
fn unions_of_shared_values() -> impl Iterator<Item = DataType> {
    let nullable = |data_type| Arc::new(Field::new("item", data_type, true));
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let pair = DataType::Struct(vec![nullable(DataType::Int32), nullable(DataType::Utf8)].into());
    let values = [interval.clone(), pair, DataType::List(nullable(interval))];
    values.into_iter().flat_map(move |value| {
        let run_ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
        let shared = [
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(value.clone())),
            DataType::RunEndEncoded(run_ends, nullable(value.clone())),
        ];
        let fields = [value].into_iter().chain(shared.clone()).map(|value| Field::new("child", value, true));
        shared.into_iter().chain([DataType::Union(UnionFields::from_fields(fields), UnionMode::Sparse)])
    })
}

#[test]
fn arrow_shows_the_same_rows_of_every_type() {
    // Named time zones aren't known to Arrow's display here.
    let shown = all_types().filter(|data_type| !data_type.to_string().contains("Europe/Berlin"));
    for (index, data_type) in shown.enumerate() {
        for (round, rows) in [0, 1, 100, 2_000].into_iter().enumerate() {
            let mut generator = Generator::new((index * 10 + round) as u64);
            let array = generator.array(&data_type, rows);
            let (batch, expected) = (column(&array), texts(&array));
            let reader = Reader::from_bytes(written(&batch)).unwrap();
            assert_eq!(reader.schema().unwrap(), batch.schema());
            let read = reader.read(ReadRequest { batch_rows: 600, ..ReadRequest::default() }).unwrap();
            let read: Vec<String> = read.flat_map(|batch| texts(batch.unwrap().column(0))).collect();
            assert!(read == expected, "{data_type}, {rows} rows");
            let picked: Vec<u64> = (0..rows.min(40)).map(|_| generator.below(rows) as u64).collect();
            let taken = reader.take(&picked, &Projection::all(), Strings::AsStored).unwrap();
            let picked: Vec<&String> = picked.iter().map(|&row| &expected[row as usize]).collect();
            assert!(texts(taken.column(0)).iter().eq(picked), "{data_type}, rows of {rows}");
            taken.column(0).to_data().validate_full().unwrap();
        }
    }
}

#[test]
fn plain_arrays_show_the_same_rows_as_arrow_s_own_casts() {
    let mut generator = Generator::new(5);
    let item = Arc::new(Field::new("item", DataType::Utf8, true));
    let runs = |values: DataType| {
        let values = Field::new("values", values, true);
        DataType::RunEndEncoded(Arc::new(Field::new("run_ends", DataType::Int32, false)), Arc::new(values))
    };
    let cases = [
        (DataType::ListView(item.clone()), DataType::LargeList(item.clone())),
        (DataType::LargeListView(item.clone()), DataType::LargeList(item)),
        (runs(DataType::Int64), DataType::Int64),
        (runs(DataType::Utf8), DataType::Utf8),
        (DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Boolean)), DataType::Boolean),
    ];
    for (data_type, by_row) in cases {
        for rows in [0, 1, 64, 900] {
            let array = generator.array(&data_type, rows);
            let plain = plain_array(&array).unwrap();
            assert_eq!(plain.data_type(), &*plain_type(&data_type));
            assert_eq!(plain.len(), rows);
            let cast = cast(&array, &by_row).unwrap();
            assert_eq!(texts(&plain), texts(&cast), "{data_type}");
            assert_eq!(first_array_difference(&array, &cast).unwrap(), None, "{data_type}");
        }
    }
}

#[test]
fn arrow_s_take_and_concat_give_equal_arrays() {
    for (index, data_type) in nested_types().into_iter().enumerate() {
        let mut generator = Generator::new(index as u64);
        let array = generator.array(&data_type, 300);
        let rows = UInt64Array::from_iter_values((0..200).map(|_| generator.below(300) as u64));
        let halves = [array.slice(0, 117), array.slice(117, 183)];
        let concat = arrow_select::concat::concat(&halves.each_ref().map(|half| half.as_ref())).unwrap();
        assert_eq!(first_array_difference(&array, &concat).unwrap(), None, "{data_type}");
        if data_type.to_string().contains("FixedSizeBinary(0)") {
            continue; // Arrow's `take` loses their rows.
        }
        let taken = arrow_select::take::take(&array, &rows, None).unwrap();
        let reader = Reader::from_bytes(written(&column(&array))).unwrap();
        let own = reader.take(rows.values(), &Projection::all(), Strings::AsStored).unwrap();
        assert_eq!(first_array_difference(own.column(0), &taken).unwrap(), None, "{data_type}");
    }
}

#[test]
fn what_is_equal_has_one_form() {
    for (index, data_type) in all_types().enumerate() {
        let array = Generator::new(index as u64).array(&data_type, 700);
        let bytes = written(&column(&array));
        let read = read_all(&Reader::from_bytes(bytes.clone()).unwrap()).unwrap();
        let again = written(&read);
        assert!(bytes == again, "{data_type}: other bytes for what was read");
        let back = read_all(&Reader::from_bytes(again).unwrap()).unwrap();
        assert_same(&back, &read, &data_type.to_string());
    }
}

/// "a" twice and "b", with runs that needn't be.
fn some_runs() -> RunArray<Int16Type> {
    RunArray::try_new(&Int16Array::from(vec![1, 2, 5]), &StringArray::from(vec!["a", "a", "b"])).unwrap()
}

#[test]
fn runs_of_equal_values_become_one() {
    let runs = some_runs();
    let expected = RunArray::try_new(&Int16Array::from(vec![2, 5]), &StringArray::from(vec!["a", "b"])).unwrap();
    let read = read_all(&Reader::from_bytes(written(&column(&(Arc::new(runs) as ArrayRef)))).unwrap()).unwrap();
    let read = read.column(0).as_any().downcast_ref::<RunArray<Int16Type>>().unwrap().clone();
    assert_eq!(read.run_ends().values(), expected.run_ends().values());
    assert_eq!(read.values(), expected.values());
}

#[test]
fn batches_end_where_run_ends_would_be_too_narrow() {
    let batch = column(&(Arc::new(some_runs()) as ArrayRef));
    let schema = batch.schema();
    let batches = vec![batch; 20_000];
    let bytes = write(&schema, &batches, WriteOptions::default());
    let reader = Reader::from_bytes(bytes).unwrap();
    let rows: Vec<usize> =
        reader.read(ReadRequest::default()).unwrap().map(|batch| batch.unwrap().num_rows()).collect();
    assert_eq!(rows, [32_767, 32_767, 32_767, 1_699]);
    assert_eq!(reader.verify(&mut |_| {}).unwrap(), []);
    let too_many: Vec<u64> = (0..40_000).collect();
    let error = reader.take(&too_many, &Projection::all(), Strings::AsStored).unwrap_err().to_string();
    assert!(error.contains("read fewer rows"), "{error}");
}

#[test]
fn views_and_offsets_come_back_in_the_order_of_rows() {
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let nulls = NullBuffer::from(vec![true, true, false, true]);
    let (starts, sizes) = (vec![2, 0, 1, 1], vec![2, 3, 1, 0]);
    let items = Arc::new(Int32Array::from(vec![10, 11, 12, 13, 14]));
    let view = ListViewArray::new(item, starts.into(), sizes.into(), items, Some(nulls));
    let read = read_all(&Reader::from_bytes(written(&column(&(Arc::new(view) as ArrayRef)))).unwrap()).unwrap();
    let read = read.column(0).as_list_view::<i32>();
    assert_eq!((read.value_offsets(), read.value_sizes()), (&[0, 2, 5, 5][..], &[2, 3, 0, 0][..]));
    assert_eq!(read.values().as_ref(), &Int32Array::from(vec![12, 13, 10, 11, 12]));

    let fields = UnionFields::try_new(
        [7, 4],
        [("n", DataType::Int32), ("t", DataType::Utf8)].map(|(name, data_type)| Field::new(name, data_type, true)),
    );
    let children: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![1, 2, 3])), Arc::new(StringArray::from(vec!["x", "y"]))];
    let ids = vec![4, 7, 7, 4, 7];
    let union = UnionArray::try_new(fields.unwrap(), ids.clone().into(), Some(vec![1, 2, 0, 1, 2].into()), children);
    let read = read_all(&Reader::from_bytes(written(&column(&(Arc::new(union.unwrap()) as ArrayRef)))).unwrap());
    let read = read.unwrap().column(0).as_union().clone();
    assert_eq!((read.type_ids().as_ref(), read.offsets().unwrap().as_ref()), (&ids[..], &[0, 0, 1, 1, 2][..]));
    assert_eq!(read.child(7).as_ref(), &Int32Array::from(vec![3, 1, 3]));
    assert_eq!(read.child(4).as_ref(), &StringArray::from(vec!["y", "y"]));
}

#[test]
fn dictionaries_of_lists_hold_each_value_once() {
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let lists = ListViewArray::new(
        item.clone(),
        vec![0, 2, 0, 4].into(),
        vec![2, 2, 2, 0].into(),
        Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
        Some(NullBuffer::from(vec![true, true, true, false])),
    );
    let keys = Int8Array::from(vec![Some(1), Some(0), None, Some(2), Some(3), Some(1)]);
    let dictionary = DictionaryArray::<Int8Type>::new(keys, Arc::new(lists));
    let read = read_all(&Reader::from_bytes(written(&column(&(Arc::new(dictionary) as ArrayRef)))).unwrap()).unwrap();
    let read = read.column(0).as_dictionary::<Int8Type>();
    assert_eq!(read.keys(), &Int8Array::from(vec![Some(0), Some(1), None, Some(1), None, Some(0)]));
    let values = read.values().as_list_view::<i32>();
    assert_eq!(values.value_sizes(), [2, 2]);
    assert_eq!(values.values().as_ref(), &Int64Array::from(vec![3, 4, 1, 2]));
}

#[test]
fn dictionaries_in_lists_may_outgrow_their_keys_together() {
    let texts = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let item = Arc::new(Field::new("item", texts, true));
    for data_type in [DataType::List(item.clone()), DataType::FixedSizeList(item, 2)] {
        let schema = Arc::new(Schema::new(vec![Field::new("column", data_type.clone(), true)]));
        let batch = |first: i32| {
            let items: DictionaryArray<Int8Type> = (first..first + 100)
                .map(|number| number.to_string())
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect();
            let pairs = arrow_array::FixedSizeListArray::new(
                Arc::new(Field::new("item", items.data_type().clone(), true)),
                2,
                Arc::new(items),
                None,
            );
            RecordBatch::try_new(schema.clone(), vec![cast(&pairs, &data_type).unwrap()]).unwrap()
        };
        let batches = [batch(0), batch(100), batch(200)];
        let reader = Reader::from_bytes(write(&schema, &batches, WriteOptions::default())).unwrap();
        assert_eq!(reader.verify(&mut |_| {}).unwrap(), []);
        let read = reader.read(ReadRequest { batch_rows: 50, ..ReadRequest::default() }).unwrap();
        for (read, expected) in read.zip(&batches) {
            assert_same(&read.unwrap(), expected, "a batch");
        }
    }
}

#[test]
fn what_extension_types_say_of_themselves_comes_back_at_any_depth() {
    let tag = |name: &str| HashMap::from([("ARROW:extension:name".to_owned(), name.to_owned())]);
    let inner = Field::new("inner", DataType::FixedSizeBinary(16), true).with_metadata(tag("arrow.uuid"));
    let fields = UnionFields::from_fields([inner.clone()]);
    let types = [
        DataType::Struct(vec![inner.clone()].into()),
        DataType::ListView(Arc::new(inner.clone())),
        DataType::Union(fields, UnionMode::Dense),
        DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Struct(vec![inner.clone()].into()))),
        DataType::RunEndEncoded(Arc::new(Field::new("ends", DataType::Int64, false)), Arc::new(inner)),
    ];
    for data_type in types {
        let array = Generator::new(9).array(&data_type, 50);
        let batch = table(Field::new("outer", data_type, true).with_metadata(tag("somebody.else")), array);
        let reader = Reader::from_bytes(written(&batch)).unwrap();
        assert_eq!(reader.schema().unwrap(), batch.schema());
        let read = read_all(&reader).unwrap();
        assert_eq!(read.schema(), batch.schema());
        assert_same(&read, &batch, "outer");
    }
}

#[test]
fn intervals_keep_their_parts_and_zones_count_their_nulls() {
    let parts = [(i32::MAX, i32::MIN), (0, -1), (7, 0)].map(|(days, millis)| IntervalDayTime::new(days, millis));
    let array: ArrayRef =
        Arc::new(IntervalDayTimeArray::from_iter([Some(parts[0]), None, Some(parts[1]), Some(parts[2])]));
    let reader = Reader::from_bytes(written(&column(&array))).unwrap();
    assert_eq!(read_all(&reader).unwrap().column(0).as_primitive::<IntervalDayTimeType>(), array.as_primitive());
    let zone = &reader.column(0).unwrap().chunks[0].blocks[0].zone;
    assert_eq!((zone.null_count, &zone.min, &zone.max), (1, &None, &None));
}

#[test]
fn zones_are_those_of_the_rows() {
    let runs = RunArray::<Int32Type>::try_new(
        &Int32Array::from(vec![3, 4, 9]),
        &Int64Array::from(vec![Some(-5), None, Some(90)]),
    );
    let reader = Reader::from_bytes(written(&column(&(Arc::new(runs.unwrap()) as ArrayRef)))).unwrap();
    let zone = &reader.column(0).unwrap().chunks[0].blocks[0].zone;
    assert_eq!(zone.to_string(), "min -5, max 90, 1 nulls");
}

#[test]
fn dictionaries_of_values_without_bytes_keep_their_rows() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::FixedSizeBinary(0)));
    let data_type = DataType::List(Arc::new(Field::new("item", dictionary, true)));
    let schema = Arc::new(Schema::new(vec![Field::new("column", data_type.clone(), true)]));
    let batches = [1, 2].map(|seed| column(&Generator::new(seed).array(&data_type, 300)));
    let reader = Reader::from_bytes(write(&schema, &batches, WriteOptions::default())).unwrap();
    let read = reader.read(ReadRequest { batch_rows: 300, ..ReadRequest::default() }).unwrap();
    read.zip(&batches).for_each(|(read, expected)| assert_same(&read.unwrap(), expected, "a batch"));
}
