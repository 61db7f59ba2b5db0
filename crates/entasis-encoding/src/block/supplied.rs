//! Blocks whose body arrives run by run: opened by their head, they say which bytes they lack. Nothing here reads.

use std::ops::Range;
use std::sync::Arc;

use super::body::Body;
use super::head::Head;
use super::{Block, Inner, Limits, Parts, open_root};
use crate::error::{Error, Result};
use crate::values::{BytesForm, Decoded, LargeValues};

impl Block {
    /// Opens a block of `size_bytes` by its head, with which `bytes` begin: how many bytes that takes,
    /// [`Block::head_size_bytes`] says. The body is [supplied](Block::supply) as far as it is needed.
    ///
    /// # Errors
    /// Those of [`Block::open`].
    pub fn open_head(
        bytes: &[u8],
        size_bytes: u64,
        parts: &Parts,
        large: Option<Arc<dyn LargeValues + Send + Sync>>,
        limits: &Limits,
    ) -> Result<Self> {
        let head = Head::parse(bytes)?;
        head.check_size(size_bytes)?;
        let root = open_root(&head, parts, large, limits)?;
        let body = Body::of_head(&bytes[..head.size_bytes], head.placement.clone(), head.checksums.clone());
        Ok(Self(Arc::new(Inner { head, body, root })))
    }

    /// Takes over the checksum runs that lie wholly within `bytes`, the first of which is byte `start` of the block.
    /// Several threads may do so at once; what is there already stays. Nothing happens to blocks that are whole.
    ///
    /// # Errors
    /// Corrupt if a run doesn't match its checksum; it is then still missing.
    pub fn supply(&self, start: u64, bytes: &[u8]) -> Result<()> {
        self.0.body.supply(start, bytes)
    }

    /// The checksum runs that haven't been supplied, as ranges of bytes of the block.
    pub fn missing(&self) -> Vec<Range<u64>> {
        self.0.body.missing()
    }

    /// The checksum runs that [`Block::get`] of `rows` lacks, as far as is known: where those lie that a child of a
    /// cascade needs may show only once those of another were supplied. With an empty answer all needs are met, but
    /// for what lies between rows of one vector, which are decoded together. Large values aren't fetched.
    ///
    /// # Errors
    /// Those of [`Block::get`], but for [`Error::Missing`].
    pub fn missing_for(&self, rows: &[u32]) -> Result<Vec<Range<u64>>> {
        let Some(probe) = self.0.body.probe() else { return Ok(Vec::new()) };
        let mut missing = Vec::new();
        let mut scratch = Decoded::new(self.physical(), BytesForm::Views);
        for row in rows {
            self.check_rows((*row as usize) < self.rows(), || format!("row {row}"))?;
            match self.0.root.get(&probe, std::slice::from_ref(row), &mut scratch) {
                Ok(()) => scratch.clear(),
                Err(Error::Missing(ranges)) => {
                    scratch = Decoded::new(self.physical(), BytesForm::Views);
                    missing.extend(ranges);
                }
                Err(error) => return Err(error),
            }
        }
        missing.sort_unstable_by_key(|range| range.start);
        missing.dedup();
        Ok(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::digest;
    use crate::testing::{Cell, Owned, Random, Shape, cells_of, cells_of_column};
    use crate::{ChunkEncoder, EncodeOptions, Fixed, Physical};

    /// A block that was opened by its head, and whoever has its bytes.
    struct Remote {
        block: Block,
        bytes: Vec<u8>,
        supplied_bytes: usize,
        rounds: usize,
    }

    impl Remote {
        fn open(bytes: Vec<u8>, parts: &Parts) -> Self {
            let head_bytes = Block::head_size_bytes(&bytes[..bytes.len().min(crate::HEAD_PREFIX_BYTES)]).unwrap();
            let head = &bytes[..head_bytes];
            let block = Block::open_head(head, bytes.len() as u64, parts, None, &Limits::default()).unwrap();
            Self { block, bytes, supplied_bytes: 0, rounds: 0 }
        }

        fn supply(&mut self, ranges: &[Range<u64>]) -> Result<()> {
            assert!(!ranges.is_empty(), "what lacks nothing isn't missing");
            self.rounds += 1;
            for range in ranges {
                self.supplied_bytes += (range.end - range.start) as usize;
                self.block.supply(range.start, &self.bytes[range.start as usize..range.end as usize])?;
            }
            Ok(())
        }

        /// Asks until nothing is missing.
        fn ask(&mut self, question: impl Fn(&Block, &mut Decoded) -> Result<()>) -> Result<Vec<Cell>> {
            loop {
                let mut out = Decoded::new(self.block.physical(), BytesForm::Offsets32);
                match question(&self.block, &mut out) {
                    Ok(()) => return Ok(cells_of(&out)),
                    Err(Error::Missing(ranges)) => self.supply(&ranges)?,
                    Err(error) => return Err(error),
                }
            }
        }

        fn get(&mut self, rows: &[u32]) -> Result<Vec<Cell>> {
            loop {
                match self.block.missing_for(rows)? {
                    none if none.is_empty() => return self.ask(|block, out| block.get(rows, out)),
                    missing => self.supply(&missing)?,
                }
            }
        }
    }

    fn encode(physical: &Physical, shape: Shape, rows: usize, random: &mut Random) -> (Vec<u8>, Vec<Cell>) {
        let owned = Owned::generate(physical, shape, rows, random.below(2) == 0, random);
        let mut chunk = ChunkEncoder::new(physical.clone(), EncodeOptions::default());
        let block = chunk.encode(&owned.column(), true, &mut |_| Ok(0)).unwrap();
        (block.bytes, cells_of_column(&owned.column()))
    }

    #[test]
    fn single_rows_read_little() {
        let mut random = Random::new(31);
        for physical in [Physical::Bytes, Physical::Bool, Physical::Fixed(Fixed::I64), Physical::Fixed(Fixed::F64)] {
            for shape in Shape::ALL {
                let (bytes, expected) = encode(&physical, shape, 60_000, &mut random);
                for row in [0, 59_999, random.below(60_000) as u32] {
                    let mut remote = Remote::open(bytes.clone(), &Parts::new());
                    assert_eq!(remote.get(&[row]).unwrap(), expected[row as usize..][..1], "{physical}, {shape:?}");
                    let words = remote.block.cascade().words();
                    assert!(remote.rounds <= 20, "{} rounds for one row of {words}", remote.rounds);
                    // Dictionaries' values and phrases' texts are needed as a whole; else each buffer takes two runs or so.
                    let needs_all = words.contains("Dictionary") || words.contains("Phrases");
                    let most = if needs_all { bytes.len() } else { 5 * 16_384 };
                    assert!(remote.supplied_bytes <= most, "{} bytes for one row of {words}", remote.supplied_bytes);
                }
            }
        }
    }

    #[test]
    fn supplied_blocks_become_whole() {
        let mut random = Random::new(32);
        for shape in Shape::ALL {
            let (bytes, expected) = encode(&Physical::Bytes, shape, 20_000, &mut random);
            let mut remote = Remote::open(bytes.clone(), &Parts::new());
            assert_eq!(remote.block.size_bytes(), bytes.len() as u64);
            let missing = remote.block.missing();
            let missing_bytes: u64 = missing.iter().map(|range| range.end - range.start).sum();
            assert_eq!(remote.block.held_bytes() + missing_bytes, bytes.len() as u64);
            if !missing.is_empty() {
                assert!(matches!(remote.block.digest(), Err(Error::Missing(all)) if all == missing));
                assert!(matches!(remote.block.verify(), Err(Error::Missing(_))));
            }
            assert_eq!(remote.ask(|block, out| block.decode(100..9_000, out)).unwrap(), expected[100..9_000]);
            // Bytes that cover no run as a whole supply nothing.
            remote.block.supply(1, &bytes[1..bytes.len().min(50)]).unwrap();
            remote.block.supply(0, &bytes).unwrap();
            assert_eq!(remote.block.missing(), []);
            assert_eq!(remote.block.digest().unwrap(), digest(&bytes));
            remote.block.verify().unwrap();
            assert_eq!(remote.ask(|block, out| block.decode(0..20_000, out)).unwrap(), expected);
        }
    }

    #[test]
    fn damage_is_found_where_it_is_touched_and_nowhere_else() {
        let mut random = Random::new(34);
        let (bytes, expected) = encode(&Physical::Fixed(Fixed::I64), Shape::Scattered, 60_000, &mut random);
        let runs = Remote::open(bytes.clone(), &Parts::new()).block.missing();
        assert!(runs.len() > 20);
        let mut damaged = bytes.clone();
        let run = runs[11].clone();
        damaged[run.start as usize + 77] ^= 2;
        let mut remote = Remote::open(damaged, &Parts::new());
        let (mut good, mut bad) = (0, 0);
        for row in (0..60_000).step_by(500) {
            match remote.get(&[row]) {
                Ok(cells) => {
                    assert_eq!(cells, expected[row as usize..][..1]);
                    good += 1;
                }
                Err(Error::Corrupt { part, offset, .. }) => {
                    assert_eq!((part, offset), ("checksum run", run.start));
                    bad += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert!(bad > 0 && good > 10 * bad, "{good} good, {bad} bad");
        // What failed isn't kept: whole bytes heal the block.
        remote.block.supply(0, &bytes).unwrap();
        assert_eq!(remote.get(&[11 * 1_100]).unwrap().len(), 1);
        remote.block.verify().unwrap();
    }

    #[test]
    fn a_head_of_another_length_is_corrupt() {
        let (bytes, _) = encode(&Physical::Bool, Shape::Scattered, 9_000, &mut Random::new(34));
        let open = |size_bytes| Block::open_head(&bytes, size_bytes, &Parts::new(), None, &Limits::default());
        assert!(matches!(open(bytes.len() as u64 - 1), Err(Error::Corrupt { .. })));
        assert_eq!(open(bytes.len() as u64).unwrap().rows(), 9_000);
        let cut = Block::open_head(&bytes[..20], bytes.len() as u64, &Parts::new(), None, &Limits::default());
        assert!(matches!(cut, Err(Error::Corrupt { .. })));
    }

    #[test]
    fn lent_strings_outlive_their_block() {
        let (bytes, expected) = encode(&Physical::Bytes, Shape::Scattered, 3_000, &mut Random::new(35));
        let remote = Remote::open(bytes.clone(), &Parts::new());
        remote.block.supply(0, &bytes).unwrap();
        let mut out = Decoded::new(&Physical::Bytes, BytesForm::Views);
        remote.block.decode(0..3_000, &mut out).unwrap();
        drop(remote);
        assert_eq!(cells_of(&out), expected);
    }
}
