//! From the engine's expressions to conditions of the scan.
//!
//! A condition says exactly what its expression does: a row passes one if the other is true for it. Predicates on columns
//! are answered on encoded values; anything else becomes an [`Expression`], which the scan evaluates once per distinct
//! value of its column, if it is one and the file keeps such, else on decoded survivors. What would cost more there than it
//! saves isn't pushed at all: that is decided by [`why_left`], before, for a whole table.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use datafusion::{
    arrow::compute::{CastOptions, cast_with_options},
    common::{DataFusionError, Result, ScalarValue},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{BinaryExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr},
    },
};
use entasis::{
    Condition, Projection,
    encoding::{Comparison, FloatOrder, Like, Predicate, Scalar},
    scan::{Expression, scalar_of},
};

use crate::{
    needed::{Needed, column_path},
    predicates::Predicates,
};

/// The engine compares floats so, but that zeros are equal: see [`compared`].
const ORDER: FloatOrder = FloatOrder::Total;

/// Why an expression on the columns of `table` is better left to the engine; `None` if the scan takes it, all of it.
pub(crate) fn why_left(expression: &Arc<dyn PhysicalExpr>, table: &Schema) -> Option<String> {
    let is_joined = |binary: &BinaryExpr| matches!(binary.op(), Operator::And | Operator::Or);
    if expression.downcast_ref::<BinaryExpr>().is_some_and(is_joined) || expression.is::<NotExpr>() {
        return expression.children().into_iter().find_map(|child| why_left(child, table));
    }
    if let Some(volatile) = volatile(expression) {
        return Some(format!("{volatile} gives another value each time"));
    }
    // Distinct values answer, where a file keeps such.
    if Needed::of([expression], table).only_value(table) {
        return None;
    }
    without_encoded_answer(expression)
}

fn volatile(expression: &Arc<dyn PhysicalExpr>) -> Option<String> {
    if expression.is_volatile_node() {
        return Some(expression.to_string());
    }
    expression.children().into_iter().find_map(volatile)
}

/// Why an expression on several columns is left to the engine: what is dear to evaluate had better be so after all else.
fn without_encoded_answer(expression: &Arc<dyn PhysicalExpr>) -> Option<String> {
    if let Some(function) = expression.downcast_ref::<ScalarFunctionExpr>()
        && !matches!(function.name(), "get_field" | "starts_with" | "ends_with" | "contains")
    {
        return Some(format!("the scan has no encoded answer for {}() of several columns", function.name()));
    }
    if let Some(binary) = expression.downcast_ref::<BinaryExpr>()
        && !(binary.op().is_numerical_operators() || is_logical(binary.op()))
    {
        return Some(format!("the scan has no encoded answer for {} of several columns", binary.op()));
    }
    expression.children().into_iter().find_map(without_encoded_answer)
}

fn is_logical(operator: &Operator) -> bool {
    use Operator::*;
    matches!(
        operator,
        And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom | LikeMatch | NotLikeMatch
    )
}

/// From expressions on a file's columns to conditions. What it made for the condition before is the very same again, so that a scan
/// whose condition changes knows what stays.
pub(crate) struct Translation {
    /// The schema that expressions are written for.
    file: SchemaRef,
    predicates: Predicates,
    /// Made for this condition, and for the one before.
    evaluated: Vec<Arc<Evaluated>>,
    before: Vec<Arc<Evaluated>>,
}

impl Translation {
    pub fn new(file: SchemaRef, predicates: Predicates) -> Self {
        Self { file, predicates, evaluated: Vec::new(), before: Vec::new() }
    }

    /// The condition that a predicate is; every row passes none.
    pub fn condition_of(&mut self, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Result<Condition> {
        self.before = std::mem::take(&mut self.evaluated);
        match predicate {
            None => Ok(Condition::Always(true)),
            Some(predicate) if self.predicates == Predicates::Together => {
                Ok(Condition::Expression(self.evaluated(predicate)?))
            }
            Some(predicate) => self.condition(predicate, false),
        }
    }

    /// Rows for which the expression is true, or (`negated`) for which it is false.
    fn condition(&mut self, expression: &Arc<dyn PhysicalExpr>, negated: bool) -> Result<Condition> {
        if let Some(not) = expression.downcast_ref::<NotExpr>() {
            return self.condition(not.arg(), !negated);
        }
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            return Ok(match literal.value() {
                ScalarValue::Boolean(Some(value)) => Condition::Always(*value != negated),
                _ => Condition::Always(false),
            });
        }
        if let Some(binary) = expression.downcast_ref::<BinaryExpr>()
            && matches!(binary.op(), Operator::And | Operator::Or)
        {
            let sides = vec![self.condition(binary.left(), negated)?, self.condition(binary.right(), negated)?];
            let is_and = (*binary.op() == Operator::And) != negated;
            return Ok(if is_and { Condition::And(sides) } else { Condition::Or(sides) });
        }
        if self.predicates == Predicates::Encoded
            && let Some(condition) = self.leaf(expression, negated)
        {
            return Ok(condition);
        }
        let evaluated = Condition::Expression(self.evaluated(expression)?);
        Ok(if negated { Condition::Not(Box::new(evaluated)) } else { evaluated })
    }

    fn evaluated(&mut self, expression: &Arc<dyn PhysicalExpr>) -> Result<Arc<Evaluated>> {
        let new = Evaluated::new(expression, &self.file, self.predicates == Predicates::Encoded)?;
        let is_same =
            |known: &&Arc<Evaluated>| known.expression.eq(&new.expression) && known.projection == new.projection;
        let made = match self.before.iter().find(is_same) {
            Some(known) => known.clone(),
            None => Arc::new(new),
        };
        self.evaluated.push(made.clone());
        Ok(made)
    }

    /// A predicate on one column; `None` if it is none.
    fn leaf(&self, expression: &Arc<dyn PhysicalExpr>, negated: bool) -> Option<Condition> {
        if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
            return self.comparison(binary, negated);
        }
        if let Some(list) = expression.downcast_ref::<InListExpr>() {
            return self.in_list(list, negated);
        }
        if let Some(like) = expression.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive()) {
            let pattern = text_of(like.pattern())?;
            return self.like(like.expr(), pattern, like.negated() != negated);
        }
        if let Some(function) = expression.downcast_ref::<ScalarFunctionExpr>() {
            return self.text_function(function, negated);
        }
        if let Some(null) = expression.downcast_ref::<IsNullExpr>() {
            return self.null(null.arg(), !negated);
        }
        if let Some(not_null) = expression.downcast_ref::<IsNotNullExpr>() {
            return self.null(not_null.arg(), negated);
        }
        let (path, data_type) = self.column(expression)?;
        let holds = Predicate::Compare(Comparison::Equal, Scalar::Bool(!negated), ORDER);
        (*data_type == DataType::Boolean).then_some(Condition::Column { path, predicate: holds })
    }

    fn comparison(&self, binary: &BinaryExpr, negated: bool) -> Option<Condition> {
        let comparison = match binary.op() {
            Operator::Eq => Comparison::Equal,
            Operator::NotEq => Comparison::NotEqual,
            Operator::Lt => Comparison::Less,
            Operator::LtEq => Comparison::LessOrEqual,
            Operator::Gt => Comparison::Greater,
            Operator::GtEq => Comparison::GreaterOrEqual,
            _ => return None,
        };
        let (column, literal, comparison) = match (literal_of(binary.left()), literal_of(binary.right())) {
            (None, Some(literal)) => (binary.left(), literal, comparison),
            (Some(literal), None) => (binary.right(), literal, flipped(comparison)),
            _ => return None,
        };
        let (path, data_type) = self.column(column)?;
        if literal.is_null() {
            return Some(Condition::Always(false));
        }
        let comparison = if negated { opposite(comparison) } else { comparison };
        Some(Condition::Column { path, predicate: compared(comparison, scalar(literal, data_type)?) })
    }

    fn in_list(&self, list: &InListExpr, negated: bool) -> Option<Condition> {
        let (path, data_type) = self.column(list.expr())?;
        let negated = list.negated() != negated;
        let mut values = Vec::with_capacity(list.list().len());
        for item in list.list() {
            let literal = literal_of(item)?;
            if !literal.is_null() {
                values.push(scalar(literal, data_type)?);
            } else if negated {
                // Whatever isn't found may be the null.
                return Some(Condition::Always(false));
            }
        }
        Some(Condition::Column { path, predicate: Predicate::In { values, negated, order: ORDER } })
    }

    fn like(&self, column: &Arc<dyn PhysicalExpr>, pattern: &str, negated: bool) -> Option<Condition> {
        let (path, data_type) = self.column(column)?;
        let like = Like { pattern: pattern.as_bytes().to_vec(), escape: Some(b'\\'), negated };
        is_text(data_type).then_some(Condition::Column { path, predicate: Predicate::Like(like) })
    }

    /// What strings begin with, end with or contain, as patterns.
    fn text_function(&self, function: &ScalarFunctionExpr, negated: bool) -> Option<Condition> {
        let [column, text] = function.args() else { return None };
        let text: String = text_of(text)?.chars().flat_map(escaped).collect();
        let pattern = match function.name() {
            "starts_with" => format!("{text}%"),
            "ends_with" => format!("%{text}"),
            "contains" => format!("%{text}%"),
            _ => return None,
        };
        self.like(column, &pattern, negated)
    }

    fn null(&self, column: &Arc<dyn PhysicalExpr>, is_null: bool) -> Option<Condition> {
        let (path, _) = self.column(column)?;
        Some(Condition::Column { path, predicate: if is_null { Predicate::IsNull } else { Predicate::IsNotNull } })
    }

    /// The path and type of a column that predicates can be put to.
    fn column(&self, expression: &Arc<dyn PhysicalExpr>) -> Option<(Vec<usize>, &DataType)> {
        let path = column_path(expression, &self.file)?;
        let mut data_type = self.file.fields().get(path[0])?.data_type();
        for &field in &path[1..] {
            let DataType::Struct(fields) = data_type else { return None };
            data_type = fields[field].data_type();
        }
        let values = value_type(data_type);
        let is_known = values.is_primitive() && !matches!(values, DataType::Interval(_))
            || *values == DataType::Boolean
            || is_text(values)
            || matches!(
                values,
                DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)
            );
        is_known.then_some((path, data_type))
    }
}

/// The type of a dictionary's values, or the type itself.
fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(value_type(data_type), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// A comparison as the engine makes it: floats in the total order, in which the two zeros are neighbours, but both zeros alike. (Lists are
/// looked through bit by bit.)
fn compared(comparison: Comparison, literal: Scalar) -> Predicate {
    let (low, high) = (Scalar::Float(-0.0), Scalar::Float(0.0));
    match (comparison, literal) {
        (Comparison::Equal | Comparison::NotEqual, Scalar::Float(0.0)) => {
            Predicate::Between { low, high, negated: comparison == Comparison::NotEqual, order: ORDER }
        }
        (Comparison::Less | Comparison::GreaterOrEqual, Scalar::Float(0.0)) => {
            Predicate::Compare(comparison, low, ORDER)
        }
        (Comparison::LessOrEqual | Comparison::Greater, Scalar::Float(0.0)) => {
            Predicate::Compare(comparison, high, ORDER)
        }
        (comparison, literal) => Predicate::Compare(comparison, literal, ORDER),
    }
}

fn literal_of(expression: &Arc<dyn PhysicalExpr>) -> Option<&ScalarValue> {
    expression.downcast_ref::<Literal>().map(Literal::value)
}

fn text_of(expression: &Arc<dyn PhysicalExpr>) -> Option<&str> {
    literal_of(expression)?.try_as_str().flatten()
}

/// A literal as a scalar for a column of `data_type`; `None` if the two aren't compared as they are.
fn scalar(literal: &ScalarValue, data_type: &DataType) -> Option<Scalar> {
    let literal_type = literal.data_type();
    let (one, other) = (value_type(&literal_type), value_type(data_type));
    let same = one == other || is_text(one) && is_text(other) || is_binary(one) && is_binary(other);
    if !same {
        return None;
    }
    scalar_of(&*literal.to_array().ok()?)
}

/// The same comparison with its sides changed.
fn flipped(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}

/// The comparison that holds of two values, in a total order, exactly where this one doesn't.
fn opposite(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
        Comparison::Less => Comparison::GreaterOrEqual,
        Comparison::LessOrEqual => Comparison::Greater,
        Comparison::Greater => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual => Comparison::Less,
    }
}

/// A character that stands for itself in a pattern.
fn escaped(character: char) -> impl Iterator<Item = char> {
    let escape = matches!(character, '%' | '_' | '\\').then_some('\\');
    escape.into_iter().chain([character])
}

/// An expression of the engine, evaluated by it.
#[derive(Debug)]
pub(crate) struct Evaluated {
    expression: Arc<dyn PhysicalExpr>,
    projection: Projection,
    /// What the expression was planned for: strings may come in another layout.
    types: Vec<DataType>,
    asks_values: bool,
}

impl Evaluated {
    fn new(expression: &Arc<dyn PhysicalExpr>, file: &Schema, asks_values: bool) -> Result<Self> {
        let needed = Needed::of([expression], file);
        let types = needed.types(file);
        Ok(Self {
            expression: needed.reassign(expression.clone())?,
            projection: needed.projection(),
            types,
            asks_values,
        })
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let schema = batch.schema();
        let mut fields = Vec::with_capacity(self.types.len());
        let mut columns = Vec::with_capacity(self.types.len());
        for ((array, field), data_type) in batch.columns().iter().zip(schema.fields()).zip(&self.types) {
            fields.push(field.as_ref().clone().with_data_type(data_type.clone()));
            columns.push(match array.data_type() == data_type {
                true => array.clone(),
                // What can't be cast is an error, and no null.
                false => cast_with_options(array, data_type, &CastOptions { safe: false, ..CastOptions::default() })?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        let values = self.expression.evaluate(&batch)?.into_array(batch.num_rows())?;
        let values = values.as_any().downcast_ref::<BooleanArray>().cloned();
        values.ok_or_else(|| DataFusionError::Internal(format!("{} isn't a condition", self.expression)))
    }
}

impl Expression for Evaluated {
    fn projection(&self) -> &Projection {
        &self.projection
    }

    fn asks_values(&self) -> bool {
        self.asks_values
    }

    fn evaluate(&self, batch: &RecordBatch) -> entasis::Result<BooleanArray> {
        Ok(self.evaluate(batch).map_err(|error| ArrowError::ExternalError(Box::new(error)))?)
    }
}
