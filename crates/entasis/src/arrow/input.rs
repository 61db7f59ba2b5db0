//! Arrow arrays, lent to the encodings as [`Column`]s.
//!
//! Lanes and bits are lent where they lie, whatever the array's offset. What has no counterpart in a block is
//! normalised on the way: arrays become plain first (see [`plain_array`]), dictionaries are gathered, offsets of lists
//! begin at 0 and fit 32 bits, null lists have no items, and a validity of nothing but ones is none.

use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait, cast::AsArray, make_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, i256};
use arrow_data::transform::MutableArrayData;
use arrow_schema::DataType;
use arrow_select::take::take;
use entasis_encoding::{Bits, Column, Fixed, Lanes, U256, Values};

use super::{
    physical::{fixed_of, physical_of},
    plain::{is_plain, plain_array},
    strings::Strings,
};
use crate::{Error, Result};

/// Lends `array` to `use_column` and returns what that returns. Types without blocks are unsupported.
pub fn with_column<R>(array: &dyn Array, use_column: impl FnOnce(&Column<'_>) -> R) -> Result<R> {
    Ok(Input::new(array)?.with(use_column))
}

/// An array, ready to be lent. Holds the array's buffers, not copies of them.
#[derive(Debug, Clone)]
pub struct Input {
    rows: usize,
    validity: Option<NullBuffer>,
    values: InputValues,
}

#[derive(Debug, Clone)]
enum InputValues {
    Null,
    Bool(BooleanBuffer),
    Fixed(Fixed, Buffer),
    Bytes(Strings),
    List(Vec<u32>, Box<Input>),
    FixedList(u32, Box<Input>),
    Struct(Vec<Input>),
}

/// What happens to values under the nulls of a struct or a fixed-size list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnderNulls {
    /// They stay what they are.
    Keep,
    /// They become null, and lists among them empty, so that equal values are equal columns.
    Clear,
}

impl Input {
    /// Prepares `array`. Types without blocks are unsupported, as are lists of more than 2^32 − 1 items in all.
    pub fn new(array: &dyn Array) -> Result<Self> {
        Self::prepare(array, UnderNulls::Keep)
    }

    /// As [`Input::new`], but with nulls handed down to the fields of structs and the items of fixed-size lists.
    pub(crate) fn with_nulls_handed_down(array: &dyn Array) -> Result<Self> {
        Self::prepare(array, UnderNulls::Clear)
    }

    fn prepare(array: &dyn Array, under_nulls: UnderNulls) -> Result<Self> {
        physical_of(array.data_type())?;
        match is_plain(array.data_type()) {
            true => Self::build(array, None, under_nulls),
            false => Self::build(&plain_array(&array.slice(0, array.len()))?, None, under_nulls),
        }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Lends the column.
    pub fn with<R>(&self, use_column: impl FnOnce(&Column<'_>) -> R) -> R {
        let mut slices = Vec::new();
        self.collect_slices(&mut slices);
        use_column(&self.column(&mut slices.iter()))
    }

    /// Of a plain array.
    fn build(array: &dyn Array, inherited: Option<&NullBuffer>, under_nulls: UnderNulls) -> Result<Self> {
        let rows = array.len();
        if let DataType::Dictionary(..) = array.data_type() {
            return Self::gather_dictionary(array, inherited);
        }
        let validity = NullBuffer::union(array.nulls(), inherited).filter(|nulls| nulls.null_count() > 0);
        let inner = |child: &dyn Array, nulls: Option<NullBuffer>| match under_nulls {
            UnderNulls::Keep => Self::build(child, None, under_nulls),
            UnderNulls::Clear => Self::build(child, nulls.as_ref(), under_nulls),
        };
        let values = match array.data_type() {
            DataType::Null => return Ok(Self { rows, validity: None, values: InputValues::Null }),
            DataType::Boolean => InputValues::Bool(array.as_boolean().values().clone()),
            DataType::List(_) => Self::list(array.as_list::<i32>(), validity.as_ref(), under_nulls)?,
            DataType::LargeList(_) => Self::list(array.as_list::<i64>(), validity.as_ref(), under_nulls)?,
            DataType::FixedSizeList(_, size) => {
                let list = array.as_fixed_size_list();
                let items = list.values().slice(0, rows * *size as usize);
                let nulls = validity.as_ref().map(|nulls| nulls.expand(*size as usize));
                InputValues::FixedList(*size as u32, Box::new(inner(&items, nulls)?))
            }
            DataType::Struct(_) => {
                let fields = array.as_struct().columns().iter();
                InputValues::Struct(fields.map(|field| inner(field, validity.clone())).collect::<Result<_>>()?)
            }
            other => match (fixed_of(other), Strings::of(array)) {
                (Some(fixed), _) => InputValues::Fixed(fixed, lanes_of(array, fixed)),
                (None, Some(strings)) => InputValues::Bytes(strings),
                (None, None) => return Err(Error::Unsupported(format!("type {other}"))),
            },
        };
        Ok(Self { rows, validity, values })
    }

    /// The values of a dictionary, row by row: a null key and a key of a null value are both null.
    fn gather_dictionary(array: &dyn Array, inherited: Option<&NullBuffer>) -> Result<Self> {
        let dictionary = array.as_any_dictionary();
        let Some(strings) = Strings::of(dictionary.values()) else {
            let values = take(dictionary.values(), dictionary.keys(), None)?;
            return Self::build(&values, inherited, UnderNulls::Keep);
        };
        let keys = if dictionary.values().is_empty() {
            vec![0; array.len()]
        } else {
            dictionary.normalized_keys().into_iter().map(|key| key as u32).collect()
        };
        let validity =
            NullBuffer::union(array.logical_nulls().as_ref(), inherited).filter(|nulls| nulls.null_count() > 0);
        Ok(Self { rows: array.len(), validity, values: InputValues::Bytes(Strings::Gathered(Box::new(strings), keys)) })
    }

    fn list<O: OffsetSizeTrait>(
        list: &GenericListArray<O>,
        validity: Option<&NullBuffer>,
        under_nulls: UnderNulls,
    ) -> Result<InputValues> {
        let offsets = list.offsets();
        let mut normalised = Vec::with_capacity(offsets.len());
        let mut end = 0usize;
        normalised.push(0);
        for (row, pair) in offsets.windows(2).enumerate() {
            if validity.is_none_or(|validity| validity.is_valid(row)) {
                end += pair[1].as_usize() - pair[0].as_usize();
            }
            normalised.push(end as u32);
        }
        if u32::try_from(end).is_err() {
            return Err(Error::Unsupported(format!("lists of {end} items in one block")));
        }
        let items: ArrayRef = match validity.filter(|validity| offsets.has_non_empty_nulls(Some(validity))) {
            None => list.values().slice(offsets[0].as_usize(), end),
            Some(validity) => {
                let values = list.values().to_data();
                let mut items = MutableArrayData::new(vec![&values], false, end);
                for (first, last) in validity.valid_slices() {
                    items.try_extend(0, offsets[first].as_usize(), offsets[last].as_usize())?;
                }
                make_array(items.freeze())
            }
        };
        Ok(InputValues::List(normalised, Box::new(Self::build(&items, None, under_nulls)?)))
    }

    /// The slices of every node of byte strings, in pre-order.
    fn collect_slices<'a>(&'a self, out: &mut Vec<Vec<&'a [u8]>>) {
        match &self.values {
            InputValues::Bytes(strings) => out.push(strings.slices(self.validity.as_ref())),
            InputValues::List(_, child) | InputValues::FixedList(_, child) => child.collect_slices(out),
            InputValues::Struct(fields) => fields.iter().for_each(|field| field.collect_slices(out)),
            InputValues::Null | InputValues::Bool(_) | InputValues::Fixed(..) => {}
        }
    }

    fn column<'a>(&'a self, slices: &mut std::slice::Iter<'a, Vec<&'a [u8]>>) -> Column<'a> {
        let values = match &self.values {
            InputValues::Null => Values::Null,
            InputValues::Bool(values) => Values::Bool(bits_of(values)),
            InputValues::Fixed(fixed, lanes) => Values::Fixed(*fixed, lend_lanes(lanes, fixed.size_bytes())),
            InputValues::Bytes(_) => Values::Bytes(slices.next().map_or(&[], Vec::as_slice)),
            InputValues::List(offsets, child) => Values::List(offsets, Box::new(child.column(slices))),
            InputValues::FixedList(size, child) => Values::FixedList(*size, Box::new(child.column(slices))),
            InputValues::Struct(fields) => Values::Struct(fields.iter().map(|field| field.column(slices)).collect()),
        };
        Column { rows: self.rows, validity: self.validity.as_ref().map(|nulls| bits_of(nulls.inner())), values }
    }
}

/// Lends the bits of an Arrow buffer.
pub fn bits_of(bits: &BooleanBuffer) -> Bits<'_> {
    Bits::new(bits.values(), bits.offset(), bits.len())
}

/// The lanes of a fixed-width array, and of nothing else.
fn lanes_of(array: &dyn Array, fixed: Fixed) -> Buffer {
    let data = array.to_data();
    let size = fixed.size_bytes();
    data.buffers()[0].slice_with_length(data.offset() * size, data.len() * size)
}

fn lend_lanes(lanes: &Buffer, size_bytes: usize) -> Lanes<'_> {
    match size_bytes {
        1 => Lanes::L8(lanes.typed_data()),
        2 => Lanes::L16(lanes.typed_data()),
        4 => Lanes::L32(lanes.typed_data()),
        8 => Lanes::L64(lanes.typed_data()),
        16 => Lanes::L128(lanes.typed_data()),
        _ => Lanes::L256(wide_lanes(lanes.typed_data())),
    }
}

#[allow(unsafe_code, reason = "Arrow's 256-bit integers are lent as lanes without a copy")]
fn wide_lanes(values: &[i256]) -> &[U256] {
    const { assert!(size_of::<i256>() == size_of::<U256>() && align_of::<i256>() == align_of::<U256>()) };
    // SAFETY: both are `repr(C)` pairs of 128-bit integers, of equal size and alignment (asserted above) and without
    // padding; every bit pattern is a value of either.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        BooleanArray, Decimal128Array, Decimal256Array, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray,
        Float64Array, Int8Array, Int32Array, LargeListArray, ListArray, NullArray, StringArray, StringViewArray,
        StructArray, types::Int8Type,
    };
    use arrow_buffer::{OffsetBuffer, ScalarBuffer};
    use arrow_schema::{Field, Fields};

    use super::*;

    #[test]
    fn lanes_are_lent_where_they_lie() {
        let array = Float64Array::from(vec![1.5, f64::NAN, -0.0, 4.0]);
        let slice = array.slice(1, 2);
        with_column(&slice, |column| {
            assert_eq!(column.rows, 2);
            assert!(column.validity.is_none());
            let Values::Fixed(Fixed::F64, Lanes::L64(lanes)) = column.values else { panic!("64-bit floats") };
            assert_eq!(lanes.as_ptr().cast(), slice.values().as_ptr());
            assert_eq!(lanes, [f64::NAN.to_bits(), (-0.0f64).to_bits()]);
        })
        .unwrap();
    }

    #[test]
    fn wide_integers_keep_their_halves() {
        let values = [i256::MIN, i256::MINUS_ONE, i256::ZERO, i256::from_parts(7, 9), i256::MAX];
        let expected = values.map(|value| {
            let (low, high) = value.to_parts();
            U256 { low, high: high as u128 }
        });
        assert_eq!(wide_lanes(&values), expected);
        assert!(wide_lanes(&[]).is_empty());
        let array = Decimal256Array::from_iter_values(values).slice(3, 2);
        with_column(&array, |column| {
            let Values::Fixed(Fixed::I256, Lanes::L256(lanes)) = column.values else { panic!("256-bit integers") };
            assert_eq!(lanes, &expected[3..]);
        })
        .unwrap();
        let array = Decimal128Array::from(vec![i128::MIN, -1]);
        with_column(&array, |column| {
            let Values::Fixed(Fixed::I128, Lanes::L128(lanes)) = column.values else { panic!("128-bit integers") };
            assert_eq!(lanes, [1 << 127, u128::MAX]);
        })
        .unwrap();
    }

    #[test]
    fn validity_is_sliced_and_dropped_where_nothing_is_null() {
        let array = BooleanArray::from(vec![None, Some(true), Some(false), None, Some(true)]);
        with_column(&array.slice(1, 2), |column| assert!(column.validity.is_none())).unwrap();
        with_column(&array.slice(2, 3), |column| {
            let Values::Bool(bits) = column.values else { panic!("booleans") };
            let validity = column.validity.unwrap();
            assert_eq!(validity.iter().collect::<Vec<_>>(), [true, false, true]);
            assert!(!bits.get(0) && bits.get(2));
        })
        .unwrap();
        with_column(&NullArray::new(3), |column| {
            assert!(column.rows == 3 && column.validity.is_none() && matches!(column.values, Values::Null));
        })
        .unwrap();
    }

    fn slices_of(array: &dyn Array) -> (Vec<Vec<u8>>, Option<Vec<bool>>) {
        with_column(array, |column| {
            let Values::Bytes(slices) = column.values else { panic!("byte strings") };
            let validity = column.validity.map(|bits| bits.iter().collect());
            (slices.iter().map(|slice| slice.to_vec()).collect(), validity)
        })
        .unwrap()
    }

    #[test]
    fn byte_strings_of_every_layout_are_slices_and_nulls_empty_ones() {
        let rows = [Some("x"), Some("a string over twelve bytes"), None, Some(""), Some("ü")];
        let expected: Vec<Vec<u8>> = rows[1..].iter().map(|row| row.unwrap_or("").as_bytes().to_vec()).collect();
        let validity = Some(vec![true, false, true, true]);
        let views: StringViewArray = rows.iter().collect();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(rows.to_vec())),
            Arc::new(arrow_array::LargeStringArray::from(rows.to_vec())),
            Arc::new(views.clone()),
            Arc::new(views.to_binary_view()),
        ];
        for array in arrays {
            assert_eq!(slices_of(&array.slice(1, 4)), (expected.clone(), validity.clone()), "{}", array.data_type());
        }
        let fixed =
            FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some(*b"ab"), None, Some(*b"cd")].into_iter(), 2);
        let sliced = fixed.unwrap().slice(1, 2);
        assert_eq!(slices_of(&sliced), (vec![vec![], b"cd".to_vec()], Some(vec![false, true])));
    }

    #[test]
    fn dictionaries_are_gathered_and_both_kinds_of_null_are_null() {
        let keys = Int8Array::from(vec![Some(1), None, Some(0), Some(2), Some(1)]);
        let texts = StringArray::from(vec![Some("zero"), Some("one"), None]);
        let dictionary = DictionaryArray::<Int8Type>::new(keys.clone(), Arc::new(texts));
        let expected = ["", "zero", "", "one"].map(|text| text.as_bytes().to_vec()).to_vec();
        assert_eq!(slices_of(&dictionary.slice(1, 4)), (expected, Some(vec![false, true, false, true])));

        let numbers = DictionaryArray::<Int8Type>::new(keys, Arc::new(Int32Array::from(vec![Some(7), Some(8), None])));
        with_column(&numbers, |column| {
            let Values::Fixed(Fixed::I32, Lanes::L32(lanes)) = column.values else { panic!("32-bit integers") };
            assert_eq!((lanes[0], lanes[2], lanes[4]), (8, 7, 8));
            assert_eq!(column.validity.unwrap().iter().collect::<Vec<_>>(), [true, false, true, false, true]);
        })
        .unwrap();

        let all_null = Int8Array::from(vec![None, None]);
        let empty = DictionaryArray::<Int8Type>::new(all_null, Arc::new(StringArray::from(Vec::<&str>::new())));
        assert_eq!(slices_of(&empty), (vec![vec![], vec![]], Some(vec![false, false])));
    }

    #[test]
    fn lists_begin_at_zero_and_null_lists_have_no_items() {
        let items: ArrayRef = Arc::new(Int32Array::from_iter_values(0..12));
        let field = Arc::new(Field::new("item", DataType::Int32, false));
        let offsets = [0, 3, 5, 9, 9, 12];
        let nulls = NullBuffer::from(vec![true, true, false, true, true]);
        let list = ListArray::new(
            field.clone(),
            OffsetBuffer::new(ScalarBuffer::from(offsets.to_vec())),
            items.clone(),
            Some(nulls.clone()),
        );
        let large = LargeListArray::new(
            field,
            OffsetBuffer::new(ScalarBuffer::from(offsets.map(i64::from).to_vec())),
            items,
            Some(nulls),
        );
        let check = |array: &dyn Array, expected_offsets: &[u32], expected_items: &[u32]| {
            with_column(array, |column| {
                let Values::List(offsets, child) = &column.values else { panic!("lists") };
                let Values::Fixed(_, Lanes::L32(lanes)) = child.values else { panic!("32-bit integers") };
                assert_eq!((*offsets, lanes), (expected_offsets, expected_items));
                assert_eq!(child.rows, expected_items.len());
            })
            .unwrap();
        };
        for array in [Arc::new(list) as ArrayRef, Arc::new(large)] {
            check(&array, &[0, 3, 5, 5, 5, 8], &[0, 1, 2, 3, 4, 9, 10, 11]);
            check(&array.slice(1, 3), &[0, 2, 2, 2], &[3, 4]);
            check(&array.slice(3, 2), &[0, 0, 3], &[9, 10, 11]);
            check(&array.slice(5, 0), &[0], &[]);
        }
    }

    #[test]
    fn items_under_null_fixed_size_lists_and_structs_stay_unless_nulls_are_handed_down() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6]));
        let fields = Fields::from(vec![Field::new("n", DataType::Int32, true)]);
        let nulls = NullBuffer::from(vec![true, false, true, true, true, true]);
        let structs = StructArray::new(fields.clone(), vec![numbers], Some(nulls));
        let item = Arc::new(Field::new("item", DataType::Struct(fields), true));
        let nulls = NullBuffer::from(vec![true, true, false]);
        let list = FixedSizeListArray::new(item, 2, Arc::new(structs), Some(nulls)).slice(1, 2);
        let validity_of_numbers = |input: Input| {
            input.with(|column| {
                let Values::FixedList(2, child) = &column.values else { panic!("lists of two") };
                let Values::Struct(fields) = &child.values else { panic!("structs") };
                let Values::Fixed(_, Lanes::L32(lanes)) = fields[0].values else { panic!("32-bit integers") };
                assert_eq!(lanes, [3, 4, 5, 6]);
                assert_eq!(column.validity.unwrap().iter().collect::<Vec<_>>(), [true, false]);
                fields[0].validity.map(|bits| bits.iter().collect::<Vec<_>>())
            })
        };
        assert_eq!(validity_of_numbers(Input::new(&list).unwrap()), None);
        let cleared = Input::with_nulls_handed_down(&list).unwrap();
        assert_eq!(validity_of_numbers(cleared), Some(vec![true, true, false, false]));
    }

    #[test]
    fn several_nodes_of_byte_strings_are_not_mixed_up() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
        let views: ArrayRef = Arc::new(StringViewArray::from(vec!["c", "d"]));
        let array = StructArray::from(vec![
            (Arc::new(Field::new("t", DataType::Utf8, false)), texts),
            (Arc::new(Field::new("v", DataType::Utf8View, false)), views),
        ]);
        with_column(&array, |column| {
            let Values::Struct(fields) = &column.values else { panic!("structs") };
            let (Values::Bytes(first), Values::Bytes(second)) = (&fields[0].values, &fields[1].values) else {
                panic!("byte strings")
            };
            assert_eq!((first[1], second[0]), (&b"b"[..], &b"c"[..]));
        })
        .unwrap();
    }
}
