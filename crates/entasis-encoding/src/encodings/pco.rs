//! Pco: numbers in the entropy-coded bins of pco. See *Pco* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 log2 of the vectors of a page │ entry points: byte at which each page begins │
//! buffer 0:   │ pco's header │ chunk metadata: bins │     buffer 1: │ page 0 │ page 1 │ … │
//! ```
//!
//! The format is that of the crate `pco`, in its wrapped form. Pages are decoded from their first value on, so that a row costs a page.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use pco::metadata::DeltaEncoding;
use pco::wrapped::{ChunkDecompressor, FileCompressor, FileDecompressor};
use pco::{ChunkConfig, DecompressorScratch, PagingSpec};

use super::Encoding;
use super::node::{Node, Opening, Recent, by_grain, grains, lanes_mut};
use super::strings::checked_starts;
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, LaidOut, Statistics};
use crate::error::{Error, Result};
use crate::values::{Decoded, LaneAccess, Values};
use crate::wire::EntryPoints;
use crate::{Fixed, Physical, VECTOR_ROWS};

pub(crate) struct Pco;

/// Fewer numbers than this don't pay for their bins.
const MIN_ROWS: usize = 64;
/// The grain of a node, and the most that it may be: 2³ vectors.
const PAGE_VECTORS_LOG: u8 = 3;
/// How many bins pco looks for, as the power of two. One more takes twice as long and saves 0.1 % of most columns.
const LEVEL: usize = 9;
/// The format's major version.
const MAJOR: u8 = 4;
/// Modes from this on aren't used: pco's dictionaries would be allocated before their length is held against anything.
const MODES: u8 = 4;
/// So far back do blocks look at most: a window is allocated before it is filled.
const MAX_WINDOW_LOG: u32 = 16;

impl Encoding for Pco {
    fn id(&self) -> u8 {
        25
    }

    fn name(&self) -> &'static str {
        "Pco"
    }

    fn is_heavy(&self) -> bool {
        true
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        statistics.lanes()?;
        if statistics.rows < MIN_ROWS || statistics.is_constant() {
            return None;
        }
        statistics.laid_out(lay_out).map(LaidOut::size_bytes)
    }

    fn encode(&self, statistics: &Statistics<'_>, _: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        if statistics.lanes().is_none() {
            return Ok(None);
        }
        let Some(LaidOut { parameters, buffers }) = statistics.laid_out(lay_out).cloned() else { return Ok(None) };
        let (encoding, rows) = (self.id(), statistics.rows);
        Ok(Some(EncodedNode { encoding, rows, parameters, buffers, children: Vec::new() }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        let Physical::Fixed(fixed) = opening.physical else {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        };
        with_number_of!(*fixed, N => open::<N>(opening), Err(opening.corrupt(format!("can't hold {}", opening.physical))))
    }
}

/// A number as pco knows it, and the lane that holds it.
trait Number: pco::data_types::Number {
    type Lane: LaneAccess;
    fn of(lane: Self::Lane) -> Self;
    fn lane(self) -> Self::Lane;
}

macro_rules! numbers {
    ($($number:ty, $lane:ty: $of:expr, $to:expr;)*) => {$(
        impl Number for $number {
            type Lane = $lane;

            #[inline(always)]
            fn of(lane: $lane) -> Self {
                ($of)(lane)
            }

            #[inline(always)]
            fn lane(self) -> $lane {
                ($to)(self)
            }
        }
    )*};
}

numbers! {
    u8, u8: |lane| lane, |number| number;
    u16, u16: |lane| lane, |number| number;
    u32, u32: |lane| lane, |number| number;
    u64, u64: |lane| lane, |number| number;
    i8, u8: u8::cast_signed, i8::cast_unsigned;
    i16, u16: u16::cast_signed, i16::cast_unsigned;
    i32, u32: u32::cast_signed, i32::cast_unsigned;
    i64, u64: u64::cast_signed, i64::cast_unsigned;
    half::f16, u16: half::f16::from_bits, half::f16::to_bits;
    f32, u32: f32::from_bits, f32::to_bits;
    f64, u64: f64::from_bits, f64::to_bits;
}

/// Runs `$body` with the type `$number` bound to pco's number of `$fixed`; `$otherwise` is the value where there is none.
macro_rules! with_number_of {
    ($fixed:expr, $number:ident => $body:expr, $otherwise:expr) => {
        with_number_of!(@ $fixed, $number, $body, $otherwise,
            U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, F32 f32, F64 f64)
    };
    (@ $fixed:expr, $number:ident, $body:expr, $otherwise:expr, $($tag:ident $type:ty),*) => {
        match $fixed {
            $(Fixed::$tag => {
                type $number = $type;
                $body
            })*
            _ => $otherwise,
        }
    };
}
use with_number_of;

/// The parameters and buffers of the column, if pco can hold it.
fn lay_out(statistics: &Statistics<'_>) -> Option<LaidOut> {
    let Values::Fixed(fixed, lanes) = &statistics.column.values else { return None };
    with_number_of!(*fixed, N => lay_out_lanes::<N>(LaneAccess::lent(lanes)?), None)
}

fn lay_out_lanes<N: Number>(lanes: &[N::Lane]) -> Option<LaidOut> {
    let numbers: Vec<N> = lanes.iter().map(|&lane| N::of(lane)).collect();
    let pages = numbers.chunks(VECTOR_ROWS << PAGE_VECTORS_LOG).map(<[N]>::len).collect();
    let config = ChunkConfig::default()
        .with_compression_level(LEVEL)
        .with_enable_8_bit(true)
        .with_paging_spec(PagingSpec::Exact(pages));
    let file = FileCompressor::default();
    let mut chunk = file.chunk_compressor(&numbers, &config).ok()?;
    let head = chunk.write_meta(file.write_header(Vec::new()).ok()?).ok()?;
    let (mut body, mut starts) = (Vec::new(), Vec::new());
    for page in 0..chunk.n_per_page().len() {
        starts.push(body.len() as u64);
        body = chunk.write_page(page, body).ok()?;
    }
    let mut parameters = vec![PAGE_VECTORS_LOG];
    EntryPoints::write(&starts, &mut parameters);
    Some(LaidOut { parameters, buffers: vec![head, body] })
}

fn open<N: Number>(opening: &Opening<'_>) -> Result<Box<dyn Node>> {
    opening.shape(0, 2)?;
    opening.within_bounds(size_of::<N::Lane>())?;
    let (page_vectors_log, starts) = opening.parameters(|reader| {
        let page_vectors_log = reader.u8()?;
        let pages = opening.vectors().div_ceil(1 << page_vectors_log.min(PAGE_VECTORS_LOG));
        Ok((page_vectors_log, EntryPoints::read(reader, pages)?))
    })?;
    if page_vectors_log > PAGE_VECTORS_LOG || opening.rows() == 0 {
        return Err(opening.corrupt(format!("pages of 2^{page_vectors_log} vectors for {} rows", opening.rows())));
    }
    let (pages, pages_bytes) = opening.buffer(1);
    let starts = checked_starts(opening, starts, pages_bytes)?;
    let page_rows = VECTOR_ROWS << page_vectors_log;
    Ok(Box::new(PcoNode::<N> {
        rows: opening.rows(),
        page_rows,
        head: opening.buffer(0),
        pages,
        starts,
        chunk: OnceLock::new(),
        recent: Recent::default(),
    }))
}

struct PcoNode<N: Number> {
    rows: usize,
    page_rows: usize,
    /// Buffer of header and chunk metadata, and its length.
    head: (usize, usize),
    /// Buffer of the pages, and where each of them begins and the last ends.
    pages: usize,
    starts: Vec<usize>,
    /// Bins and tables, kept where they take no more than the values.
    chunk: OnceLock<ChunkDecompressor<N>>,
    recent: Recent<Arc<Vec<N::Lane>>>,
}

impl<N: Number> fmt::Debug for PcoNode<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PcoNode").field("rows", &self.rows).field("page_rows", &self.page_rows).finish_non_exhaustive()
    }
}

fn corrupt(error: impl fmt::Display) -> Error {
    Error::corrupt("node", 0, format!("Pco: {error}"))
}

/// What a chunk's tables take, at most: a node and a bin for each state of its entropy coders.
fn tables_size_bytes<N: Number>(chunk: &ChunkDecompressor<N>) -> usize {
    const STATE_BYTES: usize = 40;
    let variables = &chunk.meta().per_latent_var;
    let coders = [variables.delta.as_ref(), Some(&variables.primary), variables.secondary.as_ref()];
    coders.into_iter().flatten().map(|coder| STATE_BYTES << coder.ans_size_log).sum()
}

impl<N: Number> PcoNode<N> {
    /// Bins and tables.
    fn read_chunk(&self, body: &Body) -> Result<ChunkDecompressor<N>> {
        let bytes = body.buffer(self.head.0, 0..self.head.1)?;
        if bytes.first() != Some(&MAJOR) {
            return Err(Error::Unsupported(format!("Pco of another format version than {MAJOR}")));
        }
        let (file, metadata) = FileDecompressor::new(bytes).map_err(corrupt)?;
        if metadata.first().is_none_or(|first| first & 0xF >= MODES) {
            return Err(corrupt("a mode that blocks don't use"));
        }
        let (chunk, rest) = file.chunk_decompressor::<N, _>(metadata).map_err(corrupt)?;
        let is_known = match &chunk.meta().delta_encoding {
            DeltaEncoding::NoOp | DeltaEncoding::Consecutive { .. } => true,
            DeltaEncoding::Lookback { config, .. } => config.window_n_log <= MAX_WINDOW_LOG,
            _ => false,
        };
        if !is_known || !rest.is_empty() {
            return Err(corrupt("differences that blocks don't use, or bytes behind the metadata"));
        }
        Ok(chunk)
    }

    /// Appends the values of a page to those of others.
    fn append_page(&self, body: &Body, page: usize, read: &mut Reading<N>, out: &mut Vec<N::Lane>) -> Result<()> {
        let Reading { chunk, scratch, numbers } = read;
        if self.chunk.get().is_none() && chunk.is_none() {
            let made = self.read_chunk(body)?;
            if tables_size_bytes(&made) <= self.rows * size_of::<N::Lane>() {
                self.chunk.get_or_init(|| made);
            } else {
                *chunk = Some(made);
            }
        }
        let Some(chunk) = self.chunk.get().or(chunk.as_ref()) else { return Err(corrupt("no metadata")) };
        let bytes = body.buffer(self.pages, self.starts[page]..self.starts[page + 1])?;
        let rows = self.page_rows.min(self.rows - page * self.page_rows);
        let mut reader = chunk.page_decompressor_with_scratch(bytes, rows, scratch).map_err(corrupt)?;
        numbers.resize(rows, N::of(N::Lane::default()));
        let progress = reader.read(numbers).map_err(corrupt)?;
        if progress.n_processed != rows || !progress.finished || !reader.into_src().is_empty() {
            return Err(corrupt("a page of another length"));
        }
        out.extend(numbers.iter().map(|number| number.lane()));
        Ok(())
    }

    /// The values of a page of which but a part is wanted.
    fn recent(&self, body: &Body, page: usize, read: &mut Reading<N>) -> Result<Arc<Vec<N::Lane>>> {
        self.recent.piece(page, || {
            let mut lanes = Vec::with_capacity(self.page_rows.min(self.rows));
            self.append_page(body, page, read, &mut lanes)?;
            Ok(Arc::new(lanes))
        })
    }
}

/// What decoding pages needs: memory that they share, and the chunk's tables where the node can't keep them.
struct Reading<N: Number> {
    chunk: Option<ChunkDecompressor<N>>,
    scratch: DecompressorScratch,
    numbers: Vec<N>,
}

impl<N: Number> Default for Reading<N> {
    fn default() -> Self {
        Self { chunk: None, scratch: DecompressorScratch::default(), numbers: Vec::new() }
    }
}

impl<N: Number> Node for PcoNode<N> {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let mut read = Reading::default();
        let lanes = lanes_mut::<N::Lane>(out)?;
        lanes.reserve(rows.len());
        let count = rows.len();
        for rows in grains(rows, self.page_rows) {
            let page = rows.start / self.page_rows;
            let first = page * self.page_rows;
            if rows.len() == self.page_rows.min(self.rows - first) {
                self.append_page(body, page, &mut read, lanes)?;
            } else {
                lanes.extend_from_slice(&self.recent(body, page, &mut read)?[rows.start - first..rows.end - first]);
            }
        }
        out.extend_valid(count);
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let mut read = Reading::default();
        let lanes = lanes_mut::<N::Lane>(out)?;
        for group in by_grain(rows, self.page_rows) {
            let page = self.recent(body, group[0] as usize / self.page_rows, &mut read)?;
            lanes.extend(group.iter().map(|&row| page[row as usize % self.page_rows]));
        }
        out.extend_valid(rows.len());
        Ok(())
    }

    fn grain_rows(&self) -> usize {
        self.page_rows
    }

    fn describe(&self) -> String {
        let bytes = self.starts.last().copied().unwrap_or(0) + self.head.1;
        format!("{:.2} bits per value", bytes as f64 * 8.0 / self.rows as f64)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::chooser::EncodeOptions;
    use crate::chooser::chunk::finished;
    use crate::random::Random;
    use crate::values::{BytesForm, Column, Lanes};
    use crate::{Block, Limits, Parts, Profile};

    const ROWS: usize = 20_000;

    /// Steps that add up, of doubles with few digits: differences and multiples.
    fn prices() -> Vec<u64> {
        let mut random = Random::new(71);
        let walk = (0..ROWS).scan(100_000i64, |cents, _| {
            *cents += random.below(9) as i64 - 4;
            Some((*cents as f64 / 100.0).to_bits())
        });
        walk.collect()
    }

    fn node(lanes: &[u64]) -> EncodedNode {
        let values = Values::Fixed(Fixed::F64, Lanes::L64(lanes));
        let column = Column { rows: lanes.len(), validity: None, values };
        Encoder::forcing(&EncodeOptions::default(), Pco.id()).root(&column).unwrap()
    }

    /// The first rows of the node's block.
    fn decoded(node: &EncodedNode, rows: Range<usize>) -> Result<Vec<u64>> {
        let physical = Physical::Fixed(Fixed::F64);
        let bytes = finished(node, &physical, 8 * node.rows as u64, false).bytes;
        let block = Block::open(Bytes::from(bytes), &Parts::new(), None, &Limits::default())?;
        let mut out = Decoded::new(&physical, BytesForm::Offsets32);
        block.decode(rows, &mut out)?;
        Ok(std::mem::take(lanes_mut::<u64>(&mut out)?))
    }

    #[test]
    fn only_the_profile_size_proposes_it() {
        let lanes = prices();
        let column = Column { rows: ROWS, validity: None, values: Values::Fixed(Fixed::F64, Lanes::L64(&lanes)) };
        for profile in Profile::ALL {
            let root = Encoder::new(&EncodeOptions::of(profile), None, None).root(&column).unwrap();
            let mut is_heavy = false;
            root.visit(&mut |node| is_heavy |= node.encoding == Pco.id());
            assert_eq!(is_heavy, profile == Profile::Size, "{profile}");
        }
    }

    #[test]
    fn pages_are_eight_vectors_and_no_more_is_decoded() {
        let lanes = prices();
        let mut node = node(&lanes);
        assert_eq!(decoded(&node, 0..ROWS).unwrap(), lanes);
        // The second page is lost; what lies beside it isn't.
        let page = VECTOR_ROWS << PAGE_VECTORS_LOG;
        let starts = EntryPoints::read(&mut crate::wire::Reader::new(&node.parameters[1..]), 3).unwrap();
        node.buffers[1][starts[1] as usize..starts[2] as usize].fill(0xFF);
        assert_eq!(decoded(&node, 5..page).unwrap(), lanes[5..page]);
        assert_eq!(decoded(&node, 2 * page..ROWS).unwrap(), lanes[2 * page..]);
        assert_ne!(decoded(&node, page..2 * page).ok().as_deref(), Some(&lanes[page..2 * page]));
    }

    #[test]
    fn what_would_take_memory_that_no_length_vouches_for_is_refused() {
        let lanes = prices();
        let refused = |head: &[u8], what: &str| {
            let mut node = node(&lanes);
            node.buffers[0] = head.to_vec();
            let error = decoded(&node, 0..ROWS).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        // A dictionary of 2^25 − 1 numbers.
        refused(&[4, 1, 0xF4, 0xFF, 0xFF, 0x1F, 0, 0], "a mode");
        // Lookback through 2^24 numbers: variant 2, window 2^(1 + 23), state 2^0, one bin for lookbacks of 1, none for the rest.
        let bits = [(0u64, 4), (2, 4), (23, 5), (0, 4), (0, 1), (0, 4), (1, 15), (1, 32), (0, 6), (0, 4), (0, 15)];
        let mut head = vec![4, 1];
        let (mut word, mut used) = (0u128, 0);
        for (value, width) in bits {
            word |= u128::from(value) << used;
            used += width;
        }
        head.extend_from_slice(&word.to_le_bytes()[..(used as usize).div_ceil(8)]);
        refused(&head, "differences that");
        refused(&[5, 0, 0, 0, 0], "another format version");
        refused(&[4], "Pco");
    }

    #[test]
    fn altered_bytes_give_values_or_errors() {
        let lanes = prices();
        let whole = node(&lanes[..3000]);
        let mut random = Random::new(72);
        let mut failed = 0;
        for round in 0..3000 {
            let mut node = whole.clone();
            let buffer = &mut node.buffers[round % 2];
            for _ in 0..1 + random.below(3) {
                let at = random.below(buffer.len());
                match random.below(3) {
                    0 => buffer[at] = random.next() as u8,
                    1 => buffer[at] ^= 1 << random.below(8),
                    _ => buffer.truncate(at.max(1)),
                }
            }
            match decoded(&node, 0..3000) {
                Ok(lanes) => assert_eq!(lanes.len(), 3000),
                Err(_) => failed += 1,
            }
        }
        assert!((300..3000).contains(&failed), "{failed} of 3000 were refused");
    }
}
