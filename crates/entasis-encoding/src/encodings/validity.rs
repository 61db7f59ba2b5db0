//! Validity: which rows are null, beside the values. See *Validity* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 flags: bit 0 packed │ if packed: entry points: number of values before each vector │
//! child 0: boolean, set where there is a value       child 1: the values: if packed without the nulls, else arbitrary there
//! ```

use std::ops::Range;

use super::Encoding;
use super::bitmap::bits_mut;
use super::node::{Node, Opening, pick_decoded};
use super::ranked::{Ranked, ranks};
use crate::aggregate::{Living, Reduction};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::filter::{AskCount, FilterWork, Question, merge_nulls};
use crate::values::{BitBuffer, Bits, BytesForm, Column, Decoded, DecodedBytes, DecodedValues, Values};
use crate::wire::EntryPoints;
use crate::{Physical, simd, with_decoded_lanes};

pub(crate) struct Validity;

const PACKED: u8 = 1;

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
        let which = encoder.child(&bits)?;
        let mut parameters = Vec::new();
        let values = if pays_to_pack(&column.values, column.rows, validity) {
            parameters.push(PACKED);
            EntryPoints::write(&ranks(validity), &mut parameters);
            encoder.packed(column, validity)?
        } else {
            parameters.push(0);
            encoder.filled(column, validity)?
        };
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters,
            buffers: Vec::new(),
            children: vec![which, values],
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if !opening.nullable {
            return Err(opening.corrupt("stands where nulls can't be"));
        }
        opening.shape(2, 0)?;
        opening.known_flags(0, PACKED)?;
        let ranks = opening.parameters(|reader| match reader.u8()? {
            PACKED => EntryPoints::read(reader, opening.vectors()).map(Some),
            _ => Ok(None),
        })?;
        let rows = opening.rows();
        let inner = Opening { nullable: false, ..*opening };
        let Some(ranks) = ranks else {
            let validity = inner.child(0, &Physical::Bool, rows)?;
            return Ok(Box::new(ValidityNode { validity, values: inner.child(1, opening.physical, rows)? }));
        };
        if !can_pack(opening.physical) {
            return Err(opening.corrupt(format!("can't pack {}", opening.physical)));
        }
        let ranked = Ranked::open(&inner, ranks)?;
        let values = inner.child(1, opening.physical, ranked.value_count())?;
        Ok(Box::new(PackedNode { ranked, values }))
    }
}

/// Types whose values may be stored without the nulls.
fn can_pack(physical: &Physical) -> bool {
    matches!(physical, Physical::Bool | Physical::Fixed(_) | Physical::Bytes)
}

/// Whether leaving out what lies under nulls saves more than spreading the values again costs: strings gain at once, lanes
/// when a good part of their bits goes.
fn pays_to_pack(values: &Values<'_>, rows: usize, validity: Bits<'_>) -> bool {
    let nulls = rows - validity.count_ones();
    can_pack(&values.physical())
        && match values {
            Values::Bytes(_) => nulls * 16 >= rows,
            Values::Bool(_) => nulls * 2 >= rows,
            _ => nulls * 8 >= rows,
        }
}

/// Takes the validity of `out`, all set where none was kept.
fn take_validity(out: &mut Decoded) -> BitBuffer {
    out.validity.take().unwrap_or_else(|| {
        let mut bits = BitBuffer::default();
        bits.extend_constant(true, out.rows);
        bits
    })
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
        let before = take_validity(out);
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

    fn pick(&self, body: &Body, rows: Range<usize>, picked: &[u32], out: &mut Decoded) -> Result<()> {
        let bits = rows.clone();
        self.append(
            out,
            |values, out| values.pick(body, rows, picked, out),
            |validity, out| validity.pick(body, bits, picked, out),
        )
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        self.append(out, |values, out| values.get(body, rows, out), |validity, out| validity.get(body, rows, out))
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        let mut validity = Decoded::new(&Physical::Bool, BytesForm::Offsets32);
        self.validity.decode(body, rows.clone(), &mut validity)?;
        let mut found = BitBuffer::default();
        self.values.filter(body, rows, question, work, &mut found)?;
        merge_nulls(found.bits(), bits_mut(&mut validity)?.bits(), question.nulls, out);
        Ok(())
    }

    fn ask_living(
        &self,
        body: &Body,
        rows: Range<usize>,
        alive: Living<'_>,
        question: &Question,
        work: &mut FilterWork,
    ) -> Result<bool> {
        self.values.ask_living(body, rows, alive, question, work)
    }

    fn ask_count(&self, rows: usize, question: &Question) -> AskCount {
        self.values.ask_count(rows, question)
    }

    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        let mut validity = Decoded::new(&Physical::Bool, BytesForm::Offsets32);
        self.validity.decode(body, rows.clone(), &mut validity)?;
        let valid = alive.and(bits_mut(&mut validity)?.bits());
        let valid = Living::of(&valid);
        out.nulls(alive.count() - valid.count());
        out.values(&*self.values, body, rows, valid)
    }

    fn few(&self) -> usize {
        self.values.few()
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.validity, &*self.values]
    }
}

/// Values without the nulls.
#[derive(Debug)]
struct PackedNode {
    ranked: Ranked,
    values: Box<dyn Node>,
}

impl PackedNode {
    /// Appends the rows whose validity is `bits` once `values` has appended the values among them.
    fn append(
        &self,
        bits: Bits<'_>,
        out: &mut Decoded,
        values: impl FnOnce(&dyn Node, &mut Decoded) -> Result<()>,
    ) -> Result<()> {
        let mut validity = take_validity(out);
        let rows = out.rows;
        values(&*self.values, out)?;
        if out.rows - rows != bits.count_ones() {
            return Err(bad_ranks());
        }
        spread(&mut out.values, rows, bits);
        validity.extend_bits(bits);
        out.rows = rows + bits.len();
        out.validity = Some(validity);
        Ok(())
    }
}

fn bad_ranks() -> Error {
    Error::corrupt("node", 0, "Validity: ranks that don't agree with the nulls")
}

/// Spreads the values from row `start` on over the rows whose bits are set.
fn spread(values: &mut DecodedValues, start: usize, bits: Bits<'_>) {
    match values {
        DecodedValues::Bool(packed) => {
            let taken: BitBuffer = std::mem::take(packed);
            packed.extend_bits(taken.bits().slice(0, start));
            let mut rank = start;
            for row in (0..bits.len()).step_by(64) {
                let mask = bits.word(row);
                packed.extend_word(simd::deposit(taken.bits().word(rank), mask), (bits.len() - row).min(64));
                rank += mask.count_ones() as usize;
            }
        }
        DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, _)) => {
            let end = offsets[start];
            simd::spread(offsets, start + 1, bits, end);
        }
        DecodedValues::Bytes(DecodedBytes::Offsets64(offsets, _)) => {
            let end = offsets[start];
            simd::spread(offsets, start + 1, bits, end);
        }
        DecodedValues::Bytes(DecodedBytes::Views(views)) => views.spread(start, bits),
        lanes => with_decoded_lanes!(lanes, lanes => simd::spread(lanes, start, bits, Default::default()), ()),
    }
}

impl Node for PackedNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let range = self.ranked.range(body, &rows)?;
        self.append(range.bits(), out, |values, out| values.decode(body, range.values.clone(), out))
    }

    fn pick(&self, body: &Body, rows: Range<usize>, picked: &[u32], out: &mut Decoded) -> Result<()> {
        // Lanes are sooner decoded than looked for.
        if !matches!(out.values, DecodedValues::Bytes(_)) {
            return pick_decoded(self, body, rows, picked, out);
        }
        let (valid, packed) = self.ranked.single(body, picked)?;
        let values =
            packed.first().map_or(0, |&first| first as usize)..packed.last().map_or(0, |&last| last as usize + 1);
        self.append(valid.bits(), out, |node, out| node.pick(body, values, &packed, out))
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let (valid, packed) = self.ranked.single(body, rows)?;
        self.append(valid.bits(), out, |values, out| values.get(body, &packed, out))
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        self.ranked.filter(body, rows, &*self.values, question.nulls, question, work, out)
    }

    fn ask_living(
        &self,
        body: &Body,
        rows: Range<usize>,
        alive: Living<'_>,
        question: &Question,
        work: &mut FilterWork,
    ) -> Result<bool> {
        if rows.is_empty() {
            return Ok(false);
        }
        let range = self.ranked.range(body, &rows)?;
        let packed = alive.packed(range.bits());
        self.values.ask_living(body, range.values.clone(), Living::of(&packed), question, work)
    }

    fn ask_count(&self, _: usize, question: &Question) -> AskCount {
        self.ranked.ask_count(0, &*self.values, question)
    }

    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        let nulls = self.ranked.aggregate(body, rows, alive, &*self.values, out)?;
        out.nulls(nulls);
        Ok(())
    }

    fn few(&self) -> usize {
        self.values.few()
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![self.ranked.which(), &*self.values]
    }

    fn describe(&self) -> String {
        format!("packed, {} values", self.ranked.value_count())
    }
}
