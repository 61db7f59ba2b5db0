//! Layouts that blocks don't have, as layouts that they do: *Layouts* in `spec/file.md`.
//!
//! What Arrow lays out in several ways for the same values is written in one: maps and list views are lists, run-end
//! encoded arrays are their rows, unions and intervals of several numbers are structs, and dictionaries of nested values
//! are gathered. Everything behind this module, in either direction, deals with *plain* types alone.

use std::{borrow::Cow, sync::Arc};

use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, GenericListArray, GenericListViewArray, OffsetSizeTrait,
    PrimitiveArray, RunArray, StructArray, UInt64Array,
    cast::AsArray,
    downcast_run_array, make_array, new_null_array,
    types::{RunEndIndexType, UInt32Type},
};
use arrow_buffer::{ArrowNativeType, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, UnionMode};
use arrow_select::take::take;

use super::{interval, strings::Strings, union};
use crate::{Error, Result};

/// Whether arrays of a type are laid out as blocks have it. Dictionaries of values without children are: their values
/// are lent by the dictionary.
pub fn is_plain(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..)
        | DataType::Union(..)
        | DataType::RunEndEncoded(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_) => false,
        DataType::Interval(unit) => *unit == IntervalUnit::YearMonth,
        DataType::Dictionary(_, value) => has_no_children(value),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_plain(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_plain(field.data_type())),
        _ => true,
    }
}

fn has_no_children(data_type: &DataType) -> bool {
    let nested = matches!(
        data_type,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::Struct(_)
            | DataType::Dictionary(..)
    );
    !nested && is_plain(data_type)
}

/// The type of the plain array of an array of `data_type`.
pub fn plain_type(data_type: &DataType) -> Cow<'_, DataType> {
    if is_plain(data_type) {
        return Cow::Borrowed(data_type);
    }
    Cow::Owned(match data_type {
        DataType::List(item) | DataType::Map(item, _) => DataType::List(plain_field(item)),
        DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => {
            DataType::LargeList(plain_field(item))
        }
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Dictionary(_, value) => plain_type(value).into_owned(),
        DataType::RunEndEncoded(_, values) => match plain_type(values.data_type()).into_owned() {
            strings if Strings::are_of(&strings) => DataType::Dictionary(DataType::UInt32.into(), strings.into()),
            other => other,
        },
        DataType::Interval(unit) => DataType::Struct(interval::plain_fields(*unit)),
        DataType::Union(fields, mode) => DataType::Struct(union::plain_fields(fields, *mode)),
        other => other.clone(),
    })
}

/// A field of the plain type. Whether its nulls are allowed was for the array to say that it came from.
pub(super) fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain_type(field.data_type()).into_owned(), true))
}

/// The same values in the layout of [`plain_type`]. Arrays that are plain already are given back as they are.
pub fn plain_array(array: &ArrayRef) -> Result<ArrayRef> {
    if is_plain(array.data_type()) {
        return Ok(array.clone());
    }
    match array.data_type() {
        DataType::Map(entries, _) => {
            let map = array.as_map();
            plain_list(entries, map.offsets(), map.entries(), map.nulls())
        }
        DataType::ListView(item) => plain_view(item, array.as_list_view::<i32>()),
        DataType::LargeListView(item) => plain_view(item, array.as_list_view::<i64>()),
        DataType::RunEndEncoded(..) => downcast_run_array!(
            array => plain_runs(array),
            other => Err(Error::Unsupported(format!("type {other}")))
        ),
        DataType::Interval(_) => interval::plain_array(array),
        DataType::Union(fields, UnionMode::Dense) => union::plain_dense(fields, array.as_union()),
        DataType::Union(fields, UnionMode::Sparse) => union::plain_sparse(fields, array.as_union()),
        DataType::Dictionary(..) => plain_dictionary(array),
        _ => with_children(array, &plain_array),
    }
}

/// The values of dictionaries, wherever they are in a plain array: for arrays that are put together, whose keys may not
/// tell all values apart.
pub fn without_dictionaries(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(..) => plain_dictionary(array),
        _ => with_children(array, &without_dictionaries),
    }
}

/// The type with the widest keys and run ends, which are never too narrow for what comes together.
pub fn widest_type(data_type: &DataType) -> DataType {
    let widest = |field: &FieldRef| Arc::new(Field::clone(field).with_data_type(widest_type(field.data_type())));
    match data_type {
        DataType::Dictionary(_, value) => DataType::Dictionary(DataType::UInt64.into(), widest_type(value).into()),
        DataType::RunEndEncoded(run_ends, values) => {
            let run_ends = Field::clone(run_ends).with_data_type(DataType::Int64);
            DataType::RunEndEncoded(Arc::new(run_ends), widest(values))
        }
        DataType::List(item) => DataType::List(widest(item)),
        DataType::LargeList(item) => DataType::LargeList(widest(item)),
        DataType::ListView(item) => DataType::ListView(widest(item)),
        DataType::LargeListView(item) => DataType::LargeListView(widest(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(widest(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(widest).collect()),
        DataType::Map(entries, is_sorted) => DataType::Map(widest(entries), *is_sorted),
        DataType::Union(fields, mode) => {
            DataType::Union(fields.iter().map(|(id, field)| (id, widest(field))).collect(), *mode)
        }
        other => other.clone(),
    }
}

/// A list or a struct over children that are made of its own; other arrays as they are.
fn with_children(array: &ArrayRef, change: &dyn Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
    let list_field =
        |item: &Field, items: &ArrayRef| Arc::new(Field::new(item.name(), items.data_type().clone(), true));
    let nulls = array.nulls().cloned();
    Ok(match array.data_type() {
        DataType::List(item) => {
            let (offsets, items) = used_items(array.as_list::<i32>().offsets(), array.as_list::<i32>().values());
            let items = change(&items)?;
            Arc::new(GenericListArray::<i32>::try_new(list_field(item, &items), offsets, items, nulls)?)
        }
        DataType::LargeList(item) => {
            let (offsets, items) = used_items(array.as_list::<i64>().offsets(), array.as_list::<i64>().values());
            let items = change(&items)?;
            Arc::new(GenericListArray::<i64>::try_new(list_field(item, &items), offsets, items, nulls)?)
        }
        DataType::FixedSizeList(item, size) => {
            let items = array.as_fixed_size_list().values().slice(0, array.len() * *size as usize);
            let items = change(&items)?;
            let field = list_field(item, &items);
            Arc::new(FixedSizeListArray::try_new_with_length(field, *size, items, nulls, array.len())?)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(change).collect::<Result<Vec<_>>>()?;
            let fields = fields.iter().zip(&columns).map(|(field, column)| list_field(field, column));
            Arc::new(StructArray::try_new_with_length(fields.collect::<Fields>(), columns, nulls, array.len())?)
        }
        _ => array.clone(),
    })
}

/// The items that the rows of a list refer to, and offsets from 0.
fn used_items<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, items: &dyn Array) -> (OffsetBuffer<O>, ArrayRef) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let from_zero: ScalarBuffer<O> = offsets.iter().map(|&offset| offset - first).collect();
    (OffsetBuffer::new(from_zero), items.slice(first.as_usize(), (last - first).as_usize()))
}

fn plain_list<O: OffsetSizeTrait>(
    item: &FieldRef,
    offsets: &OffsetBuffer<O>,
    items: &dyn Array,
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    let (offsets, items) = used_items(offsets, items);
    let list = GenericListArray::<O>::try_new(plain_field(item), offsets, plain_array(&items)?, nulls.cloned())?;
    Ok(Arc::new(list))
}

/// Lists whose items lie in any order, several times or not at all, with the items of each in turn. The offsets are of
/// 64 bits: shared items may be more than they were.
fn plain_view<O: OffsetSizeTrait>(item: &FieldRef, view: &GenericListViewArray<O>) -> Result<ArrayRef> {
    let rows = view.len();
    let ranges = (0..rows).map(|row| match view.is_null(row) {
        true => 0..0,
        false => {
            let start = view.value_offsets()[row].as_usize();
            start..start + view.value_sizes()[row].as_usize()
        }
    });
    let offsets = OffsetBuffer::<i64>::from_lengths(ranges.clone().map(|range| range.len()));
    let total = offsets[rows].as_usize();
    let mut used = ranges.clone().filter(|range| !range.is_empty());
    let start = used.clone().next().map_or(0, |range| range.start);
    let mut end = start;
    let in_order = used.all(|range| range.start == std::mem::replace(&mut end, range.end));
    let items = match in_order {
        true => plain_array(&view.values().slice(start, total))?,
        false => gather(&plain_array(view.values())?, &ranges.flatten().map(|index| index as u64).collect())?,
    };
    Ok(Arc::new(GenericListArray::<i64>::try_new(plain_field(item), offsets, items, view.nulls().cloned())?))
}

/// The value of every row. Byte strings aren't copied: they become a dictionary.
fn plain_runs<R: RunEndIndexType>(runs: &RunArray<R>) -> Result<ArrayRef> {
    let values = plain_array(&runs.values_slice())?;
    let mut numbers: Vec<u32> = Vec::with_capacity(runs.len());
    for (run, end) in (0..).zip(runs.run_ends().sliced_values()) {
        numbers.resize(end.as_usize(), run);
    }
    if Strings::are_of(values.data_type()) {
        let keys = PrimitiveArray::<UInt32Type>::new(numbers.into(), None);
        return Ok(Arc::new(DictionaryArray::try_new(keys, values)?));
    }
    gather_values(&values, numbers.into_iter().map(|number| Some(number as usize)))
}

/// The values of a dictionary, row by row: a null key and a key of a null value are both null.
fn plain_dictionary(array: &ArrayRef) -> Result<ArrayRef> {
    let dictionary = array.as_any_dictionary();
    let values = plain_array(dictionary.values())?;
    if values.is_empty() {
        return Ok(new_null_array(values.data_type(), array.len()));
    }
    let keys = dictionary.normalized_keys().into_iter().enumerate();
    gather_values(&values, keys.map(|(row, key)| dictionary.keys().is_valid(row).then_some(key)))
}

/// The values that rows name. Nulls are null throughout: what lay under a null value differs from one to the other.
fn gather_values(values: &ArrayRef, rows: impl Iterator<Item = Option<usize>>) -> Result<ArrayRef> {
    let rows = rows.map(|row| row.filter(|&row| values.is_valid(row)).map(|row| row as u64));
    gather(values, &rows.collect())
}

/// The rows of a plain array that `rows` names; null where `rows` is.
pub(super) fn gather(array: &ArrayRef, rows: &UInt64Array) -> Result<ArrayRef> {
    if is_taken_by_arrow(array.data_type()) {
        return Ok(take(array, rows, None)?);
    }
    // Arrow's `take` loses the number of rows of such values, which have no bytes or items to count them by.
    let data = array.to_data();
    let mut gathered = MutableArrayData::new(vec![&data], true, rows.len());
    for row in rows {
        match row {
            Some(row) => gathered.try_extend(0, row as usize, row as usize + 1)?,
            None => gathered.try_extend_nulls(1)?,
        }
    }
    Ok(make_array(gathered.freeze()))
}

/// Whether Arrow's `take` takes rows of a type as they are: one that is plain, without fixed-size lists and binaries of
/// size 0.
pub fn is_taken_by_arrow(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(size) => *size > 0,
        DataType::FixedSizeList(item, size) => *size > 0 && is_taken_by_arrow(item.data_type()),
        DataType::List(item) | DataType::LargeList(item) => is_taken_by_arrow(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| is_taken_by_arrow(field.data_type())),
        other => is_plain(other),
    }
}
