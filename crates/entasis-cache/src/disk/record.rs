//! A cell as bytes on disk: see *A cell* in `spec/cache.md`.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::Field;
use bytes::Bytes;
use entasis::arrow::physical_of;
use entasis::arrow::types::{read_text, read_type, write_type};
use entasis::zone::Zone;
use entasis_encoding::digest;
use entasis_encoding::wire::{Reader, WireError, write_bytes, write_varint};

use super::tier::MOST_HEAD_BYTES;
use crate::values::{Encoded, EncodedBlock};
use crate::{CELL_ROWS, CellId, ColumnId, ObjectId, Result, Stamp, Version};

/// Blocks and large values begin at multiples of this, from the beginning of the cell.
const ALIGNMENT: u64 = 64;

const STAMP_E_TAG: u8 = 0;
const STAMP_MODIFIED: u8 = 1;

/// What is written of a cell: its head, and where its bytes are, in the order in which they follow it.
pub(super) struct Record {
    pub head: Vec<u8>,
    /// Offsets in the record, and bytes.
    pub parts: Vec<(u64, Bytes)>,
    pub size_bytes: u64,
}

impl Record {
    /// The record of a cell. Unsupported are types that the format has no tag for, and heads that are too large.
    pub fn new(cell: &CellId, encoded: &Encoded) -> Result<Self> {
        let mut head = Vec::new();
        write_cell(cell, &mut head);
        write_type(&Field::new("", encoded.data_type.clone(), true), &mut head)?;
        let physical = physical_of(&encoded.data_type)?;
        write_varint(encoded.rows as u64, &mut head);
        write_varint(encoded.blocks.len() as u64, &mut head);
        for block in &encoded.blocks {
            write_varint(block.rows as u64, &mut head);
            for bytes in [&block.bytes, &block.large] {
                write_varint(bytes.len() as u64, &mut head);
                head.extend_from_slice(&digest(bytes).to_le_bytes());
            }
            block.zone.write(&physical, &mut head);
        }
        if head.len() > MOST_HEAD_BYTES as usize {
            return Err(entasis::Error::Unsupported(format!("{} bytes of names and types on disk", head.len())).into());
        }
        let mut size_bytes = head.len() as u64;
        let mut parts = Vec::new();
        for bytes in encoded.blocks.iter().flat_map(|block| [&block.bytes, &block.large]) {
            let start = size_bytes.next_multiple_of(ALIGNMENT);
            if !bytes.is_empty() {
                size_bytes = start + bytes.len() as u64;
                parts.push((start, bytes.clone()));
            }
        }
        Ok(Self { head, parts, size_bytes })
    }
}

/// What a head says of a block or of its large values.
struct Part {
    range: Range<u64>,
    digest: u64,
}

/// Reads a cell of which `head` is the head, whose digest was compared, and which has `size_bytes`; `read` yields the bytes of ranges of it.
/// `None` if it is another cell, or anything of it is damaged.
pub(super) fn read_cell(
    cell: &CellId,
    head: &[u8],
    size_bytes: u64,
    mut read: impl FnMut(Range<u64>) -> Option<Bytes>,
) -> Option<Encoded> {
    let mut name = Vec::new();
    write_cell(cell, &mut name);
    let mut reader = Reader::new(head.strip_prefix(&name[..])?);
    let data_type = read_type(&mut reader).ok()?.data_type;
    let physical = physical_of(&data_type).ok()?;
    let rows = reader.length(CELL_ROWS).ok()?;
    let count = reader.length(reader.remaining()).ok()?;
    let mut next = head.len() as u64;
    let mut blocks = Vec::new();
    for _ in 0..count {
        let rows = reader.length(CELL_ROWS).ok()?;
        let [bytes, large] = [(); 2].map(|()| read_part(&mut reader, &mut next, size_bytes));
        let zone = Zone::read(&physical, &mut reader).ok()?;
        let [bytes, large] = [bytes?, large?].map(|part| {
            let bytes = if part.range.is_empty() { Some(Bytes::new()) } else { read(part.range) };
            bytes.filter(|bytes| digest(bytes) == part.digest)
        });
        blocks.push(EncodedBlock::new(rows, bytes?, large?, zone));
    }
    let is_whole = reader.remaining() == 0 && next == size_bytes;
    if is_whole { Encoded::of_blocks(data_type, &physical, rows, blocks).ok() } else { None }
}

fn read_part(reader: &mut Reader<'_>, next: &mut u64, size_bytes: u64) -> Option<Part> {
    let length = reader.varint().ok()?;
    let digest = reader.u64().ok()?;
    let start = next.checked_next_multiple_of(ALIGNMENT)?;
    if length == 0 {
        return Some(Part { range: 0..0, digest });
    }
    let end = start.checked_add(length).filter(|&end| end <= size_bytes)?;
    *next = end;
    Some(Part { range: start..end, digest })
}

fn write_cell(cell: &CellId, out: &mut Vec<u8>) {
    write_version(&cell.column.version, out);
    write_place(cell, out);
}

/// Appends what a cell's name has beside the version.
pub(super) fn write_place(cell: &CellId, out: &mut Vec<u8>) {
    for number in [cell.column.leaf, cell.row_group, cell.piece] {
        write_varint(number as u64, out);
    }
}

pub(super) fn read_place(version: &Version, reader: &mut Reader<'_>) -> Result<CellId, WireError> {
    let mut number = || reader.length(usize::MAX);
    let (leaf, row_group, piece) = (number()?, number()?, number()?);
    Ok(CellId { column: ColumnId { version: version.clone(), leaf }, row_group, piece })
}

pub(super) fn write_version(version: &Version, out: &mut Vec<u8>) {
    let ObjectId { store, path } = version.object();
    write_bytes(store.as_bytes(), out);
    write_bytes(path.as_ref().as_bytes(), out);
    match version.stamp() {
        Stamp::ETag(tag) => {
            out.push(STAMP_E_TAG);
            write_bytes(tag.as_bytes(), out);
        }
        Stamp::Modified { size_bytes, unix_ns } => {
            out.push(STAMP_MODIFIED);
            write_varint(*size_bytes, out);
            out.extend_from_slice(&unix_ns.to_le_bytes());
        }
    }
}

pub(super) fn read_version(reader: &mut Reader<'_>) -> Result<Version, WireError> {
    let store: Arc<str> = read_text(reader)?.into();
    let at = WireError(reader.position());
    let path = object_store::path::Path::parse(read_text(reader)?).map_err(|_| at)?;
    let at = WireError(reader.position());
    let stamp = match reader.u8()? {
        STAMP_E_TAG => Stamp::ETag(read_text(reader)?.to_owned()),
        STAMP_MODIFIED => {
            let size_bytes = reader.varint()?;
            let unix_ns = reader.take(16)?.first_chunk::<16>().copied().ok_or(at)?;
            Stamp::Modified { size_bytes, unix_ns: i128::from_le_bytes(unix_ns) }
        }
        _ => return Err(at),
    };
    Ok(Version::new(ObjectId { store, path }, stamp))
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, DictionaryArray, Int64Array, StringArray, types::Int32Type};
    use entasis_encoding::EncodeOptions;

    use super::*;

    fn cell(stamp: Stamp) -> CellId {
        let version = Version::new(ObjectId::new("s3://bucket", "a b/ü.parquet".into()), stamp);
        CellId { column: ColumnId { version, leaf: 7 }, row_group: 300, piece: 2 }
    }

    fn arrays() -> Vec<ArrayRef> {
        let texts = (0..9_500).map(|row| (row % 11 > 0).then(|| format!("{row:01200}")));
        let large = (0..300).map(|row| "x".repeat(if row % 9 == 0 { 20_000 } else { row }));
        let words: DictionaryArray<Int32Type> = (0..900).map(|row| ["one", "two", "three"][row % 3]).collect();
        vec![
            Arc::new(StringArray::from_iter(texts)),
            Arc::new(StringArray::from_iter_values(large)),
            Arc::new(Int64Array::from_iter((0..5_000).map(|row| (row % 4 > 0).then_some(row * 7 % 1_000)))),
            Arc::new(words),
            Arc::new(Int64Array::from(Vec::<i64>::new())),
        ]
    }

    fn bytes_of(record: &Record) -> Vec<u8> {
        let mut bytes = record.head.clone();
        for (start, part) in &record.parts {
            bytes.resize(*start as usize, 0);
            bytes.extend_from_slice(part);
        }
        bytes
    }

    fn read(cell: &CellId, bytes: &[u8], head_bytes: usize) -> Option<Encoded> {
        let range =
            |range: Range<u64>| Some(Bytes::copy_from_slice(bytes.get(range.start as usize..range.end as usize)?));
        read_cell(cell, &bytes[..head_bytes], bytes.len() as u64, range)
    }

    #[test]
    fn cells_come_back_as_they_went() {
        let stamps = [Stamp::ETag("\"5-a\"".to_owned()), Stamp::Modified { size_bytes: 9, unix_ns: -5 }];
        for (array, stamp) in arrays().iter().zip(stamps.iter().cycle()) {
            let encoded = Encoded::new(array, &EncodeOptions::default()).unwrap();
            let cell = cell(stamp.clone());
            let record = Record::new(&cell, &encoded).unwrap();
            let bytes = bytes_of(&record);
            assert_eq!(bytes.len() as u64, record.size_bytes);
            let found = read(&cell, &bytes, record.head.len()).unwrap();
            assert_eq!((&found.data_type, found.rows), (&encoded.data_type, encoded.rows));
            for (found, block) in found.blocks.iter().zip(&encoded.blocks) {
                assert_eq!((&found.bytes, &found.large, &found.zone), (&block.bytes, &block.large, &block.zone));
            }
            let mut other = cell.clone();
            other.piece += 1;
            assert!(read(&other, &bytes, record.head.len()).is_none(), "another cell");
        }
    }

    #[test]
    fn what_is_damaged_is_never_trusted() {
        let cell = cell(Stamp::ETag("1".to_owned()));
        for array in &arrays()[1..3] {
            let encoded = Encoded::new(array, &EncodeOptions::default()).unwrap();
            let record = Record::new(&cell, &encoded).unwrap();
            let bytes = bytes_of(&record);
            for length in (record.head.len()..bytes.len()).step_by(97) {
                assert!(read(&cell, &bytes[..length], record.head.len()).is_none(), "{length} bytes");
            }
            // Damages of the head are found by its digest; reading it neither panics nor allocates without bounds.
            for place in 0..record.head.len() {
                let mut damaged = bytes.clone();
                damaged[place] ^= 0x5A;
                drop(read(&cell, &damaged, record.head.len()));
                assert!(read(&cell, &bytes[..record.head.len()], place).is_none(), "a head of {place} bytes");
            }
            for place in record.parts.iter().flat_map(|(start, part)| {
                let start = *start as usize;
                (start..start + part.len()).step_by(61)
            }) {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1;
                assert!(read(&cell, &damaged, record.head.len()).is_none(), "byte {place}");
            }
        }
    }
}
