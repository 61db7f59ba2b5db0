//! Dictionary: distinct values once, and a code per row. See *Dictionary* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 flags: bit 0 shared │ if shared: v part, v values needed, u64 digest of those │
//! child 0: codes, unsigned lanes that fit the number of values     child 1, unless shared: the values
//! ```

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::node::{Node, Opening, bound_of_rows, grains, lanes_mut};
use super::run::{end_bits, living_in_runs};
use super::singles::{Singles, most_living};
use super::strings::{append_concatenated, bytes_mut};
use super::{Effort, Encoding};
use crate::aggregate::{Living, Reduction, aggregate_decoded};
use crate::block::body::Body;
use crate::block::bounds::Budget;
use crate::block::head::EncodedNode;
use crate::block::parts::{Part, string_table};
use crate::chooser::distinct::Distinct;
use crate::chooser::statistics::{HARDLY_NARROWER_BITS, most_distinct};
use crate::chooser::{Encoder, Statistics, sorted::sorted};
use crate::error::{Error, Result};
use crate::filter::{AskCount, DECODED_ROWS, FilterWork, Question};
use crate::simd::StringTable;
use crate::values::{BitBuffer, BytesForm, Column, Decoded, DecodedBytes, DecodedValues, LaneAccess, Values};
use crate::views::Views;
use crate::wire::write_varint;
use crate::{Fixed, Physical, VECTOR_ROWS, simd, with_decoded_lanes, with_lane_of};

pub(crate) struct Dictionary;

const SHARED: u8 = 1;
/// What nodes take beside codes and values, about.
const NODE_BYTES: f64 = 40.0;
/// The share of the codes' bytes below which it isn't asked how much less the values take than by themselves.
const LITTLE_SHARE: f64 = 0.01;

/// The most up to `limit` for which `fits` holds, as it does for all that are fewer; 0 where it doesn't hold for 1.
fn most_that(fits: impl Fn(usize) -> bool, limit: usize) -> usize {
    let (mut most, mut too_many) = (0, limit + 1);
    while most + 1 < too_many {
        let middle = most.midpoint(too_many);
        if fits(middle) { most = middle } else { too_many = middle }
    }
    most
}

/// Bytes that codes for so many values take, about: packed, as runs, or without those of the most frequent value.
fn code_bytes(statistics: &Statistics<'_>, encoder: &Encoder<'_>, distinct: usize) -> Option<f64> {
    let (rows, runs) = (statistics.rows as f64, statistics.run_count()?);
    let code_bits = f64::from(usize::BITS - distinct.saturating_sub(1).leading_zeros());
    let vector_bytes = 2.0 * (rows / VECTOR_ROWS as f64).ceil();
    let packed = rows * code_bits / 8.0 + vector_bytes;
    if !encoder.may_cascade_below(1) {
        return Some(packed);
    }
    let end_bits = end_bits(statistics.rows, runs, encoder.may_cascade_below(2));
    let in_runs = runs as f64 * (code_bits + end_bits) / 8.0 + 2.0 * vector_bytes + 24.0;
    let sparse =
        statistics.frequent().map_or(packed, |frequent| frequent.which_bytes + frequent.other_rows * code_bits / 8.0);
    Some(packed.min(in_runs).min(sparse))
}

impl Encoding for Dictionary {
    fn id(&self) -> u8 {
        6
    }

    fn name(&self) -> &'static str {
        "Dictionary"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        if !encoder.may_cascade() {
            return None;
        }
        // Before all lanes are told apart: how many there may be, and whether a sample says that there are more.
        if let Some(lanes) = statistics.lanes() {
            let value_bytes = if encoder.shares_values() { 0.0 } else { lanes.value_bits() / 8.0 };
            let room_bytes = encoder.best_bytes() - encoder.price_bytes(self, statistics.rows, 0.0) - NODE_BYTES;
            let fits = |distinct: usize| {
                let code_bytes = code_bytes(statistics, encoder, distinct);
                code_bytes.is_some_and(|code_bytes| code_bytes + distinct as f64 * value_bytes <= room_bytes)
            };
            if !statistics.has_distinct_at_most(most_that(fits, most_distinct(statistics.rows))) {
                return None;
            }
        }
        let values = statistics.distinct_values()?;
        let distinct = values.first_rows.len();
        let fresh = encoder.fresh_values(statistics);
        let code_bits = f64::from(usize::BITS - distinct.saturating_sub(1).leading_zeros());
        let code_bytes = code_bytes(statistics, encoder, distinct)?;
        let stored = fresh.unwrap_or(distinct) as f64;
        // Where hardly a value isn't shared, it doesn't matter what values take.
        let most_bytes = stored * statistics.most_value_bytes();
        let is_little = most_bytes <= code_bytes * LITTLE_SHARE;
        let value_bytes = match (statistics.lanes(), statistics.strings()) {
            // Codes no narrower than the values are: the dictionary would come on top.
            (Some(lanes), _) if code_bits + HARDLY_NARROWER_BITS > lanes.value_bits() => return None,
            _ if is_little => return Some(code_bytes + most_bytes + NODE_BYTES),
            // The values by themselves: of all rows most may have one that costs little.
            (Some(lanes), _) => {
                let promised =
                    |values: &Column<'_>| Ok(encoder.promised_beneath(&Statistics::without_distinct(values), f64::MAX));
                let promised = values.with_values(statistics.column, promised).ok().flatten();
                promised.map_or(lanes.value_bits() / 8.0, |bytes| bytes / distinct as f64)
            }
            (None, Some(strings)) => {
                // The chunk's values stay in the order in which they came; a block's own may be sorted.
                let shared = if fresh.is_some() { 0.0 } else { strings.shared_share() };
                strings.distinct_value_bytes(distinct) * (1.0 - shared)
            }
            (None, None) => return None,
        };
        Some(code_bytes + stored * value_bytes + NODE_BYTES)
    }

    fn effort(&self) -> Effort {
        Effort::Some
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        if column.rows == 0 {
            return Ok(None);
        }
        match &column.values {
            Values::Fixed(..) | Values::Bytes(_) => {}
            _ => return Ok(None),
        }
        if let Some(shared) = encoder.shared().and_then(|shared| shared.codes(statistics)) {
            let mut parameters = vec![SHARED];
            write_varint(shared.part as u64, &mut parameters);
            write_varint(shared.values as u64, &mut parameters);
            parameters.extend_from_slice(&shared.digest.to_le_bytes());
            let codes = encoder.unsigned_child(&shared.codes, shared.values as u64 - 1)?;
            return Ok(Some(self.node(column.rows, parameters, vec![codes])));
        }
        // Whoever asks for a dictionary gets one also where the chooser wouldn't look for one.
        let any;
        let distinct = match statistics.distinct_values() {
            Some(distinct) => distinct,
            None => match Distinct::of(column, most_distinct(column.rows)) {
                Some(distinct) => {
                    any = distinct;
                    &any
                }
                None => return Ok(None),
            },
        };
        let sorted = match &column.values {
            Values::Bytes(strings) => sorted(distinct, strings),
            _ => None,
        };
        let distinct = sorted.as_ref().unwrap_or(distinct);
        encoder.enter_dictionary();
        let values = distinct.with_values(column, |values| encoder.child_like(statistics, values))?;
        let codes = encoder.unsigned_child(&distinct.codes, distinct.first_rows.len() as u64 - 1)?;
        Ok(Some(self.node(column.rows, vec![0], vec![codes, values])))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        opening.known_flags(0, SHARED)?;
        let (shared, part, count, digest) = opening.parameters(|reader| match reader.u8()? {
            SHARED => Ok((true, reader.varint()?, reader.varint()?, reader.u64()?)),
            _ => Ok((false, 0, 0, 0)),
        })?;
        opening.within_bounds(match opening.physical {
            Physical::Fixed(fixed) => fixed.size_bytes(),
            Physical::Bytes => 4,
            other => return Err(opening.corrupt(format!("can't hold {other}"))),
        })?;
        opening.shape(if shared { 1 } else { 2 }, 0)?;
        let (count, source) = if shared {
            let part = opening.parts.get(part, opening.physical).map_err(|what| opening.corrupt(what))?;
            if count == 0 || count > part.block().rows() as u64 {
                return Err(opening.corrupt(format!("needs {count} values of a part of {}", part.block().rows())));
            }
            (count as usize, Source::Shared { part, digest })
        } else {
            let count = opening.record.children[1].rows;
            (count, Source::Inline(opening.child(1, opening.physical, count)?, Singles::default()))
        };
        if count == 0 {
            return Err(opening.corrupt("no values"));
        }
        let code_type = Fixed::unsigned_for(count as u64 - 1);
        let codes = opening.child(0, &Physical::Fixed(code_type), opening.rows())?;
        let values = DictionaryValues {
            count,
            source,
            physical: opening.physical.clone(),
            budget: opening.budget.clone(),
            lanes_or_views: OnceLock::new(),
            strings: OnceLock::new(),
        };
        let common = Codes { code_type, codes, values, decoded_bytes: opening.decoded_bytes };
        match opening.physical {
            Physical::Fixed(fixed) => {
                Ok(with_lane_of!(*fixed, T => Box::new(LaneDictionary::<T>(common, PhantomData))))
            }
            _ => Ok(Box::new(StringDictionary(common))),
        }
    }
}

impl Dictionary {
    fn node(&self, rows: usize, parameters: Vec<u8>, children: Vec<EncodedNode>) -> EncodedNode {
        EncodedNode { encoding: self.id(), rows, parameters, buffers: Vec::new(), children }
    }
}

#[derive(Debug)]
enum Source {
    Inline(Box<dyn Node>, Singles),
    Shared { part: Arc<Part>, digest: u64 },
}

/// The values, decoded when first needed.
#[derive(Debug)]
struct DictionaryValues {
    count: usize,
    source: Source,
    physical: Physical,
    budget: Arc<Budget>,
    lanes_or_views: OnceLock<Decoded>,
    strings: OnceLock<StringTable>,
}

impl DictionaryValues {
    /// The values, byte strings as views.
    fn lanes_or_views(&self, body: &Body) -> Result<&Decoded> {
        match &self.source {
            Source::Shared { part, .. } => part.lanes_or_views(),
            Source::Inline(values, _) => {
                let decode = || self.decode(&**values, body, BytesForm::Views);
                self.budget.keep_once(&self.lanes_or_views, decode, Decoded::flat_size_bytes)
            }
        }
    }

    /// The values, byte strings, to be gathered.
    fn strings(&self, body: &Body) -> Result<&StringTable> {
        match &self.source {
            Source::Shared { part, .. } => part.strings(),
            Source::Inline(values, _) => {
                let decode = || string_table(self.decode(&**values, body, BytesForm::Offsets32)?);
                self.budget.keep_once(&self.strings, decode, |strings| strings.size_bytes() as u64)
            }
        }
    }

    /// Appends the strings of these codes, if it pays to look up no others: where not all are known, and few are asked for.
    fn append_singles<C: simd::Code>(
        &self,
        body: &Body,
        codes: &[C],
        bound: u64,
        out: &mut DecodedBytes,
    ) -> Result<bool> {
        let is_view = matches!(out, DecodedBytes::Views(_));
        let knows_all = match &self.source {
            Source::Shared { part, .. } => part.knows_all(out),
            Source::Inline(..) if is_view => self.lanes_or_views.get().is_some(),
            Source::Inline(..) => self.strings.get().is_some(),
        };
        if knows_all {
            return Ok(false);
        }
        let append = |views: &mut Views| match &self.source {
            Source::Shared { part, .. } => {
                let get = |codes: &[u32], out: &mut Decoded| part.block().get(codes, out);
                part.singles().append(part.block().rows(), get, self.count, codes, views)
            }
            Source::Inline(values, singles) => {
                let get = |codes: &[u32], out: &mut Decoded| values.get(body, codes, out);
                singles.append(self.count, get, self.count, codes, views)
            }
        };
        if let DecodedBytes::Views(views) = out {
            return append(views);
        }
        let mut views = Views::default();
        let is_appended = append(&mut views)?;
        let (mut lengths, mut data) = (Vec::with_capacity(views.len()), Vec::new());
        for index in 0..views.len() {
            let mut inline = [0; 16];
            let string = views.get(index, &mut inline);
            if (data.len() + string.len()) as u64 > bound {
                return Err(gather_error(simd::GatherError::TooLong));
            }
            lengths.push(string.len() as u32);
            data.extend_from_slice(string);
        }
        append_concatenated(out, &lengths, &data)?;
        Ok(is_appended)
    }

    fn decode(&self, values: &dyn Node, body: &Body, form: BytesForm) -> Result<Decoded> {
        let mut out = Decoded::new(&self.physical, form);
        values.decode(body, 0..self.count, &mut out)?;
        out.learn_text();
        Ok(out)
    }
}

/// Runs `$body` with `$codes` bound to the slice of decoded codes.
macro_rules! with_codes {
    ($decoded:expr, $codes:ident => $body:expr) => {
        match &$decoded.values {
            DecodedValues::L8($codes) => $body,
            DecodedValues::L16($codes) => $body,
            DecodedValues::L32($codes) => $body,
            _ => return Err(bad_code()),
        }
    };
}

#[derive(Debug)]
struct Codes {
    code_type: Fixed,
    codes: Box<dyn Node>,
    values: DictionaryValues,
    decoded_bytes: u64,
}

impl Codes {
    fn fresh(&self) -> Decoded {
        Decoded::new(&Physical::Fixed(self.code_type), BytesForm::Offsets32)
    }

    /// The runs of the codes, where they are encoded as such: a value is then looked up once per run.
    fn runs(&self, body: &Body, rows: &Range<usize>) -> Result<Option<(Vec<u32>, Decoded)>> {
        if rows.is_empty() { Ok(None) } else { self.codes.runs(body, rows).transpose() }
    }

    /// A bit for each of `rows`: what the value of its code answers. Values are asked once, those of shared parts once for all blocks.
    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        if let Some(verdict) = question.verdict() {
            out.extend_constant(verdict, rows.len());
            return Ok(());
        }
        let codes = match &self.values.source {
            Source::Shared { part, .. } => question.of_part(part, self.code_type, || {
                let (block, mut bits) = (part.block(), BitBuffer::default());
                block.root().filter(block.body(), 0..block.rows(), question, work, &mut bits)?;
                Ok(bits)
            }),
            Source::Inline(values, _) => work.made(&self.values, |work| {
                let mut bits = BitBuffer::default();
                values.filter(body, 0..self.values.count, question, work, &mut bits)?;
                Ok(Question::of_codes(bits.bits(), self.code_type))
            }),
        }?;
        self.codes.filter(body, rows, &codes, work, out)
    }

    /// Gets the values that living rows have, if these are few of all, and asks only them. They are kept: who wants the rows that pass wants
    /// some of them.
    fn ask_living(
        &self,
        body: &Body,
        rows: Range<usize>,
        alive: Living<'_>,
        question: &Question,
        work: &mut FilterWork,
    ) -> Result<bool> {
        let count = self.values.count;
        let (Source::Inline(values, singles), most) = (&self.values.source, most_living(count)) else {
            return Ok(false);
        };
        if most == 0 {
            return Ok(false);
        }
        let mut lives = vec![0; count];
        let mut codes = work.scratch(&Physical::Fixed(self.code_type));
        for piece in grains(rows.clone(), self.codes.grain_rows().max(DECODED_ROWS)) {
            let alive = alive.slice(piece.start - rows.start, piece.len());
            if alive.count() > 0 {
                codes.clear();
                self.codes.decode(body, piece, &mut codes)?;
                if let Living::Some(bits) = alive {
                    with_decoded_lanes!(&mut codes.values, codes => simd::compact(codes, bits), ());
                }
                if !with_codes!(codes, codes => simd::count_codes(codes, &mut lives)) {
                    return Err(bad_code());
                }
            }
        }
        work.give_back(codes);
        let living: Vec<u32> = (0..).zip(&lives).filter(|(_, lives)| **lives > 0).map(|(code, _)| code).collect();
        if living.len() > most {
            return Ok(false);
        }
        let (mut strings, mut found) = (work.scratch(&self.values.physical), BitBuffer::default());
        values.get(body, &living, &mut strings)?;
        work.decoded_values += living.len() as u64;
        question.answer(&strings, &mut found)?;
        let mut words = vec![0u64; count.div_ceil(64)];
        for (index, &code) in living.iter().enumerate() {
            words[code as usize / 64] |= u64::from(found.bits().get(index)) << (code % 64);
        }
        singles.keep(count, &living, strings)?;
        let found = BitBuffer::from_words(&words, count);
        work.made(&self.values, |_| Ok(Question::of_codes(found.bits(), self.code_type)))?;
        Ok(true)
    }

    /// Reduces each value as often as living rows have its code, if codes are encoded as runs or if they are to be counted; else, and if there are
    /// more values than rows, false.
    fn aggregate(
        &self,
        body: &Body,
        rows: &Range<usize>,
        alive: Living<'_>,
        counted: bool,
        out: &mut Reduction<'_>,
    ) -> Result<bool> {
        if self.values.count > rows.len() {
            return Ok(false);
        }
        let mut counts = vec![0; self.values.count];
        match self.runs(body, rows)? {
            Some((ends, codes)) => {
                let living = living_in_runs(&ends, rows, alive)?;
                let count =
                    |(code, rows): (usize, u32)| counts.get_mut(code).map(|count| *count += rows).ok_or_else(bad_code);
                with_codes!(codes, codes => codes.iter().map(|&code| code as usize).zip(living).try_for_each(count))?;
            }
            None if counted => self.count_codes(body, rows, alive, &mut counts, out)?,
            None => return Ok(false),
        }
        out.weighted(self.values.lanes_or_views(body)?, &counts);
        Ok(true)
    }

    /// Adds how many living rows have each code.
    fn count_codes(
        &self,
        body: &Body,
        rows: &Range<usize>,
        alive: Living<'_>,
        counts: &mut [u32],
        out: &mut Reduction<'_>,
    ) -> Result<()> {
        let mut codes = out.work.scratch.take(&Physical::Fixed(self.code_type), BytesForm::Offsets32);
        for piece in grains(rows.clone(), self.codes.grain_rows().max(DECODED_ROWS)) {
            let alive = alive.slice(piece.start - rows.start, piece.len());
            if alive.count() == 0 {
                continue;
            }
            codes.clear();
            out.work.reduced_values += piece.len() as u64;
            self.codes.decode(body, piece, &mut codes)?;
            if let Living::Some(bits) = alive {
                with_decoded_lanes!(&mut codes.values, codes => simd::compact(codes, bits), ());
            }
            if !with_codes!(codes, codes => simd::count_codes(codes, counts)) {
                return Err(bad_code());
            }
        }
        out.work.scratch.give_back(codes);
        Ok(())
    }

    /// Values are asked once, and those of a shared part aren't asked again.
    fn ask_count(&self, question: &Question) -> AskCount {
        match &self.values.source {
            Source::Inline(values, _) => values.ask_count(self.values.count, question),
            Source::Shared { part, .. } if question.knows(part) => AskCount::default(),
            Source::Shared { part, .. } => AskCount { own: 0, shared: part.block().rows() },
        }
    }

    fn describe(&self) -> String {
        match &self.values.source {
            Source::Inline(..) => format!("{} values", self.values.count),
            Source::Shared { part, .. } => {
                format!("first {} values of shared part {}", self.values.count, part.number())
            }
        }
    }

    fn children(&self) -> Vec<&dyn Node> {
        match &self.values.source {
            Source::Inline(values, _) => vec![&*self.codes, &**values],
            Source::Shared { .. } => vec![&*self.codes],
        }
    }

    fn verify(&self) -> Result<()> {
        match &self.values.source {
            Source::Inline(..) => Ok(()),
            Source::Shared { part, digest } if part.digest_of(self.values.count)? == *digest => Ok(()),
            Source::Shared { part, .. } => {
                let what =
                    format!("Dictionary: the values of shared part {} aren't those it was written for", part.number());
                Err(Error::corrupt("node", 0, what))
            }
        }
    }
}

pub(super) fn bad_code() -> Error {
    Error::corrupt("node", 0, "Dictionary: a code that no value has")
}

fn bad_runs(error: &simd::RunError) -> Error {
    Error::corrupt("node", 0, format!("Dictionary: {error}"))
}

#[derive(Debug)]
struct LaneDictionary<T>(Codes, PhantomData<T>);

impl<T: LaneAccess> LaneDictionary<T> {
    fn append(&self, body: &Body, codes: &Decoded, out: &mut Decoded) -> Result<()> {
        let values = self.0.values.lanes_or_views(body)?;
        let values = &T::of(&values.values).ok_or_else(bad_code)?[..self.0.values.count];
        let lanes = lanes_mut::<T>(out)?;
        with_codes!(codes, codes => simd::gather(values, codes, lanes)).map_err(|_| bad_code())?;
        out.extend_valid(codes.rows);
        Ok(())
    }
}

impl<T: LaneAccess> Node for LaneDictionary<T> {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if let Some((ends, codes)) = self.0.runs(body, &rows)? {
            let mut values = out.empty_like();
            self.append(body, &codes, &mut values)?;
            let values = T::of(&values.values).ok_or_else(bad_code)?;
            simd::expand_runs(values, &ends, rows.start as u32, rows.len(), lanes_mut::<T>(out)?)
                .map_err(|error| bad_runs(&error))?;
            out.extend_valid(rows.len());
            return Ok(());
        }
        lanes_mut::<T>(out)?.reserve(rows.len());
        let mut codes = self.0.fresh();
        let mut start = rows.start;
        while start < rows.end {
            let end = ((start / VECTOR_ROWS + 4) * VECTOR_ROWS).min(rows.end);
            codes.clear();
            self.0.codes.decode(body, start..end, &mut codes)?;
            self.append(body, &codes, out)?;
            start = end;
        }
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let mut codes = self.0.fresh();
        self.0.codes.get(body, rows, &mut codes)?;
        self.append(body, &codes, out)
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        self.0.filter(body, rows, question, work, out)
    }

    fn ask_count(&self, _: usize, question: &Question) -> AskCount {
        self.0.ask_count(question)
    }

    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        // Lanes are sooner looked up than their codes counted.
        if self.0.aggregate(body, &rows, alive, false, out)? {
            return Ok(());
        }
        aggregate_decoded(self, body, rows, alive, out)
    }

    fn children(&self) -> Vec<&dyn Node> {
        self.0.children()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn verify(&self, _: &Body) -> Result<()> {
        self.0.verify()
    }
}

#[derive(Debug)]
struct StringDictionary(Codes);

impl StringDictionary {
    /// Appends the strings of these codes, each as often as its run is long if there are runs; `bound` is the most bytes that
    /// they may come to.
    fn append(
        &self,
        body: &Body,
        codes: &Decoded,
        runs: Option<&simd::Runs<'_>>,
        bound: u64,
        out: &mut Decoded,
    ) -> Result<()> {
        let count = self.0.values.count;
        match bytes_mut(out)? {
            DecodedBytes::Views(views) => {
                let values = &self.0.values.lanes_or_views(body)?.values;
                let DecodedValues::Bytes(DecodedBytes::Views(values)) = values else {
                    return Err(bad_code());
                };
                views.append_from(values, |values, views| match runs {
                    None => with_codes!(codes, codes => simd::gather(&values[..count], codes, views))
                        .map_err(|_| bad_code()),
                    Some(runs) => {
                        let mut once = Vec::new();
                        with_codes!(codes, codes => simd::gather(&values[..count], codes, &mut once))
                            .map_err(|_| bad_code())?;
                        simd::expand_runs(&once, runs.ends, runs.start, runs.row_count, views)
                            .map_err(|error| bad_runs(&error))
                    }
                })?;
            }
            DecodedBytes::Offsets32(offsets, data) => {
                let strings = self.0.values.strings(body)?;
                with_codes!(codes, codes => strings.gather(count, codes, runs, bound, offsets, data))
                    .map_err(gather_error)?;
            }
            DecodedBytes::Offsets64(offsets, data) => {
                let strings = self.0.values.strings(body)?;
                with_codes!(codes, codes => strings.gather(count, codes, runs, bound, offsets, data))
                    .map_err(gather_error)?;
            }
        }
        out.extend_valid(runs.map_or(codes.rows, |runs| runs.row_count));
        Ok(())
    }
}

fn gather_error(error: simd::GatherError) -> Error {
    match error {
        simd::GatherError::BadCode(_) => bad_code(),
        simd::GatherError::TooLong => Error::corrupt("node", 0, "Dictionary: strings exceed what the block declares"),
        simd::GatherError::OffsetOverflow => Error::OffsetOverflow,
        simd::GatherError::Runs(error) => bad_runs(&error),
    }
}

impl StringDictionary {
    /// As [`Self::append`], for some codes of many: where they are so few that it pays, only their strings are looked up.
    fn append_picked(&self, body: &Body, codes: &Decoded, bound: u64, out: &mut Decoded) -> Result<()> {
        let bytes = bytes_mut(out)?;
        if !with_codes!(codes, codes => self.0.values.append_singles(body, codes, bound, bytes))? {
            return self.append(body, codes, None, bound, out);
        }
        out.extend_valid(codes.rows);
        Ok(())
    }
}

impl Node for StringDictionary {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if let Some((ends, codes)) = self.0.runs(body, &rows)? {
            let runs = simd::Runs { ends: &ends, start: rows.start as u32, row_count: rows.len() };
            return self.append(body, &codes, Some(&runs), self.0.decoded_bytes, out);
        }
        let mut codes = self.0.fresh();
        self.0.codes.decode(body, rows, &mut codes)?;
        self.append(body, &codes, None, self.0.decoded_bytes, out)
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let mut codes = self.0.fresh();
        self.0.codes.get(body, rows, &mut codes)?;
        self.append_picked(body, &codes, bound_of_rows(rows, self.0.decoded_bytes), out)
    }

    fn pick(&self, body: &Body, rows: Range<usize>, picked: &[u32], out: &mut Decoded) -> Result<()> {
        let mut codes = self.0.fresh();
        self.0.codes.pick(body, rows, picked, &mut codes)?;
        self.append_picked(body, &codes, self.0.decoded_bytes, out)
    }

    fn ask_living(
        &self,
        body: &Body,
        rows: Range<usize>,
        alive: Living<'_>,
        question: &Question,
        work: &mut FilterWork,
    ) -> Result<bool> {
        self.0.ask_living(body, rows, alive, question, work)
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        self.0.filter(body, rows, question, work, out)
    }

    fn ask_count(&self, _: usize, question: &Question) -> AskCount {
        self.0.ask_count(question)
    }

    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        if self.0.aggregate(body, &rows, alive, true, out)? {
            return Ok(());
        }
        aggregate_decoded(self, body, rows, alive, out)
    }

    fn children(&self) -> Vec<&dyn Node> {
        self.0.children()
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn verify(&self, _: &Body) -> Result<()> {
        self.0.verify()
    }
}
