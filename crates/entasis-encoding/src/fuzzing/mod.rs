//! What fuzz targets do with bytes. Not part of the crate's interface.
//!
//! The bytes of an input are blocks back to back: the last is asked everything, those before it are its shared parts.
//! `mutate` changes such bytes below their checksums, so that a fuzzer gets to the code behind them.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Owned, Random, Shape};
    use crate::{ChunkEncoder, EncodeOptions, Fixed, Physical, Profile};

    /// Alters bytes as a fuzzer does.
    fn change(random: &mut Random, bytes: &mut Vec<u8>) {
        let at = random.below(bytes.len() + 1);
        match random.below(4) {
            0 => bytes.insert(at, random.next() as u8),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 if at < bytes.len() => bytes[at] = random.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
            _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            _ => bytes.push(0),
        }
    }

    /// A shared part and the last of the blocks that refer to it, or one block alone.
    fn input(physical: &Physical, shape: Shape, random: &mut Random) -> Vec<u8> {
        let options = EncodeOptions::of(random.pick(&Profile::ALL));
        let mut chunk = ChunkEncoder::new(physical.clone(), options);
        let mut last = Vec::new();
        for rows in [1_100, 1 + random.below(1_500)] {
            let owned = Owned::generate(physical, shape, rows, rows % 2 == 0, random);
            last = chunk.encode(&owned.column(), false, &mut |_| Ok(0)).unwrap().bytes;
        }
        let parts = chunk.finish().unwrap().into_iter().flat_map(|part| part.bytes);
        parts.chain(last).collect()
    }

    #[test]
    fn mutated_blocks_are_opened_and_do_no_harm() {
        let mut random = Random::new(23);
        let text = Physical::Struct(vec![Physical::Bytes, Physical::Fixed(Fixed::F64)]);
        let physicals = [Physical::Bytes, Physical::Fixed(Fixed::I64), Physical::List(Box::new(text)), Physical::Bool];
        let (mut whole, mut changed) = (0, 0);
        for physical in physicals {
            for shape in [Shape::Few, Shape::Runs, Shape::Outliers, Shape::Decimals] {
                let start = input(&physical, shape, &mut random);
                let mut bytes = start.clone();
                for step in 0..60 {
                    if step % 6 == 0 {
                        bytes.clone_from(&start);
                    }
                    let seed = random.next();
                    bytes = mutate(&bytes, seed, &mut |bytes| change(&mut random, bytes));
                    exercise(&bytes);
                    changed += usize::from(bytes != start);
                    whole += usize::from(Head::parse(&bytes).is_ok());
                }
            }
        }
        assert!(changed > 800 && whole > 700, "{changed} of 960 are other bytes, {whole} have a head that fits");
    }

    #[test]
    fn a_head_does_not_describe_a_body_that_it_has_no_checksums_for() {
        let mut head = vec![0, 0, 0, 1, 0, Fixed::U8 as u8, 1];
        crate::wire::write_varint(1 << 61, &mut head);
        head.extend_from_slice(&[1, 1, 1, 0]);
        head[2] = head.len() as u8 + 4;
        let checksum = crc32c::crc32c(&head);
        head.extend_from_slice(&checksum.to_le_bytes());
        let error = Head::parse(&head).unwrap_err().to_string();
        assert!(error.contains("buffer lengths"), "{error}");
    }

    #[test]
    fn resealing_makes_every_checksum_fit() {
        let mut bytes = input(&Physical::Fixed(Fixed::I64), Shape::Scattered, &mut Random::new(29));
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        let open = |bytes: &[u8]| {
            let bytes = bytes::Bytes::copy_from_slice(bytes);
            crate::Block::open(bytes, &crate::Parts::new(), None, &crate::Limits::default()).unwrap()
        };
        assert!(open(&bytes).verify().is_err());
        reseal(&mut bytes);
        open(&bytes).verify().unwrap();
    }
}
