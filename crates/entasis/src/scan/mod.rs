//! The scan: the rows for which a condition holds, found with as little work as can be. Five rungs, each for what fell on none before:
//!
//! 1. **manifest**: whole files, for whoever scans many; here whole row groups, by the zones of their blocks;
//! 2. **zones**: blocks; and where these have Bloom filters, by what those tell of equality;
//! 3. **encoded values**: the conditions that must all hold, one after the other, each on the survivors of the one before, the cheapest
//!    and most selective first, as measured while the scan goes along; expressions on one column, too, where distinct values answer them;
//! 4. **decoded values**: expressions that no encoding can answer, on survivors;
//! 5. **residual**: what the scan isn't told, left to the engine.
//!
//! What only the output needs is read and decoded last, and only for vectors with survivors.

mod aggregate;
mod blocks;
mod blooms;
mod condition;
mod conjuncts;
mod expression;
mod literal;
mod metrics;
mod prepared;
mod zones;

use std::{collections::VecDeque, ops::Range, sync::Arc};

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use entasis_encoding::{AggregateWork, BLOCK_ROWS, Selection, VECTOR_ROWS, VectorSelection};

pub(crate) use self::prepared::is_union;
use self::{
    blocks::{Blocks, Rows, batch_of},
    blooms::Answers,
    conjuncts::{Conjunct, Work},
    metrics::CountedSource,
    prepared::{Group, Known, Prepared, VectorRange},
};
pub use self::{
    condition::{Condition, Expression},
    conjuncts::believed,
    expression::MOST_VALUES_PER_ROW,
    literal::scalar_of,
    metrics::{ConditionMetrics, ScanMetrics},
    prepared::negated,
    zones::{Bounds, Verdict, verdict},
};
use crate::{
    Projection, Reader, Strings,
    arrow::most_rows,
    error::{Error, Result},
    read::column::{ReadColumn, ReadColumns},
    source::{STORE_REQUEST_BYTES, Source},
};

/// Fewer survivors than these per 65,536 rows are got row by row, from those runs of the blocks that hold them.
const SPARSE_ROWS: usize = 64;

/// So many times 65,536 rows are looked through before what was found in them is put out, however little that is.
const MOST_PENDING: usize = 32;

/// So many bytes are read ahead of a store that takes its time.
const READ_AHEAD_BYTES: u64 = 16 * 1024 * 1024;

/// What is scanned for. [`Default`] is every row and column of the file.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// Columns that come out.
    pub projection: Projection,
    /// Which rows pass.
    pub condition: Condition,
    /// Rows of the file, as far as it has them: all.
    pub rows: Option<Range<u64>>,
    /// Most rows that come out.
    pub limit: Option<u64>,
    /// Most rows of a batch: 65,536.
    pub batch_rows: usize,
    /// How byte strings come out.
    pub strings: Strings,
}

impl Default for ScanRequest {
    fn default() -> Self {
        Self {
            projection: Projection::all(),
            condition: Condition::Always(true),
            rows: None,
            limit: None,
            batch_rows: BLOCK_ROWS,
            strings: Strings::AsStored,
        }
    }
}

impl Reader {
    /// The rows for which a condition holds, in the file's order.
    ///
    /// # Errors
    /// An invalid argument if the request names columns that aren't there, or a predicate that its column can't be asked; corrupt if the
    /// metadata are. The scan itself ends with the first error.
    pub fn scan(&self, request: ScanRequest) -> Result<Scan> {
        self.scan_from(self.inner.source.clone(), request)
    }

    /// As [`Self::scan`], with blocks from another source of the same file.
    pub(crate) fn scan_from(&self, source: Arc<dyn Source>, request: ScanRequest) -> Result<Scan> {
        Scan::new(self, source, request)
    }
}

/// A scan that is under way: an iterator over batches. It ends behind the first error, but for [`Error::Missing`], after which the same
/// batch can be asked for again.
pub struct Scan {
    blocks: Blocks,
    source: Arc<CountedSource>,
    columns: ReadColumns,
    schema: SchemaRef,
    projection: Projection,
    strings: Strings,
    batch_rows: usize,
    most_rows: usize,
    conjuncts: Vec<Conjunct>,
    /// Row groups that are left, with the rows asked of each; the next comes last.
    groups: Vec<(Group, Range<u64>)>,
    /// How many of these, from the first on, Bloom filters haven't been asked about.
    unasked_groups: usize,
    /// What Bloom filters answered.
    answers: Answers,
    /// The rows that are looked through now, and how many of the conditions they have passed.
    current: Option<(Rows, usize)>,
    /// True if a row of the row group at hand was left by zones and Bloom filters.
    has_rows: bool,
    /// Rows that have passed, of one row group, not put out yet.
    found: Vec<Rows>,
    found_count: usize,
    /// Batches that are ready.
    ready: VecDeque<RecordBatch>,
    left: u64,
    work: Work,
    aggregates: AggregateWork,
    metrics: ScanMetrics,
}

impl Scan {
    fn new(reader: &Reader, source: Arc<dyn Source>, request: ScanRequest) -> Result<Self> {
        if request.batch_rows == 0 {
            return Err(Error::InvalidArgument("batches of 0 rows".to_owned()));
        }
        let columns = ReadColumns::new(reader, request.projection.selected(), request.strings)?;
        let fields: Vec<_> = columns.trees.iter().map(|tree| tree.field.clone()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, reader.schema_metadata()?.clone()));
        let most_rows = schema.fields().iter().map(|field| most_rows(field.data_type())).min().unwrap_or(usize::MAX);
        let wanted = request.rows.unwrap_or(0..u64::MAX);
        let mut groups = groups_of(reader.row_group_rows()?, &wanted);
        groups.reverse();
        let source = CountedSource::new(source);
        let mut scan = Self {
            blocks: Blocks::new(reader.clone(), source.clone()),
            source,
            columns,
            schema,
            projection: request.projection,
            strings: request.strings,
            batch_rows: request.batch_rows,
            most_rows,
            conjuncts: Vec::new(),
            unasked_groups: groups.len(),
            answers: Answers::new(),
            groups,
            current: None,
            has_rows: false,
            found: Vec::new(),
            found_count: 0,
            ready: VecDeque::new(),
            left: request.limit.unwrap_or(u64::MAX),
            work: Work::default(),
            aggregates: AggregateWork::default(),
            metrics: ScanMetrics::default(),
        };
        scan.set_condition(&request.condition)?;
        Ok(scan)
    }

    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What the scan did so far.
    pub fn metrics(&self) -> ScanMetrics {
        let (requests, bytes_read) = self.source.counts();
        ScanMetrics {
            requests,
            bytes_read,
            decoded_values: self.work.filter.decoded_values,
            compared_values: self.work.filter.compared_values,
            asked_values: self.work.filter.asked_values,
            evaluated_rows: self.work.evaluated_rows,
            aggregated_encoded: self.aggregates.reduced_values,
            aggregated_decoded: self.aggregates.decoded_values,
            conditions: self.conjuncts.iter().map(|conjunct| conjunct.metrics.clone()).collect(),
            ..self.metrics.clone()
        }
    }

    /// Asks the rows that haven't been looked at yet for another condition: one that has become stricter, as those of joins and of
    /// `ORDER BY … LIMIT` do while a query runs.
    ///
    /// # Errors
    /// As those of [`Reader::scan`]; the condition stays what it was.
    pub fn set_condition(&mut self, condition: &Condition) -> Result<()> {
        let mut conjuncts = Conjunct::all_of(Prepared::new(&self.blocks.reader, condition, self.strings, false)?);
        // What is known of conditions that stay is kept.
        for conjunct in &mut conjuncts {
            let same = self.conjuncts.iter_mut().find(|old| old.metrics.condition == conjunct.metrics.condition);
            if let Some(same) = same {
                conjunct.learn(same);
            }
        }
        self.conjuncts = conjuncts;
        self.unasked_groups = self.groups.len();
        // Rows that are half way through start again: those that passed before pass again, or should not any more.
        if let Some((_, passed)) = &mut self.current {
            *passed = 0;
        }
        Ok(())
    }

    /// Works on until batches are ready, or nothing is left.
    fn advance(&mut self) -> Result<()> {
        while self.ready.is_empty() && self.find()? {
            self.put_out()?;
        }
        Ok(())
    }

    /// Works on until so many rows were found that they should be put out, or nothing is left; false if none were found.
    fn find(&mut self) -> Result<bool> {
        while !self.is_full() {
            if self.current.is_none() {
                self.current = self.next_rows()?.map(|rows| (rows, 0));
                if self.current.is_none() {
                    return Ok(!self.found.is_empty());
                }
            }
            self.ask_blooms()?;
            self.ask()?;
            if let Some((rows, _)) = self.current.take() {
                self.keep(rows);
            }
        }
        Ok(true)
    }

    /// True if what was found should be put out before more is looked for.
    fn is_full(&self) -> bool {
        let is_other = |group: Group| self.found.first().is_some_and(|found| found.group != group);
        let next = self.groups.last().map(|(group, _)| *group);
        let wanted = if self.is_distant() { self.batch_rows.max(BLOCK_ROWS) } else { self.batch_rows };
        self.found_count >= wanted.min(self.most_rows)
            || self.found.len() >= MOST_PENDING
            || next.is_some_and(is_other)
            || (self.left == 0 && !self.found.is_empty())
    }

    /// The next rows that zones and Bloom filters leave, at most 65,536; `None` at the end.
    fn next_rows(&mut self) -> Result<Option<Rows>> {
        while self.left > 0 {
            self.ask_blooms()?;
            let Some((group, asked)) = self.groups.last_mut() else { return Ok(None) };
            let group = *group;
            if asked.is_empty() {
                self.groups.pop();
                self.leave_group();
                // What was found in this row group comes out first.
                if !self.found.is_empty() {
                    return Ok(None);
                }
                continue;
            }
            if asked.start == 0 || self.metrics.row_groups == 0 {
                self.metrics.row_groups += 1;
                self.has_rows = false;
            }
            let (rows, count) = cut(group, asked, self.most_rows);
            self.metrics.rows += count;
            let rows = self.fall_by_zones(rows)?;
            let left = rows.alive.count() as u64;
            self.metrics.rows_fallen_by_zones += count - left;
            let rows = self.fall_by(rows, Known::ZonesAndBlooms)?;
            self.metrics.rows_fallen_by_blooms += left - rows.alive.count() as u64;
            if !rows.alive.is_empty() {
                self.has_rows = true;
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    fn leave_group(&mut self) {
        self.metrics.row_groups_fallen += u64::from(!self.has_rows);
    }

    /// Lets rows fall by zones alone.
    fn fall_by_zones(&self, rows: Rows) -> Result<Rows> {
        self.fall_by(rows, Known::Zones)
    }

    /// Lets rows fall by what is known of blocks that aren't open.
    fn fall_by(&self, mut rows: Rows, known: Known) -> Result<Rows> {
        for conjunct in &self.conjuncts {
            let verdicts = conjunct.prepared.verdicts(&self.blocks.reader, known, &rows.group, &rows.vectors)?;
            for (vector, verdict) in verdicts.into_iter().enumerate() {
                if verdict == Verdict::None {
                    rows.alive.clear(vector);
                }
            }
        }
        Ok(rows)
    }

    /// Puts the conditions into order, closes what isn't needed any more, and opens what is, as far as that is known.
    fn begin(&mut self, rows: &Rows) -> Result<()> {
        self.conjuncts.sort_by(|left, right| {
            let ((left, cost), (right, other)) = (left.rank(), right.rank());
            left.cmp(&right).then(cost.total_cmp(&other))
        });
        let columns: Vec<_> = self.conjuncts.iter().flat_map(|conjunct| conjunct.prepared.columns()).collect();
        for column in &columns {
            let first = self.found.first().map_or(rows.vectors.first_row, |found| found.vectors.first_row);
            self.blocks.close_before(rows.group.number, column, first, rows.group.rows)?;
        }
        // A store takes longer to answer than to send a block more.
        if self.is_distant() {
            let ahead = self.ahead(rows, &columns)?;
            conjuncts::open(&self.conjuncts, &mut self.blocks, rows, &ahead)?;
        }
        Ok(())
    }

    /// Asks the current rows for every condition that they haven't passed yet.
    fn ask(&mut self) -> Result<()> {
        if let Some((rows, 0)) = &self.current {
            self.begin(&rows.clone())?;
        }
        let Some((rows, passed)) = &mut self.current else { return Ok(()) };
        for index in *passed..self.conjuncts.len() {
            if rows.alive.is_empty() {
                break;
            }
            conjuncts::open(&self.conjuncts[index..=index], &mut self.blocks, rows, &[])?;
            let conjunct = &mut self.conjuncts[index];
            let before = rows.alive.count() as u64;
            let mut asked = rows.clone();
            let decodes = conjunct.apply(&mut self.blocks, &mut asked, &mut self.work)?;
            *rows = asked;
            *passed += 1;
            let fallen = before - rows.alive.count() as u64;
            match decodes {
                true => self.metrics.rows_fallen_decoded += fallen,
                false => self.metrics.rows_fallen_encoded += fallen,
            }
        }
        Ok(())
    }

    /// True of a store somewhere else: each request takes its time, however little it asks for.
    fn is_distant(&self) -> bool {
        (STORE_REQUEST_BYTES..u64::MAX).contains(&self.source.request_bytes())
    }

    /// The rows behind these, of the same row group, as zones and Bloom filters leave them, as far as the blocks of columns have so many bytes as are
    /// read ahead.
    fn ahead(&self, rows: &Rows, columns: &[&ReadColumn]) -> Result<Vec<Rows>> {
        let Some((group, asked)) = self.groups.last().filter(|(group, _)| *group == rows.group) else {
            return Ok(Vec::new());
        };
        let mut asked = asked.clone();
        let (mut ahead, mut size_bytes) = (Vec::new(), 0);
        while !asked.is_empty() {
            let rows = self.fall_by(cut(*group, &mut asked, self.most_rows).0, Known::ZonesAndBlooms)?;
            size_bytes += self.blocks.size_bytes(columns.iter().copied(), &rows)?;
            if size_bytes > READ_AHEAD_BYTES {
                break;
            }
            ahead.push(rows);
        }
        Ok(ahead)
    }

    /// True if it is known that all of these rows pass.
    fn is_certain(&self, rows: &Rows) -> Result<bool> {
        for conjunct in &self.conjuncts {
            let known = Known::ZonesAndBlooms;
            let verdicts = conjunct.prepared.verdicts(&self.blocks.reader, known, &rows.group, &rows.vectors)?;
            let mut alive = verdicts.iter().zip(rows.alive.vectors());
            if alive.any(|(verdict, vector)| *verdict != Verdict::All && *vector != VectorSelection::None) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps rows that passed, as many as the limit leaves.
    fn keep(&mut self, mut rows: Rows) {
        let mut count = rows.alive.count();
        if count as u64 > self.left {
            count = self.left as usize;
            rows.alive.truncate(count);
        }
        self.left -= count as u64;
        self.metrics.rows_passed += count as u64;
        if count > 0 {
            self.found_count += count;
            self.found.push(rows);
        }
    }

    /// Makes batches of what was found.
    fn put_out(&mut self) -> Result<()> {
        let batch = self.batch()?;
        self.found.clear();
        self.found_count = 0;
        let mut first = 0;
        while first < batch.num_rows() {
            let rows = self.batch_rows.min(batch.num_rows() - first);
            self.ready.push_back(batch.slice(first, rows));
            first += rows;
        }
        Ok(())
    }

    /// True if the rows that were found are so few that they are got singly.
    fn is_sparse(&self) -> bool {
        self.found_count <= SPARSE_ROWS * self.found.len() && self.source.request_bytes() < u64::MAX
    }

    /// The rows that were found, got singly.
    fn take_found(&self) -> Result<RecordBatch> {
        let numbers: Vec<u64> = self.found.iter().flat_map(Rows::numbers).collect();
        self.blocks.reader.take_from(self.source.clone(), &numbers, &self.projection, self.strings)
    }

    fn batch(&mut self) -> Result<RecordBatch> {
        if self.columns.columns.is_empty() {
            return batch_of(&self.blocks.reader, &self.schema, Vec::new(), self.found_count);
        }
        if self.is_sparse() {
            return self.take_found();
        }
        if let Some(first) = self.found.first() {
            for column in &self.columns.columns {
                let (group, row) = (first.group, first.vectors.first_row);
                self.blocks.close_before(group.number, column, row, group.rows)?;
            }
        }
        let ahead = match self.found.last() {
            Some(last) if self.is_distant() => {
                let mut ahead = self.ahead(last, &self.columns.columns.iter().collect::<Vec<_>>())?;
                // Only of rows that all pass it is known what they will need.
                let mut certain = 0;
                while certain < ahead.len() && self.is_certain(&ahead[certain])? {
                    certain += 1;
                }
                ahead.truncate(certain);
                ahead
            }
            _ => Vec::new(),
        };
        self.blocks.open(self.columns.columns.iter(), &self.found, &ahead, |_, _| true)?;
        self.blocks.batch(&self.columns, &self.schema, &mut self.found)
    }
}

impl Iterator for Scan {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(()) => self.ready.pop_front().map(Ok),
            Err(error) => {
                if !matches!(error, Error::Missing(_)) {
                    self.groups.clear();
                    self.current = None;
                    self.found.clear();
                }
                Some(Err(error))
            }
        }
    }
}

/// The row groups that hold `wanted` rows of the file, each with the rows of it that are wanted.
fn groups_of(group_rows: &[u64], wanted: &Range<u64>) -> Vec<(Group, Range<u64>)> {
    let mut first_row = 0;
    let mut groups = Vec::new();
    for (number, &rows) in group_rows.iter().enumerate() {
        let within = |row: u64| row.clamp(first_row, first_row + rows) - first_row;
        let asked = within(wanted.start)..within(wanted.end);
        if !asked.is_empty() {
            groups.push((Group { number, first_row, rows }, asked));
        }
        first_row += rows;
    }
    groups
}

/// Takes rows from the beginning of `asked`, up to the next multiple of 65,536 or of what a batch can hold, and says how many they are.
/// They are whole vectors, in which what isn't asked for isn't alive.
fn cut(group: Group, asked: &mut Range<u64>, most_rows: usize) -> (Rows, u64) {
    let step = (most_rows.min(BLOCK_ROWS) / VECTOR_ROWS * VECTOR_ROWS).max(VECTOR_ROWS) as u64;
    let start = asked.start;
    let end = ((start / step + 1) * step).min(asked.end);
    asked.start = end;
    let first_row = start / VECTOR_ROWS as u64 * VECTOR_ROWS as u64;
    let last_row = end.next_multiple_of(VECTOR_ROWS as u64).min(group.rows);
    let vectors = VectorRange::new(first_row, (last_row - first_row) as usize);
    let mut alive = Selection::all(vectors.rows);
    let (before, behind) = ((start - first_row) as usize, (end - first_row) as usize);
    alive.truncate(behind);
    if before > 0 {
        alive.retain(0, |row| row >= before);
    }
    (Rows { group, vectors, alive }, end - start)
}
