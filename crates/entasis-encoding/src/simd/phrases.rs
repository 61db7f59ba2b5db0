//! Putting strings together from phrases of a text and literals.

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
pub const COPY_BYTES: usize = 32;
const _: () =
    assert!(COPY_BYTES <= super::strings::STEP, "there is room behind the strings for what is copied too much");

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
        let Self { text, counts, literal_ends, literals, segments, phrases } = *self;
        let text_bytes = text.len().saturating_sub(COPY_BYTES);
        let literal_bytes = literals.len().saturating_sub(COPY_BYTES);
        let ends_are_good = literal_ends.len() == counts.len() + 1
            && literal_ends
                .iter()
                .zip(&literal_ends[1..])
                .fold(literal_ends[0] >= 0, |good, (left, right)| good & (left <= right))
            && literal_ends[counts.len()] as usize <= literal_bytes;
        let count: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        assert!(
            ends_are_good
                && literals.len() >= COPY_BYTES
                && segments.len() == phrases.len()
                && count == phrases.len() as u64,
            "the parts fit each other"
        );
        let mut total = (literal_ends[counts.len()] - literal_ends[0]) as u64;
        let mut reach = 0;
        for &phrase in phrases {
            total += u64::from(phrase & 0xFFFF) + 1;
            reach = reach.max((phrase >> 16) + (phrase & 0xFFFF) + 1);
        }
        if reach as usize > text_bytes {
            let leaves = |&phrase: &u32| ((phrase >> 16) + (phrase & 0xFFFF) + 1) as usize > text_bytes;
            return Err(GatherError::BadCode(phrases.iter().position(leaves).unwrap_or(0)));
        }
        super::strings::make_room::<O>(total, bound_bytes, out)?;
        out_offsets.reserve(counts.len());
        let start = out.len();
        let mut position = start;
        let destination = out.as_mut_ptr();
        let mut token = 0;
        for (row, end) in (0..counts.len()).zip(out_offsets.spare_capacity_mut()) {
            let (mut literal, literal_end) = (literal_ends[row] as usize, literal_ends[row + 1] as usize);
            for (&segment, &phrase) in segments[token..].iter().zip(&phrases[token..]).take(counts[row] as usize) {
                let (segment, offset, length) =
                    (segment as usize, (phrase >> 16) as usize, (phrase & 0xFFFF) as usize + 1);
                if segment > literal_end - literal {
                    return Err(GatherError::BadCode(token));
                }
                // SAFETY: the segment lies in the literals, the phrase in the text, as was checked; both have `COPY_BYTES` more
                // (a text of fewer bytes has no phrases).
                // All that is written, `COPY_BYTES` beyond it included, is within what `make_room` reserved for the total.
                unsafe {
                    copy(literals.as_ptr().add(literal), destination.add(position), segment);
                    copy(text.as_ptr().add(offset), destination.add(position + segment), length);
                }
                literal += segment;
                position += segment + length;
            }
            token += counts[row] as usize;
            // SAFETY: as above, for the literals behind the last phrase.
            unsafe { copy(literals.as_ptr().add(literal), destination.add(position), literal_end - literal) };
            position += literal_end - literal;
            end.write(O::wrap(position));
        }
        debug_assert_eq!((position - start) as u64, total);
        // SAFETY: the loop wrote every byte up to `position`, and one offset per string.
        unsafe {
            out.set_len(position);
            out_offsets.set_len(out_offsets.len() + counts.len());
        }
        Ok(())
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
        if length <= COPY_BYTES {
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
        let (mut offsets, mut out) = (vec![2], b"..".to_vec());
        let strings =
            PhraseStrings { text: &text, counts, literal_ends, literals: &literals, segments, phrases: &phrases };
        let result = strings.expand(bound, &mut offsets, &mut out);
        assert!(result.is_ok() || (offsets.len(), out.len()) == (1, 2));
        result.map(|()| (offsets, out))
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
