//! Arrays of arrays: everything that Arrow allows in them, and writers seldom make.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait, PrimitiveArray, UnionArray,
    cast::AsArray,
    make_array,
    types::{Int16Type, Int32Type, Int64Type},
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, UnionFields, UnionMode};

use super::Generator;

impl Generator {
    /// A random type with children, which nest at most `depth` levels.
    pub(super) fn nested_type(&mut self, depth: usize) -> DataType {
        match self.below(12) {
            0 => DataType::List(self.field("item", depth)),
            1 => DataType::LargeList(self.field("element", depth)),
            2 => {
                let size = self.pick(&[0, 1, 2, 3, 8]);
                DataType::FixedSizeList(self.field("item", depth), size)
            }
            3 => DataType::ListView(self.field("item", depth)),
            4 => DataType::LargeListView(self.field("item", depth)),
            5 => {
                let key = self.field("key", depth);
                let key = match can_be_without_nulls(key.data_type()) {
                    true => Field::clone(&key).with_nullable(false),
                    false => Field::new("key", DataType::Utf8, false),
                };
                let entries = vec![Arc::new(key), self.field("value", depth)];
                let entries = Field::new("entries", DataType::Struct(entries.into()), false);
                DataType::Map(Arc::new(entries), self.chance(20))
            }
            6 => run_ends(self.pick(&[DataType::Int32, DataType::Int64]), self.field("values", depth)),
            7 | 8 => {
                let count = 1 + self.below(3);
                let ids = self.pick(&[[0, 1, 2], [5, 0, 127]]).into_iter().take(count);
                let fields = (0..count).map(|index| self.field(&format!("u{index}"), depth)).collect::<Vec<_>>();
                let fields = UnionFields::try_new(ids, fields).expect("the ids are distinct");
                DataType::Union(fields, self.pick(&[UnionMode::Sparse, UnionMode::Dense]))
            }
            9 => {
                let key = self.pick(&[DataType::Int16, DataType::UInt32, DataType::Int64]);
                DataType::Dictionary(Box::new(key), Box::new(self.data_type(depth)))
            }
            _ => {
                let count = self.below(4);
                DataType::Struct((0..count).map(|index| self.field(&format!("f{index}"), depth)).collect())
            }
        }
    }

    /// How many items the rows of a list have.
    fn list_lengths(&mut self, nulls: Option<&NullBuffer>, rows: usize) -> Vec<usize> {
        let most = self.pick(&[1, 3, 10]);
        let keeps_items_under_nulls = self.chance(50);
        let mut length = |row| {
            let hidden = nulls.is_some_and(|nulls| nulls.is_null(row)) && !keeps_items_under_nulls;
            if hidden { 0 } else { self.below(most + 1) }
        };
        (0..rows).map(&mut length).collect()
    }

    pub(super) fn list<O: OffsetSizeTrait>(
        &mut self,
        item: &FieldRef,
        nulls: Option<NullBuffer>,
        rows: usize,
    ) -> ArrayRef {
        let lengths = self.list_lengths(nulls.as_ref(), rows);
        let items = self.array_of(item, lengths.iter().sum());
        let offsets = OffsetBuffer::<O>::from_lengths(lengths);
        Arc::new(GenericListArray::new(item.clone(), offsets, items, nulls))
    }

    pub(super) fn map(
        &mut self,
        entries: &FieldRef,
        is_sorted: bool,
        nulls: Option<NullBuffer>,
        rows: usize,
    ) -> ArrayRef {
        let lengths = self.list_lengths(nulls.as_ref(), rows);
        let items = self.array_of(entries, lengths.iter().sum()).as_struct().clone();
        Arc::new(MapArray::new(entries.clone(), OffsetBuffer::from_lengths(lengths), items, nulls, is_sorted))
    }

    /// Views one after the other, or anywhere: shared, out of order, with gaps.
    pub(super) fn list_view<O: OffsetSizeTrait>(
        &mut self,
        item: &FieldRef,
        nulls: Option<NullBuffer>,
        rows: usize,
    ) -> ArrayRef {
        let lengths = self.list_lengths(nulls.as_ref(), rows);
        let total: usize = lengths.iter().sum();
        let items = self.array_of(item, total);
        let is_in_order = self.chance(40);
        let mut next = 0;
        let starts: Vec<O> = lengths
            .iter()
            .map(|&length| {
                let start = if is_in_order { next } else { self.below(total - length + 1) };
                next += length;
                O::usize_as(start)
            })
            .collect();
        let sizes = lengths.into_iter().map(O::usize_as).collect();
        Arc::new(GenericListViewArray::new(item.clone(), starts.into(), sizes, items, nulls))
    }

    /// Runs of all lengths; neighbours may be equal.
    pub(super) fn runs(
        &mut self,
        data_type: &DataType,
        run_ends: &Field,
        values: &Field,
        nullable: bool,
        rows: usize,
    ) -> ArrayRef {
        let longest = self.pick(&[1, 5, 200]);
        let mut ends = Vec::new();
        let mut end = 0;
        while end < rows {
            end += 1 + self.below(longest);
            ends.push(end.min(rows));
        }
        let values = Field::clone(values).with_nullable(nullable && values.is_nullable());
        let values = self.array_of(&values, ends.len());
        let ends: ArrayRef = match run_ends.data_type() {
            DataType::Int16 => {
                Arc::new(PrimitiveArray::<Int16Type>::from_iter_values(ends.into_iter().map(|end| end as i16)))
            }
            DataType::Int32 => {
                Arc::new(PrimitiveArray::<Int32Type>::from_iter_values(ends.into_iter().map(|end| end as i32)))
            }
            _ => Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(ends.into_iter().map(|end| end as i64))),
        };
        let builder = ArrayData::builder(data_type.clone()).len(rows);
        let data = builder.child_data(vec![ends.to_data(), values.to_data()]).build();
        make_array(data.expect("run ends ascend to the number of rows"))
    }

    /// Dense unions refer to their values in order, or anyhow.
    pub(super) fn union(&mut self, fields: &UnionFields, mode: UnionMode, nullable: bool, rows: usize) -> ArrayRef {
        let ids: Vec<i8> = fields.iter().map(|(id, _)| id).collect();
        let ids: Vec<i8> = (0..rows).map(|_| self.pick(&ids)).collect();
        let is_in_order = self.chance(50);
        let mut offsets = vec![0; rows];
        let mut child = |(id, field): (i8, &FieldRef)| {
            let field = Field::clone(field).with_nullable(nullable && field.is_nullable());
            if mode == UnionMode::Sparse {
                return self.array_of(&field, rows);
            }
            let count = ids.iter().filter(|&&other| other == id).count() + self.below(3);
            let own_rows = (0..rows).filter(|&row| ids[row] == id);
            for (number, row) in own_rows.enumerate() {
                offsets[row] = if is_in_order { number } else { self.below(count) } as i32;
            }
            self.array_of(&field, count)
        };
        let children = fields.iter().map(&mut child).collect();
        let offsets = (mode == UnionMode::Dense).then(|| offsets.into());
        let union = UnionArray::try_new(fields.clone(), ids.into(), offsets, children);
        Arc::new(union.expect("ids are those of fields, and offsets below the number of their values"))
    }

    pub(super) fn dictionary(
        &mut self,
        data_type: &DataType,
        key: &DataType,
        value: &DataType,
        nulls: Option<NullBuffer>,
        rows: usize,
    ) -> ArrayRef {
        let count = 1 + self.below(100);
        let values = self.whole_array(value, nulls.is_some(), count);
        let width = key.primitive_width().expect("keys are integers");
        let keys: Vec<u8> = (0..rows).flat_map(|_| self.below(count).to_le_bytes()[..width].to_vec()).collect();
        let builder = ArrayData::builder(data_type.clone()).len(rows).add_buffer(Buffer::from(keys.as_slice()));
        let data = builder.nulls(nulls).add_child_data(values.to_data()).build();
        make_array(data.expect("keys are below the number of values"))
    }
}

/// False for types whose every array, or every array of some child, has nothing but nulls.
pub(super) fn can_be_without_nulls(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => false,
        DataType::Dictionary(_, value) => can_be_without_nulls(value),
        DataType::RunEndEncoded(_, values) => can_be_without_nulls(values.data_type()),
        DataType::Union(fields, _) => fields.iter().all(|(_, field)| can_be_without_nulls(field.data_type())),
        _ => true,
    }
}

fn run_ends(ends: DataType, values: FieldRef) -> DataType {
    DataType::RunEndEncoded(Arc::new(Field::new("run_ends", ends, false)), values)
}

/// Types with children, each layout alone and in others; what is special about some is in names, ids and metadata. Arrow IPC
/// can hold all of them: dictionaries of dictionaries are left to chance.
pub fn nested_types() -> Vec<DataType> {
    use DataType as T;
    let nullable = |data_type| Arc::new(Field::new("item", data_type, true));
    let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, false));
    let dictionary = |key, value| T::Dictionary(Box::new(key), Box::new(value));
    let pair = T::Struct(vec![field("a", T::Int32), nullable(T::Utf8)].into());
    let map = |key, value| {
        let entries = T::Struct(vec![field("key", key), nullable(value)].into());
        T::Map(field("key_value", entries), false)
    };
    let extension = [("ARROW:extension:name".to_owned(), "entasis.test".to_owned())].into();
    let tagged: FieldRef = Arc::new(Field::new("", T::FixedSizeBinary(2), true).with_metadata(extension));
    let union = |mode, ids: Vec<i8>, fields: Vec<FieldRef>| {
        T::Union(UnionFields::try_new(ids, fields).expect("the ids are distinct"), mode)
    };
    let (sparse, dense) = (UnionMode::Sparse, UnionMode::Dense);
    let mixed = union(dense, vec![5, 0, 127], vec![nullable(T::Utf8), field("n", T::Int64), tagged.clone()]);
    let either = union(sparse, vec![0, 3], vec![nullable(T::Float32), field("b", pair.clone())]);
    vec![
        T::List(nullable(T::Utf8View)),
        T::LargeList(nullable(pair.clone())),
        T::List(nullable(T::Null)),
        T::List(field("item", T::Struct(Fields::empty()))),
        T::Struct(vec![nullable(T::Null), tagged].into()),
        T::FixedSizeList(nullable(T::List(nullable(T::Int8))), 2),
        map(T::Utf8, T::Int32),
        T::Map(field("entries", T::Struct(vec![field("k", T::Int16), field("v", map(T::Utf8, T::Null))].into())), true),
        T::LargeList(nullable(map(T::Date32, T::List(nullable(T::Boolean))))),
        T::ListView(nullable(T::Utf8)),
        T::LargeListView(field("item", pair.clone())),
        T::LargeListView(nullable(T::ListView(nullable(T::FixedSizeBinary(0))))),
        run_ends(T::Int16, nullable(T::Int32)),
        run_ends(T::Int32, nullable(T::Utf8)),
        run_ends(T::Int64, field("values", T::List(nullable(T::Float64)))),
        run_ends(T::Int32, nullable(dictionary(T::Int16, T::LargeUtf8))),
        T::List(nullable(run_ends(T::Int32, nullable(T::Boolean)))),
        T::Struct(vec![nullable(run_ends(T::Int32, nullable(T::Null))), field("m", map(T::Int8, T::Utf8))].into()),
        mixed.clone(),
        either.clone(),
        union(dense, vec![1], vec![nullable(either)]),
        union(sparse, vec![2, 1], vec![nullable(mixed.clone()), nullable(T::Null)]),
        T::FixedSizeList(nullable(mixed.clone()), 2),
        map(T::Utf8, mixed.clone()),
        dictionary(T::Int16, T::List(nullable(T::Utf8))),
        dictionary(T::UInt32, pair),
        dictionary(T::Int16, T::Null),
        dictionary(T::Int64, mixed),
        T::List(nullable(dictionary(T::Int16, T::Utf8))),
        T::List(nullable(T::Interval(IntervalUnit::MonthDayNano))),
        dictionary(T::UInt16, T::Interval(IntervalUnit::DayTime)),
    ]
}
