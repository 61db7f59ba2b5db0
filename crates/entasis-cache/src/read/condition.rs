//! What is asked of a file's rows: negations at the leaves, leaves found, predicates as filters of cells.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use entasis::scan::{Condition, Verdict, believed, negated, verdict};
use entasis_encoding::{Comparison, Filter, FilterWork, FloatOrder, Physical, Predicate, Scalar, Selection};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::expression::PreparedExpression;
use super::layout::Layout;
use super::prune::Statistics;
use crate::{Cell, Error, Result};

/// Cells that a read holds, by leaf and piece of one row group.
pub(super) type Held = BTreeMap<(usize, usize), Cell>;

/// The rows of which a belief speaks: what was measured on more outweighs it.
const BELIEVED_ROWS: f64 = 1_024.0;

/// The rows of which speaks what was measured before a condition became stricter.
const LEARNED_ROWS: f64 = 8.0 * BELIEVED_ROWS;

/// What asking did.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub filter: FilterWork,
    /// Rows that expressions were evaluated for.
    pub evaluated_rows: u64,
    pub asking_ns: u64,
}

/// A condition in negation normal form.
#[derive(Debug)]
pub(super) enum Prepared {
    Always(bool),
    And(Vec<Prepared>),
    Or(Vec<Prepared>),
    Leaf(Box<Leaf>),
    /// The rows that aren't null and that the leaf doesn't pass: a negation that no predicate is, because of NaNs.
    Unless(Box<Leaf>, Box<Leaf>),
    Expression(Box<PreparedExpression>),
}

/// A predicate on a leaf.
#[derive(Debug)]
pub(super) struct Leaf {
    number: usize,
    /// The top-level column that it is, if it is one.
    column: Option<usize>,
    predicate: Predicate,
    physical: Physical,
    filter: Filter,
}

impl Prepared {
    /// The condition, or its negation, for a file of this layout and schema.
    pub fn new(layout: &Layout, condition: &Condition, is_negated: bool) -> Result<Self> {
        let all = |conditions: &[Condition]| -> Result<Vec<Prepared>> {
            conditions.iter().map(|condition| Self::new(layout, condition, is_negated)).collect()
        };
        Ok(match condition {
            Condition::Always(holds) => Self::Always(*holds != is_negated),
            Condition::And(conditions) if is_negated => Self::any(all(conditions)?),
            Condition::Or(conditions) if is_negated => Self::every(all(conditions)?),
            Condition::And(conditions) => Self::every(all(conditions)?),
            Condition::Or(conditions) => Self::any(all(conditions)?),
            Condition::Not(condition) => Self::new(layout, condition, !is_negated)?,
            Condition::Column { path, predicate } => Self::of_column(layout, path, predicate, is_negated)?,
            Condition::Expression(expression) => {
                Self::Expression(Box::new(PreparedExpression::new(layout, expression, is_negated)?))
            }
        })
    }

    fn every(conditions: Vec<Prepared>) -> Self {
        let mut flat = Vec::new();
        for condition in conditions {
            match condition {
                Prepared::Always(true) => {}
                Prepared::Always(false) => return Prepared::Always(false),
                Prepared::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        Prepared::And(flat)
    }

    fn any(conditions: Vec<Prepared>) -> Self {
        if conditions.iter().any(|condition| matches!(condition, Prepared::Always(true))) {
            return Prepared::Always(true);
        }
        Prepared::Or(conditions)
    }

    /// A predicate on a column. The fields of a struct that is null are null.
    fn of_column(layout: &Layout, path: &[usize], predicate: &Predicate, is_negated: bool) -> Result<Self> {
        let Some((parents, number, node)) = layout.path(path) else {
            return Err(invalid(format!("there is no column {path:?}")));
        };
        let is_nested = !matches!(node.physical, Physical::Bool | Physical::Fixed(_) | Physical::Bytes);
        if is_nested || node.children.is_some() {
            let what = format!("{predicate} of the column {path:?}, of type {}", node.field.data_type());
            return Err(entasis::Error::Unsupported(what).into());
        }
        let column = (path.len() == 1).then_some(path[0]);
        let leaf = |predicate: Predicate| Leaf {
            number,
            column,
            filter: Filter::new(&predicate, &node.physical),
            predicate,
            physical: node.physical.clone(),
        };
        if matches!((predicate, is_negated), (Predicate::IsNull, false) | (Predicate::IsNotNull, true)) {
            let mut any: Vec<Self> = parents.iter().map(|&parent| Self::of_struct(parent, false)).collect();
            any.push(Self::Leaf(Box::new(leaf(Predicate::IsNull))));
            return Ok(Self::any(any));
        }
        let mut every: Vec<Self> = parents.iter().map(|&parent| Self::of_struct(parent, true)).collect();
        every.push(match is_negated {
            false => Self::Leaf(Box::new(leaf(predicate.clone()))),
            true => match negated(predicate, &node.physical) {
                Some(predicate) => Self::Leaf(Box::new(leaf(predicate))),
                None => Self::Unless(Box::new(leaf(Predicate::IsNotNull)), Box::new(leaf(predicate.clone()))),
            },
        });
        Ok(Self::every(every))
    }

    /// The rows of which a struct is valid, or those of which it is null.
    fn of_struct(number: usize, is_valid: bool) -> Self {
        let predicate = Predicate::Compare(Comparison::Equal, Scalar::Bool(is_valid), FloatOrder::default());
        let filter = Filter::new(&predicate, &Physical::Bool);
        Self::Leaf(Box::new(Leaf { number, column: None, predicate, physical: Physical::Bool, filter }))
    }

    /// Whether rows of a row group may pass.
    pub fn may_pass(&self, statistics: Statistics<'_>) -> bool {
        let may_pass = |condition: &Prepared| condition.may_pass(statistics);
        match self {
            Prepared::Always(holds) => *holds,
            Prepared::And(conditions) => conditions.iter().all(may_pass),
            Prepared::Or(conditions) => conditions.iter().any(may_pass),
            Prepared::Leaf(leaf) | Prepared::Unless(leaf, _) => leaf.may_pass(statistics),
            Prepared::Expression(_) => true,
        }
    }

    /// The rows of a row group that may pass, as its pages' statistics tell; `None` if all may.
    pub fn rows_left(&self, statistics: Statistics<'_>) -> Option<RowSelection> {
        match self {
            Prepared::Always(true) | Prepared::Expression(_) => None,
            Prepared::Always(false) => Some(RowSelection::from(vec![RowSelector::skip(statistics.rows()?)])),
            Prepared::And(conditions) => {
                let each = conditions.iter().filter_map(|condition| condition.rows_left(statistics));
                each.reduce(|left, right| left.intersection(&right))
            }
            Prepared::Or(conditions) => {
                let each = conditions.iter().map(|condition| condition.rows_left(statistics));
                each.collect::<Option<Vec<_>>>()?.into_iter().reduce(|left, right| left.union(&right))
            }
            Prepared::Leaf(leaf) | Prepared::Unless(leaf, _) => leaf.rows_left(statistics),
        }
    }

    /// Adds the leaves whose cells are needed.
    pub fn add_leaves(&self, leaves: &mut BTreeSet<usize>) {
        match self {
            Prepared::Always(_) => {}
            Prepared::And(conditions) | Prepared::Or(conditions) => {
                conditions.iter().for_each(|condition| condition.add_leaves(leaves));
            }
            Prepared::Leaf(leaf) | Prepared::Unless(leaf, _) => {
                leaves.insert(leaf.number);
            }
            Prepared::Expression(expression) => leaves.extend(expression.leaves()),
        }
    }

    /// Keeps the rows of a piece that pass. Its cells must be held.
    fn apply(&self, held: &Held, piece: usize, selection: &mut Selection, work: &mut Work) -> Result<()> {
        if selection.is_empty() {
            return Ok(());
        }
        match self {
            Prepared::Always(true) => {}
            Prepared::Always(false) => *selection = Selection::none(selection.rows()),
            Prepared::And(conditions) => {
                conditions.iter().try_for_each(|condition| condition.apply(held, piece, selection, work))?;
            }
            Prepared::Or(conditions) => {
                let mut left = selection.clone();
                for condition in conditions {
                    let mut passed = left.clone();
                    condition.apply(held, piece, &mut passed, work)?;
                    left.subtract(&passed);
                }
                selection.subtract(&left);
            }
            Prepared::Leaf(leaf) => leaf.apply(held, piece, selection, &mut work.filter)?,
            Prepared::Unless(not_null, leaf) => {
                let mut passed = selection.clone();
                leaf.apply(held, piece, &mut passed, &mut work.filter)?;
                selection.subtract(&passed);
                not_null.apply(held, piece, selection, &mut work.filter)?;
            }
            Prepared::Expression(expression) => expression.apply(held, piece, selection, work)?,
        }
        Ok(())
    }

    fn has_expression(&self) -> bool {
        match self {
            Prepared::Expression(_) => true,
            Prepared::And(conditions) | Prepared::Or(conditions) => conditions.iter().any(Self::has_expression),
            Prepared::Always(_) | Prepared::Leaf(_) | Prepared::Unless(..) => false,
        }
    }

    /// What it is believed to cost per row, in ns, and the share of rows that it is believed to let pass.
    fn believed(&self) -> (f64, f64) {
        match self {
            Prepared::Always(holds) => (0.0, f64::from(u8::from(*holds))),
            Prepared::And(conditions) => {
                let each = conditions.iter().map(Self::believed);
                each.fold((0.0, 1.0), |(cost, passing), (own, share)| (cost + own * passing, passing * share))
            }
            Prepared::Or(conditions) => {
                let each = conditions.iter().map(Self::believed);
                let or = |(cost, falling): (f64, f64), (own, share)| (cost + own * falling, falling * (1.0 - share));
                let (cost, falling) = each.fold((0.0, 1.0), or);
                (cost, 1.0 - falling)
            }
            Prepared::Leaf(leaf) => believed(&leaf.predicate, &leaf.physical),
            Prepared::Unless(_, leaf) => {
                let (cost, passing) = believed(&leaf.predicate, &leaf.physical);
                (cost, 1.0 - passing)
            }
            Prepared::Expression(_) => (50.0, 0.5),
        }
    }
}

impl Leaf {
    fn may_pass(&self, statistics: Statistics<'_>) -> bool {
        self.column.is_none_or(|column| statistics.may_pass(column, &self.physical, &self.predicate))
    }

    fn rows_left(&self, statistics: Statistics<'_>) -> Option<RowSelection> {
        statistics.rows_left(self.column?, &self.physical, &self.predicate)
    }

    /// By the statistics of the cell's blocks where they tell, else by their values.
    fn apply(&self, held: &Held, piece: usize, selection: &mut Selection, work: &mut FilterWork) -> Result<()> {
        let cell = held_cell(held, self.number, piece)?;
        let mut verdicts = cell.zones().map(|(rows, zone)| verdict(&self.predicate, zone, rows as u64));
        let first = verdicts.next().unwrap_or(Verdict::Some);
        let all = verdicts.fold(first, |all, one| if all == one { all } else { Verdict::Some });
        match all {
            Verdict::None => *selection = Selection::none(selection.rows()),
            Verdict::All => {}
            Verdict::Some => cell.filter(&self.filter, selection, work)?,
        }
        Ok(())
    }
}

/// One of the conditions that must all hold, and what is known of what it costs and lets pass.
#[derive(Debug)]
pub(super) struct Conjunct {
    prepared: Prepared,
    leaves: BTreeSet<usize>,
    believed: (f64, f64),
    rows: u64,
    rows_passed: u64,
    elapsed_ns: u64,
    /// Whether values of rows had to be decoded for it when it was last asked; of an expression that is believed at first.
    decodes: bool,
}

impl Conjunct {
    /// The conditions that `prepared` asks all of.
    pub fn all_of(prepared: Prepared) -> Vec<Self> {
        match prepared {
            Prepared::Always(true) => Vec::new(),
            Prepared::And(conditions) => conditions.into_iter().map(Self::new).collect(),
            other => vec![Self::new(other)],
        }
    }

    fn new(prepared: Prepared) -> Self {
        let (mut leaves, believed) = (BTreeSet::new(), prepared.believed());
        prepared.add_leaves(&mut leaves);
        let decodes = matches!(prepared, Prepared::Expression(_));
        Self { prepared, leaves, believed, rows: 0, rows_passed: 0, elapsed_ns: 0, decodes }
    }

    /// Takes over what was measured of one of those before a condition became stricter, if it was about the same leaves: it lets at most as
    /// many rows pass as that did.
    pub fn learn(&mut self, before: &mut Vec<Self>) {
        let is_one = |one: &Self| one.leaves == self.leaves && one.is_expression() == self.is_expression();
        let Some(place) = before.iter().position(is_one) else { return };
        let known = before.remove(place);
        // What is measured from now on soon outweighs it.
        let weight = (LEARNED_ROWS / known.rows.max(1) as f64).min(1.0);
        let weighed = |measured: u64| (measured as f64 * weight) as u64;
        (self.rows, self.rows_passed) = (weighed(known.rows), weighed(known.rows_passed));
        (self.elapsed_ns, self.decodes) = (weighed(known.elapsed_ns), known.decodes);
    }

    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Leaves whose cells are needed.
    pub fn leaves(&self) -> &BTreeSet<usize> {
        &self.leaves
    }

    /// Conditions of the least rank come first: what it costs to be rid of a row. What needs decoded values comes last.
    pub fn rank(&self) -> (bool, f64) {
        let cost = self.elapsed_ns as f64 + self.believed.0 * BELIEVED_ROWS;
        (self.decodes, cost / (self.rows as f64 + BELIEVED_ROWS) / (1.0 - self.passing()).max(1e-6))
    }

    /// Whether somebody else evaluates it, or a part of it.
    pub fn is_expression(&self) -> bool {
        self.prepared.has_expression()
    }

    /// The share of rows that it is believed to let pass, as measured so far.
    pub fn passing(&self) -> f64 {
        let believed = self.believed.1 * BELIEVED_ROWS;
        (self.rows_passed as f64 + believed) / (self.rows as f64 + BELIEVED_ROWS)
    }

    /// Keeps the rows of a piece that pass; true if values of rows were decoded for it.
    pub fn apply(&mut self, held: &Held, piece: usize, selection: &mut Selection, work: &mut Work) -> Result<bool> {
        let (asked, evaluated, start) = (selection.count(), work.evaluated_rows, Instant::now());
        self.prepared.apply(held, piece, selection, work)?;
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        self.elapsed_ns += elapsed_ns;
        work.asking_ns += elapsed_ns;
        self.rows += asked as u64;
        self.rows_passed += selection.count() as u64;
        self.decodes = work.evaluated_rows > evaluated;
        Ok(self.decodes)
    }
}

pub(super) fn held_cell(held: &Held, leaf: usize, piece: usize) -> Result<&Cell> {
    held.get(&(leaf, piece)).ok_or_else(|| invalid(format!("leaf {leaf}, piece {piece} was not decoded")))
}

pub(super) fn invalid(what: String) -> Error {
    Error::Entasis(entasis::Error::InvalidArgument(what))
}
