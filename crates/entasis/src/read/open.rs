//! The blocks that single rows need: those that are open, those that are read whole, and those that are opened by their
//! head and then read run by run.

use std::{
    ops::Range,
    sync::{MutexGuard, PoisonError},
};

use bytes::Bytes;
use entasis_encoding::{Block, HEAD_PREFIX_BYTES, Parts};

use super::{
    Reader,
    cache::BlockCache,
    column::{BlockPlace, Opener, ReadColumn, chunk_of, open_read_parts, part_ranges},
    take::GroupRows,
};
use crate::{
    error::{Error, Result},
    metadata::record::{BlockRef, Chunk},
};

/// Bytes that are read of a block whose head is wanted; longer heads are read once more. Most are a tenth as long.
const HEAD_BYTES: u64 = 4 * 1024;

/// What a call needs of one column: of each chunk that holds rows, in order.
pub(super) struct ColumnNeeds<'a> {
    pub column: &'a ReadColumn,
    pub chunks: Vec<ChunkNeeds<'a>>,
}

/// What a call needs of a chunk.
pub(super) struct ChunkNeeds<'a> {
    pub row_group: usize,
    /// Rows that are asked for.
    pub row_count: usize,
    chunk: &'a Chunk,
    /// The shared parts, once they are open.
    parts: Option<Parts>,
    /// The blocks that hold rows; none in a struct of which nothing is null.
    pub blocks: Vec<NeededBlock<'a>>,
}

/// A block that holds rows that are asked for.
pub(super) struct NeededBlock<'a> {
    place: BlockPlace,
    reference: &'a BlockRef,
    /// Ascending, counted from the block's first.
    pub rows: Vec<u32>,
    open: Option<Block>,
}

impl NeededBlock<'_> {
    /// The block, which [`Reader::open_for`] has opened.
    pub fn block(&self) -> &Block {
        self.open.as_ref().unwrap_or_else(|| unreachable!("every block that is needed has been opened"))
    }

    /// An error of the block, with its place in the file.
    pub fn error(&self, opener: &Opener, column: &ReadColumn, error: entasis_encoding::Error) -> Error {
        opener.place(error, &self.place.name(column), self.reference.offset)
    }
}

/// What blocks lack of their own bytes.
#[derive(Default)]
pub(super) struct Lacking<'a>(Vec<(&'a ReadColumn, &'a NeededBlock<'a>, Range<u64>)>);

impl<'a> Lacking<'a> {
    /// True if nothing lacks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes ranges of a block.
    pub fn note(&mut self, column: &'a ReadColumn, needed: &'a NeededBlock<'a>, ranges: Vec<Range<u64>>) {
        self.0.extend(ranges.into_iter().map(|range| (column, needed, range)));
    }

    /// Notes what a block lacks for any of its rows, as far as is known.
    pub fn note_rows(&mut self, opener: &Opener, column: &'a ReadColumn, needed: &'a NeededBlock<'a>) -> Result<()> {
        let ranges = needed.block().missing_for(&needed.rows).map_err(|error| needed.error(opener, column, error))?;
        self.note(column, needed, ranges);
        Ok(())
    }
}

/// What is to be read to open what isn't open.
#[derive(Default)]
struct Reads {
    ranges: Vec<Range<u64>>,
    /// Which ranges are of heads, with the end of their block.
    heads: Vec<(usize, u64)>,
}

impl Reads {
    /// Adds what a chunk needs, in the order of [`ChunkNeeds::open`].
    fn add(&mut self, opener: &Opener, column: &ReadColumn, needs: &ChunkNeeds<'_>) -> Result<()> {
        if needs.parts.is_none() {
            self.ranges.extend(part_ranges(opener, column, needs.chunk)?);
        }
        for needed in needs.blocks.iter().filter(|needed| needed.open.is_none()) {
            let mut range = opener.check_range(needed.reference.range(), || needed.place.name(column))?;
            if !needed.is_read_whole(opener) {
                self.heads.push((self.ranges.len(), range.end));
                range.end = range.end.min(range.start + HEAD_BYTES);
            }
            self.ranges.push(range);
        }
        Ok(())
    }

    /// The bytes of all ranges, heads at their whole length.
    fn read(&self, opener: &Opener) -> Result<Vec<Bytes>> {
        let mut read = opener.source.read_many(&self.ranges)?;
        let mut longer = Vec::new();
        for &(index, end) in &self.heads {
            let (bytes, start) = (&read[index], self.ranges[index].start);
            // A bad head is told by whoever opens it.
            match Block::head_size_bytes(&bytes[..bytes.len().min(HEAD_PREFIX_BYTES)]) {
                Ok(size) if size > bytes.len() && size as u64 <= end - start => {
                    longer.push((index, start..start + size as u64));
                }
                _ => {}
            }
        }
        if !longer.is_empty() {
            let ranges: Vec<_> = longer.iter().map(|(_, range)| range.clone()).collect();
            for ((index, _), bytes) in longer.iter().zip(opener.source.read_many(&ranges)?) {
                read[*index] = bytes;
            }
        }
        Ok(read)
    }
}

impl NeededBlock<'_> {
    /// Reading single rows out of a block takes a request for its head, and about one for each row. The block is read
    /// whole where that takes no longer: what a request costs in bytes, the source knows.
    fn is_read_whole(&self, opener: &Opener) -> bool {
        let requests = self.rows.len() as u64 + 1;
        self.reference.size_bytes <= opener.source.request_bytes().saturating_mul(requests)
    }
}

impl ChunkNeeds<'_> {
    /// Opens what isn't open from the bytes that [`Reads`] asked for, and keeps it open.
    fn open(
        &mut self,
        reader: &Reader,
        opener: &Opener,
        column: &ReadColumn,
        read: &mut impl Iterator<Item = Bytes>,
    ) -> Result<()> {
        let parts = match &self.parts {
            Some(parts) => parts,
            None => {
                let parts = open_read_parts(opener, column, self.chunk, read.by_ref().take(self.chunk.parts.len()))?;
                let size_bytes = self.chunk.parts.iter().map(|part| part.size_bytes).sum();
                reader.cache().insert_parts(column.key, self.row_group, parts.clone(), size_bytes);
                self.parts.insert(parts)
            }
        };
        for needed in self.blocks.iter_mut().filter(|needed| needed.open.is_none()) {
            let bytes = read.next().unwrap_or_else(|| unreachable!("one range was read for each closed block"));
            let block = match needed.is_read_whole(opener) {
                true => opener.open_block(column, &needed.place, needed.reference, parts, bytes)?,
                false => opener.open_head(column, &needed.place, needed.reference, parts, &bytes)?,
            };
            reader.keep(opener, column, needed.place, &block);
            needed.open = Some(block);
        }
        Ok(())
    }
}

impl Reader {
    /// Opens every block that the rows touch: what isn't open already is read together.
    pub(super) fn open_for<'a>(
        &self,
        opener: &Opener,
        columns: &'a [ReadColumn],
        groups: &[GroupRows],
    ) -> Result<Vec<ColumnNeeds<'a>>> {
        let mut needs = columns.iter().map(|column| self.needs(column, groups)).collect::<Result<Vec<_>>>()?;
        let mut reads = Reads::default();
        for ColumnNeeds { column, chunks } in &needs {
            chunks.iter().try_for_each(|chunk| reads.add(opener, column, chunk))?;
        }
        let mut read = reads.read(opener)?.into_iter();
        for ColumnNeeds { column, chunks } in &mut needs {
            chunks.iter_mut().try_for_each(|chunk| chunk.open(self, opener, column, &mut read))?;
        }
        Ok(needs)
    }

    /// What the rows need of a column, with what is open of it.
    fn needs<'a>(&self, column: &'a ReadColumn, groups: &[GroupRows]) -> Result<ColumnNeeds<'a>> {
        let cache = self.cache();
        let chunk_needs = |group: &GroupRows| {
            let chunk = chunk_of(self, column, group.row_group, group.group_rows)?;
            let needed = |(place, reference, rows)| {
                let open = cache.block(column.key, place);
                NeededBlock { place, reference, rows, open }
            };
            let (row_group, row_count) = (group.row_group, group.rows.len());
            let parts = cache.parts(column.key, row_group);
            let blocks = group.by_block(&chunk.blocks).map(needed).collect();
            Ok(ChunkNeeds { row_group, row_count, chunk, parts, blocks })
        };
        let chunks = groups.iter().map(chunk_needs).collect::<Result<_>>()?;
        Ok(ColumnNeeds { column, chunks })
    }

    /// Reads what blocks lack, near ranges together, and supplies it.
    pub(super) fn supply(&self, opener: &Opener, lacking: Lacking<'_>) -> Result<()> {
        let in_file = |(_, needed, range): &(&ReadColumn, &NeededBlock<'_>, Range<u64>)| {
            needed.reference.offset + range.start..needed.reference.offset + range.end
        };
        let ranges: Vec<_> = lacking.0.iter().map(in_file).collect();
        let read = opener.source.read_many(&ranges)?;
        for ((column, needed, range), bytes) in lacking.0.iter().zip(read) {
            let supplied = needed.block().supply(range.start, &bytes);
            supplied.map_err(|error| needed.error(opener, column, error))?;
        }
        // Blocks that have grown are counted anew.
        for same in lacking.0.chunk_by(|left, right| std::ptr::eq(left.1, right.1)) {
            let (column, needed, _) = &same[0];
            self.keep(opener, column, needed.place, needed.block());
        }
        Ok(())
    }

    /// Keeps a block open for further calls, if they will find its large values where this call does.
    fn keep(&self, opener: &Opener, column: &ReadColumn, place: BlockPlace, block: &Block) {
        if opener.is_of(self) || !block.has_large_values() {
            self.cache().insert_block(column.key, place, block.clone());
        }
    }

    fn cache(&self) -> MutexGuard<'_, BlockCache> {
        self.inner.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
