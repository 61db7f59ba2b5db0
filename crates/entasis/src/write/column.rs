//! One column while it is written: rows that wait for their block to fill, and encoded blocks that wait for the row
//! group to end.

use std::{collections::VecDeque, io, sync::Arc};

use arrow_array::{Array, ArrayRef, BooleanArray, cast::AsArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, FieldRef};
use entasis_encoding::{BLOCK_ROWS, ChunkEncoder, EncodedBlock, Physical};

use super::{asked::ColumnOptions, sink::Sink, size::Size};
use crate::{
    arrow::{Split, plain_array, with_column, without_dictionaries},
    bloom::{BloomRef, distinct_hashes, filters},
    error::{Error, Result},
    metadata::record::{BlockRef, Chunk, PartRef, WrittenColumn},
    zone::Zone,
};

/// A block ends at the first multiple of 1,024 rows at which its decoded bytes reach this.
pub const BLOCK_BYTES: u64 = 8 * 1024 * 1024;

/// Takes a large value and says where it put it.
pub type PutLarge<'a> = dyn FnMut(&[u8]) -> io::Result<u64> + 'a;

/// A column that is being written.
pub struct ColumnWriter {
    physical: Physical,
    /// Whether the column is a struct's validity, which needs no blocks where nothing is null.
    is_struct: bool,
    options: ColumnOptions,
    /// Rows without a block, in order.
    pending: VecDeque<ArrayRef>,
    /// Rows and bytes of the block that is filling, as planned.
    block_rows: usize,
    block_bytes: u64,
    /// Rows of the blocks that are full but not encoded, and the row of the group at which each ends.
    full: VecDeque<(usize, u64)>,
    has_large: bool,
    encoder: Option<ChunkEncoder>,
    blocks: Vec<(EncodedBlock, Zone)>,
    /// Per block, what its Bloom filter is made of; none if the column has no filters.
    hashes: Vec<Vec<u64>>,
    /// Bytes of the chunk that was written last.
    chunk_bytes: u64,
    null_count: usize,
    place: u64,
    written: WrittenColumn,
}

impl ColumnWriter {
    /// Nothing yet of a column of `physical` values.
    pub fn new(physical: Physical, is_struct: bool, options: ColumnOptions) -> Self {
        Self {
            physical,
            is_struct,
            options,
            pending: VecDeque::new(),
            block_rows: 0,
            block_bytes: 0,
            full: VecDeque::new(),
            has_large: false,
            encoder: None,
            blocks: Vec::new(),
            hashes: Vec::new(),
            chunk_bytes: 0,
            null_count: 0,
            place: 0,
            written: WrittenColumn::default(),
        }
    }

    /// What a batch gives to this column, as a plain array: a struct gives its validity.
    pub fn array_of(split: &Split) -> Result<ArrayRef> {
        match split {
            Split::Leaf(array) => plain_array(array),
            Split::Struct(rows, validity) => {
                let all_valid = || BooleanBuffer::new_set(*rows);
                let bits = validity.as_ref().map_or_else(all_valid, |nulls| nulls.inner().clone());
                Ok(Arc::new(BooleanArray::new(bits, None)))
            }
        }
    }

    /// Appends rows.
    pub fn push(&mut self, array: ArrayRef) {
        if array.is_empty() {
            return;
        }
        self.null_count += match self.is_struct {
            true => array.len() - array.as_boolean().true_count(),
            false => 0,
        };
        self.pending.push_back(array);
    }

    /// Counts rows of `size` that were pushed, or are about to be, and end at `row` of the group. Blocks may end there
    /// only if `at_vector`.
    pub fn count(&mut self, rows: usize, size: Size, row: u64, at_vector: bool) {
        self.block_rows += rows;
        self.block_bytes += size.inline;
        self.has_large |= size.has_large();
        if at_vector && (self.block_rows == BLOCK_ROWS || self.block_bytes >= BLOCK_BYTES) {
            self.end_block(row);
        }
    }

    /// Ends the block that is filling, if it has rows, at `row` of the group.
    pub fn end_block(&mut self, row: u64) {
        if self.block_rows > 0 {
            self.full.push_back((self.block_rows, row));
        }
        (self.block_rows, self.block_bytes) = (0, 0);
    }

    /// The row of the group at which the next block ends that can be encoded.
    pub fn next_full(&self) -> Option<u64> {
        self.full.front().map(|&(_, row)| row)
    }

    /// Whether blocks that wait may have large values, whose places depend on the order in which blocks are encoded.
    pub fn has_large(&self) -> bool {
        self.has_large
    }

    /// Encodes the next full block, if any. `group_rows` is the row at which the group ends, if that is known.
    pub fn encode_next(&mut self, group_rows: Option<u64>, large: &mut PutLarge<'_>) -> Result<()> {
        let Some((rows, end)) = self.full.pop_front() else { return Ok(()) };
        let array = self.take_front(rows)?;
        let only = self.blocks.is_empty() && self.full.is_empty() && group_rows == Some(end);
        let encoder =
            self.encoder.get_or_insert_with(|| ChunkEncoder::new(self.physical.clone(), self.options.encode.clone()));
        let ColumnOptions { asked, bloom_rate, .. } = &self.options;
        let (block, zone, hashes) = with_column(&array, |column| {
            let block = encoder.encode(column, only, large).map_err(|error| refused(error, asked.as_deref()))?;
            let zone = Zone::of(column, block.distinct);
            Ok::<_, Error>((block, zone, bloom_rate.map(|_| distinct_hashes(column))))
        })??;
        self.blocks.push((block, zone));
        self.hashes.extend(hashes);
        Ok(())
    }

    /// The first `rows` pending rows as one array.
    fn take_front(&mut self, rows: usize) -> Result<ArrayRef> {
        let mut taken = Vec::new();
        let mut wanted = rows;
        while let Some(array) = self.pending.pop_front() {
            if array.len() > wanted {
                self.pending.push_front(array.slice(wanted, array.len() - wanted));
                taken.push(array.slice(0, wanted));
                break;
            }
            wanted -= array.len();
            taken.push(array);
            if wanted == 0 {
                break;
            }
        }
        if taken.len() == 1 { Ok(taken.remove(0)) } else { concat(&taken) }
    }

    /// Writes the chunk of a row group that has ended, all of its blocks being encoded, and begins another.
    pub fn write_chunk<W: io::Write>(&mut self, sink: &mut Sink<W>) -> Result<()> {
        let mut chunk = Chunk::default();
        let blocks = std::mem::take(&mut self.blocks);
        let parts = self.encoder.take().map_or(Ok(Vec::new()), ChunkEncoder::finish)?;
        let needed = !self.is_struct || self.null_count > 0;
        (self.null_count, self.has_large) = (0, false);
        if needed {
            for part in &parts {
                let offset = write_block(part, sink)?;
                self.add_encodings(&part.encodings);
                chunk.parts.push(PartRef { offset, size_bytes: part.bytes.len() as u64, digest: part.digest() });
            }
            for (block, zone) in blocks {
                let offset = write_block(&block, sink)?;
                self.add_encodings(&block.encodings);
                let (size_bytes, rows) = (block.bytes.len() as u64, block.rows as u32);
                chunk.blocks.push(BlockRef { offset, size_bytes, rows, zone });
            }
        }
        self.chunk_bytes = chunk.size_bytes();
        chunk.write(&self.physical, &mut self.place, &mut self.written.chunks);
        Ok(())
    }

    /// Writes the Bloom filters of the chunk that was written last. They are left out where reading them all is no cheaper than reading the
    /// values.
    pub fn write_bloom<W: io::Write>(&mut self, sink: &mut Sink<W>) -> Result<()> {
        let hashes = std::mem::take(&mut self.hashes);
        let Some(rate) = self.options.bloom_rate else { return Ok(()) };
        let bloom = match filters(&hashes, rate, self.chunk_bytes) {
            None => None,
            Some((layout, bytes)) => {
                let offset = sink.position();
                sink.write(&bytes)?;
                Some(BloomRef { offset, layout })
            }
        };
        self.written.blooms.push(bloom);
        Ok(())
    }

    fn add_encodings(&mut self, encodings: &[u8]) {
        for id in encodings {
            if let Err(index) = self.written.encodings.binary_search(id) {
                self.written.encodings.insert(index, *id);
            }
        }
    }

    /// Puts the blocks of an ordered dictionary's values into the column's record.
    pub fn set_categories(&mut self, blocks: Vec<EncodedBlock>) {
        blocks.iter().for_each(|block| self.add_encodings(&block.encodings));
        self.written.categories = blocks.into_iter().map(|block| block.bytes).collect();
    }

    /// What the column's record needs.
    pub fn written(&self) -> &WrittenColumn {
        &self.written
    }
}

/// The error of an encoding that was asked for and can't hold the values, with the column.
fn refused(error: entasis_encoding::Error, asked: Option<&str>) -> Error {
    match (error, asked) {
        (entasis_encoding::Error::InvalidArgument(what), Some(asked)) => {
            Error::InvalidArgument(format!("{asked}: {what}"))
        }
        (error, _) => error.into(),
    }
}

fn write_block<W: io::Write>(block: &EncodedBlock, sink: &mut Sink<W>) -> Result<u64> {
    sink.align(block.alignment)?;
    let offset = sink.position();
    sink.write(&block.bytes)?;
    Ok(offset)
}

/// The arrays one after the other. Dictionaries that together have more values than their keys can tell apart are
/// replaced by their values, which is what blocks hold anyway; those inside of arrays are in any case, as Arrow panics on some.
fn concat(arrays: &[ArrayRef]) -> Result<ArrayRef> {
    if arrays.iter().any(|array| has_inner_dictionary(array.data_type())) {
        let flat = arrays.iter().map(without_dictionaries).collect::<Result<Vec<_>>>()?;
        return concat(&flat);
    }
    let lent: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
    match arrow_select::concat::concat(&lent) {
        Err(ArrowError::DictionaryKeyOverflowError) => {
            let flat = arrays.iter().map(without_dictionaries).collect::<Result<Vec<_>>>()?;
            concat(&flat)
        }
        other => Ok(other?),
    }
}

/// Whether there are dictionaries among the children of a plain type.
fn has_inner_dictionary(data_type: &DataType) -> bool {
    let is_any = |field: &FieldRef| {
        matches!(field.data_type(), DataType::Dictionary(..)) || has_inner_dictionary(field.data_type())
    };
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => is_any(item),
        DataType::Struct(fields) => fields.iter().any(is_any),
        _ => false,
    }
}
