//! Null: a column of the null type; there is nothing to store. See *Null* in `spec/encodings.md`.

use std::ops::Range;

use super::Encoding;
use super::node::{Node, Opening};
use crate::Physical;
use crate::aggregate::{Living, Reduction};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::Result;
use crate::filter::{AskCount, FilterWork, Question};
use crate::values::{BitBuffer, Decoded, Values};

pub(crate) struct Null;

impl Encoding for Null {
    fn id(&self) -> u8 {
        17
    }

    fn name(&self) -> &'static str {
        "Null"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        matches!(statistics.column.values, Values::Null).then_some(0.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, _: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        Ok(matches!(column.values, Values::Null).then(|| EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters: Vec::new(),
            buffers: Vec::new(),
            children: Vec::new(),
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if *opening.physical != Physical::Null {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        }
        opening.shape(0, 0)?;
        opening.parameters(|_| Ok(()))?;
        Ok(Box::new(NullNode))
    }
}

#[derive(Debug)]
struct NullNode;

impl Node for NullNode {
    fn decode(&self, _: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        out.rows += rows.len();
        Ok(())
    }

    fn filter(
        &self,
        _: &Body,
        rows: Range<usize>,
        question: &Question,
        _: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        out.extend_constant(question.nulls, rows.len());
        Ok(())
    }

    fn ask_count(&self, _: usize, _: &Question) -> AskCount {
        AskCount::default()
    }

    fn aggregate(&self, _: &Body, _: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        out.nulls(alive.count());
        Ok(())
    }
}
