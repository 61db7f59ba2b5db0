//! The file record: what is said once per file (`spec/file.md`, *File record*).

use std::collections::HashMap;

use entasis_encoding::wire::{Reader, WireError, write_bytes, write_varint};

use super::{pages::MetadataReader, trailer::Trailer};
use crate::{
    arrow::types::{read_metadata, read_text, write_metadata},
    error::{Error, Result},
};

/// Most rows of a row group.
pub const MAX_ROW_GROUP_ROWS: u64 = u32::MAX as u64;

/// What is said once per file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileRecord {
    /// Metadata of the Arrow schema.
    pub schema_metadata: HashMap<String, String>,
    /// What the writer's user wanted to keep, in the order given.
    pub user_metadata: Vec<(String, Vec<u8>)>,
    /// The order of the rows, the most significant column first.
    pub sort_order: Vec<SortKey>,
    /// Rows of each row group.
    pub row_group_rows: Vec<u64>,
    /// Above every field id that was ever used.
    pub next_field_id: u64,
    /// Name and version of the writer.
    pub written_by: String,
}

/// One column of the declared sort order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// The column's field id.
    pub field_id: u64,
    /// Largest values first.
    pub descending: bool,
    /// Nulls before all values.
    pub nulls_first: bool,
}

impl FileRecord {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_metadata(&self.schema_metadata, out);
        write_varint(self.user_metadata.len() as u64, out);
        for (key, value) in &self.user_metadata {
            write_bytes(key.as_bytes(), out);
            write_bytes(value, out);
        }
        write_varint(self.sort_order.len() as u64, out);
        for key in &self.sort_order {
            write_varint(key.field_id, out);
            out.push(u8::from(key.descending) | u8::from(key.nulls_first) << 1);
        }
        write_varint(self.row_group_rows.len() as u64, out);
        self.row_group_rows.iter().for_each(|&rows| write_varint(rows, out));
        write_varint(self.next_field_id, out);
        write_bytes(self.written_by.as_bytes(), out);
    }

    /// Reads the record that `trailer` points to and holds the two against one another.
    pub fn read(metadata: &MetadataReader, trailer: &Trailer) -> Result<Self> {
        let bytes = metadata.read(trailer.file_record..metadata.size_bytes())?;
        let corrupt = |at: usize, what: &str| {
            let offset = metadata.file_offset(trailer.file_record.saturating_add(at as u32));
            Error::corrupt(metadata.file(), "file record", offset, what)
        };
        let mut reader = Reader::new(&bytes);
        let record = Self::parse(&mut reader).map_err(|WireError(at)| corrupt(at, "malformed"))?;
        if reader.remaining() > 0 {
            return Err(corrupt(reader.position(), "bytes follow its end"));
        }
        let mut rows = record.row_group_rows.iter();
        if record.row_group_rows.len() != trailer.row_groups as usize
            || rows.try_fold(0u64, |sum, &rows| sum.checked_add(rows)) != Some(trailer.rows)
        {
            return Err(corrupt(0, "row groups aren't those of the trailer"));
        }
        if record.row_group_rows.iter().any(|&rows| rows > MAX_ROW_GROUP_ROWS) {
            return Err(corrupt(0, "a row group has more rows than one may have"));
        }
        Ok(record)
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let schema_metadata = read_metadata(reader)?;
        let count = reader.length(reader.remaining())?;
        let user_metadata = (0..count)
            .map(|_| Ok((read_text(reader)?.to_owned(), reader.bytes()?.to_vec())))
            .collect::<Result<_, _>>()?;
        let count = reader.length(reader.remaining())?;
        let sort_order = (0..count).map(|_| Self::parse_sort_key(reader)).collect::<Result<_, _>>()?;
        let count = reader.length(reader.remaining())?;
        let row_group_rows = (0..count).map(|_| reader.varint()).collect::<Result<_, _>>()?;
        let next_field_id = reader.varint()?;
        let written_by = read_text(reader)?.to_owned();
        Ok(Self { schema_metadata, user_metadata, sort_order, row_group_rows, next_field_id, written_by })
    }

    fn parse_sort_key(reader: &mut Reader<'_>) -> Result<SortKey, WireError> {
        let field_id = reader.varint()?;
        let at = WireError(reader.position());
        match reader.u8()? {
            flags @ 0..=3 => Ok(SortKey { field_id, descending: flags & 1 == 1, nulls_first: flags & 2 == 2 }),
            _ => Err(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::{error::ErrorKind, metadata::pages::write_pages, source::BytesSource};

    fn record() -> FileRecord {
        FileRecord {
            schema_metadata: [("a", "1"), ("", ""), ("b", "2")].map(|(key, value)| (key.into(), value.into())).into(),
            user_metadata: vec![("k".into(), vec![0, 255]), ("k".into(), vec![])],
            sort_order: vec![
                SortKey { field_id: 300, descending: true, nulls_first: false },
                SortKey { field_id: 0, descending: false, nulls_first: true },
            ],
            row_group_rows: vec![1_048_576, 5],
            next_field_id: 301,
            written_by: "entasis test".into(),
        }
    }

    fn read(bytes: &[u8], rows: u64) -> Result<FileRecord> {
        let mut file = vec![0; 8];
        write_pages(bytes, &mut file);
        let trailer = Trailer {
            pages_offset: 8,
            metadata_size_bytes: bytes.len() as u32,
            rows,
            row_groups: 2,
            ..Trailer::default()
        };
        let source = Arc::new(BytesSource::new(file.into(), "a"));
        FileRecord::read(&MetadataReader::new(source, &trailer, Bytes::new()), &trailer)
    }

    #[test]
    fn comes_back() {
        let mut bytes = Vec::new();
        record().write(&mut bytes);
        assert_eq!(read(&bytes, 1_048_581).unwrap(), record());
        assert_eq!(read(&bytes, 1_048_580).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn cuts_and_additions_are_corrupt_and_hostile_bytes_never_panic() {
        let mut bytes = Vec::new();
        record().write(&mut bytes);
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut], 1_048_581).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        for index in 0..bytes.len() {
            for value in [0, 0x7F, 0x80, 0xFF] {
                let mut hostile = bytes.clone();
                hostile[index] = value;
                match read(&hostile, 1_048_581) {
                    Ok(record) => assert_eq!(record.row_group_rows.iter().sum::<u64>(), 1_048_581),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
                }
            }
        }
        bytes.push(0);
        assert_eq!(read(&bytes, 1_048_581).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_row_group_of_more_rows_than_it_may_have_is_corrupt() {
        for (rows, readable) in [(MAX_ROW_GROUP_ROWS, true), (MAX_ROW_GROUP_ROWS + 1, false)] {
            let mut bytes = Vec::new();
            FileRecord { row_group_rows: vec![rows, 0], ..FileRecord::default() }.write(&mut bytes);
            let kind = read(&bytes, rows).map_err(|error| error.kind());
            assert_eq!(kind.is_ok(), readable);
            assert!(readable || kind == Err(ErrorKind::Corrupt));
        }
    }
}
