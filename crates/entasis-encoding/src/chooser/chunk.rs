//! The encoder of a chunk: its blocks one after the other, and the parts that they share.

use std::io;

use super::hints::{FRESH_BLOCKS, Hint};
use super::{EncodeOptions, Encoder, SharedDictionary};
use crate::block::head::{EncodedNode, write_block};
use crate::error::{Error, Result};
use crate::values::{Column, Values};
use crate::{BLOCK_ROWS, Physical};

/// Encodes the blocks of one chunk.
pub struct ChunkEncoder {
    physical: Physical,
    options: EncodeOptions,
    shared: SharedDictionary,
    /// What was chosen for the block before, and how many blocks there were.
    hint: Option<Hint>,
    block_count: usize,
}

/// A finished block: the bytes that lie on disk, in memory and on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedBlock {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// 8 or 64: what the block's place should be a multiple of.
    pub alignment: usize,
    /// Rows.
    pub rows: usize,
    /// Ids of the encodings in its cascade, ascending.
    pub encodings: Vec<u8>,
    /// Number of distinct values, nulls aside, where the chooser had to know it; values under nulls may count as one more.
    pub distinct: Option<u64>,
}

impl EncodedBlock {
    /// XXH3-64 of the bytes.
    pub fn digest(&self) -> u64 {
        crate::digest(&self.bytes)
    }
}

impl ChunkEncoder {
    /// An encoder for the blocks of one chunk of this type.
    pub fn new(physical: Physical, options: EncodeOptions) -> Self {
        Self { physical, options, shared: SharedDictionary::default(), hint: None, block_count: 0 }
    }

    /// Encodes the next block, of at most 65,536 rows. `only` says that no other block follows in this chunk: then nothing
    /// is shared. `large` stores a value of 16 KiB or more and returns its offset.
    pub fn encode(
        &mut self,
        column: &Column<'_>,
        only: bool,
        large: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
    ) -> Result<EncodedBlock> {
        let follows = self.options.follow_hints && !self.block_count.is_multiple_of(FRESH_BLOCKS);
        let hint = self.hint.take().filter(|_| follows);
        self.encode_hinted(column, only, large, hint.as_ref(), false)
    }

    /// Encodes the next block as [`Self::hint`] said of another one, whatever that promises: the time that this takes is what encoding
    /// takes without choosing, for measurements. What a hint doesn't say is chosen as ever: which rows are null, and what lies beneath
    /// an encoding that its parent asked for.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_as(
        &mut self,
        hint: &Hint,
        column: &Column<'_>,
        only: bool,
        large: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
    ) -> Result<EncodedBlock> {
        self.encode_hinted(column, only, large, Some(hint), true)
    }

    /// What was chosen for the last block; `None` before the first, and where nothing was to be chosen.
    pub fn hint(&self) -> Option<&Hint> {
        self.hint.as_ref()
    }

    fn encode_hinted(
        &mut self,
        column: &Column<'_>,
        only: bool,
        large: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
        hint: Option<&Hint>,
        obeys: bool,
    ) -> Result<EncodedBlock> {
        if column.rows > BLOCK_ROWS || column.values.physical() != self.physical {
            let what = format!("a block of {} rows of {}", column.rows, column.values.physical());
            return Err(Error::InvalidArgument(format!("{what} in a chunk of {}", self.physical)));
        }
        let shared = if only { None } else { Some(&mut self.shared) };
        let new = Encoder::new(&self.options, shared, Some(large));
        let mut encoder = Encoder { forced: self.options.required, hint, obeys, ..new };
        let root = encoder.root(column)?;
        let (distinct, learned) = (encoder.distinct(), encoder.learned);
        self.hint = learned;
        if let (true, Some(hint)) = (only, &mut self.hint) {
            hint.forget_lessons();
        }
        self.block_count += 1;
        Ok(EncodedBlock { distinct, ..finished(&root, &self.physical, decoded_size_bytes(column, true), false) })
    }

    /// The shared parts, by number.
    pub fn finish(self) -> Result<Vec<EncodedBlock>> {
        let mut parts = Vec::new();
        self.shared.visit_parts(&mut |values| {
            let root = Encoder::new(&self.options, None, None).root(values)?;
            parts.push(finished(&root, &self.physical, decoded_size_bytes(values, false), true));
            Ok(())
        })?;
        Ok(parts)
    }
}

pub(crate) fn finished(root: &EncodedNode, physical: &Physical, decoded_bytes: u64, shared: bool) -> EncodedBlock {
    let mut encodings = Vec::new();
    root.visit(&mut |node| encodings.push(node.encoding));
    encodings.sort_unstable();
    encodings.dedup();
    let (bytes, alignment) = write_block(root, physical, decoded_bytes, shared);
    EncodedBlock { bytes, alignment, rows: root.rows, encodings, distinct: None }
}

/// The bound on decoded bytes that the block declares: see *Bounds* in `spec/block.md`. With `large_apart`, values for the
/// region of large values don't count.
pub(crate) fn decoded_size_bytes(column: &Column<'_>, large_apart: bool) -> u64 {
    let rows = column.rows as u64;
    let validity = if column.validity.is_some() { 4 * rows } else { 0 };
    let values = match &column.values {
        Values::Null | Values::Bool(_) => 4 * rows,
        Values::Fixed(fixed, _) => rows * fixed.size_bytes().max(4) as u64,
        Values::Bytes(strings) => {
            let counted = strings.iter().filter(|string| !large_apart || string.len() < crate::LARGE_VALUE_BYTES);
            4 * (rows + 1) + counted.map(|string| string.len() as u64).sum::<u64>()
        }
        Values::List(_, child) => 4 * (rows + 1) + decoded_size_bytes(child, false),
        Values::FixedList(_, child) => 4 * rows + decoded_size_bytes(child, false),
        Values::Struct(fields) => 4 * rows + fields.iter().map(|field| decoded_size_bytes(field, false)).sum::<u64>(),
    };
    validity + values
}
