//! Zstd: byte strings of a few vectors at a time, back to back in a frame of Zstandard. See *Zstd* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 tag of the lengths' type │ u8 log2 of the vectors of a frame │ entry points: byte at which each vector begins,
//!             │ decompressed │ v decompressed bytes │ entry points: byte at which each frame begins │
//! buffer 0:   │ frame 0 │ frame 1 │ … │       child 0: lengths in bytes │
//! ```

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use zstd::bulk::{Compressor, Decompressor};

use super::Encoding;
use super::node::{Node, Opening, Recent};
use super::prefix::append_rows;
use super::strings::{Gathered, bytes_mut, checked_starts, length_type, locate, locate_each, write_starts};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, LaidOut, Statistics};
use crate::error::{Error, Result};
use crate::values::{Decoded, Values};
use crate::wire::{EntryPoints, write_varint};
use crate::{Fixed, Physical, VECTOR_ROWS};

pub(crate) struct Zstd;

/// Fewer bytes don't pay for a frame.
const MIN_BYTES: usize = 256;
/// A frame has 2³ vectors at most: the grain of a node.
const FRAME_VECTORS_LOG: u8 = 3;
/// Frames of fewer vectors where those have more bytes than this.
const FRAME_BYTES: usize = 1 << 20;
/// What Zstandard calls its level.
const LEVEL: i32 = 9;

impl Encoding for Zstd {
    fn id(&self) -> u8 {
        26
    }

    fn name(&self) -> &'static str {
        "Zstd"
    }

    fn is_heavy(&self) -> bool {
        true
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        let strings = statistics.strings()?;
        if strings.total_bytes < MIN_BYTES || (encoder.may_cascade() && statistics.is_repetitive()) {
            return None;
        }
        Some(statistics.laid_out(lay_out)?.size_bytes() + strings.length_bytes())
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let Values::Bytes(strings) = &statistics.column.values else { return Ok(None) };
        let Some(LaidOut { parameters, buffers }) = statistics.laid_out(lay_out).cloned() else { return Ok(None) };
        let lengths: Vec<u32> = strings.iter().map(|string| string.len() as u32).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let children = vec![encoder.unsigned_child(&lengths, u64::from(longest))?];
        let (encoding, rows) = (self.id(), statistics.rows);
        Ok(Some(EncodedNode { encoding, rows, parameters, buffers, children }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if *opening.physical != Physical::Bytes {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        }
        opening.shape(1, 1)?;
        opening.within_bounds(4)?;
        let vectors = opening.vectors();
        let (tag, frame_vectors_log, starts, total, frames) = opening.parameters(|reader| {
            let (tag, frame_vectors_log) = (reader.u8()?, reader.u8()?);
            let (starts, total) = (EntryPoints::read(reader, vectors)?, reader.varint()?);
            let frames = vectors.div_ceil(1 << frame_vectors_log.min(FRAME_VECTORS_LOG));
            Ok((tag, frame_vectors_log, starts, total, EntryPoints::read(reader, frames)?))
        })?;
        if frame_vectors_log > FRAME_VECTORS_LOG || opening.rows() == 0 {
            return Err(opening.corrupt(format!("frames of 2^{frame_vectors_log} vectors, {} rows", opening.rows())));
        }
        let total = usize::try_from(total).ok().filter(|&total| total as u64 <= opening.decoded_bytes);
        let Some(total) = total else {
            return Err(opening.corrupt("more bytes than the block declares"));
        };
        let (buffer, length) = opening.buffer(0);
        let starts = checked_starts(opening, starts, total)?;
        let frames = checked_starts(opening, frames, length)?;
        let length_type = length_type(opening, tag)?;
        let lengths = opening.child(0, &Physical::Fixed(length_type), opening.rows())?;
        Ok(Box::new(ZstdNode {
            buffer,
            frames,
            frame_vectors: 1 << frame_vectors_log,
            starts,
            length_type,
            lengths,
            recent: Recent::default(),
        }))
    }
}

/// The parameters of the column, and its frames.
fn lay_out(statistics: &Statistics<'_>) -> Option<LaidOut> {
    let Values::Bytes(strings) = &statistics.column.values else { return None };
    let longest = strings.iter().map(|string| string.len()).max()?;
    let ends: Vec<u64> = strings
        .iter()
        .scan(0, |end, string| {
            *end += string.len() as u64;
            Some(*end)
        })
        .collect();
    let total = *ends.last()?;
    let vectors = strings.len().div_ceil(VECTOR_ROWS);
    let fits = |log: u8| (total as usize / vectors) << log <= FRAME_BYTES;
    let frame_vectors_log = (0..=FRAME_VECTORS_LOG).rev().find(|&log| fits(log)).unwrap_or(0);
    let mut compressor = Compressor::new(LEVEL).ok()?;
    let (mut buffer, mut frames) = (Vec::new(), Vec::new());
    for frame in strings.chunks(VECTOR_ROWS << frame_vectors_log) {
        frames.push(buffer.len() as u64);
        buffer.extend(compressor.compress(&frame.concat()).ok()?);
    }
    let mut parameters = vec![Fixed::unsigned_for(longest as u64) as u8, frame_vectors_log];
    write_starts(&ends, &mut parameters);
    write_varint(total, &mut parameters);
    EntryPoints::write(&frames, &mut parameters);
    Some(LaidOut { parameters, buffers: vec![buffer] })
}

#[derive(Debug)]
struct ZstdNode {
    buffer: usize,
    /// Where frames begin and the last ends in the buffer.
    frames: Vec<usize>,
    frame_vectors: usize,
    /// Where vectors begin and the last ends, decompressed.
    starts: Vec<usize>,
    length_type: Fixed,
    lengths: Box<dyn Node>,
    recent: Recent<Bytes>,
}

fn corrupt(error: impl fmt::Display) -> Error {
    Error::corrupt("node", 0, format!("Zstd: {error}"))
}

impl ZstdNode {
    /// Where the bytes of a frame lie among all that are decompressed.
    fn place(&self, frame: usize) -> Range<usize> {
        let last = self.starts.len() - 1;
        self.starts[frame * self.frame_vectors]..self.starts[((frame + 1) * self.frame_vectors).min(last)]
    }

    /// Appends the bytes of a frame, as many as its strings' lengths promised.
    fn decompress(&self, body: &Body, frame: usize, read: &mut Decompressor<'_>, out: &mut Vec<u8>) -> Result<()> {
        let source = body.buffer(self.buffer, self.frames[frame]..self.frames[frame + 1])?;
        let before = out.len();
        out.resize(before + self.place(frame).len(), 0);
        let target = &mut out[before..];
        let written = read.decompress_to_buffer(source, target).map_err(corrupt)?;
        if written != target.len() {
            return Err(corrupt(format!("a frame of {written} bytes instead of {}", target.len())));
        }
        Ok(())
    }

    /// The bytes of a frame of which but a part is wanted.
    fn recent(&self, body: &Body, frame: usize) -> Result<Bytes> {
        self.recent.piece(frame, || {
            let mut bytes = Vec::new();
            self.decompress(body, frame, &mut Decompressor::new().map_err(corrupt)?, &mut bytes)?;
            Ok(Bytes::from(bytes))
        })
    }
}

impl Node for ZstdNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let frame_rows = self.frame_vectors * VECTOR_ROWS;
        let frames = rows.start / frame_rows..rows.end.div_ceil(frame_rows);
        let (lengths, range) = locate(body, &*self.lengths, self.length_type, &self.starts, rows)?;
        let mut bytes = Vec::with_capacity(range.len());
        let mut decompressor = Decompressor::new().map_err(corrupt)?;
        for frame in frames {
            let place = self.place(frame);
            let wanted = range.start.max(place.start)..range.end.min(place.end);
            if wanted == place {
                self.decompress(body, frame, &mut decompressor, &mut bytes)?;
            } else if !wanted.is_empty() {
                let part = wanted.start - place.start..wanted.end - place.start;
                bytes.extend_from_slice(&self.recent(body, frame)?[part]);
            }
        }
        append_rows(bytes_mut(out)?, &lengths, Bytes::from(bytes))?;
        out.extend_valid(lengths.len());
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let (bytes, mut gathered) = (bytes_mut(out)?, Gathered::default());
        let frame_starts: Vec<usize> = (0..self.frames.len() - 1).map(|frame| self.place(frame).start).collect();
        locate_each(body, &*self.lengths, self.length_type, &self.starts, rows, |range| {
            gathered.push(bytes, |data| {
                if !range.is_empty() {
                    // The last of those that begin at or before the string; others that do are empty.
                    let frame = frame_starts.partition_point(|&start| start <= range.start) - 1;
                    let start = frame_starts[frame];
                    data.extend_from_slice(&self.recent(body, frame)?[range.start - start..range.end - start]);
                }
                Ok(())
            })
        })?;
        gathered.flush(bytes)?;
        out.extend_valid(rows.len());
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.lengths]
    }

    fn grain_rows(&self) -> usize {
        self.frame_vectors * VECTOR_ROWS
    }

    fn describe(&self) -> String {
        let (total, taken) = (self.starts.last().copied().unwrap_or(0), self.frames.last().copied().unwrap_or(0));
        format!("{} frames, {:.2} bytes per byte", self.frames.len() - 1, total as f64 / taken.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chooser::EncodeOptions;
    use crate::chooser::chunk::finished;
    use crate::values::{BytesForm, Column, DecodedBytes, DecodedValues};
    use crate::{Block, Limits, Parts, Profile};

    const ROWS: usize = 10_000;

    /// Sentences that are alike, and too different for a dictionary.
    fn sentences() -> Vec<String> {
        let words = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "then", "sleeps"];
        let mut random = crate::random::Random::new(73);
        let mut sentence = || (0..4 + random.below(12)).map(|_| random.pick(&words)).collect::<Vec<_>>().join(" ");
        (0..ROWS).map(|_| sentence()).collect()
    }

    fn column<'a>(strings: &'a [&'a [u8]]) -> Column<'a> {
        Column { rows: strings.len(), validity: None, values: Values::Bytes(strings) }
    }

    fn decoded(node: &EncodedNode, decoded_bytes: u64, rows: Range<usize>) -> Result<(Vec<i32>, Vec<u8>)> {
        let bytes = finished(node, &Physical::Bytes, decoded_bytes, false).bytes;
        let block = Block::open(Bytes::from(bytes), &Parts::new(), None, &Limits::default())?;
        let mut out = Decoded::new(&Physical::Bytes, BytesForm::Offsets32);
        block.decode(rows, &mut out)?;
        match out.values {
            DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, bytes)) => Ok((offsets, bytes)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_the_profile_size_proposes_it() {
        let strings: Vec<String> = sentences().into_iter().map(|sentence| sentence.repeat(3)).collect();
        let strings: Vec<&[u8]> = strings.iter().map(String::as_bytes).collect();
        let root_of =
            |options: &EncodeOptions| Encoder::new(options, None, None).root(&column(&strings)).unwrap().encoding;
        for profile in Profile::ALL {
            // Beside plain strings it is the smallest by far.
            let allowed: Vec<u8> = [11, 7].into_iter().chain((profile == Profile::Size).then_some(Zstd.id())).collect();
            assert_eq!(
                root_of(&EncodeOptions { allowed: Some(allowed), ..EncodeOptions::of(profile) }) == Zstd.id(),
                profile == Profile::Size
            );
            assert_eq!(EncodeOptions::of(profile).allows(&Zstd), profile == Profile::Size, "{profile}");
        }
    }

    #[test]
    fn frames_have_the_bytes_that_lengths_say() {
        let sentences = sentences();
        let strings: Vec<&[u8]> = sentences.iter().map(String::as_bytes).collect();
        let column = column(&strings);
        let node = Encoder::forcing(&EncodeOptions::default(), Zstd.id()).root(&column).unwrap();
        let bound = crate::chooser::chunk::decoded_size_bytes(&column, false);
        let frame = VECTOR_ROWS << FRAME_VECTORS_LOG;
        assert_eq!(decoded(&node, bound, 0..ROWS).unwrap().1, strings.concat());
        let mut compressor = Compressor::new(LEVEL).unwrap();
        let second = compressor.compress(&strings[frame..].concat()).unwrap();
        let first_bytes = node.buffers[0].len() - second.len();
        for (what, other) in [
            ("less", compressor.compress(b"less").unwrap()),
            ("more", compressor.compress(&vec![7; 1 << 24]).unwrap()),
            ("no frame", vec![0; 50]),
            ("nothing", Vec::new()),
        ] {
            let mut node = node.clone();
            node.buffers[0].truncate(first_bytes);
            node.buffers[0].extend(other);
            assert!(decoded(&node, bound, 0..ROWS).is_err(), "{what}");
            // The first frame is what it was.
            assert_eq!(decoded(&node, bound, 3..frame).unwrap().1, strings[3..frame].concat(), "{what}");
        }
        // More than the block declares isn't allocated.
        let error = decoded(&node, 5 * ROWS as u64, 0..ROWS).unwrap_err().to_string();
        assert!(error.contains("more bytes than the block declares"), "{error}");
    }
}
