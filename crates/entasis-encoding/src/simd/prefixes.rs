//! Putting strings together from what they share with the string before and the rest.

use std::mem::MaybeUninit;

use super::level::{Kernel, Level, run_at};
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
        self.join_at(Level::detect(), bound_bytes, out, lengths)
    }

    /// [`join`](Self::join) at a given level.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub fn join_at(
        &self,
        level: Level,
        bound_bytes: u64,
        out: &mut Vec<u8>,
        lengths: &mut Vec<u32>,
    ) -> Result<(), GatherError> {
        let row_count = self.shared.len();
        lengths.reserve(row_count);
        let room = &mut lengths.spare_capacity_mut()[..row_count];
        let total = run_at(level, Measure { strings: self, lengths: room })?;
        make_room::<i32>(total, bound_bytes, out)?;
        let to = out.spare_capacity_mut().as_mut_ptr().cast();
        // SAFETY: `Measure` found the parts to fit each other. There is room for the total and `COPY_BYTES`. `or_scalar` returns a
        // level only where the processor has its features.
        unsafe {
            match level.or_scalar() {
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => x86::join(self.shared, self.rest_ends, self.rests, to),
                _ => run_at(level, Join { strings: self, to }),
            }
            // All strings have been written, one behind the other, and their lengths.
            out.set_len(out.len() + total as usize);
            lengths.set_len(lengths.len() + row_count);
        }
        Ok(())
    }
}

/// Checks that the parts fit each other and notes the lengths; the bytes of all strings.
struct Measure<'a> {
    strings: &'a PrefixStrings<'a>,
    lengths: &'a mut [MaybeUninit<u32>],
}

impl Kernel for Measure<'_> {
    type Output = Result<u64, GatherError>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let PrefixStrings { shared, rest_ends, rests } = *self.strings;
        let ends_are_good = rest_ends.len() == shared.len() + 1
            && rest_ends[0] >= 0
            && super::ascends(rest_ends)
            && rest_ends[shared.len()] as usize + COPY_BYTES <= rests.len();
        assert!(ends_are_good, "the parts fit each other");
        let bounds = rest_ends.iter().zip(&rest_ends[1..]).zip(shared);
        // A length has 32 bits: rests end below 2^31.
        for (length, ((rest, rest_end), &shared)) in self.lengths.iter_mut().zip(bounds.clone()) {
            length.write((rest_end - rest) as u32 + u32::from(shared));
        }
        // What is shared is no more than the string before has, of which its own rest and what that shares are known.
        let before = std::iter::once(0)
            .chain(bounds.map(|((rest, rest_end), &shared)| (rest_end - rest) as u32 + u32::from(shared)));
        let good =
            before.clone().zip(shared).fold(true, |good, (before, &shared)| good & (u32::from(shared) <= before));
        if !good {
            let row = before.zip(shared).position(|(before, &shared)| u32::from(shared) > before);
            return Err(GatherError::BadCode(row.unwrap_or(0)));
        }
        let shared_bytes: u64 = shared.iter().map(|&shared| u64::from(shared)).sum();
        Ok((rest_ends[shared.len()] - rest_ends[0]) as u64 + shared_bytes)
    }
}

/// Writes the strings. The parts must have been checked, and there must be room for all strings and [`COPY_BYTES`] at `to`.
struct Join<'a> {
    strings: &'a PrefixStrings<'a>,
    to: *mut u8,
}

impl Kernel for Join<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let PrefixStrings { shared, rest_ends, rests } = *self.strings;
        let (mut before, mut at) = (self.to, self.to);
        for ((rest, rest_end), &shared) in rest_ends.iter().zip(&rest_ends[1..]).zip(shared) {
            let (shared, rest_bytes) = (usize::from(shared), (rest_end - rest) as usize);
            // SAFETY: all that is written, a step beyond included, has room; what is read are bytes of the string before and of the
            // rests, and up to a step behind, which has room or lies there.
            unsafe {
                copy(before, at, shared);
                copy(rests.as_ptr().add(*rest as usize), at.add(shared), rest_bytes);
                before = at;
                at = at.add(shared + rest_bytes);
            }
        }
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

/// The beginning of the string before stays in a register: what was just written piece by piece couldn't be read back at once.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::copy;

    const REGISTER: usize = 64;

    /// # Safety
    /// As `Join`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2")]
    pub(super) unsafe fn join(shared: &[u8], rest_ends: &[i32], rests: &[u8], to: *mut u8) {
        let (mut before, mut at) = (to, to);
        let mut beginning = _mm512_setzero_si512();
        for ((rest, rest_end), &shared) in rest_ends.iter().zip(&rest_ends[1..]).zip(shared) {
            let (shared, rest_bytes) = (usize::from(shared), (rest_end - rest) as usize);
            // SAFETY: there are 64 bytes behind all rests, and as much room behind all strings.
            unsafe {
                let rest = rests.as_ptr().add(*rest as usize);
                let behind = if shared < REGISTER { u64::MAX << shared } else { 0 };
                beginning = _mm512_mask_expand_epi8(beginning, behind, _mm512_loadu_epi8(rest.cast()));
                _mm512_storeu_epi8(at.cast(), beginning);
                if shared + rest_bytes > REGISTER {
                    if shared > REGISTER {
                        copy(before.add(REGISTER), at.add(REGISTER), shared - REGISTER);
                    }
                    let written = REGISTER.saturating_sub(shared);
                    copy(rest.add(written), at.add(shared + written), rest_bytes - written);
                }
                before = at;
                at = at.add(shared + rest_bytes);
            }
        }
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
        let strings = PrefixStrings { shared, rest_ends: &ends, rests: &padded };
        let at = |level| {
            let (mut lengths, mut out) = (Vec::new(), out.clone());
            strings.join_at(level, bound, &mut out, &mut lengths).map(|()| (lengths, out))
        };
        let joined = at(Level::Scalar);
        Level::available().into_iter().for_each(|level| assert_eq!(at(level), joined, "{level:?}"));
        joined.map(|(lengths, bytes)| {
            *out = bytes;
            lengths
        })
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
