//! The conditions that must all hold, and the order in which they are asked.

use std::time::Instant;

use entasis_encoding::{Comparison, FilterWork, Physical, Predicate};

use super::{
    blocks::{Blocks, Rows},
    metrics::ConditionMetrics,
    prepared::{BlockPart, Leaf, Prepared},
    zones::Verdict,
};
use crate::{error::Result, read::column::ReadColumn};

/// What conditions did, and memory that they use again.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub filter: FilterWork,
    /// Rows that expressions were evaluated for, on decoded values.
    pub evaluated_rows: u64,
}

/// A condition, and what is known of what it costs and lets pass.
pub(super) struct Conjunct {
    pub prepared: Prepared,
    pub metrics: ConditionMetrics,
    /// What it is believed to cost per row before it was ever asked, in ns, and the share of rows that it is believed to let pass.
    prior: (f64, f64),
    /// Whether values of rows had to be decoded for it when it was last asked; of an expression that is believed at first.
    decodes: bool,
}

/// The rows of which the prior speaks: what was measured on more outweighs it.
const PRIOR_ROWS: f64 = 4_096.0;

impl Conjunct {
    pub fn new(prepared: Prepared) -> Self {
        let prior = prior(&prepared);
        let metrics = ConditionMetrics { condition: prepared.in_words(), ..ConditionMetrics::default() };
        let decodes = prepared.has_expression();
        Self { prepared, metrics, prior, decodes }
    }

    /// The conditions that `prepared` asks all of.
    pub fn all_of(prepared: Prepared) -> Vec<Self> {
        match prepared {
            Prepared::Always(true) => Vec::new(),
            Prepared::And(conditions) => conditions.into_iter().map(Self::new).collect(),
            other => vec![Self::new(other)],
        }
    }

    /// Takes over what is known of a condition of the same words; of the very same expression, also what distinct values answered.
    pub fn learn(&mut self, same: &mut Self) {
        (self.metrics, self.decodes) = (same.metrics.clone(), same.decodes);
        if let (Prepared::Expression(own), Prepared::Expression(others)) = (&mut self.prepared, &mut same.prepared)
            && own.is_same(others)
        {
            std::mem::swap(own, others);
        }
    }

    /// Conditions of the least rank come first: what it costs to be rid of a row. What needs decoded values comes last.
    pub fn rank(&self) -> (bool, f64) {
        let (cost, passing) = self.prior;
        let rows = self.metrics.rows as f64 + PRIOR_ROWS;
        let cost = (self.metrics.elapsed_ns as f64 + cost * PRIOR_ROWS) / rows;
        let passing = (self.metrics.rows_passed as f64 + passing * PRIOR_ROWS) / rows;
        (self.decodes, cost / (1.0 - passing).max(1e-6))
    }

    /// Keeps the rows that pass; true if values of rows were decoded for it.
    pub fn apply(&mut self, blocks: &mut Blocks, rows: &mut Rows, work: &mut Work) -> Result<bool> {
        let (asked, evaluated) = (rows.alive.count(), work.evaluated_rows);
        let start = Instant::now();
        self.prepared.apply(blocks, rows, work)?;
        self.decodes = work.evaluated_rows > evaluated;
        self.metrics.elapsed_ns += start.elapsed().as_nanos() as u64;
        self.metrics.rows += asked as u64;
        self.metrics.rows_passed += rows.alive.count() as u64;
        Ok(self.decodes)
    }
}

/// Opens the blocks that conditions need for living rows, and while at it for those ahead. Expressions open theirs when they are asked.
pub(super) fn open(conjuncts: &[Conjunct], blocks: &mut Blocks, rows: &Rows, ahead: &[Rows]) -> Result<()> {
    let mut leaves = Vec::new();
    conjuncts.iter().for_each(|conjunct| conjunct.prepared.leaves(&mut leaves));
    let is_needed = |column: &ReadColumn, part: &BlockPart<'_>| {
        let mut of_column = leaves.iter().filter(|leaf| leaf.column.key == column.key);
        of_column.any(|leaf| leaf.verdict(rows.group.number, part) == Verdict::Some)
    };
    blocks.open(leaves.iter().map(|leaf| &leaf.column), std::slice::from_ref(rows), ahead, is_needed)
}

impl Prepared {
    /// Keeps the rows that pass. Blocks of leaves must be open.
    fn apply(&self, blocks: &mut Blocks, rows: &mut Rows, work: &mut Work) -> Result<()> {
        match self {
            Prepared::Always(true) => {}
            Prepared::Always(false) => (0..rows.vectors.count).for_each(|vector| rows.alive.clear(vector)),
            Prepared::And(conditions) => conditions.iter().try_for_each(|one| one.apply(blocks, rows, work))?,
            Prepared::Or(conditions) => {
                let mut left = rows.clone();
                for condition in conditions {
                    let mut passed = left.clone();
                    condition.apply(blocks, &mut passed, work)?;
                    left.alive.subtract(&passed.alive);
                }
                rows.alive.subtract(&left.alive);
            }
            Prepared::Leaf(leaf) => leaf.apply(blocks, rows, &mut work.filter)?,
            Prepared::Unless(not_null, leaf) => {
                let mut passed = rows.clone();
                leaf.apply(blocks, &mut passed, &mut work.filter)?;
                rows.alive.subtract(&passed.alive);
                not_null.apply(blocks, rows, &mut work.filter)?;
            }
            Prepared::Expression(expression) => expression.apply(blocks, rows, work)?,
        }
        Ok(())
    }

    /// The leaves below.
    fn leaves<'p>(&'p self, out: &mut Vec<&'p Leaf>) {
        match self {
            Prepared::And(conditions) | Prepared::Or(conditions) => {
                conditions.iter().for_each(|one| one.leaves(out));
            }
            Prepared::Leaf(leaf) => out.push(leaf),
            Prepared::Unless(not_null, leaf) => out.extend([&**not_null, &**leaf]),
            Prepared::Always(_) | Prepared::Expression(_) => {}
        }
    }

    /// The columns of all leaves and expressions below.
    pub fn columns(&self) -> Vec<&ReadColumn> {
        match self {
            Prepared::Always(_) => Vec::new(),
            Prepared::And(conditions) | Prepared::Or(conditions) => conditions.iter().flat_map(Self::columns).collect(),
            Prepared::Leaf(leaf) => vec![&leaf.column],
            Prepared::Unless(_, leaf) => vec![&leaf.column],
            Prepared::Expression(expression) => expression.columns().iter().collect(),
        }
    }

    fn in_words(&self) -> String {
        let joined = |conditions: &[Prepared], word: &str| {
            let words = |one: &Prepared| match one {
                Prepared::And(_) | Prepared::Or(_) => format!("({})", one.in_words()),
                _ => one.in_words(),
            };
            conditions.iter().map(words).collect::<Vec<_>>().join(word)
        };
        match self {
            Prepared::Always(holds) => holds.to_string(),
            Prepared::And(conditions) => joined(conditions, " AND "),
            Prepared::Or(conditions) => joined(conditions, " OR "),
            Prepared::Leaf(leaf) => leaf.in_words(),
            Prepared::Unless(_, leaf) => format!("NOT {}", leaf.in_words()),
            Prepared::Expression(expression) => format!("{expression:?}"),
        }
    }
}

impl Leaf {
    fn apply(&self, blocks: &Blocks, rows: &mut Rows, work: &mut FilterWork) -> Result<()> {
        let row_group = rows.group.number;
        let decide = |part: &BlockPart<'_>| self.verdict(row_group, part);
        if blocks.has_none(&self.column, rows)? {
            if self.without_blocks() == Verdict::None {
                (0..rows.vectors.count).for_each(|vector| rows.alive.clear(vector));
            }
            return Ok(());
        }
        blocks.visit(&self.column, rows, decide, |_, block, selection| self.filter.apply(block, selection, work))
    }

    fn in_words(&self) -> String {
        format!("{} {}", self.column.path, self.predicate)
    }
}

/// What a condition is believed to cost per row, in ns, and the share of rows that it is believed to let pass.
fn prior(prepared: &Prepared) -> (f64, f64) {
    match prepared {
        Prepared::Always(holds) => (0.0, f64::from(u8::from(*holds))),
        Prepared::And(conditions) => conditions
            .iter()
            .map(prior)
            .fold((0.0, 1.0), |(cost, passing), (own, share)| (cost + own * passing, passing * share)),
        Prepared::Or(conditions) => {
            let (cost, falling) = conditions
                .iter()
                .map(prior)
                .fold((0.0, 1.0), |(cost, falling), (own, share)| (cost + own * falling, falling * (1.0 - share)));
            (cost, 1.0 - falling)
        }
        Prepared::Leaf(leaf) => leaf.prior(),
        Prepared::Unless(_, leaf) => {
            let (cost, passing) = leaf.prior();
            (cost, 1.0 - passing)
        }
        Prepared::Expression(_) => (50.0, 0.5),
    }
}

impl Leaf {
    fn prior(&self) -> (f64, f64) {
        believed(&self.predicate, &self.column.physical)
    }
}

/// What a predicate on a column of type `physical` is believed to cost per row, in ns, and the share of rows that it is believed to let
/// pass, as long as neither was measured.
pub fn believed(predicate: &Predicate, physical: &Physical) -> (f64, f64) {
    let (is_equal, is_prefix) = match predicate {
        Predicate::Compare(comparison, ..) => (*comparison == Comparison::Equal, false),
        Predicate::Like(like) => (false, !like.pattern.starts_with(b"%")),
        _ => (false, false),
    };
    let cost = match physical {
        Physical::Bool | Physical::Null => 0.1,
        Physical::Fixed(_) => 0.3,
        Physical::Bytes if is_equal || is_prefix => 4.0,
        Physical::Bytes => 10.0,
        _ => 1.0,
    };
    let passing = match predicate {
        Predicate::Compare(Comparison::Equal, ..) | Predicate::IsNull => 0.05,
        Predicate::Compare(Comparison::NotEqual, ..) | Predicate::IsNotNull => 0.9,
        Predicate::Compare(..) => 0.4,
        Predicate::In { negated: false, .. } => 0.1,
        Predicate::Between { negated: false, .. } => 0.2,
        Predicate::Like(like) if !like.negated => 0.1,
        _ => 0.8,
    };
    (cost, passing)
}
