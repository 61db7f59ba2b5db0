//! Putting strings together from what they share with the string before and the rest.

use std::mem::MaybeUninit;

use super::strings::{STEP, make_room};
use super::{COPY_BYTES, GatherError};

/// Strings taken apart: see *Prefix* in `spec/encodings.md`.
#[derive(Debug, Clone, Copy)]
pub struct PrefixStrings<'a> {
    /// Number of leading bytes that each string shares with the one before.
    pub shared: &'a [u8],
    /// One more than there are strings: where in `rests` the rest of each begins and ends.
    pub rest_ends: &'a [i32],
    /// The rests of all strings, and [`COPY_BYTES`] more of anything.
    pub rests: &'a [u8],
}

/// What is copied at once: what a string shares may lie nearer than that before where it goes, but a step is read before it is written.
type Step = MaybeUninit<[u8; STEP]>;

impl PrefixStrings<'_> {
    /// Appends the strings to `out` and their lengths to `lengths`; together they must not be longer than `bound_bytes`. Panics
    /// unless the parts fit each other.
    ///
    /// # Errors
    /// [`GatherError::BadCode`] with the number of a string that shares more than the one before has; nothing is appended then.
    pub fn join(&self, bound_bytes: u64, out: &mut Vec<u8>, lengths: &mut Vec<u32>) -> Result<(), GatherError> {
        let Self { shared, rest_ends, rests } = *self;
        let ends_are_good = rest_ends.len() == shared.len() + 1
            && rest_ends
                .iter()
                .zip(&rest_ends[1..])
                .fold(rest_ends[0] >= 0, |good, (left, right)| good & (left <= right))
            && rest_ends[shared.len()] as usize + COPY_BYTES <= rests.len();
        assert!(ends_are_good, "the parts fit each other");
        let shared_bytes: u64 = shared.iter().map(|&shared| u64::from(shared)).sum();
        let total = (rest_ends[shared.len()] - rest_ends[0]) as u64 + shared_bytes;
        make_room::<i32>(total, bound_bytes, out)?;
        lengths.reserve(shared.len());
        let (mut before, mut position) = (out.len(), out.len());
        let destination = out.as_mut_ptr();
        let room = &mut lengths.spare_capacity_mut()[..shared.len()];
        for (row, length) in room.iter_mut().enumerate() {
            let (shared, rest) = (usize::from(shared[row]), rest_ends[row] as usize);
            let rest_bytes = rest_ends[row + 1] as usize - rest;
            if before + shared > position {
                return Err(GatherError::BadCode(row));
            }
            // SAFETY: all that is written, a step beyond included, is within what `make_room` reserved for the total; what is
            // read are bytes of the string before and of the rests, and up to a step behind, which is reserved or lies there.
            unsafe {
                copy(destination.add(before), destination.add(position), shared);
                copy(rests.as_ptr().add(rest), destination.add(position + shared), rest_bytes);
            }
            before = position;
            position += shared + rest_bytes;
            length.write((position - before) as u32);
        }
        // SAFETY: the loop wrote every byte up to `position`, and a length per string.
        unsafe {
            out.set_len(position);
            lengths.set_len(lengths.len() + shared.len());
        }
        Ok(())
    }
}

/// Copies `length` bytes in whole steps.
///
/// # Safety
/// There are that many bytes and a step at both places. They may overlap where `to` is at least `length` bytes further on.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    let mut copied = 0;
    while copied < length {
        // SAFETY: as the caller says. What a step writes too much lies behind all that is still to be read.
        unsafe { to.add(copied).cast::<Step>().write_unaligned(from.add(copied).cast::<Step>().read_unaligned()) };
        copied += STEP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn join(shared: &[u8], rests: &[&[u8]], bound: u64, out: &mut Vec<u8>) -> Result<Vec<u32>, GatherError> {
        let ends: Vec<i32> = (0..=rests.len()).map(|count| rests[..count].concat().len() as i32).collect();
        let mut padded = rests.concat();
        padded.resize(padded.len() + COPY_BYTES, b'#');
        let mut lengths = Vec::new();
        PrefixStrings { shared, rest_ends: &ends, rests: &padded }.join(bound, out, &mut lengths).map(|()| lengths)
    }

    #[test]
    fn strings_are_those_of_the_definition() {
        let mut random = Random::new(31);
        for longest in [1, 5, 40, 300] {
            let rests: Vec<Vec<u8>> =
                (0..200).map(|_| (0..random.below(longest)).map(|_| random.next() as u8).collect()).collect();
            let (mut shared, mut expected): (Vec<u8>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
            for rest in &rests {
                let before = expected.last().map_or(&[][..], Vec::as_slice);
                let count = random.below(before.len().min(255) + 1);
                shared.push(count as u8);
                expected.push([&before[..count], rest].concat());
            }
            let rests: Vec<&[u8]> = rests.iter().map(Vec::as_slice).collect();
            let mut out = b"before".to_vec();
            let lengths = join(&shared, &rests, u64::MAX, &mut out).unwrap();
            assert_eq!(out, [b"before".to_vec(), expected.concat()].concat(), "rests up to {longest}");
            assert_eq!(lengths, expected.iter().map(|string| string.len() as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut out = vec![7];
        assert_eq!(join(&[0, 3], &[b"ab", b"c"], 100, &mut out), Err(GatherError::BadCode(1)));
        assert_eq!(join(&[1], &[b"ab"], 100, &mut out), Err(GatherError::BadCode(0)));
        assert!(join(&[0, 2], &[b"ab", b"c"], 4, &mut out).is_err());
        assert_eq!(out, [7]);
        assert_eq!(join(&[0, 2], &[b"ab", b"c"], 5, &mut out), Ok(vec![2, 3]));
        assert_eq!(out, b"\x07ababc");
    }
}
