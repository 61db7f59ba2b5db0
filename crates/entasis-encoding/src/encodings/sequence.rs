//! Sequence: integers that rise or fall by the same step. See *Sequence* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ first value: v, z if signed │ step: z │
//! ```

use std::ops::Range;

use super::Encoding;
use super::node::{Node, Opening, lanes_mut};
use crate::aggregate::{Aggregates, Living, Reduction, aggregate_decoded};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::Result;
use crate::values::{Decoded, LaneAccess, Lanes, Values};
use crate::wire::{unzigzag, write_signed, write_varint, zigzag};
use crate::{Fixed, PackedLane, Physical, Scalar, simd, with_packed_lane_of};

pub(crate) struct Sequence;

impl Encoding for Sequence {
    fn id(&self) -> u8 {
        20
    }

    fn name(&self) -> &'static str {
        "Sequence"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        let lanes = statistics.lanes()?;
        if lanes.fixed.is_float() || statistics.rows < 2 {
            return None;
        }
        with_packed_lane_of!(lanes.fixed, T => {
            step(<T as LaneAccess>::lent(lanes.all())?)?;
            Some(8.0 + lanes.fixed.size_bytes() as f64)
        }, None)
    }

    fn encode(&self, statistics: &Statistics<'_>, _: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Fixed(fixed, lanes) = &column.values else { return Ok(None) };
        if fixed.is_float() {
            return Ok(None);
        }
        let parameters = match lanes {
            Lanes::L8(lanes) => parameters(lanes, fixed.is_signed()),
            Lanes::L16(lanes) => parameters(lanes, fixed.is_signed()),
            Lanes::L32(lanes) => parameters(lanes, fixed.is_signed()),
            Lanes::L64(lanes) => parameters(lanes, fixed.is_signed()),
            Lanes::L128(_) | Lanes::L256(_) => None,
        };
        Ok(parameters.map(|parameters| EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters,
            buffers: Vec::new(),
            children: Vec::new(),
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        let fixed = match opening.physical {
            Physical::Fixed(fixed) if !fixed.is_float() => *fixed,
            other => return Err(opening.corrupt(format!("can't hold {other}"))),
        };
        opening.shape(0, 0)?;
        opening.within_bounds(fixed.size_bytes())?;
        let (first, step) = opening.parameters(|reader| Ok((reader.varint()?, reader.signed()? as u64)))?;
        let first = if fixed.is_signed() { unzigzag(first) as u64 } else { first };
        with_packed_lane_of!(
            fixed,
            T => Ok(Box::new(SequenceNode::<T> { first: T::from_u64(first), step: T::from_u64(step) })),
            Err(opening.corrupt("lanes wider than 64 bits"))
        )
    }
}

/// By how much each value exceeds the one before (wrapping), if by the same.
fn step<T: PackedLane>(lanes: &[T]) -> Option<T> {
    let step = lanes.get(1).map_or(T::default(), |second| second.subtract(lanes[0]));
    simd::is_sequence(lanes, step).then_some(step)
}

fn parameters<T: PackedLane>(lanes: &[T], is_signed: bool) -> Option<Vec<u8>> {
    let step = step(lanes)?;
    let first = lanes.first().copied().unwrap_or_default();
    let mut parameters = Vec::new();
    write_varint(if is_signed { zigzag(signed(first)) } else { first.to_u64() }, &mut parameters);
    write_signed(signed(step), &mut parameters);
    Some(parameters)
}

/// A lane as a signed integer.
fn signed<T: PackedLane>(lane: T) -> i64 {
    let shift = 64 - T::BITS;
    ((lane.to_u64() << shift) as i64) >> shift
}

#[derive(Debug)]
struct SequenceNode<T> {
    first: T,
    step: T,
}

impl<T: PackedLane> SequenceNode<T> {
    fn value(&self, row: usize) -> T {
        self.first.add(T::from_u64(self.step.to_u64().wrapping_mul(row as u64)))
    }

    /// What is known of `count` rows, as integers, unless they wrap around.
    fn closed(&self, fixed: Fixed, start: usize, count: usize) -> Option<Aggregates> {
        let integer = |row: usize| match Scalar::from_lane(fixed, self.value(row).widen()) {
            Scalar::Int(value) => Some(value),
            _ => None,
        };
        let steps = count.checked_sub(1)?;
        let (first, last) = (integer(start)?, integer(start + steps)?);
        if first + i128::from(signed(self.step)) * steps as i128 != last {
            return None;
        }
        Some(Aggregates {
            count: count as u64,
            min: Some(Scalar::Int(first.min(last))),
            max: Some(Scalar::Int(first.max(last))),
            sum: Some((first + last) * count as i128 / 2),
            ..Aggregates::default()
        })
    }
}

impl<T: PackedLane + LaneAccess> Node for SequenceNode<T> {
    fn decode(&self, _: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        simd::sequence(self.value(rows.start), self.step, rows.len(), lanes_mut::<T>(out)?);
        out.extend_valid(rows.len());
        Ok(())
    }

    fn get(&self, _: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        lanes_mut::<T>(out)?.extend(rows.iter().map(|&row| self.value(row as usize)));
        out.extend_valid(rows.len());
        Ok(())
    }

    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        let known = match (alive, out.physical()) {
            (Living::All(count), Physical::Fixed(fixed)) => self.closed(*fixed, rows.start, count),
            _ => None,
        };
        let Some(found) = known else { return aggregate_decoded(self, body, rows, alive, out) };
        out.work.reduced_values += 1;
        out.merge(found);
        Ok(())
    }

    fn describe(&self) -> String {
        format!("step {}", signed(self.step))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::chooser::EncodeOptions;
    use crate::values::{BytesForm, Column, DecodedValues};
    use crate::{Block, ChunkEncoder, Limits, Parts};

    fn chosen(fixed: Fixed, lanes: Lanes<'_>) -> Block {
        let column = Column { rows: lanes.len(), validity: None, values: Values::Fixed(fixed, lanes) };
        let mut chunk = ChunkEncoder::new(Physical::Fixed(fixed), EncodeOptions::default());
        let block = chunk.encode(&column, true, &mut |_| Ok(0)).unwrap();
        assert!(block.bytes.len() < 80, "{} bytes", block.bytes.len());
        Block::open(Bytes::from(block.bytes), &Parts::new(), None, &Limits::default()).unwrap()
    }

    #[test]
    fn regular_integers_are_taken_whatever_their_step() {
        for (first, step) in
            [(i64::MIN, 1), (0, -7), (i64::MAX - 3, 2), (-1, i64::MIN), (1_700_000_000_000, 60_000), (5, i64::MAX)]
        {
            let values: Vec<u64> =
                (0..70_000 / 3).map(|row| first.wrapping_add(step.wrapping_mul(row)) as u64).collect();
            let block = chosen(Fixed::I64, Lanes::L64(&values));
            assert_eq!(block.cascade().words(), "Sequence", "{first} by {step}");
            let mut out = Decoded::new(block.physical(), BytesForm::Offsets32);
            block.decode(1000..values.len(), &mut out).unwrap();
            block.get(&[7, 0, 20_000], &mut out).unwrap();
            let expected = [&values[1000..], &[values[7], values[0], values[20_000]]].concat();
            assert!(matches!(out.values, DecodedValues::L64(found) if found == expected), "{first} by {step}");
        }
    }

    #[test]
    fn narrow_lanes_wrap_and_decimals_cascade() {
        let bytes: Vec<u8> = (0..3000u32).map(|row| (250 + row * 3) as u8).collect();
        assert_eq!(chosen(Fixed::U8, Lanes::L8(&bytes)).cascade().words(), "Sequence");
        let decimals: Vec<u128> = (0..3000).map(|row| (-5000 + row * 25i128) as u128).collect();
        assert_eq!(chosen(Fixed::I128, Lanes::L128(&decimals)).cascade().words(), "Narrow(Sequence)");
        let floats: Vec<u64> = (0..3000).map(|row| (f64::from(row) * 0.25).to_bits()).collect();
        assert_eq!(chosen(Fixed::F64, Lanes::L64(&floats)).cascade().words(), "Alp(Sequence)");
    }
}
