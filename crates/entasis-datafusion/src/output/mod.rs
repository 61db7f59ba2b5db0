//! The plan's columns of a batch. Functions of one column of strings are evaluated once per distinct value, where that is cheaper: what
//! a dictionary made comes out as views of the same bytes, and views tell which strings are the same without a look at them.

mod distinct;
mod rule;
mod ways;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Schema, SchemaRef};
use datafusion::{
    common::{
        Result,
        arrow::compute::take,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{CaseExpr, Column, LikeExpr},
    },
    physical_expr_common::physical_expr::is_volatile,
    physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder},
};

use self::{
    distinct::DistinctViews,
    ways::{Way, Ways},
};
pub(crate) use rule::EvaluateInScans;

/// Makes the plan's columns of a file's batches.
pub(crate) struct Output {
    columns: Vec<Arc<dyn PhysicalExpr>>,
    /// Those columns that may be evaluated once per value, by number.
    functions: Vec<(usize, Function)>,
    schema: SchemaRef,
    counts: [Count; 2],
}

/// A function of the strings of one column.
struct Function {
    /// Where the strings are in a batch.
    column: usize,
    /// The function, on a batch that has nothing but them.
    alone: Arc<dyn PhysicalExpr>,
    alone_schema: SchemaRef,
    distinct: DistinctViews,
    ways: Ways,
}

impl Output {
    /// `columns` on batches that have `fields`, which come out with `schema`.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn new(
        columns: Vec<Arc<dyn PhysicalExpr>>,
        fields: &Schema,
        schema: SchemaRef,
        metrics: &ExecutionPlanMetricsSet,
        partition: usize,
    ) -> Result<Self> {
        let mut functions = Vec::new();
        for (index, column) in columns.iter().enumerate() {
            if let Some(strings) = strings_of(column, fields) {
                functions.push((index, Function::new(column, strings, fields)?));
            }
        }
        let count = |name| MetricBuilder::new(metrics).counter(name, partition);
        let counts = [count("rows_computed_by_values"), count("values_computed")];
        Ok(Self { columns, functions, schema, counts })
    }

    /// The plan's columns of a batch.
    ///
    /// # Errors
    /// Those of the expressions.
    pub fn project(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut functions = self.functions.iter_mut().peekable();
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            let by_row = || column.evaluate(batch)?.into_array(rows);
            arrays.push(match functions.next_if(|(of, _)| *of == index) {
                Some((_, function)) => function.evaluate(batch, by_row, &self.counts)?,
                None => by_row()?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?)
    }
}

impl Function {
    fn new(expression: &Arc<dyn PhysicalExpr>, column: usize, fields: &Schema) -> Result<Self> {
        let to_first = |node: Arc<dyn PhysicalExpr>| {
            Ok(match node.downcast_ref::<Column>() {
                Some(column) => Transformed::yes(Arc::new(Column::new(column.name(), 0)) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(node),
            })
        };
        Ok(Self {
            column,
            alone: expression.clone().transform(to_first).data()?,
            alone_schema: Arc::new(fields.project(&[column])?),
            distinct: DistinctViews::default(),
            ways: Ways::default(),
        })
    }

    /// Its values for a batch, in the way that was cheaper lately.
    fn evaluate(
        &mut self,
        batch: &RecordBatch,
        by_row: impl FnOnce() -> Result<ArrayRef>,
        [rows, values]: &[Count; 2],
    ) -> Result<ArrayRef> {
        let count = batch.num_rows();
        let began = self.ways.begin(count);
        if began.way == Way::ByValue {
            let strings = batch.column(self.column);
            if let Some((first, index)) = self.distinct.find(strings) {
                let distinct = take(strings, &first, None)?;
                let alone = RecordBatch::try_new(self.alone_schema.clone(), vec![distinct])?;
                let found = self.alone.evaluate(&alone)?.into_array(first.len())?;
                let found = take(&found, &index, None)?;
                self.distinct.give_back(first, index);
                rows.add(count);
                values.add(alone.num_rows());
                self.ways.end(began);
                return Ok(found);
            }
            self.ways.cannot();
        }
        let found = by_row()?;
        self.ways.end(began.by(Way::ByRow));
        Ok(found)
    }
}

/// The column whose views `expression` is a function of: of nothing else, and of these in a way that takes more than a look at their lengths.
fn strings_of(expression: &Arc<dyn PhysicalExpr>, fields: &Schema) -> Option<usize> {
    let (mut column, mut is_one, mut computes) = (None, true, false);
    let look = |node: &Arc<dyn PhysicalExpr>| {
        if let Some(found) = node.downcast_ref::<Column>() {
            is_one &= column.is_none_or(|column| column == found.index());
            column = Some(found.index());
        }
        computes |= node.downcast_ref::<ScalarFunctionExpr>().is_some()
            || node.downcast_ref::<LikeExpr>().is_some()
            || node.downcast_ref::<CaseExpr>().is_some();
        Ok(TreeNodeRecursion::Continue)
    };
    expression.apply(look).ok()?;
    let column = column.filter(|_| is_one && computes && !is_volatile(expression))?;
    matches!(fields.fields().get(column)?.data_type(), DataType::Utf8View | DataType::BinaryView).then_some(column)
}
