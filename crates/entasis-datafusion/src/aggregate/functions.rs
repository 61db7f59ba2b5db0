//! Which aggregate functions a scan answers, of which arguments, and what their accumulators take from it.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::{DataType, FieldRef, Schema};
use datafusion::{
    common::{DataFusionError, Result, ScalarValue},
    functions_aggregate::{
        average::avg_udaf,
        count::count_udaf,
        min_max::{max_udaf, min_udaf},
        sum::sum_udaf,
    },
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr,
        aggregate::AggregateFunctionExpr,
        expressions::{BinaryExpr, CastExpr, Column, Literal},
    },
};
use entasis::encoding::{Aggregates, Wanted};

use crate::{schema::widens, statistics::value_of};

/// A function of one argument whose answer depends on no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Count,
    Sum,
    Min,
    Max,
    Average,
}

/// What is aggregated of a file's rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    /// Each row, whatever it holds.
    Rows,
    /// A column, by its number in the file.
    Column {
        index: usize,
        stored: DataType,
        /// How much each value is above the one that is stored; where they are added, wrapping.
        above: i128,
    },
}

impl Term {
    /// The number of the column, if it is one.
    pub fn index(&self) -> Option<usize> {
        match self {
            Self::Rows => None,
            Self::Column { index, .. } => Some(*index),
        }
    }

    fn column(index: usize, stored: DataType) -> Self {
        Self::Column { index, stored, above: 0 }
    }
}

impl Function {
    /// The function of an aggregate, unless it regards less than all values, or their order.
    pub fn of(aggregate: &AggregateFunctionExpr) -> Option<Self> {
        if aggregate.is_distinct() || aggregate.ignore_nulls() || !aggregate.order_bys().is_empty() {
            return None;
        }
        let known = [
            (count_udaf(), Self::Count),
            (sum_udaf(), Self::Sum),
            (min_udaf(), Self::Min),
            (max_udaf(), Self::Max),
            (avg_udaf(), Self::Average),
        ];
        let found = known.into_iter().find(|(function, _)| **function == *aggregate.fun());
        found.map(|(_, function)| function).filter(|_| aggregate.expressions().len() == 1)
    }

    /// What this function of `argument`, an expression on columns of `schema`, takes from a scan; `None` if only the values can tell.
    pub fn term(self, argument: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Term> {
        match self {
            Self::Count => match argument.downcast_ref::<Literal>() {
                Some(literal) => (!literal.value().is_null()).then_some(Term::Rows),
                None => {
                    let (index, stored) = column_under_casts(argument, schema)?;
                    (is_ordered(&stored) || stored.is_floating()).then(|| Term::column(index, stored))
                }
            },
            Self::Min | Self::Max => {
                let (index, stored) = column_under_casts(argument, schema)?;
                is_ordered(&stored).then(|| Term::column(index, stored))
            }
            Self::Sum => match argument.data_type(schema).ok()? {
                DataType::Int64 | DataType::UInt64 => sum_term(argument, schema),
                _ => None,
            },
            // Integers are averaged as doubles.
            Self::Average => {
                let cast = argument.downcast_ref::<CastExpr>()?;
                let (index, stored) = column_under_casts(cast.expr(), schema)?;
                let is_float = *cast.cast_type() == DataType::Float64;
                (is_float && stored.is_integer()).then(|| Term::column(index, stored))
            }
        }
    }

    /// What the scan is to find out.
    pub fn wanted(self) -> Wanted {
        match self {
            Self::Count => Wanted::COUNT,
            Self::Sum | Self::Average => Wanted { sum: true, ..Wanted::COUNT },
            Self::Min => Wanted { min: true, ..Wanted::COUNT },
            Self::Max => Wanted { max: true, ..Wanted::COUNT },
        }
    }

    /// The state of an accumulator that has seen what was `found`, of these fields.
    pub fn state(self, term: &Term, found: &Aggregates, fields: &[FieldRef]) -> Result<Vec<ArrayRef>> {
        let data_type = |index: usize| fields.get(index).map_or(&DataType::Null, |field| field.data_type());
        let count = found.count;
        let has_values = count > 0;
        let state = match (self, term) {
            (Self::Count, _) => vec![ScalarValue::Int64(Some(count as i64))],
            (Self::Sum, Term::Column { above, .. }) => {
                let sum = found.sum.unwrap_or(0).wrapping_add(above.wrapping_mul(i128::from(count)));
                vec![match data_type(0) {
                    DataType::UInt64 => ScalarValue::UInt64(has_values.then_some(sum as u64)),
                    _ => ScalarValue::Int64(has_values.then_some(sum as i64)),
                }]
            }
            // Exact until here: the engine would have rounded after every value.
            (Self::Average, _) => {
                let sum = found.sum.filter(|_| has_values).map(|sum| sum as f64);
                vec![ScalarValue::UInt64(Some(count)), ScalarValue::Float64(sum)]
            }
            (Self::Min | Self::Max, Term::Column { stored, .. }) => {
                let end = if self == Self::Min { &found.min } else { &found.max };
                let value = match end {
                    None => ScalarValue::try_from(data_type(0))?,
                    Some(end) => {
                        let what = || DataFusionError::Internal(format!("{end:?} as {stored}"));
                        value_of(end, stored).ok_or_else(what)?.cast_to(data_type(0))?
                    }
                };
                vec![value]
            }
            (_, Term::Rows) => return Err(DataFusionError::Internal(format!("{self:?} of rows"))),
        };
        state.into_iter().map(|value| value.to_array()).collect()
    }
}

/// The column that an expression is, be it cast to types that hold all of its values in the same order, and its type.
fn column_under_casts(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<(usize, DataType)> {
    if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema).ok()?;
        return if widens(&from, cast.cast_type()) { column_under_casts(cast.expr(), schema) } else { None };
    }
    let column = expression.downcast_ref::<Column>()?;
    Some((column.index(), schema.fields().get(column.index())?.data_type().clone()))
}

/// The sum of an expression in 64 bits, which wraps around: a column, more or less a constant.
fn sum_term(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Term> {
    let Some(binary) = expression.downcast_ref::<BinaryExpr>() else {
        let (index, stored) = column_under_casts(expression, schema)?;
        return stored.is_integer().then(|| Term::column(index, stored));
    };
    // One that fails instead of wrapping around is another expression.
    if *binary != BinaryExpr::new(binary.left().clone(), *binary.op(), binary.right().clone()) {
        return None;
    }
    let (term, constant) = match (binary.op(), integer(binary.left()), integer(binary.right())) {
        (Operator::Plus, None, Some(constant)) => (binary.left(), constant),
        (Operator::Plus, Some(constant), None) => (binary.right(), constant),
        (Operator::Minus, None, Some(constant)) => (binary.left(), -constant),
        _ => return None,
    };
    match sum_term(term, schema)? {
        Term::Column { index, stored, above } => Some(Term::Column { index, stored, above: above + constant }),
        Term::Rows => None,
    }
}

/// The 64-bit integer that a literal is.
fn integer(expression: &Arc<dyn PhysicalExpr>) -> Option<i128> {
    match expression.downcast_ref::<Literal>()?.value() {
        ScalarValue::Int64(value) => value.map(i128::from),
        ScalarValue::UInt64(value) => value.map(i128::from),
        _ => None,
    }
}

/// Types whose least and greatest values are those of their blocks. Floats aren't: the engine has an order for NaNs.
fn is_ordered(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_integer()
        || data_type.is_temporal() && !matches!(data_type, Interval(_))
        || matches!(data_type, Boolean | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..))
        || matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}
