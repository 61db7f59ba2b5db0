//! The map of a file: what each of its bytes belongs to.

use super::Reader;
use crate::{
    error::Result,
    metadata::{
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
    /// The section of the specification that says what its bytes mean.
    pub section: &'static str,
}

/// A block or shared part of some column.
pub(super) struct StoredBlock {
    pub offset: u64,
    pub size_bytes: u64,
    pub row_group: usize,
    pub what: String,
}

/// Padding is shorter than the largest alignment.
const MAX_PADDING_BYTES: u64 = 63;

impl Reader {
    /// The parts of the file, by offset, without gaps. Reads all metadata.
    pub fn layout(&self) -> Result<Vec<Part>> {
        let mut parts = vec![Part {
            offset: 0,
            size_bytes: MAGIC.len() as u64,
            what: "magic".to_owned(),
            section: "file.md, The file",
        }];
        let mut blocks: Vec<StoredBlock> = self.columns()?.iter().flat_map(stored_blocks).collect();
        blocks.sort_by_key(|block| block.offset);
        let mut end = MAGIC.len() as u64;
        for block in blocks {
            push_gap(end, block.offset, Some(block.row_group), &mut parts);
            let (offset, size_bytes) = (block.offset, block.size_bytes);
            end = end.max(offset.saturating_add(size_bytes));
            parts.push(Part { offset, size_bytes, what: block.what, section: "block.md, The block" });
        }
        let trailer = &self.inner.trailer;
        push_gap(end, trailer.pages_offset, None, &mut parts);
        let metadata = &self.inner.metadata;
        for page in 0..metadata.page_count() {
            let range = metadata.page_range(page);
            parts.push(Part {
                offset: range.start,
                size_bytes: range.end - range.start,
                what: format!("metadata page {page}"),
                section: "file.md, Metadata pages",
            });
        }
        let size_bytes = TRAILER_SIZE_BYTES as u64;
        let offset = self.size_bytes() - size_bytes;
        parts.push(Part { offset, size_bytes, what: "trailer".to_owned(), section: "file.md, Trailer" });
        Ok(parts)
    }
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
        _ => ("padding".to_owned(), "block.md, Body"),
    };
    parts.push(Part { offset: start, size_bytes: end - start, what, section });
}

/// The blocks and shared parts of a column and all below.
pub(super) fn stored_blocks(record: &std::sync::Arc<ColumnRecord>) -> Vec<StoredBlock> {
    let mut all = Vec::new();
    for (path, record) in record.tree() {
        for (row_group, chunk) in record.chunks.iter().enumerate() {
            let parts = chunk
                .parts
                .iter()
                .enumerate()
                .map(|(number, part)| (part.offset, part.size_bytes, format!("shared part {number}")));
            let blocks = chunk
                .blocks
                .iter()
                .enumerate()
                .map(|(number, block)| (block.offset, block.size_bytes, format!("block {number}")));
            all.extend(parts.chain(blocks).map(|(offset, size_bytes, what)| {
                let what = format!("column {path:?}, row group {row_group}, {what}");
                StoredBlock { offset, size_bytes, row_group, what }
            }));
        }
    }
    all
}
