//! Byte strings in whichever of Arrow's layouts, seen as slices.

use arrow_array::{
    Array, BinaryViewArray, FixedSizeBinaryArray, GenericByteArray,
    cast::AsArray,
    types::{BinaryType, ByteArrayType, LargeBinaryType, LargeUtf8Type, Utf8Type},
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;

/// Byte strings of an array, held by its buffers.
#[derive(Debug, Clone)]
pub(super) enum Strings {
    Offsets32(OffsetBuffer<i32>, Buffer),
    Offsets64(OffsetBuffer<i64>, Buffer),
    Views(BinaryViewArray),
    FixedSize(FixedSizeBinaryArray),
    /// Rows of others, by number; a number past their end is an empty string.
    Gathered(Box<Strings>, Vec<u32>),
}

impl Strings {
    /// The byte strings of an array; `None` if it holds something else.
    pub(super) fn of(array: &dyn Array) -> Option<Self> {
        fn parts<T: ByteArrayType>(array: &GenericByteArray<T>) -> (OffsetBuffer<T::Offset>, Buffer) {
            (array.offsets().clone(), array.values().clone())
        }
        let offsets32 = |(offsets, bytes)| Strings::Offsets32(offsets, bytes);
        let offsets64 = |(offsets, bytes)| Strings::Offsets64(offsets, bytes);
        Some(match array.data_type() {
            DataType::Utf8 => offsets32(parts(array.as_bytes::<Utf8Type>())),
            DataType::Binary => offsets32(parts(array.as_bytes::<BinaryType>())),
            DataType::LargeUtf8 => offsets64(parts(array.as_bytes::<LargeUtf8Type>())),
            DataType::LargeBinary => offsets64(parts(array.as_bytes::<LargeBinaryType>())),
            DataType::Utf8View => Strings::Views(array.as_string_view().clone().to_binary_view()),
            DataType::BinaryView => Strings::Views(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(_) => Strings::FixedSize(array.as_fixed_size_binary().clone()),
            _ => return None,
        })
    }

    /// Whether arrays of a type hold byte strings.
    pub(super) fn are_of(data_type: &DataType) -> bool {
        data_type.is_string() || data_type.is_binary() || matches!(data_type, DataType::FixedSizeBinary(_))
    }

    fn get(&self, row: usize) -> &[u8] {
        match self {
            Strings::Offsets32(offsets, bytes) => &bytes[offsets[row] as usize..offsets[row + 1] as usize],
            Strings::Offsets64(offsets, bytes) => &bytes[offsets[row] as usize..offsets[row + 1] as usize],
            Strings::Views(views) => views.value(row),
            Strings::FixedSize(array) => array.value(row),
            Strings::Gathered(strings, rows) => {
                let row = rows[row] as usize;
                if row < strings.len() { strings.get(row) } else { &[] }
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Strings::Offsets32(offsets, _) => offsets.len() - 1,
            Strings::Offsets64(offsets, _) => offsets.len() - 1,
            Strings::Views(views) => views.len(),
            Strings::FixedSize(array) => array.len(),
            Strings::Gathered(_, rows) => rows.len(),
        }
    }

    /// Every row as a slice; null rows are empty slices.
    pub(super) fn slices(&self, validity: Option<&NullBuffer>) -> Vec<&[u8]> {
        match validity {
            None => (0..self.len()).map(|row| self.get(row)).collect(),
            Some(validity) => {
                let mut slices: Vec<&[u8]> = vec![&[]; self.len()];
                for (start, end) in validity.valid_slices() {
                    slices[start..end].iter_mut().zip(start..).for_each(|(slice, row)| *slice = self.get(row));
                }
                slices
            }
        }
    }
}
