//! Phrases: long byte strings as references into a text of what they have in common, and the bytes between. See *Phrases* in
//! `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 tag of the counts' type │ u8 tag of the segments' type │ entry points: number of each vector's first phrase │
//! child 0: number of phrases of each string        child 1: literals of each string, back to back, as byte strings
//! child 2: literals before each phrase, since the phrase before        child 3: phrases: u32, offset and length in the text
//! child 4: the text, in pieces
//! ```
//!
//! The algorithm is in [`crate::phrases`].

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::node::{Node, Opening, bound_of_rows, by_grain, decode_child, tried};
use super::strings::{append_views, bytes_mut, length_type, locate, locate_each};
use super::{Effort, Encoding};
use crate::block::body::Body;
use crate::block::bounds::Budget;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::filter::coded::Sorted;
use crate::filter::pieced::PiecedStrings;
use crate::filter::{BytesTest, FilterWork, Question, filter_decoded};
use crate::phrases::{MIN_PHRASE_BYTES, Parsed, PhraseText, TEXT_BYTES};
use crate::simd::{COPY_BYTES, GatherError, PhraseStrings};
use crate::values::{BitBuffer, BytesForm, Column, Decoded, DecodedBytes, DecodedValues, Lanes, Values};
use crate::wire::EntryPoints;
use crate::{Fixed, Physical, VECTOR_ROWS};

pub(crate) struct Phrases;

/// The text is stored in pieces of this many bytes.
const PIECE_BYTES: usize = 256;

impl Encoding for Phrases {
    fn id(&self) -> u8 {
        18
    }

    fn name(&self) -> &'static str {
        "Phrases"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        if !encoder.may_cascade() || !encoder.may_have_phrases() || statistics.recurs() {
            return None;
        }
        // Each string takes a count, and hardly less than a phrase.
        let best_bytes = encoder.best_bytes() - encoder.price_bytes(self, statistics.rows, 0.0);
        if 2.0 * statistics.rows as f64 > best_bytes {
            return None;
        }
        statistics.strings()?.phrase_bytes(best_bytes)
    }

    fn effort(&self) -> Effort {
        Effort::Much
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Bytes(strings) = &column.values else { return Ok(None) };
        let any;
        // Whoever asks for phrases gets them also where the chooser wouldn't look for them.
        let text = match statistics.strings().and_then(|strings| strings.phrase_text()) {
            Some(text) => text,
            None => {
                any = PhraseText::of_worth(strings, |_| true).unwrap_or_else(|| PhraseText::beginning_of(strings));
                &any
            }
        };
        let mut parsed = Parsed::default();
        strings.iter().for_each(|string| text.parse(string, &mut parsed));
        let most = |values: &[u32]| u64::from(values.iter().copied().max().unwrap_or(0));
        let (counts_type, segments_type) =
            (Fixed::unsigned_for(most(&parsed.counts)), Fixed::unsigned_for(most(&parsed.segments)));
        let mut parameters = vec![counts_type as u8, segments_type as u8];
        let firsts = parsed.counts.chunks(VECTOR_ROWS).scan(0, |first, counts| {
            let count: u64 = counts.iter().map(|&count| u64::from(count)).sum();
            Some(std::mem::replace(first, *first + count))
        });
        EntryPoints::write(&firsts.collect::<Vec<_>>(), &mut parameters);
        let mut start = 0;
        let literals: Vec<&[u8]> =
            parsed.literal_ends.iter().map(|&end| &parsed.literals[std::mem::replace(&mut start, end)..end]).collect();
        let pieces: Vec<&[u8]> = text.bytes().chunks(PIECE_BYTES).collect();
        let plain = |rows, values| Column { rows, validity: None, values };
        encoder.leave_phrases();
        let children = vec![
            encoder.unsigned_child(&parsed.counts, most(&parsed.counts))?,
            encoder.child(&plain(literals.len(), Values::Bytes(&literals)))?,
            encoder.unsigned_child(&parsed.segments, most(&parsed.segments))?,
            encoder.child(&plain(parsed.phrases.len(), Values::Fixed(Fixed::U32, Lanes::L32(&parsed.phrases))))?,
            encoder.child_like(statistics, &plain(pieces.len(), Values::Bytes(&pieces)))?,
        ];
        Ok(Some(EncodedNode { encoding: self.id(), rows: column.rows, parameters, buffers: Vec::new(), children }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if *opening.physical != Physical::Bytes {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        }
        opening.shape(5, 0)?;
        opening.within_bounds(4)?;
        let (count_tag, segment_tag, firsts) = opening.parameters(|reader| {
            let tags = (reader.u8()?, reader.u8()?);
            Ok((tags.0, tags.1, EntryPoints::read(reader, opening.vectors())?))
        })?;
        let (count_type, segment_type) = (length_type(opening, count_tag)?, length_type(opening, segment_tag)?);
        let (phrases, pieces) = (opening.record.children[3].rows, opening.record.children[4].rows);
        // Shorter ones save nothing; so many of them would only take time.
        if (phrases as u64).saturating_mul(MIN_PHRASE_BYTES as u64) > opening.decoded_bytes {
            return Err(opening.corrupt(format!("{phrases} phrases exceed what the block declares")));
        }
        if pieces > TEXT_BYTES {
            return Err(opening.corrupt(format!("a text of {pieces} pieces")));
        }
        let mut firsts = firsts;
        firsts.push(phrases as u64);
        if firsts[0] != 0 || firsts.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(opening.corrupt(format!("entry points don't ascend from 0 to {phrases} phrases")));
        }
        let rows = opening.rows();
        Ok(Box::new(PhrasesNode {
            firsts: firsts.into_iter().map(|first| first as usize).collect(),
            count_type,
            counts: opening.child(0, &Physical::Fixed(count_type), rows)?,
            literals: opening.child(1, &Physical::Bytes, rows)?,
            segment_type,
            segments: opening.child(2, &Physical::Fixed(segment_type), phrases)?,
            phrases: opening.child(3, &Physical::Fixed(Fixed::U32), phrases)?,
            pieces,
            text: opening.child(4, &Physical::Bytes, pieces)?,
            decoded_text: OnceLock::new(),
            budget: opening.budget.clone(),
            decoded_bytes: opening.decoded_bytes,
        }))
    }
}

struct PhrasesNode {
    /// Number of each vector's first phrase, and of all phrases.
    firsts: Vec<usize>,
    count_type: Fixed,
    counts: Box<dyn Node>,
    literals: Box<dyn Node>,
    segment_type: Fixed,
    segments: Box<dyn Node>,
    phrases: Box<dyn Node>,
    pieces: usize,
    text: Box<dyn Node>,
    /// The text and some bytes more, decoded when first needed.
    decoded_text: OnceLock<Vec<u8>>,
    budget: Arc<Budget>,
    decoded_bytes: u64,
}

impl fmt::Debug for PhrasesNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = (&self.counts, &self.literals, &self.segments, &self.phrases, &self.text);
        f.debug_struct("PhrasesNode").field("children", &children).finish_non_exhaustive()
    }
}

fn corrupt(what: impl fmt::Display) -> Error {
    Error::corrupt("node", 0, format!("Phrases: {what}"))
}

/// Which rows are asked for.
enum Asked<'a> {
    Range(Range<usize>),
    Single(&'a [u32]),
}

impl Asked<'_> {
    /// Decodes from a child that has a value for each of them.
    fn of(&self, child: &dyn Node, physical: &Physical, body: &Body) -> Result<Decoded> {
        let mut out = Decoded::new(physical, BytesForm::Offsets32);
        match self {
            Asked::Range(rows) => child.decode(body, rows.clone(), &mut out)?,
            Asked::Single(rows) => child.get(body, rows, &mut out)?,
        }
        Ok(out)
    }

    /// As [`Self::of`], of unsigned lanes: those between are decoded with them where they are few.
    fn unsigned(&self, child: &dyn Node, fixed: Fixed, body: &Body) -> Result<Vec<u32>> {
        let Asked::Single(rows) = self else {
            return unsigned(self.of(child, &Physical::Fixed(fixed), body)?);
        };
        let mut lanes = Vec::with_capacity(rows.len());
        for near in by_grain(rows, NEAR_LANES) {
            let (low, high) = near.iter().fold((u32::MAX, 0), |(low, high), &row| (low.min(row), high.max(row)));
            if near.len() * FEW_BETWEEN <= (high - low) as usize {
                lanes.extend(unsigned(Asked::Single(near).of(child, &Physical::Fixed(fixed), body)?)?);
                continue;
            }
            let range = low as usize..high as usize + 1;
            let span = unsigned(Asked::Range(range).of(child, &Physical::Fixed(fixed), body)?)?;
            lanes.extend(near.iter().map(|&row| span[(row - low) as usize]));
        }
        Ok(lanes)
    }
}

/// So many lanes are looked at together, and decoded all where more than one of so many is asked for.
const NEAR_LANES: usize = 4 * VECTOR_ROWS;
const FEW_BETWEEN: usize = 16;

fn unsigned(decoded: Decoded) -> Result<Vec<u32>> {
    match decoded.values {
        DecodedValues::L8(lanes) => Ok(lanes.into_iter().map(u32::from).collect()),
        DecodedValues::L16(lanes) => Ok(lanes.into_iter().map(u32::from).collect()),
        DecodedValues::L32(lanes) => Ok(lanes),
        _ => Err(corrupt("lanes of more than 32 bits")),
    }
}

impl PhrasesNode {
    /// The text with [`COPY_BYTES`] more.
    fn text(&self, body: &Body) -> Result<&[u8]> {
        let decode = || {
            let decoded = decode_child(&*self.text, &Physical::Bytes, body, 0..self.pieces)?;
            let DecodedValues::Bytes(DecodedBytes::Offsets32(_, mut text)) = decoded.values else {
                return Err(corrupt("a text that isn't bytes"));
            };
            if text.len() > TEXT_BYTES {
                return Err(corrupt(format!("a text of {} bytes", text.len())));
            }
            text.resize(text.len() + COPY_BYTES, 0);
            Ok(text)
        };
        self.budget.keep_once(&self.decoded_text, decode, |text| text.len() as u64).map(Vec::as_slice)
    }

    /// Appends the strings asked for, which have these phrases.
    fn append(
        &self,
        body: &Body,
        asked: &Asked<'_>,
        counts: &[u32],
        phrases: &Asked<'_>,
        out: &mut Decoded,
    ) -> Result<()> {
        let literals = asked.of(&*self.literals, &Physical::Bytes, body)?;
        let DecodedValues::Bytes(DecodedBytes::Offsets32(literal_ends, mut literals)) = literals.values else {
            return Err(corrupt("literals that aren't bytes"));
        };
        literals.resize(literals.len() + COPY_BYTES, 0);
        let segments = phrases.unsigned(&*self.segments, self.segment_type, body)?;
        let phrases = phrases.unsigned(&*self.phrases, Fixed::U32, body)?;
        let strings = PhraseStrings {
            text: self.text(body)?,
            counts,
            literal_ends: &literal_ends,
            literals: &literals,
            segments: &segments,
            phrases: &phrases,
        };
        let bound = match asked {
            Asked::Range(_) => self.decoded_bytes,
            Asked::Single(rows) => bound_of_rows(rows, self.decoded_bytes),
        };
        let expanded = match bytes_mut(out)? {
            DecodedBytes::Offsets32(offsets, bytes) => strings.expand(bound, offsets, bytes),
            DecodedBytes::Offsets64(offsets, bytes) => strings.expand(bound, offsets, bytes),
            DecodedBytes::Views(views) => {
                let (mut ends, mut bytes) = (vec![0i32], Vec::new());
                strings.expand(bound, &mut ends, &mut bytes).and_then(|()| {
                    let lengths: Vec<u32> = ends.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect();
                    append_views(&lengths, &Bytes::from(bytes), views).map_err(|_| GatherError::OffsetOverflow)
                })
            }
        };
        expanded.map_err(misfit)?;
        out.extend_valid(counts.len());
        Ok(())
    }
}

impl PhrasesNode {
    /// Appends a bit for each string, set where it passes: as its phrases say, else together with its literals. Returns whether that pays:
    /// whether the literals of few were needed.
    fn sort(
        &self,
        body: &Body,
        rows: Range<usize>,
        (question, test): (&Question, &BytesTest),
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<bool> {
        let (counts, phrases) = locate(body, &*self.counts, self.count_type, &self.firsts, rows.clone())?;
        let phrases = Asked::Range(phrases);
        let segments = phrases.unsigned(&*self.segments, self.segment_type, body)?;
        let phrases = phrases.unsigned(&*self.phrases, Fixed::U32, body)?;
        let strings = PiecedStrings::new(without_room(self.text(body)?), &counts, &segments, &phrases);
        let mut sorted = strings.sort(test).map_err(misfit)?;
        self.sort_literals(body, rows.clone(), (question, &counts), work, &mut sorted)?;
        let unknown: Vec<u32> = (0..counts.len())
            .filter(|row| sorted.unknown[row / 64] >> (row % 64) & 1 == 1)
            .map(|row| (rows.start + row) as u32)
            .collect();
        if !unknown.is_empty() {
            let is_sparse = unknown.len() * FEW_BETWEEN < rows.len();
            let asked = if is_sparse { Asked::Single(&unknown) } else { Asked::Range(rows.clone()) };
            let literals = asked.of(&*self.literals, &Physical::Bytes, body)?;
            let DecodedValues::Bytes(DecodedBytes::Offsets32(ends, literals)) = literals.values else {
                return Err(corrupt("literals that aren't bytes"));
            };
            let mut next = 0..;
            let literals_of = |row: usize| {
                let index = if is_sparse { next.next().unwrap_or_default() } else { row };
                &literals[ends[index] as usize..ends[index + 1] as usize]
            };
            strings.settle(test, &mut sorted, literals_of).map_err(misfit)?;
        }
        work.compared_values += (rows.len() - unknown.len()) as u64;
        work.decoded_values += unknown.len() as u64;
        for (index, word) in sorted.passing.into_iter().enumerate() {
            let bits = (rows.len() - 64 * index).min(64);
            out.extend_word(word & u64::MAX >> (64 - bits), bits);
        }
        Ok(unknown.len() * FEW_UNKNOWN <= rows.len())
    }
}

impl PhrasesNode {
    /// Tells strings without phrases, which are their literals, if there are many.
    fn sort_literals(
        &self,
        body: &Body,
        rows: Range<usize>,
        (question, counts): (&Question, &[u32]),
        work: &mut FilterWork,
        sorted: &mut Sorted,
    ) -> Result<()> {
        let have_none = |counts: &[u32]| counts.iter().rev().fold(0, |word, &count| word << 1 | u64::from(count == 0));
        let literal: Vec<u64> = counts.chunks(64).map(have_none).collect();
        let unknown = literal.iter().zip(&sorted.unknown).map(|(literal, unknown)| (literal & unknown).count_ones());
        if unknown.sum::<u32>() as usize * FEW_BETWEEN <= rows.len() {
            return Ok(());
        }
        let mut found = BitBuffer::default();
        self.literals.filter(body, rows, question, work, &mut found)?;
        for (index, literal) in literal.into_iter().enumerate() {
            sorted.unknown[index] &= !literal;
            sorted.passing[index] = sorted.passing[index] & !literal | found.bits().word(64 * index) & literal;
        }
        Ok(())
    }
}

/// Where more than one of so many strings can't be told without its literals, it is quicker to put all of them together.
const FEW_UNKNOWN: usize = 10;

/// The text itself.
fn without_room(text: &[u8]) -> &[u8] {
    &text[..text.len() - COPY_BYTES]
}

fn misfit(error: GatherError) -> Error {
    match error {
        GatherError::BadCode(phrase) => corrupt(format!("phrase {phrase} leaves the text or its string")),
        GatherError::OffsetOverflow => Error::OffsetOverflow,
        _ => corrupt("strings exceed what the block declares"),
    }
}

impl Node for PhrasesNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let (counts, phrases) = locate(body, &*self.counts, self.count_type, &self.firsts, rows.clone())?;
        self.append(body, &Asked::Range(rows), &counts, &Asked::Range(phrases), out)
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let test = question.bytes_test();
        if let Some(test) = test.filter(|test| test.of_empty().is_none() && PiecedStrings::may_sort(test)) {
            let mut pays = true;
            for rows in tried(rows) {
                match pays {
                    true => pays = self.sort(body, rows, (question, test), work, out)?,
                    false => filter_decoded(self, body, rows, question, work, out)?,
                }
            }
            return Ok(());
        }
        let Some(empty_passes) = test.and_then(BytesTest::of_empty) else {
            return filter_decoded(self, body, rows, question, work, out);
        };
        // A phrase isn't empty: what has one passes if others than empty strings do, and what has none is its literals.
        let counts = Asked::Range(rows.clone()).unsigned(&*self.counts, self.count_type, body)?;
        let mut found = BitBuffer::default();
        self.literals.filter(body, rows, question, work, &mut found)?;
        for (piece, row) in counts.chunks(64).zip((0..).step_by(64)) {
            let have_phrases = piece.iter().rev().fold(0, |word, &count| word << 1 | u64::from(count > 0));
            let others = if empty_passes { 0 } else { u64::MAX };
            out.extend_word(found.bits().word(row) & !have_phrases | others & have_phrases, piece.len());
        }
        Ok(())
    }

    fn few(&self) -> usize {
        256
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let (mut counts, mut phrases) = (Vec::with_capacity(rows.len()), Vec::new());
        locate_each(body, &*self.counts, self.count_type, &self.firsts, rows, |range| {
            counts.push(range.len() as u32);
            phrases.extend(range.map(|phrase| phrase as u32));
            Ok(())
        })?;
        self.append(body, &Asked::Single(rows), &counts, &Asked::Single(&phrases), out)
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.counts, &*self.literals, &*self.segments, &*self.phrases, &*self.text]
    }

    fn describe(&self) -> String {
        format!("{} phrases", self.firsts.last().copied().unwrap_or(0))
    }
}
