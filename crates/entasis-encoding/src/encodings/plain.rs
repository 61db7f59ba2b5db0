//! Plain: lanes as they are. See *Plain* in `spec/encodings.md`.
//!
//! ```text
//! buffer 0: │ lane 0 │ lane 1 │ … │ lane rows − 1 │   little-endian
//! ```

use std::marker::PhantomData;
use std::ops::Range;

use bytes::Bytes;

use super::Encoding;
use super::node::{Node, Opening, lanes_mut};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::Result;
use crate::values::{Decoded, LaneAccess, Values};
use crate::{Physical, with_lane_of, with_lanes};

pub(crate) struct Plain;

impl Encoding for Plain {
    fn id(&self) -> u8 {
        1
    }

    fn name(&self) -> &'static str {
        "Plain"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        let lanes = statistics.lanes()?;
        Some((statistics.rows * lanes.fixed.size_bytes()) as f64)
    }

    fn encode(&self, statistics: &Statistics<'_>, _: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Fixed(fixed, lanes) = &column.values else { return Ok(None) };
        let mut buffer = Vec::with_capacity(column.rows * fixed.size_bytes());
        with_lanes!(lanes, lanes => lanes.iter().for_each(|&lane| crate::Lane::write(lane, &mut buffer)));
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters: Vec::new(),
            buffers: vec![buffer],
            children: Vec::new(),
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        let Physical::Fixed(fixed) = opening.physical else {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        };
        opening.shape(0, 1)?;
        opening.parameters(|_| Ok(()))?;
        opening.within_bounds(fixed.size_bytes())?;
        let buffer = opening.buffer_of(0, opening.rows().checked_mul(fixed.size_bytes()))?;
        Ok(with_lane_of!(*fixed, T => Box::new(PlainNode::<T> { buffer, lane: PhantomData })))
    }
}

#[derive(Debug)]
struct PlainNode<T> {
    buffer: usize,
    lane: PhantomData<T>,
}

impl<T: LaneAccess> Node for PlainNode<T> {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let bytes = body.buffer(self.buffer, rows.start * T::BYTES..rows.end * T::BYTES)?;
        lanes_mut::<T>(out)?.extend(bytes.chunks_exact(T::BYTES).map(T::read));
        out.extend_valid(rows.len());
        Ok(())
    }

    fn lend(&self, body: &Body, rows: Range<usize>) -> Result<Option<Bytes>> {
        body.lend(self.buffer, rows.start * T::BYTES..rows.end * T::BYTES).map(Some)
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let lanes = lanes_mut::<T>(out)?;
        for &row in rows {
            let start = row as usize * T::BYTES;
            lanes.push(T::read(body.buffer(self.buffer, start..start + T::BYTES)?));
        }
        out.extend_valid(rows.len());
        Ok(())
    }
}
