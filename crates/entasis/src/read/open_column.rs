//! What is open of a column while its rows are read in order.

use std::{collections::BTreeMap, ops::Range};

use bytes::Bytes;
use entasis_encoding::{Block, Parts};

use super::column::{BlockPlace, Opener, ReadColumn, open_read_parts, part_ranges};
use crate::{
    error::{Error, Result},
    metadata::record::{BlockRef, Chunk},
};

/// Shared parts and blocks of one row group.
#[derive(Default)]
pub(crate) struct OpenColumn {
    /// The row group whose shared parts are open.
    chunk: Option<(usize, Parts)>,
    /// Blocks of that row group, by number.
    blocks: BTreeMap<usize, Block>,
}

impl OpenColumn {
    /// What must be read to open `blocks` of a row group, in the order in which [`Self::open`] takes it.
    pub fn lacks(
        &self,
        opener: &Opener,
        column: &ReadColumn,
        row_group: usize,
        chunk: &Chunk,
        blocks: &[usize],
    ) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        if !self.is_in(row_group) {
            ranges.extend(part_ranges(opener, column, chunk)?);
        }
        for &block in blocks.iter().filter(|&&block| !self.is_open(row_group, block)) {
            let name = || BlockPlace { row_group, block }.name(column);
            ranges.push(opener.check_range(chunk.blocks[block].range(), name)?);
        }
        Ok(ranges)
    }

    /// Opens what isn't open of `blocks`. Takes from `read` exactly what was asked for, even where something is damaged; the blocks
    /// before the damaged one are open then.
    pub fn open(
        &mut self,
        opener: &Opener,
        column: &ReadColumn,
        row_group: usize,
        chunk: &Chunk,
        blocks: &[usize],
        read: &mut impl Iterator<Item = Bytes>,
    ) -> Result<()> {
        let parts_read: Option<Vec<Bytes>> =
            (!self.is_in(row_group)).then(|| read.by_ref().take(chunk.parts.len()).collect());
        let closed = blocks.iter().filter(|&&block| !self.is_open(row_group, block));
        let blocks_read: Vec<(usize, Bytes)> = closed.copied().zip(read).collect();
        if let Some(parts_read) = parts_read {
            self.blocks.clear();
            self.chunk = None;
            self.chunk = Some((row_group, open_read_parts(opener, column, chunk, parts_read)?));
        }
        let Some((_, parts)) = &self.chunk else { return Ok(()) };
        for (block, bytes) in blocks_read {
            let place = BlockPlace { row_group, block };
            self.blocks.insert(block, opener.open_block(column, &place, &chunk.blocks[block], parts, bytes)?);
        }
        Ok(())
    }

    /// Closes the blocks before block `first` of a row group, and all of other row groups.
    pub fn close_before(&mut self, row_group: usize, first: usize) {
        match self.is_in(row_group) {
            true => self.blocks = self.blocks.split_off(&first),
            false => self.blocks.clear(),
        }
    }

    /// The block `place`, which lies at `reference`; an error if it couldn't be opened.
    pub fn block(
        &self,
        opener: &Opener,
        column: &ReadColumn,
        place: BlockPlace,
        reference: &BlockRef,
    ) -> Result<&Block> {
        self.get(place.row_group, place.block).ok_or_else(|| {
            Error::corrupt(opener.source.name(), place.name(column), reference.offset, "it couldn't be opened")
        })
    }

    /// An open block of a row group.
    pub fn get(&self, row_group: usize, block: usize) -> Option<&Block> {
        self.blocks.get(&block).filter(|_| self.is_in(row_group))
    }

    fn is_in(&self, row_group: usize) -> bool {
        self.chunk.as_ref().is_some_and(|(open, _)| *open == row_group)
    }

    fn is_open(&self, row_group: usize, block: usize) -> bool {
        self.is_in(row_group) && self.blocks.contains_key(&block)
    }
}
