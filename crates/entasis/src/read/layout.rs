//! The map of a file: what each of its bytes belongs to.

use std::{borrow::Cow, ops::Range};

#[cfg(doc)]
use entasis_encoding::Block;
use entasis_encoding::LayoutItem;

use super::Reader;
use crate::{
    error::Result,
    metadata::{
        index::record_ranges,
        pages::PAGE_PAYLOAD_BYTES,
        record::ColumnRecord,
        trailer::{MAGIC, TRAILER_SIZE_BYTES},
    },
};

/// A run of bytes of the file and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// File offset.
    pub offset: u64,
    /// Bytes.
    pub size_bytes: u64,
    /// What it is, in words.
    pub what: String,
    /// The page of the specification that says what its bytes mean, a comma, and the section's heading.
    pub section: Cow<'static, str>,
    /// Its parts, without gaps; none where it isn't taken apart further: blocks are, by [`Block::layout`] and [`Part::inside`].
    pub children: Vec<Part>,
}

impl Part {
    fn new(range: Range<u64>, what: impl Into<String>, section: &'static str) -> Self {
        let size_bytes = range.end - range.start;
        Self { offset: range.start, size_bytes, what: what.into(), section: section.into(), children: Vec::new() }
    }

    /// A part of a block that lies at file offset `block_offset`.
    pub fn inside(item: LayoutItem, block_offset: u64) -> Self {
        let LayoutItem { range, part, section, children } = item;
        let children = children.into_iter().map(|child| Self::inside(child, block_offset)).collect();
        let (offset, size_bytes) = (block_offset + range.start, range.end - range.start);
        Self { offset, size_bytes, what: part, section, children }
    }
}

/// A block or shared part of some column, or the Bloom filters of a chunk.
pub(super) struct StoredBlock {
    pub offset: u64,
    pub size_bytes: u64,
    pub row_group: usize,
    pub what: String,
    /// As in [`Part`].
    pub section: &'static str,
}

/// Padding is shorter than the largest alignment.
const MAX_PADDING_BYTES: u64 = 63;

impl Reader {
    /// The parts of the file, by offset, without gaps. Reads all metadata.
    pub fn layout(&self) -> Result<Vec<Part>> {
        let mut parts = vec![Part::new(0..MAGIC.len() as u64, "magic", "file.md, The file")];
        let mut blocks: Vec<StoredBlock> = self.columns()?.iter().flat_map(stored_blocks).collect();
        blocks.sort_by_key(|block| block.offset);
        let mut end = MAGIC.len() as u64;
        for block in blocks {
            push_gap(end, block.offset, Some(block.row_group), &mut parts);
            let (offset, size_bytes) = (block.offset, block.size_bytes);
            end = end.max(offset.saturating_add(size_bytes));
            parts.push(Part::new(offset..offset.saturating_add(size_bytes), block.what, block.section));
        }
        push_gap(end, self.inner.trailer.pages_offset, None, &mut parts);
        parts.extend(self.pages()?);
        let trailer_offset = self.size_bytes() - TRAILER_SIZE_BYTES as u64;
        parts.push(Part::new(trailer_offset..self.size_bytes(), "trailer", "file.md, Trailer"));
        Ok(parts)
    }

    /// The metadata pages, each with what lies in it.
    fn pages(&self) -> Result<Vec<Part>> {
        const SECTION: &str = "file.md, Metadata pages";
        let metadata = &self.inner.metadata;
        let stretches = self.metadata_stretches()?;
        let mut parts = Vec::new();
        for page in 0..metadata.page_count() {
            let range = metadata.page_range(page);
            let (start, end) = (page * PAGE_PAYLOAD_BYTES, metadata.page_end(page * PAGE_PAYLOAD_BYTES));
            let mut part = Part::new(range.clone(), format!("metadata page {page}"), SECTION);
            let before = stretches.partition_point(|stretch| stretch.range.end <= start);
            for stretch in stretches[before..].iter().take_while(|stretch| stretch.range.start < end) {
                let (first, last) = (stretch.range.start.max(start), stretch.range.end.min(end));
                let continued = if first > stretch.range.start { ", continued" } else { "" };
                let at = range.start + u64::from(first - start);
                let what = format!("{}{continued}", stretch.what);
                part.children.push(Part::new(at..at + u64::from(last - first), what, stretch.section));
            }
            part.children.push(Part::new(range.end - 4..range.end, "checksum of the page", SECTION));
            parts.push(part);
        }
        Ok(parts)
    }

    /// What the logical metadata string holds, in order, without gaps.
    fn metadata_stretches(&self) -> Result<Vec<Stretch>> {
        const INDEX: &str = "file.md, Record table and hash index";
        let (metadata, trailer) = (&self.inner.metadata, &self.inner.trailer);
        let records = record_ranges(metadata, trailer, 0..trailer.columns)?.into_iter().zip(self.columns()?);
        let mut stretches: Vec<Stretch> = records
            .map(|(range, record)| Stretch {
                range,
                what: format!("record of column {:?}", record.field.name()),
                section: "file.md, Column record",
            })
            .collect();
        let rest = [
            (trailer.record_table..trailer.hash_index, "record table", INDEX),
            (trailer.hash_index..trailer.file_record, "hash index", INDEX),
            (trailer.file_record..metadata.size_bytes(), "file record", "file.md, File record"),
        ];
        let rest = rest.into_iter().filter(|(range, ..)| !range.is_empty());
        stretches.extend(rest.map(|(range, what, section)| Stretch { range, what: what.to_owned(), section }));
        Ok(stretches)
    }
}

/// A stretch of the logical metadata string.
struct Stretch {
    range: Range<u32>,
    what: String,
    section: &'static str,
}

/// Adds what lies between two parts: padding, or values too large for blocks.
fn push_gap(start: u64, end: u64, row_group: Option<usize>, parts: &mut Vec<Part>) {
    if start >= end {
        return;
    }
    let (what, section) = match row_group {
        Some(row_group) if end - start > MAX_PADDING_BYTES => {
            (format!("row group {row_group}, large values"), "file.md, The file")
        }
        _ => ("padding".to_owned(), "file.md, The file"),
    };
    parts.push(Part::new(start..end, what, section));
}

/// The blocks, shared parts and Bloom filters of a column and all below.
pub(super) fn stored_blocks(record: &std::sync::Arc<ColumnRecord>) -> Vec<StoredBlock> {
    const BLOCK: &str = "block.md, The block";
    let mut all = Vec::new();
    for (path, record) in record.tree() {
        for (row_group, chunk) in record.chunks.iter().enumerate() {
            let parts = chunk
                .parts
                .iter()
                .enumerate()
                .map(|(number, part)| (part.offset, part.size_bytes, format!("shared part {number}"), BLOCK));
            let blocks = chunk
                .blocks
                .iter()
                .enumerate()
                .map(|(number, block)| (block.offset, block.size_bytes, format!("block {number}"), BLOCK));
            let bloom = chunk.bloom.map(|bloom| {
                let size_bytes = bloom.layout.size_bytes();
                (bloom.offset, size_bytes, "Bloom filters".to_owned(), "file.md, Bloom filters")
            });
            all.extend(parts.chain(blocks).chain(bloom).map(|(offset, size_bytes, what, section)| {
                let what = format!("column {path:?}, row group {row_group}, {what}");
                StoredBlock { offset, size_bytes, row_group, what, section }
            }));
        }
    }
    all
}
