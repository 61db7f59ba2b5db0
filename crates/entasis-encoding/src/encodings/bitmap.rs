//! Bitmap: booleans, one bit each. See *Bitmap* in `spec/encodings.md`.
//!
//! ```text
//! buffer 0: │ bits 0–7 │ bits 8–15 │ … │   least significant first; bits past the end are 0
//! ```

use std::ops::Range;

use super::Encoding;
use super::node::{Node, Opening};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::filter::{FilterWork, Question, Test, extend_equal, filter_decoded};
use crate::values::{BitBuffer, Bits, Decoded, DecodedValues, Values};
use crate::{Physical, values};

pub(crate) struct Bitmap;

impl Encoding for Bitmap {
    fn id(&self) -> u8 {
        4
    }

    fn name(&self) -> &'static str {
        "Bitmap"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        matches!(statistics.column.values, Values::Bool(_)).then_some(statistics.rows as f64 / 8.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, _: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Bool(bits) = &column.values else { return Ok(None) };
        let mut buffer = BitBuffer::default();
        buffer.extend_bits(*bits);
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters: Vec::new(),
            buffers: vec![buffer.into_bytes()],
            children: Vec::new(),
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if *opening.physical != Physical::Bool {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        }
        opening.shape(0, 1)?;
        opening.parameters(|_| Ok(()))?;
        opening.within_bounds(4)?;
        let buffer = opening.buffer_of(0, Some(opening.rows().div_ceil(8)))?;
        Ok(Box::new(BitmapNode { buffer }))
    }
}

#[derive(Debug)]
struct BitmapNode {
    buffer: usize,
}

impl Node for BitmapNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let bytes = body.buffer(self.buffer, rows.start / 8..rows.end.div_ceil(8))?;
        bits_mut(out)?.extend_bits(Bits::new(bytes, rows.start % 8, rows.len()));
        out.extend_valid(rows.len());
        Ok(())
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let Test::Bool { set, .. } = question.test else {
            return filter_decoded(self, body, rows, question, work, out);
        };
        work.compared_values += rows.len() as u64;
        let bytes = body.buffer(self.buffer, rows.start / 8..rows.end.div_ceil(8))?;
        extend_equal(Bits::new(bytes, rows.start % 8, rows.len()), set, out);
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let bits = bits_mut(out)?;
        for &row in rows {
            let byte = row as usize / 8;
            bits.push(body.buffer(self.buffer, byte..byte + 1)?[0] >> (row % 8) & 1 == 1);
        }
        out.extend_valid(rows.len());
        Ok(())
    }
}

/// The bits of `out`, which the caller says are booleans.
pub(crate) fn bits_mut(out: &mut Decoded) -> Result<&mut values::BitBuffer> {
    match &mut out.values {
        DecodedValues::Bool(bits) => Ok(bits),
        _ => Err(Error::InvalidArgument("output of another physical type".into())),
    }
}
