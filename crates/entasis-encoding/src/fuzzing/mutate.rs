//! Changes blocks below their checksums: as trees of nodes, of which one thing is changed before a block is written anew.

use std::ops::Range;

use super::{DECODED_BYTES, split};
use crate::block::head::{EncodedNode, Head, NodeRecord, head_size_bytes, write_block};
use crate::encodings::REGISTRY;
use crate::random::Random;
use crate::wire::Reader;
use crate::{BLOCK_ROWS, Physical};

/// Changes one thing of the blocks that `input` consists of. `change` alters any bytes in any way: it is the fuzzer's own.
/// An input that isn't made of blocks is changed as a whole.
pub fn mutate(input: &[u8], seed: u64, change: &mut dyn FnMut(&mut Vec<u8>)) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut blocks: Vec<Vec<u8>> = split(input).into_iter().map(<[u8]>::to_vec).collect();
    let chosen = random.below(blocks.len());
    let cut = random.below(blocks[chosen].len() + 1);
    match (random.below(40), Tree::parse(&blocks[chosen])) {
        (0, _) => blocks.insert(chosen, blocks[random.below(blocks.len())].clone()),
        (1, _) if blocks.len() > 1 => {
            blocks.remove(chosen);
        }
        (2, _) => blocks[chosen].truncate(cut),
        (3..6, _) | (_, None) => {
            change(&mut blocks[chosen]);
            reseal(&mut blocks[chosen]);
        }
        (_, Some(mut tree)) => {
            for _ in 0..1 + random.below(3) {
                tree.change(&mut random, change);
            }
            blocks[chosen] = tree.write();
        }
    }
    blocks.concat()
}

/// Makes the checksums of a block fit its bytes, as far as its head can be parsed.
pub fn reseal(block: &mut [u8]) {
    const CHECKSUM_BYTES: usize = 4;
    let Ok(size_bytes) = head_size_bytes(block) else { return };
    let seal_head = |block: &mut [u8]| {
        let (fields, rest) = block.split_at_mut(size_bytes - CHECKSUM_BYTES);
        rest[..CHECKSUM_BYTES].copy_from_slice(&crc32c::crc32c(fields).to_le_bytes());
    };
    if size_bytes > block.len() {
        return;
    }
    seal_head(block);
    let Ok(head) = Head::parse(block) else { return };
    let checksums_at = size_bytes - CHECKSUM_BYTES * (1 + head.placement.runs.len());
    for (number, run) in head.placement.runs.iter().enumerate() {
        let Some(bytes) = block.get(run.start as usize..run.end as usize) else { break };
        let checksum = crc32c::crc32c(bytes).to_le_bytes();
        block[checksums_at + CHECKSUM_BYTES * number..][..CHECKSUM_BYTES].copy_from_slice(&checksum);
    }
    seal_head(block);
}

/// A block taken apart.
struct Tree {
    physical: Physical,
    decoded_bytes: u64,
    shared: bool,
    root: EncodedNode,
}

impl Tree {
    fn parse(block: &[u8]) -> Option<Self> {
        let head = Head::parse(block).ok().filter(|head| head.block_size_bytes() == block.len() as u64)?;
        let root = node(&head.root, &head, block);
        Some(Self { physical: head.physical, decoded_bytes: head.decoded_bytes, shared: head.shared, root })
    }

    fn write(&self) -> Vec<u8> {
        write_block(&self.root, &self.physical, self.decoded_bytes, self.shared).0
    }

    fn change(&mut self, random: &mut Random, change: &mut dyn FnMut(&mut Vec<u8>)) {
        let (root, rows) = (self.root.clone(), self.root.rows);
        let node = descend(&mut self.root, random);
        let buffer = random.below(node.buffers.len().max(1));
        match random.below(16) {
            0 => self.physical = change_physical(&self.physical, change),
            1 => self.decoded_bytes = random.pick(&[0, self.decoded_bytes / 2, DECODED_BYTES]),
            2 => self.shared ^= true,
            3 => node.rows = random.pick(&[0, 1, rows, node.rows + 1, node.rows / 2, 1023, 1024, 1025, BLOCK_ROWS]),
            4 => resize_all(&mut self.root, rows, random.pick(&[0, 1, rows + 1, rows / 2, 1024, 1025, BLOCK_ROWS])),
            5 => node.encoding = random.pick(&REGISTRY).id(),
            6 => node.children.push(any_node(&root, random)),
            7 => drop(node.children.pop()),
            8 => *node = any_node(&root, random),
            9 => {
                let (rows, inner) = (node.rows, node.clone());
                let encoding = random.pick(&REGISTRY).id();
                *node =
                    EncodedNode { encoding, rows, parameters: Vec::new(), buffers: Vec::new(), children: vec![inner] };
            }
            10 if node.buffers.len() < 3 => node.buffers.push(vec![0; random.pick(&[0, 1, 8, 128, 5000])]),
            11 if !node.buffers.is_empty() => {
                let length = node.buffers[buffer].len();
                node.buffers[buffer].resize(random.pick(&[0, length / 2, length + 1, length * 2, length + 4096]), 1);
            }
            12..14 if !node.buffers.is_empty() => change(&mut node.buffers[buffer]),
            _ => change(&mut node.parameters),
        }
    }
}

fn node(record: &NodeRecord, head: &Head, block: &[u8]) -> EncodedNode {
    let buffers = &head.placement.buffers[record.buffers.clone()];
    // An empty buffer may have its place behind the block's end.
    let bytes = |place: &Range<u64>| {
        block.get(place.start as usize..place.end as usize).map(<[u8]>::to_vec).unwrap_or_default()
    };
    EncodedNode {
        encoding: record.encoding,
        rows: record.rows,
        parameters: record.parameters.clone(),
        buffers: buffers.iter().map(bytes).collect(),
        children: record.children.iter().map(|child| node(child, head, block)).collect(),
    }
}

/// Some node of the tree, the root among them.
fn descend<'a>(node: &'a mut EncodedNode, random: &mut Random) -> &'a mut EncodedNode {
    if node.children.is_empty() || random.below(3) == 0 {
        return node;
    }
    let child = random.below(node.children.len());
    descend(&mut node.children[child], random)
}

fn any_node(root: &EncodedNode, random: &mut Random) -> EncodedNode {
    descend(&mut root.clone(), random).clone()
}

/// Gives all nodes of `from` rows `to` rows.
fn resize_all(node: &mut EncodedNode, from: usize, to: usize) {
    if node.rows == from {
        node.rows = to;
    }
    node.children.iter_mut().for_each(|child| resize_all(child, from, to));
}

fn change_physical(physical: &Physical, change: &mut dyn FnMut(&mut Vec<u8>)) -> Physical {
    let mut bytes = Vec::new();
    physical.write(&mut bytes);
    change(&mut bytes);
    Physical::read(&mut Reader::new(&bytes)).unwrap_or_else(|_| physical.clone())
}
