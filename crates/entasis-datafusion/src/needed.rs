//! Which columns of a file, and which fields of structs, expressions need.

use std::{collections::BTreeMap, sync::Arc};

use arrow_schema::{DataType, Field, Fields, Schema};
use datafusion::{
    common::{
        Result, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{Column, Literal},
    },
};
use entasis::{Projection, Selected};

/// Columns by number, each whole or by fields of its struct.
#[derive(Debug, Default)]
pub(crate) struct Needed(BTreeMap<usize, Part>);

#[derive(Debug)]
enum Part {
    Whole,
    Fields(BTreeMap<usize, Part>),
}

impl Needed {
    /// What `expressions` need of a file whose schema they are written for.
    pub fn of<'a>(expressions: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>, file: &Schema) -> Self {
        let mut needed = Self::default();
        expressions.into_iter().for_each(|expression| needed.add(expression, file));
        needed
    }

    fn add(&mut self, expression: &Arc<dyn PhysicalExpr>, file: &Schema) {
        match column_path(expression, file) {
            Some(path) => add_path(&mut self.0, &path),
            None => expression.children().into_iter().for_each(|child| self.add(child, file)),
        }
    }

    /// True if it is a single value of each row: one column, or one field of a struct, that isn't nested.
    pub fn only_value(&self, file: &Schema) -> bool {
        let (mut parts, mut fields) = (&self.0, file.fields());
        loop {
            let mut each = parts.iter();
            let (Some((&column, part)), None) = (each.next(), each.next()) else { return false };
            let Some(field) = fields.get(column) else { return false };
            (parts, fields) = match (part, field.data_type()) {
                (Part::Fields(inner), DataType::Struct(fields)) => (inner, fields),
                (_, data_type) => return !data_type.is_nested(),
            };
        }
    }

    /// The projection that reads it, columns ascending.
    pub fn projection(&self) -> Projection {
        Projection::of_selected(selected(&self.0))
    }

    /// The types of the columns of [`Self::projection`]: structs have the fields that are needed.
    pub fn types(&self, file: &Schema) -> Vec<DataType> {
        self.0.iter().map(|(&column, part)| part_type(file.field(column).data_type(), part)).collect()
    }

    /// The fields of the columns of [`Self::projection`].
    pub fn schema(&self, file: &Schema) -> Schema {
        let types = self.types(file).into_iter();
        let fields = self.0.keys().zip(types).map(|(&column, of)| file.field(column).clone().with_data_type(of));
        Schema::new(fields.collect::<Fields>())
    }

    /// `expression` for batches of [`Self::projection`] instead of whole rows of the file.
    pub fn reassign(&self, expression: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let place = |column: usize| self.0.keys().position(|&needed| needed == column);
        let reassign = |expression: Arc<dyn PhysicalExpr>| {
            let moved = expression.downcast_ref::<Column>().and_then(|column| {
                Some(Arc::new(Column::new(column.name(), place(column.index())?)) as Arc<dyn PhysicalExpr>)
            });
            Ok(match moved {
                Some(moved) => Transformed::yes(moved),
                None => Transformed::no(expression),
            })
        };
        expression.transform(reassign).data()
    }
}

fn add_path(parts: &mut BTreeMap<usize, Part>, path: &[usize]) {
    let Some((&first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        parts.insert(first, Part::Whole);
    } else if let Part::Fields(fields) = parts.entry(first).or_insert_with(|| Part::Fields(BTreeMap::new())) {
        add_path(fields, rest);
    }
}

fn selected(parts: &BTreeMap<usize, Part>) -> Vec<Selected> {
    let select = |(&column, part): (&usize, &Part)| match part {
        Part::Whole => Selected { column, fields: None },
        Part::Fields(fields) => Selected { column, fields: Some(selected(fields)) },
    };
    parts.iter().map(select).collect()
}

fn part_type(data_type: &DataType, part: &Part) -> DataType {
    match (data_type, part) {
        (DataType::Struct(fields), Part::Fields(parts)) => {
            let field = |(&index, part): (&usize, &Part)| {
                let field: &Field = &fields[index];
                field.clone().with_data_type(part_type(field.data_type(), part))
            };
            DataType::Struct(parts.iter().map(field).collect())
        }
        _ => data_type.clone(),
    }
}

/// The number of the column that `expression` is, and those of fields in structs; `None` if it is anything else.
pub(crate) fn column_path(expression: &Arc<dyn PhysicalExpr>, file: &Schema) -> Option<Vec<usize>> {
    if let Some(column) = expression.downcast_ref::<Column>() {
        return Some(vec![column.index()]);
    }
    let function = expression.downcast_ref::<ScalarFunctionExpr>().filter(|function| function.name() == "get_field")?;
    let (base, names) = function.args().split_first()?;
    let mut path = column_path(base, file)?;
    let mut data_type = file.fields().get(path[0])?.data_type();
    for &field in &path[1..] {
        let DataType::Struct(fields) = data_type else { return None };
        data_type = fields[field].data_type();
    }
    for name in names {
        let DataType::Struct(fields) = data_type else { return None };
        let index = field_named(fields, name)?;
        path.push(index);
        data_type = fields[index].data_type();
    }
    Some(path)
}

fn field_named(fields: &Fields, name: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let literal: &ScalarValue = name.downcast_ref::<Literal>()?.value();
    fields.find(literal.try_as_str().flatten()?).map(|(index, _)| index)
}
