//! Reading a file: opening it, finding columns, and the ways to their rows.
//!
//! Opening reads the tail. Everything else is read when it is asked for, so that nothing grows with the number of
//! columns before somebody asks for all of them.

mod batches;
mod cache;
mod categories;
pub(crate) mod column;
mod layout;
mod open;
pub(crate) mod open_column;
mod projection;
mod take;
mod verify;

use std::{
    collections::HashMap,
    ops::Range,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use entasis_encoding::{Block, Limits};

pub use batches::{Batches, ReadRequest};
pub use layout::Part;
pub use projection::{Projection, Selected};
pub use verify::Damage;

use self::{cache::BlockCache, column::LargeRegion};
use crate::{
    error::{Error, Result},
    metadata::{
        file_record::{FileRecord, SortKey},
        index::{WALKED_COLUMNS, candidates, record_ranges},
        pages::MetadataReader,
        record::ColumnRecord,
        trailer::{MAGIC, TRAILER_SIZE_BYTES, Trailer},
    },
    source::{BytesSource, FileSource, Source},
    write::SortColumn,
};

/// Bytes that opening reads from the end of a file: trailer, file record and, in files of ordinary width, all metadata.
pub const TAIL_BYTES: u64 = 64 * 1024;

/// Bytes that are read for a record whose length isn't known yet.
const RECORD_BYTES: u32 = 512;

/// What a reader may allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// Most bytes that one block may decode to: 256 MiB.
    pub decoded_bytes: u64,
    /// Bytes of blocks that are kept open for further calls of [`Reader::take`]: 64 MiB.
    pub open_block_bytes: u64,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { decoded_bytes: Limits::default().decoded_bytes, open_block_bytes: 64 * 1024 * 1024 }
    }
}

/// An open file. Cheap to clone; clones share what has been read.
#[derive(Clone)]
pub struct Reader {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) source: Arc<dyn Source>,
    limits: ReadLimits,
    trailer: Trailer,
    metadata: MetadataReader,
    file_record: OnceLock<FileRecord>,
    schema: OnceLock<SchemaRef>,
    /// Records by column number, as far as single ones were asked for.
    columns: Mutex<HashMap<u32, Arc<ColumnRecord>>>,
    /// Every column's record, in schema order, once all were asked for.
    all_columns: OnceLock<Vec<Arc<ColumnRecord>>>,
    /// Where blocks that stay open find their large values.
    large: Arc<LargeRegion>,
    cache: Mutex<BlockCache>,
}

impl Reader {
    /// Opens the file at `path`, to be read by position.
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_source(Arc::new(FileSource::open(path)?), ReadLimits::default())
    }

    /// Maps the file at `path` into memory, see [`BytesSource::map`]: the file must not shrink while it is open.
    pub fn open_mapped(path: &Path) -> Result<Self> {
        Self::from_source(Arc::new(BytesSource::map(path)?), ReadLimits::default())
    }

    /// Opens a file that is in memory.
    pub fn from_bytes(bytes: Bytes) -> Result<Self> {
        Self::from_source(Arc::new(BytesSource::new(bytes, "bytes in memory")), ReadLimits::default())
    }

    /// Opens a file from any source, by one read of its tail.
    pub fn from_source(source: Arc<dyn Source>, limits: ReadLimits) -> Result<Self> {
        let size_bytes = source.size_bytes();
        let tail = source.read(size_bytes.saturating_sub(TAIL_BYTES)..size_bytes)?;
        let trailer = match tail.last_chunk::<TRAILER_SIZE_BYTES>() {
            Some(bytes) if bytes[60..] == *b"ENT0" => Trailer::read(bytes, source.name(), size_bytes)?,
            _ => return Err(not_whole(&*source)),
        };
        let metadata = MetadataReader::new(source.clone(), &trailer, tail);
        let large = LargeRegion::new(source.clone(), trailer.pages_offset);
        let inner = Inner {
            source,
            limits,
            trailer,
            metadata,
            file_record: OnceLock::new(),
            schema: OnceLock::new(),
            columns: Mutex::default(),
            all_columns: OnceLock::new(),
            large,
            cache: Mutex::new(BlockCache::new(limits.open_block_bytes)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Rows of the file.
    pub fn rows(&self) -> u64 {
        self.inner.trailer.rows
    }

    /// Number of row groups.
    pub fn row_group_count(&self) -> usize {
        self.inner.trailer.row_groups as usize
    }

    /// Rows of each row group.
    pub fn row_group_rows(&self) -> Result<&[u64]> {
        Ok(&self.file_record()?.row_group_rows)
    }

    /// Number of top-level columns.
    pub fn column_count(&self) -> usize {
        self.inner.trailer.columns as usize
    }

    /// Bytes of the file.
    pub fn size_bytes(&self) -> u64 {
        self.inner.source.size_bytes()
    }

    /// What errors call the file.
    pub fn name(&self) -> &str {
        self.inner.source.name()
    }

    /// What the writer's user wanted to keep, in the order given.
    pub fn user_metadata(&self) -> Result<&[(String, Vec<u8>)]> {
        Ok(&self.file_record()?.user_metadata)
    }

    /// Name and version of the writer.
    pub fn written_by(&self) -> Result<&str> {
        Ok(&self.file_record()?.written_by)
    }

    /// The order of the rows, the most significant column first; verified when the file was written. Reads all columns'
    /// records if there is one.
    pub fn sort_order(&self) -> Result<Vec<SortColumn>> {
        let keys = &self.file_record()?.sort_order;
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let trees: Vec<_> = self.columns()?.iter().flat_map(ColumnRecord::tree).collect();
        let find = |key: &SortKey| {
            let found = trees.iter().find(|(_, record)| record.field_id == key.field_id);
            let column = found.map(|(path, _)| path.clone()).ok_or_else(|| {
                let what = format!("no column has the field id {}", key.field_id);
                Error::corrupt(self.name(), "sort order", self.inner.trailer.pages_offset, what)
            })?;
            Ok(SortColumn { column, descending: key.descending, nulls_first: key.nulls_first })
        };
        keys.iter().map(find).collect()
    }

    /// The whole schema, as it was written. It is put together when it is first asked for.
    pub fn schema(&self) -> Result<SchemaRef> {
        if let Some(schema) = self.inner.schema.get() {
            return Ok(schema.clone());
        }
        let fields: Vec<_> = self.columns()?.iter().map(|record| record.field.clone()).collect();
        let schema = Schema::new_with_metadata(fields, self.file_record()?.schema_metadata.clone());
        Ok(self.inner.schema.get_or_init(|| Arc::new(schema)).clone())
    }

    /// Numbers of the top-level columns of this name, ascending. Takes as long in wide files as in narrow ones.
    pub fn columns_named(&self, name: &str) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        if self.column_count() <= WALKED_COLUMNS {
            let columns = self.columns()?;
            found.extend((0..columns.len()).filter(|&column| columns[column].field.name() == name));
            return Ok(found);
        }
        for entry in candidates(&self.inner.metadata, &self.inner.trailer, name)? {
            let record = match self.known_column(entry.column) {
                Some(record) => record,
                None => self.read_record(entry.column, entry.record)?,
            };
            if record.field.name() == name {
                found.push(entry.column as usize);
            }
        }
        Ok(found)
    }

    /// The record of a top-level column: its field, chunks, blocks and zones.
    pub fn column(&self, index: usize) -> Result<Arc<ColumnRecord>> {
        let column = self.check_column(index)?;
        if let Some(record) = self.known_column(column) {
            return Ok(record);
        }
        let range = record_ranges(&self.inner.metadata, &self.inner.trailer, column..column + 1)?.remove(0);
        let bytes = self.inner.metadata.read(range.clone())?;
        self.keep_record(column, range.start, &bytes)
    }

    /// Opens a block of a column, with the shared parts that it may refer to.
    pub fn block(&self, column: &ColumnRecord, row_group: usize, block: usize) -> Result<Block> {
        column::open_one(self, column, row_group, block)
    }

    /// Where the blocks end and the metadata begin.
    pub(crate) fn blocks_end(&self) -> u64 {
        self.inner.trailer.pages_offset
    }

    fn check_column(&self, index: usize) -> Result<u32> {
        match u32::try_from(index) {
            Ok(column) if column < self.inner.trailer.columns => Ok(column),
            _ => Err(Error::InvalidArgument(format!("column {index} of {}", self.column_count()))),
        }
    }

    fn known_columns(&self) -> MutexGuard<'_, HashMap<u32, Arc<ColumnRecord>>> {
        self.inner.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The metadata of the schema.
    pub(crate) fn schema_metadata(&self) -> Result<&HashMap<String, String>> {
        Ok(&self.file_record()?.schema_metadata)
    }

    fn file_record(&self) -> Result<&FileRecord> {
        if let Some(record) = self.inner.file_record.get() {
            return Ok(record);
        }
        let record = FileRecord::read(&self.inner.metadata, &self.inner.trailer)?;
        Ok(self.inner.file_record.get_or_init(|| record))
    }

    /// A column's record, if somebody has asked for it before.
    fn known_column(&self, column: u32) -> Option<Arc<ColumnRecord>> {
        match self.inner.all_columns.get() {
            Some(all) => all.get(column as usize).cloned(),
            None => self.known_columns().get(&column).cloned(),
        }
    }

    /// Every column's record, in schema order. Reads them together.
    fn columns(&self) -> Result<&[Arc<ColumnRecord>]> {
        if let Some(all) = self.inner.all_columns.get() {
            return Ok(all);
        }
        let ranges = record_ranges(&self.inner.metadata, &self.inner.trailer, 0..self.inner.trailer.columns)?;
        let records = self.inner.metadata.read(0..self.inner.trailer.record_table)?;
        let known = self.known_columns().clone();
        let parse = |(column, range): (u32, Range<u32>)| match known.get(&column) {
            Some(record) => Ok(record.clone()),
            None => self.parse_record(range.start, &records[range.start as usize..range.end as usize]).map(Arc::new),
        };
        let all = (0..).zip(ranges).map(parse).collect::<Result<Vec<_>>>()?;
        Ok(self.inner.all_columns.get_or_init(|| all))
    }

    /// Reads a record by its logical offset, its length being unknown.
    fn read_record(&self, column: u32, offset: u32) -> Result<Arc<ColumnRecord>> {
        let metadata = &self.inner.metadata;
        let end = self.inner.trailer.record_table;
        let guess = offset..end.min(offset.saturating_add(RECORD_BYTES));
        let bytes = match metadata.read(guess.clone()) {
            // The page after the record may be damaged: it hides what lies in it, and nothing else.
            Err(Error::Corrupt { .. }) => metadata.read(offset..guess.end.min(metadata.page_end(offset)))?,
            read => read?,
        };
        let size_bytes = ColumnRecord::size_bytes(&bytes).filter(|&size| size <= u64::from(end - offset));
        let Some(size_bytes) = size_bytes else {
            let what = "it is longer than the records together";
            return Err(Error::corrupt(self.name(), "column record", metadata.file_offset(offset), what));
        };
        let bytes = match bytes.get(..size_bytes as usize) {
            Some(whole) => bytes.slice_ref(whole),
            None => metadata.read(offset..offset + size_bytes as u32)?,
        };
        self.keep_record(column, offset, &bytes)
    }

    /// Parses a record that lies at a logical offset, and keeps it.
    fn keep_record(&self, column: u32, offset: u32, bytes: &[u8]) -> Result<Arc<ColumnRecord>> {
        let record = self.parse_record(offset, bytes)?;
        Ok(self.known_columns().entry(column).or_insert_with(|| Arc::new(record)).clone())
    }

    fn parse_record(&self, offset: u32, bytes: &[u8]) -> Result<ColumnRecord> {
        ColumnRecord::parse(bytes, self.row_group_count())
            .map_err(|error| error.into_error(self.name(), self.inner.metadata.file_offset(offset)))
    }
}

/// Why a file without a trailer can't be read: it was cut, or it is something else.
fn not_whole(source: &dyn Source) -> Error {
    let head = match source.read(0..source.size_bytes().min(MAGIC.len() as u64)) {
        Ok(head) => head,
        Err(error) => return error,
    };
    let file = source.name();
    if head == MAGIC[..] || (!head.is_empty() && head.len() < MAGIC.len() && MAGIC.starts_with(&head)) {
        return Error::Truncated { file: file.to_owned(), what: "there is no trailer at its end".to_owned() };
    }
    Error::Unsupported(format!("{file} isn't an Entasis file"))
}
