//! How many bytes rows take when they are decoded: what bounds blocks and row groups.
//!
//! Sizes add up, however rows are cut: lane widths, a byte per boolean, and 4 bytes beside every string and list.

use std::ops::{Add, AddAssign, Range};

use arrow_array::{
    Array, GenericListArray, OffsetSizeTrait,
    cast::AsArray,
    types::{ArrowDictionaryKeyType, ByteArrayType},
};
use arrow_array::{GenericByteArray, downcast_dictionary_array};
use arrow_schema::DataType;
use entasis_encoding::LARGE_VALUE_BYTES;

/// Decoded bytes of some rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Of all values.
    pub all: u64,
    /// Without values that go to the region for large values.
    pub inline: u64,
}

impl Size {
    fn flat(bytes: usize) -> Self {
        Self { all: bytes as u64, inline: bytes as u64 }
    }

    fn string(bytes: usize) -> Self {
        Self { all: bytes as u64 + 4, inline: if bytes < LARGE_VALUE_BYTES { bytes as u64 + 4 } else { 4 } }
    }

    /// Whether there are large values.
    pub fn has_large(self) -> bool {
        self.all != self.inline
    }
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { all: self.all + other.all, inline: self.inline + other.inline }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Add::add)
    }
}

/// Decoded bytes of `rows` of a plain array.
pub fn decoded_size(array: &dyn Array, rows: Range<usize>) -> Size {
    let count = rows.len();
    match array.data_type() {
        DataType::Boolean => Size::flat(count),
        DataType::Utf8 => strings(array.as_string::<i32>(), rows),
        DataType::LargeUtf8 => strings(array.as_string::<i64>(), rows),
        DataType::Binary => strings(array.as_binary::<i32>(), rows),
        DataType::LargeBinary => strings(array.as_binary::<i64>(), rows),
        DataType::Utf8View => views(&array.as_string_view().views()[rows]),
        DataType::BinaryView => views(&array.as_binary_view().views()[rows]),
        DataType::FixedSizeBinary(size) => {
            let each = Size::string(*size as usize);
            Size { all: each.all * count as u64, inline: each.inline * count as u64 }
        }
        DataType::List(_) => lists(array.as_list::<i32>(), rows),
        DataType::LargeList(_) => lists(array.as_list::<i64>(), rows),
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            decoded_size(array.as_fixed_size_list().values(), rows.start * size..rows.end * size)
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(|field| decoded_size(field, rows.clone())).sum(),
        DataType::Dictionary(..) => dictionary(array, rows),
        // Nulls have no width.
        other => Size::flat(count * other.primitive_width().unwrap_or(0)),
    }
}

fn strings<T: ByteArrayType>(array: &GenericByteArray<T>, rows: Range<usize>) -> Size {
    use arrow_buffer::ArrowNativeType;
    let offsets = &array.value_offsets()[rows.start..=rows.end];
    let bytes = offsets[rows.len()].as_usize() - offsets[0].as_usize();
    if bytes < LARGE_VALUE_BYTES {
        return Size::flat(bytes + 4 * rows.len());
    }
    offsets.windows(2).map(|pair| Size::string(pair[1].as_usize() - pair[0].as_usize())).sum()
}

fn views(views: &[u128]) -> Size {
    views.iter().map(|&view| Size::string(view as u32 as usize)).sum()
}

fn lists<O: OffsetSizeTrait>(array: &GenericListArray<O>, rows: Range<usize>) -> Size {
    let offsets = array.value_offsets();
    let items = offsets[rows.start].as_usize()..offsets[rows.end].as_usize();
    Size::flat(4 * rows.len()) + decoded_size(array.values(), items)
}

fn dictionary(array: &dyn Array, rows: Range<usize>) -> Size {
    fn of<K: ArrowDictionaryKeyType>(array: &arrow_array::DictionaryArray<K>, rows: Range<usize>) -> Size {
        let values = array.values();
        if values.data_type().primitive_width().is_some() || values.data_type() == &DataType::Boolean {
            return Size::flat(rows.len() * values.data_type().primitive_width().unwrap_or(1));
        }
        // Only the values that the rows refer to are looked at: a dictionary may be much longer than a vector.
        let of_value = |key: usize| match values.data_type() {
            DataType::Utf8 => Size::string(values.as_string::<i32>().value_length(key) as usize),
            DataType::LargeUtf8 => Size::string(values.as_string::<i64>().value_length(key) as usize),
            _ => decoded_size(values, key..key + 1),
        };
        rows.map(|row| array.key(row).map_or(Size::flat(4), of_value)).sum()
    }
    downcast_dictionary_array!(array => of(array, rows), _ => Size::default())
}

/// The most rows from the first of `rows` whose values outside the region for large values take at most `limit` bytes.
pub fn rows_within(array: &dyn Array, rows: Range<usize>, limit: u64) -> usize {
    let fits = |count: usize| decoded_size(array, rows.start..rows.start + count).inline <= limit;
    let (mut low, mut high) = (0, rows.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, DictionaryArray, Int64Array, ListArray, StringArray, types::Int8Type};

    use super::*;

    #[test]
    fn sizes_add_up_however_rows_are_cut() {
        let long = "x".repeat(LARGE_VALUE_BYTES);
        let texts = vec![Some("a"), None, Some(&long[1..]), Some(&long), Some("")];
        let strings = StringArray::from(texts.clone());
        let dictionary: DictionaryArray<Int8Type> = texts.iter().copied().collect();
        let views = arrow_array::StringViewArray::from(texts);
        let list = ListArray::from_iter_primitive::<arrow_array::types::Int32Type, _, _>([
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![]),
            Some(vec![None]),
            Some(vec![Some(4); 9]),
        ]);
        let arrays: [(ArrayRef, Size); 6] = [
            (Arc::new(Int64Array::from(vec![1; 5])), Size::flat(40)),
            (Arc::new(BooleanArray::from(vec![true; 5])), Size::flat(5)),
            (Arc::new(strings), Size { all: 20 + 32_768, inline: 20 + 16_384 }),
            (Arc::new(dictionary), Size { all: 20 + 32_768, inline: 20 + 16_384 }),
            (Arc::new(views), Size { all: 20 + 32_768, inline: 20 + 16_384 }),
            (Arc::new(list), Size::flat(20 + 48)),
        ];
        for (array, expected) in arrays {
            assert_eq!(decoded_size(&array, 0..5), expected, "{}", array.data_type());
            for cut in 0..=5 {
                assert_eq!(decoded_size(&array, 0..cut) + decoded_size(&array, cut..5), expected);
                let slice = array.slice(cut, 5 - cut);
                assert_eq!(decoded_size(&slice, 0..5 - cut), decoded_size(&array, cut..5));
            }
        }
    }

    #[test]
    fn rows_within_a_limit_are_counted_exactly() {
        let strings = StringArray::from(vec!["aaaa"; 10]);
        for limit in 0..90 {
            assert_eq!(rows_within(&strings, 0..10, limit), (limit as usize / 8).min(10));
        }
    }
}
