//! Buffers and checksum runs: where the bytes of a body lie, what is there of them, and what has been verified.
//! See *Body* in `spec/block.md`.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;

use super::pieces::Pieces;
use crate::error::{Error, Result};
use crate::simd;

/// Buffers of this size and more are aligned to [`LARGE_ALIGNMENT`] and have checksum runs of their own.
pub(crate) const LARGE_BUFFER_BYTES: u64 = 4096;
pub(crate) const LARGE_ALIGNMENT: u64 = 64;
pub(crate) const SMALL_ALIGNMENT: u64 = 8;
const RUN_BYTES: u64 = 8192;
/// No run has more bytes than this, padding aside.
pub(crate) const MOST_RUN_BYTES: u64 = 2 * RUN_BYTES;

/// Where the buffers of a block lie, counted from the block's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The alignment that the block itself wants: 64 with a large buffer, else 8.
    pub alignment: u64,
    /// One range per buffer.
    pub buffers: Vec<Range<u64>>,
    /// Checksum runs: they cover everything from the end of the head to the end of the block.
    pub runs: Vec<Range<u64>>,
    /// Number of the run in which each buffer begins.
    first_runs: Vec<u32>,
}

impl Placement {
    /// Lays out buffers of these lengths behind a head of `head_bytes`. `None` if their sum passes 2^62.
    pub fn new(head_bytes: u64, lengths: &[u64]) -> Option<Self> {
        let total = lengths.iter().try_fold(head_bytes, |sum, &length| {
            sum.checked_add(length)?.checked_add(LARGE_ALIGNMENT).filter(|&sum| sum < 1 << 62)
        });
        total?;
        let alignment =
            if lengths.iter().any(|&length| length >= LARGE_BUFFER_BYTES) { LARGE_ALIGNMENT } else { SMALL_ALIGNMENT };
        let mut end = head_bytes.next_multiple_of(alignment);
        let mut buffers = Vec::with_capacity(lengths.len());
        for &length in lengths {
            let own = if length >= LARGE_BUFFER_BYTES { LARGE_ALIGNMENT } else { SMALL_ALIGNMENT };
            let start = if length == 0 { end } else { end.next_multiple_of(own) };
            end = start + length;
            buffers.push(start..end);
        }
        let (mut runs, first_runs) = runs(head_bytes.next_multiple_of(alignment), &buffers);
        if let Some(first) = runs.first_mut() {
            first.start = head_bytes;
        }
        Some(Self { alignment, buffers, runs, first_runs })
    }

    /// The runs that bytes `range` of a buffer touch; the range must not be empty, and must lie in the buffer.
    #[inline]
    fn runs_of(&self, buffer: usize, range: &Range<usize>) -> Range<usize> {
        let (first, place) = (self.first_runs[buffer] as usize, &self.buffers[buffer]);
        let length = place.end - place.start;
        if length < LARGE_BUFFER_BYTES {
            return first..first + 1;
        }
        // A large buffer is cut into runs of equal length, but for the last.
        let last = (length / RUN_BYTES).max(1) - 1;
        let run = |byte: usize| first + (byte as u64 / RUN_BYTES).min(last) as usize;
        run(range.start)..run(range.end - 1) + 1
    }

    /// Where the block ends.
    pub fn end(&self, head_bytes: u64) -> u64 {
        self.runs.last().map_or(head_bytes, |run| run.end)
    }

    /// The padding between head and buffers, all of it zero in a whole block.
    pub fn padding(&self, head_bytes: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut end = head_bytes;
        self.buffers.iter().filter(|buffer| !buffer.is_empty()).map(move |buffer| {
            let gap = end..buffer.start;
            end = buffer.end;
            gap
        })
    }
}

/// Cuts the body into checksum runs; their number doesn't depend on the head, which counts them. Also, in which of them each buffer
/// begins.
fn runs(body_start: u64, buffers: &[Range<u64>]) -> (Vec<Range<u64>>, Vec<u32>) {
    let (mut runs, mut first_runs) = (Vec::new(), Vec::with_capacity(buffers.len()));
    // The open run is start..end; it is empty when start == end.
    let (mut start, mut end) = (body_start, body_start);
    for buffer in buffers {
        let length = buffer.end - buffer.start;
        if length == 0 {
            first_runs.push(0);
            continue;
        }
        let joins = length < LARGE_BUFFER_BYTES && buffer.end - start <= RUN_BYTES;
        if !joins && end > start {
            runs.push(start..end);
            start = end;
        }
        first_runs.push(runs.len() as u32);
        if length >= LARGE_BUFFER_BYTES {
            for cut in 1..(length / RUN_BYTES).max(1) {
                runs.push(start..buffer.start + cut * RUN_BYTES);
                start = buffer.start + cut * RUN_BYTES;
            }
            runs.push(start..buffer.end);
            start = buffer.end;
        }
        end = buffer.end;
    }
    if end > start {
        runs.push(start..end);
    }
    (runs, first_runs)
}

/// The bytes of a block: all of them, or those that have been supplied so far.
#[derive(Debug)]
pub(crate) struct Body {
    memory: Memory,
    placement: Placement,
    checksums: Vec<u32>,
    is_probe: bool,
}

#[derive(Debug)]
enum Memory {
    /// The whole block.
    Whole { bytes: Bytes, verified: Arc<Verified> },
    /// The head and then the checksum runs, each verified before it was supplied.
    Supplied(Arc<Pieces>),
}

/// Which checksum runs of a block have been verified: see [`Block::open_again`](crate::Block::open_again).
#[derive(Debug)]
pub struct Verified {
    /// A bit per run.
    runs: Vec<AtomicU64>,
    run_count: usize,
    /// Runs that have not.
    left: AtomicUsize,
}

impl Verified {
    fn none_of(run_count: usize) -> Self {
        let runs = (0..run_count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { runs, run_count, left: AtomicUsize::new(run_count) }
    }
}

/// Supplied bytes of a block, lent with the block's memory kept alive.
struct Lent {
    pieces: Arc<Pieces>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.pieces.lent(self.range.clone()).unwrap_or_else(|| unreachable!("pieces stay filled"))
    }
}

impl Body {
    /// `bytes` begin at the block's start and hold all of it; `checksums` has one entry per run. What `verified` notes of these bytes isn't
    /// verified again.
    pub fn new(bytes: Bytes, placement: Placement, checksums: Vec<u32>, verified: Option<Arc<Verified>>) -> Self {
        let run_count = placement.runs.len();
        let verified = verified.filter(|verified| verified.run_count == run_count);
        let verified = verified.unwrap_or_else(|| Arc::new(Verified::none_of(run_count)));
        Self { memory: Memory::Whole { bytes, verified }, placement, checksums, is_probe: false }
    }

    /// Which runs have been verified; `None` where they are before they are supplied.
    pub fn verified(&self) -> Option<&Arc<Verified>> {
        match &self.memory {
            Memory::Whole { verified, .. } => Some(verified),
            Memory::Supplied(_) => None,
        }
    }

    /// Only the head is there; runs are supplied later.
    pub fn of_head(head: &[u8], placement: Placement, checksums: Vec<u32>) -> Self {
        let run_ends = placement.runs.iter().map(|run| run.end as usize);
        let pieces = Pieces::new(std::iter::once(head.len()).chain(run_ends).collect());
        pieces.fill(0, head);
        Self { memory: Memory::Supplied(Arc::new(pieces)), placement, checksums, is_probe: false }
    }

    /// The same body, for asking what is missing; `None` if it is whole.
    pub fn probe(&self) -> Option<Self> {
        let Memory::Supplied(pieces) = &self.memory else { return None };
        let (placement, checksums) = (self.placement.clone(), Vec::new());
        Some(Self { memory: Memory::Supplied(pieces.clone()), placement, checksums, is_probe: true })
    }

    /// True where values don't matter, only which bytes of the block they need: nothing outside is to be fetched.
    pub fn is_probe(&self) -> bool {
        self.is_probe
    }

    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The bytes of the block, head included; what lacks if some haven't been supplied.
    pub fn whole(&self) -> Result<&[u8]> {
        match &self.memory {
            Memory::Whole { bytes, .. } => Ok(bytes),
            Memory::Supplied(pieces) => self.supplied(pieces, 0..pieces.size_bytes()),
        }
    }

    /// Bytes that the block takes in memory: its own, or those supplied so far.
    pub fn held_bytes(&self) -> u64 {
        match &self.memory {
            Memory::Whole { bytes, .. } => bytes.len() as u64,
            Memory::Supplied(pieces) => (0..pieces.len())
                .filter(|&piece| pieces.is_filled(piece))
                .map(|piece| pieces.range(piece).len() as u64)
                .sum(),
        }
    }

    /// Bytes `range` of buffer `buffer`, verified. The range must lie in the buffer.
    #[inline]
    pub fn buffer(&self, buffer: usize, range: Range<usize>) -> Result<&[u8]> {
        let placed = self.placed(buffer, &range)?;
        match &self.memory {
            Memory::Whole { bytes, verified } => {
                self.verify_range(bytes, verified, buffer, &range)?;
                Ok(&bytes[placed])
            }
            Memory::Supplied(pieces) => self.supplied(pieces, placed),
        }
    }

    /// As [`Body::buffer`], lent with the block kept alive.
    pub fn lend(&self, buffer: usize, range: Range<usize>) -> Result<Bytes> {
        let placed = self.placed(buffer, &range)?;
        match &self.memory {
            Memory::Whole { bytes, verified } => {
                self.verify_range(bytes, verified, buffer, &range)?;
                Ok(bytes.slice(placed))
            }
            Memory::Supplied(pieces) => {
                self.supplied(pieces, placed.clone())?;
                Ok(Bytes::from_owner(Lent { pieces: pieces.clone(), range: placed }))
            }
        }
    }

    /// The place in the block of bytes `range` of a buffer.
    #[inline]
    fn placed(&self, buffer: usize, range: &Range<usize>) -> Result<Range<usize>> {
        let place = &self.placement.buffers[buffer];
        let (start, end) = (place.start + range.start as u64, place.start + range.end as u64);
        if range.start > range.end || end > place.end {
            let what = format!("bytes {range:?} of a buffer of {}", place.end - place.start);
            return Err(Error::corrupt("buffer", place.start, what));
        }
        Ok(if start == end { 0..0 } else { start as usize..end as usize })
    }

    fn supplied<'a>(&self, pieces: &'a Pieces, range: Range<usize>) -> Result<&'a [u8]> {
        loop {
            if let Some(lent) = pieces.lent(range.clone()) {
                return Ok(lent);
            }
            let lacking = pieces.touched(&range).filter(|&piece| !pieces.is_filled(piece));
            let lacking: Vec<_> = lacking.map(|piece| pieces.range(piece)).collect();
            // Where nothing lacks any more, another thread has supplied it meanwhile.
            if !lacking.is_empty() {
                let in_block = |range: Range<usize>| range.start as u64..range.end as u64;
                return Err(Error::Missing(lacking.into_iter().map(in_block).collect()));
            }
        }
    }

    /// Verifies the checksum runs that bytes `range` of a buffer of a whole block touch.
    #[inline]
    fn verify_range(&self, bytes: &[u8], verified: &Verified, buffer: usize, range: &Range<usize>) -> Result<()> {
        if range.is_empty() || verified.left.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut runs = self.placement.runs_of(buffer, range);
        runs.try_for_each(|run| self.verify_once(bytes, verified, run))
    }

    /// Verifies one run of a whole block unless that was done before.
    #[inline]
    fn verify_once(&self, bytes: &[u8], verified: &Verified, run: usize) -> Result<()> {
        let (word, bit) = (&verified.runs[run / 64], 1 << (run % 64));
        if word.load(Ordering::Relaxed) & bit != 0 {
            return Ok(());
        }
        let range = &self.placement.runs[run];
        self.verify_run(run, &bytes[range.start as usize..range.end as usize])?;
        // Of several threads that verify the same run, one counts it.
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            verified.left.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Holds the bytes of a run against its checksum.
    fn verify_run(&self, run: usize, bytes: &[u8]) -> Result<()> {
        if simd::crc32c(bytes) == self.checksums[run] {
            return Ok(());
        }
        let range = &self.placement.runs[run];
        Err(Error::corrupt("checksum run", range.start, format!("bytes {range:?} don't match their checksum")))
    }

    /// Verifies and keeps the runs that lie wholly within `bytes`, the first of which is byte `start` of the block.
    /// Runs that are there already aren't looked at.
    pub fn supply(&self, start: u64, bytes: &[u8]) -> Result<()> {
        let Memory::Supplied(pieces) = &self.memory else { return Ok(()) };
        let end = start + bytes.len() as u64;
        let first = self.placement.runs.partition_point(|run| run.start < start);
        for (run, range) in self.placement.runs.iter().enumerate().skip(first) {
            if range.end > end {
                break;
            }
            // Piece 0 is the head.
            if !pieces.is_filled(run + 1) {
                let bytes = &bytes[(range.start - start) as usize..(range.end - start) as usize];
                self.verify_run(run, bytes)?;
                pieces.fill(run + 1, bytes);
            }
        }
        Ok(())
    }

    /// The runs that haven't been supplied.
    pub fn missing(&self) -> Vec<Range<u64>> {
        match &self.memory {
            Memory::Whole { .. } => Vec::new(),
            Memory::Supplied(pieces) => {
                let lacks = |(run, _): &(usize, &Range<u64>)| !pieces.is_filled(run + 1);
                self.placement.runs.iter().enumerate().filter(lacks).map(|(_, range)| range.clone()).collect()
            }
        }
    }

    /// Verifies every run, and that padding is zero.
    pub fn verify(&self, head_bytes: u64) -> Result<()> {
        let bytes = self.whole()?;
        if let Memory::Whole { verified, .. } = &self.memory {
            (0..self.placement.runs.len()).try_for_each(|run| self.verify_once(bytes, verified, run))?;
        }
        for gap in self.placement.padding(head_bytes) {
            if bytes[gap.start as usize..gap.end as usize].iter().any(|&byte| byte != 0) {
                return Err(Error::corrupt("padding", gap.start, "isn't zero"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: u64, lengths: &[u64]) -> Placement {
        let placement = Placement::new(head, lengths).unwrap();
        let mut end = head;
        for run in &placement.runs {
            assert_eq!(run.start, end, "runs leave no gap");
            assert!(run.end > run.start && run.end - run.start < MOST_RUN_BYTES + LARGE_ALIGNMENT);
            end = run.end;
        }
        assert_eq!(end, placement.buffers.iter().rfind(|buffer| !buffer.is_empty()).map_or(head, |buffer| buffer.end));
        for (buffer, &length) in placement.buffers.iter().zip(lengths) {
            assert_eq!(buffer.end - buffer.start, length);
            assert!(length == 0 || buffer.start.is_multiple_of(if length >= 4096 { 64 } else { 8 }));
        }
        for (index, buffer) in placement.buffers.iter().enumerate().filter(|(_, buffer)| !buffer.is_empty()) {
            let length = (buffer.end - buffer.start) as usize;
            for range in [0..1, 0..length, length - 1..length, length / 2..length, length / 3..length / 2 + 1] {
                let (start, end) = (buffer.start + range.start as u64, buffer.start + range.end as u64);
                let touches = |run: &Range<u64>| run.start < end && run.end > start;
                let touched: Vec<usize> =
                    (0..placement.runs.len()).filter(|&run| touches(&placement.runs[run])).collect();
                assert_eq!(
                    placement.runs_of(index, &range).collect::<Vec<_>>(),
                    touched,
                    "{range:?} of buffer {index}"
                );
            }
        }
        placement
    }

    #[test]
    fn small_buffers_share_a_run() {
        assert_eq!(check(21, &[10, 0, 100, 8]).runs, vec![21..152]);
        assert_eq!(check(21, &[4000, 4000, 4000]).runs, vec![21..8024, 8024..12_024]);
        assert_eq!(check(17, &[4000, 4000, 4000]).runs.len(), check(8, &[4000, 4000, 4000]).runs.len());
    }

    #[test]
    fn large_buffers_are_cut() {
        assert_eq!(check(30, &[4096]).runs, vec![30..4160]);
        assert_eq!(check(30, &[16_384]).runs, vec![30..8256, 8256..16_448]);
        assert_eq!(check(30, &[24_575]).runs, vec![30..8256, 8256..24_639]);
        assert_eq!(check(30, &[10, 5000, 10]).runs.len(), 3);
        assert_eq!(check(30, &[100_000, 0, 4095, 4096, 9, 70_001]).runs.len(), 12 + 1 + 1 + 1 + 8);
        assert_eq!(check(64, &[]).runs, vec![]);
        assert_eq!(check(64, &[0, 0]).runs, vec![]);
    }

    #[test]
    fn absurd_lengths_have_no_placement() {
        assert_eq!(Placement::new(30, &[u64::MAX]), None);
        assert_eq!(Placement::new(30, &[1 << 61, 1 << 61]), None);
    }

    #[test]
    fn what_was_verified_is_not_verified_again() {
        let mut bytes = vec![7; 60_000];
        let open = |bytes: &[u8], lengths: &[u64], verified| {
            let placement = check(64, lengths);
            let whole = vec![7; placement.end(64) as usize];
            let in_block = |run: &Range<u64>| simd::crc32c(&whole[run.start as usize..run.end as usize]);
            let checksums = placement.runs.iter().map(in_block).collect();
            Body::new(Bytes::copy_from_slice(&bytes[..whole.len()]), placement, checksums, verified)
        };
        let lengths = [20_000, 9_000];
        let body = open(&bytes, &lengths, None);
        assert_eq!(body.buffer(0, 0..10).unwrap(), [7; 10]);
        let notes = body.verified().cloned();
        bytes[70] = 8;
        bytes[20_100] = 8;
        assert!(open(&bytes, &lengths, None).buffer(0, 0..10).is_err());
        let again = open(&bytes, &lengths, notes.clone());
        assert!(again.buffer(0, 0..10).is_ok(), "verified by another");
        assert!(again.buffer(1, 0..10).is_err() && again.verify(64).is_err(), "by nobody yet");
        // Notes of other bytes, as far as can be told.
        assert!(open(&bytes, &[50_000], notes).buffer(0, 0..10).is_err());
    }
}
