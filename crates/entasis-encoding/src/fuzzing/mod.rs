//! What fuzz targets do with bytes. Not part of the crate's interface.
//!
//! The bytes of an input are blocks back to back: the last is asked everything, those before it are its shared parts.
//! [`mutate`] changes such bytes below their checksums, so that a fuzzer gets to the code behind them.

mod exercise;
mod mutate;

pub use exercise::exercise;
pub use mutate::{mutate, reseal};

use crate::block::head::Head;

/// Most bytes that one block may decode to while fuzzing.
pub const DECODED_BYTES: u64 = 16 << 20;

/// Cuts an input into its blocks; the last one takes what is left.
fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    const MOST_BLOCKS: usize = 8;
    let mut blocks = Vec::new();
    while blocks.len() < MOST_BLOCKS - 1 {
        let Ok(head) = Head::parse(bytes) else { break };
        match usize::try_from(head.block_size_bytes()) {
            Ok(size_bytes) if size_bytes < bytes.len() => {
                let (block, rest) = bytes.split_at(size_bytes);
                blocks.push(block);
                bytes = rest;
            }
            _ => break,
        }
    }
    blocks.push(bytes);
    blocks
}
