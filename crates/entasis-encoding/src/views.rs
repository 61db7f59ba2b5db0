//! Byte strings as Arrow's views, and what is known of them: that each lies in its buffer, and how many are known to be UTF-8.
//!
//! Whole buffers are checked at once: where a buffer is ASCII, so is every string in it; where it is UTF-8, only the ends of strings
//! remain to be looked at. Strings of buffers that are neither are checked one by one, for what lies between them doesn't count.
//! The strings of a dictionary are checked once, and known wherever they are gathered.

use bytes::Bytes;
use simdutf8::basic::from_utf8;

use crate::error::{Error, Result};
use crate::simd;
use crate::values::{Bits, shrink};

/// Longest string that a view holds inline.
pub(crate) const INLINE_BYTES: usize = 12;

/// The highest bits of the bytes of a string inside its view.
const INLINE_HIGH_BITS: u128 = 0x80808080_80808080_80808080_00000000;

/// Arrow's views (`u32` length; then 12 bytes inline, or 4 bytes of prefix, `u32` buffer, `u32` offset) and their buffers. Every view
/// lies in its buffer, and has its prefix.
#[derive(Debug, Clone, Default)]
pub struct Views {
    views: Vec<u128>,
    buffers: Vec<Bytes>,
    /// So many views, from the first on, are known to be UTF-8.
    text_count: usize,
}

impl Views {
    /// Views over buffers. One that leaves its buffer, or has another prefix or padding than Arrow says, is an error.
    pub fn new(views: Vec<u128>, buffers: Vec<Bytes>) -> Result<Self> {
        let is_sound = |view: u128| {
            let (length, buffer, start) = view_parts(view);
            if length <= INLINE_BYTES {
                return length == INLINE_BYTES || view >> (32 + 8 * length) == 0;
            }
            let string = buffers.get(buffer).and_then(|buffer| buffer.get(start..start + length));
            string.is_some_and(|string| view_of(string, buffer as u32, start as u32) == view)
        };
        match views.iter().position(|&view| !is_sound(view)) {
            Some(row) => Err(Error::InvalidArgument(format!("view {row} isn't that of a string in its buffer"))),
            None => Ok(Self { views, buffers, text_count: 0 }),
        }
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// True without strings.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// The views.
    pub fn views(&self) -> &[u128] {
        &self.views
    }

    /// The buffers in which long strings lie.
    pub fn buffers(&self) -> &[Bytes] {
        &self.buffers
    }

    /// The views and their buffers.
    pub fn into_parts(self) -> (Vec<u128>, Vec<Bytes>) {
        (self.views, self.buffers)
    }

    /// Gives back memory for views if most of it was never needed.
    pub(crate) fn shrink(&mut self) {
        shrink(&mut self.views);
    }

    /// String `index`; one that lies in its view is copied to `inline`. Panics if there is no such string.
    pub(crate) fn get<'a>(&'a self, index: usize, inline: &'a mut [u8; 16]) -> &'a [u8] {
        viewed(self.views[index], inline, &self.buffers)
    }

    /// The views and buffers, of which nothing is known afterwards but that whoever asks for them keeps every view in its buffer.
    pub(crate) fn parts_mut(&mut self) -> (&mut Vec<u128>, &mut Vec<Bytes>) {
        self.text_count = 0;
        (&mut self.views, &mut self.buffers)
    }

    /// Makes room for so many more views.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.views.reserve(count);
    }

    /// Appends views of `source`, as `append` appends them to those that are there; what is known of `source` is known of them. If
    /// `append` fails, nothing is appended.
    pub(crate) fn append_from<E>(
        &mut self,
        source: &Views,
        append: impl FnOnce(&[u128], &mut Vec<u128>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.views.len();
        if let Err(error) = append(&source.views, &mut self.views) {
            self.views.truncate(before);
            return Err(error);
        }
        rebase(&mut self.views[before..], &mut self.buffers, &source.buffers);
        if self.text_count == before && source.text_count == source.len() {
            self.text_count = self.views.len();
        }
        Ok(())
    }

    /// Spreads the views from `start` on over the rows whose bits are set; the others get any string that is there, or an empty one.
    pub(crate) fn spread(&mut self, start: usize, bits: Bits<'_>) {
        let is_text = self.text_count == self.views.len();
        simd::spread(&mut self.views, start, bits, 0);
        self.text_count = if is_text { self.views.len() } else { 0 };
    }

    /// Whether every string is UTF-8; what was found so is known from then on.
    pub fn are_text(&mut self) -> bool {
        let unknown = &self.views[self.text_count..];
        if !unknown.is_empty() && are_text(unknown, &self.buffers) {
            self.text_count = self.views.len();
        }
        self.text_count == self.views.len()
    }
}

/// Points the long ones of `views` at `value_buffers`, which join `buffers` unless they are its last already.
fn rebase(views: &mut [u128], buffers: &mut Vec<Bytes>, value_buffers: &[Bytes]) {
    let same = |left: &Bytes, right: &Bytes| left.as_ptr() == right.as_ptr() && left.len() == right.len();
    let base = match buffers.len().checked_sub(value_buffers.len()) {
        Some(base) if buffers[base..].iter().zip(value_buffers).all(|(left, right)| same(left, right)) => base,
        _ => {
            buffers.extend_from_slice(value_buffers);
            buffers.len() - value_buffers.len()
        }
    };
    if base > 0 {
        for view in views.iter_mut().filter(|view| view_parts(**view).0 > INLINE_BYTES) {
            *view += (base as u128) << 64;
        }
    }
}

/// The view of `string`, which lies at `offset` of buffer `buffer` unless it is short enough to be inline.
pub(crate) fn view_of(string: &[u8], buffer: u32, offset: u32) -> u128 {
    let mut raw = [0; 16];
    raw[..4].copy_from_slice(&(string.len() as u32).to_le_bytes());
    if string.len() <= INLINE_BYTES {
        raw[4..4 + string.len()].copy_from_slice(string);
    } else {
        raw[4..8].copy_from_slice(&string[..4]);
        raw[8..12].copy_from_slice(&buffer.to_le_bytes());
        raw[12..].copy_from_slice(&offset.to_le_bytes());
    }
    u128::from_le_bytes(raw)
}

/// Length, buffer and offset of a view; the last two mean nothing for inline strings.
pub(crate) fn view_parts(view: u128) -> (usize, usize, usize) {
    (view as u32 as usize, (view >> 64) as u32 as usize, (view >> 96) as u32 as usize)
}

/// The string behind a view; one that lies in its view is copied to `inline`.
fn viewed<'a>(view: u128, inline: &'a mut [u8; 16], buffers: &'a [Bytes]) -> &'a [u8] {
    let (length, buffer, offset) = view_parts(view);
    if length <= INLINE_BYTES {
        *inline = view.to_le_bytes();
        return &inline[4..4 + length];
    }
    &buffers[buffer][offset..offset + length]
}

/// What is known of all of a buffer.
#[derive(Clone, Copy)]
enum Content {
    Ascii,
    Utf8,
    Unknown,
}

fn are_text(views: &[u128], buffers: &[Bytes]) -> bool {
    let far_length = |view: u128| if view as u32 as usize > INLINE_BYTES { u64::from(view as u32) } else { 0 };
    let far_bytes: u64 = views.iter().map(|&view| far_length(view)).sum();
    let contents: Vec<Content> = buffers.iter().map(|buffer| content_of(buffer, far_bytes)).collect();
    views.iter().all(|&view| {
        let (length, buffer, start) = view_parts(view);
        if length <= INLINE_BYTES {
            return view & INLINE_HIGH_BITS == 0 || from_utf8(viewed(view, &mut [0; 16], buffers)).is_ok();
        }
        match contents[buffer] {
            Content::Ascii => true,
            Content::Utf8 => {
                let bytes = &buffers[buffer];
                is_boundary(bytes, start) & is_boundary(bytes, start + length)
            }
            Content::Unknown => from_utf8(viewed(view, &mut [0; 16], buffers)).is_ok(),
        }
    })
}

/// Looks at a whole buffer, unless the strings are so few that looking at each is less work.
fn content_of(buffer: &Bytes, far_bytes: u64) -> Content {
    if buffer.len() as u64 > far_bytes {
        Content::Unknown
    } else if buffer.is_ascii() {
        Content::Ascii
    } else if from_utf8(buffer).is_ok() {
        Content::Utf8
    } else {
        Content::Unknown
    }
}

/// True if a character begins at `at`, or if the bytes end there; `bytes` must be UTF-8.
#[inline]
fn is_boundary(bytes: &[u8], at: usize) -> bool {
    // Bytes inside of characters are 0x80 to 0xBF.
    bytes.get(at).map_or(at == bytes.len(), |&byte| byte as i8 >= -0x40)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Strings, most of them text, some cut in the middle of a character or damaged, and their views.
    fn random_views(random: &mut Random) -> (Vec<Vec<u8>>, Views) {
        let characters = ["a", "exactly thirteen", "ü", "日本語の文字列です", "🜁", "\u{10FFFF}"];
        let kinds = if random.below(100) < 30 { 2 } else { 6 };
        let mut data = Vec::new();
        let mut ends = vec![0];
        for _ in 0..random.below(40) {
            (0..random.below(4)).for_each(|_| data.extend_from_slice(characters[random.below(kinds)].as_bytes()));
            ends.push(data.len());
        }
        if random.below(100) < 30 && ends.len() > 2 {
            let which = 1 + random.below(ends.len() - 2);
            ends[which] = ends[which - 1] + random.below(ends[which + 1] - ends[which - 1] + 1);
        }
        if random.below(100) < 30 && !data.is_empty() {
            let at = random.below(data.len());
            data[at] = random.below(256) as u8;
        }
        let used_percent = if random.below(100) < 50 { 100 } else { 40 };
        let ranges: Vec<_> =
            ends.windows(2).map(|pair| pair[0]..pair[1]).filter(|_| random.below(100) < used_percent).collect();
        let strings: Vec<Vec<u8>> = ranges.iter().map(|range| data[range.clone()].to_vec()).collect();
        let views = ranges.iter().map(|range| view_of(&data[range.clone()], 0, range.start as u32)).collect();
        (strings, Views::new(views, vec![Bytes::from(data)]).unwrap())
    }

    #[test]
    fn strings_are_text_where_each_is_utf8() {
        let (mut accepted, mut refused) = (0, 0);
        for seed in 0..3_000 {
            let (strings, mut views) = random_views(&mut Random::new(seed));
            let expected = strings.iter().all(|string| std::str::from_utf8(string).is_ok());
            assert_eq!(views.are_text(), expected, "seed {seed}");
            *if expected { &mut accepted } else { &mut refused } += 1;
        }
        assert!(accepted > 500 && refused > 500, "{accepted} accepted, {refused} refused");
    }

    #[test]
    fn what_is_known_follows_views_that_are_gathered_and_no_others() {
        for seed in 0..2_000 {
            let mut random = Random::new(seed);
            let (mut expected, mut all) = (Vec::new(), Views::default());
            for _ in 0..4 {
                let (strings, mut source) = random_views(&mut random);
                if random.below(100) < 60 {
                    source.are_text();
                }
                if random.below(100) < 70 {
                    let picked: Vec<usize> = (0..random.below(9)).map(|_| random.below(strings.len().max(1))).collect();
                    let picked = if strings.is_empty() { Vec::new() } else { picked };
                    let append = |from: &[u128], to: &mut Vec<u128>| {
                        to.extend(picked.iter().map(|&row| from[row]));
                        Ok::<(), ()>(())
                    };
                    all.append_from(&source, append).unwrap();
                    expected.extend(picked.iter().map(|&row| strings[row].clone()));
                } else {
                    let (views, buffers) = all.parts_mut();
                    let string = [&b"\xFFa"[..], b"text", b"text of more than twelve bytes"][random.below(3)];
                    views.push(view_of(string, buffers.len() as u32, 0));
                    buffers.push(Bytes::from_static(string));
                    expected.push(string.to_vec());
                }
            }
            let found: Vec<Vec<u8>> = (0..all.len()).map(|row| all.get(row, &mut [0; 16]).to_vec()).collect();
            assert_eq!(found, expected, "seed {seed}");
            let is_text = expected.iter().all(|string| std::str::from_utf8(string).is_ok());
            assert_eq!(all.are_text(), is_text, "seed {seed}");
            let (views, buffers) = all.into_parts();
            Views::new(views, buffers).unwrap();
        }
    }

    #[test]
    fn views_that_leave_their_buffers_are_refused() {
        let data = Bytes::from_static(b"thirteen bytes");
        let good = view_of(&data[..13], 0, 0);
        assert!(Views::new(vec![good], vec![data.clone()]).is_ok());
        let further = |offset: u128| good + (offset << 96);
        for bad in [further(2), further(u128::from(u32::MAX)), good + (1 << 64), good ^ (1 << 32), (1 << 96) + 1] {
            assert!(Views::new(vec![good, bad], vec![data.clone()]).is_err(), "{bad:x}");
        }
    }
}
