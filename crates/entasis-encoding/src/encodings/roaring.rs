//! Roaring: booleans, each vector in the container that is smallest for it. See *Roaring* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ containers: entry points × vectors: 4 × bytes of the container + its kind │
//! buffer 0:   │ container 0 │ container 1 │ … │
//! container:  nothing, or │ u8 × 3: positions in the first, second and third quarter │ u8 × positions: row in the quarter │
//!             or a bitmap
//! ```
//!
//! After Roaring bitmaps (Chambi, Lemire, Kaser, Godin, Software: Practice and Experience 46, 2016), with containers of one vector: a
//! position is a byte, and what it says, that a bit is set, is clear, or differs from the one before, is up to the kind.

use std::ops::Range;

use super::Encoding;
use super::bitmap::bits_mut;
use super::node::{Node, Opening, vector_range, vectors_of};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::values::{BitBuffer, Bits, Decoded, Values};
use crate::wire::EntryPoints;
use crate::{Physical, VECTOR_ROWS};

pub(crate) struct Roaring;

pub(crate) const VECTOR_WORDS: usize = VECTOR_ROWS / 64;
const QUARTERS: usize = 4;
const QUARTER_WORDS: usize = VECTOR_WORDS / QUARTERS;
/// Counts of all quarters but the last, which has the rest.
const COUNT_BYTES: usize = QUARTERS - 1;

impl Encoding for Roaring {
    fn id(&self) -> u8 {
        21
    }

    fn name(&self) -> &'static str {
        "Roaring"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        let Values::Bool(bits) = &statistics.column.values else { return None };
        let containers = vectors(*bits).map(|(words, rows)| container_bytes(&words, rows) + 1);
        Some(containers.sum::<usize>() as f64 + 10.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, _: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Bool(bits) = &column.values else { return Ok(None) };
        let (mut buffer, mut containers) = (Vec::new(), Vec::new());
        for (words, rows) in vectors(*bits) {
            let before = buffer.len();
            let kind = append_container(&words, rows, &mut buffer);
            containers.push(((buffer.len() - before) as u64) << 2 | kind as u64);
        }
        let mut parameters = Vec::new();
        EntryPoints::write(&containers, &mut parameters);
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters,
            buffers: vec![buffer],
            children: Vec::new(),
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if *opening.physical != Physical::Bool {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        }
        opening.shape(0, 1)?;
        opening.within_bounds(4)?;
        let entries = opening.parameters(|reader| EntryPoints::read(reader, opening.vectors()))?;
        let (number, length) = opening.buffer(0);
        let mut containers = Vec::with_capacity(entries.len());
        let mut end = 0usize;
        for (vector, entry) in entries.into_iter().enumerate() {
            let bytes = usize::try_from(entry >> 2).unwrap_or(usize::MAX);
            let kind = Kind::ALL[(entry & 3) as usize];
            let fits = match kind {
                Kind::Bits => bytes == vector_range(vector, opening.rows()).len().div_ceil(8),
                _ => bytes == 0 || bytes > COUNT_BYTES,
            };
            if !fits || bytes > length - end {
                return Err(opening.corrupt(format!("a container of {bytes} bytes at {end} of {length}")));
            }
            containers.push((kind, end..end + bytes));
            end += bytes;
        }
        if end != length {
            return Err(opening.corrupt(format!("containers of {end} bytes in a buffer of {length}")));
        }
        Ok(Box::new(RoaringNode { rows: opening.rows(), buffer: number, containers }))
    }
}

/// What the positions of a container say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Bits that are set.
    Ones,
    /// Bits that are clear.
    Zeros,
    /// Bits that differ from the one before; the first, from a clear one.
    Changes,
    /// There are none: every bit lies there.
    Bits,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Ones, Self::Zeros, Self::Changes, Self::Bits];
}

pub(crate) type Words = [u64; VECTOR_WORDS];

/// The bits of each vector, and how many there are.
fn vectors(bits: Bits<'_>) -> impl Iterator<Item = (Words, usize)> + '_ {
    (0..bits.len()).step_by(VECTOR_ROWS).map(move |start| {
        let words = std::array::from_fn(|word| bits.word(start + word * 64));
        (words, (bits.len() - start).min(VECTOR_ROWS))
    })
}

/// A set bit for each of the first `rows`.
fn rows_mask(rows: usize) -> Words {
    std::array::from_fn(|word| match rows.saturating_sub(word * 64) {
        0 => 0,
        left @ 1..64 => (1 << left) - 1,
        _ => u64::MAX,
    })
}

/// What a container of this kind keeps the positions of.
fn marks(words: &Words, rows: usize, kind: Kind) -> Words {
    let mask = rows_mask(rows);
    std::array::from_fn(|word| {
        let before = if word == 0 { 0 } else { words[word - 1] >> 63 };
        let marks = match kind {
            Kind::Ones | Kind::Bits => words[word],
            Kind::Zeros => !words[word],
            Kind::Changes => words[word] ^ (words[word] << 1 | before),
        };
        marks & mask[word]
    })
}

/// The smallest kind of container for these bits, and its bytes.
fn smallest(words: &Words, rows: usize) -> (Kind, usize) {
    let count = |kind| marks(words, rows, kind).iter().map(|word| word.count_ones() as usize).sum::<usize>();
    let bytes = |kind| match count(kind) {
        0 => 0,
        positions => COUNT_BYTES + positions,
    };
    let kinds = [Kind::Ones, Kind::Zeros, Kind::Changes].map(|kind| (kind, bytes(kind)));
    kinds.into_iter().fold((Kind::Bits, rows.div_ceil(8)), |best, next| if next.1 < best.1 { next } else { best })
}

/// Bytes of the smallest container for the bits of a vector of `rows` rows; bits beyond are clear.
pub(crate) fn container_bytes(words: &Words, rows: usize) -> usize {
    smallest(words, rows).1
}

fn append_container(words: &Words, rows: usize, out: &mut Vec<u8>) -> Kind {
    let (kind, bytes) = smallest(words, rows);
    if kind == Kind::Bits {
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()).take(bytes));
    } else if bytes > 0 {
        let marks = marks(words, rows, kind);
        let quarters = marks.chunks_exact(QUARTER_WORDS);
        let count = |quarter: &[u64]| quarter.iter().map(|word| word.count_ones()).sum::<u32>();
        // A container of more positions than a byte counts would be larger than a bitmap.
        out.extend(quarters.clone().take(COUNT_BYTES).map(|quarter| count(quarter) as u8));
        for quarter in quarters {
            for (word, &marks) in quarter.iter().enumerate() {
                let mut left = marks;
                while left != 0 {
                    out.push((word * 64) as u8 + left.trailing_zeros() as u8);
                    left &= left - 1;
                }
            }
        }
    }
    kind
}

/// The bits of a vector of `rows` rows; `None` where the container says something of rows beyond.
fn read_container(kind: Kind, bytes: &[u8], rows: usize) -> Option<Words> {
    let mut marks = [0; VECTOR_WORDS];
    if kind == Kind::Bits {
        let (words, rest) = bytes.as_chunks::<8>();
        marks.iter_mut().zip(words).for_each(|(mark, word)| *mark = u64::from_le_bytes(*word));
        rest.iter().enumerate().for_each(|(byte, &bits)| marks[words.len()] |= u64::from(bits) << (byte * 8));
    } else if let Some((counts, mut positions)) = bytes.split_at_checked(COUNT_BYTES) {
        for quarter in 0..QUARTERS {
            let count = counts.get(quarter).map_or(positions.len(), |&count| count.into());
            let (here, rest) = positions.split_at_checked(count)?;
            for &position in here {
                marks[quarter * QUARTER_WORDS + usize::from(position / 64)] |= 1 << (position % 64);
            }
            positions = rest;
        }
    }
    let mask = rows_mask(rows);
    if marks.iter().zip(&mask).any(|(mark, mask)| mark & !mask != 0) {
        return None;
    }
    match kind {
        Kind::Ones | Kind::Bits => {}
        Kind::Zeros => marks.iter_mut().zip(&mask).for_each(|(mark, mask)| *mark ^= mask),
        Kind::Changes => {
            let mut before = 0;
            for (mark, mask) in marks.iter_mut().zip(&mask) {
                let word = changed(*mark) ^ before;
                before = if word >> 63 == 1 { u64::MAX } else { 0 };
                *mark = word & mask;
            }
        }
    }
    Some(marks)
}

/// Bits that differ from the one before where `changes` has a bit: the parity of all changes so far.
fn changed(changes: u64) -> u64 {
    [1, 2, 4, 8, 16, 32].into_iter().fold(changes, |word, shift| word ^ (word << shift))
}

#[derive(Debug)]
struct RoaringNode {
    rows: usize,
    buffer: usize,
    /// Kind and place of each vector's container.
    containers: Vec<(Kind, Range<usize>)>,
}

impl Node for RoaringNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let bits = bits_mut(out)?;
        for vector in vectors_of(&rows) {
            let whole = vector_range(vector, self.rows);
            let (kind, place) = &self.containers[vector];
            let asked = rows.start.max(whole.start) - whole.start..rows.end.min(whole.end) - whole.start;
            if let (Kind::Ones | Kind::Zeros, true) = (kind, place.is_empty()) {
                // Without positions, all are alike.
                bits.extend_constant(*kind == Kind::Zeros, asked.len());
                continue;
            }
            let container = body.buffer(self.buffer, place.clone())?;
            let words = read_container(*kind, container, whole.len())
                .ok_or_else(|| Error::corrupt("node", 0, "Roaring: positions that no row of the vector has"))?;
            append_bits(&words, asked, bits);
        }
        out.extend_valid(rows.len());
        Ok(())
    }

    fn describe(&self) -> String {
        let count = |wanted| self.containers.iter().filter(|(kind, _)| *kind == wanted).count();
        let [ones, zeros, changes, bits] = Kind::ALL.map(count);
        format!("vectors by {ones} ones, {zeros} zeros, {changes} changes, {bits} bits")
    }
}

/// Appends the bits of some rows of a vector.
fn append_bits(words: &Words, rows: Range<usize>, out: &mut BitBuffer) {
    let mut row = rows.start;
    while row < rows.end {
        let count = (64 - row % 64).min(rows.end - row);
        let word = words[row / 64] >> (row % 64);
        out.extend_word(if count == 64 { word } else { word & ((1 << count) - 1) }, count);
        row += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn words_of(rows: usize, bit: impl Fn(usize) -> bool) -> Words {
        let mut words = [0; VECTOR_WORDS];
        (0..rows).filter(|&row| bit(row)).for_each(|row| words[row / 64] |= 1 << (row % 64));
        words
    }

    #[test]
    fn every_kind_of_container_gives_its_bits_back() {
        let mut random = Random::new(3);
        let mut met = [0; 4];
        for rows in [1, 7, 63, 64, 65, 255, 256, 257, 700, 1023, 1024] {
            for density in [0, 1, 20, 500, 980, 999, 1000] {
                for stretch in [1, 40, 300] {
                    let lucky: Vec<bool> = (0..=rows).map(|_| random.below(1000) < density).collect();
                    let words = words_of(rows, |row| lucky[row / stretch]);
                    let mut bytes = Vec::new();
                    let kind = append_container(&words, rows, &mut bytes);
                    met[kind as usize] += 1;
                    assert_eq!(bytes.len(), container_bytes(&words, rows));
                    assert_eq!(read_container(kind, &bytes, rows), Some(words), "{kind:?} of {rows} rows");
                }
            }
        }
        assert!(met.iter().all(|&times| times > 3), "{met:?}");
    }

    #[test]
    fn positions_beyond_the_rows_are_refused() {
        assert_eq!(read_container(Kind::Ones, &[1, 0, 0, 9], 9), None);
        assert!(read_container(Kind::Ones, &[1, 0, 0, 8], 9).is_some());
        assert_eq!(read_container(Kind::Changes, &[0, 0, 0, 0], 768), None);
        assert_eq!(read_container(Kind::Bits, &[0, 2], 9), None);
        assert_eq!(read_container(Kind::Zeros, &[2, 0, 0, 7], 1024), None, "a count above the positions");
    }
}
