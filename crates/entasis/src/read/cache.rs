//! Blocks that stay open between calls that read single rows.

use std::collections::HashMap;

use entasis_encoding::{Block, Parts};

use super::column::BlockPlace;

/// Number of a top-level column and the place in its tree.
type ColumnKey = (usize, usize);

/// Open blocks up to a number of bytes. When more come, all go: rows that are asked for again are open again at once,
/// and nothing is spent on keeping an order.
pub(super) struct BlockCache {
    limit_bytes: u64,
    held_bytes: u64,
    /// Each with the bytes that it was counted with.
    blocks: HashMap<(ColumnKey, BlockPlace), (Block, u64)>,
    /// By row group.
    parts: HashMap<(ColumnKey, usize), Parts>,
}

impl BlockCache {
    /// Keeps blocks of up to `limit_bytes` open.
    pub fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, held_bytes: 0, blocks: HashMap::new(), parts: HashMap::new() }
    }

    /// An open block.
    pub fn block(&self, column: ColumnKey, place: BlockPlace) -> Option<Block> {
        self.blocks.get(&(column, place)).map(|(block, _)| block.clone())
    }

    /// The shared parts of a chunk.
    pub fn parts(&self, column: ColumnKey, row_group: usize) -> Option<Parts> {
        self.parts.get(&(column, row_group)).cloned()
    }

    /// Keeps a block open, counted with the bytes of it that are in memory now: of one that is kept already, more may be.
    pub fn insert_block(&mut self, column: ColumnKey, place: BlockPlace, block: Block) {
        let key = (column, place);
        if let Some((_, counted)) = self.blocks.remove(&key) {
            self.held_bytes -= counted;
        }
        let size_bytes = block.held_bytes();
        if self.make_room(size_bytes) {
            self.blocks.insert(key, (block, size_bytes));
        }
    }

    /// Keeps the shared parts of a chunk, of `size_bytes` together.
    pub fn insert_parts(&mut self, column: ColumnKey, row_group: usize, parts: Parts, size_bytes: u64) {
        if self.make_room(size_bytes) {
            self.parts.insert((column, row_group), parts);
        }
    }

    fn make_room(&mut self, size_bytes: u64) -> bool {
        if self.held_bytes + size_bytes > self.limit_bytes {
            self.blocks.clear();
            self.parts.clear();
            self.held_bytes = 0;
        }
        let fits = size_bytes <= self.limit_bytes;
        self.held_bytes += if fits { size_bytes } else { 0 };
        fits
    }
}
