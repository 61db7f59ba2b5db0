//! Arrow types as bytes, in the grammar of *Types* in `spec/file.md`.
//!
//! Reading checks everything that Arrow would otherwise panic about later: units that a type doesn't have, precisions,
//! negative sizes, keys that aren't integers, nesting over [`MAX_NESTING`].

use std::{collections::HashMap, sync::Arc};

use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType};
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit, UnionFields, UnionMode};
use entasis_encoding::{
    MAX_NESTING,
    wire::{Reader, WireError, write_bytes, write_varint},
};

use crate::{Error, Result};

const FIELD_NULLABLE: u8 = 1;
const FIELD_METADATA: u8 = 2;

const STRUCT_TAG: u8 = 34;

/// A type, and what Arrow keeps in the field around it although it belongs to the type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldType {
    /// The type.
    pub data_type: DataType,
    /// Whether the order of a dictionary's values means something; false for other types.
    pub dictionary_ordered: bool,
}

/// Appends the type of `field`. A type that Arrow can name but not build (`time32[ns]`), or one that nests over
/// [`MAX_NESTING`], is unsupported.
pub fn write_type(field: &Field, out: &mut Vec<u8>) -> Result<()> {
    let dictionary_ordered = field.dict_is_ordered().unwrap_or(false);
    write_nested_type(field.data_type(), dictionary_ordered, MAX_NESTING, out)
}

/// Appends the type of a struct whose fields are columns of their own, with records that hold them.
pub fn write_shredded_struct_type(out: &mut Vec<u8>) {
    out.extend_from_slice(&[STRUCT_TAG, 0]);
}

/// Reads a type. Errors carry the byte at which the input stops being one.
pub fn read_type(reader: &mut Reader<'_>) -> Result<FieldType, WireError> {
    read_nested_type(reader, MAX_NESTING)
}

/// Appends key-value metadata, ordered by key, so that equal metadata are equal bytes.
pub fn write_metadata(metadata: &HashMap<String, String>, out: &mut Vec<u8>) {
    let mut entries: Vec<_> = metadata.iter().collect();
    entries.sort_unstable();
    write_varint(entries.len() as u64, out);
    for (key, value) in entries {
        write_bytes(key.as_bytes(), out);
        write_bytes(value.as_bytes(), out);
    }
}

/// Reads key-value metadata; a key that comes twice is an error.
pub fn read_metadata(reader: &mut Reader<'_>) -> Result<HashMap<String, String>, WireError> {
    let count = reader.length(reader.remaining())?;
    let mut metadata = HashMap::new();
    for _ in 0..count {
        let at = WireError(reader.position());
        let (key, value) = (read_text(reader)?, read_text(reader)?);
        if metadata.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(at);
        }
    }
    Ok(metadata)
}

/// Reads a length and that many bytes of UTF-8.
pub fn read_text<'a>(reader: &mut Reader<'a>) -> Result<&'a str, WireError> {
    let at = WireError(reader.position());
    std::str::from_utf8(reader.bytes()?).map_err(|_| at)
}

fn write_field(field: &Field, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    write_bytes(field.name().as_bytes(), out);
    let has_metadata = !field.metadata().is_empty();
    out.push(if field.is_nullable() { FIELD_NULLABLE } else { 0 } | if has_metadata { FIELD_METADATA } else { 0 });
    if has_metadata {
        write_metadata(field.metadata(), out);
    }
    write_nested_type(field.data_type(), field.dict_is_ordered().unwrap_or(false), depth, out)
}

fn read_field(reader: &mut Reader<'_>, depth: usize) -> Result<Field, WireError> {
    let name = read_text(reader)?;
    let at = WireError(reader.position());
    let flags = reader.u8()?;
    if flags & !(FIELD_NULLABLE | FIELD_METADATA) != 0 {
        return Err(at);
    }
    let metadata = if flags & FIELD_METADATA != 0 { read_metadata(reader)? } else { HashMap::new() };
    let FieldType { data_type, dictionary_ordered } = read_nested_type(reader, depth)?;
    Ok(Field::new(name, data_type, flags & FIELD_NULLABLE != 0)
        .with_dict_is_ordered(dictionary_ordered)
        .with_metadata(metadata))
}

/// Types without parameters, by tag.
const PLAIN: [(u8, DataType); 20] = [
    (0, DataType::Null),
    (1, DataType::Boolean),
    (2, DataType::Int8),
    (3, DataType::Int16),
    (4, DataType::Int32),
    (5, DataType::Int64),
    (6, DataType::UInt8),
    (7, DataType::UInt16),
    (8, DataType::UInt32),
    (9, DataType::UInt64),
    (10, DataType::Float16),
    (11, DataType::Float32),
    (12, DataType::Float64),
    (14, DataType::Date32),
    (15, DataType::Date64),
    (20, DataType::Binary),
    (22, DataType::LargeBinary),
    (23, DataType::BinaryView),
    (24, DataType::Utf8),
    (25, DataType::LargeUtf8),
];
const UTF8_VIEW_TAG: u8 = 26;

fn write_nested_type(data_type: &DataType, dictionary_ordered: bool, depth: usize, out: &mut Vec<u8>) -> Result<()> {
    let depth = depth
        .checked_sub(1)
        .ok_or_else(|| Error::Unsupported(format!("types that nest more than {MAX_NESTING} deep")))?;
    if !is_buildable(data_type) {
        return Err(Error::Unsupported(format!("{data_type}: Arrow has no arrays of this type")));
    }
    if let Some((tag, _)) = PLAIN.iter().find(|(_, plain)| plain == data_type) {
        out.push(*tag);
        return Ok(());
    }
    match data_type {
        DataType::Utf8View => out.push(UTF8_VIEW_TAG),
        DataType::Timestamp(unit, zone) => {
            out.extend_from_slice(&[13, unit_code(*unit), u8::from(zone.is_some())]);
            if let Some(zone) = zone {
                write_bytes(zone.as_bytes(), out);
            }
        }
        DataType::Time32(unit) => out.extend_from_slice(&[16, unit_code(*unit)]),
        DataType::Time64(unit) => out.extend_from_slice(&[17, unit_code(*unit)]),
        DataType::Duration(unit) => out.extend_from_slice(&[18, unit_code(*unit)]),
        DataType::Interval(unit) => out.extend_from_slice(&[19, interval_code(*unit)]),
        DataType::FixedSizeBinary(size) => {
            out.push(21);
            write_varint(*size as u64, out);
        }
        DataType::Decimal32(precision, scale) => out.extend_from_slice(&[27, *precision, *scale as u8]),
        DataType::Decimal64(precision, scale) => out.extend_from_slice(&[28, *precision, *scale as u8]),
        DataType::Decimal128(precision, scale) => out.extend_from_slice(&[29, *precision, *scale as u8]),
        DataType::Decimal256(precision, scale) => out.extend_from_slice(&[30, *precision, *scale as u8]),
        nested => write_type_with_children(nested, dictionary_ordered, depth, out)?,
    }
    Ok(())
}

fn write_type_with_children(
    data_type: &DataType,
    dictionary_ordered: bool,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut tagged_field = |tag, field: &Field| {
        out.push(tag);
        write_field(field, depth, out)
    };
    match data_type {
        DataType::List(field) => tagged_field(31, field)?,
        DataType::LargeList(field) => tagged_field(32, field)?,
        DataType::FixedSizeList(field, size) => {
            out.push(33);
            write_varint(*size as u64, out);
            write_field(field, depth, out)?;
        }
        DataType::Struct(fields) => {
            out.push(STRUCT_TAG);
            write_varint(fields.len() as u64, out);
            fields.iter().try_for_each(|field| write_field(field, depth, out))?;
        }
        DataType::Dictionary(key, value) => {
            out.push(35);
            write_nested_type(key, false, depth, out)?;
            write_nested_type(value, false, depth, out)?;
            out.push(u8::from(dictionary_ordered));
        }
        DataType::Map(entries, keys_sorted) => {
            tagged_field(36, entries)?;
            out.push(u8::from(*keys_sorted));
        }
        DataType::RunEndEncoded(run_ends, values) => {
            tagged_field(37, run_ends)?;
            write_field(values, depth, out)?;
        }
        DataType::Union(fields, mode) => {
            out.extend_from_slice(&[38, u8::from(*mode == UnionMode::Dense)]);
            write_varint(fields.len() as u64, out);
            for (id, field) in fields.iter() {
                out.push(id as u8);
                write_field(field, depth, out)?;
            }
        }
        DataType::ListView(field) => tagged_field(39, field)?,
        DataType::LargeListView(field) => tagged_field(40, field)?,
        other => return Err(Error::Unsupported(format!("{other}: the format has no tag for it"))),
    }
    Ok(())
}

fn read_nested_type(reader: &mut Reader<'_>, depth: usize) -> Result<FieldType, WireError> {
    let at = WireError(reader.position());
    let depth = depth.checked_sub(1).ok_or(at)?;
    let tag = reader.u8()?;
    let mut dictionary_ordered = false;
    let data_type = match tag {
        13 => {
            let unit = read_unit(reader)?;
            let zone = if read_bool(reader)? { Some(Arc::from(read_text(reader)?)) } else { None };
            DataType::Timestamp(unit, zone)
        }
        16 => DataType::Time32(read_unit(reader)?),
        17 => DataType::Time64(read_unit(reader)?),
        18 => DataType::Duration(read_unit(reader)?),
        19 => DataType::Interval(read_interval(reader)?),
        21 => DataType::FixedSizeBinary(read_size(reader)?),
        UTF8_VIEW_TAG => DataType::Utf8View,
        27 => DataType::Decimal32(reader.u8()?, reader.u8()? as i8),
        28 => DataType::Decimal64(reader.u8()?, reader.u8()? as i8),
        29 => DataType::Decimal128(reader.u8()?, reader.u8()? as i8),
        30 => DataType::Decimal256(reader.u8()?, reader.u8()? as i8),
        31 => DataType::List(read_field_ref(reader, depth)?),
        32 => DataType::LargeList(read_field_ref(reader, depth)?),
        33 => {
            let size = read_size(reader)?;
            DataType::FixedSizeList(read_field_ref(reader, depth)?, size)
        }
        STRUCT_TAG => DataType::Struct(read_fields(reader, depth)?),
        35 => {
            let key = read_nested_type(reader, depth)?.data_type;
            let value = read_nested_type(reader, depth)?.data_type;
            dictionary_ordered = read_bool(reader)?;
            DataType::Dictionary(Box::new(key), Box::new(value))
        }
        36 => {
            let entries = read_field_ref(reader, depth)?;
            DataType::Map(entries, read_bool(reader)?)
        }
        37 => {
            let run_ends = read_field_ref(reader, depth)?;
            DataType::RunEndEncoded(run_ends, read_field_ref(reader, depth)?)
        }
        38 => read_union(reader, depth)?,
        39 => DataType::ListView(read_field_ref(reader, depth)?),
        40 => DataType::LargeListView(read_field_ref(reader, depth)?),
        tag => PLAIN.iter().find(|(plain, _)| *plain == tag).ok_or(at)?.1.clone(),
    };
    if is_buildable(&data_type) { Ok(FieldType { data_type, dictionary_ordered }) } else { Err(at) }
}

fn read_field_ref(reader: &mut Reader<'_>, depth: usize) -> Result<FieldRef, WireError> {
    read_field(reader, depth).map(Arc::new)
}

fn read_fields(reader: &mut Reader<'_>, depth: usize) -> Result<Fields, WireError> {
    let count = reader.length(reader.remaining())?;
    // Collected one by one: the count is bounded by bytes, but a field is far larger than its bytes.
    let mut fields = Vec::new();
    for _ in 0..count {
        fields.push(read_field_ref(reader, depth)?);
    }
    Ok(fields.into())
}

fn read_union(reader: &mut Reader<'_>, depth: usize) -> Result<DataType, WireError> {
    let mode = if read_bool(reader)? { UnionMode::Dense } else { UnionMode::Sparse };
    let at = WireError(reader.position());
    let count = reader.length(128)?;
    let (mut ids, mut fields) = (Vec::new(), Vec::new());
    for _ in 0..count {
        ids.push(reader.u8()? as i8);
        fields.push(read_field_ref(reader, depth)?);
    }
    Ok(DataType::Union(UnionFields::try_new(ids, fields).map_err(|_| at)?, mode))
}

fn read_bool(reader: &mut Reader<'_>) -> Result<bool, WireError> {
    let at = WireError(reader.position());
    match reader.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(at),
    }
}

fn read_size(reader: &mut Reader<'_>) -> Result<i32, WireError> {
    reader.length(i32::MAX as usize).map(|size| size as i32)
}

fn unit_code(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

fn read_unit(reader: &mut Reader<'_>) -> Result<TimeUnit, WireError> {
    let at = WireError(reader.position());
    Ok(match reader.u8()? {
        0 => TimeUnit::Second,
        1 => TimeUnit::Millisecond,
        2 => TimeUnit::Microsecond,
        3 => TimeUnit::Nanosecond,
        _ => return Err(at),
    })
}

fn interval_code(unit: IntervalUnit) -> u8 {
    match unit {
        IntervalUnit::YearMonth => 0,
        IntervalUnit::DayTime => 1,
        IntervalUnit::MonthDayNano => 2,
    }
}

fn read_interval(reader: &mut Reader<'_>) -> Result<IntervalUnit, WireError> {
    let at = WireError(reader.position());
    Ok(match reader.u8()? {
        0 => IntervalUnit::YearMonth,
        1 => IntervalUnit::DayTime,
        2 => IntervalUnit::MonthDayNano,
        _ => return Err(at),
    })
}

/// False for what the type enum can say but no array can be: Arrow panics on some of these.
fn is_buildable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Time32(unit) => matches!(unit, TimeUnit::Second | TimeUnit::Millisecond),
        DataType::Time64(unit) => matches!(unit, TimeUnit::Microsecond | TimeUnit::Nanosecond),
        DataType::FixedSizeBinary(size) | DataType::FixedSizeList(_, size) => *size >= 0,
        DataType::Decimal32(precision, scale) => is_decimal::<Decimal32Type>(*precision, *scale),
        DataType::Decimal64(precision, scale) => is_decimal::<Decimal64Type>(*precision, *scale),
        DataType::Decimal128(precision, scale) => is_decimal::<Decimal128Type>(*precision, *scale),
        DataType::Decimal256(precision, scale) => is_decimal::<Decimal256Type>(*precision, *scale),
        DataType::Dictionary(key, _) => key.is_dictionary_key_type(),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => fields.len() == 2,
            _ => false,
        },
        DataType::RunEndEncoded(run_ends, _) => run_ends.data_type().is_run_ends_type(),
        _ => true,
    }
}

fn is_decimal<T: DecimalType>(precision: u8, scale: i8) -> bool {
    (1..=T::MAX_PRECISION).contains(&precision)
        && scale <= T::MAX_SCALE
        && (scale <= 0 || scale.unsigned_abs() <= precision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, data_type: DataType) -> FieldRef {
        Arc::new(Field::new(name, data_type, true))
    }

    /// Every type with every unit, and nested ones with duplicate names, metadata and non-nullable fields.
    fn all_types() -> Vec<DataType> {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        let units = [Second, Millisecond, Microsecond, Nanosecond];
        let mut types: Vec<DataType> = PLAIN.iter().map(|(_, plain)| plain.clone()).collect();
        types.push(DataType::Utf8View);
        for unit in units {
            types.push(DataType::Duration(unit));
            for zone in [None, Some(""), Some("Europe/Zürich"), Some("+05:30")] {
                types.push(DataType::Timestamp(unit, zone.map(Arc::from)));
            }
        }
        types.extend([DataType::Time32(Second), DataType::Time32(Millisecond)]);
        types.extend([DataType::Time64(Microsecond), DataType::Time64(Nanosecond)]);
        types.extend(
            [IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano].map(DataType::Interval),
        );
        types.extend([0, 1, 127, 128, i32::MAX].map(DataType::FixedSizeBinary));
        types.extend([DataType::Decimal32(9, 9), DataType::Decimal64(18, -3), DataType::Decimal64(1, 0)]);
        types.extend([DataType::Decimal128(38, 10), DataType::Decimal256(76, -128), DataType::Decimal256(76, 76)]);
        types.extend(nested_types());
        types
    }

    fn nested_types() -> Vec<DataType> {
        let metadata = HashMap::from([("".into(), "ключ".into()), ("🜁".into(), "".into()), ("b".into(), "c".into())]);
        let odd = Arc::new(Field::new("", DataType::Utf8View, false).with_metadata(metadata));
        let dictionary = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::LargeUtf8));
        let ordered = Arc::new(Field::new("o", dictionary.clone(), true).with_dict_is_ordered(true));
        let same_names = DataType::Struct(vec![odd.clone(), odd.clone(), field("a", DataType::Int8)].into());
        let entries = DataType::Struct(vec![field("keys", DataType::Utf8), field("values", dictionary.clone())].into());
        let run_ends = Arc::new(Field::new("run_ends", DataType::Int16, false));
        let union =
            UnionFields::try_new([5, 0, 127], [odd.clone(), ordered.clone(), field("", DataType::Null)]).unwrap();
        vec![
            DataType::List(odd.clone()),
            DataType::LargeList(ordered.clone()),
            DataType::FixedSizeList(odd.clone(), 0),
            DataType::FixedSizeList(field("item", same_names.clone()), 1_000_000),
            DataType::Struct(Fields::empty()),
            same_names.clone(),
            dictionary.clone(),
            DataType::Dictionary(Box::new(DataType::Int64), Box::new(dictionary)),
            DataType::Map(field("entries", entries), true),
            DataType::RunEndEncoded(run_ends, ordered),
            DataType::Union(union.clone(), UnionMode::Sparse),
            DataType::Union(union, UnionMode::Dense),
            DataType::Union(UnionFields::empty(), UnionMode::Dense),
            DataType::ListView(odd),
            DataType::LargeListView(field("é", DataType::List(field("item", same_names)))),
        ]
    }

    fn bytes_of(data_type: &DataType) -> Vec<u8> {
        let mut out = Vec::new();
        write_type(&Field::new("", data_type.clone(), true), &mut out).unwrap();
        out
    }

    #[test]
    fn every_type_comes_back_and_every_truncation_fails() {
        for data_type in all_types() {
            let bytes = bytes_of(&data_type);
            let mut reader = Reader::new(&bytes);
            assert_eq!(read_type(&mut reader).unwrap().data_type, data_type);
            assert_eq!(reader.remaining(), 0, "{data_type}");
            for cut in 0..bytes.len() {
                assert!(read_type(&mut Reader::new(&bytes[..cut])).is_err(), "{data_type} cut at {cut}");
            }
        }
    }

    #[test]
    fn every_tag_of_the_spec_is_written() {
        let tags: std::collections::BTreeSet<u8> = all_types().iter().map(|data_type| bytes_of(data_type)[0]).collect();
        assert_eq!(tags, (0..=40).collect());
    }

    #[test]
    fn whether_a_dictionary_is_ordered_comes_back_at_any_depth() {
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        for ordered in [false, true] {
            let inner = Field::new("d", dictionary.clone(), true).with_dict_is_ordered(ordered);
            let mut out = Vec::new();
            write_type(&inner, &mut out).unwrap();
            assert_eq!(read_type(&mut Reader::new(&out)).unwrap().dictionary_ordered, ordered);
            let DataType::List(item) =
                read_type(&mut Reader::new(&bytes_of(&DataType::List(Arc::new(inner))))).unwrap().data_type
            else {
                panic!("a list went in");
            };
            assert_eq!(item.dict_is_ordered(), Some(ordered));
        }
    }

    #[test]
    fn changed_bytes_give_a_type_or_an_error() {
        for data_type in all_types() {
            let bytes = bytes_of(&data_type);
            for index in 0..bytes.len() {
                for value in 0..=255 {
                    let mut changed = bytes.clone();
                    changed[index] = value;
                    if let Ok(read) = read_type(&mut Reader::new(&changed)) {
                        assert!(is_buildable(&read.data_type));
                    }
                }
            }
        }
    }

    #[test]
    fn nesting_is_limited_in_both_directions() {
        let nested = |levels: usize| (1..levels).fold(DataType::Int8, |inner, _| DataType::List(field("", inner)));
        let deepest = bytes_of(&nested(MAX_NESTING));
        assert_eq!(read_type(&mut Reader::new(&deepest)).unwrap().data_type, nested(MAX_NESTING));
        let over = Field::new("", nested(MAX_NESTING + 1), true);
        assert!(matches!(write_type(&over, &mut Vec::new()), Err(Error::Unsupported(_))));
        let mut endless = [31, 0, 0].repeat(MAX_NESTING);
        endless.push(0);
        assert!(read_type(&mut Reader::new(&endless)).is_err());
    }

    #[test]
    fn types_that_arrow_cannot_build_are_refused_in_both_directions() {
        let bad = [
            DataType::Time32(TimeUnit::Nanosecond),
            DataType::Time64(TimeUnit::Second),
            DataType::FixedSizeBinary(-1),
            DataType::Decimal128(0, 0),
            DataType::Decimal128(39, 0),
            DataType::Decimal32(5, 6),
            DataType::Dictionary(Box::new(DataType::Utf8), Box::new(DataType::Utf8)),
            DataType::Map(field("entries", DataType::Utf8), false),
            DataType::RunEndEncoded(field("", DataType::Utf8), field("", DataType::Utf8)),
        ];
        for data_type in bad {
            let written = write_type(&Field::new("", data_type.clone(), true), &mut Vec::new());
            assert!(matches!(written, Err(Error::Unsupported(_))), "{data_type:?}");
        }
        for bytes in [&[16, 3][..], &[17, 0], &[29, 0, 0], &[29, 39, 0], &[27, 5, 6], &[35, 24, 24, 0], &[41], &[255]] {
            assert!(read_type(&mut Reader::new(bytes)).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn metadata_come_back_in_one_order_and_keys_come_once() {
        let metadata: HashMap<String, String> = (0..20).map(|i| (format!("k{i}"), format!("ü{i}"))).collect();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        write_metadata(&metadata, &mut first);
        write_metadata(&metadata.clone().into_iter().collect(), &mut second);
        assert_eq!(first, second);
        assert_eq!(read_metadata(&mut Reader::new(&first)).unwrap(), metadata);
        for cut in 0..first.len() {
            assert!(read_metadata(&mut Reader::new(&first[..cut])).is_err());
        }
        assert!(read_metadata(&mut Reader::new(&[2, 1, b'a', 0, 1, b'a', 0])).is_err());
        assert!(read_metadata(&mut Reader::new(&[1, 1, 0xFF, 0])).is_err(), "keys are UTF-8");
    }

    #[test]
    fn a_shredded_struct_reads_as_one_without_fields() {
        let mut out = Vec::new();
        write_shredded_struct_type(&mut out);
        assert_eq!(read_type(&mut Reader::new(&out)).unwrap().data_type, DataType::Struct(Fields::empty()));
    }
}
