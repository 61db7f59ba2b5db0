//! Random Arrow data from a seed, for tests and fuzz targets: every type, adversarial values, nulls, slices. Equal seeds give equal data on every machine. Not part of the crate's interface.

mod nested;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, LargeBinaryArray,
    LargeStringArray, NullArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray, StructArray,
    make_array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit};

use self::nested::can_be_without_nulls;

pub use self::nested::nested_types;

/// A source of random types and arrays.
#[derive(Debug, Clone)]
pub struct Generator {
    state: u64,
}

/// How the values of one array hang together, so that every encoding finds columns that suit it.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Constant,
    Runs,
    FewValues,
    Sequence,
    SmallRange,
    Extremes,
    Noise,
}

impl Generator {
    /// A generator whose every output depends on `seed` only.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits (SplitMix64).
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which isn't 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next_u64() % end as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }

    /// A random type, nesting at most `depth` levels below itself.
    pub fn data_type(&mut self, depth: usize) -> DataType {
        let nested = depth > 0 && self.chance(30);
        if nested { self.nested_type(depth - 1) } else { self.pick(&flat_types()) }
    }

    fn field(&mut self, name: &str, depth: usize) -> FieldRef {
        let data_type = self.data_type(depth);
        let nullable = self.chance(70) || !can_be_without_nulls(&data_type);
        // Some dictionaries are ordered, others aren't.
        let ordered = matches!(data_type, DataType::Dictionary(..)) && nullable;
        Arc::new(Field::new(name, data_type, nullable).with_dict_is_ordered(ordered))
    }

    /// A schema of `columns` random columns; some names come twice, some are empty.
    pub fn schema(&mut self, columns: usize) -> SchemaRef {
        let fields = (0..columns).map(|index| {
            let name =
                if self.chance(10) { self.pick(&["", "same", "ключ"]).to_owned() } else { format!("c{index}") };
            self.field(&name, 3)
        });
        Arc::new(Schema::new(fields.collect::<Fields>()))
    }

    /// A batch of `rows` random rows.
    pub fn batch(&mut self, schema: &SchemaRef, rows: usize) -> RecordBatch {
        let columns = schema.fields().iter().map(|field| self.array_of(field, rows)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema.clone(), columns, &options).expect("arrays are made to the schema")
    }

    /// An array of a field: without nulls if it has none. Half of them are slices of longer arrays.
    pub fn array_of(&mut self, field: &Field, rows: usize) -> ArrayRef {
        let (before, after) = if self.chance(50) { (self.below(130), self.below(70)) } else { (0, 0) };
        self.whole_array(field.data_type(), field.is_nullable(), before + rows + after).slice(before, rows)
    }

    /// An array with nulls.
    pub fn array(&mut self, data_type: &DataType, rows: usize) -> ArrayRef {
        self.array_of(&Field::new("", data_type.clone(), true), rows)
    }

    fn whole_array(&mut self, data_type: &DataType, nullable: bool, rows: usize) -> ArrayRef {
        let nulls = if nullable { self.nulls(rows) } else { None };
        match data_type {
            DataType::Null => Arc::new(NullArray::new(rows)),
            DataType::Boolean => {
                let values = self.words(rows).into_iter().map(|word| word & 1 == 1).collect::<Vec<_>>();
                Arc::new(BooleanArray::new(values.into(), nulls))
            }
            DataType::Utf8 => Arc::new(StringArray::from(masked(&self.texts(rows), nulls.as_ref()))),
            DataType::LargeUtf8 => Arc::new(LargeStringArray::from(masked(&self.texts(rows), nulls.as_ref()))),
            DataType::Utf8View => Arc::new(StringViewArray::from(masked(&self.texts(rows), nulls.as_ref()))),
            DataType::Binary => Arc::new(BinaryArray::from_iter(masked(&self.binaries(rows), nulls.as_ref()))),
            DataType::LargeBinary => {
                Arc::new(LargeBinaryArray::from_iter(masked(&self.binaries(rows), nulls.as_ref())))
            }
            DataType::BinaryView => {
                let binaries = self.binaries(rows);
                Arc::new(arrow_array::BinaryViewArray::from_iter(masked(&binaries, nulls.as_ref())))
            }
            DataType::FixedSizeBinary(size) => {
                let words = self.words(rows * *size as usize);
                let bytes: Vec<u8> = words.into_iter().map(|word| word as u8).collect();
                let array = FixedSizeBinaryArray::try_new_with_len(*size, Buffer::from_vec(bytes), nulls, rows);
                Arc::new(array.expect("as many bytes as size × rows"))
            }
            DataType::List(item) => self.list::<i32>(item, nulls, rows),
            DataType::LargeList(item) => self.list::<i64>(item, nulls, rows),
            DataType::ListView(item) => self.list_view::<i32>(item, nulls, rows),
            DataType::LargeListView(item) => self.list_view::<i64>(item, nulls, rows),
            DataType::Map(entries, is_sorted) => self.map(entries, *is_sorted, nulls, rows),
            DataType::RunEndEncoded(ends, values) => self.runs(data_type, ends, values, nullable, rows),
            DataType::Union(fields, mode) => self.union(fields, *mode, nullable, rows),
            DataType::FixedSizeList(item, size) => {
                let items = self.array_of(item, rows * *size as usize);
                let list = FixedSizeListArray::try_new_with_length(item.clone(), *size, items, nulls, rows);
                Arc::new(list.expect("as many items as size × rows"))
            }
            DataType::Struct(fields) => {
                let arrays = fields.iter().map(|field| self.array_of(field, rows)).collect();
                let array = StructArray::try_new_with_length(fields.clone(), arrays, nulls, rows);
                Arc::new(array.expect("arrays are made to the fields"))
            }
            DataType::Dictionary(key, value) => self.dictionary(data_type, key, value, nulls, rows),
            fixed => self.lanes(fixed, nulls, rows),
        }
    }

    fn nulls(&mut self, rows: usize) -> Option<NullBuffer> {
        let percent = self.pick(&[0, 0, 1, 10, 50, 99, 100]);
        (percent > 0).then(|| (0..rows).map(|_| !self.chance(percent)).collect())
    }

    fn lanes(&mut self, data_type: &DataType, nulls: Option<NullBuffer>, rows: usize) -> ArrayRef {
        let width = data_type.primitive_width().expect("a type of fixed width");
        let floats = if data_type.is_floating() && self.chance(60) { self.floats(rows) } else { Vec::new() };
        let mut bytes = Vec::with_capacity(rows * width);
        if floats.is_empty() {
            let fill = if self.chance(50) { 0xFF } else { 0 };
            for word in self.words(rows) {
                let mut wide = [if word >> 63 == 1 { fill } else { 0 }; 32];
                wide[..8].copy_from_slice(&word.to_le_bytes());
                bytes.extend_from_slice(&wide[..width]);
            }
        } else {
            for value in floats {
                match width {
                    2 => bytes.extend_from_slice(&half::f16::from_f64(value).to_le_bytes()),
                    4 => bytes.extend_from_slice(&(value as f32).to_le_bytes()),
                    _ => bytes.extend_from_slice(&value.to_le_bytes()),
                }
            }
        }
        let buffer = Buffer::from(bytes.as_slice());
        let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(buffer).nulls(nulls).build();
        make_array(data.expect("any bits are a value"))
    }

    /// Decimal numbers, as measurements are, with zeros of both signs, infinities and NaNs among them.
    fn floats(&mut self, rows: usize) -> Vec<f64> {
        let scale = self.pick(&[1.0, 10.0, 100.0, 1e6]);
        let specials = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324];
        let special_percent = self.pick(&[0, 1, 30]);
        (0..rows)
            .map(|_| {
                if self.chance(special_percent) {
                    self.pick(&specials)
                } else {
                    (self.below(200_000) as f64 - 100_000.0) / scale
                }
            })
            .collect()
    }

    /// Bit patterns of one shape.
    fn words(&mut self, rows: usize) -> Vec<u64> {
        use Shape::{Constant, Extremes, FewValues, Noise, Runs, Sequence, SmallRange};
        const EXTREMES: [u64; 14] = [
            0,
            1,
            u64::MAX,
            1 << 63,
            (1 << 63) - 1,
            1 << 31,
            (1 << 31) - 1,
            0x8000,
            0x7FFF,
            0x80,
            0x7F,
            0x7FF8_0000_0000_0001,
            0x7FC0_0001,
            0xFFF0_0000_0000_0000,
        ];
        let shape = self.pick(&[Constant, Runs, FewValues, Sequence, SmallRange, Extremes, Noise]);
        let base = if self.chance(50) { self.next_u64() } else { self.next_u64() >> 40 };
        let step = self.below(2_000) as u64;
        let (mut run_value, mut run_left) = (0, 0);
        (0..rows as u64)
            .map(|row| match shape {
                Constant => base,
                Runs => {
                    if run_left == 0 {
                        (run_value, run_left) = (self.next_u64() >> self.below(64), 1 + self.below(300));
                    }
                    run_left -= 1;
                    run_value
                }
                FewValues => base.wrapping_mul(1 + self.below(9) as u64),
                Sequence => base.wrapping_add(row.wrapping_mul(step)),
                SmallRange => base.wrapping_add(self.below(1_000) as u64),
                Extremes => self.pick(&EXTREMES),
                Noise => self.next_u64(),
            })
            .collect()
    }

    fn texts(&mut self, rows: usize) -> Vec<String> {
        let pool: Vec<String> = (0..self.pick(&[1, 5, 400])).map(|_| self.text()).collect();
        (0..rows).map(|_| if self.chance(95) { self.pick(&pool) } else { self.text() }).collect()
    }

    fn text(&mut self) -> String {
        match self.below(8) {
            0 => String::new(),
            1 => format!("{}", self.below(100_000)),
            2 => format!("https://example.org/{}/{}", self.below(20), self.next_u64()),
            3 => self.pick(&["ß", "日本語", "🜁🜂", "\u{0}", "\u{10FFFF}", "exactly12byt", "thirteenbytes"]).to_owned(),
            4 => "ü".repeat(self.below(40)),
            5 => "x".repeat(self.pick(&[31, 32, 33, 64, 255, 256])),
            6 if self.chance(2) => "large value ".repeat(1_300 + self.below(300)),
            _ => (0..self.below(24)).map(|_| char::from(b'a' + self.below(26) as u8)).collect(),
        }
    }

    fn binaries(&mut self, rows: usize) -> Vec<Vec<u8>> {
        let texts = self.texts(rows).into_iter();
        let raw_percent = self.pick(&[0, 20, 100]);
        texts
            .map(|text| {
                if self.chance(raw_percent) {
                    (0..self.below(40)).map(|_| self.pick(&[0, 0xFF, 0x80, b'a'])).collect()
                } else {
                    text.into_bytes()
                }
            })
            .collect()
    }
}

fn masked<'a, T: std::ops::Deref>(values: &'a [T], nulls: Option<&NullBuffer>) -> Vec<Option<&'a T::Target>> {
    let is_valid = |row| nulls.is_none_or(|nulls| nulls.is_valid(row));
    values.iter().enumerate().map(|(row, value)| is_valid(row).then_some(&**value)).collect()
}

/// Every type without children, with each unit; dictionaries of several kinds.
pub fn flat_types() -> Vec<DataType> {
    use DataType as T;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let dictionary = |key, value| T::Dictionary(Box::new(key), Box::new(value));
    vec![
        T::Null,
        T::Boolean,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
        T::Float16,
        T::Float32,
        T::Float64,
        T::Timestamp(Second, None),
        T::Timestamp(Millisecond, Some("+05:30".into())),
        T::Timestamp(Microsecond, Some("Europe/Berlin".into())),
        T::Timestamp(Nanosecond, None),
        T::Date32,
        T::Date64,
        T::Time32(Second),
        T::Time32(Millisecond),
        T::Time64(Microsecond),
        T::Time64(Nanosecond),
        T::Duration(Second),
        T::Duration(Nanosecond),
        T::Interval(IntervalUnit::YearMonth),
        T::Interval(IntervalUnit::DayTime),
        T::Interval(IntervalUnit::MonthDayNano),
        T::Decimal32(9, 2),
        T::Decimal64(18, -2),
        T::Decimal128(38, 10),
        T::Decimal256(76, 0),
        T::Utf8,
        T::LargeUtf8,
        T::Utf8View,
        T::Binary,
        T::LargeBinary,
        T::BinaryView,
        T::FixedSizeBinary(0),
        T::FixedSizeBinary(1),
        T::FixedSizeBinary(16),
        dictionary(T::Int8, T::Utf8),
        dictionary(T::UInt16, T::Utf8View),
        dictionary(T::Int32, T::LargeBinary),
        dictionary(T::UInt64, T::Int64),
        dictionary(T::Int16, T::Float32),
        dictionary(T::UInt8, T::Boolean),
        dictionary(T::Int64, T::FixedSizeBinary(3)),
        dictionary(T::UInt32, T::Decimal256(40, 3)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_batches_and_every_type_is_made() {
        for (seed, data_type) in flat_types().into_iter().chain(nested_types()).enumerate() {
            let make = || Generator::new(seed as u64).array(&data_type, 100);
            let array = make();
            assert_eq!((array.len(), array.data_type()), (100, &data_type));
            assert_eq!(array.to_data(), make().to_data());
        }
    }

    #[test]
    fn batches_keep_to_their_schema() {
        for seed in 0..50 {
            let mut generator = Generator::new(seed);
            let schema = generator.schema(8);
            let rows = generator.below(300);
            let batch = generator.batch(&schema, rows);
            assert_eq!((batch.num_rows(), batch.num_columns()), (rows, 8));
            batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        }
    }
}
