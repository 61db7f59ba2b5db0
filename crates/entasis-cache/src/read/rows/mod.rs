//! The rows of a file for which a condition holds.

mod ask;
mod hold;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use entasis::scan::Condition;
use entasis_encoding::Selection;

use super::condition::{Conjunct, Held, Prepared, Work, held_cell, invalid};
use super::decode::Fetched;
use super::file::ParquetFile;
use super::layout::{Column, leaf_type};
use super::pages::piece_rows;
use super::prune::{RowsLeft, Statistics};
use super::request::{ParquetRequest, ReadMetrics};
use super::stream::{Deferred, Output, Stream};
use crate::{CELL_ROWS, Cell, CellId, ColumnId, Result};

/// Output columns of a piece are decoded whole, into the cache, if at least one of so many rows survives, or if it is the second time that
/// they are wanted.
const WHOLE_SHARE: usize = 16;

/// What isn't in the cache is decoded so many bytes at a time, as Parquet has them before its compressor.
const WINDOW_BYTES: u64 = 64 << 20;

/// Rows of a file, batch by batch: those that pass of 65,536 rows each.
#[derive(Debug)]
pub struct ParquetRows {
    file: ParquetFile,
    schema: SchemaRef,
    columns: Vec<Column>,
    outputs: BTreeSet<usize>,
    conjuncts: Vec<Conjunct>,
    row_groups: VecDeque<usize>,
    /// All bytes of the object, if it was read whole.
    whole: Option<Bytes>,
    group: Option<Group>,
    ready: VecDeque<RecordBatch>,
    batch_rows: usize,
    left: Option<u64>,
    /// A future is on its way, or was dropped there.
    is_under_way: bool,
    work: Work,
    metrics: ReadMetrics,
}

/// The row group that is being read.
#[derive(Debug)]
struct Group {
    number: usize,
    rows: usize,
    /// The rows that may pass, as its pages' statistics tell; `None` before that is known of the conditions.
    rows_left: Option<RowsLeft>,
    /// The first piece that wasn't looked at.
    next: usize,
    /// Most pieces that are looked at together.
    window: usize,
    fetched: Fetched,
    /// Cells that are held for pieces whose rows aren't out yet.
    held: Held,
    /// Rows of which just the survivors were decoded, by leaf and piece.
    picked: BTreeMap<(usize, usize), ArrayRef>,
    /// Pieces whose rows aren't out yet, and which of them passed, or may.
    passed: VecDeque<(usize, Selection)>,
    /// What those are yet to be asked.
    deferred: Deferred,
    /// Pieces before those, whose rows are coming out.
    stream: Option<Stream>,
}

impl Group {
    fn pieces(&self) -> usize {
        self.rows.div_ceil(CELL_ROWS)
    }

    fn held_bytes(&self) -> usize {
        let picked = self.picked.values().map(|array| array.get_array_memory_size()).sum::<usize>();
        self.fetched.held_bytes() + picked + self.held.values().map(Cell::array_bytes).sum::<usize>()
    }
}

impl ParquetRows {
    pub(super) fn new(file: ParquetFile, request: &ParquetRequest) -> Result<Self> {
        if request.batch_rows == 0 {
            return Err(invalid("batches of 0 rows".to_owned()));
        }
        let inner = &file.0;
        let columns = inner.source.layout.columns(&request.projection)?;
        let fields: Vec<_> = columns.iter().map(|column| column.node.field.clone()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, file.schema().metadata().clone()));
        let count = inner.source.metadata.metadata().num_row_groups();
        let row_groups = request.row_groups.clone().unwrap_or_else(|| (0..count).collect());
        if let Some(row_group) = row_groups.iter().find(|&&row_group| row_group >= count) {
            return Err(invalid(format!("row group {row_group} of {count}")));
        }
        let whole = inner.cache.footers().take_whole(file.version());
        let mut rows = Self {
            schema,
            outputs: columns.iter().flat_map(|column| column.leaves.iter().copied()).collect(),
            columns,
            conjuncts: Vec::new(),
            row_groups: row_groups.into(),
            whole,
            group: None,
            ready: VecDeque::new(),
            batch_rows: request.batch_rows,
            left: request.limit,
            is_under_way: false,
            work: Work::default(),
            metrics: ReadMetrics::default(),
            file,
        };
        rows.set_condition(&request.condition)?;
        Ok(rows)
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What was done so far.
    pub fn metrics(&self) -> ReadMetrics {
        ReadMetrics {
            values_decoded: self.work.filter.decoded_values,
            values_compared: self.work.filter.compared_values,
            values_asked: self.work.filter.asked_values,
            rows_evaluated: self.work.evaluated_rows,
            asking_ns: self.work.asking_ns,
            bytes_read: self.metrics.bytes_read + self.group.as_ref().map_or(0, |group| group.fetched.bytes_read),
            ..self.metrics
        }
    }

    /// Bytes that are held for rows that aren't out yet: arrays, which the cache may hold as well, and what was fetched of the row group.
    pub fn held_bytes(&self) -> usize {
        self.group.as_ref().map_or(0, Group::held_bytes)
    }

    /// Asks the rows that haven't been looked at yet for another condition: one that has become stricter, as those of joins and of
    /// `ORDER BY … LIMIT` do while a query runs.
    ///
    /// # Errors
    /// As those of [`ParquetFile::read`]; the condition stays what it was.
    pub fn set_condition(&mut self, condition: &Condition) -> Result<()> {
        let inner = &self.file.0;
        let conjuncts = Conjunct::all_of(Prepared::new(&inner.source.layout, condition, false)?);
        let mut before = std::mem::replace(&mut self.conjuncts, conjuncts);
        self.conjuncts.iter_mut().for_each(|conjunct| conjunct.learn(&mut before));
        if let Some(group) = &mut self.group {
            group.stream.iter_mut().for_each(Stream::set_stricter);
            if !group.deferred.is_empty() {
                group.deferred = Deferred::All;
            }
            group.rows_left = None;
        }
        Ok(())
    }

    /// The next rows; `None` after the last. Dropping the future, or this, gives up what it was to decode for others, and ends the read.
    ///
    /// # Errors
    /// [`Error::Changed`](crate::Error::Changed) if the object isn't the version any more that was opened; what the store or arrow-rs
    /// say. Nothing more comes then. An invalid argument if the future before this one was dropped before it was ready.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if std::mem::replace(&mut self.is_under_way, true) {
            return Err(invalid("a read that was given up".to_owned()));
        }
        let next = self.advance().await;
        self.is_under_way = false;
        if next.is_err() {
            (self.group, self.left) = (None, Some(0));
        }
        next
    }

    /// The next rows, if nothing has to be waited for: as [`Self::next`], but that `None` says nothing of whether there are more.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn next_held(&mut self) -> Result<Option<RecordBatch>> {
        let next = self.take_held();
        if next.is_err() {
            (self.group, self.left) = (None, Some(0));
        }
        next
    }

    fn take_held(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            let Some(mut group) = self.group.take() else { return Ok(None) };
            let is_made = self.make_more(&mut group);
            self.group = Some(group);
            if !is_made? {
                return Ok(None);
            }
        }
    }

    /// Makes batches of the next rows that are held; false if there are none.
    fn make_more(&mut self, group: &mut Group) -> Result<bool> {
        if group.stream.as_ref().is_some_and(|stream| self.is_misjudged(stream)) {
            return Ok(false);
        }
        if let Some(mut stream) = group.stream.take() {
            let is_left = self.decoding(|rows| rows.step(&mut stream, &mut group.held))?;
            group.stream = is_left.then_some(stream);
        } else if let Some(stream) = self.stream_of(group)? {
            group.stream = Some(stream);
        } else if let Some((piece, selection)) = group.passed.pop_front() {
            self.decoding(|rows| rows.put_out(group, piece, selection))?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    async fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.take_held()? {
                return Ok(Some(batch));
            }
            // Taken, so that what is held goes if this future is dropped.
            let mut group = match self.group.take() {
                Some(group) => group,
                None if self.left == Some(0) => return Ok(None),
                None => match self.next_row_group() {
                    Some(number) => {
                        self.file = self.file.with_page_index().await?;
                        self.begin(number)?
                    }
                    None => return Ok(None),
                },
            };
            if group.stream.is_some() {
                self.ask_deferred(&mut group).await?;
            } else if group.next < group.pieces() && self.left != Some(0) {
                self.look_through(&mut group).await?;
            } else {
                self.metrics.bytes_read += group.fetched.bytes_read;
                continue;
            }
            self.group = Some(group);
        }
    }

    /// The next row group of which rows may pass, as far as the conditions are known by now.
    fn next_row_group(&mut self) -> Option<usize> {
        while let Some(number) = self.row_groups.pop_front() {
            let statistics = self.statistics(number);
            if self.conjuncts.iter().all(|conjunct| conjunct.prepared().may_pass(statistics)) {
                return Some(number);
            }
            let rows = statistics.rows();
            self.metrics.row_groups_pruned += 1;
            self.metrics.rows_pruned += rows.unwrap_or(0) as u64;
        }
        None
    }

    fn begin(&mut self, number: usize) -> Result<Group> {
        let rows = self.file.0.source.rows_of(number)?;
        self.metrics.row_groups_read += 1;
        let mut leaves = self.outputs.clone();
        self.conjuncts.iter().for_each(|conjunct| leaves.extend(conjunct.leaves()));
        let group = self.file.metadata().row_group(number);
        let parquet = self.file.0.source.layout.wanted(&leaves).parquet;
        let size_of = |&leaf: &usize| u64::try_from(group.column(leaf).uncompressed_size()).unwrap_or(0);
        // Arrays have at least a few bytes for each row, however well Parquet packs them.
        let bytes: u64 =
            parquet.iter().map(|leaf| size_of(leaf).max((rows as u64).saturating_mul(8))).fold(0, u64::saturating_add);
        let pieces = rows.div_ceil(CELL_ROWS);
        // Whoever wants but a few rows begins with little.
        let window = match self.left {
            Some(_) => 1,
            None => usize::try_from(WINDOW_BYTES.saturating_mul(pieces as u64) / bytes.max(1)).unwrap_or(pieces).max(1),
        };
        let fetched = Fetched::new(self.whole.clone());
        let (held, picked, passed) = (Held::new(), BTreeMap::new(), VecDeque::new());
        let (deferred, stream) = (Deferred::Some(Vec::new()), None);
        Ok(Group { number, rows, rows_left: None, next: 0, window, fetched, held, picked, passed, deferred, stream })
    }

    /// Finds the rows that pass of the next pieces, and holds what they need to come out: of one piece if all of it is in the cache, else of
    /// as many as are decoded together.
    async fn look_through(&mut self, group: &mut Group) -> Result<()> {
        let first = group.next;
        let mut needed = self.conjuncts.iter().flat_map(|conjunct| conjunct.leaves()).chain(&self.outputs);
        let is_warm = needed.all(|&leaf| self.file.0.cache.answers(&self.id(group.number, leaf, first)));
        let count = if is_warm { 1 } else { group.window.min(group.pieces() - first) };
        if self.left.is_some() && !is_warm {
            group.window *= 2;
        }
        group.next = first + count;
        group.held.clear();
        group.picked.clear();
        let left = group.rows_left.get_or_insert_with(|| self.rows_left(group.number));
        let mut selections: BTreeMap<usize, Selection> =
            (first..first + count).map(|piece| (piece, left.of(piece_rows(group.rows, piece)))).collect();
        for selection in selections.values() {
            self.metrics.rows += selection.count() as u64;
            self.metrics.rows_pruned += (selection.rows() - selection.count()) as u64;
        }
        self.ask(group, &mut selections).await?;
        if let Some(left) = &mut self.left {
            for selection in selections.values_mut() {
                selection.truncate(usize::try_from(*left).unwrap_or(usize::MAX).min(selection.count()));
                *left -= selection.count() as u64;
            }
        }
        self.hold_survivors(group, selections).await
    }

    /// Holds what the output needs of the rows that passed, or may, and nothing else.
    async fn hold_survivors(&mut self, group: &mut Group, mut selections: BTreeMap<usize, Selection>) -> Result<()> {
        selections.retain(|_, selection| !selection.is_empty());
        let deferred = self.deferred_leaves(group);
        let is_needed = |leaf: &usize| self.outputs.contains(leaf) || deferred.contains(leaf);
        group.held.retain(|(leaf, piece), _| is_needed(leaf) && selections.contains_key(piece));
        self.hold_output(group, &selections).await?;
        group.passed.extend(selections);
        Ok(())
    }

    /// The leaves of which pages are asked as rows come out.
    fn deferred_leaves(&self, group: &Group) -> BTreeSet<usize> {
        match &group.deferred {
            Deferred::Some(numbers) => {
                numbers.iter().flat_map(|&number| self.conjuncts[number].leaves()).copied().collect()
            }
            Deferred::All => BTreeSet::new(),
        }
    }

    /// The next pieces as a stream, if it is by pages that they are held and many of their rows come out, or may.
    fn stream_of(&self, group: &mut Group) -> Result<Option<Stream>> {
        let pages_of = |group: &Group| {
            let &(piece, ref selection) = group.passed.front()?;
            let asked = group.deferred.of(&self.conjuncts, &group.held, piece);
            let asked = asked.iter().flat_map(|&number| self.conjuncts[number].leaves());
            let is_pages = |leaf: &usize| {
                let is_held = group.held.get(&(*leaf, piece)).is_some_and(|cell| cell.pages().is_some());
                is_held && !group.picked.contains_key(&(*leaf, piece))
            };
            let leaves: BTreeSet<usize> = self.outputs.iter().chain(asked).copied().filter(is_pages).collect();
            let streams = !leaves.is_empty() && (is_dense(selection) || !group.deferred.is_empty());
            streams.then_some(leaves)
        };
        let Some(leaves) = pages_of(group) else { return Ok(None) };
        let mut pieces = VecDeque::new();
        while pages_of(group).as_ref() == Some(&leaves) {
            pieces.extend(group.passed.pop_front());
        }
        let (source, deferred) = (&self.file.0.source, group.deferred.clone());
        let output = (&self.schema, self.batch_rows);
        Stream::new(source, &group.held, leaves, pieces, group.rows, deferred, output).map(Some)
    }

    /// Counts the time that something takes, but for what asking conditions takes in it, as that of decoding.
    fn decoding<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let (start, asked_ns) = (Instant::now(), self.work.asking_ns);
        let done = work(self);
        let elapsed_ns = start.elapsed().as_nanos() as u64;
        self.metrics.decoding_ns += elapsed_ns.saturating_sub(self.work.asking_ns - asked_ns);
        done
    }

    /// Decodes the next rows of a stream. False after its last.
    fn step(&mut self, stream: &mut Stream, held: &mut Held) -> Result<bool> {
        let _inside = self.file.0.cache.enter();
        let mut made = VecDeque::new();
        let mut output = Output {
            schema: &self.schema,
            columns: &self.columns,
            conjuncts: &mut self.conjuncts,
            work: &mut self.work,
            rows_fallen: &mut self.metrics.rows_fallen_decoded,
            rows_passed: &mut self.metrics.rows_passed,
        };
        let is_left = stream.step(held, &mut output, &mut made)?;
        made.iter().for_each(|batch| self.make_ready(batch));
        Ok(is_left)
    }

    fn make_ready(&mut self, batch: &RecordBatch) {
        for first in (0..batch.num_rows()).step_by(self.batch_rows) {
            self.ready.push_back(batch.slice(first, self.batch_rows.min(batch.num_rows() - first)));
        }
    }

    /// Makes batches of the rows of a piece that passed, and lets go of what was held for it.
    fn put_out(&mut self, group: &mut Group, piece: usize, mut selection: Selection) -> Result<()> {
        let _inside = self.file.0.cache.enter();
        for number in group.deferred.of(&self.conjuncts, &group.held, piece) {
            let before = selection.count();
            self.conjuncts[number].apply(&group.held, piece, &mut selection, &mut self.work)?;
            self.metrics.rows_fallen_decoded += (before - selection.count()) as u64;
        }
        let selection = &selection;
        self.metrics.rows_passed += selection.count() as u64;
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let leaves = column.leaves.iter().zip(column.node.columns()).map(|(&leaf, node)| {
                match group.picked.get(&(leaf, piece)) {
                    Some(array) => Ok(array.clone()),
                    None => held_cell(&group.held, leaf, piece)?.select_as(selection, leaf_type(node)),
                }
            });
            let leaves = leaves.collect::<Result<_>>()?;
            arrays.push(column.assemble(leaves)?);
        }
        group.held.retain(|&(_, held), _| held != piece);
        group.picked.retain(|&(_, picked), _| picked != piece);
        let options = RecordBatchOptions::new().with_row_count(Some(selection.count()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options);
        self.make_ready(&batch.map_err(entasis::Error::from)?);
        Ok(())
    }

    /// The rows of a row group that may pass, as far as the conditions are known by now.
    fn rows_left(&self, row_group: usize) -> RowsLeft {
        let statistics = self.statistics(row_group);
        let each = self.conjuncts.iter().filter_map(|conjunct| conjunct.prepared().rows_left(statistics));
        RowsLeft::new(each.reduce(|left, right| left.intersection(&right)))
    }

    /// What Parquet says of a row group.
    fn statistics(&self, row_group: usize) -> Statistics<'_> {
        Statistics { metadata: self.file.metadata(), schema: self.file.schema(), row_group }
    }

    fn id(&self, row_group: usize, leaf: usize, piece: usize) -> CellId {
        CellId { column: ColumnId { version: self.file.version().clone(), leaf }, row_group, piece }
    }
}

/// Whether so many rows of a piece survive that it is decoded whole.
fn is_dense(selection: &Selection) -> bool {
    selection.count() * WHOLE_SHARE >= selection.rows()
}
