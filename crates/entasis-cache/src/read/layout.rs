//! Which leaves of Parquet hold which leaves of a schema.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, FieldRef, Schema};
use entasis::arrow::{ColumnNode, Split, shred};
use entasis::{Projection, Selected};
use entasis_encoding::Selection;

use super::condition::{Held, held_cell, invalid};
use crate::Result;

/// The leaves of a schema, and where Parquet has them.
#[derive(Debug)]
pub(crate) struct Layout {
    trees: Vec<Tree>,
}

/// A top-level column.
#[derive(Debug)]
struct Tree {
    node: ColumnNode,
    /// The number of its first leaf in our count: all columns in pre-order.
    first: usize,
    /// For each of its leaves in our count, those of Parquet that it needs.
    parquet: Vec<Range<usize>>,
}

/// A column that is put together of leaves: a top-level one, or what is wanted of it.
#[derive(Debug)]
pub(crate) struct Column {
    pub node: ColumnNode,
    /// Numbers of its leaves, in pre-order.
    pub leaves: Vec<usize>,
}

/// Some leaves, and what Parquet has to yield for them.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Numbers of Parquet's leaves.
    pub parquet: Vec<usize>,
    /// Narrowed top-level columns in the order of the schema; of each the numbers of its leaves.
    trees: Vec<(ColumnNode, Vec<usize>)>,
}

impl Layout {
    /// Of the schema that Parquet's reader gives for a file. Unsupported are types that blocks can't hold.
    pub fn new(schema: &Schema) -> Result<Self> {
        let (mut first, mut next_parquet) = (0, 0);
        let mut trees = Vec::new();
        for node in shred(schema)? {
            let mut parquet = Vec::new();
            number(&node, &mut next_parquet, &mut parquet);
            let count = parquet.len();
            trees.push(Tree { node, first, parquet });
            first += count;
        }
        Ok(Self { trees })
    }

    /// What is wanted of a top-level column; `None` if there are no such fields, which come in the order of the schema.
    pub fn column(&self, selected: &Selected) -> Option<Column> {
        let tree = self.trees.get(selected.column)?;
        let mut wanted = BTreeSet::new();
        add_selected(&tree.node, tree.first, selected.fields.as_deref(), &mut wanted)?;
        let mut leaves = Vec::new();
        let node = narrow(&tree.node, tree.first, false, &wanted, &mut leaves)?;
        Some(Column { node, leaves })
    }

    /// The columns of a projection.
    ///
    /// # Errors
    /// An invalid argument if there is no such column.
    pub fn columns(&self, projection: &Projection) -> Result<Vec<Column>> {
        let column = |selected: &Selected| {
            self.column(selected).ok_or_else(|| invalid(format!("there is no column {selected:?}")))
        };
        match projection.selected() {
            Some(selected) => selected.iter().map(column).collect(),
            None => (0..self.trees.len()).map(|number| column(&Selected { column: number, fields: None })).collect(),
        }
    }

    /// The leaves along a path: of each struct its validity, and then what the path names, with its column. `None` if there is no such.
    pub fn path(&self, path: &[usize]) -> Option<(Vec<usize>, usize, &ColumnNode)> {
        let (&column, fields) = path.split_first()?;
        let tree = self.trees.get(column)?;
        let (mut node, mut leaf, mut parents) = (&tree.node, tree.first, Vec::new());
        for &field in fields {
            let children = node.children.as_ref()?;
            let child = children.get(field)?;
            parents.push(leaf);
            leaf += 1 + children[..field].iter().map(ColumnNode::column_count).sum::<usize>();
            node = child;
        }
        Some((parents, leaf, node))
    }

    /// The type of a leaf's cells.
    pub fn data_type(&self, leaf: usize) -> Option<&DataType> {
        let tree = self.trees.iter().rfind(|tree| tree.first <= leaf)?;
        tree.node.columns().get(leaf - tree.first).map(|node| leaf_type(node))
    }

    /// What Parquet has to yield for some leaves.
    pub fn wanted(&self, leaves: &BTreeSet<usize>) -> Wanted {
        let mut wanted = Wanted { parquet: Vec::new(), trees: Vec::new() };
        for tree in &self.trees {
            let mut numbers = Vec::new();
            if let Some(node) = narrow(&tree.node, tree.first, false, leaves, &mut numbers) {
                let parquet = numbers.iter().map(|number| tree.parquet[number - tree.first].clone());
                // A struct's own range is that of all its fields; those that are read tell its validity.
                let columns = node.columns();
                let own = parquet.zip(columns).filter(|(_, column)| column.children.is_none());
                wanted.parquet.extend(own.flat_map(|(range, _)| range));
                wanted.trees.push((node, numbers));
            }
        }
        wanted
    }
}

impl Column {
    /// Rows of a piece whose cells are held.
    pub fn select(&self, held: &Held, piece: usize, selection: &Selection) -> Result<ArrayRef> {
        let select =
            |(leaf, node): (&usize, &ColumnNode)| held_cell(held, *leaf, piece)?.select_as(selection, leaf_type(node));
        let columns = self.node.columns();
        self.assemble(self.leaves.iter().zip(columns).map(select).collect::<Result<_>>()?)
    }

    /// The column of what its leaves give, in pre-order.
    pub fn assemble(&self, leaves: Vec<ArrayRef>) -> Result<ArrayRef> {
        let kinds: Vec<bool> = self.node.columns().iter().map(|column| column.children.is_some()).collect();
        let mut splits = leaves.into_iter().zip(kinds).map(|(array, is_struct)| match is_struct {
            false => Split::Leaf(array),
            true => {
                let nulls = NullBuffer::new(array.as_boolean().values().clone());
                Split::Struct(array.len(), (nulls.null_count() > 0).then_some(nulls))
            }
        });
        Ok(self.node.assemble(&mut splits)?)
    }
}

impl Wanted {
    /// The leaves of a batch that Parquet's reader gave, by number; structs that nobody asked for among them.
    pub fn split(&self, batch: &RecordBatch) -> Result<Vec<(usize, ArrayRef)>> {
        let mut leaves = Vec::new();
        for ((node, numbers), array) in self.trees.iter().zip(batch.columns()) {
            let arrays = node.split(array)?.into_iter().map(|split| match split {
                Split::Leaf(array) => array,
                Split::Struct(rows, validity) => {
                    let bits = validity.map_or_else(|| BooleanBuffer::new_set(rows), NullBuffer::into_inner);
                    Arc::new(BooleanArray::new(bits, None))
                }
            });
            leaves.extend(numbers.iter().copied().zip(arrays));
        }
        Ok(leaves)
    }
}

/// The type in which a leaf is wanted: a struct's validity is boolean.
pub(crate) fn leaf_type(node: &ColumnNode) -> &DataType {
    match node.children {
        Some(_) => &DataType::Boolean,
        None => node.field.data_type(),
    }
}

/// Numbers Parquet's leaves below a column, in pre-order of ours.
fn number(node: &ColumnNode, next: &mut usize, out: &mut Vec<Range<usize>>) {
    let (place, start) = (out.len(), *next);
    out.push(start..start);
    match &node.children {
        Some(children) => children.iter().for_each(|child| number(child, next, out)),
        None => *next += parquet_leaves(node.field.data_type()),
    }
    out[place].end = *next;
}

/// Adds the leaves of what is selected below a column; `None` if there are no such fields.
fn add_selected(
    node: &ColumnNode,
    number: usize,
    fields: Option<&[Selected]>,
    leaves: &mut BTreeSet<usize>,
) -> Option<()> {
    leaves.insert(number);
    match (fields, &node.children) {
        (None, _) => leaves.extend(number..number + node.column_count()),
        (Some(_), None) => return None,
        (Some(fields), Some(children)) => {
            for field in fields {
                let child = children.get(field.column)?;
                let before: usize = children[..field.column].iter().map(ColumnNode::column_count).sum();
                add_selected(child, number + 1 + before, field.fields.as_deref(), leaves)?;
            }
        }
    }
    Some(())
}

/// How many leaves Parquet has for a type.
fn parquet_leaves(data_type: &DataType) -> usize {
    let of = |field: &FieldRef| parquet_leaves(field.data_type());
    match data_type {
        DataType::Struct(fields) => fields.iter().map(of).sum(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => of(item),
        DataType::RunEndEncoded(_, values) => of(values),
        _ => 1,
    }
}

/// The part of a column that is needed for some leaves, and the numbers of its leaves. A struct of which nothing but its validity is wanted,
/// or that `must` be there, is read by its first field.
fn narrow(
    node: &ColumnNode,
    number: usize,
    must: bool,
    wanted: &BTreeSet<usize>,
    numbers: &mut Vec<usize>,
) -> Option<ColumnNode> {
    let must = must || wanted.contains(&number);
    let Some(children) = &node.children else {
        if must {
            numbers.push(number);
        }
        return must.then(|| node.clone());
    };
    let before = numbers.len();
    numbers.push(number);
    let end = number + node.column_count();
    let has_wanted_field = wanted.range(number + 1..end).next().is_some();
    let (mut kept, mut next) = (Vec::new(), number + 1);
    for child in children {
        let first_alone = must && !has_wanted_field && kept.is_empty();
        kept.extend(narrow(child, next, first_alone, wanted, numbers));
        next += child.column_count();
    }
    if kept.is_empty() {
        numbers.truncate(before);
        return None;
    }
    Some(node.with_children(kept))
}
