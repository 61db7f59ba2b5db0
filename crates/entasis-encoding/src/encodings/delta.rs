//! Delta: differences between neighbours, each vector from a first value of its own. See *Delta* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ first value of each vector: lane entries │
//! child 0: differences, signed, as many as rows; the one at a vector's first row is ignored
//! ```

use std::ops::Range;

use super::Encoding;
use super::bitpack::{plan, read_lane_entries, write_lane_entries};
use super::node::{Node, Opening, grains, lanes_mut, vectors_of};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::promised::Recurrence;
use crate::chooser::{Encoder, Statistics};
use crate::error::Result;
use crate::values::{Column, Decoded, LaneAccess, Values};
use crate::{Fixed, Lanes, PackedLane, Physical, VECTOR_ROWS, simd, with_packed_lane_of};

pub(crate) struct Delta;

/// Half of a sample that promises so many times the best so far isn't looked at further.
const HOPELESS: f64 = 1.2;

impl Encoding for Delta {
    fn id(&self) -> u8 {
        8
    }

    fn name(&self) -> &'static str {
        "Delta"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        let lanes = statistics.lanes()?;
        if lanes.fixed.is_float() || !encoder.may_cascade() || statistics.rows < 8 {
            return None;
        }
        with_packed_lane_of!(lanes.fixed, T => {
            let sample = lanes.sample::<T>();
            let packed_bytes = |vectors: &[Vec<T>]| vectors.iter().map(|vector| plan(vector, true).size_bytes()).sum::<f64>();
            let predicted = |bytes: f64, rows: usize| {
                let firsts = statistics.rows.div_ceil(VECTOR_ROWS) * lanes.fixed.size_bytes();
                bytes * statistics.rows as f64 / rows.max(1) as f64 + 16.0 + firsts as f64
            };
            // Half of the sample shows where there is no hope.
            let mut vectors: Vec<Vec<T>> = sample.iter().step_by(2).map(|vector| differences(vector)).collect();
            let rows: usize = vectors.iter().map(Vec::len).sum();
            let mut packed = packed_bytes(&vectors);
            let recurrence = Recurrence::of(&vectors);
            let may_promise_less = |packed: f64, rows: usize| {
                encoder.may_promise_less(statistics, recurrence, packed * 8.0 / rows.max(1) as f64)
            };
            if predicted(packed, rows) > encoder.best_bytes() * HOPELESS && !may_promise_less(packed, rows) {
                return Some(predicted(packed, rows));
            }
            // In the order of the column: neighbours are packed together.
            for index in (1..sample.len()).step_by(2) {
                vectors.insert(index, differences(sample[index]));
                packed += packed_bytes(&vectors[index..=index]);
            }
            let rows = vectors.iter().map(Vec::len).sum();
            let bytes = match may_promise_less(packed, rows) {
                true => encoder.promised_for(statistics, lanes.fixed.to_signed(), &vectors, packed),
                false => packed,
            };
            Some(predicted(bytes, rows))
        }, None)
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Fixed(fixed, lanes) = &column.values else { return Ok(None) };
        if fixed.is_float() {
            return Ok(None);
        }
        match lanes {
            Lanes::L8(lanes) => encode(lanes, *fixed, encoder).map(Some),
            Lanes::L16(lanes) => encode(lanes, *fixed, encoder).map(Some),
            Lanes::L32(lanes) => encode(lanes, *fixed, encoder).map(Some),
            Lanes::L64(lanes) => encode(lanes, *fixed, encoder).map(Some),
            Lanes::L128(_) | Lanes::L256(_) => Ok(None),
        }
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        let fixed = match opening.physical {
            Physical::Fixed(fixed) if !fixed.is_float() && fixed.size_bytes() <= 8 => *fixed,
            other => return Err(opening.corrupt(format!("can't hold {other}"))),
        };
        opening.shape(1, 0)?;
        opening.within_bounds(fixed.size_bytes())?;
        let differences = opening.child(0, &Physical::Fixed(fixed.to_signed()), opening.rows())?;
        with_packed_lane_of!(fixed, T => {
            let firsts = opening.parameters(|reader| read_lane_entries::<T>(reader, opening.vectors(), fixed.is_signed()))?;
            Ok(Box::new(DeltaNode { firsts, differences }))
        }, Err(opening.corrupt("lanes wider than 64 bits")))
    }
}

/// Each value less the one before it; the first is given the second's difference, so that it costs nothing.
pub(crate) fn differences<T: PackedLane>(values: &[T]) -> Vec<T> {
    let mut differences = Vec::new();
    set_differences(values, &mut differences);
    differences
}

/// Replaces what is in `differences` by those of these values.
pub(crate) fn set_differences<T: PackedLane>(values: &[T], differences: &mut Vec<T>) {
    differences.clear();
    differences.reserve(values.len());
    if let [first, second, ..] = values {
        differences.push(second.subtract(*first));
        differences.extend(values.iter().zip(&values[1..]).map(|(value, next)| next.subtract(*value)));
    } else {
        differences.resize(values.len(), T::default());
    }
}

fn encode<T: PackedLane + LaneAccess>(lanes: &[T], fixed: Fixed, encoder: &mut Encoder<'_>) -> Result<EncodedNode> {
    let mut parameters = Vec::new();
    write_lane_entries(lanes.iter().step_by(VECTOR_ROWS).copied(), fixed.is_signed(), &mut parameters);
    // The difference across a vector's edge is kept as it is: in a regular series it equals all others.
    let differences = differences(lanes);
    let values = Values::Fixed(fixed.to_signed(), T::lanes(&differences));
    let child = encoder.child(&Column { rows: lanes.len(), validity: None, values })?;
    Ok(EncodedNode { encoding: Delta.id(), rows: lanes.len(), parameters, buffers: Vec::new(), children: vec![child] })
}

#[derive(Debug)]
struct DeltaNode<T> {
    firsts: Vec<T>,
    differences: Box<dyn Node>,
}

impl<T: PackedLane + LaneAccess> Node for DeltaNode<T> {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        // What lies behind the rows asked for needs no sums.
        let skipped = rows.start % VECTOR_ROWS;
        let (lanes_before, rows_before) = (lanes_mut::<T>(out)?.len(), out.rows);
        for needed in grains(rows.start - skipped..rows.end, self.differences.grain_rows()) {
            let before = lanes_mut::<T>(out)?.len();
            self.differences.decode(body, needed.clone(), out)?;
            let vectors = lanes_mut::<T>(out)?[before..].chunks_mut(VECTOR_ROWS);
            for (vector, lanes) in vectors_of(&needed).zip(vectors) {
                simd::prefix_sum(self.firsts[vector], lanes);
            }
        }
        if skipped > 0 {
            lanes_mut::<T>(out)?.drain(lanes_before..lanes_before + skipped);
            out.rows = rows_before + rows.len();
        }
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.differences]
    }
}
