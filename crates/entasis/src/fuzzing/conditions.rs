//! Random conditions on a table, and the rows for which they hold, found one by one: what scans are held against.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, cast::AsArray};
use arrow_schema::DataType;

use crate::{
    Condition, Projection, Result,
    encoding::{Comparison, FloatOrder, Like, Predicate, Scalar, digest},
    generate::Generator,
    scan::{Expression, is_union, scalar_of},
};

/// True of a half of all values, by their hash; of several columns together. `of_nothing` where no column has a value that it knows.
#[derive(Debug)]
pub struct Hashed {
    projection: Projection,
    of_nothing: Option<bool>,
}

impl Hashed {
    /// An expression on these columns.
    pub fn new(columns: Vec<usize>, of_nothing: Option<bool>) -> Self {
        Self { projection: Projection::of_columns(columns), of_nothing }
    }

    fn of(&self, columns: impl Iterator<Item = ArrayRef>) -> Option<bool> {
        let values: Vec<_> = columns.map(|column| scalar_of(&column)).collect();
        if values.iter().all(Option::is_none) {
            return self.of_nothing;
        }
        Some(digest(format!("{values:?}").as_bytes()) % 2 == 1)
    }
}

impl Expression for Hashed {
    fn projection(&self) -> &Projection {
        &self.projection
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let of_row = |row: usize| self.of(batch.columns().iter().map(|column| column.slice(row, 1)));
        Ok((0..batch.num_rows()).map(of_row).collect())
    }
}

/// A random condition, so deep at most. Literals are the table's own values, mostly.
pub fn random_condition(generator: &mut Generator, batch: &RecordBatch, depth: usize) -> Condition {
    let some = |generator: &mut Generator| {
        (0..1 + generator.below(3)).map(|_| random_condition(generator, batch, depth - 1)).collect()
    };
    match generator.below(if depth == 0 { 6 } else { 12 }) {
        0 => Condition::Always(generator.chance(50)),
        1 => {
            let mut columns: Vec<_> =
                (0..1 + generator.below(2)).map(|_| generator.below(batch.num_columns())).collect();
            columns.dedup();
            let of_nothing = [None, Some(false), Some(true)][generator.below(3)];
            Condition::Expression(Arc::new(Hashed::new(columns, of_nothing)))
        }
        2..6 => leaf(generator, batch),
        6 | 7 => Condition::And(some(generator)),
        8 | 9 => Condition::Or(some(generator)),
        _ => Condition::Not(Box::new(random_condition(generator, batch, depth - 1))),
    }
}

fn leaf(generator: &mut Generator, batch: &RecordBatch) -> Condition {
    let mut path = vec![generator.below(batch.num_columns())];
    let mut data_type = batch.column(path[0]).data_type().clone();
    while let DataType::Struct(fields) = &data_type {
        if fields.is_empty() || generator.chance(20) {
            break;
        }
        let field = generator.below(fields.len());
        path.push(field);
        data_type = fields[field].data_type().clone();
    }
    if is_union(&data_type) {
        return Condition::Always(true);
    }
    let mut literal = || match batch.num_rows() {
        0 => None,
        rows => value_of(batch, &path, generator.below(rows)).and_then(|array| scalar_of(&array)),
    };
    let literals: Vec<Scalar> = (0..4).filter_map(|_| literal()).collect();
    Condition::Column { path, predicate: predicate(generator, &literals) }
}

fn predicate(generator: &mut Generator, literals: &[Scalar]) -> Predicate {
    let order = [FloatOrder::Ieee, FloatOrder::NanGreatest, FloatOrder::Total][generator.below(3)];
    let negated = generator.chance(50);
    match (generator.below(7), literals) {
        (0, _) | (_, []) => [Predicate::IsNull, Predicate::IsNotNull][generator.below(2)].clone(),
        (1, values) => Predicate::In { values: values.to_vec(), negated, order },
        (2, [low, .., high]) => Predicate::Between { low: low.clone(), high: high.clone(), negated, order },
        (3, [Scalar::Bytes(text), ..]) => {
            // Patterns are text, whatever they are put to.
            let end = &text[generator.below(text.len() + 1)..];
            let end = std::str::from_utf8(end).unwrap_or_default().as_bytes();
            let pattern = [b"%", end, b"%"][generator.below(2)..].concat();
            Predicate::Like(Like { pattern, escape: None, negated })
        }
        (_, [literal, ..]) => Predicate::Compare(Comparison::ALL[generator.below(6)], literal.clone(), order),
    }
}

/// The rows of `batch` for which `condition` is true, by [`Predicate::holds`], one after the other.
pub fn passing_rows(condition: &Condition, batch: &RecordBatch) -> Vec<usize> {
    (0..batch.num_rows()).filter(|&row| truth(condition, batch, row) == Some(true)).collect()
}

/// What a condition is of one row; `None` is neither true nor false.
fn truth(condition: &Condition, batch: &RecordBatch, row: usize) -> Option<bool> {
    match condition {
        Condition::Always(holds) => Some(*holds),
        Condition::Not(inner) => truth(inner, batch, row).map(|holds| !holds),
        Condition::And(inner) => kleene(inner.iter().map(|one| truth(one, batch, row)), false),
        Condition::Or(inner) => kleene(inner.iter().map(|one| truth(one, batch, row)), true),
        Condition::Column { path, predicate } => {
            let array = value_of(batch, path, row);
            let is_null =
                array.as_ref().is_none_or(|array| array.logical_nulls().is_some_and(|nulls| nulls.is_null(0)));
            match (predicate, is_null) {
                (Predicate::IsNull, _) => Some(is_null),
                (Predicate::IsNotNull, _) => Some(!is_null),
                (_, true) => None,
                _ => Some(predicate.holds(array.and_then(|array| scalar_of(&array)).as_ref())),
            }
        }
        Condition::Expression(expression) => {
            let columns: Vec<usize> =
                expression.projection().selected().unwrap_or_default().iter().map(|one| one.column).collect();
            let row = batch.project(&columns).map(|projected| projected.slice(row, 1));
            let values = expression.evaluate(&row.ok()?).ok()?;
            values.is_valid(0).then(|| values.value(0))
        }
    }
}

/// Any of them where `decisive` is true, all of them where it is false, in three-valued logic.
fn kleene(truths: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut all = Some(!decisive);
    for one in truths {
        match one {
            Some(value) if value == decisive => return Some(decisive),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}

/// The value of a row as an array of one; `None` in a struct that is null.
fn value_of(batch: &RecordBatch, path: &[usize], row: usize) -> Option<ArrayRef> {
    let mut array = batch.column(path[0]).slice(row, 1);
    for &field in &path[1..] {
        if array.is_null(0) {
            return None;
        }
        array = array.as_struct().column(field).clone();
    }
    Some(array)
}
