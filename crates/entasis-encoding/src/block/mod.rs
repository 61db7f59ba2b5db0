//! The block: consecutive rows of one column as self-describing encoded bytes. See `spec/block.md`.

pub(crate) mod body;
pub(crate) mod bounds;
pub(crate) mod head;
pub(crate) mod operations;
pub(crate) mod parts;
mod pieces;
mod supplied;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::encodings::node::{Node, Opening, open};
use crate::encodings::{Encoding, by_id, large::Large};
use crate::error::{Error, Result};
use crate::values::{Decoded, LargeValues};
use crate::{Physical, Selection, VECTOR_ROWS};
use body::Body;
pub use body::Verified;
pub use head::HEAD_PREFIX_BYTES;
use head::{Head, NodeRecord};
pub use parts::Parts;

/// XXH3-64 of `bytes`: how blocks and shared parts are told apart.
pub fn digest(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// What a reader is willing to allocate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes that one block may decode to.
    pub decoded_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { decoded_bytes: 256 << 20 }
    }
}

/// An opened block: its head is parsed and checked, its body is verified run by run as it is touched. Cheap to clone.
///
/// A block that was opened [by its head](Block::open_head) has no body yet. Questions that touch what isn't there fail
/// with [`Error::Missing`], which names the runs; whoever has them [supplies](Block::supply) them and asks again.
#[derive(Debug, Clone)]
pub struct Block(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    head: Head,
    body: Body,
    root: Box<dyn Node>,
}

/// One node of a block's cascade, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cascade {
    /// The encoding's name.
    pub encoding: &'static str,
    /// Its id.
    pub id: u8,
    /// Values of the node.
    pub rows: usize,
    /// Bytes of its parameters and buffers, without its children.
    pub size_bytes: u64,
    /// The parameters in words; may be empty.
    pub parameters: String,
    /// The children.
    pub children: Vec<Cascade>,
}

impl Cascade {
    /// The tree in words: `Validity(Bitmap, Delta(BitPacking))`.
    pub fn words(&self) -> String {
        if self.children.is_empty() {
            return self.encoding.to_string();
        }
        let children: Vec<String> = self.children.iter().map(Self::words).collect();
        format!("{}({})", self.encoding, children.join(", "))
    }
}

/// A stretch of a block, for a map of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutItem {
    /// Bytes, counted from the block's start.
    pub range: Range<u64>,
    /// What they are.
    pub part: String,
    /// The page of the specification that fixes them, a comma, and the section's heading.
    pub section: Cow<'static, str>,
    /// Its parts, without gaps; none where it isn't taken apart further.
    pub children: Vec<LayoutItem>,
}

impl LayoutItem {
    fn new(range: Range<u64>, part: impl Into<String>, section: &'static str) -> Self {
        Self { range, part: part.into(), section: section.into(), children: Vec::new() }
    }
}

impl Block {
    /// How many bytes the head has, from the first [`HEAD_PREFIX_BYTES`] of a block.
    pub fn head_size_bytes(prefix: &[u8]) -> Result<usize> {
        head::head_size_bytes(prefix)
    }

    /// Opens the block that `bytes` are. `parts` are its chunk's shared parts, `large` finds values that lie outside.
    ///
    /// # Errors
    /// Corrupt if head and length don't agree with the specification, unsupported for unknown versions and encodings, over
    /// the limit if the block declares more than `limits`. Nothing of the body is read.
    pub fn open(
        bytes: Bytes,
        parts: &Parts,
        large: Option<Arc<dyn LargeValues + Send + Sync>>,
        limits: &Limits,
    ) -> Result<Self> {
        Self::open_whole(bytes, parts, large, limits, None)
    }

    /// Opens the same bytes once more, of which others have verified some: those runs aren't verified again. Nothing else is shared; what an open
    /// block remembers of its values is its own.
    ///
    /// # Errors
    /// As [`Block::open`]. Notes of other bytes let damages pass for values, and nothing worse: memory safety never rests on checksums.
    pub fn open_again(
        bytes: Bytes,
        parts: &Parts,
        large: Option<Arc<dyn LargeValues + Send + Sync>>,
        limits: &Limits,
        verified: &Arc<Verified>,
    ) -> Result<Self> {
        Self::open_whole(bytes, parts, large, limits, Some(verified.clone()))
    }

    fn open_whole(
        bytes: Bytes,
        parts: &Parts,
        large: Option<Arc<dyn LargeValues + Send + Sync>>,
        limits: &Limits,
        verified: Option<Arc<Verified>>,
    ) -> Result<Self> {
        let head = Head::parse(&bytes)?;
        head.check_size(bytes.len() as u64)?;
        let root = open_root(&head, parts, large, limits)?;
        let body = Body::new(bytes, head.placement.clone(), head.checksums.clone(), verified);
        Ok(Self(Arc::new(Inner { head, body, root })))
    }

    /// Which of its checksum runs have been verified, from now on as well, for [`Block::open_again`]; `None` for blocks that are supplied run by
    /// run.
    pub fn verified(&self) -> Option<&Arc<Verified>> {
        self.0.body.verified()
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.0.head.rows
    }

    /// The type of its values.
    pub fn physical(&self) -> &Physical {
        &self.0.head.physical
    }

    /// True for a shared part.
    pub fn is_shared_part(&self) -> bool {
        self.0.head.shared
    }

    /// The declared bound on what decoding yields, in bytes.
    pub fn decoded_size_bytes(&self) -> u64 {
        self.0.head.decoded_bytes
    }

    /// Bytes of the whole block.
    pub fn size_bytes(&self) -> u64 {
        self.0.head.block_size_bytes()
    }

    /// Bytes of it that are in memory: fewer where not all has been supplied.
    pub fn held_bytes(&self) -> u64 {
        self.0.body.held_bytes()
    }

    /// XXH3-64 of the block's bytes, which are the same wherever it lies.
    pub fn digest(&self) -> Result<u64> {
        Ok(digest(self.0.body.whole()?))
    }

    /// Ids of the encodings in the cascade, ascending.
    pub fn encodings(&self) -> Vec<u8> {
        fn collect(node: &NodeRecord, out: &mut Vec<u8>) {
            out.push(node.encoding);
            node.children.iter().for_each(|child| collect(child, out));
        }
        let mut ids = Vec::new();
        collect(&self.0.head.root, &mut ids);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// True if some of its values may lie outside of it: see [`LargeValues`].
    pub fn has_large_values(&self) -> bool {
        self.encodings().contains(&Large.id())
    }

    /// Appends the values of `rows` to `out`, which must be of the block's type. After an error `out` is unspecified.
    pub fn decode(&self, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        self.check_rows(rows.start <= rows.end && rows.end <= self.rows(), || format!("rows {rows:?}"))?;
        // Kernels write up to a vector more than was asked for, and take it back.
        out.reserve(rows.len() + VECTOR_ROWS);
        self.0.root.decode(&self.0.body, rows, out)
    }

    /// The values of `rows` in the block's own memory, verified, where they lie there as they are: lanes, or fixed-size lists of
    /// lanes, back to back and little-endian, none of them null. `None` where they have to be decoded. The bytes keep the block's
    /// memory alive, and lie where the block does: whoever needs them aligned looks at their address.
    pub fn lend(&self, rows: Range<usize>) -> Result<Option<Bytes>> {
        self.check_rows(rows.start <= rows.end && rows.end <= self.rows(), || format!("rows {rows:?}"))?;
        self.0.root.lend(&self.0.body, rows)
    }

    /// Whether [`Block::lend`] lends values of this block. Nothing of the body is read for that.
    pub fn lends(&self) -> bool {
        matches!(self.lend(0..0), Ok(Some(_)))
    }

    /// Appends single rows, in the order given; a row may be asked for twice.
    pub fn get(&self, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let worst = rows.iter().max().copied().unwrap_or(0) as usize;
        self.check_rows(rows.is_empty() || worst < self.rows(), || format!("row {worst}"))?;
        self.0.root.get(&self.0.body, rows, out)
    }

    pub(crate) fn root(&self) -> &dyn Node {
        &*self.0.root
    }

    pub(crate) fn root_encoding(&self) -> u8 {
        self.0.head.root.encoding
    }

    pub(crate) fn body(&self) -> &Body {
        &self.0.body
    }

    fn check_rows(&self, good: bool, what: impl Fn() -> String) -> Result<()> {
        if good {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!("{} of a block of {}", what(), self.rows())))
    }

    pub(crate) fn check_selection(&self, selection: &Selection) -> Result<()> {
        self.check_rows(selection.rows() == self.rows(), || format!("a selection of {} rows", selection.rows()))
    }

    /// Verifies all checksums, that padding is zero, and that shared parts hold the values that the block was written for.
    pub fn verify(&self) -> Result<()> {
        fn walk(node: &dyn Node, body: &Body) -> Result<()> {
            node.verify(body)?;
            node.children().into_iter().try_for_each(|child| walk(child, body))
        }
        self.0.body.verify(self.0.head.size_bytes as u64)?;
        walk(&*self.0.root, &self.0.body)
    }

    /// The cascade, for people.
    pub fn cascade(&self) -> Cascade {
        fn describe(node: &dyn Node, record: &NodeRecord, body: &Body) -> Cascade {
            let buffers = &body.placement().buffers[record.buffers.clone()];
            let buffer_bytes: u64 = buffers.iter().map(|buffer| buffer.end - buffer.start).sum();
            let children = node.children();
            Cascade {
                encoding: by_id(record.encoding).map_or("unknown", |encoding| encoding.name()),
                id: record.encoding,
                rows: record.rows,
                size_bytes: buffer_bytes + record.parameters.len() as u64,
                parameters: node.describe(),
                children: children
                    .iter()
                    .zip(&record.children)
                    .map(|(node, record)| describe(*node, record, body))
                    .collect(),
            }
        }
        describe(&*self.0.root, &self.0.head.root, &self.0.body)
    }

    /// What each stretch of the block's bytes is, in order, without gaps.
    pub fn layout(&self) -> Vec<LayoutItem> {
        let head = &self.0.head;
        let nodes = node_layout(&head.root);
        let (nodes_end, size) = (nodes.range.end, head.size_bytes as u64);
        let mut fields = vec![LayoutItem::new(0..nodes.range.start, "fields", "block.md, Head"), nodes];
        if size - 4 > nodes_end {
            fields.push(LayoutItem::new(nodes_end..size - 4, "checksums of the runs", "block.md, Checksum runs"));
        }
        fields.push(LayoutItem::new(size - 4..size, "checksum of the head", "block.md, Head"));
        let head_item = LayoutItem { children: fields, ..LayoutItem::new(0..size, "head", "block.md, Head") };
        let buffers = self.buffer_layout();
        let Some((first, last)) = buffers.first().zip(buffers.last()) else { return vec![head_item] };
        let body = LayoutItem::new(first.range.start..last.range.end, "body", "block.md, Body");
        vec![head_item, LayoutItem { children: buffers, ..body }]
    }

    /// The buffers, and the padding before each.
    fn buffer_layout(&self) -> Vec<LayoutItem> {
        let mut names = Vec::new();
        buffer_names(&self.0.head.root, &mut names);
        let mut end = self.0.head.size_bytes as u64;
        let mut items = Vec::new();
        for (buffer, (part, section)) in self.0.head.placement.buffers.iter().zip(names) {
            if buffer.is_empty() {
                continue;
            }
            if buffer.start > end {
                items.push(LayoutItem::new(end..buffer.start, "padding", "block.md, Body"));
            }
            items.push(LayoutItem { range: buffer.clone(), part, section: section.into(), children: Vec::new() });
            end = buffer.end;
        }
        items
    }
}

/// Holds what a head declares against the limits, and opens its nodes.
fn open_root(
    head: &Head,
    parts: &Parts,
    large: Option<Arc<dyn LargeValues + Send + Sync>>,
    limits: &Limits,
) -> Result<Box<dyn Node>> {
    if head.decoded_bytes > limits.decoded_bytes {
        let what = "decoded size of a block in bytes";
        return Err(Error::OverLimit { what, declared: head.decoded_bytes, limit: limits.decoded_bytes });
    }
    let least = bounds::least_decoded_bytes(&head.physical, &head.root);
    if least > head.decoded_bytes {
        let what = format!("declares {} decoded bytes, its rows alone take {least}", head.decoded_bytes);
        return Err(Error::corrupt("head", 0, what));
    }
    open(&Opening {
        record: &head.root,
        physical: &head.physical,
        placement: &head.placement,
        parts,
        large: large.as_ref(),
        decoded_bytes: head.decoded_bytes,
        budget: &Arc::new(bounds::Budget::new(head.decoded_bytes)),
        nullable: true,
    })
}

/// A node with all below it.
fn node_layout(record: &NodeRecord) -> LayoutItem {
    const SECTION: &str = "block.md, Nodes";
    let name = by_id(record.encoding).map_or("unknown", |encoding| encoding.name());
    let own = record.span.start as u64..record.span.end as u64;
    let mut children: Vec<_> = record.children.iter().map(node_layout).collect();
    let end = children.last().map_or(own.end, |child| child.range.end);
    let whole = LayoutItem::new(own.start..end, format!("node {name}, {} rows", record.rows), SECTION);
    if !children.is_empty() {
        children.insert(0, LayoutItem::new(own, "its fields", SECTION));
    }
    LayoutItem { children, ..whole }
}

fn buffer_names(record: &NodeRecord, names: &mut Vec<(String, String)>) {
    let name = by_id(record.encoding).map_or("unknown", |encoding| encoding.name());
    for index in 0..record.buffers.len() {
        names.push((format!("{name}, buffer {index}"), format!("encodings.md, {name}")));
    }
    record.children.iter().for_each(|child| buffer_names(child, names));
}

/// Vectors of the block that a selection and an operation walk together.
fn vector_rows(vector: usize, rows: usize) -> Range<usize> {
    let start = vector * VECTOR_ROWS;
    start..(start + VECTOR_ROWS).min(rows)
}
