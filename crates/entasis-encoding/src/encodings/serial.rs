//! Serial: small integers as byte strings, one per vector, so that what finds repetition in text finds it in numbers: codes,
//! lengths and counters that come in recurring sequences, or some far more often than others. See *Serial* in
//! `spec/encodings.md`.
//!
//! ```text
//! parameters: │ u8 bytes per value: 1 or 2 │ base: one lane │
//! child 0: byte strings, one per vector: │ value 0 − base │ value 1 − base │ … │   little-endian
//! ```

use std::marker::PhantomData;
use std::ops::Range;

use super::node::{Node, Opening, decode_child, lanes_mut, vectors_of};
use super::{Effort, Encoding};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};

use crate::values::{Column, Decoded, DecodedBytes, DecodedValues, LaneAccess, Lanes, Values};
use crate::{Fixed, PackedLane, Physical, VECTOR_ROWS, simd, with_packed_lane_of};

pub(crate) struct Serial;

/// Text is unpacked far more slowly than bits: it has to be much shorter.
const MARGIN: f64 = 1.15;

impl Encoding for Serial {
    fn id(&self) -> u8 {
        19
    }

    fn name(&self) -> &'static str {
        "Serial"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        if !encoder.may_cascade() {
            return None;
        }
        let price_bytes = encoder.price_bytes(self, statistics.rows, 0.0);
        Some(statistics.lanes()?.serial((encoder.best_bytes() - price_bytes) / MARGIN)?.bytes * MARGIN)
    }

    fn effort(&self) -> Effort {
        Effort::Much
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Fixed(fixed, lanes) = &column.values else { return Ok(None) };
        let Some(serial) = SerialLanes::of(*fixed, lanes) else { return Ok(None) };
        let strings = serial.strings();
        let values = Values::Bytes(&strings);
        let texts = Column { rows: strings.len(), validity: None, values };
        let child = match statistics.lanes().and_then(|lanes| lanes.serial(f64::MAX)) {
            Some(known) => encoder.child_as(known, &texts)?,
            None => encoder.child(&texts)?,
        };
        let mut parameters = vec![serial.value_bytes as u8];
        parameters.extend_from_slice(&serial.base.to_le_bytes()[..fixed.size_bytes()]);
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters,
            buffers: Vec::new(),
            children: vec![child],
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        let Physical::Fixed(fixed) = opening.physical else {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        };
        opening.shape(1, 0)?;
        opening.within_bounds(fixed.size_bytes())?;
        with_packed_lane_of!(
            *fixed,
            T => {
                let (value_bytes, base) =
                    opening.parameters(|reader| Ok((reader.u8()?, <T as crate::Lane>::read(reader.take(<T as crate::Lane>::BYTES)?))))?;
                if !matches!(value_bytes, 1 | 2) || value_bytes as usize > <T as crate::Lane>::BYTES {
                    return Err(opening.corrupt(format!("{value_bytes} bytes per value")));
                }
                let (rows, value_bytes) = (opening.rows(), value_bytes as usize);
                let strings = opening.child(0, &Physical::Bytes, opening.vectors())?;
                Ok(Box::new(SerialNode::<T> { rows, value_bytes, base, strings, lane: PhantomData }))
            },
            Err(opening.corrupt(format!("can't hold {}", opening.physical)))
        )
    }
}

/// Lanes as bytes: what they are above the least of them.
pub(crate) struct SerialLanes {
    /// 1 or 2.
    value_bytes: usize,
    /// The least value, its bits zero-extended.
    base: u64,
    bytes: Vec<u8>,
}

impl SerialLanes {
    /// `None` unless the values span less than 2^16.
    pub fn of(fixed: Fixed, lanes: &Lanes<'_>) -> Option<Self> {
        with_packed_lane_of!(fixed, T => Self::of_lanes(<T as LaneAccess>::lent(lanes)?, fixed.is_signed()), None)
    }

    /// Whether [`Self::of`] would give something.
    pub fn holds(fixed: Fixed, lanes: &Lanes<'_>) -> bool {
        with_packed_lane_of!(fixed, T => <T as LaneAccess>::lent(lanes).and_then(|lanes| base_and_width(lanes, fixed.is_signed())).is_some(), false)
    }

    fn of_lanes<T: PackedLane + LaneAccess>(lanes: &[T], signed: bool) -> Option<Self> {
        let (least, value_bytes) = base_and_width(lanes, signed)?;
        let above = |lane: T| lane.subtract(least).low_bits();
        let bytes = match value_bytes {
            1 => lanes.iter().map(|&lane| above(lane) as u8).collect(),
            _ => lanes.iter().map(|&lane| (above(lane) as u16).to_le_bytes()).collect::<Vec<_>>().into_flattened(),
        };
        Some(Self { value_bytes, base: least.low_bits(), bytes })
    }

    /// A string for each vector.
    pub fn strings(&self) -> Vec<&[u8]> {
        self.bytes.chunks(VECTOR_ROWS * self.value_bytes).collect()
    }
}

/// The least of the lanes, and the bytes of what they are above it; `None` where those are more than 2.
fn base_and_width<T: PackedLane>(lanes: &[T], signed: bool) -> Option<(T, usize)> {
    let (least, most) = if signed { simd::min_max_signed(lanes)? } else { simd::min_max(lanes)? };
    match most.subtract(least).low_bits() {
        0..=0xFF => Some((least, 1)),
        0x100..=0xFFFF => Some((least, 2)),
        _ => None,
    }
}

#[derive(Debug)]
struct SerialNode<T> {
    rows: usize,
    value_bytes: usize,
    base: T,
    strings: Box<dyn Node>,
    lane: PhantomData<T>,
}

impl<T: PackedLane + LaneAccess> Node for SerialNode<T> {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let vectors = vectors_of(&rows);
        let first_row = vectors.start * VECTOR_ROWS;
        let strings = decode_child(&*self.strings, &Physical::Bytes, body, vectors.clone())?;
        let DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, bytes)) = strings.values else {
            return Err(bad_length());
        };
        let end_of = |vector: usize| (((vector + 1) * VECTOR_ROWS).min(self.rows) - first_row) * self.value_bytes;
        if vectors.zip(&offsets[1..]).any(|(vector, &end)| end as usize != end_of(vector)) {
            return Err(bad_length());
        }
        let asked = &bytes[(rows.start - first_row) * self.value_bytes..(rows.end - first_row) * self.value_bytes];
        let (lanes, base) = (lanes_mut::<T>(out)?, self.base);
        match self.value_bytes {
            1 => lanes.extend(asked.iter().map(|&value| base.add(T::from_u64(value.into())))),
            _ => lanes.extend(
                asked.as_chunks().0.iter().map(|&value| base.add(T::from_u64(u16::from_le_bytes(value).into()))),
            ),
        }
        out.extend_valid(rows.len());
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.strings]
    }
}

fn bad_length() -> Error {
    Error::corrupt("node", 0, "Serial: a string that isn't as long as the lanes of its vector")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::chooser::EncodeOptions;
    use crate::chooser::chunk::{decoded_size_bytes, finished};
    use crate::testing::{cells_of, cells_of_column};
    use crate::{Block, BytesForm, Limits, Parts};

    /// Whether Serial holds the lanes; where it does, every one of them comes back.
    fn holds<T: LaneAccess>(fixed: Fixed, lanes: &[T]) -> bool {
        let column = Column { rows: lanes.len(), validity: None, values: Values::Fixed(fixed, T::lanes(lanes)) };
        let options = EncodeOptions::default();
        let Ok(node) = Encoder::forcing(&options, Serial.id()).root(&column) else { return false };
        let bytes = finished(&node, &Physical::Fixed(fixed), decoded_size_bytes(&column, false), false).bytes;
        let block = Block::open(Bytes::from(bytes), &Parts::new(), None, &Limits::default()).unwrap();
        let mut out = Decoded::new(block.physical(), BytesForm::Views);
        block.decode(0..lanes.len(), &mut out).unwrap();
        assert_eq!(cells_of(&out), cells_of_column(&column));
        true
    }

    #[test]
    fn spans_below_two_bytes_are_held_wherever_they_lie() {
        let signed = |values: [i64; 3]| values.map(|value| value as u64).repeat(700);
        assert!(holds(Fixed::I8, &[-128i8, 127, 0].map(|value| value as u8).repeat(700)));
        assert!(holds(Fixed::I64, &signed([i64::MIN, i64::MIN + 65_535, i64::MIN + 255])));
        assert!(holds(Fixed::I64, &signed([i64::MAX, i64::MAX - 65_535, i64::MAX - 256])));
        assert!(holds(Fixed::I64, &signed([-32_768, 32_767, 0])));
        assert!(holds(Fixed::U64, &[u64::MAX, u64::MAX - 65_535].repeat(513)));
        assert!(holds(Fixed::U16, &[0u16, u16::MAX].repeat(513)));
    }

    #[test]
    fn values_that_follow_a_pattern_are_taken_for_text() {
        let codes: Vec<u8> = [0, 0, 1, 0, 1, 2].into_iter().cycle().take(15_000).collect();
        let values = Values::Fixed(Fixed::U8, Lanes::L8(&codes));
        let options = EncodeOptions::default();
        let node =
            Encoder::new(&options, None, None).root(&Column { rows: codes.len(), validity: None, values }).unwrap();
        assert_eq!(node.encoding, Serial.id(), "packed and sparse they take half as much again");
    }

    #[test]
    fn wider_spans_are_refused() {
        assert!(!holds(Fixed::I64, &[-1i64, 65_535].map(|value| value as u64)));
        assert!(!holds(Fixed::U32, &[0u32, 65_536]));
        // Unsigned, these are near each other; as the signed values that they are, they aren't.
        assert!(!holds(Fixed::I64, &[i64::MIN as u64, i64::MAX as u64]));
    }
}
