//! Constant: one value for every row. See *Constant* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ the value: a lane, one byte (0 or 1) for a boolean, or the bytes of a byte string │
//! ```

use std::ops::Range;

use super::Encoding;
use super::node::{Node, Opening, lanes_mut};
use super::strings::extend_repeated;
use crate::aggregate::{Living, Reduction};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::Result;
use crate::filter::{AskCount, FilterWork, Question};
use crate::values::{BitBuffer, Decoded, DecodedValues, LaneAccess, Values};
use crate::{Lane, Physical, Scalar, with_lane_of, with_lanes};

pub(crate) struct Constant;

/// Longer byte strings are left to other encodings, so that heads stay small.
const MAX_VALUE_BYTES: usize = 1024;

impl Encoding for Constant {
    fn id(&self) -> u8 {
        2
    }

    fn name(&self) -> &'static str {
        "Constant"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        statistics.is_constant().then_some(8.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, _: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        if column.rows == 0 {
            return Ok(None);
        }
        let mut parameters = Vec::new();
        let constant = match &column.values {
            Values::Bool(bits) => {
                parameters.push(u8::from(bits.get(0)));
                let ones = bits.count_ones();
                ones == 0 || ones == column.rows
            }
            Values::Fixed(_, lanes) => with_lanes!(lanes, lanes => {
                lanes[0].write(&mut parameters);
                statistics.is_constant()
            }),
            Values::Bytes(strings) => {
                parameters.extend_from_slice(&strings[0][..strings[0].len().min(MAX_VALUE_BYTES)]);
                strings[0].len() <= MAX_VALUE_BYTES && statistics.is_constant()
            }
            _ => false,
        };
        Ok(constant.then(|| EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters,
            buffers: Vec::new(),
            children: Vec::new(),
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        opening.shape(0, 0)?;
        let value = opening.parameters(|reader| reader.take(reader.remaining()))?;
        let wrong = || opening.corrupt(format!("{} bytes of value for {}", value.len(), opening.physical));
        match opening.physical {
            Physical::Bool => match value {
                [bit @ (0 | 1)] => {
                    opening.within_bounds(4)?;
                    Ok(Box::new(ConstantBit(*bit == 1)))
                }
                _ => Err(wrong()),
            },
            Physical::Fixed(fixed) if value.len() == fixed.size_bytes() => {
                opening.within_bounds(fixed.size_bytes())?;
                Ok(with_lane_of!(*fixed, T => Box::new(ConstantLane(<T as Lane>::read(value)))))
            }
            Physical::Bytes => {
                opening.within_bounds(value.len())?;
                Ok(Box::new(ConstantBytes(value.to_vec())))
            }
            _ => Err(wrong()),
        }
    }
}

#[derive(Debug)]
struct ConstantBit(bool);

impl Node for ConstantBit {
    fn decode(&self, _: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        super::bitmap::bits_mut(out)?.extend_constant(self.0, rows.len());
        out.extend_valid(rows.len());
        Ok(())
    }

    fn filter(
        &self,
        _: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        work.compared_values += 1;
        out.extend_constant(question.passes_bool(self.0, work)?, rows.len());
        Ok(())
    }

    fn ask_count(&self, _: usize, _: &Question) -> AskCount {
        AskCount { own: 1, shared: 0 }
    }

    fn aggregate(&self, _: &Body, _: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        out.work.reduced_values += 1;
        out.repeated(Scalar::Bool(self.0), alive.count());
        Ok(())
    }

    fn describe(&self) -> String {
        self.0.to_string()
    }
}

#[derive(Debug)]
struct ConstantLane<T>(T);

impl<T: LaneAccess> Node for ConstantLane<T> {
    fn decode(&self, _: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let lanes = lanes_mut::<T>(out)?;
        lanes.resize(lanes.len() + rows.len(), self.0);
        out.extend_valid(rows.len());
        Ok(())
    }

    fn filter(
        &self,
        _: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        work.compared_values += 1;
        out.extend_constant(question.passes_lane(self.0, work)?, rows.len());
        Ok(())
    }

    fn ask_count(&self, _: usize, _: &Question) -> AskCount {
        AskCount { own: 1, shared: 0 }
    }

    fn aggregate(&self, _: &Body, _: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        out.work.reduced_values += 1;
        out.repeated_lane(self.0, alive.count());
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        self.decode(body, 0..rows.len(), out)
    }
}

#[derive(Debug)]
struct ConstantBytes(Vec<u8>);

impl Node for ConstantBytes {
    fn decode(&self, _: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let DecodedValues::Bytes(bytes) = &mut out.values else {
            return Err(super::strings::not_bytes());
        };
        extend_repeated(bytes, &self.0, rows.len())?;
        out.extend_valid(rows.len());
        Ok(())
    }

    fn filter(
        &self,
        _: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        work.compared_values += 1;
        out.extend_constant(question.passes_bytes(&self.0, work)?, rows.len());
        Ok(())
    }

    fn ask_count(&self, _: usize, _: &Question) -> AskCount {
        AskCount { own: 1, shared: 0 }
    }

    fn aggregate(&self, _: &Body, _: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        out.work.reduced_values += 1;
        out.repeated(Scalar::Bytes(self.0.clone()), alive.count());
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        self.decode(body, 0..rows.len(), out)
    }
}
