//! Validity: which rows are null, beside the values. See *Validity* in `spec/encodings.md`.
//!
//! ```text
//! child 0: boolean, set where there is a value       child 1: the values, of any kind; arbitrary under nulls
//! ```

use std::ops::Range;

use super::Encoding;
use super::bitmap::bits_mut;
use super::node::{Node, Opening};
use crate::Physical;
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::Result;
use crate::values::{BitBuffer, Column, Decoded, DecodedValues, Values};

pub(crate) struct Validity;

impl Encoding for Validity {
    fn id(&self) -> u8 {
        3
    }

    fn name(&self) -> &'static str {
        "Validity"
    }

    fn predicted_bytes(&self, _: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        // The chooser never weighs it: a column has nulls or it doesn't.
        None
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Some(validity) = column.validity else { return Ok(None) };
        let bits = Column { rows: column.rows, validity: None, values: Values::Bool(validity) };
        let children = vec![encoder.child(&bits)?, encoder.filled(column, validity)?];
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters: Vec::new(),
            buffers: Vec::new(),
            children,
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if !opening.nullable {
            return Err(opening.corrupt("stands where nulls can't be"));
        }
        opening.shape(2, 0)?;
        opening.parameters(|_| Ok(()))?;
        let rows = opening.rows();
        let inner = Opening { nullable: false, ..*opening };
        Ok(Box::new(ValidityNode {
            validity: inner.child(0, &Physical::Bool, rows)?,
            values: inner.child(1, opening.physical, rows)?,
        }))
    }
}

#[derive(Debug)]
struct ValidityNode {
    validity: Box<dyn Node>,
    values: Box<dyn Node>,
}

impl ValidityNode {
    /// Appends what `values` appends, with the validity that `validity` appends.
    fn append(
        &self,
        out: &mut Decoded,
        values: impl FnOnce(&dyn Node, &mut Decoded) -> Result<()>,
        validity: impl FnOnce(&dyn Node, &mut Decoded) -> Result<()>,
    ) -> Result<()> {
        let before = out.validity.take().unwrap_or_else(|| {
            let mut bits = BitBuffer::default();
            bits.extend_constant(true, out.rows);
            bits
        });
        values(&*self.values, out)?;
        let mut bits = Decoded { rows: before.len(), validity: None, values: DecodedValues::Bool(before) };
        validity(&*self.validity, &mut bits)?;
        out.validity = Some(std::mem::take(bits_mut(&mut bits)?));
        Ok(())
    }
}

impl Node for ValidityNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let bits = rows.clone();
        self.append(out, |values, out| values.decode(body, rows, out), |validity, out| validity.decode(body, bits, out))
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        self.append(out, |values, out| values.get(body, rows, out), |validity, out| validity.get(body, rows, out))
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.validity, &*self.values]
    }
}
