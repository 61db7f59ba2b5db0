//! Values of one type as they are reduced, in whatever form they come.

use std::ops::Range;

use super::{AggregateWork, Aggregates, Living, Wanted};
use crate::block::body::Body;
use crate::encodings::node::{Node, grains};
use crate::error::Result;
use crate::filter::DECODED_ROWS;
use crate::predicate::Scalar;
use crate::values::{BitBuffer, Bits, BytesForm, Decoded, DecodedBytes, DecodedValues, LaneAccess};
use crate::{Fixed, Lane, PackedLane, Physical, U256, VECTOR_ROWS, simd, with_decoded_lanes};

/// Runs `$body` with `$slice` bound to lanes of at most 64 bits; `$otherwise` is for wider ones.
macro_rules! with_packed {
    ($lanes:expr, $slice:ident => $body:expr, $otherwise:expr) => {
        match $lanes {
            crate::Lanes::L8($slice) => $body,
            crate::Lanes::L16($slice) => $body,
            crate::Lanes::L32($slice) => $body,
            crate::Lanes::L64($slice) => $body,
            crate::Lanes::L128(_) | crate::Lanes::L256(_) => $otherwise,
        }
    };
}
/// What is wanted of values of one type, and what was found so far.
pub(crate) struct Reduction<'r> {
    wanted: Wanted,
    physical: &'r Physical,
    pub work: &'r mut AggregateWork,
    found: &'r mut Aggregates,
}

impl<'r> Reduction<'r> {
    pub fn new(wanted: Wanted, physical: &'r Physical, work: &'r mut AggregateWork, found: &'r mut Aggregates) -> Self {
        let is_flat = matches!(physical, Physical::Bool | Physical::Fixed(_) | Physical::Bytes);
        let has_sum = matches!(physical, Physical::Fixed(fixed) if !fixed.is_float() && fixed.size_bytes() <= 8);
        let wanted = Wanted { min: wanted.min && is_flat, max: wanted.max && is_flat, sum: wanted.sum && has_sum };
        if wanted.sum {
            found.sum.get_or_insert(0);
        }
        Self { wanted, physical, work, found }
    }

    /// The type of the values.
    pub fn physical(&self) -> &'r Physical {
        self.physical
    }

    /// Whether more is wanted than counts.
    pub fn needs_values(&self) -> bool {
        self.wanted != Wanted::COUNT
    }

    fn needs_range(&self) -> bool {
        self.wanted.min || self.wanted.max
    }

    /// Counts values of which nothing else is needed.
    pub fn count(&mut self, values: usize) {
        self.found.count += values as u64;
    }

    /// Counts nulls.
    pub fn nulls(&mut self, nulls: usize) {
        self.found.null_count += nulls as u64;
    }

    /// Reduces those of `rows` of a node without nulls that are alive.
    pub fn values(&mut self, node: &dyn Node, body: &Body, rows: Range<usize>, alive: Living<'_>) -> Result<()> {
        match alive.count() {
            0 => {}
            count if !self.needs_values() => self.count(count),
            _ => node.aggregate(body, rows, alive, self)?,
        }
        Ok(())
    }

    /// Reduces those of `rows` of a node of integers that are alive: each stands for the lane that `lane_of` makes of it, and the greater
    /// it is, the greater is that. There is no sum of such.
    pub fn integers<T: Lane>(
        &mut self,
        (node, fixed): (&dyn Node, Fixed),
        body: &Body,
        rows: Range<usize>,
        alive: Living<'_>,
        lane_of: impl Fn(u64) -> T,
    ) -> Result<()> {
        let (physical, mut found) = (Physical::Fixed(fixed), Aggregates::default());
        let wanted = Wanted { sum: false, ..self.wanted };
        Reduction::new(wanted, &physical, self.work, &mut found).values(node, body, rows, alive)?;
        let end = |end: Option<Scalar>| match (end, self.physical) {
            (Some(Scalar::Int(integer)), Physical::Fixed(fixed)) => {
                Some(Scalar::from_lane(*fixed, lane_of(integer as u64).widen()))
            }
            _ => None,
        };
        let (min, max) = (end(found.min), end(found.max));
        self.merge(Aggregates { min, max, ..found });
        Ok(())
    }

    /// Counts in what is known of other values, as far as it is wanted.
    pub fn merge(&mut self, known: Aggregates) {
        let Wanted { min, max, sum } = self.wanted;
        let (least, greatest) = (known.min.filter(|_| min), known.max.filter(|_| max));
        self.found.merge(Aggregates { min: least, max: greatest, sum: known.sum.filter(|_| sum), ..known });
    }

    /// Whether values between these, of integers, can change nothing but counts.
    pub fn covers(&self, least: i128, greatest: i128) -> bool {
        let is_least = !self.wanted.min || matches!(self.found.min, Some(Scalar::Int(min)) if min <= least);
        let is_greatest = !self.wanted.max || matches!(self.found.max, Some(Scalar::Int(max)) if max >= greatest);
        !self.wanted.sum && is_least && is_greatest
    }

    /// Counts in a value that so many rows have.
    pub fn repeated(&mut self, value: Scalar, rows: usize) {
        if rows == 0 {
            return;
        }
        self.count(rows);
        match value {
            Scalar::Float(float) if float.is_nan() && self.needs_range() => self.found.nan_count += rows as u64,
            Scalar::Float(float) if float.is_nan() => {}
            value => {
                if let (Scalar::Int(value), true) = (&value, self.wanted.sum) {
                    self.add(value * rows as i128);
                }
                self.range(|| Some((value.clone(), value)));
            }
        }
    }

    /// Counts in a lane that so many rows have.
    pub fn repeated_lane<T: Lane>(&mut self, lane: T, rows: usize) {
        if let Physical::Fixed(fixed) = self.physical {
            self.repeated(Scalar::from_lane(*fixed, lane.widen()), rows);
        }
    }

    fn add(&mut self, sum: i128) {
        self.found.sum = Some(self.found.sum.unwrap_or(0).wrapping_add(sum));
    }

    /// Widens the range, if one is wanted.
    fn range(&mut self, ends: impl FnOnce() -> Option<(Scalar, Scalar)>) {
        if let Some((min, max)) = self.needs_range().then(ends).flatten() {
            self.found.widen(Some(min).filter(|_| self.wanted.min), Some(max).filter(|_| self.wanted.max));
        }
    }

    /// Counts in lanes.
    pub fn lanes<T: LaneAccess>(&mut self, lanes: &[T]) {
        self.count(lanes.len());
        self.lane_sum(lanes);
        self.lane_range(lanes);
    }

    fn lane_sum<T: LaneAccess>(&mut self, lanes: &[T]) {
        if self.wanted.sum {
            let is_signed = matches!(self.physical, Physical::Fixed(fixed) if fixed.is_signed());
            self.add(with_packed!(T::lanes(lanes), lanes => simd::sum(lanes, is_signed), 0));
        }
    }

    fn lane_range<T: LaneAccess>(&mut self, lanes: &[T]) {
        let Physical::Fixed(fixed) = self.physical else { return };
        if !self.needs_range() {
            return;
        }
        let ends = with_packed!(T::lanes(lanes), lanes => {
            let range = packed_range(*fixed, lanes);
            self.found.nan_count += (lanes.len() - range.numbers) as u64;
            range.ends.map(|(min, max)| (min.widen(), max.widen()))
        }, wide_range(*fixed, lanes));
        let scalar = |lane| Scalar::from_lane(*fixed, lane);
        self.range(|| ends.map(|(min, max)| (scalar(min), scalar(max))));
    }

    /// Counts in booleans that are alive.
    pub fn bits(&mut self, bits: Bits<'_>, alive: Living<'_>) {
        let ones = match alive {
            Living::All(_) => bits.count_ones(),
            Living::Some(_) => alive.and(bits).bits().count_ones(),
        };
        self.repeated(Scalar::Bool(false), alive.count() - ones);
        self.repeated(Scalar::Bool(true), ones);
    }

    /// Counts in byte strings that are alive.
    pub fn strings<S: Strings + ?Sized>(&mut self, strings: &S, alive: Living<'_>) {
        self.count(alive.count());
        if !self.needs_range() {
            return;
        }
        let prefix_of = |row: usize| strings.with_string(row, prefix);
        let is_less =
            |row: usize, other: usize| strings.with_string(row, |row| strings.with_string(other, |other| row < other));
        // Most are told apart by their first bytes.
        let Some(first) = alive.iter().next() else { return };
        let (mut min, mut max) = ((prefix_of(first), first), (prefix_of(first), first));
        for row in alive.iter() {
            let prefix = prefix_of(row);
            if prefix < min.0 || prefix == min.0 && is_less(row, min.1) {
                min = (prefix, row);
            }
            if prefix > max.0 || prefix == max.0 && is_less(max.1, row) {
                max = (prefix, row);
            }
        }
        let scalar = |row: usize| Scalar::Bytes(strings.with_string(row, <[u8]>::to_vec));
        self.range(|| Some((scalar(min.1), scalar(max.1))));
    }

    /// Counts in decoded values that are alive. Lanes of others may be lost.
    pub fn decoded(&mut self, values: &mut Decoded, alive: Living<'_>) {
        let Some(validity) = values.validity.take() else { return self.valid(values, alive) };
        let valid = alive.and(validity.bits());
        let valid = Living::of(&valid);
        self.nulls(alive.count() - valid.count());
        self.valid(values, valid);
    }

    /// [`Reduction::decoded`] of values that aren't null.
    fn valid(&mut self, values: &mut Decoded, alive: Living<'_>) {
        if matches!(values.values, DecodedValues::Null) {
            return self.nulls(alive.count());
        }
        if !self.needs_values() {
            return self.count(alive.count());
        }
        match &mut values.values {
            DecodedValues::Bool(bits) => self.bits(bits.bits(), alive),
            DecodedValues::Bytes(strings) => self.strings(strings, alive),
            lanes => with_decoded_lanes!(lanes, lanes => {
                if let Living::Some(bits) = alive {
                    simd::compact(lanes, bits);
                }
                self.lanes(lanes);
            }, self.count(alive.count())),
        }
    }

    /// Counts in values of which each, as far as they have weights, has as many rows as its weight says.
    pub fn weighted(&mut self, values: &Decoded, weights: &[u32]) {
        self.work.reduced_values += weights.len() as u64;
        let rows = weights.iter().map(|&weight| weight as usize).sum::<usize>();
        let bits: BitBuffer = weights.iter().map(|&weight| weight > 0).collect();
        let alive = Living::of(&bits);
        let with_rows = self.found.count + rows as u64;
        match &values.values {
            DecodedValues::Bool(bits) => self.bits(bits.bits().slice(0, weights.len()), alive),
            DecodedValues::Bytes(strings) => self.strings(strings, alive),
            lanes => {
                with_decoded_lanes!(lanes, lanes => self.weighted_lanes(&lanes[..weights.len()], weights, alive), ())
            }
        }
        self.found.count = with_rows;
    }

    fn weighted_lanes<T: LaneAccess>(&mut self, lanes: &[T], weights: &[u32], alive: Living<'_>) {
        let Physical::Fixed(fixed) = self.physical else { return };
        if self.wanted.sum {
            self.add(with_packed!(T::lanes(lanes), lanes => simd::weighted_sum(lanes, weights, fixed.is_signed()), 0));
        }
        if !self.needs_range() {
            return;
        }
        let is_nan =
            |lane: T| matches!(Scalar::from_lane(*fixed, lane.widen()), Scalar::Float(float) if float.is_nan());
        let nans =
            || lanes.iter().zip(weights).filter(|(lane, _)| is_nan(**lane)).map(|(_, &rows)| u64::from(rows)).sum();
        let nan_count = self.found.nan_count + if fixed.is_float() { nans() } else { 0 };
        match alive {
            Living::All(_) => self.lane_range(lanes),
            Living::Some(bits) => {
                let mut lanes = lanes.to_vec();
                simd::compact(&mut lanes, bits);
                self.lane_range(&lanes);
            }
        }
        self.found.nan_count = nan_count;
    }
}

/// Byte strings by number, in whatever form.
pub(crate) trait Strings {
    /// What `of` makes of string `row`.
    fn with_string<R>(&self, row: usize, of: impl FnOnce(&[u8]) -> R) -> R;
}

impl Strings for DecodedBytes {
    fn with_string<R>(&self, row: usize, of: impl FnOnce(&[u8]) -> R) -> R {
        self.with(row, of)
    }
}

impl Strings for [&[u8]] {
    fn with_string<R>(&self, row: usize, of: impl FnOnce(&[u8]) -> R) -> R {
        of(self[row])
    }
}

/// Least and greatest of some lanes, and how many of them aren't NaN.
struct LaneRange<T> {
    ends: Option<(T, T)>,
    numbers: usize,
}

fn packed_range<T: PackedLane>(fixed: Fixed, lanes: &[T]) -> LaneRange<T> {
    let ends = match fixed {
        Fixed::F16 => return float_range(lanes, 0x7C00),
        Fixed::F32 => return float_range(lanes, 0x7F80_0000),
        Fixed::F64 => return float_range(lanes, 0x7FF0_0000_0000_0000),
        fixed if fixed.is_signed() => simd::min_max_signed(lanes),
        _ => simd::min_max(lanes),
    };
    LaneRange { ends, numbers: lanes.len() }
}

fn float_range<T: PackedLane>(lanes: &[T], infinity: u64) -> LaneRange<T> {
    let (ends, nans) = simd::float_range(lanes, T::from_u64(infinity));
    LaneRange { ends, numbers: lanes.len() - nans }
}

/// Least and greatest of lanes of 128 or 256 bits, which are signed integers.
fn wide_range<T: Lane>(fixed: Fixed, lanes: &[T]) -> Option<(U256, U256)> {
    let key = |lane: &U256| match fixed {
        Fixed::I128 => (lane.low as i128, 0),
        _ => (lane.high as i128, lane.low),
    };
    let lanes = lanes.iter().map(|lane| lane.widen());
    Some((lanes.clone().min_by_key(key)?, lanes.max_by_key(key)?))
}

/// The first eight bytes as a number whose order is theirs; what is missing counts as zeros.
fn prefix(string: &[u8]) -> u64 {
    match string.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => string.iter().rev().fold(0, |prefix, &byte| prefix >> 8 | u64::from(byte) << 56),
    }
}

/// What a node does that knows nothing better: it decodes some vectors, and reduces them.
pub(crate) fn aggregate_decoded<N: Node + ?Sized>(
    node: &N,
    body: &Body,
    rows: Range<usize>,
    alive: Living<'_>,
    out: &mut Reduction<'_>,
) -> Result<()> {
    if !out.needs_values() {
        out.count(alive.count());
        return Ok(());
    }
    let mut values = out.work.scratch.take(out.physical, BytesForm::Offsets32);
    for piece in grains(rows.clone(), node.grain_rows().max(DECODED_ROWS)) {
        let alive = alive.slice(piece.start - rows.start, piece.len());
        if alive.count() == 0 {
            continue;
        }
        out.work.decoded_values += piece.len() as u64;
        values.clear();
        values.reserve(piece.len() + VECTOR_ROWS);
        node.decode(body, piece, &mut values)?;
        out.decoded(&mut values, alive);
    }
    out.work.scratch.give_back(values);
    Ok(())
}
