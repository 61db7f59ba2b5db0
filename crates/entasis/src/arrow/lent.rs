//! Values that a block lends as arrays of the same memory.

use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, make_array};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use bytes::Bytes;

use super::physical::fixed_of;
use crate::{Error, Result};

/// What Arrow wants its widest lanes aligned to; narrower ones to their width.
const MOST_ALIGNMENT: usize = 16;

/// Whether values of `data_type` lie in Arrow's buffers as blocks lend them: lanes, and fixed-size lists of them.
pub fn may_be_lent(data_type: &DataType) -> bool {
    lent_row_bytes(data_type).is_some()
}

/// Bytes of a value, if it may be lent.
pub fn lent_row_bytes(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::FixedSizeList(item, size) => {
            Some(lent_row_bytes(item.data_type())?.saturating_mul(u64::try_from(*size).ok()?))
        }
        other => fixed_of(other).map(|fixed| fixed.size_bytes() as u64),
    }
}

/// The array of `data_type` that holds the `rows` values in `bytes`, none of them null, without a copy. `None` where Arrow
/// wants them otherwise, or at an address of another alignment.
pub fn lent_to_arrow(bytes: Bytes, data_type: &DataType, rows: usize) -> Result<Option<ArrayRef>> {
    if let DataType::FixedSizeList(item, size) = data_type {
        let items = usize::try_from(*size).ok().and_then(|size| rows.checked_mul(size));
        let items = items.ok_or_else(|| Error::InvalidArgument(format!("{rows} rows of type {data_type}")))?;
        let Some(items) = lent_to_arrow(bytes, item.data_type(), items)? else { return Ok(None) };
        let list = FixedSizeListArray::try_new_with_length(item.clone(), *size, items, None, rows)?;
        return Ok(Some(Arc::new(list)));
    }
    let Some(fixed) = fixed_of(data_type) else { return Ok(None) };
    if !bytes.as_ptr().addr().is_multiple_of(fixed.size_bytes().min(MOST_ALIGNMENT)) {
        return Ok(None);
    }
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(Buffer::from(bytes)).build()?;
    Ok(Some(make_array(data)))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array, cast::AsArray, types::Float32Type};
    use arrow_schema::Field;

    use super::*;

    fn embeddings(size: i32) -> DataType {
        DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, true)), size)
    }

    #[test]
    fn arrays_have_the_memory_that_was_lent() {
        let floats: Vec<u8> =
            [0.5f32, -0.0, f32::NAN, 7.0, 8.0, 9.0].iter().flat_map(|float| float.to_le_bytes()).collect();
        let bytes = Bytes::from(floats);
        let lent = lent_to_arrow(bytes.clone(), &embeddings(3), 2).unwrap().unwrap();
        let items = lent.as_fixed_size_list().values().as_primitive::<Float32Type>();
        assert_eq!(items.to_data().buffers()[0].as_ptr(), bytes.as_ptr());
        assert_eq!((lent.len(), items.value(0), items.value(5)), (2, 0.5, 9.0));
        assert!(lent_to_arrow(bytes.slice(0..8), &embeddings(3), 2).is_err(), "too few bytes");
    }

    #[test]
    fn what_arrow_wants_otherwise_is_not_lent() {
        let bytes = Bytes::from(vec![0; 64]);
        let aligned = bytes.as_ptr().addr().next_multiple_of(16) - bytes.as_ptr().addr();
        let array = |start: usize, data_type: &DataType| lent_to_arrow(bytes.slice(start..start + 16), data_type, 1);
        assert!(array(aligned, &DataType::Decimal128(38, 2)).unwrap().is_some());
        assert!(array(aligned + 8, &DataType::Decimal128(38, 2)).unwrap().is_none());
        assert!(array(aligned + 1, &DataType::Int8).unwrap().is_some());
        let keyed = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int64));
        for other in [DataType::Utf8, DataType::Boolean, keyed] {
            assert!(!may_be_lent(&other) && array(aligned, &other).unwrap().is_none(), "{other}");
        }
        assert!(may_be_lent(&DataType::Date32));
        assert_eq!(lent_row_bytes(&embeddings(8)), Some(32));
    }
}
