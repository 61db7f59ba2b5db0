//! Expressions: evaluated once per distinct value where a block keeps such and they are fewer than the rows that are left, on decoded
//! survivors elsewhere.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::{Schema, SchemaRef};
use entasis_encoding::{Ask, AskCount, BitBuffer, Decoded, Filter, VECTOR_ROWS};

use super::{
    Work,
    blocks::{Blocks, Rows, batch_of},
    condition::Expression,
    prepared::BlockPart,
    zones::Verdict,
};
use crate::{
    Reader, Strings,
    arrow::Split,
    blocks::passing,
    error::{Error, Result},
    read::column::{ReadColumn, ReadColumns, empty, extend_not_null, split_of},
};

/// Distinct values are asked about where they are at most so many for each row that they spare.
pub const MOST_VALUES_PER_ROW: f64 = 0.75;

/// An expression, made ready for one file.
pub(super) struct PreparedExpression {
    evaluation: Arc<Evaluation>,
    /// The same of distinct values, if it is an expression on one column.
    distinct: Option<(Arc<Distinct>, Filter)>,
}

/// An expression, the columns that it needs, and what is wanted of it.
struct Evaluation {
    expression: Arc<dyn Expression>,
    reader: Reader,
    columns: ReadColumns,
    schema: SchemaRef,
    is_negated: bool,
}

/// An expression on the values of one column: the last that it needs, the others being the structs around it.
struct Distinct {
    evaluation: Arc<Evaluation>,
    empty: Decoded,
    /// True once it couldn't be evaluated: maybe for a value that no row has which is left, so that rows are asked from then on.
    has_failed: AtomicBool,
}

impl PreparedExpression {
    pub fn new(reader: &Reader, expression: &Arc<dyn Expression>, strings: Strings, is_negated: bool) -> Result<Self> {
        let columns = ReadColumns::new(reader, expression.projection().selected(), strings)?;
        let fields: Vec<_> = columns.trees.iter().map(|tree| tree.field.clone()).collect();
        let (expression, reader, schema) = (expression.clone(), reader.clone(), Arc::new(Schema::new(fields)));
        let evaluation = Arc::new(Evaluation { expression, reader, columns, schema, is_negated });
        let distinct = match evaluation.column() {
            Some(column) if evaluation.expression.asks_values() => Distinct::new(&evaluation, column)?,
            _ => None,
        };
        Ok(Self { evaluation, distinct })
    }

    /// Whether the very same is wanted of the very same expression.
    pub fn is_same(&self, other: &Self) -> bool {
        let (own, other) = (&self.evaluation, &other.evaluation);
        Arc::ptr_eq(&own.expression, &other.expression) && own.is_negated == other.is_negated
    }

    /// The columns that it needs.
    pub fn columns(&self) -> &[ReadColumn] {
        &self.evaluation.columns.columns
    }

    /// Keeps the rows that pass.
    pub fn apply(&self, blocks: &mut Blocks, rows: &mut Rows, work: &mut Work) -> Result<()> {
        if rows.alive.is_empty() {
            return Ok(());
        }
        blocks.open(self.columns().iter(), std::slice::from_ref(rows), &[], |_, _| true)?;
        let mut left = rows.clone();
        for vector in self.ask_distinct(blocks, rows, work)? {
            left.alive.clear(vector);
        }
        if left.alive.is_empty() {
            return Ok(());
        }
        let Evaluation { columns, schema, .. } = &*self.evaluation;
        let batch = blocks.batch(columns, schema, std::slice::from_mut(&mut left))?;
        work.evaluated_rows += batch.num_rows() as u64;
        let passes = self.evaluation.evaluate(&batch)?;
        let mut passed = left.alive.clone();
        passed.keep(passes.bits());
        left.alive.subtract(&passed);
        rows.alive.subtract(&left.alive);
        Ok(())
    }

    /// Keeps the rows that pass of blocks whose distinct values are few, and says which vectors these are.
    fn ask_distinct(&self, blocks: &Blocks, rows: &mut Rows, work: &mut Work) -> Result<Vec<usize>> {
        let mut answered = Vec::new();
        let (Some((distinct, filter)), Some((column, parents))) = (&self.distinct, self.columns().split_last()) else {
            return Ok(answered);
        };
        for parent in parents {
            // Rows of structs that are null have no value of their own.
            if !blocks.has_none(parent, rows)? {
                return Ok(answered);
            }
        }
        let rows_left = rows.group.rows - rows.vectors.first_row;
        blocks.visit(
            column,
            rows,
            |_| Verdict::Some,
            |part, block, selection| {
                let count = filter.ask_count(block);
                if distinct.has_failed.load(Relaxed) || !pays(count, part, selection.count(), rows_left) {
                    return Ok(());
                }
                let mut passed = selection.clone();
                match filter.apply(block, &mut passed, &mut work.filter) {
                    Ok(()) => {
                        *selection = passed;
                        answered.extend(part.vectors.clone());
                    }
                    Err(_) if distinct.has_failed.load(Relaxed) => {}
                    Err(error) => return Err(error),
                }
                Ok(())
            },
        )?;
        Ok(answered)
    }
}

/// Whether so many values are sooner asked about than `alive` rows of a part of a block. Values that are shared answer also for the rows
/// of the row group that are still to come, of which as large a share will be alive, for all that is known.
fn pays(count: AskCount, part: &BlockPart<'_>, alive: usize, rows_left: u64) -> bool {
    let part_rows = part.vectors.len() * VECTOR_ROWS;
    let alive_left = alive as f64 * (rows_left as f64 / part_rows as f64).max(1.0);
    count.own as f64 / alive as f64 + count.shared as f64 / alive_left <= MOST_VALUES_PER_ROW
}

impl Evaluation {
    /// The column that it needs, if it is one: a leaf, alone within its structs.
    fn column(&self) -> Option<&ReadColumn> {
        let (leaf, parents) = self.columns.columns.split_last()?;
        let is_struct = |column: &ReadColumn| column.record.children.is_some();
        (self.columns.trees.len() == 1 && !is_struct(leaf) && parents.iter().all(is_struct)).then_some(leaf)
    }

    /// Which rows of a batch pass.
    fn evaluate(&self, batch: &RecordBatch) -> Result<BitBuffer> {
        let found = self.expression.evaluate(batch)?;
        if found.len() != batch.num_rows() {
            let what = format!("{:?} gave {} values for {} rows", self.expression, found.len(), batch.num_rows());
            return Err(Error::InvalidArgument(what));
        }
        Ok(passing(&found, !self.is_negated))
    }

    /// Which of so many values of the leaf pass; the structs around it aren't null.
    fn evaluate_values(&self, leaf: Split, rows: usize) -> Result<BitBuffer> {
        let file = self.reader.name();
        let mut splits = Vec::with_capacity(self.columns.columns.len());
        for parent in &self.columns.columns[..self.columns.columns.len() - 1] {
            let mut validity = empty(parent)?;
            extend_not_null(&mut validity, rows);
            splits.push(split_of(parent, validity, file)?);
        }
        splits.push(leaf);
        let arrays = self.columns.assemble(splits, file)?;
        self.evaluate(&batch_of(&self.reader, &self.schema, arrays, rows)?)
    }
}

impl Distinct {
    /// Nothing if it can't be told of a null.
    fn new(evaluation: &Arc<Evaluation>, column: &ReadColumn) -> Result<Option<(Arc<Self>, Filter)>> {
        let nulls = match column.record.field.is_nullable() {
            false => Ok(false),
            true => {
                let null = Split::Leaf(new_null_array(&column.data_type, 1));
                evaluation.evaluate_values(null, 1).map(|passes| passes.bits().get(0))
            }
        };
        let Ok(nulls) = nulls else { return Ok(None) };
        let (evaluation, has_failed) = (evaluation.clone(), AtomicBool::new(false));
        let distinct = Arc::new(Self { evaluation, empty: empty(column)?, has_failed });
        let filter = Filter::asking(distinct.clone(), nulls, &column.physical);
        Ok(Some((distinct, filter)))
    }

    fn evaluate(&self, values: Decoded) -> Result<BitBuffer> {
        let rows = values.rows;
        match self.evaluation.column() {
            Some(column) => {
                let leaf = split_of(column, values, self.evaluation.reader.name())?;
                self.evaluation.evaluate_values(leaf, rows)
            }
            None => Err(Error::InvalidArgument("values of several columns".to_owned())),
        }
    }
}

impl Ask for Distinct {
    fn empty(&self) -> Decoded {
        self.empty.empty_like()
    }

    fn ask(&self, values: Decoded, out: &mut BitBuffer) -> entasis_encoding::Result<()> {
        let passes = self.evaluate(values).map_err(|error| {
            self.has_failed.store(true, Relaxed);
            entasis_encoding::Error::InvalidArgument(error.to_string())
        })?;
        out.extend_bits(passes.bits());
        Ok(())
    }
}

impl fmt::Debug for Distinct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.evaluation.fmt(f)
    }
}

impl fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", if self.is_negated { "NOT " } else { "" }, self.expression)
    }
}

impl fmt::Debug for PreparedExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.evaluation.fmt(f)
    }
}
