//! Phrases of a text: long strings as references into a short text that holds what they have in common, and the bytes between.
//! Relative Lempel-Ziv factorisation (Hoobin, Puglisi, Zobel, PVLDB 5, 2011): as all references go to the text, every string can be
//! read without its neighbours.

/// No text is longer, so that offsets have 16 bits.
pub(crate) const TEXT_BYTES: usize = 1 << 16;
/// Shorter phrases are no cheaper than the bytes themselves.
pub(crate) const MIN_PHRASE_BYTES: usize = 8;
/// A phrase has at most this many bytes.
pub(crate) const MAX_PHRASE_BYTES: usize = 1 << 16;
/// Places of the text that are compared with a string before the best of them is taken.
const MOST_COMPARED: usize = 8;
/// The text's share in all bytes, and how many times as much is looked at to find it.
const TEXT_SHARE: usize = 16;
const CANDIDATES: usize = 4;
/// Bytes of strings on which candidates are tried.
const SAMPLE_BYTES: usize = 256 << 10;
/// Whether anything comes of it is asked after so many bytes of strings, with some hope for the others, and again each time when there are
/// so many more.
const FIRST_BYTES: usize = 8 << 10;
const MORE_BYTES: usize = 32 << 10;
/// How much more the others may be covered than the first strings are.
const HOPE: f64 = 1.2;
/// Bits of [`PhraseText::present`] for each place: so many that few hashes which no place has share one.
const PRESENT_BITS_PER_PLACE: usize = 4;
/// A phrase of so many bytes is taken at once: longer ones take fewer bytes, but where all take the first one, fewer are different.
const LONG_PHRASE_BYTES: usize = 32;
/// Bits of a place among the candidates; above them is a tag of what lies there, which tells most that differ without a look.
const PLACE_BITS: u32 = (CANDIDATES * TEXT_BYTES).ilog2();

/// A reference into a text, as it is stored: the offset in the high 16 bits, the length less one in the low.
pub(crate) fn phrase(offset: usize, length: usize) -> u32 {
    debug_assert!(offset < TEXT_BYTES && (1..=MAX_PHRASE_BYTES).contains(&length));
    (offset << 16 | (length - 1)) as u32
}

/// A text, and where in it to look for a string.
pub(crate) struct PhraseText {
    bytes: Vec<u8>,
    /// By hash of eight bytes, where in `places` those begin that have it; at last where they end.
    starts: Vec<u32>,
    /// Places and the tags of what lies there, by hash, ascending: what is compared with one string lies in one cache line.
    places: Vec<u32>,
    /// A bit for each hash that some place has. Most of what is looked up in vain has none, and these bits lie near.
    present: Vec<u64>,
}

/// What candidates for a text cover of the strings that were looked at so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Coverage {
    /// Strings, and their bytes.
    pub strings: usize,
    pub bytes: usize,
    /// Phrases, and the bytes that they stand for.
    pub phrases: usize,
    pub covered_bytes: usize,
    /// Bytes of the text, when it has been chosen.
    pub text_bytes: usize,
}

impl Coverage {
    /// What it may become, if the strings that weren't looked at have more in common, and longer phrases.
    fn hopeful(self) -> Self {
        Self { covered_bytes: ((self.covered_bytes as f64 * HOPE) as usize).min(self.bytes), ..self }
    }

    /// What a text of so many bytes covers, which are used for this share of what is covered by all candidates.
    fn by_text(self, text_bytes: usize, share: f64) -> Self {
        let scaled = |count: usize| (count as f64 * share) as usize;
        Self { phrases: scaled(self.phrases), covered_bytes: scaled(self.covered_bytes), text_bytes, ..self }
    }
}

/// The bytes of candidates that are kept as a text.
struct Kept {
    bytes: Vec<u8>,
    /// Their share in all uses.
    share: f64,
}

/// Strings taken apart.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Phrases of each string.
    pub counts: Vec<u32>,
    /// Bytes outside of phrases, those of all strings one after the other.
    pub literals: Vec<u8>,
    /// For each string the end of its literals.
    pub literal_ends: Vec<usize>,
    /// For each phrase the literals of its string since the phrase before.
    pub segments: Vec<u32>,
    /// The phrases.
    pub phrases: Vec<u32>,
}

impl PhraseText {
    /// The text that these strings have in common; `None` if they have none that is worth the trouble. That is asked of what it is chosen
    /// from, when some strings were looked at, and of itself when it is chosen.
    pub fn of_worth(strings: &[&[u8]], is_worth: impl Fn(Coverage) -> bool) -> Option<Self> {
        let total: usize = strings.iter().map(|string| string.len()).sum();
        let most = (total / TEXT_SHARE).min(TEXT_BYTES);
        let candidates = Self::new(spread_out(strings, total, (most * CANDIDATES).min(total / 2)));
        let mut uses = vec![0u32; candidates.bytes.len()];
        let mut seen = Coverage::default();
        let mut next_question = FIRST_BYTES;
        let step = (total / SAMPLE_BYTES).max(1);
        // Not the strings that the candidates are: those would find themselves.
        for string in strings.iter().skip(step / 2).step_by(step) {
            if seen.bytes > next_question {
                let hoped_for = if seen.bytes < MORE_BYTES { seen.hopeful() } else { seen };
                if hoped_for.covered_bytes * 8 < seen.bytes || !is_worth(hoped_for) {
                    return None;
                }
                next_question += MORE_BYTES;
            }
            seen.strings += 1;
            seen.bytes += string.len();
            candidates.visit_phrases(string, |_, offset, length| {
                uses[offset..offset + length].iter_mut().for_each(|uses| *uses += 1);
                seen.phrases += 1;
                seen.covered_bytes += length;
            });
        }
        if seen.covered_bytes * 4 < seen.bytes {
            return None;
        }
        let kept = most_used(&candidates.bytes, &uses, most);
        // In a part of the strings, too much is used only once to tell what is kept of what is covered.
        let share = if step == 1 { kept.share } else { 1.0 };
        let pays = kept.bytes.len() >= MIN_PHRASE_BYTES && is_worth(seen.by_text(kept.bytes.len(), share));
        pays.then(|| Self::new(kept.bytes))
    }

    /// The text that the first strings make, one after the other: for strings that have nothing in common.
    pub fn beginning_of(strings: &[&[u8]]) -> Self {
        Self::new(strings.iter().flat_map(|string| string.iter().copied()).take(TEXT_BYTES).collect())
    }

    /// A text of at most [`TEXT_BYTES`] when strings are to be stored by it.
    pub fn new(bytes: Vec<u8>) -> Self {
        let slots = bytes.len().next_power_of_two().clamp(1 << 8, 1 << 16);
        let words = || bytes.windows(MIN_PHRASE_BYTES).map(|window| place_word(window, 0));
        // Where each slot starts is counted two places further on, and found one place further on until its places are set.
        let mut starts = vec![0u32; slots + 2];
        let mut present = vec![0; (bytes.len() * PRESENT_BITS_PER_PLACE).next_power_of_two().div_ceil(64)];
        for word in words() {
            starts[slot_of(word, slots).0 + 2] += 1;
            let (place, bit) = present_bit(word, present.len());
            present[place] |= bit;
        }
        for slot in 1..=slots {
            starts[slot + 1] += starts[slot];
        }
        let mut places = vec![0; starts[slots + 1] as usize];
        for (place, word) in words().enumerate() {
            let (slot, tag) = slot_of(word, slots);
            let start = &mut starts[slot + 1];
            places[*start as usize] = place as u32 | tag << PLACE_BITS;
            *start += 1;
        }
        starts.pop();
        Self { bytes, starts, places, present }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The longest phrase that `rest` begins with, among the places that are looked at: its offset and length.
    fn longest(&self, rest: &[u8]) -> Option<(usize, usize)> {
        let word = place_word(rest, 0);
        let (place, bit) = present_bit(word, self.present.len());
        if self.present[place] & bit == 0 {
            return None;
        }
        let mut best = None;
        let mut best_length = MIN_PHRASE_BYTES - 1;
        let (slot, tag) = slot_of(word, self.starts.len() - 1);
        let (start, end) = (self.starts[slot] as usize, self.starts[slot + 1] as usize);
        for &entry in &self.places[start..end.min(start + MOST_COMPARED)] {
            let place = (entry & ((1 << PLACE_BITS) - 1)) as usize;
            let there = &self.bytes[place..];
            // What is longer than the best has the same byte behind it.
            if entry >> PLACE_BITS == tag
                && there.get(best_length) == rest.get(best_length)
                && place_word(there, 0) == word
            {
                let length = common_length(there, rest).min(MAX_PHRASE_BYTES);
                if length > best_length {
                    (best, best_length) = (Some((place, length)), length);
                }
                if best_length >= rest.len().min(LONG_PHRASE_BYTES) {
                    break;
                }
            }
        }
        best
    }

    /// Calls `visit` with place, offset and length of each phrase of a string, from the left, always the longest found.
    fn visit_phrases(&self, string: &[u8], mut visit: impl FnMut(usize, usize, usize)) {
        let (mut at, mut misses) = (0, 0);
        while at + MIN_PHRASE_BYTES <= string.len() {
            if let Some((offset, length)) = self.longest(&string[at..]) {
                visit(at, offset, length);
                at += length;
                misses = 0;
            } else {
                // Where nothing was found for long, look at fewer places.
                misses += 1;
                at += 1 + misses / 32;
            }
        }
    }

    /// Takes one more string apart.
    pub fn parse(&self, string: &[u8], parsed: &mut Parsed) {
        let (before, mut literal_start) = (parsed.phrases.len(), 0);
        self.visit_phrases(string, |at, offset, length| {
            parsed.literals.extend_from_slice(&string[literal_start..at]);
            parsed.segments.push((at - literal_start) as u32);
            parsed.phrases.push(phrase(offset, length));
            literal_start = at + length;
        });
        parsed.literals.extend_from_slice(&string[literal_start..]);
        parsed.literal_ends.push(parsed.literals.len());
        parsed.counts.push((parsed.phrases.len() - before) as u32);
    }
}

/// Those bytes of a text that are used most, at most `most` of them and each at least twice, in their order.
fn most_used(text: &[u8], uses: &[u32], most: usize) -> Kept {
    let (mut before, mut least) = (2, 2);
    while uses.iter().filter(|&&uses| uses >= least).count() > most {
        before = least;
        least += 1 + least / 4;
    }
    // All from `least` on, and what has room of those just below.
    let mut room = most - uses.iter().filter(|&&uses| uses >= least).count();
    let (mut bytes, mut kept_uses, mut all_uses) = (Vec::with_capacity(most), 0u64, 0u64);
    for (&byte, &uses) in text.iter().zip(uses) {
        let fills_room = (before..least).contains(&uses) && room > 0;
        room -= usize::from(fills_room);
        all_uses += u64::from(uses);
        if uses >= least || fills_room {
            bytes.push(byte);
            kept_uses += u64::from(uses);
        }
    }
    Kept { bytes, share: kept_uses as f64 / all_uses.max(1) as f64 }
}

/// A multiplier that spreads bits upwards: the fraction 2^64 / φ, made odd.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The bit that eight bytes have among so many words, a power of two: which word, and the bit in it.
fn present_bit(word: u64, words: usize) -> (usize, u64) {
    // Other bits of the hash than those that make slots.
    let hash = word.wrapping_mul(ODD);
    (hash.rotate_left(26) as usize & (words - 1), 1 << (hash >> 58))
}

/// The slot of eight bytes among so many, a power of two, and their tag.
fn slot_of(word: u64, slots: usize) -> (usize, u32) {
    let hash = word.wrapping_mul(ODD);
    ((hash >> u32::BITS) as usize & (slots - 1), (hash >> (u32::BITS + PLACE_BITS)) as u32)
}

/// Eight bytes from `place` on.
fn place_word(bytes: &[u8], place: usize) -> u64 {
    bytes.get(place..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

/// How many bytes both begin with.
fn common_length(left: &[u8], right: &[u8]) -> usize {
    let words = left.as_chunks::<8>().0.iter().zip(right.as_chunks::<8>().0);
    let mut length = 0;
    for (left, right) in words {
        let different = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if different != 0 {
            return length + different.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    length + left[length..].iter().zip(&right[length..]).take_while(|(left, right)| left == right).count()
}

/// About `wanted` bytes: whole strings, spread evenly over all of them.
fn spread_out(strings: &[&[u8]], total: usize, wanted: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(wanted + wanted / 4);
    let mut seen = 0;
    for string in strings {
        // As far in the text as in the strings.
        if text.len() * total <= seen * wanted {
            text.extend_from_slice(&string[..string.len().min(TEXT_BYTES)]);
        }
        seen += string.len();
    }
    text.truncate(CANDIDATES * TEXT_BYTES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PhraseText {
        fn of(strings: &[&[u8]]) -> Option<Self> {
            Self::of_worth(strings, |_| true)
        }
    }

    fn put_together(text: &[u8], parsed: &Parsed) -> Vec<Vec<u8>> {
        let mut tokens = parsed.segments.iter().zip(&parsed.phrases);
        let mut literals = &parsed.literals[..];
        let mut start = 0;
        let strings = parsed.counts.iter().zip(&parsed.literal_ends).map(|(&count, &end)| {
            let mut left = end - std::mem::replace(&mut start, end);
            let mut string = Vec::new();
            for (&segment, &phrase) in tokens.by_ref().take(count as usize) {
                let (offset, length) = ((phrase >> 16) as usize, (phrase & 0xFFFF) as usize + 1);
                string.extend_from_slice(literals.split_off(..segment as usize).unwrap());
                string.extend_from_slice(&text[offset..offset + length]);
                left -= segment as usize;
            }
            string.extend_from_slice(literals.split_off(..left).unwrap());
            string
        });
        strings.collect()
    }

    #[test]
    fn strings_are_the_sum_of_their_parts() {
        let lines: Vec<Vec<u8>> = (0..3000u32)
            .map(|number| {
                let user = ["root", "admin", "a user with a long name"][number as usize % 3];
                format!(
                    "Nov 22 sshd[{}]: Failed password for {user} from 10.0.{}.1 port {number} ssh2",
                    number * 7,
                    number % 9
                )
            })
            .map(String::into_bytes)
            .chain([vec![], vec![b'x'], vec![7; 100_000]])
            .collect();
        let strings: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let text = PhraseText::of(&strings).unwrap();
        assert!((100..=TEXT_BYTES).contains(&text.bytes().len()), "{}", text.bytes().len());
        let mut parsed = Parsed::default();
        strings.iter().for_each(|string| text.parse(string, &mut parsed));
        assert_eq!(put_together(text.bytes(), &parsed), lines);
        let line_bytes: usize = lines[..3000].iter().map(Vec::len).sum();
        assert!(parsed.literals.len() - 100_000 < line_bytes / 3, "{} of {line_bytes}", parsed.literals.len());
    }

    #[test]
    fn strings_without_anything_in_common_have_no_text() {
        let numbers: Vec<u8> = crate::simd::test_values::random(1).take(50_000).map(|number| number as u8).collect();
        let strings: Vec<&[u8]> = numbers.chunks(50).collect();
        assert!(PhraseText::of(&strings).is_none());
        assert!(PhraseText::of(&[]).is_none());
        assert!(PhraseText::of(&[b"once", b""]).is_none());
    }

    fn most_used(text: &[u8], uses: &[u32], most: usize) -> Vec<u8> {
        super::most_used(text, uses, most).bytes
    }

    #[test]
    fn the_most_used_bytes_are_kept_in_their_order() {
        let uses = [1, 5, 5, 9, 0, 2, 3, 9, 5];
        assert_eq!(most_used(b"abcdefghi", &uses, 9), b"bcdfghi");
        assert_eq!(most_used(b"abcdefghi", &uses, 3), b"bdh");
        assert_eq!(most_used(b"abcdefghi", &uses, 2), b"dh");
        assert_eq!(most_used(b"xyz", &[7, 7, 7], 2), b"xy");
        assert_eq!(most_used(b"", &[], 0), b"");
    }

    #[test]
    fn phrases_reach_the_end_of_text_and_string() {
        let text = PhraseText::new((0..=255).collect::<Vec<u8>>().repeat(3));
        let long = (0..=255).collect::<Vec<u8>>().repeat(5);
        for (string, count) in [(&long[..], 2), (&long[250..260], 1), (&long[255..768], 1), (&long[..7], 0)] {
            let mut parsed = Parsed::default();
            text.parse(string, &mut parsed);
            assert_eq!(put_together(text.bytes(), &parsed), [string]);
            assert_eq!(parsed.counts, [count]);
        }
    }
}
