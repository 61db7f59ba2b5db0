//! Decoded values as Arrow arrays.
//!
//! Vectors become Arrow's buffers as they are. What a damaged file could get wrong is checked here, once: strings are
//! UTF-8, offsets ascend and end within the bytes, views lie within their buffers, fixed sizes are exact, and rows of
//! unions have one value of their type.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray, GenericBinaryArray, GenericListArray,
    GenericListViewArray, NullArray, OffsetSizeTrait, StructArray, make_array, new_empty_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef};
use entasis_encoding::{BitBuffer, Decoded, DecodedBytes, DecodedValues, simd};

use super::{
    dictionary::to_dictionary, interval, physical::fixed_of, physical_of, plain::is_plain, runs::to_runs, union, utf8,
};
use crate::{Error, Result};

/// The array of `data_type` that holds `decoded` values, without a copy where the layouts agree.
///
/// The byte strings must have the forms that [`empty_decoded`](super::empty_decoded) gives for the type. Errors if the
/// values aren't what the type can hold: strings that aren't UTF-8, lists or strings over 2 GiB with 32-bit offsets,
/// more distinct values than a dictionary's keys can number, more rows than run ends can, nulls in fields that have none.
pub fn to_arrow(decoded: Decoded, data_type: &DataType) -> Result<ArrayRef> {
    let rows = decoded.rows;
    let array = match data_type {
        DataType::Dictionary(key, value) => to_dictionary(decoded, key, value)?,
        DataType::RunEndEncoded(run_ends, values) => to_runs(decoded, data_type, run_ends, values)?,
        _ => to_rows(decoded, data_type)?,
    };
    expect_count(array.len(), rows)?;
    Ok(array)
}

/// Arrays that have a value for each row.
fn to_rows(decoded: Decoded, data_type: &DataType) -> Result<ArrayRef> {
    use DataType as T;
    use DecodedBytes::{Offsets32, Offsets64, Views};
    use DecodedValues as V;
    let Decoded { rows, validity, values } = decoded;
    let nulls = nulls_of(validity, rows)?;
    match (data_type, values) {
        (T::Null, V::Null) => Ok(Arc::new(NullArray::new(rows))),
        (T::Boolean, V::Bool(bits)) => Ok(Arc::new(BooleanArray::new(booleans(bits, rows)?, nulls))),
        (T::Utf8, V::Bytes(Offsets32(offsets, bytes))) => {
            Ok(Arc::new(utf8::to_strings(binaries::<i32>(offsets, bytes, nulls)?)?))
        }
        (T::LargeUtf8, V::Bytes(Offsets64(offsets, bytes))) => {
            Ok(Arc::new(utf8::to_strings(binaries::<i64>(offsets, bytes, nulls)?)?))
        }
        (T::Utf8View, V::Bytes(Views(views))) => Ok(Arc::new(utf8::to_string_views(views, nulls)?)),
        (T::Binary, V::Bytes(Offsets32(offsets, bytes))) => Ok(Arc::new(binaries::<i32>(offsets, bytes, nulls)?)),
        (T::LargeBinary, V::Bytes(Offsets64(offsets, bytes))) => Ok(Arc::new(binaries::<i64>(offsets, bytes, nulls)?)),
        (T::BinaryView, V::Bytes(Views(views))) => Ok(Arc::new(utf8::to_binary_views(views, nulls)?)),
        (T::FixedSizeBinary(size), V::Bytes(Offsets32(offsets, bytes))) => {
            fixed_size_binary(*size, &offsets, bytes, nulls)
        }
        (T::List(item), V::List(offsets, child)) => list::<i32>(item, offsets, *child, nulls),
        (T::LargeList(item), V::List(offsets, child)) => list::<i64>(item, offsets, *child, nulls),
        (T::ListView(item), V::List(offsets, child)) => list_view::<i32>(item, offsets, *child, nulls),
        (T::LargeListView(item), V::List(offsets, child)) => list_view::<i64>(item, offsets, *child, nulls),
        (T::Map(entries, _), V::List(offsets, child)) => map(data_type, entries, offsets, *child, nulls),
        (T::Union(fields, mode), V::Struct(children)) => union::from_decoded(fields, *mode, children, rows),
        (T::Interval(unit), V::Struct(numbers)) => interval::from_decoded(*unit, numbers, rows, nulls),
        (T::FixedSizeList(item, size), V::FixedList(decoded_size, child)) if *size as u32 == decoded_size => {
            let items = to_arrow(*child, item.data_type())?;
            let list = FixedSizeListArray::try_new_with_length(item.clone(), *size, items, nulls, rows)?;
            Ok(Arc::new(list))
        }
        (T::Struct(fields), V::Struct(children)) if fields.len() == children.len() => {
            let arrays = children.into_iter().zip(fields).map(|(child, field)| to_arrow(child, field.data_type()));
            let arrays = arrays.collect::<Result<_>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), arrays, nulls, rows)?))
        }
        (data_type, values) => lanes(data_type, values, rows, nulls),
    }
}

/// An array of no rows; types that nest too deep are unsupported.
pub fn empty_array(data_type: &DataType) -> Result<ArrayRef> {
    physical_of(data_type)?;
    Ok(new_empty_array(data_type))
}

pub(super) fn mismatch(values: &DecodedValues, data_type: &DataType) -> Error {
    let what = match values {
        DecodedValues::Null => "nulls",
        DecodedValues::Bool(_) => "booleans",
        DecodedValues::L8(_) => "8-bit lanes",
        DecodedValues::L16(_) => "16-bit lanes",
        DecodedValues::L32(_) => "32-bit lanes",
        DecodedValues::L64(_) => "64-bit lanes",
        DecodedValues::L128(_) => "128-bit lanes",
        DecodedValues::L256(_) => "256-bit lanes",
        DecodedValues::Bytes(DecodedBytes::Offsets32(..)) => "byte strings with 32-bit offsets",
        DecodedValues::Bytes(DecodedBytes::Offsets64(..)) => "byte strings with 64-bit offsets",
        DecodedValues::Bytes(DecodedBytes::Views(..)) => "byte strings as views",
        DecodedValues::List(..) => "lists",
        DecodedValues::FixedList(..) => "fixed-size lists",
        DecodedValues::Struct(_) => "structs",
    };
    Error::InvalidArgument(format!("{what} were decoded for type {data_type}"))
}

pub(super) fn nulls_of(validity: Option<BitBuffer>, rows: usize) -> Result<Option<NullBuffer>> {
    let bits = validity.map(|validity| booleans(validity, rows)).transpose()?;
    Ok(bits.map(NullBuffer::new).filter(|nulls| nulls.null_count() > 0))
}

fn booleans(bits: BitBuffer, rows: usize) -> Result<BooleanBuffer> {
    expect_count(bits.len(), rows)?;
    Ok(BooleanBuffer::new(Buffer::from_vec(bits.into_bytes()), 0, rows))
}

fn expect_count(count: usize, expected: usize) -> Result<()> {
    if count == expected {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!("{count} values were decoded for {expected} rows")))
}

fn lanes(data_type: &DataType, values: DecodedValues, rows: usize, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let Some(fixed) = fixed_of(data_type) else {
        return Err(mismatch(&values, data_type));
    };
    let (size_bytes, count, buffer) = match values {
        DecodedValues::L8(lanes) => (1, lanes.len(), Buffer::from_vec(lanes)),
        DecodedValues::L16(lanes) => (2, lanes.len(), Buffer::from_vec(lanes)),
        DecodedValues::L32(lanes) => (4, lanes.len(), Buffer::from_vec(lanes)),
        DecodedValues::L64(lanes) => (8, lanes.len(), Buffer::from_vec(lanes)),
        DecodedValues::L128(lanes) => (16, lanes.len(), Buffer::from_vec(lanes)),
        DecodedValues::L256(lanes) => {
            // Collects in place: the layouts are the same.
            let values = lanes.into_iter().map(|lane| i256::from_parts(lane.low, lane.high as i128));
            let values: Vec<i256> = values.collect();
            (32, values.len(), Buffer::from_vec(values))
        }
        other => return Err(mismatch(&other, data_type)),
    };
    if size_bytes != fixed.size_bytes() {
        return Err(Error::InvalidArgument(format!("lanes of {size_bytes} bytes were decoded for type {data_type}")));
    }
    expect_count(count, rows)?;
    Ok(make_array(ArrayData::builder(data_type.clone()).len(rows).add_buffer(buffer).nulls(nulls).build()?))
}

fn binaries<O: OffsetSizeTrait>(
    offsets: Vec<O>,
    bytes: Vec<u8>,
    nulls: Option<NullBuffer>,
) -> Result<GenericBinaryArray<O>> {
    Ok(GenericBinaryArray::try_new(ascending(offsets)?, Buffer::from_vec(bytes), nulls)?)
}

/// Offsets as Arrow wants them, checked once and without branches; Arrow's constructor would check them one by one.
#[allow(unsafe_code, reason = "the offsets have been checked")]
fn ascending<O: OffsetSizeTrait>(offsets: Vec<O>) -> Result<OffsetBuffer<O>> {
    if !simd::ascends(&offsets) || offsets.first().is_none_or(|&first| first < O::usize_as(0)) {
        return Err(ArrowError::InvalidArgumentError("offsets must ascend from 0".to_owned()).into());
    }
    // SAFETY: the offsets are not empty, begin at 0 or above and ascend, which is all that an offset buffer requires.
    Ok(unsafe { OffsetBuffer::new_unchecked(ScalarBuffer::from(offsets)) })
}

fn fixed_size_binary(size: i32, offsets: &[i32], bytes: Vec<u8>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let rows = offsets.len().saturating_sub(1);
    let wrong_length = |row: usize| {
        Error::InvalidArgument(format!("row {row} isn't {size} bytes long, but its type is fixed-size binary"))
    };
    let has_length = |pair: &[i32]| pair[1].checked_sub(pair[0]) == Some(size);
    let wide = usize::try_from(size).map_err(|_| wrong_length(0))?;
    let values = match &nulls {
        _ if offsets.windows(2).all(has_length) && bytes.len() == rows * wide => bytes,
        None => {
            let row = offsets.windows(2).position(|pair| !has_length(pair)).unwrap_or(rows);
            return Err(wrong_length(row));
        }
        // Nulls may have any length: they become zeros.
        Some(nulls) => {
            let mut values = vec![0; rows * wide];
            for row in nulls.valid_indices() {
                let start = offsets[row] as usize;
                let value = bytes.get(start..start + wide).filter(|_| has_length(&offsets[row..row + 2]));
                values[row * wide..(row + 1) * wide].copy_from_slice(value.ok_or_else(|| wrong_length(row))?);
            }
            values
        }
    };
    Ok(Arc::new(FixedSizeBinaryArray::try_new_with_len(size, Buffer::from_vec(values), nulls, rows)?))
}

fn list<O: OffsetSizeTrait>(
    item: &FieldRef,
    offsets: Vec<u64>,
    child: Decoded,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let (offsets, items) = (list_offsets(offsets)?, to_arrow(child, item.data_type())?);
    if is_plain(items.data_type()) {
        return Ok(Arc::new(GenericListArray::<O>::try_new(item.clone(), offsets, items, nulls)?));
    }
    let (data_type, rows) = (GenericListArray::<O>::DATA_TYPE_CONSTRUCTOR(item.clone()), offsets.len() - 1);
    from_parts(data_type, rows, vec![offsets.into_inner().into_inner()], items, nulls)
}

/// A list view whose items lie in the order of the rows, without gaps.
fn list_view<O: OffsetSizeTrait>(
    item: &FieldRef,
    offsets: Vec<u64>,
    child: Decoded,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let (offsets, items) = (list_offsets::<O>(offsets)?, to_arrow(child, item.data_type())?);
    let sizes: ScalarBuffer<O> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (data_type, rows) = (GenericListViewArray::<O>::DATA_TYPE_CONSTRUCTOR(item.clone()), sizes.len());
    from_parts(data_type, rows, vec![offsets.into_inner().into_inner(), sizes.into_inner()], items, nulls)
}

fn map(
    data_type: &DataType,
    entries: &FieldRef,
    offsets: Vec<u64>,
    child: Decoded,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let rows = offsets.len().saturating_sub(1);
    let offsets = list_offsets::<i32>(offsets)?.into_inner().into_inner();
    from_parts(data_type.clone(), rows, vec![offsets], to_arrow(child, entries.data_type())?, nulls)
}

/// A list of some kind. Arrow's constructors for arrays hold any union for null that has a null in some child, and don't make
/// all the maps that Arrow's own readers do; this one checks as much.
fn from_parts(
    data_type: DataType,
    rows: usize,
    buffers: Vec<Buffer>,
    items: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let builder = ArrayData::builder(data_type).len(rows).nulls(nulls).buffers(buffers);
    Ok(make_array(builder.add_child_data(items.to_data()).build()?))
}

fn list_offsets<O: OffsetSizeTrait>(offsets: Vec<u64>) -> Result<OffsetBuffer<O>> {
    let largest = offsets.iter().copied().max().unwrap_or(0);
    if usize::try_from(largest).ok().and_then(O::from_usize).is_none() {
        return Err(Error::InvalidArgument(format!(
            "lists of {largest} items in all don't fit {}-bit offsets: read fewer rows at once",
            8 * size_of::<O>()
        )));
    }
    ascending(offsets.into_iter().map(|offset| O::usize_as(offset as usize)).collect())
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, StringArray, cast::AsArray, types::Int8Type};
    use arrow_schema::{Field, TimeUnit};
    use bytes::Bytes;
    use entasis_encoding::{U256, Views};

    use super::*;

    fn decoded(rows: usize, values: DecodedValues) -> Decoded {
        Decoded { rows, validity: None, values }
    }

    fn texts(offsets: &[i32], bytes: &[u8]) -> Decoded {
        let values = DecodedBytes::Offsets32(offsets.to_vec(), bytes.to_vec());
        decoded(offsets.len() - 1, DecodedValues::Bytes(values))
    }

    fn inline_view(text: &[u8]) -> u128 {
        let mut view = [0; 16];
        view[0] = text.len() as u8;
        view[4..4 + text.len()].copy_from_slice(text);
        u128::from_le_bytes(view)
    }

    fn far_view(length: u32, prefix: &[u8; 4], buffer: u32, offset: u32) -> u128 {
        let prefix = u128::from(u32::from_le_bytes(*prefix));
        u128::from(length) | prefix << 32 | u128::from(buffer) << 64 | u128::from(offset) << 96
    }

    #[test]
    fn vectors_become_buffers_without_a_copy() {
        let lanes = vec![1u64, 2, u64::MAX];
        let at = lanes.as_ptr().cast();
        let array = to_arrow(decoded(3, DecodedValues::L64(lanes)), &DataType::Timestamp(TimeUnit::Second, None));
        assert_eq!(array.unwrap().to_data().buffers()[0].as_ptr(), at);

        let lanes = vec![U256 { low: 5, high: u128::MAX }; 3];
        let at = lanes.as_ptr().cast();
        let array = to_arrow(decoded(3, DecodedValues::L256(lanes)), &DataType::Decimal256(76, 2)).unwrap();
        assert_eq!(array.to_data().buffers()[0].as_ptr(), at);
        assert_eq!(array.as_primitive::<arrow_array::types::Decimal256Type>().value(2), i256::from_parts(5, -1));

        let lent = Bytes::from_static(b"a text that is far longer than a view");
        let views = vec![far_view(lent.len() as u32, b"a te", 0, 0); 2];
        let values = DecodedValues::Bytes(DecodedBytes::Views(Views::new(views, vec![lent.clone()]).unwrap()));
        let array = to_arrow(decoded(2, values), &DataType::Utf8View).unwrap();
        assert_eq!(array.as_string_view().data_buffers()[0].as_ptr(), lent.as_ptr());
        assert_eq!(array.as_string_view().value(1).as_bytes(), lent);
    }

    #[test]
    fn strings_that_are_not_utf8_are_errors_in_every_form() {
        assert!(to_arrow(texts(&[0, 1], &[0xFF]), &DataType::Utf8).is_err());
        assert!(to_arrow(texts(&[0, 1], &[0xFF]), &DataType::Binary).is_ok());
        assert!(to_arrow(texts(&[0, 1, 2], "ü".as_bytes()), &DataType::Utf8).is_err(), "a character cut in two");
        assert!(to_arrow(texts(&[0, 1, 2], "ü".as_bytes()), &DataType::Binary).is_ok());
        let large = DecodedBytes::Offsets64(vec![0, 1], vec![0x80]);
        assert!(to_arrow(decoded(1, DecodedValues::Bytes(large)), &DataType::LargeUtf8).is_err());
        let bytes = Bytes::from_static(b"\xFFthirteen bytes");
        for view in [inline_view(b"\xC3"), far_view(13, b"\xFFthi", 0, 0)] {
            let views = DecodedValues::Bytes(DecodedBytes::Views(Views::new(vec![view], vec![bytes.clone()]).unwrap()));
            assert!(to_arrow(decoded(1, views.clone()), &DataType::Utf8View).is_err());
            assert!(to_arrow(decoded(1, views.clone()), &DataType::BinaryView).is_ok());
            let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
            assert!(to_arrow(decoded(1, views), &dictionary).is_err());
        }
    }

    #[test]
    fn offsets_and_views_out_of_bounds_are_errors() {
        for offsets in [vec![0, 4], vec![0, 2, 1], vec![-1, 2], vec![]] {
            let values = DecodedBytes::Offsets32(offsets.clone(), b"abc".to_vec());
            let rows = offsets.len().saturating_sub(1);
            assert!(to_arrow(decoded(rows, DecodedValues::Bytes(values)), &DataType::Utf8).is_err(), "{offsets:?}");
        }
        let bytes = Bytes::from_static(b"thirteen bytes");
        for view in [far_view(15, b"thir", 0, 0), far_view(13, b"thir", 1, 0), far_view(13, b"thix", 0, 0)] {
            assert!(Views::new(vec![view], vec![bytes.clone()]).is_err());
        }
        let item = Arc::new(Field::new("item", DataType::Int8, true));
        for offsets in [vec![0, 3], vec![0, 2, 1], vec![0, u64::MAX], vec![0, 1 << 31]] {
            let child = Box::new(decoded(2, DecodedValues::L8(vec![1, 2])));
            let lists = decoded(offsets.len() - 1, DecodedValues::List(offsets, child));
            assert!(to_arrow(lists.clone(), &DataType::List(item.clone())).is_err());
            assert!(to_arrow(lists, &DataType::LargeList(item.clone())).is_err());
        }
    }

    #[test]
    fn fixed_sizes_are_exact_but_for_nulls() {
        let size = DataType::FixedSizeBinary(2);
        let array = to_arrow(texts(&[0, 2, 4], b"abcd"), &size).unwrap();
        assert_eq!(array.as_fixed_size_binary().value(1), b"cd");
        assert!(to_arrow(texts(&[0, 2, 3], b"abc"), &size).is_err());
        assert!(to_arrow(texts(&[0, 1, 4], b"abcd"), &size).is_err());
        let mut with_null = texts(&[0, 2, 2, 4], b"abcd");
        with_null.validity = Some([true, false, true].into_iter().collect());
        let array = to_arrow(with_null.clone(), &size).unwrap();
        let array = array.as_fixed_size_binary();
        assert_eq!((array.value(0), array.is_null(1), array.value(2)), (&b"ab"[..], true, &b"cd"[..]));
        with_null.validity = Some([true, true, false].into_iter().collect());
        assert!(to_arrow(with_null, &size).is_err());
    }

    #[test]
    fn dictionaries_hold_each_value_once_in_the_order_of_first_occurrence() {
        let dictionary = |key: DataType, value| DataType::Dictionary(Box::new(key), Box::new(value));
        let long = b"a string that lies in a buffer";
        let bytes = Bytes::from([&long[..], long].concat());
        let length = long.len() as u32;
        // The same string behind two views.
        let views = vec![
            inline_view(b"b"),
            far_view(length, b"a st", 0, 0),
            inline_view(b"never"),
            far_view(length, b"a st", 0, length),
            inline_view(b"b"),
        ];
        let values = DecodedValues::Bytes(DecodedBytes::Views(Views::new(views, vec![bytes]).unwrap()));
        let validity = Some([true, true, false, true, true].into_iter().collect());
        let array =
            to_arrow(Decoded { rows: 5, validity, values }, &dictionary(DataType::Int8, DataType::Utf8)).unwrap();
        let array = array.as_dictionary::<Int8Type>();
        let expected = StringArray::from(vec!["b", std::str::from_utf8(long).unwrap()]);
        assert_eq!(array.values().as_ref(), &expected);
        assert_eq!(array.keys().iter().collect::<Vec<_>>(), [Some(0), Some(1), None, Some(1), Some(0)]);

        let lanes = decoded(4, DecodedValues::L32(vec![7, 9, 7, 8]));
        let array = to_arrow(lanes, &dictionary(DataType::Int8, DataType::Int32)).unwrap();
        assert_eq!(array.as_dictionary::<Int8Type>().values().as_ref(), &Int32Array::from(vec![7, 9, 8]));
    }

    #[test]
    fn more_distinct_values_than_keys_are_an_error() {
        let many = |count: u16| decoded(usize::from(count), DecodedValues::L16((0..count).collect()));
        for (key, most) in [(DataType::Int8, 128), (DataType::UInt8, 256), (DataType::Int16, 32_768)] {
            let data_type = DataType::Dictionary(Box::new(key), Box::new(DataType::UInt16));
            assert!(to_arrow(many(most), &data_type).is_ok(), "{data_type}");
            let error = to_arrow(many(most + 1), &data_type).unwrap_err().to_string();
            assert!(error.contains("distinct values"), "{error}");
        }
    }

    #[test]
    fn nulls_in_fields_without_nulls_are_errors() {
        let item = Arc::new(Field::new("item", DataType::Int8, false));
        let with_null = || Decoded {
            rows: 2,
            validity: Some([true, false].into_iter().collect()),
            values: DecodedValues::L8(vec![1, 2]),
        };
        let list = decoded(1, DecodedValues::List(vec![0, 2], Box::new(with_null())));
        assert!(to_arrow(list, &DataType::List(item.clone())).is_err());
        let structs = decoded(2, DecodedValues::Struct(vec![with_null()]));
        assert!(to_arrow(structs, &DataType::Struct(vec![item].into())).is_err());
    }

    #[test]
    fn layouts_and_counts_that_do_not_fit_are_errors() {
        let lanes = || DecodedValues::L32(vec![1, 2]);
        assert!(to_arrow(decoded(3, lanes()), &DataType::Int32).is_err());
        assert!(to_arrow(decoded(1, lanes()), &DataType::Int32).is_err());
        assert!(to_arrow(decoded(2, lanes()), &DataType::Int64).is_err());
        assert!(to_arrow(decoded(2, lanes()), &DataType::Utf8).is_err());
        assert!(to_arrow(texts(&[0, 1], b"a"), &DataType::LargeUtf8).is_err());
        assert!(to_arrow(decoded(5, texts(&[0, 1], b"a").values), &DataType::Utf8).is_err());
        let short = Decoded { validity: Some([true].into_iter().collect()), ..decoded(2, lanes()) };
        assert!(to_arrow(short, &DataType::Int32).is_err());
        let deep = (0..40).fold(DataType::Int8, |inner, _| DataType::List(Arc::new(Field::new("", inner, true))));
        assert!(matches!(empty_array(&deep), Err(Error::Unsupported(_))));
    }
}
