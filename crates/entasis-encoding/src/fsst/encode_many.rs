//! Encoding of many strings at once. Where the next symbol begins is known only when the one before is found, after
//! some twenty cycles of which the processor works in few; so four strings are encoded side by side.

use super::Encoder;
use crate::simd::SYMBOL_MAX_BYTES;

/// Strings that are encoded side by side.
const LANES: usize = 4;

/// Bytes of strings that are taken together, so that they and their codes stay in the first caches.
const BATCH_BYTES: usize = 16 << 10;

/// Strings one behind the other, each of at least one byte, and room for their codes.
#[derive(Default)]
struct Batch {
    /// The strings, and zeros behind them so that a word can be read at every place.
    bytes: Vec<u8>,
    /// Where in `bytes` each string ends.
    ends: Vec<usize>,
    /// Codes of a string begin at twice its place in `bytes`, or earlier behind the string before.
    codes: Vec<u8>,
    /// Where in `codes` the codes of each string end.
    code_ends: Vec<usize>,
}

/// One of the strings that are encoded side by side.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// The string.
    index: usize,
    /// The first string that is not this lane's.
    index_end: usize,
    /// In the bytes of the batch.
    position: usize,
    /// Where the lane's codes begin, and up to where they are written.
    codes_start: usize,
    codes_end: usize,
}

impl Encoder {
    /// Appends the codes of each of `strings`, those that [`Encoder::encode`] gives, and to `ends` where they end,
    /// counted from the first code appended.
    ///
    /// # Panics
    /// If the codes are longer than `u32` can count.
    pub fn encode_many(&self, strings: &[&[u8]], out: &mut Vec<u8>, ends: &mut Vec<u32>) {
        let start = out.len();
        let mut batch = Batch::default();
        let mut rest = strings;
        while !rest.is_empty() {
            let taken = batch.take(rest);
            let lanes = batch.encode(self);
            batch.append_to(&rest[..taken], lanes, start, out, ends);
            rest = &rest[taken..];
        }
    }
}

impl Batch {
    /// Replaces the batch by the first of `strings`, at least one, and returns how many.
    fn take(&mut self, strings: &[&[u8]]) -> usize {
        self.bytes.clear();
        self.ends.clear();
        let mut taken = 0;
        for string in strings {
            self.bytes.extend_from_slice(string);
            if !string.is_empty() {
                self.ends.push(self.bytes.len());
            }
            taken += 1;
            if self.bytes.len() >= BATCH_BYTES {
                break;
            }
        }
        // One code and its escaped byte are written ahead of the last.
        self.codes.resize(2 * self.bytes.len() + 2, 0);
        self.code_ends.resize(self.ends.len(), 0);
        self.bytes.extend_from_slice(&[0; SYMBOL_MAX_BYTES]);
        taken
    }

    fn encode(&mut self, encoder: &Encoder) -> [Lane; LANES] {
        let mut lanes = self.lanes();
        while lanes.iter().all(|lane| lane.index < lane.index_end) {
            for lane in &mut lanes {
                self.step(encoder, lane);
            }
        }
        for lane in &mut lanes {
            while lane.index < lane.index_end {
                self.step(encoder, lane);
            }
        }
        lanes
    }

    /// Shares the strings out in parts of about as many bytes.
    fn lanes(&self) -> [Lane; LANES] {
        let total_bytes = self.ends.last().copied().unwrap_or(0);
        let mut lanes = [Lane::default(); LANES];
        let mut index = 0;
        for (part, lane) in lanes.iter_mut().enumerate() {
            let bytes_end = total_bytes * (part + 1) / LANES;
            let index_end = self.ends.partition_point(|&end| end <= bytes_end).max(index);
            let position = if index == 0 { 0 } else { self.ends[index - 1] };
            *lane = Lane { index, index_end, position, codes_start: 2 * position, codes_end: 2 * position };
            index = index_end;
        }
        lanes
    }

    /// Encodes one symbol of a lane that has a string left. All of it without a branch that strings decide, but for
    /// symbols that reach beyond their string.
    #[inline(always)]
    fn step(&mut self, encoder: &Encoder, lane: &mut Lane) {
        let word = self.bytes[lane.position..].first_chunk::<SYMBOL_MAX_BYTES>().expect("zeros behind the last string");
        let word = u64::from_le_bytes(*word);
        let end = self.ends[lane.index];
        let length = end - lane.position;
        // Bytes of the next string may match as well.
        let mut found = encoder.find(word);
        if found.length() > length {
            found = encoder.find_near_end(word & (u64::MAX >> (64 - 8 * length)), length);
        }
        let codes = &mut self.codes[lane.codes_end..lane.codes_end + 2];
        codes[0] = found.code();
        codes[1] = word as u8;
        lane.codes_end += found.encoded_bytes();
        lane.position += found.length();
        self.code_ends[lane.index] = lane.codes_end;
        lane.index += usize::from(lane.position == end);
    }

    /// Appends the codes of `strings`, which the batch consists of, and where they end, counted from `start`.
    fn append_to(
        &mut self,
        strings: &[&[u8]],
        lanes: [Lane; LANES],
        start: usize,
        out: &mut Vec<u8>,
        ends: &mut Vec<u32>,
    ) {
        let mut end = out.len();
        let mut index = 0;
        for lane in lanes {
            let new_start = out.len();
            out.extend_from_slice(&self.codes[lane.codes_start..lane.codes_end]);
            for code_end in &mut self.code_ends[index..lane.index_end] {
                *code_end = new_start + *code_end - lane.codes_start;
            }
            index = lane.index_end;
        }
        let mut code_ends = self.code_ends.iter();
        for string in strings {
            if !string.is_empty() {
                end = *code_ends.next().expect("the batch has every string that is not empty");
            }
            ends.push(u32::try_from(end - start).expect("fewer than 2^32 bytes of codes"));
        }
    }
}
