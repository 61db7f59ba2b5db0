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
        let Plan { total, mut segment_sums, mut phrase_sums, mut segments } =
            run_at(level, MakePlan { strings: self })?;
        super::strings::make_room::<O>(total, bound_bytes, out)?;
        // Blocks are shorter; sums have 32 bits.
        u32::try_from(total).map_err(|_| GatherError::OffsetOverflow)?;
        super::prefix_sum_at(level, 0, &mut segment_sums);
        super::prefix_sum_at(level, 0, &mut phrase_sums);
        let row_count = self.counts.len();
        out_offsets.reserve(row_count);
        let start = out.len();
        let ends = &mut out_offsets.spare_capacity_mut()[..row_count];
        let sums = (&segment_sums[..], &phrase_sums[..]);
        if !run_at(level, Join { strings: self, sums, start, segments: &mut segments, ends }) {
            return Err(self.misfit());
        }
        let size = run_at(level, Copy { strings: self, segments: &segments, out: out.spare_capacity_mut() });
        debug_assert_eq!(size as u64, total);
        // SAFETY: the kernels wrote `size` bytes, one behind the other, and one offset per string.
        unsafe {
            out.set_len(start + size);
            out_offsets.set_len(out_offsets.len() + row_count);
        }
        Ok(())
    }

    /// Names the first phrase of a string whose segments leave its literals.
    fn misfit(&self) -> GatherError {
        let mut token = 0;
        for (&count, ends) in self.counts.iter().zip(self.literal_ends.windows(2)) {
            let next = token + count as usize;
            let segments: u64 = self.segments[token..next].iter().map(|&segment| u64::from(segment)).sum();
            if segments > (ends[1] - ends[0]) as u64 {
                break;
            }
            token = next;
        }
        GatherError::BadCode(token)
    }

    /// Where the literals begin and how many there are.
    fn literals(&self) -> (usize, usize) {
        let (first, last) = (self.literal_ends[0], self.literal_ends[self.counts.len()]);
        (first as usize, (last - first) as usize)
    }
}

/// What is known before strings are put together.
struct Plan {
    /// Bytes of all strings.
    total: u64,
    /// 0 and the segments, to be summed: they come to no more than there are literals.
    segment_sums: Vec<u32>,
    /// 0 and the lengths of the phrases, to be summed.
    phrase_sums: Vec<u32>,
    /// The segments, and 0.
    segments: Vec<u32>,
}

/// Checks that the parts fit each other, but for which literals a string's segments take, and makes the plan.
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
        let sum = |values: &[u32]| values.iter().map(|&value| u64::from(value)).sum::<u64>();
        assert!(
            ends_are_good
                && literals.len() >= COPY_BYTES
                && segments.len() == phrases.len()
                && sum(counts) == phrases.len() as u64,
            "the parts fit each other"
        );
        // A text of no more than 64 KiB and phrases of as much: their places have 32 bits.
        let reach = phrases.iter().fold(0, |reach, &phrase| reach.max((phrase >> 16) + (phrase & 0xFFFF) + 1));
        if reach as usize > text_bytes {
            let leaves = |&phrase: &u32| ((phrase >> 16) + (phrase & 0xFFFF) + 1) as usize > text_bytes;
            return Err(GatherError::BadCode(phrases.iter().position(leaves).unwrap_or(0)));
        }
        let literal_bytes = self.strings.literals().1 as u64;
        if sum(segments) > literal_bytes {
            return Err(self.strings.misfit());
        }
        let room = || Vec::with_capacity(phrases.len() + 1);
        let (mut segment_sums, mut phrase_sums, mut own) = (room(), room(), room());
        segment_sums.push(0);
        segment_sums.extend_from_slice(segments);
        phrase_sums.push(0);
        phrase_sums.extend(phrases.iter().map(|&phrase| (phrase & 0xFFFF) + 1));
        own.extend_from_slice(segments);
        own.push(0);
        Ok(Plan { total: sum(&phrase_sums) + literal_bytes, segment_sums, phrase_sums, segments: own })
    }
}

/// Makes one stream of the strings: the literals behind the last phrase of a string and those before the first of the next lie one
/// behind the other, on both sides, so that where strings end doesn't matter for copying. Adds the former to the latter's segment, and
/// notes where strings end; false where the segments of a string leave its literals. The parts must have been checked.
struct Join<'a, O> {
    strings: &'a PhraseStrings<'a>,
    /// Segments, and lengths of phrases, before each phrase and behind the last.
    sums: (&'a [u32], &'a [u32]),
    /// What ends count from.
    start: usize,
    segments: &'a mut [u32],
    ends: &'a mut [MaybeUninit<O>],
}

impl<O: Offset> Kernel for Join<'_, O> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self { strings, sums: (segment_sums, phrase_sums), start, segments, ends } = self;
        let [segment_count, phrase_count, sum_count] = [segments.len(), phrase_sums.len(), segment_sums.len()];
        assert!(sum_count == strings.phrases.len() + 1 && segment_count == sum_count && phrase_count == sum_count);
        let literal_ends = strings.literal_ends;
        let first_literal = literal_ends[0];
        // Strings have one or two phrases, but how many, no branch can predict.
        let (mut next, mut before, mut fits) = (0, 0, true);
        for ((&count, end), literals) in
            strings.counts.iter().zip(ends).zip(literal_ends.iter().zip(&literal_ends[1..]))
        {
            next += count as usize;
            // SAFETY: all counts together are the number of phrases, to which there is one more of each.
            let (sum, phrases, segment) = unsafe {
                (*segment_sums.get_unchecked(next), *phrase_sums.get_unchecked(next), segments.get_unchecked_mut(next))
            };
            let (taken, there) = (sum - before, (literals.1 - literals.0) as u32);
            fits &= taken <= there;
            *segment = segment.wrapping_add(there.wrapping_sub(taken));
            end.write(O::wrap(start + phrases as usize + (literals.1 - first_literal) as usize));
            before = sum;
        }
        fits
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
        // Enough literals for both strings, but not for one of them.
        let uneven = |segments: &[u32]| expand(&[1, 1], &[0, 2, 8], segments, &[(0, 9), (9, 9)], 99).map(|_| ());
        assert_eq!(uneven(&[2, 6]), Ok(()));
        assert_eq!(uneven(&[3, 0]), Err(GatherError::BadCode(0)));
        assert_eq!(uneven(&[0, 7]), Err(GatherError::BadCode(1)));
    }
}
