//! Expressions: evaluated once per distinct value where a cell's blocks keep such and they are fewer than the rows that are left, on
//! decoded survivors elsewhere.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{Schema, SchemaRef};
use entasis::blocks::{asking, passing};
use entasis::scan::{Expression, MOST_VALUES_PER_ROW};
use entasis_encoding::{BitBuffer, Filter, Selection};

use super::condition::{Held, Work, held_cell, invalid};
use super::layout::{Column, Layout};
use crate::Result;

/// An expression, made ready for one file.
pub(super) struct PreparedExpression {
    evaluation: Arc<Evaluation>,
    columns: Vec<Column>,
    /// The same of distinct values, if it is an expression on one column that isn't nested.
    distinct: Option<Filter>,
}

struct Evaluation {
    expression: Arc<dyn Expression>,
    schema: SchemaRef,
    is_negated: bool,
    /// True once it couldn't be evaluated for distinct values: maybe for one that no row has which is left, so that rows are asked from then on.
    has_failed: AtomicBool,
}

impl PreparedExpression {
    pub fn new(layout: &Layout, expression: &Arc<dyn Expression>, is_negated: bool) -> Result<Self> {
        let columns = layout.columns(expression.projection())?;
        let schema = Arc::new(Schema::new(columns.iter().map(|column| column.node.field.clone()).collect::<Vec<_>>()));
        let (expression, has_failed) = (expression.clone(), AtomicBool::new(false));
        let evaluation = Arc::new(Evaluation { expression, schema, is_negated, has_failed });
        let distinct = match columns.as_slice() {
            [column] if column.leaves.len() == 1 && evaluation.expression.asks_values() => {
                distinct(&evaluation, column)?
            }
            _ => None,
        };
        Ok(Self { evaluation, columns, distinct })
    }

    /// The leaves that it needs.
    pub fn leaves(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().flat_map(|column| column.leaves.iter().copied())
    }

    /// Keeps the rows of a piece that pass.
    pub fn apply(&self, held: &Held, piece: usize, selection: &mut Selection, work: &mut Work) -> Result<()> {
        if self.ask_distinct(held, piece, selection, work)? {
            return Ok(());
        }
        let arrays: Result<Vec<ArrayRef>> =
            self.columns.iter().map(|column| column.select(held, piece, selection)).collect();
        let rows = selection.count();
        work.evaluated_rows += rows as u64;
        let passes = self.evaluation.evaluate(arrays?, rows)?;
        selection.keep(passes.bits());
        Ok(())
    }

    /// Whether distinct values answered.
    fn ask_distinct(&self, held: &Held, piece: usize, selection: &mut Selection, work: &mut Work) -> Result<bool> {
        let (Some(filter), Some(leaf)) = (&self.distinct, self.leaves().next()) else { return Ok(false) };
        let cell = held_cell(held, leaf, piece)?;
        let pays = |count: usize| count as f64 <= MOST_VALUES_PER_ROW * selection.count() as f64;
        if self.evaluation.has_failed.load(Relaxed) || !cell.ask_count(filter)?.is_some_and(pays) {
            return Ok(false);
        }
        let mut passed = selection.clone();
        match cell.filter(filter, &mut passed, &mut work.filter) {
            Ok(()) => {
                *selection = passed;
                Ok(true)
            }
            Err(_) if self.evaluation.has_failed.load(Relaxed) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Nothing if it can't be told of a null.
fn distinct(evaluation: &Arc<Evaluation>, column: &Column) -> Result<Option<Filter>> {
    let field = &column.node.field;
    let nulls = match field.is_nullable() {
        false => false,
        true => match evaluation.evaluate(vec![new_null_array(field.data_type(), 1)], 1) {
            Ok(passes) => passes.bits().get(0),
            Err(_) => return Ok(None),
        },
    };
    let own = evaluation.clone();
    let passes = move |values: &ArrayRef| {
        let passes = own.evaluate(vec![values.clone()], values.len());
        passes.map_err(|error| {
            own.has_failed.store(true, Relaxed);
            entasis::Error::InvalidArgument(error.to_string())
        })
    };
    Ok(Some(asking(field.data_type(), nulls, passes)?))
}

impl Evaluation {
    /// Which rows pass.
    fn evaluate(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<BitBuffer> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options);
        let found = self.expression.evaluate(&batch.map_err(entasis::Error::from)?)?;
        if found.len() != rows {
            return Err(invalid(format!("{:?} gave {} values for {rows} rows", self.expression, found.len())));
        }
        Ok(passing(&found, !self.is_negated))
    }
}

impl fmt::Debug for PreparedExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evaluation = &self.evaluation;
        write!(f, "{}{:?}", if evaluation.is_negated { "NOT " } else { "" }, evaluation.expression)
    }
}
