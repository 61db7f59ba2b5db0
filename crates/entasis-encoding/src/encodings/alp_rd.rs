//! AlpRd: floats of which only the left bits, sign, exponent and perhaps a little more, follow a pattern. See *AlpRd* in
//! `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 right bits │ u8 number of left parts − 1 │ u16 × left parts │
//! child 0: codes, unsigned 8 bits: which left part       child 1: right bits, unsigned lanes of the float's width
//! ```
//!
//! A value is its left part, shifted by the right bits, and its right bits. The commonest left part has code 0 and so on, so that
//! packing leaves the rare ones to its patches. ALP for real doubles: Afroozeh, Kuffo, Boncz, SIGMOD 2024, §3.4.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use super::bitpack::plan;
use super::delta::differences;
use super::node::{Node, Opening, grains, lanes_mut};
use super::{Effort, Encoding};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::simd::LeftParts;
use crate::values::{Column, Decoded, DecodedValues, LaneAccess, Lanes, Values};
use crate::{Fixed, PackedLane, Physical, VECTOR_ROWS, simd};

pub(crate) struct AlpRd;

/// So many left parts have a code.
const MAX_PARTS: usize = 256;
/// Most bits of a left part.
const MAX_LEFT_BITS: u32 = 16;
/// One value of so many in the sample shows how to split.
const LOOKED_AT: usize = 4;
/// Fewer rows have no pattern to speak of.
const MIN_ROWS: usize = 64;
/// So many always have a code each.
const SAFE_LEFT_BITS: u32 = 8;

impl Encoding for AlpRd {
    fn id(&self) -> u8 {
        23
    }

    fn name(&self) -> &'static str {
        "AlpRd"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        let lanes = statistics.lanes()?;
        if !encoder.may_cascade() || statistics.rows < MIN_ROWS {
            return None;
        }
        let may_be_differences = encoder.may_cascade_below(1);
        let best_bits = encoder.best_bytes() * 8.0 / statistics.rows as f64;
        let (bits, most) = match lanes.fixed {
            Fixed::F32 => (value_bits(&lanes.sample::<u32>(), best_bits, may_be_differences)?, 32.0),
            Fixed::F64 => (value_bits(&lanes.sample::<u64>(), best_bits, may_be_differences)?, 64.0),
            _ => return None,
        };
        // Lanes that lie there as they are come out at once: a split has to save a bit at least.
        (bits + 1.0 < most).then(|| statistics.rows as f64 * bits / 8.0 + 40.0)
    }

    fn effort(&self) -> Effort {
        Effort::Some
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        match &statistics.column.values {
            Values::Fixed(Fixed::F32, Lanes::L32(lanes)) => encode(lanes, Fixed::U32, encoder).map(Some),
            Values::Fixed(Fixed::F64, Lanes::L64(lanes)) => encode(lanes, Fixed::U64, encoder).map(Some),
            _ => Ok(None),
        }
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        match opening.physical {
            Physical::Fixed(Fixed::F32) => open::<u32>(opening, Fixed::U32),
            Physical::Fixed(Fixed::F64) => open::<u64>(opening, Fixed::U64),
            other => Err(opening.corrupt(format!("can't hold {other}"))),
        }
    }
}

/// True where values take fewer than `best_bits` otherwise, which right bits neither have nor, as neighbours show, differences.
fn is_hopeless<T: PackedLane>(vectors: &[&[T]], best_bits: f64, may_be_differences: bool) -> bool {
    if best_bits >= f64::from(T::BITS - MAX_LEFT_BITS) {
        return false;
    }
    let middle = vectors.get(vectors.len() / 2).filter(|_| may_be_differences);
    !middle
        .is_some_and(|vector| plan(&differences(vector), true).size_bytes() * 8.0 / (vector.len() as f64) < best_bits)
}

/// Bits that a value takes, about: its code, and its right bits as they are or, of floats that rise by a few steps, their differences.
/// `None` where that can't be fewer than `best_bits`.
fn value_bits<T: PackedLane>(vectors: &[&[T]], best_bits: f64, may_be_differences: bool) -> Option<f64> {
    if is_hopeless(vectors, best_bits, may_be_differences) {
        return None;
    }
    let (right_bits, bits) = best_split(vectors)?;
    if !may_be_differences {
        return Some(bits);
    }
    let rows: usize = vectors.iter().map(|vector| vector.len()).sum();
    let bytes = |vector: &&[T]| plan(&differences(vector), true).size_bytes() + T::BYTES as f64;
    let difference_bits = vectors.iter().map(bytes).sum::<f64>() * 8.0 / rows as f64;
    Some(bits - f64::from(right_bits) + difference_bits.min(right_bits.into()))
}

/// The number of right bits at which these values take least, and the bits per value; `None` without values.
fn best_split<T: PackedLane>(vectors: &[&[T]]) -> Option<(u32, f64)> {
    let some = vectors.iter().flat_map(|vector| vector.iter().step_by(LOOKED_AT));
    let mut parts: Vec<u16> = some.map(|value| (value.to_u64() >> (T::BITS - MAX_LEFT_BITS)) as u16).collect();
    parts.sort_unstable();
    let mut best: Option<(u32, f64)> = None;
    for left_bits in SAFE_LEFT_BITS..=MAX_LEFT_BITS {
        let part = |part: &u16| part >> (MAX_LEFT_BITS - left_bits);
        let mut counts: Vec<usize> =
            parts.chunk_by(|left, right| part(left) == part(right)).map(|equal| equal.len()).collect();
        if counts.len() > MAX_PARTS || counts.is_empty() {
            break;
        }
        counts.sort_unstable_by(|left, right| right.cmp(left));
        let bits = f64::from(T::BITS - left_bits) + code_bits(&counts, parts.len());
        if best.is_none_or(|(_, least)| bits < least) {
            best = Some((T::BITS - left_bits, bits));
        }
    }
    best
}

/// Bits that the code of a value takes, where codes are given by falling count: packed, and rare ones as patches.
fn code_bits(counts: &[usize], rows: usize) -> f64 {
    const PATCH_BITS: f64 = 24.0;
    let packed = |width: u32| {
        let rare: usize = counts.iter().skip(1 << width).sum();
        f64::from(width) + rare as f64 * PATCH_BITS / rows as f64
    };
    (0..=SAFE_LEFT_BITS).map(packed).fold(f64::INFINITY, f64::min)
}

/// Left parts by falling count, if each may have a code.
fn left_parts<T: PackedLane>(lanes: &[T], right_bits: u32) -> Option<Vec<u16>> {
    let mut counts = vec![0u32; 1 << (T::BITS - right_bits)];
    lanes.iter().for_each(|lane| counts[(lane.to_u64() >> right_bits) as usize] += 1);
    let mut used: Vec<usize> = (0..counts.len()).filter(|&part| counts[part] > 0).collect();
    used.sort_by_key(|&part| std::cmp::Reverse(counts[part]));
    (used.len() <= MAX_PARTS).then(|| used.into_iter().map(|part| part as u16).collect())
}

fn encode<T: PackedLane + LaneAccess>(lanes: &[T], right: Fixed, encoder: &mut Encoder<'_>) -> Result<EncodedNode> {
    let best = best_split(&crate::chooser::sample_vectors(lanes)).map_or(T::BITS - SAFE_LEFT_BITS, |best| best.0);
    // The sample may have missed left parts: fewer left bits have fewer.
    let split = (best..=T::BITS - SAFE_LEFT_BITS).find_map(|bits| left_parts(lanes, bits).map(|parts| (bits, parts)));
    let (right_bits, mut parts) = split.unwrap_or_default();
    if parts.is_empty() {
        parts.push(0);
    }
    let mut code_of = vec![0; 1 << (T::BITS - right_bits)];
    parts.iter().enumerate().for_each(|(code, &part)| code_of[usize::from(part)] = code as u8);
    let (mut codes, mut rest) = (Vec::with_capacity(lanes.len()), Vec::with_capacity(lanes.len()));
    simd::split_parts(lanes, right_bits, &code_of, &mut codes, &mut rest);
    let mut parameters = vec![right_bits as u8, (parts.len() - 1) as u8];
    parts.iter().for_each(|part| parameters.extend_from_slice(&part.to_le_bytes()));
    let column = |values| Column { rows: lanes.len(), validity: None, values };
    let children = vec![
        encoder.child(&column(Values::Fixed(Fixed::U8, Lanes::L8(&codes))))?,
        encoder.child(&column(Values::Fixed(right, T::lanes(&rest))))?,
    ];
    Ok(EncodedNode { encoding: AlpRd.id(), rows: lanes.len(), parameters, buffers: Vec::new(), children })
}

fn open<T: PackedLane + LaneAccess>(opening: &Opening<'_>, right: Fixed) -> Result<Box<dyn Node>> {
    opening.shape(2, 0)?;
    opening.within_bounds(right.size_bytes())?;
    let (right_bits, parts) = opening.parameters(|reader| {
        let (right_bits, last) = (u32::from(reader.u8()?), usize::from(reader.u8()?));
        Ok((right_bits, reader.take((last + 1) * size_of::<u16>())?))
    })?;
    let left_bits = T::BITS.checked_sub(right_bits).filter(|bits| (1..=MAX_LEFT_BITS).contains(bits));
    let Some(left_bits) = left_bits else {
        return Err(opening.corrupt(format!("{right_bits} right bits")));
    };
    let mut left = LeftParts { parts: [0; MAX_PARTS], right_bits };
    for (slot, part) in left.parts.iter_mut().zip(parts.as_chunks().0) {
        *slot = u16::from_le_bytes(*part);
        if u64::from(*slot) >> left_bits != 0 {
            return Err(opening.corrupt(format!("a left part of more than {left_bits} bits")));
        }
    }
    let rows = opening.rows();
    let codes = opening.child(0, &Physical::Fixed(Fixed::U8), rows)?;
    let rest = opening.child(1, &Physical::Fixed(right), rows)?;
    Ok(Box::new(AlpRdNode::<T> { part_count: parts.len() / size_of::<u16>(), left, lane: PhantomData, codes, rest }))
}

struct AlpRdNode<T> {
    part_count: usize,
    left: LeftParts,
    lane: PhantomData<T>,
    codes: Box<dyn Node>,
    rest: Box<dyn Node>,
}

impl<T> fmt::Debug for AlpRdNode<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlpRdNode").field("codes", &self.codes).field("rest", &self.rest).finish_non_exhaustive()
    }
}

/// So many rows are decoded at a time: their parts are still at hand when they come together.
const STEP_ROWS: usize = 4 * VECTOR_ROWS;

impl<T: PackedLane + LaneAccess> AlpRdNode<T> {
    /// Appends the values of `codes` and of the right bits that `append` appends.
    fn append(
        &self,
        codes: &Decoded,
        out: &mut Decoded,
        append: impl FnOnce(&dyn Node, &mut Decoded) -> Result<()>,
    ) -> Result<()> {
        let before = lanes_mut::<T>(out)?.len();
        append(&*self.rest, out)?;
        let DecodedValues::L8(codes) = &codes.values else {
            return Err(Error::InvalidArgument("lanes of another width".into()));
        };
        if codes.iter().fold(0, |most, &code| code.max(most)) as usize >= self.part_count && !codes.is_empty() {
            return Err(Error::corrupt("node", 0, "AlpRd: a code that no left part has"));
        }
        simd::join_parts(&self.left, codes, &mut lanes_mut::<T>(out)?[before..]);
        Ok(())
    }
}

impl<T: PackedLane + LaneAccess> Node for AlpRdNode<T> {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        lanes_mut::<T>(out)?.reserve(rows.len() + VECTOR_ROWS);
        let mut codes = Decoded::new(&Physical::Fixed(Fixed::U8), Default::default());
        for step in grains(rows, STEP_ROWS.max(self.grain_rows())) {
            codes.clear();
            self.codes.decode(body, step.clone(), &mut codes)?;
            self.append(&codes, out, |rest, out| rest.decode(body, step, out))?;
        }
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let mut codes = Decoded::new(&Physical::Fixed(Fixed::U8), Default::default());
        self.codes.get(body, rows, &mut codes)?;
        self.append(&codes, out, |rest, out| rest.get(body, rows, out))
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.codes, &*self.rest]
    }

    fn describe(&self) -> String {
        format!("{} left parts, {} right bits", self.part_count, self.left.right_bits)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::chooser::EncodeOptions;
    use crate::random::Random;
    use crate::values::BytesForm;
    use crate::{Block, ChunkEncoder, Limits, Parts};

    /// Numbers as they are measured: of like magnitude, with every bit behind in use.
    fn real(random: &mut Random) -> f64 {
        (random.below(1 << 52) as f64 / (1u64 << 52) as f64 - 0.5) * 40.0
    }

    fn block(fixed: Fixed, lanes: Lanes<'_>) -> (Block, usize) {
        let column = Column { rows: lanes.len(), validity: None, values: Values::Fixed(fixed, lanes) };
        let mut chunk = ChunkEncoder::new(Physical::Fixed(fixed), EncodeOptions::default());
        let block = chunk.encode(&column, true, &mut |_| Ok(0)).unwrap();
        let size_bytes = block.bytes.len();
        (Block::open(Bytes::from(block.bytes), &Parts::new(), None, &Limits::default()).unwrap(), size_bytes)
    }

    fn decoded(block: &Block) -> DecodedValues {
        let mut out = Decoded::new(block.physical(), BytesForm::Offsets32);
        block.decode(0..block.rows(), &mut out).unwrap();
        out.values
    }

    #[test]
    fn real_doubles_and_floats_lose_a_good_part_of_their_exponents() {
        let mut random = Random::new(5);
        let mut doubles: Vec<u64> = (0..20_000).map(|_| real(&mut random).to_bits()).collect();
        // What no pattern has, rare enough.
        let odd =
            [f64::NAN, -0.0, f64::INFINITY, f64::MIN_POSITIVE, f64::MAX, f64::from_bits(1), f64::from_bits(u64::MAX)];
        odd.into_iter().enumerate().for_each(|(index, float)| doubles[index * 1500] = float.to_bits());
        let (found, size_bytes) = block(Fixed::F64, Lanes::L64(&doubles));
        assert!(found.cascade().words().starts_with("AlpRd("), "{}", found.cascade().words());
        assert!(size_bytes < 20_000 * 57 / 8, "{size_bytes} bytes");
        assert!(matches!(decoded(&found), DecodedValues::L64(lanes) if lanes == doubles));
        let floats: Vec<u32> = (0..20_000).map(|_| (real(&mut random) as f32).to_bits()).collect();
        let (found, size_bytes) = block(Fixed::F32, Lanes::L32(&floats));
        assert!(found.cascade().words().starts_with("AlpRd("), "{}", found.cascade().words());
        assert!(size_bytes < 20_000 * 28 / 8, "{size_bytes} bytes");
        assert!(matches!(decoded(&found), DecodedValues::L32(lanes) if lanes == floats));
    }

    #[test]
    fn bits_without_any_pattern_are_left_as_they_are() {
        let mut random = Random::new(6);
        let noise: Vec<u64> = (0..20_000).map(|_| random.next()).collect();
        assert!(!block(Fixed::F64, Lanes::L64(&noise)).0.cascade().words().contains("AlpRd"));
    }
}
