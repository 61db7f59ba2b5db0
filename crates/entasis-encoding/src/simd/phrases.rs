//! Putting strings together from phrases of a text and literals.

use std::mem::MaybeUninit;

use super::level::{Kernel, Level, run_at};
use super::{GatherError, Offset};

/// Strings taken apart: see *Phrases* in `spec/encodings.md`.
#[derive(Debug, Clone, Copy)]
pub struct PhraseStrings<'a> {
    /// The text, and [`COPY_BYTES`] more of anything.
    pub text: &'a [u8],
    /// Number of phrases of each string.
    pub counts: &'a [u32],
    /// One more than there are strings: where in `literals` those of each begin and end.
    pub literal_ends: &'a [i32],
    /// The literals of all strings, and [`COPY_BYTES`] more of anything.
    pub literals: &'a [u8],
    /// For each phrase the literals of its string before it, since the phrase before.
    pub segments: &'a [u32],
    /// For each phrase its offset in the text (the high 16 bits) and its length less one.
    pub phrases: &'a [u32],
}

/// What is copied at once; so much more than what is asked for may be read and written.
pub const COPY_BYTES: usize = 64;
/// Most pieces are no longer: half of them then lie within one line of the cache, on either side.
const SHORT_BYTES: usize = 32;
const _: () =
    assert!(COPY_BYTES <= super::strings::ROOM, "there is room behind the strings for what is copied too much");

impl PhraseStrings<'_> {
    /// Appends the strings, one offset each; together they must not be longer than `bound_bytes`.
    ///
    /// # Errors
    /// [`GatherError::BadCode`] where a phrase leaves the text, or the segments of a string its literals; nothing is appended then.
    pub fn expand<O: Offset>(
        &self,
        bound_bytes: u64,
        out_offsets: &mut Vec<O>,
        out: &mut Vec<u8>,
    ) -> Result<(), GatherError> {
        self.expand_at(Level::detect(), bound_bytes, out_offsets, out)
    }

    /// [`expand`](Self::expand) at a given level.
    ///
    /// # Errors
    /// As [`expand`](Self::expand).
    pub fn expand_at<O: Offset>(
        &self,
        level: Level,
        bound_bytes: u64,
        out_offsets: &mut Vec<O>,
        out: &mut Vec<u8>,
    ) -> Result<(), GatherError> {
        let plan = run_at(level, MakePlan { strings: self })?;
        super::strings::make_room::<O>(plan.total, bound_bytes, out)?;
        let row_count = self.counts.len();
        out_offsets.reserve(row_count);
        let start = out.len();
        let ends = &mut out_offsets.spare_capacity_mut()[..row_count];
        for (end, &place) in ends.iter_mut().zip(&plan.ends) {
            end.write(O::wrap(start + place as usize));
        }
        let size = run_at(level, Copy { strings: self, segments: &plan.segments, out: out.spare_capacity_mut() });
        debug_assert_eq!(size as u64, plan.total);
        // SAFETY: the kernel wrote `size` bytes, one behind the other, and the loop one offset per string.
        unsafe {
            out.set_len(start + size);
            out_offsets.set_len(out_offsets.len() + row_count);
        }
        Ok(())
    }

    /// Where the literals begin and how many there are.
    fn literals(&self) -> (usize, usize) {
        let (first, last) = (self.literal_ends[0], self.literal_ends[self.counts.len()]);
        (first as usize, (last - first) as usize)
    }
}

/// Strings as one stream: the literals behind the last phrase of a string and those before the first of the next lie one behind
/// the other, on both sides, so that where strings end doesn't matter for copying.
struct Plan {
    /// Bytes of all strings.
    total: u64,
    /// For each phrase the literals before it, since the phrase before; and those behind the last.
    segments: Vec<u32>,
    /// Where each string ends.
    ends: Vec<u64>,
}

/// Checks that the parts fit each other, and makes the plan.
struct MakePlan<'a> {
    strings: &'a PhraseStrings<'a>,
}

impl Kernel for MakePlan<'_> {
    type Output = Result<Plan, GatherError>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let PhraseStrings { text, counts, literal_ends, literals, segments, phrases } = *self.strings;
        let text_bytes = text.len().saturating_sub(COPY_BYTES);
        let literal_bytes = literals.len().saturating_sub(COPY_BYTES);
        let ends_are_good = literal_ends.len() == counts.len() + 1
            && literal_ends[0] >= 0
            && super::ascends(literal_ends)
            && literal_ends[counts.len()] as usize <= literal_bytes;
        let count: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        assert!(
            ends_are_good
                && literals.len() >= COPY_BYTES
                && segments.len() == phrases.len()
                && count == phrases.len() as u64,
            "the parts fit each other"
        );
        // A text of no more than 64 KiB and phrases of as much: their places have 32 bits.
        let reach = phrases.iter().fold(0, |reach, &phrase| reach.max((phrase >> 16) + (phrase & 0xFFFF) + 1));
        if reach as usize > text_bytes {
            let leaves = |&phrase: &u32| ((phrase >> 16) + (phrase & 0xFFFF) + 1) as usize > text_bytes;
            return Err(GatherError::BadCode(phrases.iter().position(leaves).unwrap_or(0)));
        }
        // Sums over the literals and phrases before each phrase. Strings have one or two, but how many, no branch can predict.
        let (mut sums, mut sum) = (Vec::with_capacity(phrases.len() + 1), [0u64; 2]);
        sums.push(sum);
        sums.extend(segments.iter().zip(phrases).map(|(&segment, &phrase)| {
            sum = [sum[0] + u64::from(segment), sum[1] + u64::from(phrase & 0xFFFF) + 1];
            sum
        }));
        let (mut plan, mut token) = (Plan::new(segments, counts.len()), 0);
        let first_literal = literal_ends[0];
        for (&count, ends) in counts.iter().zip(literal_ends.windows(2)) {
            let next = token + count as usize;
            let left = u64::from((ends[1] - ends[0]) as u32).wrapping_sub(sums[next][0] - sums[token][0]);
            if left > u64::from(u32::MAX) {
                return Err(GatherError::BadCode(token));
            }
            // A segment that overflows is one too long for its string, which is found then.
            plan.segments[next] = plan.segments[next].wrapping_add(left as u32);
            plan.ends.push(sums[next][1] + (ends[1] - first_literal) as u64);
            token = next;
        }
        plan.total = sum[1] + self.strings.literals().1 as u64;
        Ok(plan)
    }
}

impl Plan {
    fn new(segments: &[u32], row_count: usize) -> Self {
        let mut own = Vec::with_capacity(segments.len() + 1);
        own.extend_from_slice(segments);
        own.push(0);
        Self { total: 0, segments: own, ends: Vec::with_capacity(row_count) }
    }
}

/// Copies literals and phrases; the bytes of all. The parts must have been checked, and there must be room for all of them and
/// [`COPY_BYTES`].
struct Copy<'a> {
    strings: &'a PhraseStrings<'a>,
    segments: &'a [u32],
    out: &'a mut [MaybeUninit<u8>],
}

impl Kernel for Copy<'_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Self { strings, segments, out } = self;
        let (text, to) = (strings.text.as_ptr(), out.as_mut_ptr().cast::<u8>());
        let (first, literal_bytes) = strings.literals();
        let (mut literal, mut position) = (first, 0);
        for (&segment, &phrase) in segments.iter().zip(strings.phrases) {
            let (segment, offset, length) = (segment as usize, (phrase >> 16) as usize, (phrase & 0xFFFF) as usize + 1);
            // SAFETY: the segment lies in the literals, for all segments together are no more, and the phrase in the text; both have
            // `COPY_BYTES` more (a text of fewer bytes has no phrases). There is room for all that is written and `COPY_BYTES`.
            unsafe {
                copy(strings.literals.as_ptr().add(literal), to.add(position), segment);
                copy(text.add(offset), to.add(position + segment), length);
            }
            literal += segment;
            position += segment + length;
        }
        let rest = first + literal_bytes - literal;
        // SAFETY: as above, for the literals behind the last phrase.
        unsafe { copy(strings.literals.as_ptr().add(literal), to.add(position), rest) };
        position + rest
    }
}

/// Copies `length` bytes, and up to [`COPY_BYTES`] more of them than that.
///
/// # Safety
/// There are `length + COPY_BYTES` bytes at both places, which don't overlap.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: as the caller says.
    unsafe {
        if length <= SHORT_BYTES {
            std::ptr::copy_nonoverlapping(from, to, SHORT_BYTES);
        } else if length <= COPY_BYTES {
            std::ptr::copy_nonoverlapping(from, to, COPY_BYTES);
        } else {
            std::ptr::copy_nonoverlapping(from, to, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(bytes: &[u8]) -> Vec<u8> {
        [bytes, &[b'#'; COPY_BYTES]].concat()
    }

    fn expand(
        counts: &[u32],
        literal_ends: &[i32],
        segments: &[u32],
        phrases: &[(u32, u32)],
        bound: u64,
    ) -> Result<(Vec<i32>, Vec<u8>), GatherError> {
        let (text, literals) =
            (padded(b"The quick brown fox jumps over the lazy dog and is gone."), padded(b"abcdefgh"));
        let phrases: Vec<u32> = phrases.iter().map(|&(offset, length)| offset << 16 | (length - 1)).collect();
        let strings =
            PhraseStrings { text: &text, counts, literal_ends, literals: &literals, segments, phrases: &phrases };
        let at = |level| {
            let (mut offsets, mut out) = (vec![2], b"..".to_vec());
            let result = strings.expand_at(level, bound, &mut offsets, &mut out);
            assert!(result.is_ok() || (offsets.len(), out.len()) == (1, 2));
            result.map(|()| (offsets, out))
        };
        let expanded = at(Level::Scalar);
        Level::available().into_iter().for_each(|level| assert_eq!(at(level), expanded, "{level:?}"));
        expanded
    }

    #[test]
    fn strings_are_those_of_the_oracle() {
        let mut random = crate::random::Random::new(8);
        let text: Vec<u8> = (0..3000u32).map(|n| (n * n) as u8).collect();
        for (longest, many) in [(4, 5), (40, 3), (400, 9)] {
            let (mut counts, mut literal_ends, mut literals) = (Vec::new(), vec![0], Vec::new());
            let (mut segments, mut phrases, mut expected) = (Vec::new(), Vec::new(), vec![Vec::new(); 300]);
            for string in &mut expected {
                counts.push(random.below(many) as u32);
                let mut literal = |string: &mut Vec<u8>| {
                    let bytes: Vec<u8> = (0..random.below(longest)).map(|_| random.next() as u8).collect();
                    literals.extend_from_slice(&bytes);
                    string.extend_from_slice(&bytes);
                    (bytes.len() as u32, random.below(2000), 1 + random.below(longest))
                };
                for _ in 0..counts[counts.len() - 1] {
                    let (segment, offset, length) = literal(string);
                    string.extend_from_slice(&text[offset..offset + length]);
                    segments.push(segment);
                    phrases.push((offset << 16 | (length - 1)) as u32);
                }
                literal(string);
                literal_ends.push(literals.len() as i32);
            }
            let (text, literals) = (padded(&text), padded(&literals));
            let strings = PhraseStrings {
                text: &text,
                counts: &counts,
                literal_ends: &literal_ends,
                literals: &literals,
                segments: &segments,
                phrases: &phrases,
            };
            for level in Level::available() {
                let (mut offsets, mut out) = (vec![0i64], Vec::new());
                strings.expand_at(level, u64::MAX, &mut offsets, &mut out).unwrap();
                assert_eq!(out, expected.concat(), "up to {longest} bytes at {level:?}");
                let lengths: Vec<usize> = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize).collect();
                assert_eq!(lengths, expected.iter().map(Vec::len).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn strings_come_together() {
        let (offsets, out) = expand(&[2, 0, 1], &[0, 3, 5, 8], &[1, 0, 3], &[(4, 5), (0, 56), (20, 36)], 200).unwrap();
        let strings: Vec<&[u8]> = offsets.windows(2).map(|pair| &out[pair[0] as usize..pair[1] as usize]).collect();
        let expected: [&[u8]; 3] = [
            b"aquickThe quick brown fox jumps over the lazy dog and is gone.bc",
            b"de",
            b"fghjumps over the lazy dog and is gone.",
        ];
        assert_eq!(strings, expected);
    }

    #[test]
    #[should_panic(expected = "fit each other")]
    fn literals_without_the_bytes_to_copy_beyond_them_are_refused() {
        let (text, literals) = (padded(b""), [0; COPY_BYTES - 1]);
        let strings = PhraseStrings {
            text: &text,
            counts: &[0],
            literal_ends: &[0, 0],
            literals: &literals,
            segments: &[],
            phrases: &[],
        };
        let _ = strings.expand(0, &mut vec![0i32], &mut Vec::new());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let wrong = |segments: &[u32], phrase, bound| expand(&[1], &[0, 8], segments, &[phrase], bound).map(|_| ());
        assert_eq!(wrong(&[8], (0, 56), 64), Ok(()));
        assert_eq!(wrong(&[8], (0, 56), 63), Err(GatherError::TooLong));
        assert_eq!(wrong(&[9], (0, 56), 64), Err(GatherError::BadCode(0)));
        assert_eq!(wrong(&[u32::MAX], (0, 56), 64), Err(GatherError::BadCode(0)));
        assert_eq!(wrong(&[0], (1, 56), 99), Err(GatherError::BadCode(0)));
        assert_eq!(wrong(&[0], (65_535, 65_536), 99), Err(GatherError::BadCode(0)));
    }
}
