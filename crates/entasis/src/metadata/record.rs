//! Column records: a column's field, its blocks and their zones (`spec/file.md`, *Column record*).

use std::{collections::HashMap, ops::Range, sync::Arc};

use arrow_schema::{DataType, Field, FieldRef, Fields};
use bytes::Bytes;
use entasis_encoding::{
    BLOCK_ROWS, MAX_NESTING, Physical, VECTOR_ROWS,
    wire::{Reader, WireError, write_bytes, write_signed, write_varint},
};

use super::optional::{has_optional, read_optional, write_optional};
use crate::{
    arrow::{
        ColumnNode, ordered_types, physical_of,
        types::{read_metadata, read_text, read_type, write_metadata, write_shredded_struct_type, write_type},
    },
    bloom::BloomRef,
    error::{Error, Result},
    zone::Zone,
};

const NULLABLE: u8 = 1;
const METADATA: u8 = 2;
const STRUCT: u8 = 4;
const CATEGORIES: u8 = 8;
const OPTIONAL: u8 = 16;

/// A column: its field, and where its blocks are.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnRecord {
    /// The Arrow field; that of a struct holds all of its fields.
    pub field: FieldRef,
    /// Stable number of the column, unique in the file.
    pub field_id: u64,
    /// Blocks of the values of an ordered dictionary, in their order.
    pub categories: Vec<Bytes>,
    /// Ids of the encodings that the blocks use, ascending.
    pub encodings: Vec<u8>,
    /// One per row group.
    pub chunks: Vec<Chunk>,
    /// The fields of a shredded struct, whose own blocks hold its validity; `None` for all other columns.
    pub children: Option<Vec<Arc<ColumnRecord>>>,
}

/// One column in one row group. A struct without nulls has no blocks; any other column has as many rows as the group.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chunk {
    /// The shared parts, by number.
    pub parts: Vec<PartRef>,
    /// The blocks, by row.
    pub blocks: Vec<BlockRef>,
    /// The Bloom filters of all blocks.
    pub bloom: Option<BloomRef>,
}

/// Where a shared part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartRef {
    /// File offset.
    pub offset: u64,
    /// Bytes in the file.
    pub size_bytes: u64,
    /// XXH3-64 of its bytes.
    pub digest: u64,
}

/// Where a block is, and what is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockRef {
    /// File offset.
    pub offset: u64,
    /// Bytes in the file.
    pub size_bytes: u64,
    /// Rows, 1 to 65,536.
    pub rows: u32,
    /// Statistics.
    pub zone: Zone,
}

impl PartRef {
    /// The bytes in the file.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.size_bytes)
    }
}

impl BlockRef {
    /// The bytes in the file.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.size_bytes)
    }
}

impl Chunk {
    /// Appends the chunk. `place` is where the column's block or part before ended, and becomes where its last one ends.
    pub fn write(&self, physical: &Physical, place: &mut u64, out: &mut Vec<u8>) {
        write_varint(self.blocks.len() as u64, out);
        if self.blocks.is_empty() {
            return;
        }
        let mut write_place = |offset: u64, size_bytes: u64, out: &mut Vec<u8>| {
            write_signed(offset.wrapping_sub(*place) as i64, out);
            write_varint(size_bytes, out);
            *place = offset + size_bytes;
        };
        write_varint(self.parts.len() as u64, out);
        for part in &self.parts {
            write_place(part.offset, part.size_bytes, out);
            out.extend_from_slice(&part.digest.to_le_bytes());
        }
        for block in &self.blocks {
            write_place(block.offset, block.size_bytes, out);
            write_varint(u64::from(block.rows) - 1, out);
            block.zone.write(physical, out);
        }
    }

    fn read(reader: &mut Reader<'_>, physical: &Physical, place: &mut u64) -> Result<Self, WireError> {
        let mut read_place = |reader: &mut Reader<'_>| {
            let at = WireError(reader.position());
            let offset = place.wrapping_add_signed(reader.signed()?);
            let size_bytes = reader.varint()?;
            *place = offset.checked_add(size_bytes).ok_or(at)?;
            Ok((offset, size_bytes))
        };
        let block_count = reader.length(reader.remaining())?;
        if block_count == 0 {
            return Ok(Self::default());
        }
        let part_count = reader.length(reader.remaining())?;
        let mut chunk = Self::default();
        for _ in 0..part_count {
            let (offset, size_bytes) = read_place(reader)?;
            chunk.parts.push(PartRef { offset, size_bytes, digest: reader.u64()? });
        }
        for _ in 0..block_count {
            let (offset, size_bytes) = read_place(reader)?;
            let rows = reader.length(BLOCK_ROWS - 1)? as u32 + 1;
            let zone = Zone::read(physical, reader)?;
            chunk.blocks.push(BlockRef { offset, size_bytes, rows, zone });
        }
        Ok(chunk)
    }

    /// Bytes of its blocks and shared parts.
    pub fn size_bytes(&self) -> u64 {
        let parts = self.parts.iter().map(|part| part.size_bytes);
        parts.chain(self.blocks.iter().map(|block| block.size_bytes)).fold(0, u64::saturating_add)
    }

    /// Bytes of its Bloom filters.
    pub fn bloom_bytes(&self) -> u64 {
        self.bloom.map_or(0, |bloom| bloom.layout.size_bytes())
    }

    /// Rows of all blocks.
    pub fn rows(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.rows)).sum()
    }

    /// The blocks that hold `rows`, each with its number and first row.
    pub fn overlapping(&self, rows: Range<u64>) -> impl Iterator<Item = (usize, u64, &BlockRef)> {
        let mut first = 0;
        let starts = self.blocks.iter().enumerate().map(move |(index, block)| {
            let start = first;
            first += u64::from(block.rows);
            (index, start, block)
        });
        starts
            .skip_while(move |(_, start, block)| start + u64::from(block.rows) <= rows.start)
            .take_while(move |(_, start, _)| *start < rows.end)
    }

    /// Whether this can be the chunk of a row group of `rows`.
    fn check(&self, rows: u64, is_struct: bool) -> Result<(), &'static str> {
        if self.rows() != rows && !(is_struct && self.blocks.is_empty()) {
            return Err("its blocks don't have the rows of the row group");
        }
        let inner = self.blocks.split_last().map_or(&[][..], |(_, inner)| inner);
        if inner.iter().any(|block| !(block.rows as usize).is_multiple_of(VECTOR_ROWS)) {
            return Err("a block ends between multiples of 1,024 rows");
        }
        Ok(())
    }
}

/// What a writer knows about a column when it is done: the rest is in the schema.
#[derive(Debug, Default)]
pub struct WrittenColumn {
    /// Blocks of the values of an ordered dictionary, in their order.
    pub categories: Vec<Vec<u8>>,
    /// Ids of the encodings, ascending.
    pub encodings: Vec<u8>,
    /// The chunks, as [`Chunk::write`] wrote them one after the other.
    pub chunks: Vec<u8>,
    /// The Bloom filters of each chunk.
    pub blooms: Vec<Option<BloomRef>>,
}

/// Appends the record of `column`, with those of its fields. `written` yields what was written of each column of the
/// tree in pre-order; `field_id` is that of the first and grows by one for each.
pub fn write_record<'a>(
    column: &ColumnNode,
    written: &mut impl Iterator<Item = &'a WrittenColumn>,
    field_id: &mut u64,
    out: &mut Vec<u8>,
) -> Result<()> {
    let field = &column.field;
    let mut body = Vec::new();
    write_varint(*field_id, &mut body);
    *field_id += 1;
    let written_column = written.next();
    let categories = written_column.map_or(&[][..], |written| &written.categories);
    let blooms = written_column.map_or(&[][..], |written| &written.blooms);
    let has_metadata = !field.metadata().is_empty();
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    body.push(
        flag(field.is_nullable(), NULLABLE)
            | flag(has_metadata, METADATA)
            | flag(column.children.is_some(), STRUCT)
            | flag(!categories.is_empty(), CATEGORIES)
            | flag(has_optional(blooms), OPTIONAL),
    );
    write_bytes(field.name().as_bytes(), &mut body);
    match column.children {
        Some(_) => write_shredded_struct_type(&mut body),
        None => write_type(field, &mut body)?,
    }
    if has_metadata {
        write_metadata(field.metadata(), &mut body);
    }
    if !categories.is_empty() {
        write_varint(categories.len() as u64, &mut body);
        categories.iter().for_each(|block| write_bytes(block, &mut body));
    }
    if let Some(written) = written_column {
        write_bytes(&written.encodings, &mut body);
        body.extend_from_slice(&written.chunks);
    }
    write_optional(blooms, &mut body);
    for child in column.children.iter().flatten() {
        write_record(child, written, field_id, &mut body)?;
    }
    write_bytes(&body, out);
    Ok(())
}

/// Why a record can't be used.
#[derive(Debug)]
pub enum RecordError {
    /// It is malformed at this byte.
    Malformed(usize),
    /// It says something that isn't known or can't be stored.
    Unsupported(String),
}

impl From<WireError> for RecordError {
    fn from(WireError(at): WireError) -> Self {
        Self::Malformed(at)
    }
}

impl RecordError {
    /// The error of a record that lies at byte `offset` of `file`.
    pub fn into_error(self, file: &str, offset: u64) -> Error {
        match self {
            Self::Malformed(at) => Error::corrupt(file, "column record", offset, format!("malformed at its byte {at}")),
            Self::Unsupported(what) => Error::Unsupported(format!("{file}: {what}")),
        }
    }
}

impl ColumnRecord {
    /// Bytes of the record that begins `bytes`, length included, as far as its first bytes tell.
    pub fn size_bytes(bytes: &[u8]) -> Option<u64> {
        let mut reader = Reader::new(bytes);
        let length = reader.varint().ok()?;
        length.checked_add(reader.position() as u64)
    }

    /// Reads the record that `bytes` are, of a file with so many row groups.
    pub fn parse(bytes: &[u8], row_groups: usize) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        let record = Self::read(&mut reader, row_groups, MAX_NESTING)?;
        if reader.remaining() > 0 {
            return Err(RecordError::Malformed(reader.position()));
        }
        Ok(record)
    }

    fn read(outer: &mut Reader<'_>, row_groups: usize, depth: usize) -> Result<Self, RecordError> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(RecordError::Malformed(outer.position()));
        };
        let body = outer.bytes()?;
        let start = outer.position() - body.len();
        let mut reader = Reader::new(body);
        Self::read_body(&mut reader, row_groups, depth).map_err(|error| match error {
            RecordError::Malformed(at) => RecordError::Malformed(start + at),
            unsupported => unsupported,
        })
    }

    fn read_body(reader: &mut Reader<'_>, row_groups: usize, depth: usize) -> Result<Self, RecordError> {
        let field_id = reader.varint()?;
        let flags = reader.u8()?;
        let name = read_text(reader)?;
        if flags & !(NULLABLE | METADATA | STRUCT | CATEGORIES | OPTIONAL) != 0 {
            return Err(RecordError::Unsupported(format!("column {name:?}: flags {flags:#x}")));
        }
        let type_at = reader.position();
        let stored_type = read_type(reader)?;
        let metadata = if flags & METADATA != 0 { read_metadata(reader)? } else { HashMap::new() };
        let categories_at = reader.position();
        let categories = if flags & CATEGORIES != 0 { read_categories(reader)? } else { Vec::new() };
        let encodings = reader.bytes()?.to_vec();
        let is_struct = flags & STRUCT != 0;
        if is_struct != matches!(stored_type.data_type, DataType::Struct(_)) {
            return Err(RecordError::Malformed(type_at));
        }
        let physical = physical_of(&stored_type.data_type).map_err(|error| RecordError::Unsupported(error.to_string()));
        let physical = if is_struct { Physical::Bool } else { physical? };
        if row_groups > reader.remaining() {
            return Err(RecordError::Malformed(reader.position()));
        }
        let mut place = 0;
        let mut chunks = (0..row_groups)
            .map(|_| Chunk::read(reader, &physical, &mut place))
            .collect::<Result<Vec<_>, WireError>>()?;
        if flags & OPTIONAL != 0 {
            read_optional(reader, &mut chunks)?;
        }
        let mut data_type = stored_type.data_type;
        let mut children = None;
        if is_struct {
            let mut records = Vec::new();
            while reader.remaining() > 0 {
                records.push(Arc::new(Self::read(reader, row_groups, depth)?));
            }
            data_type = DataType::Struct(records.iter().map(|record| record.field.clone()).collect::<Fields>());
            children = Some(records);
        }
        if reader.remaining() > 0 {
            return Err(RecordError::Malformed(reader.position()));
        }
        let field = Field::new(name, data_type, flags & NULLABLE != 0)
            .with_dict_is_ordered(stored_type.dictionary_ordered)
            .with_metadata(metadata);
        if !categories.is_empty() && ordered_types(&field).is_none() {
            return Err(RecordError::Malformed(categories_at));
        }
        Ok(Self { field: Arc::new(field), field_id, categories, encodings, chunks, children })
    }

    /// Physical type of the column's own blocks.
    pub fn physical(&self) -> Result<Physical> {
        if self.children.is_some() { Ok(Physical::Bool) } else { physical_of(self.field.data_type()) }
    }

    /// The chunk in `row_group`, which has `rows` rows; `name` is what errors call the column.
    pub fn chunk(&self, row_group: usize, rows: u64, file: &str, name: &str) -> Result<&Chunk> {
        let corrupt = |offset, what: &str| {
            Error::corrupt(file, format!("record of column {name:?}, row group {row_group}"), offset, what)
        };
        let chunk = self.chunks.get(row_group).ok_or_else(|| corrupt(0, "there is no such row group"))?;
        let offset = chunk.blocks.first().map_or(0, |block| block.offset);
        chunk.check(rows, self.children.is_some()).map_err(|what| corrupt(offset, what))?;
        Ok(chunk)
    }

    /// Columns of this tree: itself and all below.
    pub fn column_count(&self) -> usize {
        1 + self.children.iter().flatten().map(|child| child.column_count()).sum::<usize>()
    }

    /// This column and all below, in pre-order, each with its path (names joined by dots).
    pub fn tree(self: &Arc<Self>) -> Vec<(String, Arc<ColumnRecord>)> {
        let mut tree = vec![(self.field.name().clone(), self.clone())];
        for child in self.children.iter().flatten() {
            tree.extend(
                child.tree().into_iter().map(|(path, record)| (format!("{}.{path}", self.field.name()), record)),
            );
        }
        tree
    }
}

fn read_categories(reader: &mut Reader<'_>) -> Result<Vec<Bytes>, WireError> {
    let at = reader.position();
    match reader.length(reader.remaining())? {
        0 => Err(WireError(at)),
        blocks => (0..blocks).map(|_| reader.bytes().map(Bytes::copy_from_slice)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;
    use crate::{arrow::shred, bloom::BloomLayout, zone::Zone};

    fn block(offset: u64, rows: u32) -> BlockRef {
        BlockRef { offset, size_bytes: 100, rows, zone: Zone { null_count: 1, ..Zone::default() } }
    }

    /// The record of a struct of three fields over two row groups, and its bytes.
    fn sample() -> (ColumnRecord, Vec<u8>) {
        let time = Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false);
        let text = Field::new("", DataType::Utf8View, true).with_metadata([("k".into(), "v".into())].into());
        let grades = DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into());
        let grade = Field::new("grade", grades, true).with_dict_is_ordered(true);
        let field = Arc::new(Field::new("s", DataType::Struct(vec![time, text, grade].into()), true));
        let categories = |field: &Field| match ordered_types(field) {
            Some(_) => vec![vec![7; 40], vec![8; 3]],
            None => vec![],
        };
        let whole = |place| Chunk { blocks: vec![block(place, 2_048), block(place + 104, 7)], ..Chunk::default() };
        let shared = Chunk {
            parts: vec![PartRef { offset: 9_000, size_bytes: 40, digest: u64::MAX }],
            blocks: vec![block(8_000, 2_055)],
            bloom: BloomLayout::new(1, 3).map(|layout| BloomRef { offset: 9_040, layout }),
        };
        let chunks = [
            vec![Chunk::default(), whole(1 << 40)],
            vec![whole(64), whole(300)],
            vec![shared, whole(2_000)],
            vec![whole(4_000), whole(5_000)],
        ];
        let nodes = shred(&arrow_schema::Schema::new(vec![field.clone()])).unwrap();
        let written: Vec<_> = nodes[0]
            .columns()
            .iter()
            .zip(&chunks)
            .map(|(node, chunks)| {
                let (mut place, mut bytes) = (0, Vec::new());
                chunks.iter().for_each(|chunk| chunk.write(&node.physical, &mut place, &mut bytes));
                let blooms = chunks.iter().map(|chunk| chunk.bloom).collect();
                WrittenColumn { categories: categories(&node.field), encodings: vec![1, 7], chunks: bytes, blooms }
            })
            .collect();
        let (mut bytes, mut field_id) = (Vec::new(), 30);
        write_record(&nodes[0], &mut written.iter(), &mut field_id, &mut bytes).unwrap();
        assert_eq!(field_id, 34);
        let DataType::Struct(fields) = field.data_type() else { unreachable!("it was made a struct") };
        let child = |index: usize| {
            let (field, chunks) = (fields[index].clone(), chunks[index + 1].clone());
            let field_id = 31 + index as u64;
            let categories = categories(&field).into_iter().map(Bytes::from).collect();
            Arc::new(ColumnRecord { field, field_id, categories, encodings: vec![1, 7], chunks, children: None })
        };
        let children = Some(vec![child(0), child(1), child(2)]);
        let (categories, encodings, chunks) = (vec![], vec![1, 7], chunks[0].clone());
        let record = ColumnRecord { field, field_id: 30, categories, encodings, chunks, children };
        (record, bytes)
    }

    #[test]
    fn records_come_back() {
        let (record, bytes) = sample();
        assert_eq!(ColumnRecord::size_bytes(&bytes), Some(bytes.len() as u64));
        assert_eq!(ColumnRecord::parse(&bytes, 2).unwrap(), record);
        let paths: Vec<_> = Arc::new(record).tree().into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["s", "s.t", "s.", "s.grade"]);
    }

    #[test]
    fn cuts_are_malformed_and_hostile_bytes_never_panic() {
        let (record, bytes) = sample();
        for cut in 0..bytes.len() {
            assert!(matches!(ColumnRecord::parse(&bytes[..cut], 2), Err(RecordError::Malformed(_))), "{cut}");
        }
        let mut differing = 0;
        for index in 0..bytes.len() {
            for value in 0..=255 {
                let mut hostile = bytes.clone();
                hostile[index] = value;
                match ColumnRecord::parse(&hostile, 2) {
                    Ok(read) => differing += usize::from(read != record),
                    Err(RecordError::Malformed(at)) => assert!(at <= hostile.len()),
                    Err(RecordError::Unsupported(what)) => assert!(!what.is_empty()),
                }
            }
        }
        assert!(differing > 0, "pages have checksums, records don't");
        assert!(ColumnRecord::parse(&bytes, usize::MAX).is_err());
    }

    #[test]
    fn chunks_are_held_against_their_row_group() {
        let (record, _) = sample();
        assert!(record.chunk(0, 2_055, "a", "s").is_ok(), "a struct without nulls needs no blocks");
        assert!(record.chunk(1, 2_055, "a", "s").is_ok());
        assert!(record.chunk(1, 2_054, "a", "s").is_err());
        assert!(record.chunk(2, 2_055, "a", "s").is_err());
        let uneven = Chunk { blocks: vec![block(0, 1_000), block(200, 24)], ..Chunk::default() };
        assert!(uneven.check(1_024, false).is_err());
        assert!(Chunk::default().check(5, false).is_err());
    }

    #[test]
    fn blocks_are_found_by_row() {
        let chunk = Chunk { blocks: vec![block(0, 1_024), block(200, 2_048), block(400, 5)], ..Chunk::default() };
        let found = |rows| chunk.overlapping(rows).map(|(number, first, _)| (number, first)).collect::<Vec<_>>();
        assert_eq!(found(0..1), [(0, 0)]);
        assert_eq!(found(1_023..1_025), [(0, 0), (1, 1_024)]);
        assert_eq!(found(3_072..9_999), [(2, 3_072)]);
        assert_eq!(found(0..3_077).len(), 3);
    }
}
