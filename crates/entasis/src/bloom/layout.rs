//! Where a chunk's Bloom filters are, and what lies where in them.

use std::ops::Range;

use super::bucket::{BUCKET_BYTES, bucket_of, may_hold};

/// Stripes share a checksum up to so many bytes.
const RUN_BYTES: u64 = 4_096;

/// Bytes of a checksum.
const CHECKSUM_BYTES: u64 = 4;

/// Where the Bloom filters of a chunk are: one for each of its blocks, all of the same number of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BloomRef {
    /// File offset.
    pub offset: u64,
    /// What lies where from there on.
    pub layout: BloomLayout,
}

impl BloomRef {
    /// The bytes in the file.
    pub fn range(&self) -> Range<u64> {
        self.in_file(0..self.layout.size_bytes())
    }

    /// The bytes of a run in the file, its checksum among them.
    pub fn run_range(&self, run: u32) -> Range<u64> {
        self.in_file(self.layout.run_range(run))
    }

    fn in_file(&self, range: Range<u64>) -> Range<u64> {
        self.offset.saturating_add(range.start)..self.offset.saturating_add(range.end)
    }
}

/// How the filters of so many blocks lie: stripe by stripe, in runs that end with a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BloomLayout {
    blocks: usize,
    buckets: u32,
}

impl BloomLayout {
    /// Filters of `buckets` buckets each for `blocks` blocks; `None` if they would take more bytes than a file can have.
    pub fn new(blocks: usize, buckets: u32) -> Option<Self> {
        let layout = Self { blocks, buckets };
        let stripe = (blocks as u64).checked_mul(BUCKET_BYTES as u64)?;
        // Checksums take less than the stripes themselves, whose number they don't exceed.
        stripe.checked_mul(u64::from(buckets))?.checked_mul(2)?;
        (blocks > 0 && buckets > 0).then_some(layout)
    }

    /// Filters of so many blocks.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Buckets of each filter, of 32 bytes each; at least 1.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// Bytes of all filters, checksums among them.
    pub fn size_bytes(&self) -> u64 {
        self.stripe_bytes() * u64::from(self.buckets) + CHECKSUM_BYTES * u64::from(self.run_count())
    }

    /// Number of runs.
    pub fn run_count(&self) -> u32 {
        self.buckets.div_ceil(self.run_stripes())
    }

    /// The bytes of a run, its checksum among them, from the beginning of the filters.
    pub fn run_range(&self, run: u32) -> Range<u64> {
        let stripes = self.run_stripes();
        let whole = self.stripe_bytes() * u64::from(stripes) + CHECKSUM_BYTES;
        let start = whole * u64::from(run);
        let stripes = stripes.min(self.buckets - stripes * run);
        start..start + self.stripe_bytes() * u64::from(stripes) + CHECKSUM_BYTES
    }

    /// The run in which a hash is looked for.
    pub fn run_of(&self, hash: u64) -> u32 {
        bucket_of(hash, self.buckets) / self.run_stripes()
    }

    /// Which blocks may hold a value of this hash, told from the bytes of its run, which are those of [`Self::run_range`].
    ///
    /// # Errors
    /// What is wrong with the run, if its checksum differs.
    pub fn ask(&self, run: &[u8], hash: u64) -> Result<Vec<bool>, &'static str> {
        let number = self.run_of(hash);
        let stripes = self.check_run(number, run)?;
        let (buckets, _) = stripes.as_chunks::<BUCKET_BYTES>();
        let first = (bucket_of(hash, self.buckets) - number * self.run_stripes()) as usize * self.blocks;
        let stripe = buckets.get(first..first + self.blocks).ok_or("it is too short")?;
        Ok(stripe.iter().map(|bucket| may_hold(bucket, hash)).collect())
    }

    /// Whether a block may hold a value of this hash; `stripes` are those of all runs.
    pub(crate) fn may_hold(&self, stripes: &[u8], block: usize, hash: u64) -> bool {
        let (buckets, _) = stripes.as_chunks::<BUCKET_BYTES>();
        may_hold(&buckets[bucket_of(hash, self.buckets) as usize * self.blocks + block], hash)
    }

    /// The stripes of a run whose checksum fits.
    pub(crate) fn check_run<'a>(&self, number: u32, run: &'a [u8]) -> Result<&'a [u8], &'static str> {
        let (stripes, stored) = run.split_last_chunk::<4>().ok_or("it is too short")?;
        match u32::from_le_bytes(*stored) == checksum(number, stripes) {
            true => Ok(stripes),
            false => Err("checksum differs"),
        }
    }

    /// The stripes as they lie in the file: in runs, each with its checksum.
    pub(crate) fn seal(&self, stripes: &[u8]) -> Vec<u8> {
        let run_bytes = self.stripe_bytes() as usize * self.run_stripes() as usize;
        let mut sealed = Vec::with_capacity(self.size_bytes() as usize);
        for (number, run) in stripes.chunks(run_bytes).enumerate() {
            sealed.extend_from_slice(run);
            sealed.extend_from_slice(&checksum(number as u32, run).to_le_bytes());
        }
        sealed
    }

    fn stripe_bytes(&self) -> u64 {
        self.blocks as u64 * BUCKET_BYTES as u64
    }

    /// Stripes of every run but the last.
    fn run_stripes(&self) -> u32 {
        (RUN_BYTES / self.stripe_bytes()).max(1) as u32
    }
}

fn checksum(run: u32, stripes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&run.to_le_bytes()), stripes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_follow_one_another_and_hold_every_hash_they_are_asked_for() {
        for (blocks, buckets) in [(1, 1), (1, 128), (1, 129), (16, 9), (16, 2_700), (127, 3), (129, 5), (4_000, 2)] {
            let layout = BloomLayout::new(blocks, buckets).unwrap();
            let stripes = vec![0xFF; blocks * buckets as usize * BUCKET_BYTES];
            let sealed = layout.seal(&stripes);
            assert_eq!(sealed.len() as u64, layout.size_bytes());
            let mut end = 0;
            for run in 0..layout.run_count() {
                let range = layout.run_range(run);
                assert_eq!(range.start, end);
                end = range.end;
                let stripes = layout.check_run(run, &sealed[range.start as usize..range.end as usize]).unwrap();
                assert!(stripes.len() <= 4_096.max(32 * blocks));
            }
            assert_eq!(end, layout.size_bytes());
            for hash in [0, u64::MAX, 1 << 63, 0x1234_5678_9ABC_DEF0] {
                let range = layout.run_range(layout.run_of(hash));
                let run = &sealed[range.start as usize..range.end as usize];
                assert_eq!(layout.ask(run, hash), Ok(vec![true; blocks]));
                assert!(layout.ask(&run[..run.len() - 1], hash).is_err());
                assert!(layout.ask(&[], hash).is_err());
            }
        }
    }

    #[test]
    fn sizes_that_no_file_can_have_are_none() {
        assert_eq!(BloomLayout::new(usize::MAX, 1), None);
        assert_eq!(BloomLayout::new(1 << 40, u32::MAX), None);
        assert_eq!((BloomLayout::new(0, 1), BloomLayout::new(1, 0)), (None, None));
        assert!(BloomLayout::new(65_536, u32::MAX).is_some());
    }
}
