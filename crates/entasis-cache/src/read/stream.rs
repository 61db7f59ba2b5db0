//! Rows that come out as they are decoded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::coalesce::BatchCoalescer;
use entasis_encoding::Selection;

use super::chunks::{Batch, CHUNK_ROWS, Chunks};
use super::condition::{Conjunct, Held, Work, held_cell};
use super::layout::{Column, leaf_type};
use super::pages::Source;
use crate::values::kept_rows;
use crate::{Result, State};

/// Conditions that are asked as rows are decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deferred {
    /// These, by number.
    Some(Vec<usize>),
    /// There are others since, stricter ones: all that can be.
    All,
}

impl Deferred {
    pub fn is_empty(&self) -> bool {
        matches!(self, Deferred::Some(numbers) if numbers.is_empty())
    }

    /// Which of the conditions those are, for a piece whose cells are held.
    pub fn of(&self, conjuncts: &[Conjunct], held: &Held, piece: usize) -> Vec<usize> {
        let can_be_asked = |leaf: &usize| held.get(&(*leaf, piece)).is_some_and(|cell| cell.state() != State::Encoded);
        match self {
            Deferred::Some(numbers) => numbers.clone(),
            Deferred::All => {
                let numbers = 0..conjuncts.len();
                let asked = numbers.filter(|&number| conjuncts[number].leaves().iter().all(can_be_asked));
                let (expressions, others): (Vec<usize>, Vec<usize>) =
                    asked.partition(|&number| conjuncts[number].is_expression());
                [others, expressions].concat()
            }
        }
    }
}

/// Pieces of a row group whose rows come out as they are decoded.
#[derive(Debug)]
pub(super) struct Stream {
    chunks: Chunks,
    /// Few rows of many batches become one batch.
    coalescer: BatchCoalescer,
    deferred: Deferred,
}

/// What a stream yields batches of.
pub(super) struct Output<'a> {
    pub schema: &'a SchemaRef,
    pub columns: &'a [Column],
    pub conjuncts: &'a mut [Conjunct],
    pub work: &'a mut Work,
    pub rows_fallen: &'a mut u64,
    pub rows_passed: &'a mut u64,
}

impl Stream {
    /// Of pieces whose cells of `leaves` are held as pages. `rows` are those of the row group.
    pub fn new(
        source: &Arc<Source>,
        held: &Held,
        leaves: BTreeSet<usize>,
        pieces: VecDeque<(usize, Selection)>,
        rows: usize,
        deferred: Deferred,
        (schema, batch_rows): (&SchemaRef, usize),
    ) -> Result<Self> {
        let chunks = Chunks::new(source, held, leaves, pieces, rows)?;
        // What is about as large as is wanted isn't copied.
        let large = Some(batch_rows.min(CHUNK_ROWS) / 2);
        let coalescer = BatchCoalescer::new(schema.clone(), batch_rows).with_biggest_coalesce_batch_size(large);
        Ok(Self { chunks, coalescer, deferred })
    }

    /// Conditions have become stricter.
    pub fn set_stricter(&mut self) {
        if !self.deferred.is_empty() {
            self.deferred = Deferred::All;
        }
    }

    /// What is asked as rows come out, if there are any yet to come.
    pub fn deferred(&self) -> Option<&Deferred> {
        (!self.chunks.is_empty()).then_some(&self.deferred)
    }

    /// Ends it: the rows that are yet to come, piece by piece, and those that came and aren't out.
    pub fn end(mut self) -> Result<(BTreeMap<usize, Selection>, Option<RecordBatch>)> {
        let left = self.chunks.left();
        self.coalescer.finish_buffered_batch().map_err(entasis::Error::from)?;
        Ok((left, self.coalescer.next_completed_batch()))
    }

    /// Decodes the next rows, and adds what is ready of those that pass to `out`. False after the last.
    pub fn step(&mut self, held: &mut Held, output: &mut Output<'_>, out: &mut VecDeque<RecordBatch>) -> Result<bool> {
        let Some(mut batch) = self.chunks.next()? else {
            self.coalescer.finish_buffered_batch().map_err(entasis::Error::from)?;
            out.extend(self.coalescer.next_completed_batch());
            return Ok(false);
        };
        self.ask(&mut batch, held, output)?;
        if !batch.alive.is_empty() {
            *output.rows_passed += batch.alive.count() as u64;
            self.put_out(&batch, held, output, out)?;
        }
        if self.chunks.next_piece() != Some(batch.piece()) {
            held.retain(|&(_, of), _| of != batch.piece());
        }
        Ok(true)
    }

    /// Asks the rows of a batch for what was deferred.
    fn ask(&self, batch: &mut Batch, held: &Held, output: &mut Output<'_>) -> Result<()> {
        let before = batch.alive.count();
        for number in self.deferred.of(output.conjuncts, held, batch.piece()) {
            batch.ask(&mut output.conjuncts[number], held, output.work)?;
        }
        *output.rows_fallen += (before - batch.alive.count()) as u64;
        Ok(())
    }

    /// Makes a batch of the rows that are alive of those that were decoded.
    fn put_out(
        &mut self,
        batch: &Batch,
        held: &Held,
        output: &Output<'_>,
        out: &mut VecDeque<RecordBatch>,
    ) -> Result<()> {
        let (piece, alive) = (batch.piece(), &batch.alive);
        let in_piece = batch.alive_in_piece();
        let arrays = output.columns.iter().map(|column| {
            let leaves = column.leaves.iter().zip(column.node.columns()).map(|(&leaf, node)| {
                match batch.held.get(&(leaf, piece)) {
                    Some(cell) => kept_rows(&cell.decode()?, alive),
                    None => held_cell(held, leaf, piece)?.select_as(&in_piece, leaf_type(node)),
                }
            });
            column.assemble(leaves.collect::<Result<_>>()?)
        });
        let options = RecordBatchOptions::new().with_row_count(Some(alive.count()));
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        let made = RecordBatch::try_new_with_options(output.schema.clone(), arrays, &options);
        let made = made.map_err(entasis::Error::from)?;
        if output.columns.is_empty() {
            out.push_back(made);
            return Ok(());
        }
        self.coalescer.push_batch(made).map_err(entasis::Error::from)?;
        out.extend(std::iter::from_fn(|| self.coalescer.next_completed_batch()));
        Ok(())
    }
}
