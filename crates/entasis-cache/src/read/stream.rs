//! Rows that come out as they are decoded: some thousands at a time, which stay in the processor's cache and in memory that was had before.
//! What the cache holds of them are their pages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::coalesce::BatchCoalescer;
use entasis_encoding::{Selection, VECTOR_ROWS};

use super::condition::{Conjunct, Held, Work, held_cell};
use super::layout::{Column, leaf_type};
use super::pages::{Decoding, Pages, Source, piece_rows};
use crate::values::{Values, kept_rows, taken};
use crate::{Cell, Error, Result, State};

/// Rows that are decoded at a time: vectors, of which a piece has a whole number.
const STREAM_ROWS: usize = 8 * VECTOR_ROWS;

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
    decoding: Decoding,
    leaves: BTreeSet<usize>,
    /// What is yet to be decoded.
    chunks: VecDeque<Chunk>,
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
        let places = leaves.iter().flat_map(|&leaf| pieces.iter().map(move |&(piece, _)| (leaf, piece)));
        let pages: Vec<Arc<Pages>> =
            places.filter_map(|place| held.get(&place).and_then(Cell::pages).cloned()).collect();
        let chunks: VecDeque<Chunk> =
            pieces.into_iter().flat_map(|(piece, selection)| Chunk::all_of(piece, selection)).collect();
        let ranges = chunks.iter().map(|chunk| {
            let start = piece_rows(rows, chunk.piece).start + chunk.start;
            start..start + chunk.rows
        });
        let decoding = Decoding::new(source, pages, ranges, STREAM_ROWS)?;
        // What is about as large as is wanted isn't copied.
        let large = Some(batch_rows.min(STREAM_ROWS) / 2);
        let coalescer = BatchCoalescer::new(schema.clone(), batch_rows).with_biggest_coalesce_batch_size(large);
        Ok(Self { decoding, leaves, chunks, coalescer, deferred })
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
        let mut left = BTreeMap::new();
        for mut chunk in self.chunks {
            let vectors = chunk.vectors();
            let selection = left.entry(chunk.piece).or_insert_with(|| Selection::none(chunk.piece_rows));
            selection.swap(vectors, &mut chunk.alive, 0);
        }
        self.coalescer.finish_buffered_batch().map_err(entasis::Error::from)?;
        Ok((left, self.coalescer.next_completed_batch()))
    }

    /// Decodes the next rows, and adds what is ready of those that pass to `out`. False after the last.
    pub fn step(&mut self, held: &mut Held, output: &mut Output<'_>, out: &mut VecDeque<RecordBatch>) -> Result<bool> {
        let Some(arrays) = self.decoding.next()? else {
            if !self.chunks.is_empty() {
                return Err(self.other_rows());
            }
            self.coalescer.finish_buffered_batch().map_err(entasis::Error::from)?;
            out.extend(self.coalescer.next_completed_batch());
            return Ok(false);
        };
        let Some(chunk) = self.chunks.pop_front() else { return Err(self.other_rows()) };
        if arrays.iter().any(|(_, array)| array.len() != chunk.rows) {
            return Err(self.other_rows());
        }
        let place = |leaf: usize| (leaf, chunk.piece);
        let arrays = arrays.into_iter().filter(|(leaf, _)| self.leaves.contains(leaf));
        let cells = arrays.map(|(leaf, array)| (place(leaf), Cell::new(Values::Arrow(array)))).collect();
        let mut batch = Batch { held: cells, alive: chunk.alive.clone(), chunk };
        self.ask(&mut batch, held, output)?;
        if !batch.alive.is_empty() {
            *output.rows_passed += batch.alive.count() as u64;
            self.put_out(&batch, held, output, out)?;
        }
        if self.chunks.front().is_none_or(|next| next.piece != batch.chunk.piece) {
            held.retain(|&(_, of), _| of != batch.chunk.piece);
        }
        Ok(true)
    }

    /// Asks the rows of a batch for what was deferred.
    fn ask(&self, batch: &mut Batch, held: &Held, output: &mut Output<'_>) -> Result<()> {
        let before = batch.alive.count();
        for number in self.deferred.of(output.conjuncts, held, batch.chunk.piece) {
            let conjunct = &mut output.conjuncts[number];
            for &leaf in conjunct.leaves() {
                batch.add(leaf, held)?;
            }
            conjunct.apply(&batch.held, batch.chunk.piece, &mut batch.alive, output.work)?;
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
        let (chunk, alive) = (&batch.chunk, &batch.alive);
        let mut in_piece = Selection::none(chunk.piece_rows);
        in_piece.swap(chunk.vectors(), &mut alive.clone(), 0);
        let arrays = output.columns.iter().map(|column| {
            let leaves = column.leaves.iter().zip(column.node.columns()).map(|(&leaf, node)| {
                match batch.held.get(&(leaf, chunk.piece)) {
                    Some(cell) => kept_rows(&cell.decode()?, alive),
                    None => held_cell(held, leaf, chunk.piece)?.select_as(&in_piece, leaf_type(node)),
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

    fn other_rows(&self) -> Error {
        self.decoding.damaged("a row group of other rows than its metadata say")
    }
}

/// Rows that are decoded together.
#[derive(Debug)]
struct Chunk {
    piece: usize,
    piece_rows: usize,
    /// Where they begin in their piece.
    start: usize,
    rows: usize,
    /// Those that pass, or may.
    alive: Selection,
}

impl Chunk {
    /// Those of a piece of which some may pass.
    fn all_of(piece: usize, mut selection: Selection) -> impl Iterator<Item = Chunk> {
        let piece_rows = selection.rows();
        (0..piece_rows).step_by(STREAM_ROWS).filter_map(move |start| {
            let rows = STREAM_ROWS.min(piece_rows - start);
            let alive = taken(&mut selection, vectors(start, rows), rows);
            (!alive.is_empty()).then_some(Chunk { piece, piece_rows, start, rows, alive })
        })
    }

    fn vectors(&self) -> Range<usize> {
        vectors(self.start, self.rows)
    }
}

/// The vectors of a piece that have some rows.
fn vectors(start: usize, rows: usize) -> Range<usize> {
    start / VECTOR_ROWS..(start + rows).div_ceil(VECTOR_ROWS)
}

/// Rows that were decoded together.
struct Batch {
    chunk: Chunk,
    /// Their leaves, as cells of just these rows.
    held: Held,
    /// Those that passed so far.
    alive: Selection,
}

impl Batch {
    /// Adds a leaf that isn't decoded with the others, because all of the piece was before.
    fn add(&mut self, leaf: usize, held: &Held) -> Result<()> {
        let place = (leaf, self.chunk.piece);
        if !self.held.contains_key(&place) {
            let array = held_cell(held, leaf, self.chunk.piece)?.decode()?.slice(self.chunk.start, self.chunk.rows);
            self.held.insert(place, Cell::new(Values::Arrow(array)));
        }
        Ok(())
    }
}
