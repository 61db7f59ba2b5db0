//! Reading rows in order, batch by batch.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};
use entasis_encoding::Block;

use super::{
    Projection, Reader,
    column::{BlockPlace, Opener, ReadColumn, ReadColumns, chunk_of, empty, extend_not_null, split_of},
    open_column::OpenColumn,
};
use crate::{
    arrow::{Split, Strings, lent_row_bytes, lent_to_arrow, may_be_lent, most_rows},
    error::{Error, Result},
    metadata::record::Chunk,
    source::Source,
};

/// Bytes of a block for which it pays to end a batch, so that they needn't be copied.
const LENT_BLOCK_BYTES: u64 = 256 * 1024;

/// Which rows and columns are read, and how. [`Default`] gives what the fields say.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// Columns: all.
    pub projection: Projection,
    /// Rows of the file, as far as it has them: all.
    pub rows: Option<Range<u64>>,
    /// Row groups, in this order: all.
    pub row_groups: Option<Vec<usize>>,
    /// Most rows of a batch: 65,536. A batch ends where its row group does, and before it has more rows than the run ends
    /// of a column can number.
    pub batch_rows: usize,
    /// Most bytes that the values of a column of fixed width take in a batch, one row at least: 512 KiB. What was verified and decoded is
    /// then still in the processor's cache when it is looked at, and the next batch of embeddings lies where this one was.
    pub column_bytes: u64,
    /// Whether a batch also ends where a large block does that lends its values: true. Nothing of such a block is copied then.
    pub end_at_lent_blocks: bool,
    /// How byte strings come: as they are stored.
    pub strings: Strings,
    /// Threads that decode, each some columns of a batch: 1, the caller's.
    pub threads: usize,
}

impl Default for ReadRequest {
    fn default() -> Self {
        Self {
            projection: Projection::all(),
            rows: None,
            row_groups: None,
            batch_rows: entasis_encoding::BLOCK_ROWS,
            column_bytes: 512 * 1024,
            end_at_lent_blocks: true,
            strings: Strings::AsStored,
            threads: 1,
        }
    }
}

impl Reader {
    /// Reads rows in order. Only what the request touches is read, a batch at a time.
    pub fn read(&self, request: ReadRequest) -> Result<Batches> {
        self.read_from(self.inner.source.clone(), request)
    }

    /// As [`Self::read`], with blocks from another source of the same file.
    pub(crate) fn read_from(&self, source: Arc<dyn Source>, request: ReadRequest) -> Result<Batches> {
        if request.batch_rows == 0 || request.threads == 0 {
            return Err(Error::InvalidArgument("batches of 0 rows, or 0 threads".to_owned()));
        }
        let columns = ReadColumns::new(self, request.projection.selected(), request.strings)?;
        let fields: Vec<_> = columns.trees.iter().map(|tree| tree.field.clone()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.file_record()?.schema_metadata.clone()));
        let open = columns.columns.iter().map(|_| OpenColumn::default()).collect();
        let pieces = self.pieces(&request)?;
        let most_rows = schema.fields().iter().map(|field| most_rows(field.data_type())).min().unwrap_or(usize::MAX);
        let widest = columns.columns.iter().filter_map(|column| lent_row_bytes(&column.data_type)).max().unwrap_or(0);
        // A power of two, for vectors are read whole, and blocks are multiples of them.
        let within_bytes = (request.column_bytes / widest.max(1)).max(1);
        let within_bytes = 1 << within_bytes.ilog2();
        let opener = Opener::new(self, source);
        Ok(Batches {
            reader: self.clone(),
            opener,
            schema,
            columns,
            open,
            pieces,
            batch_rows: (request.batch_rows.min(most_rows) as u64).min(within_bytes),
            end_at_lent_blocks: request.end_at_lent_blocks,
            threads: request.threads,
            go_on: None,
        })
    }

    /// The rows that are asked for, by row group; the last comes first.
    fn pieces(&self, request: &ReadRequest) -> Result<Vec<Piece>> {
        let group_rows = self.row_group_rows()?;
        let wanted = request.rows.clone().unwrap_or(0..u64::MAX);
        let mut first = 0;
        let pieces: Vec<Piece> = (0..)
            .zip(group_rows)
            .map(|(row_group, &rows)| {
                let start = wanted.start.clamp(first, first + rows) - first;
                let end = wanted.end.clamp(first, first + rows) - first;
                first += rows;
                Piece { row_group, rows: start..end }
            })
            .collect();
        let mut asked = match &request.row_groups {
            None => pieces,
            Some(row_groups) => {
                let piece = |&row_group: &usize| {
                    let missing = || Error::InvalidArgument(format!("row group {row_group} of {}", pieces.len()));
                    pieces.get(row_group).cloned().ok_or_else(missing)
                };
                row_groups.iter().map(piece).collect::<Result<_>>()?
            }
        };
        asked.retain(|piece| !piece.rows.is_empty());
        asked.reverse();
        Ok(asked)
    }
}

/// Rows of one row group.
#[derive(Debug, Clone)]
struct Piece {
    row_group: usize,
    rows: Range<u64>,
}

/// Whether to go on, asked by the threads that read: see [`Batches::asking`].
type GoOn = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// The rows that were asked for, in order. After an error, the next batch is the one after the rows that failed.
pub struct Batches {
    reader: Reader,
    opener: Opener,
    schema: SchemaRef,
    columns: ReadColumns,
    open: Vec<OpenColumn>,
    /// What is left; the next comes last.
    pieces: Vec<Piece>,
    batch_rows: u64,
    end_at_lent_blocks: bool,
    threads: usize,
    go_on: Option<GoOn>,
}

impl Batches {
    /// Asks before each block of each column that is decoded, on the thread that decodes it, whether to go on. Where `go_on` fails, the
    /// batch fails with that error: so whoever waits for a large batch can give it up, and look around meanwhile.
    pub fn asking(mut self, go_on: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        self.go_on = Some(Box::new(go_on));
        self
    }

    /// The schema of every batch.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows that are left.
    pub fn rows_left(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.rows.end - piece.rows.start).sum()
    }

    /// Reads a batch from the first of `rows`, and shortens them to those of the batch.
    fn read_batch(&mut self, row_group: usize, rows: &mut Range<u64>) -> Result<RecordBatch> {
        self.open_blocks(row_group, rows)?;
        if self.end_at_lent_blocks {
            rows.end = self.lent_end(row_group, rows)?;
        }
        let parts = self.decode(row_group, rows)?;
        let file = self.reader.name();
        let arrays = self.columns.assemble(parts, file)?;
        let count = (rows.end - rows.start) as usize;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|error| Error::corrupt(file, format!("row group {row_group}"), 0, error.to_string()))
    }

    /// Opens what the rows need and isn't open: all columns' bytes are asked for together.
    fn open_blocks(&mut self, row_group: usize, rows: &Range<u64>) -> Result<()> {
        let group_rows = self.reader.row_group_rows()?[row_group];
        let mut ranges = Vec::new();
        let mut needs = Vec::new();
        for (column, open) in self.columns.columns.iter().zip(&self.open) {
            let chunk = chunk_of(&self.reader, column, row_group, group_rows)?;
            let blocks: Vec<usize> = chunk.overlapping(rows.clone()).map(|(block, ..)| block).collect();
            ranges.extend(open.lacks(&self.opener, column, row_group, chunk, &blocks)?);
            needs.push((chunk, blocks));
        }
        let mut read = self.opener.source.read_many(&ranges)?.into_iter();
        let mut first_error = None;
        for ((column, open), (chunk, blocks)) in self.columns.columns.iter().zip(&mut self.open).zip(needs) {
            open.close_before(row_group, blocks.first().copied().unwrap_or(0));
            let opened = open.open(&self.opener, column, row_group, chunk, &blocks, &mut read);
            if let (Err(error), None) = (opened, &first_error) {
                first_error = Some(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    /// Where the first ends, of large blocks at the beginning of `rows` that lend their values; or where the rows end.
    fn lent_end(&self, row_group: usize, rows: &Range<u64>) -> Result<u64> {
        let group_rows = self.reader.row_group_rows()?[row_group];
        let mut end = rows.end;
        for (column, open) in self.columns.columns.iter().zip(&self.open) {
            if !may_be_lent(&column.data_type) {
                continue;
            }
            let chunk = chunk_of(&self.reader, column, row_group, group_rows)?;
            if let Some((number, first, reference)) = chunk.overlapping(rows.clone()).next()
                && reference.size_bytes >= LENT_BLOCK_BYTES
                && open.get(row_group, number).is_some_and(Block::lends)
            {
                end = end.min(first + u64::from(reference.rows));
            }
        }
        Ok(end)
    }

    fn decode(&self, row_group: usize, rows: &Range<u64>) -> Result<Vec<Split>> {
        let columns = &self.columns.columns;
        let decode = |index: usize| self.decode_column(&columns[index], &self.open[index], row_group, rows);
        if self.threads == 1 || columns.len() < 2 {
            return (0..columns.len()).map(decode).collect();
        }
        let threads = self.threads.min(columns.len());
        let next = Mutex::new(0..columns.len());
        let decode_some = || {
            let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
            std::iter::from_fn(take).map(|index| (index, decode(index))).collect::<Vec<_>>()
        };
        let mut decoded = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(decode_some)).collect();
            let mut decoded = decode_some();
            for other in others {
                match other.join() {
                    Ok(some) => decoded.extend(some),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            decoded
        });
        decoded.sort_by_key(|(index, _)| *index);
        decoded.into_iter().map(|(_, split)| split).collect()
    }

    fn decode_column(
        &self,
        column: &ReadColumn,
        open: &OpenColumn,
        row_group: usize,
        rows: &Range<u64>,
    ) -> Result<Split> {
        let group_rows = self.reader.row_group_rows()?[row_group];
        let chunk = chunk_of(&self.reader, column, row_group, group_rows)?;
        self.ask()?;
        if let Some(array) = self.lend_column(column, open, row_group, rows, chunk)? {
            return Ok(Split::Leaf(array));
        }
        let mut decoded = empty(column)?;
        if chunk.blocks.is_empty() {
            extend_not_null(&mut decoded, (rows.end - rows.start) as usize);
        }
        for (number, first, reference) in chunk.overlapping(rows.clone()) {
            let end = first + u64::from(reference.rows);
            let wanted = (rows.start.max(first) - first) as usize..(rows.end.min(end) - first) as usize;
            let place = BlockPlace { row_group, block: number };
            self.ask()?;
            open.block(&self.opener, column, place, reference)?
                .decode(wanted, &mut decoded)
                .map_err(|error| self.opener.place(error, &place.name(column), reference.offset))?;
        }
        split_of(column, decoded, self.reader.name())
    }

    fn ask(&self) -> Result<()> {
        self.go_on.as_ref().map_or(Ok(()), |go_on| go_on())
    }

    /// The values of `rows`, where they lie in one block that lends them.
    fn lend_column(
        &self,
        column: &ReadColumn,
        open: &OpenColumn,
        row_group: usize,
        rows: &Range<u64>,
        chunk: &Chunk,
    ) -> Result<Option<ArrayRef>> {
        if !may_be_lent(&column.data_type) {
            return Ok(None);
        }
        let Some((number, first, reference)) = chunk.overlapping(rows.clone()).next() else { return Ok(None) };
        if rows.end > first + u64::from(reference.rows) {
            return Ok(None);
        }
        let Some(block) = open.get(row_group, number) else { return Ok(None) };
        let wanted = (rows.start - first) as usize..(rows.end - first) as usize;
        let place = BlockPlace { row_group, block: number };
        let lent = block.lend(wanted.clone());
        let lent = lent.map_err(|error| self.opener.place(error, &place.name(column), reference.offset))?;
        lent.map_or(Ok(None), |bytes| lent_to_arrow(bytes, &column.data_type, wanted.len()))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.pieces.last()?;
        let row_group = piece.row_group;
        let mut rows = piece.rows.start..piece.rows.end.min(piece.rows.start.saturating_add(self.batch_rows));
        let batch = self.read_batch(row_group, &mut rows);
        // What hasn't been fetched yet is asked for again.
        if !matches!(batch, Err(Error::Missing(_)))
            && let Some(piece) = self.pieces.last_mut()
        {
            piece.rows.start = rows.end;
            if piece.rows.is_empty() {
                self.pieces.pop();
            }
        }
        Some(batch)
    }
}
