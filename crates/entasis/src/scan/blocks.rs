//! The blocks that a scan has open, and what is taken out of them.

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use entasis_encoding::{Block, Selection, VectorSelection};

use super::{
    metrics::CountedSource,
    prepared::{BlockPart, Group, VectorRange},
    zones::Verdict,
};
use crate::{
    Reader,
    error::{Error, Result},
    read::{
        column::{BlockPlace, Opener, ReadColumn, ReadColumns, chunk_of, empty, extend_not_null, split_of},
        open_column::OpenColumn,
    },
};

/// Open blocks by column, whoever asked for them.
pub(super) struct Blocks {
    pub reader: Reader,
    opener: Opener,
    open: HashMap<(usize, usize), OpenColumn>,
}

/// Rows of a row group that are asked for, or that have passed.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub group: Group,
    pub vectors: VectorRange,
    pub alive: Selection,
}

/// Blocks of one column.
struct Needs<'c> {
    column: &'c ReadColumn,
    group: Group,
    /// Ascending.
    blocks: Vec<usize>,
}

impl Blocks {
    /// No open block yet of the file of `reader`, to be read from `source`.
    pub fn new(reader: Reader, source: Arc<CountedSource>) -> Self {
        let opener = Opener::new(&reader, source);
        Self { reader, opener, open: HashMap::new() }
    }

    /// What they are read with.
    pub fn opener(&self) -> &Opener {
        &self.opener
    }

    /// Opens what isn't open of the blocks of columns that hold living rows and that `is_needed`. All their bytes are asked for
    /// together; if any lack, so are those for the rows `ahead`, of the same row group.
    pub fn open<'c>(
        &mut self,
        columns: impl Iterator<Item = &'c ReadColumn> + Clone,
        rows: &[Rows],
        ahead: &[Rows],
        is_needed: impl Fn(&ReadColumn, &BlockPart<'_>) -> bool,
    ) -> Result<()> {
        let mut needs = self.needs(columns.clone(), rows, &is_needed)?;
        if self.lacks(&needs)?.is_empty() {
            return Ok(());
        }
        if !ahead.is_empty() {
            needs = self.needs(columns, &[rows, ahead].concat(), &is_needed)?;
        }
        let mut read = self.opener.source.read_many(&self.lacks(&needs)?)?.into_iter();
        let mut opened = Ok(());
        for Needs { column, group, blocks } in needs {
            let chunk = chunk_of(&self.reader, column, group.number, group.rows)?;
            let open = self.open.entry(column.key).or_default();
            opened = opened.and(open.open(&self.opener, column, group.number, chunk, &blocks, &mut read));
        }
        opened
    }

    /// The blocks of columns that hold living rows and are needed, each column once.
    fn needs<'c>(
        &self,
        columns: impl Iterator<Item = &'c ReadColumn>,
        rows: &[Rows],
        is_needed: &impl Fn(&ReadColumn, &BlockPart<'_>) -> bool,
    ) -> Result<Vec<Needs<'c>>> {
        let Some(group) = rows.first().map(|rows| rows.group) else { return Ok(Vec::new()) };
        let mut needs: Vec<Needs<'c>> = Vec::new();
        for column in columns {
            let chunk = chunk_of(&self.reader, column, group.number, group.rows)?;
            let mut blocks = Vec::new();
            for rows in rows {
                let parts = rows.vectors.blocks(chunk);
                blocks.extend(parts.filter(|part| rows.are_in(part) && is_needed(column, part)).map(|part| part.block));
            }
            match needs.iter_mut().find(|other| other.column.key == column.key) {
                Some(other) => other.blocks.extend(blocks),
                None => needs.push(Needs { column, group, blocks }),
            }
        }
        needs.retain(|need| !need.blocks.is_empty());
        for Needs { blocks, .. } in &mut needs {
            blocks.sort_unstable();
            blocks.dedup();
        }
        Ok(needs)
    }

    /// What must be read for them.
    fn lacks(&self, needs: &[Needs<'_>]) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        let none = OpenColumn::default();
        for Needs { column, group, blocks } in needs {
            let chunk = chunk_of(&self.reader, column, group.number, group.rows)?;
            let open = self.open.get(&column.key).unwrap_or(&none);
            ranges.extend(open.lacks(&self.opener, column, group.number, chunk, blocks)?);
        }
        Ok(ranges)
    }

    /// Bytes in the file of the blocks of columns that hold living rows.
    pub fn size_bytes<'c>(&self, columns: impl Iterator<Item = &'c ReadColumn>, rows: &Rows) -> Result<u64> {
        let mut size_bytes = 0;
        for column in columns {
            let chunk = chunk_of(&self.reader, column, rows.group.number, rows.group.rows)?;
            let parts = rows.vectors.blocks(chunk).filter(|part| rows.are_in(part));
            size_bytes += parts.map(|part| part.reference.size_bytes).sum::<u64>();
        }
        Ok(size_bytes)
    }

    /// Closes what lies before a row of a row group.
    pub fn close_before(&mut self, row_group: usize, column: &ReadColumn, row: u64, rows: u64) -> Result<()> {
        let Some(open) = self.open.get_mut(&column.key) else { return Ok(()) };
        let chunk = chunk_of(&self.reader, column, row_group, rows)?;
        open.close_before(row_group, chunk.overlapping(row..row + 1).next().map_or(0, |(block, ..)| block));
        Ok(())
    }

    /// True if a column has no blocks in the row group of `rows`: a struct of which nothing is null.
    pub fn has_none(&self, column: &ReadColumn, rows: &Rows) -> Result<bool> {
        Ok(chunk_of(&self.reader, column, rows.group.number, rows.group.rows)?.blocks.is_empty())
    }

    /// Goes through the blocks of a column that hold living rows. Those of which `decide` says [`Verdict::None`] lose them, those of
    /// which it says [`Verdict::All`] keep them, and all others are handed to `apply`, with the rows as a selection of the block, which
    /// it may change, and the part that is asked about. A block that was not opened is an error.
    pub fn visit(
        &self,
        column: &ReadColumn,
        rows: &mut Rows,
        decide: impl Fn(&BlockPart<'_>) -> Verdict,
        mut apply: impl FnMut(&BlockPart<'_>, &Block, &mut Selection) -> entasis_encoding::Result<()>,
    ) -> Result<()> {
        let group = rows.group;
        let chunk = chunk_of(&self.reader, column, group.number, group.rows)?;
        for part in rows.vectors.blocks(chunk) {
            if !rows.are_in(&part) {
                continue;
            }
            match decide(&part) {
                Verdict::All => continue,
                Verdict::None => {
                    part.vectors.for_each(|vector| rows.alive.clear(vector));
                    continue;
                }
                Verdict::Some => {}
            }
            let place = BlockPlace { row_group: group.number, block: part.block };
            let none = OpenColumn::default();
            let open = self.open.get(&column.key).unwrap_or(&none);
            let block = open.block(&self.opener, column, place, part.reference)?;
            let mut selection = Selection::none(part.reference.rows as usize);
            rows.alive.swap(part.vectors.clone(), &mut selection, part.at);
            let applied = apply(&part, block, &mut selection);
            rows.alive.swap(part.vectors, &mut selection, part.at);
            applied.map_err(|error| self.opener.place(error, &place.name(column), part.reference.offset))?;
        }
        Ok(())
    }

    /// The living rows of columns, whose blocks are open, as a batch.
    pub fn batch(&self, columns: &ReadColumns, schema: &SchemaRef, rows: &mut [Rows]) -> Result<RecordBatch> {
        let count = rows.iter().map(|rows| rows.alive.count()).sum();
        let mut splits = Vec::with_capacity(columns.columns.len());
        for column in &columns.columns {
            let mut decoded = empty(column)?;
            for rows in rows.iter_mut() {
                let chunk = chunk_of(&self.reader, column, rows.group.number, rows.group.rows)?;
                if chunk.blocks.is_empty() {
                    extend_not_null(&mut decoded, rows.alive.count());
                }
                self.visit(
                    column,
                    rows,
                    |_| Verdict::Some,
                    |_, block, selection| block.select(selection, &mut decoded),
                )?;
            }
            splits.push(split_of(column, decoded, self.reader.name())?);
        }
        let arrays = columns.assemble(splits, self.reader.name())?;
        batch_of(&self.reader, schema, arrays, count)
    }
}

/// A batch of so many rows.
pub(super) fn batch_of(
    reader: &Reader,
    schema: &SchemaRef,
    arrays: Vec<ArrayRef>,
    row_count: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(row_count));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options)
        .map_err(|error| Error::corrupt(reader.name(), "columns", 0, error.to_string()))
}

impl Rows {
    /// True if rows are alive in this part.
    pub fn are_in(&self, part: &BlockPart<'_>) -> bool {
        self.alive.vectors()[part.vectors.clone()].iter().any(|vector| *vector != VectorSelection::None)
    }

    /// The file's numbers of the rows that are alive, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.group.first_row + self.vectors.first_row;
        self.alive.iter().map(move |row| first + row as u64)
    }
}
