//! Dictionary arrays from decoded values: the distinct values in the order of their first occurrence, and keys.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::Arc,
};

use arrow_array::{
    Array, ArrayRef, BinaryViewArray, DictionaryArray, PrimitiveArray,
    types::{
        ArrowDictionaryKeyType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::DataType;
use entasis_encoding::{BitBuffer, BytesForm, Decoded, DecodedBytes, DecodedValues, Views};

use super::{
    bytes_form_of,
    output::{nulls_of, to_arrow},
    rows::push_row,
    strings::Strings,
    utf8::to_binary_views,
};
use crate::{Error, Result};

/// A dictionary array of `decoded` values; one whose key type can't number the distinct values is an error.
pub(super) fn to_dictionary(decoded: Decoded, key_type: &DataType, value_type: &DataType) -> Result<ArrayRef> {
    let (keys, distinct, nulls) = distinct(decoded, value_type, bytes_form_of(value_type))?;
    numbered(&keys, to_arrow(distinct, value_type)?, nulls, key_type)
}

/// The number of every row's value (0 for nulls), the distinct values in the order of their first rows, with byte strings in `form`, and
/// which rows are null.
pub(super) fn distinct(
    mut decoded: Decoded,
    value_type: &DataType,
    form: BytesForm,
) -> Result<(Vec<u32>, Decoded, Option<NullBuffer>)> {
    let rows = decoded.rows;
    let nulls = match decoded.values {
        DecodedValues::Null => Some(NullBuffer::new_null(rows)),
        _ => nulls_of(decoded.validity.take(), rows)?,
    };
    let (keys, values) = match decoded.values {
        DecodedValues::Null => (Keys::none(rows), DecodedValues::Null),
        DecodedValues::Bool(bits) => {
            let keys = Keys::of(rows, nulls.as_ref(), |row| bits.bits().get(row));
            let values: BitBuffer = keys.first_rows.iter().map(|&row| bits.bits().get(row as usize)).collect();
            (keys, DecodedValues::Bool(values))
        }
        DecodedValues::L8(lanes) => distinct_lanes(lanes, nulls.as_ref(), DecodedValues::L8),
        DecodedValues::L16(lanes) => distinct_lanes(lanes, nulls.as_ref(), DecodedValues::L16),
        DecodedValues::L32(lanes) => distinct_lanes(lanes, nulls.as_ref(), DecodedValues::L32),
        DecodedValues::L64(lanes) => distinct_lanes(lanes, nulls.as_ref(), DecodedValues::L64),
        DecodedValues::L128(lanes) => distinct_lanes(lanes, nulls.as_ref(), DecodedValues::L128),
        DecodedValues::L256(lanes) => distinct_lanes(lanes, nulls.as_ref(), DecodedValues::L256),
        DecodedValues::Bytes(DecodedBytes::Views(views)) if Strings::are_of(value_type) => {
            distinct_bytes(views, nulls.as_ref(), form)?
        }
        nested => distinct_rows(Decoded { rows, validity: None, values: nested }, nulls.as_ref())?,
    };
    let distinct = Decoded { rows: keys.first_rows.len(), validity: None, values };
    Ok((keys.keys, distinct, nulls))
}

/// A dictionary array with keys of `key_type`; a type that can't number the values is an error.
pub(super) fn numbered(
    keys: &[u32],
    values: ArrayRef,
    nulls: Option<NullBuffer>,
    key_type: &DataType,
) -> Result<ArrayRef> {
    match key_type {
        DataType::Int8 => keyed::<Int8Type>(keys, values, nulls),
        DataType::Int16 => keyed::<Int16Type>(keys, values, nulls),
        DataType::Int32 => keyed::<Int32Type>(keys, values, nulls),
        DataType::Int64 => keyed::<Int64Type>(keys, values, nulls),
        DataType::UInt8 => keyed::<UInt8Type>(keys, values, nulls),
        DataType::UInt16 => keyed::<UInt16Type>(keys, values, nulls),
        DataType::UInt32 => keyed::<UInt32Type>(keys, values, nulls),
        DataType::UInt64 => keyed::<UInt64Type>(keys, values, nulls),
        other => Err(Error::Unsupported(format!("dictionary keys of type {other}"))),
    }
}

fn keyed<K: ArrowDictionaryKeyType>(keys: &[u32], values: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let distinct = values.len();
    if distinct > 0 && K::Native::from_usize(distinct - 1).is_none() {
        return Err(Error::InvalidArgument(format!(
            "{distinct} distinct values don't fit dictionary keys of type {}: read fewer rows at once",
            K::DATA_TYPE
        )));
    }
    let natives = keys.iter().map(|&key| K::Native::usize_as(key as usize)).collect();
    Ok(Arc::new(DictionaryArray::<K>::try_new(PrimitiveArray::try_new(natives, nulls)?, values)?))
}

/// The key of every row (0 for nulls), and the row in which each key first occurs.
struct Keys {
    keys: Vec<u32>,
    first_rows: Vec<u32>,
}

impl Keys {
    fn none(rows: usize) -> Self {
        Self { keys: vec![0; rows], first_rows: Vec::new() }
    }

    /// Numbers distinct values as they come.
    fn of<T: Hash + Eq>(rows: usize, nulls: Option<&NullBuffer>, value: impl Fn(usize) -> T) -> Self {
        let mut numbers = HashMap::with_hasher(QuickHash::new());
        let mut keys = Self::none(rows);
        for_each_valid(rows, nulls, |row| {
            keys.keys[row] = *numbers.entry(value(row)).or_insert_with(|| {
                keys.first_rows.push(row as u32);
                keys.first_rows.len() as u32 - 1
            });
        });
        keys
    }
}

fn for_each_valid(rows: usize, nulls: Option<&NullBuffer>, visit: impl FnMut(usize)) {
    match nulls {
        None => (0..rows).for_each(visit),
        Some(nulls) => nulls.valid_indices().for_each(visit),
    }
}

fn distinct_lanes<L: Copy + Hash + Eq>(
    lanes: Vec<L>,
    nulls: Option<&NullBuffer>,
    wrap: impl Fn(Vec<L>) -> DecodedValues,
) -> (Keys, DecodedValues) {
    let keys = Keys::of(lanes.len(), nulls, |row| lanes[row]);
    let values = keys.first_rows.iter().map(|&row| lanes[row as usize]).collect();
    (keys, wrap(values))
}

/// Views are told apart first, bytes only behind views not met before: blocks lend equal views to equal values mostly.
fn distinct_bytes(views: Views, nulls: Option<&NullBuffer>, form: BytesForm) -> Result<(Keys, DecodedValues)> {
    let buffers = views.buffers().to_vec();
    let strings = to_binary_views(views, None)?;
    let by_view = Keys::of(strings.len(), nulls, |row| strings.views()[row]);
    let view_rows = &by_view.first_rows;
    let by_value = Keys::of(view_rows.len(), None, |view| strings.value(view_rows[view] as usize));
    let keys = Keys {
        keys: match view_rows.len() {
            0 => by_view.keys,
            _ => by_view.keys.iter().map(|&view| by_value.keys[view as usize]).collect(),
        },
        first_rows: by_value.first_rows.iter().map(|&view| view_rows[view as usize]).collect(),
    };
    let values = match form {
        BytesForm::Views => {
            let views = keys.first_rows.iter().map(|&row| strings.views()[row as usize]).collect();
            DecodedBytes::Views(Views::new(views, buffers)?)
        }
        BytesForm::Offsets64 => {
            let (ends, bytes) = gathered(&strings, &keys.first_rows);
            DecodedBytes::Offsets64(std::iter::once(0).chain(ends.iter().map(|&end| end as i64)).collect(), bytes)
        }
        BytesForm::Offsets32 => {
            let (ends, bytes) = gathered(&strings, &keys.first_rows);
            if i32::try_from(bytes.len()).is_err() {
                return Err(entasis_encoding::Error::OffsetOverflow.into());
            }
            DecodedBytes::Offsets32(std::iter::once(0).chain(ends.iter().map(|&end| end as i32)).collect(), bytes)
        }
    };
    Ok((keys, DecodedValues::Bytes(values)))
}

/// Values of any type are told apart by their bytes.
fn distinct_rows(decoded: Decoded, nulls: Option<&NullBuffer>) -> Result<(Keys, DecodedValues)> {
    let (mut bytes, mut ends) = (Vec::new(), vec![0]);
    for row in 0..decoded.rows {
        push_row(&decoded, row, &mut bytes)?;
        ends.push(bytes.len());
    }
    let keys = Keys::of(decoded.rows, nulls, |row| &bytes[ends[row]..ends[row + 1]]);
    let mut distinct = decoded.empty_like();
    distinct.extend_picked(&decoded, keys.first_rows.iter().map(|&row| row as usize))?;
    Ok((keys, distinct.values))
}

/// The byte strings of some rows, back to back, and where each ends.
fn gathered(strings: &BinaryViewArray, rows: &[u32]) -> (Vec<usize>, Vec<u8>) {
    let values = rows.iter().map(|&row| strings.value(row as usize));
    let mut bytes = Vec::with_capacity(values.clone().map(<[u8]>::len).sum());
    let ends = values.map(|value| {
        bytes.extend_from_slice(value);
        bytes.len()
    });
    (ends.collect(), bytes)
}

/// Hashes fixed-width values by a multiplication and bytes by XXH3, seeded so that no file can make values collide.
#[derive(Clone)]
struct QuickHash(u64);

impl QuickHash {
    fn new() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for QuickHash {
    type Hasher = QuickHash;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}

impl Hasher for QuickHash {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(value ^ self.0) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
        self.write_u64((value >> 64) as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
