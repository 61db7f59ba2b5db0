//! The record table and the hash index (`spec/file.md`, *Record table and hash index*): from a column's number or name
//! to its record, without reading anything that grows with the number of columns.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::{pages::MetadataReader, trailer::Trailer};
use crate::error::{Error, Result};

/// With so many columns or fewer there is no hash index: the records themselves are walked.
pub const WALKED_COLUMNS: usize = 16;

/// The upper half of the XXH3-64 of a name. The index keeps its highest bytes.
pub fn name_hash(name: &str) -> u32 {
    (xxh3_64(name.as_bytes()) >> 32) as u32
}

/// The highest `width` bytes of a hash, as a number.
fn highest_bytes(hash: u32, width: u8) -> u32 {
    hash >> (32 - 8 * u32::from(width))
}

/// Bytes that `max` needs, 1 to 4.
fn width_of(max: u32) -> u8 {
    (32 - max.leading_zeros()).div_ceil(8).max(1) as u8
}

/// Appends the record table and the hash index to the logical string `metadata`, whose records begin at `offsets` and
/// have names of `hashes`. Fills in what the trailer says about both.
pub fn write_index(offsets: &[u32], hashes: &[u32], metadata: &mut Vec<u8>, trailer: &mut Trailer) {
    let (offset_width, ordinal_width) =
        (width_of(offsets.last().copied().unwrap_or(0)), width_of(offsets.len().saturating_sub(1) as u32));
    let push = |value: u32, width: u8, metadata: &mut Vec<u8>| {
        metadata.extend_from_slice(&value.to_le_bytes()[..usize::from(width)]);
    };
    trailer.columns = offsets.len() as u32;
    (trailer.offset_width, trailer.ordinal_width) = (offset_width, ordinal_width);
    trailer.record_table = metadata.len() as u32;
    offsets.iter().for_each(|&offset| push(offset, offset_width, metadata));
    trailer.hash_index = metadata.len() as u32;
    if offsets.len() > WALKED_COLUMNS {
        let hash_width = trailer.hash_width();
        let hashes = hashes.iter().map(|&hash| highest_bytes(hash, hash_width));
        let mut order: Vec<(u32, u32)> = hashes.zip(0..).collect();
        order.sort_unstable();
        for (hash, ordinal) in order {
            push(hash, hash_width, metadata);
            push(ordinal, ordinal_width, metadata);
            push(offsets[ordinal as usize], offset_width, metadata);
        }
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

/// Where the records of `columns` lie in the logical string, from the record table.
pub fn record_ranges(metadata: &MetadataReader, trailer: &Trailer, columns: Range<u32>) -> Result<Vec<Range<u32>>> {
    let width = u32::from(trailer.offset_width);
    // The first record after these ends the last of them.
    let end = (columns.end + 1).min(trailer.columns);
    let table = metadata.read(trailer.record_table + columns.start * width..trailer.record_table + end * width)?;
    let mut starts: Vec<u32> = table.chunks_exact(width as usize).map(number).collect();
    if columns.end == trailer.columns {
        starts.push(trailer.record_table);
    }
    let ranges: Vec<_> = starts.windows(2).map(|pair| pair[0]..pair[1]).collect();
    if ranges.iter().any(|range| range.start >= range.end || range.end > trailer.record_table) {
        let at = metadata.file_offset(trailer.record_table + columns.start * width);
        return Err(Error::corrupt(metadata.file(), "record table", at, "offsets don't ascend"));
    }
    Ok(ranges)
}

/// An entry of the hash index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Column number.
    pub column: u32,
    /// Logical offset of the column's record.
    pub record: u32,
}

/// The entries whose hash is that of `name`, by column number; their names may differ all the same. Entries are ordered
/// by hash and hashes are spread evenly, so an entry's place is foretold to within a few square roots of their number:
/// one read of a few pages finds it. Where names repeat a lot, wider reads follow.
pub fn candidates(metadata: &MetadataReader, trailer: &Trailer, name: &str) -> Result<Vec<Entry>> {
    let (count, width, hash_width) = (trailer.columns, trailer.entry_width(), trailer.hash_width());
    let hash = highest_bytes(name_hash(name), hash_width);
    let foretold = ((u64::from(hash) * u64::from(count)) >> (8 * hash_width)) as u32;
    let mut slack = 2 * count.isqrt() + 8;
    loop {
        let (low, high) = (foretold.saturating_sub(slack), foretold.saturating_add(slack).min(count));
        let window = metadata.read(trailer.hash_index + low * width..trailer.hash_index + high * width)?;
        let hash_at = |index: u32| number(&window[(index * width) as usize..][..usize::from(hash_width)]);
        let begins_before = low == 0 || hash_at(0) < hash;
        let ends_after = high == count || hash_at(high - low - 1) > hash;
        if begins_before && ends_after {
            return entries(&window, hash, metadata, trailer);
        }
        slack = slack.saturating_mul(8);
    }
}

/// The entries of `hash` in a window that holds them all.
fn entries(window: &[u8], hash: u32, metadata: &MetadataReader, trailer: &Trailer) -> Result<Vec<Entry>> {
    let hash_end = usize::from(trailer.hash_width());
    let ordinal_end = hash_end + usize::from(trailer.ordinal_width);
    let found = window.chunks_exact(trailer.entry_width() as usize).filter(|entry| number(&entry[..hash_end]) == hash);
    let entry =
        |bytes: &[u8]| Entry { column: number(&bytes[hash_end..ordinal_end]), record: number(&bytes[ordinal_end..]) };
    let entries: Vec<_> = found.map(entry).collect();
    if entries.iter().any(|entry| entry.column >= trailer.columns || entry.record >= trailer.record_table) {
        let at = metadata.file_offset(trailer.hash_index);
        return Err(Error::corrupt(metadata.file(), "hash index", at, "an entry names no column"));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::{metadata::pages::write_pages, source::BytesSource};

    /// Records of 1 to 3 bytes each, then table and index.
    fn metadata(names: &[String]) -> (MetadataReader, Trailer, Vec<u32>) {
        let mut offsets = Vec::new();
        let mut string = Vec::new();
        for index in 0..names.len() {
            offsets.push(string.len() as u32);
            string.resize(string.len() + 1 + index % 3, 0);
        }
        let hashes: Vec<_> = names.iter().map(|name| name_hash(name)).collect();
        let mut trailer = Trailer { pages_offset: 8, ..Trailer::default() };
        write_index(&offsets, &hashes, &mut string, &mut trailer);
        trailer.metadata_size_bytes = string.len() as u32;
        let mut file = vec![0; 8];
        write_pages(&string, &mut file);
        let source = Arc::new(BytesSource::new(file.into(), "a"));
        (MetadataReader::new(source, &trailer, Bytes::new()), trailer, offsets)
    }

    fn columns_of(names: &[String], name: &str) -> Vec<u32> {
        let (metadata, trailer, offsets) = metadata(names);
        let found = candidates(&metadata, &trailer, name).unwrap();
        assert!(found.iter().all(|entry| offsets[entry.column as usize] == entry.record));
        found.iter().map(|entry| entry.column).collect()
    }

    #[test]
    fn every_name_is_found() {
        for count in [17, 100, 3_000] {
            let names: Vec<_> = (0..count).map(|index| format!("column_{index}")).collect();
            let (metadata, trailer, _) = metadata(&names);
            for (column, name) in (0..).zip(&names) {
                let found = candidates(&metadata, &trailer, name).unwrap();
                assert!(found.iter().any(|entry| entry.column == column), "{name} of {count}");
                assert!(found.len() < 5, "the hash tells most names apart");
            }
            assert!(candidates(&metadata, &trailer, "another").unwrap().len() < 4);
        }
    }

    #[test]
    fn names_that_repeat_are_found_with_every_column() {
        let mut names = vec!["same".to_owned(); 2_000];
        names[700] = "other".to_owned();
        assert_eq!(columns_of(&names, "same").len(), 1_999);
        assert_eq!(columns_of(&names, "other"), [700]);
        assert_eq!(columns_of(&names, "none"), [0; 0]);
        assert_eq!(columns_of(&vec![String::new(); 40], "").len(), 40);
    }

    #[test]
    fn the_table_gives_every_record() {
        for count in [0, 1, 2, 16, 17, 1_000] {
            let names: Vec<_> = (0..count).map(|index| format!("{index}")).collect();
            let (metadata, trailer, offsets) = metadata(&names);
            let all = record_ranges(&metadata, &trailer, 0..count).unwrap();
            assert_eq!(all.iter().map(|range| range.start).collect::<Vec<_>>(), offsets);
            assert_eq!(all.last().map_or(0, |range| range.end), trailer.record_table);
            for column in 0..count {
                let one = record_ranges(&metadata, &trailer, column..column + 1).unwrap();
                assert_eq!(one, [all[column as usize].clone()]);
            }
        }
    }

    #[test]
    fn widths_hold_their_largest_number() {
        for (max, width) in [(0, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 3), (1 << 24, 4), (u32::MAX, 4)] {
            assert_eq!(width_of(max), width);
        }
    }
}
