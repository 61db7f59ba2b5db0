//! Comparison of arrays value for value, bit for bit for floats: the judge of round trips.
//!
//! Types that differ in representation only are compared by value: offsets of either width and views, lists and list views
//! of either width, dictionaries, run-end encoded and plain arrays, maps whatever their entries are called. Values under
//! nulls don't count, nor do those of sparse unions in rows of other types.

use std::sync::Arc;

use arrow_array::{Array, GenericByteArray, RecordBatch, cast::AsArray, types::ByteArrayType};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use entasis_encoding::{Bits, Column, Fixed, Lanes, Values, with_lanes};

use crate::{
    Result,
    arrow::{Input, plain_type},
};

/// Where two tables differ first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Path of the column: name of the top-level column, then those of fields; `[]` stands for items of lists. Empty if
    /// the tables differ as wholes.
    pub column: String,
    /// The row, of the table.
    pub row: usize,
    /// The left value, as text.
    pub left: String,
    /// The right value, as text.
    pub right: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "column {:?}, row {}: {} on the left, {} on the right", self.column, self.row, self.left, self.right)
    }
}

/// The first difference of two batches, by column and then by row; `None` if they hold the same columns, by name and in
/// order, of the same values. Nullability and metadata of fields don't count. Types that can't be stored are unsupported.
pub fn first_difference(left: &RecordBatch, right: &RecordBatch) -> Result<Option<Difference>> {
    let whole = |left: String, right: String| Ok(Some(Difference { column: String::new(), row: 0, left, right }));
    if left.num_columns() != right.num_columns() {
        let columns = |batch: &RecordBatch| format!("{} columns", batch.num_columns());
        return whole(columns(left), columns(right));
    }
    if left.num_rows() != right.num_rows() {
        return whole(format!("{} rows", left.num_rows()), format!("{} rows", right.num_rows()));
    }
    let (left_schema, right_schema) = (left.schema_ref(), right.schema_ref());
    for index in 0..left.num_columns() {
        let (left_name, right_name) = (left_schema.field(index).name(), right_schema.field(index).name());
        if left_name != right_name {
            return whole(format!("column {left_name:?}"), format!("column {right_name:?}"));
        }
        let difference = first_array_difference(left.column(index), right.column(index))?;
        if let Some(Difference { column, row, left, right }) = difference {
            return Ok(Some(Difference { column: format!("{left_name}{column}"), row, left, right }));
        }
    }
    Ok(None)
}

/// The first difference of two arrays; the path of its column begins below the arrays. `None` if they are equal.
/// Types that can't be stored are unsupported.
pub fn first_array_difference(left: &dyn Array, right: &dyn Array) -> Result<Option<Difference>> {
    let whole = |left: String, right: String| Ok(Some(Difference { column: String::new(), row: 0, left, right }));
    if left.len() != right.len() {
        return whole(format!("{} rows", left.len()), format!("{} rows", right.len()));
    }
    let canonical = canonical_type(left.data_type());
    if left.data_type() != right.data_type() && canonical != canonical_type(right.data_type()) {
        return whole(format!("type {}", left.data_type()), format!("type {}", right.data_type()));
    }
    if are_equal_bytes(left, right) {
        return Ok(None);
    }
    let laid_out = plain_type(&canonical);
    let (left_input, right_input) = (Input::with_nulls_handed_down(left)?, Input::with_nulls_handed_down(right)?);
    Ok(left_input.with(|left_column| {
        right_input.with(|right_column| {
            let Place { row, path } = first_place(left_column, right_column, left.len(), &laid_out)?;
            let text = |column| text_of(column, row, &path);
            Some(Difference {
                column: path.iter().map(|step| step.name.as_str()).collect(),
                row,
                left: text(left_column),
                right: text(right_column),
            })
        })
    }))
}

/// The type that all representations of the same values share.
fn canonical_type(data_type: &DataType) -> DataType {
    let item = |field: &Field| Field::new("item", canonical_type(field.data_type()), true).into();
    match data_type {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, value) => canonical_type(value),
        DataType::RunEndEncoded(_, values) => canonical_type(values.data_type()),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field) => DataType::List(item(field)),
        DataType::FixedSizeList(field, size) => DataType::FixedSizeList(item(field), *size),
        DataType::Struct(fields) => DataType::Struct(
            fields
                .iter()
                .map(|field| Field::new(field.name(), canonical_type(field.data_type()), true))
                .collect::<Fields>(),
        ),
        DataType::Map(entries, _) => match canonical_type(entries.data_type()) {
            DataType::Struct(fields) => {
                let named = ["key", "value"].into_iter().zip(&fields);
                let fields = named.map(|(name, field)| Field::clone(field).with_name(name)).collect();
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), true)), false)
            }
            other => other,
        },
        DataType::Union(fields, mode) => {
            let child = |(id, field): (i8, &FieldRef)| {
                (id, Arc::new(Field::new(field.name(), canonical_type(field.data_type()), true)))
            };
            DataType::Union(fields.iter().map(child).collect(), *mode)
        }
        other => other.clone(),
    }
}

/// The fast path of byte strings: equal offsets over equal bytes. False if that doesn't decide it.
fn are_equal_bytes(left: &dyn Array, right: &dyn Array) -> bool {
    fn equal<T: ByteArrayType>(left: &GenericByteArray<T>, right: &GenericByteArray<T>) -> bool {
        let (left_offsets, right_offsets) = (left.value_offsets(), right.value_offsets());
        let bytes = |array: &GenericByteArray<T>, offsets: &[T::Offset]| -> std::ops::Range<usize> {
            let (first, last) = (offsets[0], offsets[array.len()]);
            arrow_buffer::ArrowNativeType::as_usize(first)..arrow_buffer::ArrowNativeType::as_usize(last)
        };
        let (left_range, right_range) = (bytes(left, left_offsets), bytes(right, right_offsets));
        let shift_left = left_offsets[0];
        let shift_right = right_offsets[0];
        left_range.len() == right_range.len()
            && left_offsets.iter().zip(right_offsets).all(|(&a, &b)| a - shift_left == b - shift_right)
            && left.value_data()[left_range] == right.value_data()[right_range]
    }
    if left.data_type() != right.data_type() || left.nulls() != right.nulls() {
        return false;
    }
    match left.data_type() {
        DataType::Utf8 => equal(left.as_string::<i32>(), right.as_string::<i32>()),
        DataType::Binary => equal(left.as_binary::<i32>(), right.as_binary::<i32>()),
        DataType::LargeUtf8 => equal(left.as_string::<i64>(), right.as_string::<i64>()),
        DataType::LargeBinary => equal(left.as_binary::<i64>(), right.as_binary::<i64>()),
        _ => false,
    }
}

/// A row and the way down to what differs in it.
struct Place {
    row: usize,
    path: Vec<Step>,
}

/// One level down from a row: to a field of a struct, or to an item of a list.
struct Step {
    /// As it is shown in a path.
    name: String,
    /// The field's number; 0 for items.
    field: usize,
    /// The row of the child.
    row: usize,
}

/// The first place among the first `rows` rows in which two columns of the same plain type differ. Nulls must have been
/// handed down.
fn first_place(left: &Column<'_>, right: &Column<'_>, rows: usize, data_type: &DataType) -> Option<Place> {
    let here = |row| Place { row, path: Vec::new() };
    let null_row = first_unequal_null(left, right, rows).map(here);
    let value = match (&left.values, &right.values) {
        (Values::Null, Values::Null) => None,
        (Values::Bool(a), Values::Bool(b)) => first_unequal_bool(a, b, rows, left.validity).map(here),
        (Values::Fixed(_, a), Values::Fixed(_, b)) => first_unequal_lane(a, b, rows, left.validity).map(here),
        (Values::Bytes(a), Values::Bytes(b)) => {
            // Slices under nulls are empty on both sides.
            a[..rows].iter().zip(&b[..rows]).position(|(a, b)| a != b).map(here)
        }
        (Values::List(a, left_items), Values::List(b, right_items)) => {
            let (a, b) = (&a[..=rows], &b[..=rows]);
            let other_end = a.iter().zip(b).position(|(a, b)| a != b);
            // Up to the first list of another length, items lie at equal places.
            let equal_rows = other_end.map_or(rows, |end| end - 1);
            let items = a[equal_rows] as usize;
            let inside = first_place(left_items, right_items, items, item_type(data_type)).map(|place| {
                let row = a.partition_point(|&end| end as usize <= place.row) - 1;
                below(row, "[]".to_owned(), 0, place)
            });
            inside.or(other_end.map(|end| here(end - 1)))
        }
        (Values::FixedList(size, left_items), Values::FixedList(_, right_items)) => {
            let items = rows * *size as usize;
            first_place(left_items, right_items, items, item_type(data_type))
                .map(|place| below(place.row / *size as usize, "[]".to_owned(), 0, place))
        }
        (Values::Struct(a), Values::Struct(b)) => {
            let DataType::Struct(fields) = data_type else { return None };
            let places = a.iter().zip(b).zip(fields).enumerate().filter_map(|(index, ((a, b), field))| {
                let place = first_place(a, b, rows, field.data_type())?;
                Some(below(place.row, format!(".{}", field.name()), index, place))
            });
            places.min_by_key(|place| place.row)
        }
        // Different layouts: their canonical types differ, so that nobody comes here with them.
        _ => Some(here(0)),
    };
    earlier(null_row, value)
}

fn below(row: usize, name: String, field: usize, place: Place) -> Place {
    let mut path = vec![Step { name, field, row: place.row }];
    path.extend(place.path);
    Place { row, path }
}

fn earlier(first: Option<Place>, second: Option<Place>) -> Option<Place> {
    match (first, second) {
        (Some(first), Some(second)) => Some(if second.row < first.row { second } else { first }),
        (first, second) => first.or(second),
    }
}

fn item_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => item.data_type(),
        other => other,
    }
}

fn first_unequal_null(left: &Column<'_>, right: &Column<'_>, rows: usize) -> Option<usize> {
    if left.validity.is_none() && right.validity.is_none() {
        return None;
    }
    let word = |validity: Option<Bits<'_>>, row| validity.map_or(u64::MAX, |bits| bits.word(row));
    first_set_bit(rows, |row| word(left.validity, row) ^ word(right.validity, row))
}

fn first_unequal_bool(left: &Bits<'_>, right: &Bits<'_>, rows: usize, validity: Option<Bits<'_>>) -> Option<usize> {
    first_set_bit(rows, |row| {
        (left.word(row) ^ right.word(row)) & validity.map_or(u64::MAX, |validity| validity.word(row))
    })
}

/// The first of `rows` bits that is set in words that `word` gives for every 64th row.
fn first_set_bit(rows: usize, word: impl Fn(usize) -> u64) -> Option<usize> {
    let (start, word) = (0..rows).step_by(64).map(|start| (start, word(start))).find(|&(_, word)| word != 0)?;
    Some(start + word.trailing_zeros() as usize).filter(|&row| row < rows)
}

fn first_unequal_lane(left: &Lanes<'_>, right: &Lanes<'_>, rows: usize, validity: Option<Bits<'_>>) -> Option<usize> {
    fn first<T: PartialEq>(left: &[T], right: &[T], validity: Option<Bits<'_>>) -> Option<usize> {
        if left == right {
            return None;
        }
        let is_valid = |row: &usize| validity.is_none_or(|validity| validity.get(*row));
        (0..left.len()).filter(is_valid).find(|&row| left[row] != right[row])
    }
    match (left, right) {
        (Lanes::L8(a), Lanes::L8(b)) => first(&a[..rows], &b[..rows], validity),
        (Lanes::L16(a), Lanes::L16(b)) => first(&a[..rows], &b[..rows], validity),
        (Lanes::L32(a), Lanes::L32(b)) => first(&a[..rows], &b[..rows], validity),
        (Lanes::L64(a), Lanes::L64(b)) => first(&a[..rows], &b[..rows], validity),
        (Lanes::L128(a), Lanes::L128(b)) => first(&a[..rows], &b[..rows], validity),
        (Lanes::L256(a), Lanes::L256(b)) => first(&a[..rows], &b[..rows], validity),
        _ => Some(0),
    }
}

/// The value at the end of a path, as text. A side that ends earlier (a null, a shorter list) shows where it ends.
fn text_of(column: &Column<'_>, row: usize, path: &[Step]) -> String {
    let is_null = row >= column.rows || column.validity.is_some_and(|validity| !validity.get(row));
    match (&column.values, path) {
        _ if is_null => "null".to_owned(),
        (Values::Null, _) => "null".to_owned(),
        (Values::List(_, child) | Values::FixedList(_, child), [step, rest @ ..]) => text_of(child, step.row, rest),
        (Values::Struct(fields), [step, rest @ ..]) => text_of(&fields[step.field], step.row, rest),
        (Values::Bool(bits), _) => bits.get(row).to_string(),
        (Values::Fixed(fixed, lanes), _) => lane_text(*fixed, lanes, row),
        (Values::Bytes(slices), _) => bytes_text(slices[row]),
        (Values::List(offsets, _), []) => format!("a list of {} items", offsets[row + 1] - offsets[row]),
        (Values::FixedList(size, _), []) => format!("a list of {size} items"),
        (Values::Struct(fields), []) => format!("a struct of {} fields", fields.len()),
    }
}

fn lane_text(fixed: Fixed, lanes: &Lanes<'_>, row: usize) -> String {
    match (fixed, lanes) {
        (Fixed::I8, Lanes::L8(lanes)) => (lanes[row] as i8).to_string(),
        (Fixed::I16, Lanes::L16(lanes)) => (lanes[row] as i16).to_string(),
        (Fixed::I32, Lanes::L32(lanes)) => (lanes[row] as i32).to_string(),
        (Fixed::I64, Lanes::L64(lanes)) => (lanes[row] as i64).to_string(),
        (Fixed::I128, Lanes::L128(lanes)) => (lanes[row] as i128).to_string(),
        (Fixed::F16, Lanes::L16(lanes)) => format!("{} (bits {:#06x})", half::f16::from_bits(lanes[row]), lanes[row]),
        (Fixed::F32, Lanes::L32(lanes)) => format!("{:?} (bits {:#010x})", f32::from_bits(lanes[row]), lanes[row]),
        (Fixed::F64, Lanes::L64(lanes)) => format!("{:?} (bits {:#018x})", f64::from_bits(lanes[row]), lanes[row]),
        (Fixed::I256, Lanes::L256(lanes)) => {
            arrow_buffer::i256::from_parts(lanes[row].low, lanes[row].high as i128).to_string()
        }
        (_, lanes) => with_lanes!(lanes, lanes => format!("{:?}", lanes[row])),
    }
}

/// At most this many bytes of a value are shown.
const SHOWN_BYTES: usize = 64;

fn bytes_text(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => format!("{:?}", text.chars().take(SHOWN_BYTES).collect::<String>()),
        Err(_) => shown.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}")),
    };
    if shown.len() < bytes.len() { format!("{text}… ({} bytes)", bytes.len()) } else { text }
}
