//! Prefix: byte strings as what they share with the one before, and the rest; for sorted strings, those of dictionaries above all.
//! See *Prefix* in `spec/encodings.md`.
//!
//! ```text
//! child 0: unsigned 8 bits: bytes shared with the string before, 0 in every 16th row       child 1: byte strings: the rest
//!
//! https://example.org/a      0 │ https://example.org/a │
//! https://example.org/beta  20 │ beta │
//! ```

use std::ops::Range;

use bytes::Bytes;

use super::bitpack::plan;
use super::fsst::Fsst;
use super::node::{Node, Opening, bound_of_rows, decode_child, pick_decoded, tried};
use super::strings::{append_concatenated, append_views, bytes_mut, extend_offsets32};
use super::{Effort, Encoding};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::statistics::LEAST_SYMBOL_RATIO;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::filter::{BytesTest, FilterWork, Question, filter_decoded};
use crate::values::{BitBuffer, BytesForm, Column, Decoded, DecodedBytes, DecodedValues, Lanes, Values};
use crate::{Fixed, Physical, simd};

pub(crate) struct Prefix;

/// Every so many rows a string stands alone, so that none needs more than those before it.
const RESTART_ROWS: usize = 16;
const MAX_SHARED_BYTES: usize = u8::MAX as usize;
/// The share of all bytes that has to be shared.
const MIN_SHARED: f64 = 0.15;
/// A symbol stands for no more bytes of what strings share, about.
const SYMBOL_BYTES: f64 = 6.0;
/// One string of so many in the sample shows how much shorter symbols make the rests.
const LOOKED_AT: usize = 3;

impl Encoding for Prefix {
    fn id(&self) -> u8 {
        24
    }

    fn name(&self) -> &'static str {
        "Prefix"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        let Values::Bytes(strings) = &statistics.column.values else { return None };
        let facts = statistics.strings()?;
        if !encoder.may_cascade() || statistics.rows < RESTART_ROWS {
            return None;
        }
        if share_little(strings) {
            return None;
        }
        let vectors = crate::chooser::sample_vectors(strings);
        let shared: Vec<Vec<u8>> = vectors.iter().map(|vector| shared_prefixes(vector)).collect();
        let shared_bytes: usize = shared.iter().flatten().map(|&shared| usize::from(shared)).sum();
        let bytes: usize = vectors.iter().flat_map(|vector| vector.iter()).map(|string| string.len()).sum();
        if (shared_bytes as f64) < bytes as f64 * MIN_SHARED || statistics.is_repetitive() {
            return None;
        }
        let scale = facts.total_bytes as f64 / bytes.max(1) as f64;
        let least_bytes = (bytes - shared_bytes) as f64 * LEAST_SYMBOL_RATIO * scale + facts.length_bytes();
        if least_bytes + encoder.price_bytes(self, statistics.rows, 0.0) > encoder.best_bytes() {
            return None;
        }
        let mut taken: f64 = shared.iter().map(|vector| plan(vector, false).size_bytes()).sum();
        // Where symbols for what is shared take more than its lengths, the rests' symbols are the better ones whatever they take.
        let rows: usize = vectors.iter().map(|vector| vector.len()).sum();
        let price_bytes = encoder.price_bytes(self, rows, 0.0) - encoder.price_bytes(&Fsst, rows, 0.0);
        if shared_bytes as f64 / SYMBOL_BYTES > taken + price_bytes {
            let rest = |row: usize| &strings[row][shared_with_last(strings, row)..];
            if let Some(ratio) = facts.rest_ratio(((bytes - shared_bytes) as f64 * scale) as usize, rest) {
                taken += (bytes - shared_bytes) as f64 * ratio.min(1.0);
                return Some(taken * scale + facts.length_bytes() + 40.0);
            }
        }
        let (mut looked_at, mut rest_bytes) = (0, 0);
        let rests = vectors.iter().flat_map(|vector| vector.iter()).zip(shared.iter().flatten());
        facts.symbol_table().with_encoder(|encoder| {
            for rest in rests.map(|(string, &shared)| &string[usize::from(shared)..]).step_by(LOOKED_AT) {
                looked_at += rest.len();
                rest_bytes += rest.len().min(encoder.encoded_size_bytes(rest));
            }
        });
        taken += (bytes - shared_bytes) as f64 * rest_bytes as f64 / looked_at.max(1) as f64;
        Some(taken * scale + facts.length_bytes() + 40.0)
    }

    fn effort(&self) -> Effort {
        Effort::More
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Bytes(strings) = &column.values else { return Ok(None) };
        let shared = shared_prefixes(strings);
        let rests: Vec<&[u8]> =
            strings.iter().zip(&shared).map(|(string, &shared)| &string[usize::from(shared)..]).collect();
        let plain = |values| Column { rows: column.rows, validity: None, values };
        let children = vec![
            encoder.child(&plain(Values::Fixed(Fixed::U8, Lanes::L8(&shared))))?,
            encoder.child_of_rests(statistics, &plain(Values::Bytes(&rests)))?,
        ];
        let (encoding, rows) = (self.id(), column.rows);
        Ok(Some(EncodedNode { encoding, rows, parameters: Vec::new(), buffers: Vec::new(), children }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if *opening.physical != Physical::Bytes {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        }
        opening.shape(2, 0)?;
        opening.within_bounds(4)?;
        opening.parameters(|_| Ok(()))?;
        let shared = opening.child(0, &Physical::Fixed(Fixed::U8), opening.rows())?;
        let rests = opening.child(1, &Physical::Bytes, opening.rows())?;
        Ok(Box::new(PrefixNode { shared, rests, decoded_bytes: opening.decoded_bytes }))
    }
}

/// How many leading bytes two strings have in common, of those that count.
pub(crate) fn shared_prefix(left: &[u8], right: &[u8]) -> usize {
    let most = left.len().min(right.len()).min(MAX_SHARED_BYTES);
    let (left, right) = (&left[..most], &right[..most]);
    let words = left.as_chunks::<8>().0.iter().zip(right.as_chunks::<8>().0);
    let whole = words.take_while(|(left, right)| left == right).count() * 8;
    whole + left[whole..].iter().zip(&right[whole..]).take_while(|(left, right)| left == right).count()
}

/// What each string shares with the one before, where that is allowed.
fn shared_prefixes(strings: &[&[u8]]) -> Vec<u8> {
    (0..strings.len()).map(|row| shared_with_last(strings, row) as u8).collect()
}

/// What a string shares with the one before, where that is allowed.
fn shared_with_last(strings: &[&[u8]], row: usize) -> usize {
    if row.is_multiple_of(RESTART_ROWS) { 0 } else { shared_prefix(strings[row - 1], strings[row]) }
}

/// True if a few strings share so little that all can hardly share enough.
fn share_little(strings: &[&[u8]]) -> bool {
    const FEW: usize = 256;
    // An odd step meets all places between strings that stand alone.
    let few = (1..strings.len()).step_by((strings.len() / FEW) | 1);
    let (shared, bytes) =
        few.fold((0, 0), |(shared, bytes), row| (shared + shared_with_last(strings, row), bytes + strings[row].len()));
    (shared * 3) as f64 <= bytes as f64 * MIN_SHARED
}

#[derive(Debug)]
struct PrefixNode {
    shared: Box<dyn Node>,
    rests: Box<dyn Node>,
    decoded_bytes: u64,
}

/// Where one of so many rows is asked for, nearly all are needed.
const DENSE_ROWS: usize = 8;

/// Where more than one of so many strings has to be decoded to be asked, all are.
const FEW_UNKNOWN: usize = 6;

fn corrupt(what: &str) -> Error {
    Error::corrupt("node", 0, format!("Prefix: {what}"))
}

/// Appends strings to `data` and their lengths to `lengths`; the first stands alone. `bound` is the most bytes that they may come to.
fn join(shared: &[u8], rests: &Rests, bound: u64, data: &mut Vec<u8>, lengths: &mut Vec<u32>) -> Result<()> {
    let strings = simd::PrefixStrings { shared, rest_ends: &rests.offsets, rests: &rests.data };
    strings.join(bound, data, lengths).map_err(|error| match error {
        simd::GatherError::BadCode(_) => corrupt("more bytes shared than the string before has"),
        simd::GatherError::OffsetOverflow => Error::OffsetOverflow,
        _ => corrupt("strings exceed what the block declares"),
    })
}

/// Decoded rests of strings, and some bytes more.
struct Rests {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Rests {
    fn of(decoded: Decoded) -> Result<Self> {
        match decoded.values {
            DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, mut data)) => {
                data.resize(data.len() + simd::COPY_BYTES, 0);
                Ok(Self { offsets, data })
            }
            _ => Err(corrupt("rests that aren't bytes")),
        }
    }
}

/// The shared lengths, held against the rule that the strings that are `alone` share nothing.
fn checked_shared(decoded: Decoded, mut alone: impl Iterator<Item = usize>) -> Result<Vec<u8>> {
    let DecodedValues::L8(shared) = decoded.values else { return Err(corrupt("lanes of another width")) };
    if alone.any(|index| shared.get(index).is_some_and(|&shared| shared > 0)) {
        return Err(corrupt("a string that should stand alone"));
    }
    Ok(shared)
}

impl PrefixNode {
    /// Appends a bit for each string, set where it passes. One that shares more with the string that begins its group than that has in
    /// common with what is asked for passes as that one does; the others are decoded. Returns whether that pays: whether these are few.
    fn sort(
        &self,
        body: &Body,
        rows: Range<usize>,
        (question, test): (&Question, &BytesTest),
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<bool> {
        let from = rows.start / RESTART_ROWS * RESTART_ROWS..rows.end;
        let shared = decode_child(&*self.shared, &Physical::Fixed(Fixed::U8), body, from.clone())?;
        let shared = checked_shared(shared, (0..from.len()).step_by(RESTART_ROWS))?;
        let firsts: Vec<u32> = from.clone().step_by(RESTART_ROWS).map(|row| row as u32).collect();
        let mut rests = Decoded::new(&Physical::Bytes, BytesForm::Offsets32);
        self.rests.get(body, &firsts, &mut rests)?;
        let rests = Rests::of(rests)?;
        let (mut passing, mut unknown) = (Vec::with_capacity(from.len()), Vec::new());
        for (group, ends) in shared.chunks(RESTART_ROWS).zip(rests.offsets.windows(2)) {
            let first = &rests.data[ends[0] as usize..ends[1] as usize];
            let (passes, common) = (test.holds(first), test.common_bytes(first).unwrap_or(0));
            let alike = 1 + group[1..].iter().take_while(|&&shared| usize::from(shared) > common).count();
            let start = from.start + passing.len();
            passing.resize(passing.len() + group.len(), passes);
            unknown.extend(
                (start + alike..start + group.len()).map(|row| row as u32).filter(|&row| row as usize >= rows.start),
            );
        }
        if unknown.len() * FEW_UNKNOWN > rows.len() {
            filter_decoded(self, body, rows, question, work, out)?;
            return Ok(false);
        }
        if !unknown.is_empty() {
            let (mut values, mut found) = (work.scratch(&Physical::Bytes), BitBuffer::default());
            self.get(body, &unknown, &mut values)?;
            question.answer(&values, &mut found)?;
            work.give_back(values);
            for (index, &row) in unknown.iter().enumerate() {
                passing[row as usize - from.start] = found.bits().get(index);
            }
        }
        work.decoded_values += unknown.len() as u64;
        work.compared_values += (rows.len() - unknown.len()) as u64;
        passing[rows.start - from.start..].iter().for_each(|&passes| out.push(passes));
        Ok(true)
    }
}

impl Node for PrefixNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let from = rows.start / RESTART_ROWS * RESTART_ROWS..rows.end;
        let shared = decode_child(&*self.shared, &Physical::Fixed(Fixed::U8), body, from.clone())?;
        let shared = checked_shared(shared, (0..from.len()).step_by(RESTART_ROWS))?;
        let rests = Rests::of(decode_child(&*self.rests, &Physical::Bytes, body, from.clone())?)?;
        let (mut lengths, lead) = (Vec::new(), rows.start - from.start);
        match bytes_mut(out)? {
            DecodedBytes::Offsets32(offsets, data) if lead == 0 => {
                join(&shared, &rests, self.decoded_bytes, data, &mut lengths)?;
                extend_offsets32(offsets, &lengths, data.len())?;
            }
            bytes => {
                let mut data = Vec::new();
                join(&shared, &rests, self.decoded_bytes, &mut data, &mut lengths)?;
                let skipped: usize = lengths.drain(..lead).map(|length| length as usize).sum();
                append_rows(bytes, &lengths, Bytes::from(data).slice(skipped..))?;
            }
        }
        out.extend_valid(rows.len());
        Ok(())
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let Some(test) = question.bytes_test().filter(|test| test.common_bytes(&[]).is_some()) else {
            return filter_decoded(self, body, rows, question, work, out);
        };
        let mut pays = true;
        for rows in tried(rows) {
            match pays {
                true => pays = self.sort(body, rows, (question, test), work, out)?,
                false => filter_decoded(self, body, rows, question, work, out)?,
            }
        }
        Ok(())
    }

    fn few(&self) -> usize {
        256
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        if let (Some(&first), Some(&last)) = (rows.first(), rows.last())
            && rows.is_sorted()
            && rows.len() * DENSE_ROWS > (last - first) as usize
        {
            return pick_decoded(self, body, first as usize..last as usize + 1, rows, out);
        }
        let restart_of = |row: u32| row / RESTART_ROWS as u32;
        let groups = || rows.chunk_by(|&left, &right| restart_of(left) == restart_of(right));
        let span = |group: &[u32]| {
            let last = group.iter().copied().max().unwrap_or(0);
            restart_of(last) * RESTART_ROWS as u32..last + 1
        };
        let needed: Vec<u32> = groups().flat_map(span).collect();
        let mut shared = Decoded::new(&Physical::Fixed(Fixed::U8), BytesForm::Offsets32);
        self.shared.get(body, &needed, &mut shared)?;
        let stands_alone = |&index: &usize| (needed[index] as usize).is_multiple_of(RESTART_ROWS);
        let shared = checked_shared(shared, (0..needed.len()).filter(stands_alone))?;
        let mut rests = Decoded::new(&Physical::Bytes, BytesForm::Offsets32);
        self.rests.get(body, &needed, &mut rests)?;
        let bound = bound_of_rows(rows, self.decoded_bytes).saturating_mul(RESTART_ROWS as u64);
        let (mut data, mut lengths) = (Vec::new(), Vec::new());
        join(&shared, &Rests::of(rests)?, bound, &mut data, &mut lengths)?;
        let starts: Vec<usize> =
            lengths.iter().scan(0, |start, &length| Some(std::mem::replace(start, *start + length as usize))).collect();
        let (mut first, mut asked, mut asked_lengths) = (0, Vec::new(), Vec::with_capacity(rows.len()));
        for group in groups() {
            for row in group {
                let index = first + *row as usize % RESTART_ROWS;
                asked.extend_from_slice(&data[starts[index]..starts[index] + lengths[index] as usize]);
                asked_lengths.push(lengths[index]);
            }
            first += span(group).len();
        }
        append_rows(bytes_mut(out)?, &asked_lengths, Bytes::from(asked))?;
        out.extend_valid(rows.len());
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.shared, &*self.rests]
    }
}

/// Appends strings that lie back to back in `data`, which views may keep.
pub(crate) fn append_rows(out: &mut DecodedBytes, lengths: &[u32], data: Bytes) -> Result<()> {
    if let DecodedBytes::Views(views) = out {
        return append_views(lengths, &data, views);
    }
    append_concatenated(out, lengths, &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chooser::EncodeOptions;
    use crate::chooser::chunk::{decoded_size_bytes, finished};
    use crate::{Block, ChunkEncoder, Comparison, Filter, FloatOrder, Limits, Parts, Predicate, Scalar, Selection};

    #[test]
    fn shared_bytes_are_those_of_the_definition() {
        for (left, right, shared) in
            [("", "", 0), ("a", "", 0), ("abc", "abd", 2), ("12345678", "12345678", 8), ("123456789x", "123456789y", 9)]
        {
            assert_eq!(shared_prefix(left.as_bytes(), right.as_bytes()), shared, "{left} {right}");
        }
        assert_eq!(shared_prefix(&[7; 300], &[7; 400]), 255);
    }

    #[test]
    fn groups_are_told_by_the_strings_that_begin_them() {
        let mut paths: Vec<String> =
            (0..9_000).map(|n| format!("/usr/share/{}/{}/{:x}", n % 7, n % 61, n * 2_654_435_761u64)).collect();
        paths.sort();
        // Some in other orders, in which strings share little or come in descending order.
        paths[3_000..3_300].reverse();
        paths[3_300..3_500].sort_by_key(|path| path.len() % 7);
        let strings: Vec<&[u8]> = paths.iter().map(String::as_bytes).collect();
        let column = Column { rows: strings.len(), validity: None, values: Values::Bytes(&strings) };
        let options = EncodeOptions::default();
        let node = Encoder::forcing(&options, Encoding::id(&Prefix)).root(&column).unwrap();
        let bytes = finished(&node, &Physical::Bytes, decoded_size_bytes(&column, false), false).bytes;
        let block = Block::open(bytes.into(), &Parts::new(), None, &Limits::default()).unwrap();
        let literal = |row: usize, end: &str| Scalar::Bytes([strings[row], end.as_bytes()].concat());
        let order = FloatOrder::Ieee;
        let mut asked = FilterWork::default();
        let mut rows_asked = 0;
        for (row, end) in [(0, ""), (4_321, ""), (4_321, "x"), (3_100, ""), (3_333, ""), (8_999, "")] {
            let shorter = Scalar::Bytes(strings[row][..14].to_vec());
            let predicates = [
                Predicate::Compare(Comparison::Equal, literal(row, end), order),
                Predicate::Compare(Comparison::NotEqual, literal(row, end), order),
                Predicate::Compare(Comparison::Less, literal(row, end), order),
                Predicate::Compare(Comparison::GreaterOrEqual, shorter.clone(), order),
                Predicate::Between { low: shorter, high: literal(row, end), negated: true, order },
                Predicate::In { values: vec![literal(row, end), literal(77, "")], negated: false, order },
            ];
            for predicate in predicates {
                for first in [0, 2, 5] {
                    let mut selection = Selection::all(strings.len());
                    (0..first).for_each(|vector| selection.retain(vector, |_| false));
                    let passes = |row: &usize| predicate.holds(Some(&Scalar::Bytes(strings[*row].to_vec())));
                    let expected: Vec<usize> = selection.iter().filter(passes).collect();
                    rows_asked += selection.count() as u64;
                    Filter::new(&predicate, &Physical::Bytes).apply(&block, &mut selection, &mut asked).unwrap();
                    assert_eq!(selection.iter().collect::<Vec<_>>(), expected, "{predicate:?}");
                }
            }
        }
        assert!(asked.decoded_values * 4 < rows_asked, "{} of {rows_asked}", asked.decoded_values);
    }

    #[test]
    fn sorted_paths_are_taken() {
        let mut paths: Vec<String> =
            (0..4000).map(|n| format!("/usr/share/{}/{}/{:x}.html", n % 7, n % 61, n * 2_654_435_761u64)).collect();
        paths.sort();
        let strings: Vec<&[u8]> = paths.iter().map(String::as_bytes).collect();
        let column = Column { rows: strings.len(), validity: None, values: Values::Bytes(&strings) };
        let mut chunk = ChunkEncoder::new(Physical::Bytes, EncodeOptions::default());
        let bytes = chunk.encode(&column, true, &mut |_| Ok(0)).unwrap().bytes;
        let block = Block::open(bytes.into(), &Parts::new(), None, &Limits::default()).unwrap();
        assert!(block.cascade().words().starts_with("Prefix("), "{}", block.cascade().words());
        let mut out = Decoded::new(&Physical::Bytes, BytesForm::Views);
        block.get(&[3999, 17, 16, 16, 31, 15], &mut out).unwrap();
        let DecodedValues::Bytes(found) = &out.values else { panic!("{out:?}") };
        for (index, row) in [3999, 17, 16, 16, 31, 15].into_iter().enumerate() {
            found.with(index, |string| assert_eq!(string, strings[row]));
        }
    }
}
