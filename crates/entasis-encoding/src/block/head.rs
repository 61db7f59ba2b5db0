//! The head: what a block says of itself. See *Head* in `spec/block.md`.

use std::ops::Range;

use super::body::{MOST_RUN_BYTES, Placement};
use crate::error::{Error, Result};
use crate::wire::{Reader, WireError, varint_size_bytes, write_bytes, write_varint};
use crate::{BLOCK_ROWS, MAX_NESTING, Physical, simd};

/// Bytes of a block that tell how long its head is.
pub const HEAD_PREFIX_BYTES: usize = 16;
const VERSION: u8 = 0;
const SHARED_PART: u8 = 1;
const MAX_NODES: usize = 65_535;
const CHECKSUM_BYTES: usize = 4;

/// One node of the tree, as it lies in the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    pub encoding: u8,
    pub rows: usize,
    /// Offset in the head, and the parameters themselves.
    pub parameters_at: usize,
    pub parameters: Vec<u8>,
    /// Numbers of its buffers in the block.
    pub buffers: Range<usize>,
    pub children: Vec<NodeRecord>,
    /// Where the record of this node alone begins in the head, and where its parameters end.
    pub span: Range<usize>,
}

/// A parsed head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub size_bytes: usize,
    pub shared: bool,
    pub rows: usize,
    pub decoded_bytes: u64,
    pub physical: Physical,
    pub placement: Placement,
    pub root: NodeRecord,
    pub checksums: Vec<u32>,
}

/// The length of a head, from the first [`HEAD_PREFIX_BYTES`] of a block (or all of a shorter one).
pub(crate) fn head_size_bytes(prefix: &[u8]) -> Result<usize> {
    let mut reader = Reader::new(prefix);
    let truncated = |error: WireError| Error::corrupt("head", error.0 as u64, "ends too early");
    let version = reader.u8().map_err(truncated)?;
    if version != VERSION {
        return Err(Error::Unsupported(format!("block version {version}; this reader knows version {VERSION}")));
    }
    let flags = reader.u8().map_err(truncated)?;
    if flags & !SHARED_PART != 0 {
        return Err(Error::Unsupported(format!("block flags {flags:#04x}: a newer writer's")));
    }
    let size = reader.varint().map_err(truncated)?;
    // A head of 64 MiB would describe a block of many gigabytes; more is damage.
    if size < (reader.position() + CHECKSUM_BYTES) as u64 || size > 64 << 20 {
        return Err(Error::corrupt("head", 2, format!("claims a length of {size} bytes")));
    }
    Ok(size as usize)
}

impl Head {
    /// Parses and verifies the head at the start of `bytes`, which may be the head alone.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let size_bytes = head_size_bytes(bytes)?;
        let head = bytes
            .get(..size_bytes)
            .ok_or_else(|| Error::corrupt("head", bytes.len() as u64, format!("ends before its {size_bytes} bytes")))?;
        let (fields, checksum) = head.split_at(size_bytes - CHECKSUM_BYTES);
        if simd::crc32c(fields).to_le_bytes() != *checksum {
            return Err(Error::corrupt("head", 0, "doesn't match its checksum"));
        }
        Self::parse_fields(fields, size_bytes).map_err(|problem| match problem {
            Problem::Wire(error) => Error::corrupt("head", error.0 as u64, "ends too early or holds a bad number"),
            Problem::Error(error) => error,
        })
    }

    fn parse_fields(fields: &[u8], size_bytes: usize) -> Result<Self, Problem> {
        let mut reader = Reader::new(fields);
        reader.u8()?;
        let shared = reader.u8()? == SHARED_PART;
        reader.varint()?;
        let rows = reader.length(BLOCK_ROWS)?;
        let decoded_bytes = reader.varint()?;
        let physical = Physical::read(&mut reader)?;
        let count = reader.length(reader.remaining())?;
        let lengths = (0..count).map(|_| reader.varint()).collect::<Result<Vec<_>, _>>()?;
        let lengths_end = reader.position();
        // Each run has a checksum here in the head, so that the head bounds the body that it can describe.
        let most_bytes = fields.len() as u64 / CHECKSUM_BYTES as u64 * MOST_RUN_BYTES;
        if lengths.iter().try_fold(0u64, |sum, &length| sum.checked_add(length)).is_none_or(|sum| sum > most_bytes) {
            return Err(
                Error::corrupt("buffer lengths", lengths_end as u64, "exceed what the head has checksums for").into()
            );
        }
        let placement = Placement::new(size_bytes as u64, &lengths)
            .ok_or_else(|| Error::corrupt("buffer lengths", lengths_end as u64, "are absurdly large"))?;
        let mut counts = Counts { nodes: 0, buffers: 0 };
        let root = read_node(&mut reader, &mut counts, MAX_NESTING)?;
        let at = reader.position() as u64;
        if counts.buffers != count {
            return Err(Error::corrupt("nodes", at, format!("use {} buffers of {count}", counts.buffers)).into());
        }
        if root.rows != rows {
            return Err(Error::corrupt("nodes", at, format!("the root has {} rows of {rows}", root.rows)).into());
        }
        if reader.remaining() != placement.runs.len() * CHECKSUM_BYTES {
            let what = format!("{} bytes of run checksums for {} runs", reader.remaining(), placement.runs.len());
            return Err(Error::corrupt("run checksums", at, what).into());
        }
        let checksums = (0..placement.runs.len()).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        Ok(Self { size_bytes, shared, rows, decoded_bytes, physical, placement, root, checksums })
    }

    /// Fails unless the block has `size_bytes`.
    pub fn check_size(&self, size_bytes: u64) -> Result<()> {
        match self.block_size_bytes() {
            described if described == size_bytes => Ok(()),
            described => {
                let what = format!("the head describes {described} bytes, there are {size_bytes}");
                Err(Error::corrupt("block", size_bytes, what))
            }
        }
    }

    /// Where the block ends.
    pub fn block_size_bytes(&self) -> u64 {
        self.placement.end(self.size_bytes as u64)
    }
}

enum Problem {
    Wire(WireError),
    Error(Error),
}

impl From<WireError> for Problem {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

struct Counts {
    nodes: usize,
    buffers: usize,
}

fn read_node(reader: &mut Reader<'_>, counts: &mut Counts, depth: usize) -> Result<NodeRecord, Problem> {
    let start = reader.position();
    counts.nodes += 1;
    let Some(depth) = depth.checked_sub(1).filter(|_| counts.nodes <= MAX_NODES) else {
        return Err(Error::corrupt("nodes", start as u64, "nest too deep or are too many").into());
    };
    let encoding = reader.u8()?;
    let rows = reader.length(u32::MAX as usize)?;
    let shape = reader.length(MAX_NODES * 4)?;
    let length = reader.length(reader.remaining())?;
    let parameters_at = reader.position();
    let parameters = reader.take(length)?.to_vec();
    let span = start..reader.position();
    let buffers = counts.buffers..counts.buffers + shape % 4;
    counts.buffers = buffers.end;
    let children = (0..shape / 4).map(|_| read_node(reader, counts, depth)).collect::<Result<_, _>>()?;
    Ok(NodeRecord { encoding, rows, parameters_at, parameters, buffers, children, span })
}

/// An encoded node on its way into a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EncodedNode {
    pub encoding: u8,
    pub rows: usize,
    pub parameters: Vec<u8>,
    pub buffers: Vec<Vec<u8>>,
    pub children: Vec<EncodedNode>,
}

impl EncodedNode {
    /// Bytes that this tree takes in a block, about: what predictions are held against.
    pub fn size_bytes(&self) -> usize {
        let own: usize = self.buffers.iter().map(|buffer| buffer.len() + if buffer.is_empty() { 1 } else { 6 }).sum();
        own + 6 + self.parameters.len() + self.children.iter().map(Self::size_bytes).sum::<usize>()
    }

    /// Calls `visit` for every node, parents first.
    pub fn visit(&self, visit: &mut dyn FnMut(&EncodedNode)) {
        visit(self);
        self.children.iter().for_each(|child| child.visit(visit));
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.encoding);
        write_varint(self.rows as u64, out);
        write_varint((self.children.len() * 4 + self.buffers.len()) as u64, out);
        write_bytes(&self.parameters, out);
        self.children.iter().for_each(|child| child.write(out));
    }

    fn collect_buffers<'a>(&'a self, out: &mut Vec<&'a [u8]>) {
        out.extend(self.buffers.iter().map(Vec::as_slice));
        self.children.iter().for_each(|child| child.collect_buffers(out));
    }
}

/// The bytes of a block around `root`, and the alignment at which it wants to be placed.
pub(crate) fn write_block(
    root: &EncodedNode,
    physical: &Physical,
    decoded_bytes: u64,
    shared: bool,
) -> (Vec<u8>, usize) {
    let mut buffers = Vec::new();
    root.collect_buffers(&mut buffers);
    let lengths: Vec<u64> = buffers.iter().map(|buffer| buffer.len() as u64).collect();
    let mut fields = Vec::new();
    write_varint(root.rows as u64, &mut fields);
    write_varint(decoded_bytes, &mut fields);
    physical.write(&mut fields);
    write_varint(lengths.len() as u64, &mut fields);
    lengths.iter().for_each(|&length| write_varint(length, &mut fields));
    root.write(&mut fields);

    // The number of runs doesn't depend on the head's length, so any length will do to count them.
    let placed = |size_bytes: usize| {
        Placement::new(size_bytes as u64, &lengths).unwrap_or_else(|| unreachable!("the buffers are in memory"))
    };
    let fixed = 2 + fields.len() + (placed(0).runs.len() + 1) * CHECKSUM_BYTES;
    let mut size_bytes = fixed + 1;
    while fixed + varint_size_bytes(size_bytes as u64) > size_bytes {
        size_bytes += 1;
    }
    let placement = placed(size_bytes);
    let mut bytes = vec![VERSION, u8::from(shared) * SHARED_PART];
    write_varint(size_bytes as u64, &mut bytes);
    bytes.extend_from_slice(&fields);
    let mut body = vec![0; placement.end(size_bytes as u64) as usize - size_bytes];
    for (place, buffer) in placement.buffers.iter().zip(&buffers) {
        if !buffer.is_empty() {
            let start = place.start as usize - size_bytes;
            body[start..start + buffer.len()].copy_from_slice(buffer);
        }
    }
    for run in &placement.runs {
        let run = run.start as usize - size_bytes..run.end as usize - size_bytes;
        bytes.extend_from_slice(&simd::crc32c(&body[run]).to_le_bytes());
    }
    let checksum = simd::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    debug_assert_eq!(bytes.len(), size_bytes);
    bytes.extend_from_slice(&body);
    (bytes, placement.alignment as usize)
}
