//! One growing dictionary for each dictionary-typed field, out of batches that each bring their own: what Arrow's file format
//! asks for.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, PrimitiveArray, RecordBatch,
    StructArray, UInt64Array, make_array, new_empty_array,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use arrow_select::concat::concat;
use arrow_select::take::take;

/// What has been written of every dictionary of a table.
pub struct Dictionaries {
    columns: Vec<Node>,
}

/// A column or a field below one.
enum Node {
    /// Nothing here has a dictionary.
    Other,
    /// Boxed: most nodes are something else.
    Dictionary(Box<Unified>),
    /// The fields of a struct or a union, the item of a list, the entries of a map, run ends and values.
    Parent(Vec<Node>),
}

/// A dictionary of all batches so far.
struct Unified {
    /// Values that no row refers to are kept, too: the order of all is what the dictionary says.
    is_ordered: bool,
    values: ArrayRef,
    /// Where each value is, by its bytes.
    numbers: HashMap<Box<[u8]>, u64>,
    last: Option<Last>,
}

/// A batch's own dictionary and where its values are in the unified one, as far as rows refer to them. Neighbouring batches
/// often share one.
struct Last {
    values: ArrayData,
    numbers: Vec<Option<u64>>,
}

impl Dictionaries {
    /// Empty dictionaries for the columns of `schema` and all fields below.
    pub fn new(schema: &Schema) -> Self {
        Dictionaries { columns: schema.fields().iter().map(|field| Node::new(field)).collect() }
    }

    /// The batch over dictionaries that begin with those of the batch before and hold each value once.
    ///
    /// # Errors
    /// Keys that are too narrow for the values of all batches together are refused, and dictionaries of nested values
    /// that change.
    pub fn unify(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = self.columns.iter_mut().zip(batch.columns()).map(|(node, column)| node.unify(column));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        // A batch of no columns has no dictionaries either.
        if columns.is_empty() { Ok(batch.clone()) } else { RecordBatch::try_new(batch.schema(), columns) }
    }
}

impl Node {
    fn new(field: &Field) -> Self {
        let children: Vec<Node> = match field.data_type() {
            DataType::Dictionary(_, values) => {
                let is_ordered = field.dict_is_ordered() == Some(true);
                let (values, numbers) = (new_empty_array(values), HashMap::new());
                return Node::Dictionary(Box::new(Unified { is_ordered, values, numbers, last: None }));
            }
            DataType::Struct(fields) => fields.iter().map(|field| Node::new(field)).collect(),
            DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => vec![Node::new(field)],
            DataType::FixedSizeList(field, size) if *size > 0 => vec![Node::new(field)],
            DataType::ListView(field) | DataType::LargeListView(field) => vec![Node::new(field)],
            DataType::RunEndEncoded(_, values) => vec![Node::Other, Node::new(values)],
            DataType::Union(fields, _) => fields.iter().map(|(_, field)| Node::new(field)).collect(),
            _ => Vec::new(),
        };
        if children.iter().all(|child| matches!(child, Node::Other)) { Node::Other } else { Node::Parent(children) }
    }

    fn unify(&mut self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let children = match self {
            Node::Other => return Ok(array.clone()),
            Node::Dictionary(unified) => return unified.unify(array),
            Node::Parent(children) => children,
        };
        Ok(match array.data_type() {
            DataType::Struct(_) => Arc::new(unify_struct(children, array.as_struct())?),
            DataType::List(field) => Arc::new(unify_list::<i32>(&mut children[0], field, array.as_list())?),
            DataType::LargeList(field) => Arc::new(unify_list::<i64>(&mut children[0], field, array.as_list())?),
            DataType::FixedSizeList(field, size) => {
                let values = children[0].unify(array.as_fixed_size_list().values())?;
                Arc::new(FixedSizeListArray::try_new(field.clone(), *size, values, array.nulls().cloned())?)
            }
            DataType::Map(field, is_sorted) => {
                let (offsets, entries) = items(array.as_map().offsets(), array.as_map().entries());
                let entries = children[0].unify(&entries)?.as_struct().clone();
                let nulls = array.nulls().cloned();
                Arc::new(MapArray::try_new(field.clone(), offsets, entries, nulls, *is_sorted)?)
            }
            _ => unify_children(children, array)?,
        })
    }
}

/// The same array over children that are unified.
fn unify_children(children: &mut [Node], array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let data = array.to_data();
    let unified = children.iter_mut().zip(data.child_data());
    let unified = unified.map(|(child, data)| Ok(child.unify(&make_array(data.clone()))?.to_data()));
    let unified = unified.collect::<Result<_, ArrowError>>()?;
    Ok(make_array(data.into_builder().child_data(unified).build()?))
}

fn unify_struct(children: &mut [Node], array: &StructArray) -> Result<StructArray, ArrowError> {
    let columns = children.iter_mut().zip(array.columns()).map(|(child, column)| child.unify(column));
    StructArray::try_new(array.fields().clone(), columns.collect::<Result<_, _>>()?, array.nulls().cloned())
}

fn unify_list<O: OffsetSizeTrait>(
    child: &mut Node,
    field: &FieldRef,
    array: &GenericListArray<O>,
) -> Result<GenericListArray<O>, ArrowError> {
    let (offsets, values) = items(array.offsets(), array.values());
    GenericListArray::try_new(field.clone(), offsets, child.unify(&values)?, array.nulls().cloned())
}

/// The items that a list's rows refer to, without those before and after a slice, and offsets that begin at 0.
fn items<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, values: &dyn Array) -> (OffsetBuffer<O>, ArrayRef) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let from_zero: ScalarBuffer<O> = offsets.iter().map(|offset| *offset - first).collect();
    (OffsetBuffer::new(from_zero), values.slice(first.as_usize(), (last - first).as_usize()))
}

impl Unified {
    fn unify(&mut self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let dictionary = array.as_any_dictionary();
        let own = dictionary.values();
        if own.is_empty() {
            return over(array.data_type(), vec![None; array.len()], &self.values);
        }
        if !can_be_told_apart(own.data_type()) {
            return self.unchanged(array, own);
        }
        let data = own.to_data();
        let mut last = self
            .last
            .take()
            .filter(|last| last.values.ptr_eq(&data))
            .unwrap_or_else(|| Last { values: data, numbers: vec![None; own.len()] });
        let own_nulls = own.logical_nulls();
        let is_null = |key: usize| own_nulls.as_ref().is_some_and(|nulls| nulls.is_null(key));
        let mut added = Vec::new();
        let mut number_of = |key: usize| {
            *last.numbers[key].get_or_insert_with(|| {
                let next = self.numbers.len() as u64;
                *self.numbers.entry(value_bytes(own, key)).or_insert_with(|| {
                    added.push(key as u64);
                    next
                })
            })
        };
        if self.is_ordered {
            for key in (0..own.len()).filter(|&key| !is_null(key)) {
                number_of(key);
            }
        }
        let keys = dictionary.normalized_keys().into_iter().enumerate();
        let keys = keys.map(|(row, key)| (array.is_valid(row) && !is_null(key)).then(|| number_of(key))).collect();
        if !added.is_empty() {
            let added = take(own, &UInt64Array::from(added), None)?;
            self.values = concat(&[&self.values, &added])?;
        }
        self.last = Some(last);
        over(array.data_type(), keys, &self.values)
    }

    /// The first batch's dictionary, as it is; all others must be equal.
    fn unchanged(&mut self, array: &ArrayRef, own: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if self.values.is_empty() {
            self.values = own.clone();
        }
        if self.values.to_data() == own.to_data() {
            return Ok(array.clone());
        }
        Err(ArrowError::InvalidArgumentError(format!("a dictionary of {} changes", own.data_type())))
    }
}

/// A dictionary array of `data_type`.
fn over(data_type: &DataType, keys: Vec<Option<u64>>, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let DataType::Dictionary(key_type, _) = data_type else {
        return Err(ArrowError::InvalidArgumentError(format!("{data_type} is no dictionary")));
    };
    let keys = match **key_type {
        DataType::Int8 => keys_of::<Int8Type>(keys),
        DataType::Int16 => keys_of::<Int16Type>(keys),
        DataType::Int32 => keys_of::<Int32Type>(keys),
        DataType::Int64 => keys_of::<Int64Type>(keys),
        DataType::UInt8 => keys_of::<UInt8Type>(keys),
        DataType::UInt16 => keys_of::<UInt16Type>(keys),
        DataType::UInt32 => keys_of::<UInt32Type>(keys),
        _ => keys_of::<UInt64Type>(keys),
    }?;
    let data = keys.into_builder().data_type(data_type.clone()).child_data(vec![values.to_data()]);
    Ok(make_array(data.build()?))
}

fn keys_of<K: ArrowPrimitiveType<Native: TryFrom<u64>>>(keys: Vec<Option<u64>>) -> Result<ArrayData, ArrowError> {
    let narrowed = keys.into_iter().map(|key| key.map(K::Native::try_from).transpose());
    let narrowed: Vec<Option<K::Native>> =
        narrowed.collect::<Result<_, _>>().map_err(|_| ArrowError::DictionaryKeyOverflowError)?;
    Ok(PrimitiveArray::<K>::from_iter(narrowed).into_data())
}

/// Whether [`value_bytes`] knows the type.
fn can_be_told_apart(data_type: &DataType) -> bool {
    let is_fixed = data_type.primitive_width().is_some() || matches!(data_type, DataType::FixedSizeBinary(_));
    is_fixed || data_type.is_string() || data_type.is_binary() || *data_type == DataType::Boolean
}

/// Bytes that are equal exactly for equal values, bit for bit.
fn value_bytes(values: &ArrayRef, index: usize) -> Box<[u8]> {
    match values.data_type() {
        DataType::Boolean => [u8::from(values.as_boolean().value(index))].into(),
        DataType::Utf8 => values.as_string::<i32>().value(index).as_bytes().into(),
        DataType::LargeUtf8 => values.as_string::<i64>().value(index).as_bytes().into(),
        DataType::Utf8View => values.as_string_view().value(index).as_bytes().into(),
        DataType::Binary => values.as_binary::<i32>().value(index).into(),
        DataType::LargeBinary => values.as_binary::<i64>().value(index).into(),
        DataType::BinaryView => values.as_binary_view().value(index).into(),
        DataType::FixedSizeBinary(_) => values.as_fixed_size_binary().value(index).into(),
        other => {
            let data = values.to_data();
            let width = other.primitive_width().unwrap_or(0);
            let start = (data.offset() + index) * width;
            data.buffers()[0].as_slice()[start..start + width].into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int8Type, Int32Type};
    use arrow_array::{DictionaryArray, Float64Array, Int32Array, ListArray};

    fn words(words: &[Option<&str>]) -> ArrayRef {
        Arc::new(words.iter().copied().collect::<DictionaryArray<Int8Type>>())
    }

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("w", column, true)]).unwrap()
    }

    fn text(column: &ArrayRef) -> Vec<Option<String>> {
        let typed = column.as_dictionary::<Int8Type>().downcast_dict::<arrow_array::StringArray>().unwrap();
        typed.into_iter().map(|word| word.map(str::to_owned)).collect()
    }

    #[test]
    fn dictionaries_only_grow_and_hold_each_value_once() {
        let mut dictionaries = Dictionaries::new(&batch(words(&[])).schema());
        let mut before = Vec::new();
        let batches = [&[None, None][..], &[Some("a"), None, Some("b")], &[Some("c"), Some("a"), None], &[Some("c")]];
        for each in batches {
            let unified = dictionaries.unify(&batch(words(each))).unwrap();
            assert_eq!(text(unified.column(0)), text(&words(each)));
            let values = unified.column(0).as_any_dictionary().values().as_string::<i32>().clone();
            let values: Vec<_> = values.iter().flatten().map(str::to_owned).collect();
            assert!(values.starts_with(&before), "{values:?}");
            before = values;
        }
        assert_eq!(before, ["a", "b", "c"]);
    }

    #[test]
    fn ordered_dictionaries_keep_values_without_rows() {
        let values = Arc::new(arrow_array::StringArray::from(vec!["low", "mid", "high"])) as ArrayRef;
        let column = Arc::new(DictionaryArray::<Int8Type>::new(vec![2, 0].into(), values.clone())) as ArrayRef;
        let field = Field::new("w", column.data_type().clone(), true).with_dict_is_ordered(true);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column.clone()]).unwrap();
        let unified = Dictionaries::new(&batch.schema()).unify(&batch).unwrap();
        assert_eq!(unified.column(0).to_data(), column.to_data());
    }

    #[test]
    fn slices_of_one_dictionary_are_told_apart_by_their_bits() {
        let values = Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), None, Some(0.0)])) as ArrayRef;
        let column = DictionaryArray::new(Int32Array::from(vec![Some(3), Some(1), Some(2), None, Some(0)]), values);
        let column = Arc::new(column) as ArrayRef;
        let mut dictionaries = Dictionaries::new(&batch(column.slice(0, 0)).schema());
        let mut bits = Vec::new();
        for start in [0, 2] {
            let unified = dictionaries.unify(&batch(column.slice(start, 5 - start))).unwrap();
            let typed = unified.column(0).as_dictionary::<Int32Type>().downcast_dict::<Float64Array>().unwrap();
            assert_eq!(typed.values().len(), 2, "the values without rows and the null are gone");
            bits.push(typed.into_iter().map(|value| value.map(f64::to_bits)).collect::<Vec<_>>());
        }
        let (zero, minus) = (Some(0.0f64.to_bits()), Some((-0.0f64).to_bits()));
        assert_eq!(bits, [vec![zero, minus, None, None, zero], vec![None, None, zero]]);
    }

    #[test]
    fn dictionaries_below_structs_and_lists_are_unified_too() {
        let lists = |items: ArrayRef, ends: &[i32]| -> ArrayRef {
            let offsets = OffsetBuffer::new([0].into_iter().chain(ends.iter().copied()).collect());
            let field = Arc::new(Field::new("item", items.data_type().clone(), true));
            let list = Arc::new(ListArray::new(field, offsets, items, None)) as ArrayRef;
            let field = Arc::new(Field::new("l", list.data_type().clone(), true));
            Arc::new(StructArray::from(vec![(field, list)]))
        };
        let first = lists(words(&[Some("x"), Some("a"), None]), &[1, 3]);
        let second = lists(words(&[Some("b"), Some("a")]), &[0, 2]);
        let mut dictionaries = Dictionaries::new(&batch(first.clone()).schema());
        // The slice leaves "x" out.
        for (column, expected) in [(first.slice(1, 1), vec!["a"]), (second, vec!["a", "b"])] {
            let unified = dictionaries.unify(&batch(column.clone())).unwrap();
            assert!(entasis::compare::first_difference(&batch(column), &unified).unwrap().is_none());
            let items = unified.column(0).as_struct().column(0).as_list::<i32>().values().clone();
            let values = items.as_any_dictionary().values().as_string::<i32>().clone();
            assert_eq!(values.iter().flatten().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn keys_that_are_too_narrow_are_refused() {
        let numbers: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let of = |range: std::ops::Range<usize>| {
            batch(words(&numbers[range].iter().map(|word| Some(word.as_str())).collect::<Vec<_>>()))
        };
        let mut dictionaries = Dictionaries::new(&of(0..0).schema());
        dictionaries.unify(&of(0..100)).unwrap();
        dictionaries.unify(&of(0..128)).unwrap();
        assert!(dictionaries.unify(&of(100..200)).is_err());
    }
}
