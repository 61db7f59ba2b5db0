//! From a column's record to open blocks and arrays.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use entasis_encoding::{Block, Decoded, DecodedValues, LargeValues, Limits, Parts, Physical};

use super::{Reader, categories::categories_of, projection::Selected};
use crate::{
    arrow::{Categories, ColumnNode, Split, Strings, empty_decoded, target_type, to_arrow},
    error::{Error, Result},
    metadata::record::{BlockRef, Chunk, ColumnRecord, PartRef},
    source::Source,
};

/// The bytes that are fetched beyond a large value that isn't at hand: those after it are likely to be asked for next.
const LARGE_AHEAD_BYTES: u64 = 1024 * 1024;

/// A column that is read: a leaf, or the validity of a struct.
#[derive(Clone)]
pub(crate) struct ReadColumn {
    /// Number of the top-level column, and place in its tree in pre-order: what tells columns of a file apart.
    pub key: (usize, usize),
    pub record: Arc<ColumnRecord>,
    /// Names joined by dots.
    pub path: String,
    pub physical: Physical,
    /// The Arrow type that is wanted; boolean for the validity of a struct.
    pub data_type: DataType,
    /// What every array of an ordered dictionary begins with.
    pub categories: Option<Arc<Categories>>,
}

impl ReadColumn {
    /// A column of the file of `reader` that comes out as `data_type`.
    ///
    /// # Errors
    /// Corrupt if categories can't be read, over the limit if they decode to more than a block may.
    pub fn new(
        reader: &Reader,
        key: (usize, usize),
        record: &Arc<ColumnRecord>,
        path: String,
        data_type: DataType,
    ) -> Result<Self> {
        let categories = categories_of(record, &data_type, reader.inner.limits.decoded_bytes).map_err(|error| {
            let part = format!("categories of column {path:?}");
            Error::corrupt(reader.name(), part, 0, error.to_string())
        })?;
        let physical = record.physical()?;
        Ok(Self { key, record: record.clone(), path, physical, data_type, categories: categories.map(Arc::new) })
    }
}

/// Columns that are read, and how they are put together.
pub(crate) struct ReadColumns {
    /// One per top-level column that is read; `columns` holds the columns of all trees in pre-order.
    pub trees: Vec<ColumnNode>,
    pub columns: Vec<ReadColumn>,
}

impl ReadColumns {
    /// The columns of `selected`, with byte strings as `strings` wants them.
    pub fn new(reader: &Reader, selected: Option<&[Selected]>, strings: Strings) -> Result<Self> {
        let mut all = Self { trees: Vec::new(), columns: Vec::new() };
        match selected {
            None => {
                for (number, record) in reader.columns()?.iter().enumerate() {
                    all.add_tree(reader, number, record, None, strings)?;
                }
            }
            Some(selected) => {
                for column in selected {
                    let record = reader.column(column.column)?;
                    all.add_tree(reader, column.column, &record, column.fields.as_deref(), strings)?;
                }
            }
        }
        Ok(all)
    }

    fn add_tree(
        &mut self,
        reader: &Reader,
        number: usize,
        record: &Arc<ColumnRecord>,
        fields: Option<&[Selected]>,
        strings: Strings,
    ) -> Result<()> {
        let tree = self.add(reader, (number, 0), record, record.field.name().clone(), fields, strings)?;
        self.trees.push(tree);
        Ok(())
    }

    fn add(
        &mut self,
        reader: &Reader,
        key: (usize, usize),
        record: &Arc<ColumnRecord>,
        path: String,
        fields: Option<&[Selected]>,
        strings: Strings,
    ) -> Result<ColumnNode> {
        let physical = record.physical()?;
        let Some(children) = &record.children else {
            if fields.is_some() {
                return Err(Error::InvalidArgument(format!("column {path:?} has no fields")));
            }
            let data_type = target_type(record.field.data_type(), strings);
            let field = match &data_type == record.field.data_type() {
                true => record.field.clone(),
                false => Arc::new(Field::clone(&record.field).with_data_type(data_type.clone())),
            };
            self.columns.push(ReadColumn::new(reader, key, record, path, data_type)?);
            return Ok(ColumnNode { field, physical, children: None });
        };
        let node = ColumnNode { field: record.field.clone(), physical: physical.clone(), children: None };
        let data_type = DataType::Boolean;
        self.columns.push(ReadColumn::new(reader, key, record, path.clone(), data_type)?);
        let whole: Vec<Selected>;
        let fields = match fields {
            Some(fields) => fields,
            None => {
                whole = (0..children.len()).map(|column| Selected { column, fields: None }).collect();
                &whole
            }
        };
        // Each field's place in pre-order.
        let places: Vec<usize> = children
            .iter()
            .scan(key.1 + 1, |place, child| {
                let own = *place;
                *place += child.column_count();
                Some(own)
            })
            .collect();
        let add_field = |field: &Selected| {
            let child = children.get(field.column).ok_or_else(|| {
                Error::InvalidArgument(format!("field {} of column {path:?} with {}", field.column, children.len()))
            })?;
            let path = format!("{path}.{}", child.field.name());
            self.add(reader, (key.0, places[field.column]), child, path, field.fields.as_deref(), strings)
        };
        let nodes = fields.iter().map(add_field).collect::<Result<_>>()?;
        Ok(node.with_children(nodes))
    }

    /// The arrays of all trees, from those of all columns.
    pub fn assemble(&self, parts: Vec<Split>, file: &str) -> Result<Vec<ArrayRef>> {
        let mut parts = parts.into_iter();
        let assemble = |tree: &ColumnNode| {
            tree.assemble(&mut parts)
                .map_err(|error| Error::corrupt(file, format!("column {:?}", tree.field.name()), 0, error.to_string()))
        };
        self.trees.iter().map(assemble).collect()
    }
}

/// What blocks are opened with.
pub(crate) struct Opener {
    pub source: Arc<dyn Source>,
    large: Arc<LargeRegion>,
    limits: Limits,
    /// Blocks lie before the metadata.
    blocks_end: u64,
}

impl Opener {
    /// Opens blocks of the file of `reader`, from bytes of `source`.
    pub fn new(reader: &Reader, source: Arc<dyn Source>) -> Self {
        let blocks_end = reader.blocks_end();
        let large = match Arc::ptr_eq(&source, &reader.inner.source) {
            true => reader.inner.large.clone(),
            false => LargeRegion::new(source.clone(), blocks_end),
        };
        let limits = Limits { decoded_bytes: reader.inner.limits.decoded_bytes };
        Self { source, large, limits, blocks_end }
    }

    /// Whether blocks are read from the reader's own source.
    pub fn is_of(&self, reader: &Reader) -> bool {
        Arc::ptr_eq(&self.large, &reader.inner.large)
    }

    /// Checks that a block lies where blocks are and isn't longer than a reader may hold.
    pub fn check_range(&self, range: Range<u64>, part: impl Fn() -> String) -> Result<Range<u64>> {
        let file = self.source.name();
        let size_bytes = range.end - range.start;
        if range.end > self.blocks_end {
            let what = format!("it has {size_bytes} bytes, but the blocks end at byte {}", self.blocks_end);
            return Err(Error::corrupt(file, part(), range.start, what));
        }
        // Encoded values may be a little longer than decoded ones, but not a lot.
        let limit = self.limits.decoded_bytes.saturating_add(1024 * 1024);
        if size_bytes > limit {
            let (what, part, offset) = ("size".to_owned(), part(), range.start);
            return Err(Error::OverLimit { file: file.to_owned(), part, offset, what, declared: size_bytes, limit });
        }
        Ok(range)
    }

    /// Opens a shared part.
    pub fn open_part(&self, column: &ReadColumn, part: &PartRef, number: usize, bytes: Bytes) -> Result<Block> {
        let name = || format!("column {:?}, shared part {number}", column.path);
        Block::open(bytes, &Parts::new(), Some(self.large.clone()), &self.limits)
            .map_err(|error| self.place(error, &name(), part.offset))
    }

    /// Opens a block and holds it against what the record says.
    pub fn open_block(
        &self,
        column: &ReadColumn,
        place: &BlockPlace,
        block: &BlockRef,
        parts: &Parts,
        bytes: Bytes,
    ) -> Result<Block> {
        let open = Block::open(bytes, parts, Some(self.large.clone()), &self.limits)
            .map_err(|error| self.place(error, &place.name(column), block.offset))?;
        self.check_block(column, place, block, open)
    }

    /// As [`Self::open_block`], with the head alone.
    pub fn open_head(
        &self,
        column: &ReadColumn,
        place: &BlockPlace,
        block: &BlockRef,
        parts: &Parts,
        head: &[u8],
    ) -> Result<Block> {
        let open = Block::open_head(head, block.size_bytes, parts, Some(self.large.clone()), &self.limits)
            .map_err(|error| self.place(error, &place.name(column), block.offset))?;
        self.check_block(column, place, block, open)
    }

    fn check_block(&self, column: &ReadColumn, place: &BlockPlace, block: &BlockRef, open: Block) -> Result<Block> {
        if open.rows() == block.rows as usize && *open.physical() == column.physical {
            return Ok(open);
        }
        let what = format!(
            "{} rows of {}, where the record says {} of {}",
            open.rows(),
            open.physical(),
            block.rows,
            column.physical
        );
        Err(Error::corrupt(self.source.name(), place.name(column), block.offset, what))
    }

    /// Gives an error of a block its place in the file. What the source said about a large value comes first.
    pub fn place(&self, error: entasis_encoding::Error, part: &str, offset: u64) -> Error {
        match (self.large.take_failure(), error) {
            (Some(failure), entasis_encoding::Error::LargeValue(_)) => failure,
            (_, error) => Error::in_block(error, self.source.name(), part, offset),
        }
    }
}

/// Which block of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockPlace {
    pub row_group: usize,
    pub block: usize,
}

impl BlockPlace {
    /// What errors call the block.
    pub fn name(&self, column: &ReadColumn) -> String {
        format!("column {:?}, row group {}, block {}", column.path, self.row_group, self.block)
    }
}

/// What errors call the Bloom filters of a chunk.
pub(crate) fn bloom_name(column: &ReadColumn, row_group: usize) -> String {
    format!("column {:?}, row group {row_group}, Bloom filters", column.path)
}

/// The region for large values, and for each thread its last failure to read it. What a block says of such a failure has
/// lost its kind; the thread that asked the block finds it here.
pub(crate) struct LargeRegion {
    source: Arc<dyn Source>,
    end: u64,
    failures: Mutex<HashMap<ThreadId, Error>>,
}

impl LargeRegion {
    /// The region of a file that ends, at the latest, at byte `end`.
    pub fn new(source: Arc<dyn Source>, end: u64) -> Arc<Self> {
        Arc::new(Self { source, end, failures: Mutex::default() })
    }

    fn take_failure(&self) -> Option<Error> {
        self.failures().remove(&thread::current().id())
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<ThreadId, Error>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LargeValues for LargeRegion {
    fn fetch(&self, offset: u64, size_bytes: u64) -> entasis_encoding::Result<Bytes> {
        let refuse = |what: String| entasis_encoding::Error::LargeValue(what);
        let end = offset.checked_add(size_bytes).filter(|&end| end <= self.end);
        let end = end.ok_or_else(|| refuse(format!("{size_bytes} bytes at {offset} aren't in the file")))?;
        self.source.read(offset..end).map_err(|error| {
            let what = refuse(error.to_string());
            let error = match error {
                Error::Missing(_) => {
                    let ahead = offset..end.saturating_add(LARGE_AHEAD_BYTES).min(self.end);
                    Error::Missing(vec![ahead])
                }
                other => other,
            };
            self.failures().insert(thread::current().id(), error);
            what
        })
    }
}

/// The chunk of a column in a row group of `rows`.
pub(crate) fn chunk_of<'a>(reader: &Reader, column: &'a ReadColumn, row_group: usize, rows: u64) -> Result<&'a Chunk> {
    column.record.chunk(row_group, rows, reader.name(), &column.path)
}

/// What was decoded of a column as what its tree takes. Nulls of a struct are the zeros of its validity.
pub(crate) fn split_of(column: &ReadColumn, mut decoded: Decoded, file: &str) -> Result<Split> {
    decoded.shrink();
    if column.record.children.is_some() {
        let rows = decoded.rows;
        let DecodedValues::Bool(bits) = decoded.values else {
            return Err(Error::corrupt(file, format!("column {:?}", column.path), 0, "its validity isn't boolean"));
        };
        let nulls = NullBuffer::new(BooleanBuffer::new(bits.into_bytes().into(), 0, rows));
        return Ok(Split::Struct(rows, (nulls.null_count() > 0).then_some(nulls)));
    }
    let array = match (&column.categories, &column.data_type) {
        (Some(categories), DataType::Dictionary(key, value)) => categories.to_dictionary(decoded, key, value),
        (_, data_type) => to_arrow(decoded, data_type),
    };
    match array {
        Ok(array) => Ok(Split::Leaf(array)),
        Err(error @ (Error::Unsupported(_) | Error::InvalidArgument(_))) => Err(error),
        Err(error) => Err(Error::corrupt(file, format!("column {:?}", column.path), 0, error.to_string())),
    }
}

/// An empty place for decoded values of a column.
pub(crate) fn empty(column: &ReadColumn) -> Result<Decoded> {
    empty_decoded(&column.data_type)
}

/// Rows of a struct that has no blocks, as nothing of it is null.
pub(crate) fn extend_not_null(decoded: &mut Decoded, rows: usize) {
    if let DecodedValues::Bool(bits) = &mut decoded.values {
        bits.extend_constant(true, rows);
    }
    decoded.extend_valid(rows);
}

/// Opens one block of a column, with its shared parts.
pub(crate) fn open_one(reader: &Reader, record: &ColumnRecord, row_group: usize, block: usize) -> Result<Block> {
    let (path, data_type) = (record.field.name().clone(), record.field.data_type().clone());
    let column = ReadColumn::new(reader, (0, 0), &Arc::new(record.clone()), path, data_type)?;
    let place = BlockPlace { row_group, block };
    let chunk = record.chunks.get(row_group);
    let (Some(chunk), Some(reference)) = (chunk, chunk.and_then(|chunk| chunk.blocks.get(block))) else {
        return Err(Error::InvalidArgument(format!("there is no {}", place.name(&column))));
    };
    let opener = Opener::new(reader, reader.inner.source.clone());
    let parts = open_parts(&opener, &column, chunk)?;
    let range = opener.check_range(reference.range(), || place.name(&column))?;
    opener.open_block(&column, &place, reference, &parts, opener.source.read(range)?)
}

/// Reads and opens all shared parts of a chunk.
pub(crate) fn open_parts(opener: &Opener, column: &ReadColumn, chunk: &Chunk) -> Result<Parts> {
    let ranges = part_ranges(opener, column, chunk)?;
    open_read_parts(opener, column, chunk, opener.source.read_many(&ranges)?)
}

/// Where the shared parts of a chunk are.
pub(crate) fn part_ranges(opener: &Opener, column: &ReadColumn, chunk: &Chunk) -> Result<Vec<Range<u64>>> {
    let name = |number: usize| format!("column {:?}, shared part {number}", column.path);
    let range = |(number, part): (usize, &PartRef)| opener.check_range(part.range(), || name(number));
    chunk.parts.iter().enumerate().map(range).collect()
}

/// Opens the shared parts of a chunk, which have been read.
pub(crate) fn open_read_parts(
    opener: &Opener,
    column: &ReadColumn,
    chunk: &Chunk,
    read: impl IntoIterator<Item = Bytes>,
) -> Result<Parts> {
    let mut parts = Parts::new();
    for ((number, part), bytes) in chunk.parts.iter().enumerate().zip(read) {
        parts.push(opener.open_part(column, part, number, bytes)?);
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that never answers, and says whom it didn't.
    struct Down;

    impl Source for Down {
        fn size_bytes(&self) -> u64 {
            100
        }

        fn name(&self) -> &str {
            "a.ent"
        }

        fn read(&self, range: Range<u64>) -> Result<Bytes> {
            Err(Error::Truncated { file: self.name().to_owned(), what: format!("byte {}", range.start) })
        }
    }

    #[test]
    fn every_thread_learns_why_its_large_value_could_not_be_read() {
        let region = LargeRegion::new(Arc::new(Down), 100);
        let why = || region.take_failure().map(|failure| failure.to_string()).unwrap_or_default();
        assert!(region.fetch(7, 1).is_err());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(why(), "", "the failure of another thread");
                assert!(region.fetch(8, 1).is_err());
                assert!(why().contains("byte 8"));
            });
        });
        assert!(why().contains("byte 7"));
        assert_eq!(why(), "");
    }
}
