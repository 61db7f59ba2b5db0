//! What the golden files were made of. The files hold the values; this is only needed to make new ones.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::{collections::HashMap, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeListArray, Float32Array, Float64Array,
    Int8Array, Int64Array, ListArray, NullArray, RecordBatch, RecordBatchOptions, StringArray, StructArray, UInt8Array,
    UInt64Array, types::Int8Type,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, Schema};
use entasis::generate::{Generator, flat_types, nested_types};

/// Every type, with nulls and extremes.
pub fn types() -> RecordBatch {
    let mut generator = Generator::new(2026);
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let pair: Fields = vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, false)].into();
    let mut all = flat_types();
    all.extend([
        DataType::List(item(DataType::Utf8View)),
        DataType::LargeList(item(DataType::Struct(pair.clone()))),
        DataType::FixedSizeList(item(DataType::Float16), 3),
        DataType::FixedSizeList(item(DataType::List(item(DataType::Int8))), 2),
        DataType::Struct(pair),
        DataType::Struct(Fields::empty()),
    ]);
    let fields = all.into_iter().enumerate().map(|(index, data_type)| Field::new(format!("c{index}"), data_type, true));
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    generator.batch(&schema, 70)
}

/// Every layout that blocks don't have, and every way in which arrays nest.
pub fn layouts() -> RecordBatch {
    let fields = nested_types().into_iter().chain([
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
    ]);
    let fields = fields.enumerate().map(|(index, data_type)| Field::new(format!("c{index}"), data_type, true));
    let schema = Arc::new(Schema::new(fields.collect::<Fields>()));
    Generator::new(2027).batch(&schema, 60)
}

const CASCADE_ROWS: i64 = 1_300;

fn numbers() -> impl Iterator<Item = i64> {
    0..CASCADE_ROWS
}

/// Numbers that look random, by the same rule for ever.
fn noise(seed: u64) -> impl Iterator<Item = u64> {
    let mut generator = Generator::new(seed);
    std::iter::repeat_with(move || generator.next_u64())
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// What the profile `size` has encodings of its own for: more than a page and a frame of it.
pub fn size() -> RecordBatch {
    const ROWS: i64 = 8_500;
    let walk = (0..ROWS).zip(noise(6)).scan(1_700_000_000, |sum, (_, bits)| {
        *sum += 60 + (bits % 7) as i64;
        Some(*sum)
    });
    let prices = (0..ROWS).zip(noise(7)).map(|(row, bits)| (row % 50 > 0).then_some((bits % 3_000) as f64 / 100.0));
    let bytes = (0..ROWS).zip(noise(8)).map(|(_, bits)| bits.leading_zeros() as i8);
    let notes = (0..ROWS).map(|row| (row % 40 == 0).then(|| format!("note {} of quarry {}", row * row % 997, row % 7)));
    table(vec![
        ("walk", Arc::new(Int64Array::from_iter_values(walk))),
        ("prices", Arc::new(Float64Array::from_iter(prices))),
        ("bytes", Arc::new(Int8Array::from_iter_values(bytes))),
        ("notes", Arc::new(StringArray::from_iter(notes))),
    ])
}

/// What is looked up: identifiers in no order, with zeros and NaNs among the floats, and nulls.
pub fn identifiers() -> RecordBatch {
    const ROWS: usize = 2_500;
    let floats = noise(11).take(ROWS).map(|bits| match bits % 50 {
        0 => -0.0,
        1 => f64::NAN,
        _ => (bits >> 12) as f64 / 3.0,
    });
    let keys = noise(12).take(ROWS).map(|bits| (bits % 4 > 0).then(|| format!("{bits:016x}")));
    let field = Field::new("number", DataType::UInt64, false);
    let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(noise(13).take(ROWS)));
    let validity: NullBuffer = (0..ROWS).map(|row| row % 9 > 0).collect::<Vec<_>>().into();
    table(vec![
        ("float", Arc::new(Float64Array::from_iter_values(floats))),
        ("key", Arc::new(StringArray::from_iter(keys))),
        ("nested", Arc::new(StructArray::new(vec![field].into(), vec![numbers], Some(validity)))),
        ("row", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
    ])
}

/// Columns that each suit another encoding.
pub fn cascades() -> RecordBatch {
    let rows = CASCADE_ROWS as usize;
    let measured =
        |bits: u64| (1.0 + (bits >> 12) as f64 / 2f64.powi(52)) * [1.0, -64.0, 0.004, 9e9][bits as usize % 4];
    let few = ["granite", "marble", "travertine", "tuff", "limestone"];
    let words = |number: i64| format!("https://example.org/columns/{}/drum-{}.html", number * 7919 % 3001, number % 7);
    let random_text =
        noise(3).take(rows).map(|bits| (0..bits % 23).map(|at| (b'!' + ((bits >> at) % 90) as u8) as char).collect());
    let lists = OffsetBuffer::<i32>::from_lengths(numbers().map(|number| (number % 4) as usize));
    let items = *lists.last().unwrap() as i64;
    let line = |number: i64| {
        let from = (number * number % 251, number % 199);
        format!(
            "quarry-7 gate[{}]: a cart of {} passed from 10.4.{}.{}",
            1_000 + number,
            few[(number % 5) as usize],
            from.0,
            from.1
        )
    };
    let int_item = Arc::new(Field::new("item", DataType::Int64, true));
    let point: Fields = vec![Field::new("x", DataType::Int64, false), Field::new("y", DataType::Boolean, true)].into();
    let points = StructArray::new(
        point.clone(),
        vec![
            Arc::new(Int64Array::from_iter_values(0..items)),
            Arc::new(BooleanArray::from_iter((0..items).map(|n| (n % 5 > 0).then_some(n % 3 == 0)))),
        ],
        None,
    );
    let floats = Float32Array::from_iter_values((0..3 * CASCADE_ROWS).map(|number| number as f32 / 8.0));
    let float_item = Arc::new(Field::new("item", DataType::Float32, false));
    let decimals = Decimal128Array::from_iter(numbers().map(|n| (n % 9 > 0).then_some(i128::from(n * n) - 5_000)));
    let sparse = numbers().map(|number| (number % 100 == 0).then_some(number / 3));
    table(vec![
        ("measured", Arc::new(Float64Array::from_iter_values(noise(5).take(rows).map(measured)))),
        ("constant", Arc::new(Int64Array::from(vec![-7; rows]))),
        ("constant text", Arc::new(StringArray::from(vec!["entasis"; rows]))),
        ("sequence", Arc::new(Int64Array::from_iter_values(numbers().map(|number| 1_700_000_000 + 60 * number)))),
        ("runs", Arc::new(Int64Array::from_iter_values(numbers().map(|number| number / 190 * 7_777_777)))),
        (
            "walk",
            Arc::new(Int64Array::from_iter_values(numbers().scan(0, |sum, number| {
                *sum += 900_000 + number * number % 50;
                Some(*sum)
            }))),
        ),
        ("small", Arc::new(Int64Array::from_iter_values(noise(1).take(rows).map(|bits| (bits % 900) as i64)))),
        (
            "outliers",
            Arc::new(UInt64Array::from_iter_values(
                noise(2).take(rows).map(|bits| if bits % 97 == 0 { bits } else { bits % 16 }),
            )),
        ),
        ("noise", Arc::new(UInt64Array::from_iter_values(noise(5).take(rows)))),
        (
            "prices",
            Arc::new(Float64Array::from_iter_values(numbers().map(|number| (number * 7919 % 10_007) as f64 / 100.0))),
        ),
        ("few", Arc::new(StringArray::from_iter_values(numbers().map(|number| few[(number * number % 5) as usize])))),
        ("links", Arc::new(StringArray::from_iter_values(numbers().map(words)))),
        ("log", Arc::new(StringArray::from_iter_values(numbers().map(line)))),
        ("random text", Arc::new(StringArray::from_iter_values(random_text.collect::<Vec<String>>()))),
        ("decimals", Arc::new(decimals.with_precision_and_scale(30, 4).unwrap())),
        ("long runs", Arc::new(BooleanArray::from_iter(numbers().map(|number| Some(number / 400 % 2 == 0))))),
        ("coins", Arc::new(BooleanArray::from_iter(noise(4).take(rows).map(|bits| Some(bits % 2 == 0))))),
        ("sparse", Arc::new(Int64Array::from_iter(sparse))),
        (
            "points",
            Arc::new(ListArray::new(
                Arc::new(Field::new("item", DataType::Struct(point), false)),
                lists.clone(),
                Arc::new(points),
                None,
            )),
        ),
        ("lists", Arc::new(ListArray::new(int_item, lists, Arc::new(Int64Array::from_iter_values(0..items)), None))),
        ("triples", Arc::new(FixedSizeListArray::new(float_item, 3, Arc::new(floats), None))),
        ("nothing", Arc::new(NullArray::new(rows))),
    ])
}

/// Numbers that come in recurring sequences, and codes of which some are far more frequent than others.
pub fn recurring() -> RecordBatch {
    let rounds = (0..6_000i64).map(|number| number % 211).map(|stop| stop * stop * 7_919 % 4_001);
    let skewed = noise(7).take(6_000).map(|bits| (bits & bits >> 8 & bits >> 16 & bits >> 24 & 0x1F) as u8);
    table(vec![
        ("rounds", Arc::new(Int64Array::from_iter_values(rounds))),
        ("skewed", Arc::new(UInt8Array::from_iter_values(skewed))),
    ])
}

/// Two blocks in a chunk, with a dictionary in common.
pub fn shared() -> RecordBatch {
    let values =
        StringArray::from_iter_values((0..40).map(|number| format!("a value of the shared part, number {number}")));
    let keys = Int8Array::from_iter_values(noise(6).take(66_000).map(|bits| (bits % 40) as i8));
    table(vec![("shared", Arc::new(DictionaryArray::<Int8Type>::new(keys, Arc::new(values))))])
}

/// Values in the region for large values, beside small ones and nulls.
pub fn large() -> RecordBatch {
    let (long, longer) = ("drum ".repeat(3_500), "capital ".repeat(2_048));
    let text = StringArray::from(vec![Some("base"), Some(&long), None, Some(""), Some(&longer)]);
    table(vec![("text", Arc::new(text)), ("number", Arc::new(Int64Array::from_iter_values(0..5)))])
}

/// Several row groups, a struct with nulls, metadata everywhere, and columns enough for a hash index, some of one name.
pub fn groups() -> RecordBatch {
    const ROWS: i64 = 2_600;
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row / 3)));
    let inner: ArrayRef =
        Arc::new(StringArray::from_iter((0..ROWS).map(|row| (row % 7 > 0).then(|| format!("{}", row % 50)))));
    let fields: Fields =
        vec![Field::new("inner", DataType::Utf8, true), Field::new("copy", DataType::Int64, false)].into();
    let nulls: NullBuffer = (0..ROWS).map(|row| row % 11 > 0).collect();
    let nested: ArrayRef = Arc::new(StructArray::new(fields.clone(), vec![inner, number.clone()], Some(nulls)));
    let note = HashMap::from([("unit".to_owned(), "m".to_owned())]);
    let mut columns = vec![
        (Field::new("number", DataType::Int64, false).with_metadata(note), number.clone()),
        (Field::new("nested", DataType::Struct(fields), true), nested),
    ];
    for index in 0..18 {
        let name = if index % 6 == 0 { "same".to_owned() } else { format!("column {index}") };
        let array = Int8Array::from_iter((0..ROWS).map(|row| (row % 13 != index).then_some((row % 100) as i8)));
        columns.push((Field::new(name, DataType::Int8, true), Arc::new(array)));
    }
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    let metadata = HashMap::from([("origin".to_owned(), "golden".to_owned())]);
    RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, metadata)), arrays).unwrap()
}

/// Ordered dictionaries, with values that no row has.
pub fn categories() -> RecordBatch {
    let ordered = |name: &str, value: DataType| {
        let data_type = DataType::Dictionary(DataType::Int8.into(), value.into());
        Field::new(name, data_type, true).with_dict_is_ordered(true)
    };
    let keys = || Int8Array::from_iter((0..2_500).map(|row| (row % 7 != 5).then_some((row % 4) as i8)));
    let grades: ArrayRef = Arc::new(StringArray::from(vec!["poor", "fair", "good", "very good", "excellent"]));
    let limits: ArrayRef = Arc::new(Int64Array::from(vec![900, 5, -1, 70, 0]));
    let arrays: Vec<ArrayRef> =
        [grades, limits].map(|values| Arc::new(DictionaryArray::<Int8Type>::new(keys(), values)) as ArrayRef).into();
    let fields: Fields = vec![ordered("grade", DataType::Utf8), ordered("limit", DataType::Int64)].into();
    let both = StructArray::new(fields, arrays.clone(), None);
    let schema = Schema::new(vec![ordered("grade", DataType::Utf8), Field::new("s", both.data_type().clone(), false)]);
    RecordBatch::try_new(Arc::new(schema), vec![arrays[0].clone(), Arc::new(both)]).unwrap()
}

/// A table without rows.
pub fn no_rows() -> RecordBatch {
    types().slice(0, 0)
}

/// Rows without columns.
pub fn no_columns() -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(12));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap()
}
