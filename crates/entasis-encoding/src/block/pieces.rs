//! Memory that is filled piece by piece, each piece once, and lent as far as it is filled: what a block's body lies in
//! whose checksum runs arrive one by one.

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Contiguous memory cut into pieces. A piece that was filled never changes again, so that its bytes can be lent for as
/// long as the memory lives, while others are filled beside it.
pub(crate) struct Pieces {
    memory: Box<[MaybeUninit<UnsafeCell<u8>>]>,
    /// Where each piece ends; the first begins at 0, the last ends with the memory.
    ends: Box<[usize]>,
    /// A bit per piece. Set with `Release` once its bytes are written, read with `Acquire` before they are lent.
    filled: Box<[AtomicU64]>,
    /// Held by whoever writes.
    filling: Mutex<()>,
}

// SAFETY: the bytes of a piece are written by one thread alone, under `filling` and while the piece's bit isn't set;
// they are read only after the bit was seen with `Acquire`, hence after the write; and no thread writes them again.
#[allow(unsafe_code, reason = "threads share memory that is written once")]
unsafe impl Sync for Pieces {}

impl Pieces {
    /// Nothing yet of pieces that end at `ends`. Panics if one of them is empty.
    pub fn new(ends: Vec<usize>) -> Self {
        assert!(ends.first() != Some(&0) && ends.is_sorted_by(|left, right| left < right), "pieces have bytes");
        let filled = (0..ends.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let memory = Box::new_uninit_slice(ends.last().copied().unwrap_or(0));
        Self { memory, ends: ends.into(), filled, filling: Mutex::default() }
    }

    /// Number of pieces.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all pieces.
    pub fn size_bytes(&self) -> usize {
        self.memory.len()
    }

    /// Where a piece lies.
    pub fn range(&self, piece: usize) -> Range<usize> {
        let start = if piece == 0 { 0 } else { self.ends[piece - 1] };
        start..self.ends[piece]
    }

    /// The pieces that hold some of `range`.
    pub fn touched(&self, range: &Range<usize>) -> Range<usize> {
        if range.is_empty() {
            return 0..0;
        }
        let first = self.ends.partition_point(|&end| end <= range.start);
        let inner = self.ends[first..].iter().take_while(|&&end| end < range.end).count();
        first..first + inner + 1
    }

    /// True if the bytes of the piece are there.
    pub fn is_filled(&self, piece: usize) -> bool {
        self.filled[piece / 64].load(Ordering::Acquire) & (1 << (piece % 64)) != 0
    }

    /// Fills a piece with its bytes, unless that was done before.
    pub fn fill(&self, piece: usize, bytes: &[u8]) {
        let range = self.range(piece);
        assert_eq!(bytes.len(), range.len(), "a piece is filled as a whole");
        let _alone = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_filled(piece) {
            return;
        }
        let target = self.memory[range].as_ptr().cast::<u8>().cast_mut();
        // SAFETY: `target` begins as many bytes of the memory as `bytes` has. They lie in an `UnsafeCell`; nobody reads
        // them, for the piece's bit isn't set; nobody else writes them, for we hold the lock. `bytes` can't overlap
        // them: it is a shared slice, and bytes of this piece have never been lent.
        #[allow(unsafe_code, reason = "memory that is shared is written")]
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        self.filled[piece / 64].fetch_or(1 << (piece % 64), Ordering::Release);
    }

    /// The bytes of `range`, if all of its pieces are filled.
    #[inline]
    pub fn lent(&self, range: Range<usize>) -> Option<&[u8]> {
        let memory = &self.memory[range.clone()];
        if !self.touched(&range).all(|piece| self.is_filled(piece)) {
            return None;
        }
        // SAFETY: the slice of `memory` is in bounds, and each of its bytes lies in a piece that is filled: written
        // before its bit was set, which we saw with `Acquire`, and never written again as long as `self` lives.
        #[allow(unsafe_code, reason = "memory that is filled is read")]
        Some(unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<u8>(), memory.len()) })
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filled = (0..self.len()).filter(|&piece| self.is_filled(piece)).count();
        write!(f, "Pieces({filled} of {} filled, {} bytes)", self.len(), self.size_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte `index` of what all pieces together hold.
    fn byte(index: usize) -> u8 {
        (index * 7 + index / 256) as u8
    }

    fn bytes(range: Range<usize>) -> Vec<u8> {
        range.map(byte).collect()
    }

    #[test]
    fn ranges_are_lent_when_all_their_pieces_are_filled() {
        let ends = [4, 5, 16, 30];
        let pieces = Pieces::new(ends.to_vec());
        let mut present = [false; 30];
        for piece in [2, 0, 3, 1] {
            pieces.fill(piece, &bytes(pieces.range(piece)));
            present[pieces.range(piece)].fill(true);
            for start in 0..=30 {
                for end in start..=30 {
                    let expected = present[start..end].iter().all(|&byte| byte).then(|| bytes(start..end));
                    assert_eq!(pieces.lent(start..end).map(<[u8]>::to_vec), expected, "{start}..{end}");
                }
            }
        }
        assert_eq!(pieces.lent(0..30).unwrap(), bytes(0..30));
    }

    #[test]
    fn what_was_filled_stays_as_it_is() {
        let pieces = Pieces::new(vec![4, 8]);
        pieces.fill(0, &[1; 4]);
        let lent = pieces.lent(0..4).unwrap();
        pieces.fill(1, &[2; 4]);
        pieces.fill(0, &[3; 4]);
        assert_eq!(lent, [1; 4]);
        assert_eq!(pieces.lent(0..8).unwrap(), [1, 1, 1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn threads_fill_and_read_together() {
        let ends: Vec<usize> = (1..=17).map(|piece| piece * 3).collect();
        let pieces = Pieces::new(ends);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let pieces = &pieces;
                scope.spawn(move || {
                    for step in 0..17 {
                        let piece = (step * (2 * thread + 3)) % 17;
                        pieces.fill(piece, &bytes(pieces.range(piece)));
                        for other in 0..17 {
                            if let Some(lent) = pieces.lent(pieces.range(other)) {
                                assert_eq!(lent, bytes(pieces.range(other)));
                            }
                        }
                    }
                });
            }
        });
        assert!((0..17).all(|piece| pieces.is_filled(piece)));
    }

    #[test]
    fn no_pieces_hold_nothing() {
        let pieces = Pieces::new(Vec::new());
        assert_eq!((pieces.len(), pieces.size_bytes()), (0, 0));
        assert_eq!(pieces.lent(0..0).unwrap(), [0u8; 0]);
    }
}
