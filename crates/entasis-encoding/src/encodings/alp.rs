//! Alp: floats that are decimals, as integers. See *Alp* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 exponent e │ u8 factor f │ u8 flags: bit 0 patched │ patch ends, if patched │
//! buffer 0, if patched: │ u16 position in its vector × patches │ lane × patches │
//! child 0: signed integers of the float's width
//! ```
//!
//! A value is integer × 10^f × 10^−e, rounded after each multiplication; floats that don't come back so are patches.
//! ALP: Afroozeh, Kuffo, Boncz, SIGMOD 2024.

use std::ops::Range;

use super::Encoding;
use super::bitpack::{Patches, plan};
use super::delta::set_differences;
use super::node::{Node, Opening, grains, lanes_mut, vector_range, vectors_of};
use crate::aggregate::{Living, Reduction};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::filter::{FilterWork, Question, Test, filter_decoded};
use crate::values::{BitBuffer, Column, Decoded, LaneAccess, Lanes, Values};
use crate::wire::EntryPoints;
use crate::{Fixed, PackedLane, Physical, VECTOR_ROWS, simd};

pub(crate) struct Alp;

const PATCHED: u8 = 1;
const PATCH_POSITION_BYTES: usize = 2;

impl Encoding for Alp {
    fn id(&self) -> u8 {
        9
    }

    fn name(&self) -> &'static str {
        "Alp"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        let lanes = statistics.lanes()?;
        if !encoder.may_cascade() {
            return None;
        }
        lanes.decimals().map(|decimals| decimals.size_bytes * lanes.scale() + 16.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        // Where nothing is gained, any powers are right: all values may be patches.
        let found = statistics.lanes().and_then(|lanes| lanes.decimals());
        let powers = found.map_or(Powers { exponent: 0, factor: 0 }, |decimals| decimals.powers);
        match &column.values {
            Values::Fixed(Fixed::F32, Lanes::L32(lanes)) => encode::<u32>(statistics, lanes, powers, encoder),
            Values::Fixed(Fixed::F64, Lanes::L64(lanes)) => encode::<u64>(statistics, lanes, powers, encoder),
            _ => Ok(None),
        }
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        opening.known_flags(2, PATCHED)?;
        let (powers, patched, ends) = opening.parameters(|reader| {
            let powers = Powers { exponent: reader.u8()?, factor: reader.u8()? };
            let patched = reader.u8()? == PATCHED;
            let ends = if patched { EntryPoints::read(reader, opening.vectors())? } else { Vec::new() };
            Ok((powers, patched, ends))
        })?;
        opening.shape(1, usize::from(patched))?;
        match opening.physical {
            Physical::Fixed(Fixed::F32) => open::<u32>(opening, powers, patched, &ends),
            Physical::Fixed(Fixed::F64) => open::<u64>(opening, powers, patched, &ends),
            other => Err(opening.corrupt(format!("can't hold {other}"))),
        }
    }
}

/// Floats of a sample as decimals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Decimals {
    powers: Powers,
    /// Bytes that they take, about.
    pub size_bytes: f64,
}

/// By which powers of ten an integer stands for a float.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Powers {
    exponent: u8,
    factor: u8,
}

/// A lane that holds a float, and what ALP needs to know of it.
trait AlpLane: simd::FloatLane + LaneAccess {
    const MAX_EXPONENT: u8;
    const INTEGER: Fixed;

    /// The power of ten with this exponent, rounded to the float.
    fn power(of_ten: f64) -> Self::Float;

    /// What turns integers into floats.
    fn decoding(powers: Powers) -> simd::Factors<Self::Float> {
        let (e, f) = (usize::from(powers.exponent), usize::from(powers.factor));
        simd::Factors { multiply: Self::power(TENS[f]), then: Self::power(TENTHS[e]) }
    }

    /// What turns floats into integers.
    fn encoding(powers: Powers) -> simd::Factors<Self::Float> {
        let (e, f) = (usize::from(powers.exponent), usize::from(powers.factor));
        simd::Factors { multiply: Self::power(TENS[e]), then: Self::power(TENTHS[f]) }
    }
}

/// 10^n and 10^−n, each the nearest double.
const TENS: [f64; 19] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18];
const TENTHS: [f64; 19] = [
    1e0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14, 1e-15, 1e-16, 1e-17,
    1e-18,
];

impl AlpLane for u64 {
    const MAX_EXPONENT: u8 = 18;
    const INTEGER: Fixed = Fixed::I64;

    fn power(of_ten: f64) -> f64 {
        of_ten
    }
}

impl AlpLane for u32 {
    const MAX_EXPONENT: u8 = 10;
    const INTEGER: Fixed = Fixed::I32;

    fn power(of_ten: f64) -> f32 {
        of_ten as f32
    }
}

/// Powers are tried on this many values of the sample, the best few on all of it.
const TRIAL_VALUES: usize = 32;
const FINALISTS: usize = 3;
/// Where at most one in so many values doesn't come back, nothing else is tried.
const FEW_EXCEPTIONS: usize = 256;
/// So many decimals more are tried than all of the few values have.
const MORE_DECIMALS: u8 = 2;
/// An exponent at which multiplying by 10^−e is right for most decimals (ALP §3.1 finds 14 chosen most often).
const USUAL_EXPONENT: u8 = 14;

/// The powers that make the sample smallest; `None` where that saves nothing.
///
/// The number of decimals, e − f, decides how large the integers are, e alone how exactly they come back. So the decimals are
/// found first, at the usual exponent and at the least, and then the exponent.
fn best<T: AlpLane>(sample: &[&[T]]) -> Option<Decimals> {
    let rows: usize = sample.iter().map(|vector| vector.len()).sum();
    let step = (rows / TRIAL_VALUES).max(1);
    let values: Vec<T> =
        sample.iter().flat_map(|vector| vector.iter().step_by(step).copied()).take(TRIAL_VALUES).collect();
    let mut trials = Trials { values: &values, tried: Vec::with_capacity(64), scratch: Scratch::default() };
    let usual = USUAL_EXPONENT.min(T::MAX_EXPONENT);
    let mut most_decimals = T::MAX_EXPONENT;
    for decimals in 0..=T::MAX_EXPONENT {
        if decimals > most_decimals {
            break;
        }
        let all_come_back = trials.add(decimals, decimals) | (decimals <= usual && trials.add(usual, decimals));
        // More decimals only make larger integers, but other values may have a few more.
        if all_come_back {
            most_decimals = most_decimals.min(decimals + MORE_DECIMALS);
        }
    }
    let cheapest = *trials.tried.iter().min_by(|left, right| left.size_bytes.total_cmp(&right.size_bytes))?;
    if cheapest.size_bytes >= (values.len() * T::BYTES) as f64 {
        return None;
    }
    let Powers { exponent, factor } = cheapest.powers;
    if cheapest.exceptions > 0 {
        for other in exponent - factor..=T::MAX_EXPONENT {
            trials.add(other, exponent - factor);
        }
    }
    let Trials { mut tried, mut scratch, .. } = trials;
    tried.sort_by(|left, right| left.size_bytes.total_cmp(&right.size_bytes));
    let mut best = Decimals { powers: cheapest.powers, size_bytes: (rows * T::BYTES) as f64 };
    let hopeless = best.size_bytes;
    for trial in tried.iter().take(FINALISTS) {
        let (size_bytes, exceptions) = scratch.size_bytes(sample, trial.powers, best.size_bytes);
        if size_bytes < best.size_bytes {
            best = Decimals { powers: trial.powers, size_bytes };
        }
        if exceptions * FEW_EXCEPTIONS <= rows {
            break;
        }
    }
    (best.size_bytes < hopeless).then_some(best)
}

/// Powers tried on a few values.
struct Trials<'a, T> {
    values: &'a [T],
    tried: Vec<Trial>,
    scratch: Scratch<T>,
}

#[derive(Clone, Copy)]
struct Trial {
    powers: Powers,
    size_bytes: f64,
    exceptions: usize,
}

impl<T: AlpLane> Trials<'_, T> {
    /// Tries powers that weren't tried before; true if all values come back by them.
    fn add(&mut self, exponent: u8, decimals: u8) -> bool {
        let powers = Powers { exponent, factor: exponent - decimals };
        if self.tried.iter().any(|trial| trial.powers == powers) {
            return false;
        }
        let (size_bytes, exceptions) =
            self.scratch.size_bytes(&[self.values], powers, (self.values.len() * T::BYTES) as f64);
        self.tried.push(Trial { powers, size_bytes, exceptions });
        exceptions == 0
    }
}

/// Floats as decimals; `None` where that saves nothing, or they aren't floats.
pub(crate) fn decimals(fixed: Fixed, lanes: &Lanes<'_>) -> Option<Decimals> {
    match (fixed, lanes) {
        (Fixed::F32, Lanes::L32(lanes)) => best::<u32>(&crate::chooser::sample_vectors(lanes)),
        (Fixed::F64, Lanes::L64(lanes)) => best::<u64>(&crate::chooser::sample_vectors(lanes)),
        _ => None,
    }
}

/// Predicted bytes of these vectors as decimals; `None` where that saves nothing, or they aren't floats.
pub(crate) fn decimal_bytes<T: LaneAccess>(fixed: Fixed, vectors: &[&[T]]) -> Option<f64> {
    fn of<T: LaneAccess, F: AlpLane>(vectors: &[&[T]]) -> Option<f64> {
        let vectors: Option<Vec<&[F]>> = vectors.iter().map(|vector| F::lent(&T::lanes(vector))).collect();
        best::<F>(&vectors?).map(|decimals| decimals.size_bytes)
    }
    match fixed {
        Fixed::F32 => of::<T, u32>(vectors),
        Fixed::F64 => of::<T, u64>(vectors),
        _ => None,
    }
}

/// Memory for trials.
struct Scratch<T> {
    integers: Vec<T>,
    differences: Vec<T>,
    exceptions: Vec<u32>,
}

impl<T> Default for Scratch<T> {
    fn default() -> Self {
        Self { integers: Vec::new(), differences: Vec::new(), exceptions: Vec::new() }
    }
}

impl<T: AlpLane> Scratch<T> {
    /// Predicted bytes of these vectors with these powers, infinite if exceptions alone take `most_bytes`; and how many exceptions
    /// there were until then.
    fn size_bytes(&mut self, vectors: &[&[T]], powers: Powers, most_bytes: f64) -> (f64, usize) {
        let (mut size, mut exceptions) = (0.0, 0);
        let (encode, decode) = (T::encoding(powers), T::decoding(powers));
        for vector in vectors {
            self.integers.clear();
            self.exceptions.clear();
            simd::alp_encode(vector, encode, decode, &mut self.integers, &mut self.exceptions);
            exceptions += self.exceptions.len();
            size += (self.exceptions.len() * (PATCH_POSITION_BYTES + T::BYTES)) as f64;
            if size >= most_bytes {
                return (f64::INFINITY, exceptions);
            }
            smooth(&mut self.integers, &self.exceptions);
            // The integers may be packed, or their differences.
            let packed = plan(&self.integers, true).size_bytes();
            set_differences(&self.integers, &mut self.differences);
            size += packed.min(plan(&self.differences, true).size_bytes() + T::BYTES as f64);
        }
        (size, exceptions)
    }
}

/// Gives exceptions the integer of a neighbour, so that they don't widen their vector.
fn smooth<T: Copy + Default>(integers: &mut [T], exceptions: &[u32]) {
    if exceptions.is_empty() {
        return;
    }
    let mut next = exceptions.iter().peekable();
    let first_good = (0..integers.len()).find(|&index| next.next_if_eq(&&(index as u32)).is_none());
    let mut last = first_good.map_or(T::default(), |index| integers[index]);
    let mut exceptions = exceptions.iter().peekable();
    for (index, integer) in integers.iter_mut().enumerate() {
        if exceptions.next_if_eq(&&(index as u32)).is_some() {
            *integer = last;
        }
        last = *integer;
    }
}

fn encode<T: AlpLane>(
    statistics: &Statistics<'_>,
    lanes: &[T],
    powers: Powers,
    encoder: &mut Encoder<'_>,
) -> Result<Option<EncodedNode>> {
    let (mut integers, mut exceptions) = (Vec::with_capacity(lanes.len()), Vec::new());
    let (mut positions, mut patches, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for vector in lanes.chunks(VECTOR_ROWS) {
        exceptions.clear();
        let before = integers.len();
        simd::alp_encode(vector, T::encoding(powers), T::decoding(powers), &mut integers, &mut exceptions);
        smooth(&mut integers[before..], &exceptions);
        for &exception in &exceptions {
            positions.extend_from_slice(&(exception as u16).to_le_bytes());
            vector[exception as usize].write(&mut patches);
        }
        ends.push((positions.len() / PATCH_POSITION_BYTES) as u64);
    }
    let exception_count = positions.len() / PATCH_POSITION_BYTES;
    let mut parameters = vec![powers.exponent, powers.factor, u8::from(exception_count > 0)];
    let mut buffers = Vec::new();
    if !positions.is_empty() {
        EntryPoints::write(&ends, &mut parameters);
        positions.extend_from_slice(&patches);
        buffers.push(positions);
    }
    let values = Values::Fixed(T::INTEGER, T::lanes(&integers));
    let column = Column { rows: lanes.len(), validity: None, values };
    let child = encoder.child_as_distinct(statistics, exception_count, &column)?;
    Ok(Some(EncodedNode { encoding: Alp.id(), rows: lanes.len(), parameters, buffers, children: vec![child] }))
}

fn open<T: AlpLane>(opening: &Opening<'_>, powers: Powers, patched: bool, ends: &[u64]) -> Result<Box<dyn Node>> {
    if powers.exponent > T::MAX_EXPONENT || powers.factor > powers.exponent {
        return Err(opening.corrupt(format!("exponent {} and factor {}", powers.exponent, powers.factor)));
    }
    opening.within_bounds(T::BYTES)?;
    let patches = patched.then(|| Patches::open(opening, 0, ends, T::BYTES)).transpose()?;
    let rows = opening.rows();
    let integers = opening.child(0, &Physical::Fixed(T::INTEGER), rows)?;
    Ok(Box::new(AlpNode::<T> { rows, powers, integers, patches, lane: std::marker::PhantomData }))
}

#[derive(Debug)]
struct AlpNode<T> {
    rows: usize,
    powers: Powers,
    integers: Box<dyn Node>,
    patches: Option<Patches>,
    lane: std::marker::PhantomData<T>,
}

/// So many integers are decoded at a time: they stay in the processor's first cache, and asking for them costs little.
const STEP_ROWS: usize = 4 * VECTOR_ROWS;

fn not_integers() -> Error {
    Error::InvalidArgument("lanes of another width".into())
}

impl<T: AlpLane + PackedLane> AlpNode<T> {
    /// The float that an integer stands for.
    fn float_of(&self, integer: u64) -> T {
        let mut float = Vec::with_capacity(1);
        simd::alp_decode(&[T::from_u64(integer)], T::decoding(self.powers), &mut float);
        float.first().copied().unwrap_or_default()
    }

    /// Which integers stand for floats that pass: the greater the integer, the greater its float.
    fn question_of_integers(&self, question: &Question) -> Question {
        let test = match &question.test {
            Test::Lanes(intervals) => {
                let float_of = |integer: u128| u128::from(self.float_of(integer as u64).to_u64());
                Test::of_intervals(intervals.of_ascending(float_of))
            }
            other => other.clone(),
        };
        Question::new(test, false, Physical::Fixed(T::INTEGER))
    }
}

impl<T: AlpLane + PackedLane> Node for AlpNode<T> {
    /// The greater the integer, the greater its float: the ends of integers are those of floats. None of them is NaN.
    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        let bits;
        let mut alive = alive;
        if let Some(patches) = &self.patches {
            let mut words: Vec<u64> = (0..rows.len()).step_by(64).map(|row| alive.word(row)).collect();
            out.lanes(&patches.take::<T>(body, &rows, &mut words)?);
            bits = BitBuffer::from_words(&words, rows.len());
            alive = Living::of(&bits);
        }
        out.integers((&*self.integers, T::INTEGER), body, rows, alive, |integer| self.float_of(integer))
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        if !matches!(question.test, Test::Lanes(_)) {
            return filter_decoded(self, body, rows, question, work, out);
        }
        let integers = work.made(self, |_| Ok(self.question_of_integers(question)))?;
        let Some(patches) = &self.patches else {
            return self.integers.filter(body, rows, &integers, work, out);
        };
        let mut found = BitBuffer::default();
        self.integers.filter(body, rows.clone(), &integers, work, &mut found)?;
        for vector in vectors_of(&rows) {
            let whole = vector_range(vector, self.rows);
            let part = rows.start.max(whole.start)..rows.end.min(whole.end);
            let bits = found.bits().slice(part.start - rows.start, part.len());
            patches.correct::<T>(
                body,
                vector,
                part.start - whole.start,
                bits,
                |value| question.holds_lane(value),
                out,
            )?;
        }
        Ok(())
    }

    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        lanes_mut::<T>(out)?.reserve(rows.len() + VECTOR_ROWS);
        let mut integers = Decoded::new(&Physical::Fixed(T::INTEGER), Default::default());
        let skipped = rows.start % VECTOR_ROWS;
        let lead = lanes_mut::<T>(out)?.len()..lanes_mut::<T>(out)?.len() + skipped;
        let end = rows.end.next_multiple_of(VECTOR_ROWS).min(self.rows);
        for needed in grains(rows.start - skipped..end, self.integers.grain_rows().max(STEP_ROWS)) {
            integers.clear();
            self.integers.decode(body, needed.clone(), &mut integers)?;
            let integers = T::of(&integers.values).ok_or_else(not_integers)?;
            let lanes = lanes_mut::<T>(out)?;
            for (vector, integers) in vectors_of(&needed).zip(integers.chunks(VECTOR_ROWS)) {
                let before = lanes.len();
                simd::alp_decode(integers, T::decoding(self.powers), lanes);
                if let Some(patches) = &self.patches {
                    patches.apply(body, vector, &mut lanes[before..])?;
                }
            }
        }
        let lanes = lanes_mut::<T>(out)?;
        lanes.truncate(lead.end + rows.len());
        lanes.drain(lead);
        out.extend_valid(rows.len());
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let mut integers = Decoded::new(&Physical::Fixed(T::INTEGER), Default::default());
        self.integers.get(body, rows, &mut integers)?;
        let lanes = lanes_mut::<T>(out)?;
        let before = lanes.len();
        simd::alp_decode(T::of(&integers.values).ok_or_else(not_integers)?, T::decoding(self.powers), lanes);
        if let Some(patches) = &self.patches {
            patches.apply_to(body, rows, &mut lanes[before..])?;
        }
        out.extend_valid(rows.len());
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.integers]
    }

    fn describe(&self) -> String {
        let patches = self.patches.as_ref().map_or(0, Patches::count);
        format!("× 10^{} × 10^−{}, {patches} patches", self.powers.factor, self.powers.exponent)
    }
}
