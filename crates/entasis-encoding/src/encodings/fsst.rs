//! Fsst: byte strings with frequent substrings of up to 8 bytes replaced by one-byte codes. See *Fsst* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 tag of the lengths' type │ entry points: code at which each vector begins │ v decoded bytes │
//! buffer 0:   │ symbol table │      buffer 1: │ codes of string 0 │ codes of string 1 │ … │
//! child 0:    lengths in codes
//! ```
//!
//! The algorithm (Boncz, Neumann, Leis, PVLDB 13, 2020) is in [`crate::fsst`].

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use super::node::{Node, Opening, bound_of_rows};
use super::strings::{
    Coded, Places, add_up, append_concatenated, append_views, bytes_mut, checked_starts, length_type, locate,
    locate_each, write_starts,
};
use super::{Effort, Encoding};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::block::parts::made_once;
use crate::chooser::statistics::{LEAST_SYMBOL_RATIO, SYMBOLS_MIN_BYTES};
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::filter::coded::Alphabet;
use crate::filter::{FilterWork, Question};
use crate::fsst::SymbolTable;
use crate::values::{BitBuffer, Decoded, DecodedBytes, Values};
use crate::wire::{EntryPoints, write_varint};
use crate::{Fixed, Physical};

pub(crate) struct Fsst;

/// Codes of single strings are expanded when they are so many.
const GATHERED_CODES: usize = 1 << 20;

impl Encoding for Fsst {
    fn id(&self) -> u8 {
        10
    }

    fn name(&self) -> &'static str {
        "Fsst"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        let strings = statistics.strings()?;
        if encoder.may_cascade() && statistics.is_repetitive() {
            return None;
        }
        if strings.total_bytes < SYMBOLS_MIN_BYTES || strings.are_best_as_rests() {
            return None;
        }
        if strings.total_bytes as f64 * LEAST_SYMBOL_RATIO + strings.length_bytes() > encoder.best_bytes() {
            return None;
        }
        let (ratio, table_bytes) = strings.symbols();
        Some(strings.total_bytes as f64 * ratio + table_bytes + strings.length_bytes() + 20.0)
    }

    fn effort(&self) -> Effort {
        Effort::Much
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Bytes(strings) = &column.values else { return Ok(None) };
        let Some(table) = statistics.strings().map(|strings| strings.symbol_table()) else { return Ok(None) };
        let total: usize = strings.iter().map(|string| string.len()).sum();
        let (mut codes, mut ends) = (Vec::with_capacity(total / 2), Vec::with_capacity(column.rows));
        table.with_encoder(|symbols| symbols.encode_many(strings, &mut codes, &mut ends));
        let lengths: Vec<u32> = ends.iter().scan(0, |start, &end| Some(end - std::mem::replace(start, end))).collect();
        let ends: Vec<u64> = ends.into_iter().map(u64::from).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut parameters = vec![Fixed::unsigned_for(u64::from(longest)) as u8];
        write_starts(&ends, &mut parameters);
        write_varint(total as u64, &mut parameters);
        let child = encoder.unsigned_child(&lengths, u64::from(longest))?;
        let mut table_bytes = Vec::new();
        table.to_bytes(&mut table_bytes);
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters,
            buffers: vec![table_bytes, codes],
            children: vec![child],
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if *opening.physical != Physical::Bytes {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        }
        opening.shape(1, 2)?;
        opening.within_bounds(4)?;
        let (tag, starts, total) = opening.parameters(|reader| {
            let tag = reader.u8()?;
            let starts = EntryPoints::read(reader, opening.vectors())?;
            Ok((tag, starts, reader.varint()?))
        })?;
        let (table, table_bytes) = opening.buffer(0);
        let (codes, codes_bytes) = opening.buffer(1);
        if total > opening.decoded_bytes {
            return Err(opening.corrupt(format!("{total} bytes exceed what the block declares")));
        }
        let starts = checked_starts(opening, starts, codes_bytes)?;
        let length_type = length_type(opening, tag)?;
        let lengths = opening.child(0, &Physical::Fixed(length_type), opening.rows())?;
        let symbols = OnceLock::new();
        Ok(Box::new(FsstNode { table, table_bytes, codes, starts, total, length_type, lengths, symbols }))
    }
}

struct FsstNode {
    table: usize,
    table_bytes: usize,
    codes: usize,
    starts: Vec<usize>,
    /// Bytes that all strings together decode to.
    total: u64,
    length_type: Fixed,
    lengths: Box<dyn Node>,
    /// Parsed when first needed.
    symbols: OnceLock<SymbolTable>,
}

impl fmt::Debug for FsstNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FsstNode").field("lengths", &self.lengths).finish_non_exhaustive()
    }
}

impl FsstNode {
    fn symbols(&self, body: &Body) -> Result<&SymbolTable> {
        let parse = || {
            let bytes = body.buffer(self.table, 0..self.table_bytes)?;
            SymbolTable::from_bytes(bytes).map_err(corrupt)
        };
        made_once(&self.symbols, parse)
    }
}

fn corrupt(error: impl fmt::Display) -> Error {
    Error::corrupt("node", 0, format!("Fsst: {error}"))
}

/// Appends strings of which each ends in `data` where `ends` says.
fn append_ended(out: &mut DecodedBytes, ends: &[i32], data: Vec<u8>) -> Result<()> {
    let lengths: Vec<u32> =
        ends.iter().scan(0, |start, &end| Some((end - std::mem::replace(start, end)) as u32)).collect();
    match out {
        DecodedBytes::Views(views) => append_views(&lengths, &Bytes::from(data), views),
        _ => append_concatenated(out, &lengths, &data),
    }
}

impl Node for FsstNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let (mut lengths, range) = locate(body, &*self.lengths, self.length_type, &self.starts, rows)?;
        let symbols = self.symbols(body)?;
        let codes = body.buffer(self.codes, range)?;
        let bound = usize::try_from(self.total).unwrap_or(usize::MAX);
        add_up(&mut lengths);
        let encoded_ends = lengths;
        let bytes = bytes_mut(out)?;
        if let DecodedBytes::Offsets32(offsets, data) = bytes {
            if i32::try_from(data.len() as u64 + self.total).is_err() {
                return Err(Error::OffsetOverflow);
            }
            symbols.decode_many(codes, &encoded_ends, data, offsets, bound).map_err(corrupt)?;
        } else {
            let (mut data, mut ends) = (Vec::new(), Vec::with_capacity(encoded_ends.len()));
            symbols.decode_many(codes, &encoded_ends, &mut data, &mut ends, bound).map_err(corrupt)?;
            append_ended(bytes, &ends, data)?;
        }
        out.extend_valid(encoded_ends.len());
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
        let alphabet = Alphabet::Symbols(self.symbols(body)?);
        let bound = usize::try_from(self.total).unwrap_or(usize::MAX);
        let coded = Coded { places, buffer: self.codes, alphabet, limit_bytes: bound };
        coded.filter(self, body, rows, question, work, out)
    }

    fn few(&self) -> usize {
        256
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let symbols = self.symbols(body)?;
        let mut left = usize::try_from(bound_of_rows(rows, self.total)).unwrap_or(usize::MAX);
        let bytes = bytes_mut(out)?;
        let (mut codes, mut encoded_ends) = (Vec::new(), Vec::new());
        let mut expand = |codes: &mut Vec<u8>, encoded_ends: &mut Vec<u32>| {
            let (mut data, mut ends) = (Vec::new(), Vec::with_capacity(encoded_ends.len()));
            symbols.decode_many(codes, encoded_ends, &mut data, &mut ends, left).map_err(corrupt)?;
            left -= data.len();
            codes.clear();
            encoded_ends.clear();
            append_ended(bytes, &ends, data)
        };
        locate_each(body, &*self.lengths, self.length_type, &self.starts, rows, |range| {
            codes.extend_from_slice(body.buffer(self.codes, range)?);
            encoded_ends.push(codes.len() as u32);
            if codes.len() >= GATHERED_CODES { expand(&mut codes, &mut encoded_ends) } else { Ok(()) }
        })?;
        expand(&mut codes, &mut encoded_ends)?;
        out.extend_valid(rows.len());
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.lengths]
    }

    fn describe(&self) -> String {
        let codes = self.starts.last().copied().unwrap_or(0);
        format!("{:.2} bytes per code", self.total as f64 / codes.max(1) as f64)
    }
}
