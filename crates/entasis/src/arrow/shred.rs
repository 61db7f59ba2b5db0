//! Shredding: structs outside lists fall apart into columns, and are put together again.
//!
//! A schema becomes a tree of [`ColumnNode`]s, numbered in pre-order: a struct comes before its fields. A struct's own
//! column holds its validity, the leaves hold values (*Column record* in `spec/file.md`).

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, StructArray, cast::AsArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use entasis_encoding::Physical;

use super::physical_of;
use crate::{Error, Result};

/// A column of the file: a leaf, or a struct with its fields as children.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnNode {
    /// The Arrow field, whole: that of a struct holds all of its fields.
    pub field: FieldRef,
    /// Physical type of the column's own blocks: of its values, or boolean for the validity of a struct.
    pub physical: Physical,
    /// One per field of a struct; `None` for a leaf.
    pub children: Option<Vec<ColumnNode>>,
}

/// What an array gives to one column.
#[derive(Debug, Clone)]
pub enum Split {
    /// A leaf's values.
    Leaf(ArrayRef),
    /// A struct's number of rows and validity; `None` if none of its rows is null.
    Struct(usize, Option<NullBuffer>),
}

/// The columns of a schema. Unsupported types are errors that name the column.
pub fn shred(schema: &Schema) -> Result<Vec<ColumnNode>> {
    schema.fields().iter().map(ColumnNode::new).collect()
}

impl ColumnNode {
    /// The column of a field, with those of its fields below if it is a struct.
    pub fn new(field: &FieldRef) -> Result<Self> {
        let in_column = |error| match error {
            Error::Unsupported(what) => Error::Unsupported(format!("column {:?}: {what}", field.name())),
            other => other,
        };
        // Also checks the nesting of the whole.
        let physical = physical_of(field.data_type()).map_err(in_column)?;
        Ok(match field.data_type() {
            DataType::Struct(fields) => {
                let children = fields.iter().map(Self::new).collect::<Result<_>>().map_err(in_column)?;
                Self { field: field.clone(), physical: Physical::Bool, children: Some(children) }
            }
            _ => Self { field: field.clone(), physical, children: None },
        })
    }

    /// A struct's column with these children; its type is put together from theirs.
    pub fn with_children(&self, children: Vec<ColumnNode>) -> Self {
        let fields: Fields = children.iter().map(|child| child.field.clone()).collect();
        let field = Field::clone(&self.field).with_data_type(DataType::Struct(fields));
        Self { field: Arc::new(field), physical: Physical::Bool, children: Some(children) }
    }

    /// Columns of this tree: itself and all below.
    pub fn column_count(&self) -> usize {
        1 + self.children.iter().flatten().map(Self::column_count).sum::<usize>()
    }

    /// This column and all below, in pre-order.
    pub fn columns(&self) -> Vec<&ColumnNode> {
        let mut columns = vec![self];
        columns.extend(self.children.iter().flatten().flat_map(Self::columns));
        columns
    }

    /// Cuts an array of this field into what each column of the tree gets, in pre-order. Nothing is copied; the values
    /// of fields stay as they are where the struct is null.
    pub fn split(&self, array: &ArrayRef) -> Result<Vec<Split>> {
        if array.data_type() != self.field.data_type() {
            return Err(Error::InvalidArgument(format!(
                "column {:?} is of type {}, but the array is of type {}",
                self.field.name(),
                self.field.data_type(),
                array.data_type()
            )));
        }
        let mut out = Vec::with_capacity(self.column_count());
        self.split_into(array, &mut out);
        Ok(out)
    }

    fn split_into(&self, array: &ArrayRef, out: &mut Vec<Split>) {
        match &self.children {
            None => out.push(Split::Leaf(array.clone())),
            Some(children) => {
                let array = array.as_struct();
                out.push(Split::Struct(array.len(), array.nulls().filter(|nulls| nulls.null_count() > 0).cloned()));
                for (child, values) in children.iter().zip(array.columns()) {
                    child.split_into(values, out);
                }
            }
        }
    }

    /// Puts an array of this field together from what each column of the tree gives, in pre-order. Errors if parts are
    /// missing or their types, lengths and nulls aren't those of the fields.
    pub fn assemble(&self, parts: &mut impl Iterator<Item = Split>) -> Result<ArrayRef> {
        match (&self.children, parts.next()) {
            (None, Some(Split::Leaf(array))) => Ok(array),
            (Some(children), Some(Split::Struct(rows, validity))) => {
                let arrays = children.iter().map(|child| child.assemble(parts)).collect::<Result<_>>()?;
                let fields = children.iter().map(|child| child.field.clone()).collect();
                Ok(Arc::new(StructArray::try_new_with_length(fields, arrays, validity, rows)?))
            }
            _ => Err(Error::InvalidArgument(format!("column {:?} isn't whole", self.field.name()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{Int32Array, StringArray};

    use super::*;

    fn sample() -> (FieldRef, ArrayRef) {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d"]));
        let inner_fields =
            Fields::from(vec![Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8, false)]);
        let inner: ArrayRef = Arc::new(StructArray::new(
            inner_fields.clone(),
            vec![numbers, texts],
            Some(NullBuffer::from(vec![true, true, false, true])),
        ));
        let empty = StructArray::new_empty_fields(4, Some(NullBuffer::from(vec![false, true, true, true])));
        let fields = Fields::from(vec![
            Field::new("inner", DataType::Struct(inner_fields), true),
            Field::new("empty", DataType::Struct(Fields::empty()), true),
        ]);
        let array = StructArray::new(fields.clone(), vec![inner, Arc::new(empty)], None);
        (Arc::new(Field::new("s", DataType::Struct(fields), false)), Arc::new(array))
    }

    #[test]
    fn a_struct_is_split_in_pre_order_and_put_together_again() {
        let (field, array) = sample();
        let node = ColumnNode::new(&field).unwrap();
        let names: Vec<_> = node.columns().iter().map(|column| column.field.name().as_str()).collect();
        assert_eq!(names, ["s", "inner", "n", "t", "empty"]);
        assert_eq!(node.column_count(), 5);
        for array in [array.clone(), array.slice(1, 2), array.slice(4, 0)] {
            let parts = node.split(&array).unwrap();
            assert_eq!(parts.len(), 5);
            assert_eq!(&node.assemble(&mut parts.into_iter()).unwrap(), &array);
        }
    }

    #[test]
    fn slices_and_own_validity_are_honoured() {
        let (field, array) = sample();
        let parts = ColumnNode::new(&field).unwrap().split(&array.slice(1, 2)).unwrap();
        assert!(matches!(&parts[0], Split::Struct(2, None)));
        assert!(matches!(&parts[1], Split::Struct(2, Some(nulls)) if nulls.is_valid(0) && nulls.is_null(1)));
        let Split::Leaf(numbers) = &parts[2] else { panic!("n is a leaf") };
        assert_eq!(numbers.as_ref(), &Int32Array::from(vec![None, Some(3)]), "a value under a null struct stays");
        assert!(matches!(&parts[4], Split::Struct(2, None)), "no row of the slice is null");
    }

    #[test]
    fn children_can_be_chosen() {
        let (field, array) = sample();
        let node = ColumnNode::new(&field).unwrap();
        let inner = &node.children.as_ref().unwrap()[0];
        let texts = inner.children.as_ref().unwrap()[1].clone();
        let narrow = node.with_children(vec![inner.with_children(vec![texts])]);
        let parts = node.split(&array).unwrap();
        let chosen = [parts[0].clone(), parts[1].clone(), parts[3].clone()];
        let narrowed = narrow.assemble(&mut chosen.into_iter()).unwrap();
        assert_eq!(narrowed.data_type(), narrow.field.data_type());
        assert_eq!(narrowed.as_struct().column(0).as_struct().column_names(), ["t"]);
    }

    #[test]
    fn parts_that_do_not_fit_are_errors() {
        let (field, array) = sample();
        let node = ColumnNode::new(&field).unwrap();
        let parts = node.split(&array).unwrap();
        for missing in 0..parts.len() {
            let mut parts = parts.clone();
            parts.remove(missing);
            assert!(node.assemble(&mut parts.into_iter()).is_err());
        }
        assert!(node.split(&(Arc::new(Int32Array::from(vec![1])) as ArrayRef)).is_err());
    }

    #[test]
    fn unsupported_columns_are_named() {
        let deep = (0..40).fold(DataType::Int8, |inner, _| DataType::List(Arc::new(Field::new("", inner, true))));
        let outer = Field::new("outer", DataType::Struct(vec![Field::new("deep", deep, true)].into()), true);
        let error = shred(&Schema::new(vec![outer])).unwrap_err().to_string();
        assert!(error.contains("\"outer\"") && error.contains("deep"), "{error}");
    }
}
