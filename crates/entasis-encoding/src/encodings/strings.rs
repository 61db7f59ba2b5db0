//! Strings: byte strings back to back, with their lengths as a child. See *Strings* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 tag of the lengths' type │ entry points: byte at which each vector begins │
//! buffer 0:   │ string 0 │ string 1 │ … │       child 0: lengths in bytes │
//! ```
//!
//! This file also holds what all encodings of byte strings share: appending to [`DecodedBytes`] in each of its forms.

use std::ops::Range;

use bytes::Bytes;

use super::Encoding;
use super::node::{Node, Opening, by_vector, decode_unsigned};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::filter::coded::{Alphabet, CodedSearch, CodedStrings};
use crate::filter::{FilterWork, Question, filter_decoded};
use crate::fsst::SymbolError;
use crate::values::{BitBuffer, BytesForm, Decoded, DecodedBytes, DecodedValues, Values};
use crate::views::{INLINE_BYTES, Views, view_of};
use crate::wire::EntryPoints;
use crate::{Fixed, Physical, VECTOR_ROWS, simd};

pub(crate) struct Strings;

impl Encoding for Strings {
    fn id(&self) -> u8 {
        11
    }

    fn name(&self) -> &'static str {
        "Strings"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        let strings = statistics.strings()?;
        Some(strings.total_bytes as f64 + strings.length_bytes() + 12.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Bytes(strings) = &column.values else { return Ok(None) };
        let buffer = strings.concat();
        let mut ends = Vec::with_capacity(strings.len());
        let mut end = 0u64;
        for string in strings.iter() {
            end += string.len() as u64;
            ends.push(end);
        }
        let lengths: Vec<u32> = strings.iter().map(|string| string.len() as u32).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut parameters = vec![Fixed::unsigned_for(u64::from(longest)) as u8];
        write_starts(&ends, &mut parameters);
        let child = encoder.unsigned_child(&lengths, u64::from(longest))?;
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters,
            buffers: vec![buffer],
            children: vec![child],
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if *opening.physical != Physical::Bytes {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        }
        opening.shape(1, 1)?;
        opening.within_bounds(4)?;
        let (tag, starts) = opening.parameters(|reader| {
            let tag = reader.u8()?;
            Ok((tag, EntryPoints::read(reader, opening.vectors())?))
        })?;
        let (buffer, length) = opening.buffer(0);
        if length as u64 > opening.decoded_bytes {
            return Err(opening.corrupt(format!("{length} bytes exceed what the block declares")));
        }
        let starts = checked_starts(opening, starts, length)?;
        let length_type = length_type(opening, tag)?;
        let lengths = opening.child(0, &Physical::Fixed(length_type), opening.rows())?;
        Ok(Box::new(StringsNode { buffer, starts, length_type, lengths }))
    }
}

/// Writes where each vector begins, given where each string ends.
pub(crate) fn write_starts(ends: &[u64], out: &mut Vec<u8>) {
    let starts = (0..ends.len()).step_by(VECTOR_ROWS).map(|row| if row == 0 { 0 } else { ends[row - 1] });
    EntryPoints::write(&starts.collect::<Vec<_>>(), out);
}

/// The starts of all vectors and the end of the last, checked to ascend from 0 to `length`.
pub(crate) fn checked_starts(opening: &Opening<'_>, mut starts: Vec<u64>, length: usize) -> Result<Vec<usize>> {
    starts.push(length as u64);
    if starts[0] != 0 || starts.windows(2).any(|pair| pair[0] > pair[1]) {
        return Err(opening.corrupt("entry points don't ascend from 0 to the buffer's end"));
    }
    Ok(starts.into_iter().map(|start| start as usize).collect())
}

/// The unsigned type of at most 32 bits behind a tag.
pub(crate) fn length_type(opening: &Opening<'_>, tag: u8) -> Result<Fixed> {
    match tag {
        2 => Ok(Fixed::U8),
        3 => Ok(Fixed::U16),
        4 => Ok(Fixed::U32),
        _ => Err(opening.corrupt(format!("tag {tag} of an unsigned type"))),
    }
}

/// Lengths of `rows`, and where their strings lie in the buffer that `starts` describes. Lengths that don't add up to the
/// entry points are refused, so that every way to a row sees the same bytes.
pub(crate) fn locate(
    body: &Body,
    lengths: &dyn Node,
    length_type: Fixed,
    starts: &[usize],
    rows: Range<usize>,
) -> Result<(Vec<u32>, Range<usize>)> {
    if rows.is_empty() {
        return Ok((Vec::new(), 0..0));
    }
    let first = rows.start / VECTOR_ROWS;
    let mut lengths = decode_unsigned(lengths, length_type, body, first * VECTOR_ROWS..rows.end)?;
    let skipped = rows.start - first * VECTOR_ROWS;
    let sum = |lengths: &[u32]| lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
    let start = starts[first] as u64 + sum(&lengths[..skipped]);
    let mut end = starts[first] as u64;
    for (next, lengths) in (first + 1..).zip(lengths.chunks(VECTOR_ROWS)) {
        end += sum(lengths);
        let vector_end = starts[next] as u64;
        if end > vector_end || (end < vector_end && lengths.len() == VECTOR_ROWS) {
            return Err(beside_vector(end, vector_end));
        }
    }
    lengths.drain(..skipped);
    Ok((lengths, start as usize..end as usize))
}

/// Calls `visit` with the place of each of `rows` in the buffer that `starts` describes. Lengths of a vector are decoded
/// once for neighbours, and held against the entry points as in [`locate`].
pub(crate) fn locate_each(
    body: &Body,
    lengths: &dyn Node,
    length_type: Fixed,
    starts: &[usize],
    rows: &[u32],
    mut visit: impl FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    let mut decoded = Decoded::new(&Physical::Fixed(length_type), BytesForm::Offsets32);
    for group in by_vector(rows) {
        let vector = group[0] as usize / VECTOR_ROWS;
        let first = vector * VECTOR_ROWS;
        let last = group.iter().fold(first, |last, &row| last.max(row as usize));
        decoded.clear();
        lengths.decode(body, first..last + 1, &mut decoded)?;
        let place = starts[vector]..starts[vector + 1];
        let indices = group.iter().map(|&row| row as usize - first);
        // Lengths of a vector that have 16 bits can be summed in 32.
        match &decoded.values {
            DecodedValues::L8(lengths) => {
                let sum = |lengths: &[u8]| lengths.iter().map(|&length| u32::from(length)).sum::<u32>() as usize;
                place_each(lengths, sum, place, indices, &mut visit)?;
            }
            DecodedValues::L16(lengths) => {
                let sum = |lengths: &[u16]| lengths.iter().map(|&length| u32::from(length)).sum::<u32>() as usize;
                place_each(lengths, sum, place, indices, &mut visit)?;
            }
            DecodedValues::L32(lengths) => {
                let sum = |lengths: &[u32]| lengths.iter().map(|&length| u64::from(length)).sum::<u64>() as usize;
                place_each(lengths, sum, place, indices, &mut visit)?;
            }
            _ => return Err(Error::InvalidArgument("lanes of more than 32 bits".into())),
        }
    }
    Ok(())
}

/// Calls `visit` with the places of strings of one vector, which lies at `vector` and has these lengths.
fn place_each<T: Copy + Into<u32>>(
    lengths: &[T],
    sum: impl Fn(&[T]) -> usize,
    vector: Range<usize>,
    indices: impl Iterator<Item = usize>,
    visit: &mut impl FnMut(Range<usize>) -> Result<()>,
) -> Result<()> {
    let (mut known, mut start) = (0, vector.start);
    for index in indices {
        if index < known {
            (known, start) = (0, vector.start);
        }
        start += sum(&lengths[known..index]);
        known = index;
        let end = start + lengths[index].into() as usize;
        if end > vector.end {
            return Err(beside_vector(end as u64, vector.end as u64));
        }
        visit(start..end)?;
    }
    Ok(())
}

/// Makes lengths the places where strings end that lie back to back.
pub(crate) fn add_up(lengths: &mut [u32]) {
    let first = lengths.first().copied().unwrap_or(0);
    simd::prefix_sum(first, lengths);
}

/// What tells where strings lie that are back to back.
#[derive(Clone, Copy)]
pub(crate) struct Places<'a> {
    pub lengths: &'a dyn Node,
    pub length_type: Fixed,
    /// Of each vector, and where the last one ends.
    pub starts: &'a [usize],
}

/// Strings back to back in a buffer, as they are or encoded by symbols, for filters.
pub(crate) struct Coded<'a> {
    pub places: Places<'a>,
    pub buffer: usize,
    pub alphabet: Alphabet<'a>,
    /// All strings decode to no more.
    pub limit_bytes: usize,
}

/// So many rows are filtered at a time: their bytes stay in the processor's nearest caches.
const FILTERED_ROWS: usize = 2 * VECTOR_ROWS;

impl Coded<'_> {
    /// What `node`, of which these are the strings, answers: from their codes if that is quicker than to decode them.
    pub fn filter<N: Node>(
        &self,
        node: &N,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let Some(test) = question.bytes_test() else { return filter_decoded(node, body, rows, question, work, out) };
        let corrupt = |error: SymbolError| Error::corrupt("node", 0, error.to_string());
        let (grain, mut next) = (node.grain_rows(), rows.start);
        while next < rows.end {
            // The first vector shows whether the search pays.
            let size = if next == rows.start { grain } else { grain.max(FILTERED_ROWS) };
            let piece = next..rows.end.min((next / grain * grain).saturating_add(size));
            next = piece.end;
            let Places { lengths, length_type, starts } = self.places;
            let (mut ends, range) = locate(body, lengths, length_type, starts, piece.clone())?;
            if u32::try_from(range.len()).is_err() {
                return Err(corrupt(SymbolError::Ends));
            }
            add_up(&mut ends);
            let codes = body.buffer(self.buffer, range)?;
            let strings = CodedStrings { alphabet: self.alphabet, codes, ends: &ends };
            let Some(mut search) = work.search(node, || CodedSearch::new(test, &strings)) else {
                work.give_back_search(node, None);
                return filter_decoded(node, body, piece.start..rows.end, question, work, out);
            };
            let decoded = search.answer(test, &strings, self.limit_bytes, out).map_err(corrupt)?;
            work.decoded_values += decoded as u64;
            work.compared_values += (piece.len() - decoded) as u64;
            work.give_back_search(node, (decoded <= piece.len() / 2).then_some(search));
        }
        Ok(())
    }
}

/// The error of lengths that don't add up to their vector.
fn beside_vector(end: u64, vector_end: u64) -> Error {
    Error::corrupt("node", 0, format!("lengths add up to {end} in a vector that ends at {vector_end}"))
}

/// Single strings on their way into an output: joined, so that views share buffers.
#[derive(Default)]
pub(crate) struct Gathered {
    lengths: Vec<u32>,
    data: Vec<u8>,
}

/// So many bytes make a buffer of their own: views can't point far behind it.
const GATHERED_BYTES: usize = 64 << 20;

impl Gathered {
    /// Adds the string that `append` appends.
    pub fn push(&mut self, out: &mut DecodedBytes, append: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let before = self.data.len();
        append(&mut self.data)?;
        self.lengths.push((self.data.len() - before) as u32);
        if self.data.len() >= GATHERED_BYTES { self.flush(out) } else { Ok(()) }
    }

    /// Appends all strings to the output.
    pub fn flush(&mut self, out: &mut DecodedBytes) -> Result<()> {
        let (lengths, data) = (std::mem::take(&mut self.lengths), std::mem::take(&mut self.data));
        if let DecodedBytes::Views(views) = out {
            return append_views(&lengths, &Bytes::from(data), views);
        }
        append_concatenated(out, &lengths, &data)
    }
}

#[derive(Debug)]
struct StringsNode {
    buffer: usize,
    starts: Vec<usize>,
    length_type: Fixed,
    lengths: Box<dyn Node>,
}

impl Node for StringsNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let (lengths, range) = locate(body, &*self.lengths, self.length_type, &self.starts, rows)?;
        let bytes = bytes_mut(out)?;
        match bytes {
            DecodedBytes::Views(views) => {
                append_views(&lengths, &body.lend(self.buffer, range)?, views)?;
            }
            _ => append_concatenated(bytes, &lengths, body.buffer(self.buffer, range)?)?,
        }
        out.extend_valid(lengths.len());
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
        let places = Places { lengths: &*self.lengths, length_type: self.length_type, starts: &self.starts };
        let coded = Coded { places, buffer: self.buffer, alphabet: Alphabet::Bytes, limit_bytes: usize::MAX };
        coded.filter(self, body, rows, question, work, out)
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let (bytes, mut gathered) = (bytes_mut(out)?, Gathered::default());
        locate_each(body, &*self.lengths, self.length_type, &self.starts, rows, |range| {
            let string = body.buffer(self.buffer, range)?;
            gathered.push(bytes, |data| {
                data.extend_from_slice(string);
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
}

/// The byte strings of `out`, which the caller says are such.
pub(crate) fn bytes_mut(out: &mut Decoded) -> Result<&mut DecodedBytes> {
    match &mut out.values {
        DecodedValues::Bytes(bytes) => Ok(bytes),
        _ => Err(not_bytes()),
    }
}

pub(crate) fn not_bytes() -> Error {
    Error::InvalidArgument("output of another physical type".into())
}

/// Appends strings that lie back to back in `data`; the lengths sum to its length.
pub(crate) fn append_concatenated(out: &mut DecodedBytes, lengths: &[u32], data: &[u8]) -> Result<()> {
    match out {
        DecodedBytes::Offsets32(offsets, bytes) => {
            bytes.extend_from_slice(data);
            extend_offsets32(offsets, lengths, bytes.len())
        }
        DecodedBytes::Offsets64(offsets, bytes) => {
            bytes.extend_from_slice(data);
            let mut end = offsets.last().copied().unwrap_or(0);
            offsets.extend(lengths.iter().map(|&length| {
                end += i64::from(length);
                end
            }));
            Ok(())
        }
        DecodedBytes::Views(views) => append_views(lengths, &Bytes::copy_from_slice(data), views),
    }
}

/// Appends offsets for `lengths`, after which the bytes end at `total`.
pub(crate) fn extend_offsets32(offsets: &mut Vec<i32>, lengths: &[u32], total: usize) -> Result<()> {
    if i32::try_from(total).is_err() {
        return Err(Error::OffsetOverflow);
    }
    let mut end = offsets.last().copied().unwrap_or(0);
    offsets.extend(lengths.iter().map(|&length| {
        end = end.wrapping_add(length as i32);
        end
    }));
    Ok(())
}

/// Appends views of strings that lie back to back in `data`, which becomes a buffer of the output if any is long. Views can't point
/// beyond 4 GiB of it.
pub(crate) fn append_views(lengths: &[u32], data: &Bytes, out: &mut Views) -> Result<()> {
    if u32::try_from(data.len()).is_err() {
        return Err(Error::OffsetOverflow);
    }
    let (views, buffers) = out.parts_mut();
    let buffer = buffers.len() as u32;
    let mut long = false;
    let mut start = 0usize;
    views.extend(lengths.iter().map(|&length| {
        let string = &data[start..start + length as usize];
        long |= string.len() > INLINE_BYTES;
        let view = view_of(string, buffer, start as u32);
        start += length as usize;
        view
    }));
    if long {
        buffers.push(data.clone());
    }
    Ok(())
}

/// Appends `rows` times the same string.
pub(crate) fn extend_repeated(out: &mut DecodedBytes, string: &[u8], rows: usize) -> Result<()> {
    match out {
        DecodedBytes::Views(out) => {
            let (views, buffers) = out.parts_mut();
            let view = view_of(string, buffers.len() as u32, 0);
            views.resize(views.len() + rows, view);
            if string.len() > INLINE_BYTES && rows > 0 {
                buffers.push(Bytes::copy_from_slice(string));
            }
        }
        DecodedBytes::Offsets32(offsets, bytes) => {
            let end = bytes.len() as u64 + string.len() as u64 * rows as u64;
            if i32::try_from(end).is_err() {
                return Err(Error::OffsetOverflow);
            }
            let start = bytes.len();
            offsets.extend((1..=rows).map(|row| (start + row * string.len()) as i32));
            extend_copies(bytes, string, rows);
        }
        DecodedBytes::Offsets64(offsets, bytes) => {
            let start = bytes.len();
            offsets.extend((1..=rows).map(|row| (start + row * string.len()) as i64));
            extend_copies(bytes, string, rows);
        }
    }
    Ok(())
}

/// Appends `count` copies of `string`: what is there already is copied again, so that the copies are few and long.
fn extend_copies(bytes: &mut Vec<u8>, string: &[u8], count: usize) {
    let start = bytes.len();
    let end = start + string.len() * count;
    bytes.reserve(end - start);
    if count > 0 {
        bytes.extend_from_slice(string);
    }
    while bytes.len() < end {
        let more = (bytes.len() - start).min(end - bytes.len());
        bytes.extend_from_within(start..start + more);
    }
}

impl DecodedBytes {
    /// Number of strings.
    pub fn len(&self) -> usize {
        match self {
            DecodedBytes::Offsets32(offsets, _) => offsets.len() - 1,
            DecodedBytes::Offsets64(offsets, _) => offsets.len() - 1,
            DecodedBytes::Views(views) => views.len(),
        }
    }

    /// True without strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` with string `index`. Panics if there is no such string.
    pub fn with<R>(&self, index: usize, visit: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            DecodedBytes::Offsets32(offsets, bytes) => {
                visit(&bytes[offsets[index] as usize..offsets[index + 1] as usize])
            }
            DecodedBytes::Offsets64(offsets, bytes) => {
                visit(&bytes[offsets[index] as usize..offsets[index + 1] as usize])
            }
            DecodedBytes::Views(views) => visit(views.get(index, &mut [0; 16])),
        }
    }
}
