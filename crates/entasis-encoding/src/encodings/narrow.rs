//! Narrow: 128- and 256-bit integers that fit 64 bits, as those. See *Narrow* in `spec/encodings.md`.
//!
//! ```text
//! child 0: signed 64-bit integers, sign-extended when decoded
//! ```

use std::marker::PhantomData;
use std::ops::Range;

use super::Encoding;
use super::node::{Node, Opening, decode_child, lanes_mut};
use crate::aggregate::{Living, Reduction};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::filter::{FilterWork, Question, Test, filter_decoded};
use crate::values::{BitBuffer, Column, Decoded, DecodedValues, LaneAccess, Lanes, Values};
use crate::{Fixed, Physical, U256, VECTOR_ROWS};

pub(crate) struct Narrow;

impl Encoding for Narrow {
    fn id(&self) -> u8 {
        12
    }

    fn name(&self) -> &'static str {
        "Narrow"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        let lanes = statistics.lanes()?;
        if !encoder.may_cascade() || !matches!(lanes.fixed, Fixed::I128 | Fixed::I256) {
            return None;
        }
        narrowed(lanes.all())?;
        // What the child then costs is its own matter; at most 8 bytes, usually far less than any other encoding here.
        Some(statistics.rows as f64 * 3.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Fixed(Fixed::I128 | Fixed::I256, lanes) = &column.values else { return Ok(None) };
        let Some(narrow) = narrowed(lanes) else { return Ok(None) };
        let values = Values::Fixed(Fixed::I64, Lanes::L64(&narrow));
        let lanes = Column { rows: column.rows, validity: None, values };
        let child = encoder.child_as_distinct(statistics, 0, &lanes)?;
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters: Vec::new(),
            buffers: Vec::new(),
            children: vec![child],
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        opening.shape(1, 0)?;
        opening.parameters(|_| Ok(()))?;
        let child = || opening.child(0, &Physical::Fixed(Fixed::I64), opening.rows());
        match opening.physical {
            Physical::Fixed(Fixed::I128) => {
                opening.within_bounds(16)?;
                Ok(Box::new(NarrowNode::<u128> { child: child()?, lane: PhantomData }))
            }
            Physical::Fixed(Fixed::I256) => {
                opening.within_bounds(32)?;
                Ok(Box::new(NarrowNode::<U256> { child: child()?, lane: PhantomData }))
            }
            other => Err(opening.corrupt(format!("can't hold {other}"))),
        }
    }
}

/// The low 64 bits of each value, if every value is their sign extension.
fn narrowed(lanes: &Lanes<'_>) -> Option<Vec<u64>> {
    fn all<T: Extend64>(lanes: &[T]) -> Option<Vec<u64>> {
        lanes.iter().map(|&lane| Some(lane.low()).filter(|&low| T::extended(low) == lane)).collect()
    }
    match lanes {
        Lanes::L128(lanes) => all(lanes),
        Lanes::L256(lanes) => all(lanes),
        _ => None,
    }
}

/// Sign extension from 64 bits.
trait Extend64: LaneAccess {
    fn low(self) -> u64;
    fn extended(low: u64) -> Self;
}

impl Extend64 for u128 {
    fn low(self) -> u64 {
        self as u64
    }

    fn extended(low: u64) -> Self {
        i128::from(low as i64) as u128
    }
}

impl Extend64 for U256 {
    fn low(self) -> u64 {
        self.low as u64
    }

    fn extended(low: u64) -> Self {
        U256 { low: u128::extended(low), high: if (low as i64) < 0 { u128::MAX } else { 0 } }
    }
}

#[derive(Debug)]
struct NarrowNode<T> {
    child: Box<dyn Node>,
    lane: PhantomData<T>,
}

impl<T: Extend64> NarrowNode<T> {
    fn append(&self, narrow: &Decoded, out: &mut Decoded) -> Result<()> {
        let DecodedValues::L64(narrow) = &narrow.values else {
            return Err(Error::InvalidArgument("lanes of another width".into()));
        };
        lanes_mut::<T>(out)?.extend(narrow.iter().map(|&low| T::extended(low)));
        out.extend_valid(narrow.len());
        Ok(())
    }
}

impl<T: Extend64> Node for NarrowNode<T> {
    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        out.integers((&*self.child, Fixed::I64), body, rows, alive, T::extended)
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let Test::Lanes(intervals) = &question.test else {
            return filter_decoded(self, body, rows, question, work, out);
        };
        let narrow = work.made(self, |_| {
            let test = Test::of_intervals(intervals.narrowed());
            Ok(Question::new(test, false, Physical::Fixed(Fixed::I64)))
        })?;
        self.child.filter(body, rows, &narrow, work, out)
    }

    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let mut start = rows.start;
        while start < rows.end {
            let end = ((start / VECTOR_ROWS + 4) * VECTOR_ROWS).min(rows.end);
            self.append(&decode_child(&*self.child, &Physical::Fixed(Fixed::I64), body, start..end)?, out)?;
            start = end;
        }
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let mut narrow = Decoded::new(&Physical::Fixed(Fixed::I64), Default::default());
        self.child.get(body, rows, &mut narrow)?;
        self.append(&narrow, out)
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.child]
    }
}
