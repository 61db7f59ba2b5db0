//! Large: byte strings of 16 KiB and more lie outside the block. See *Large* in `spec/encodings.md`.
//!
//! ```text
//! buffer 0: │ u32 row × n, ascending │ (u64 offset, u64 bytes, u32 checksum) × n │
//! child 0:  the byte strings, with an empty one in place of each large one
//! ```

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::Encoding;
use super::node::{Node, Opening};
use super::strings::{append_concatenated, bytes_mut, not_bytes};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::values::{BytesForm, Column, Decoded, DecodedBytes, DecodedValues, LargeValues, Values};
use crate::views::view_of;
use crate::{LARGE_VALUE_BYTES, Lane, Physical, simd};

pub(crate) struct Large;

const ROW_BYTES: usize = 4;
const REFERENCE_BYTES: usize = 20;

impl Encoding for Large {
    fn id(&self) -> u8 {
        13
    }

    fn name(&self) -> &'static str {
        "Large"
    }

    fn predicted_bytes(&self, _: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        // The chooser never weighs it: a column has large values or it doesn't.
        None
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Bytes(strings) = &column.values else { return Ok(None) };
        let (mut rows, mut references) = (Vec::new(), Vec::new());
        let mut small = strings.to_vec();
        for (row, string) in small.iter_mut().enumerate().filter(|(_, string)| string.len() >= LARGE_VALUE_BYTES) {
            let offset = encoder.put_large(string)?;
            (row as u32).write(&mut rows);
            offset.write(&mut references);
            (string.len() as u64).write(&mut references);
            simd::crc32c(string).write(&mut references);
            *string = &[];
        }
        if rows.is_empty() {
            return Ok(None);
        }
        rows.extend_from_slice(&references);
        let child = encoder.child(&Column { rows: column.rows, validity: None, values: Values::Bytes(&small) })?;
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters: Vec::new(),
            buffers: vec![rows],
            children: vec![child],
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        if *opening.physical != Physical::Bytes {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        }
        opening.shape(1, 1)?;
        opening.parameters(|_| Ok(()))?;
        let (buffer, length) = opening.buffer(0);
        if length % (ROW_BYTES + REFERENCE_BYTES) != 0 {
            return Err(opening.corrupt(format!("{length} bytes of references")));
        }
        Ok(Box::new(LargeNode {
            buffer,
            count: length / (ROW_BYTES + REFERENCE_BYTES),
            child: opening.child(0, &Physical::Bytes, opening.rows())?,
            values: opening.large.cloned(),
        }))
    }
}

struct LargeNode {
    buffer: usize,
    count: usize,
    child: Box<dyn Node>,
    values: Option<Arc<dyn LargeValues + Send + Sync>>,
}

impl fmt::Debug for LargeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeNode").field("count", &self.count).field("child", &self.child).finish_non_exhaustive()
    }
}

impl LargeNode {
    /// Offset, bytes and checksum of large value `index`.
    fn reference(&self, body: &Body, index: usize) -> Result<(u64, u64, u32)> {
        let start = self.count * ROW_BYTES + index * REFERENCE_BYTES;
        let reference = body.buffer(self.buffer, start..start + REFERENCE_BYTES)?;
        Ok((u64::read(reference), u64::read(&reference[8..]), u32::read(&reference[16..])))
    }

    /// The rows of large values, which ascend.
    fn rows(&self, body: &Body) -> Result<Vec<u32>> {
        let rows = body.buffer(self.buffer, 0..self.count * ROW_BYTES)?;
        let rows: Vec<u32> = rows.chunks_exact(ROW_BYTES).map(u32::read).collect();
        if !rows.is_sorted_by(|left, right| left < right) {
            return Err(Error::corrupt("node", 0, "Large: rows of values outside the block don't ascend"));
        }
        Ok(rows)
    }

    /// Large value `index`; `None` where only the block's own bytes are asked for.
    fn fetch(&self, body: &Body, index: usize) -> Result<Option<Bytes>> {
        let (offset, size_bytes, checksum) = self.reference(body, index)?;
        if let Some(before) = index.checked_sub(1) {
            // Else a few bytes of the region could be the values of many rows.
            let (before, before_bytes, _) = self.reference(body, before)?;
            if before.checked_add(before_bytes).is_none_or(|end| end > offset) {
                return Err(Error::corrupt("node", 0, "Large: values outside the block overlap or don't ascend"));
            }
        }
        if body.is_probe() {
            return Ok(None);
        }
        let values = self.values.as_ref().ok_or_else(|| Error::LargeValue("no source was given for them".into()))?;
        let value = values.fetch(offset, size_bytes)?;
        if value.len() as u64 != size_bytes || simd::crc32c(&value) != checksum {
            let what = format!("{size_bytes} bytes at offset {offset} don't match their checksum");
            return Err(Error::LargeValue(what));
        }
        Ok(Some(value))
    }

    /// Appends what `small` appends of the child, with large values in their places: pairs of a place among those rows, ascending,
    /// and the number of its value.
    fn merge(
        &self,
        body: &Body,
        places: &[(usize, usize)],
        out: &mut Decoded,
        small: impl FnOnce(&mut Decoded) -> Result<()>,
    ) -> Result<()> {
        if places.is_empty() {
            return small(out);
        }
        if let DecodedBytes::Views(views) = bytes_mut(out)? {
            let before = views.len();
            small(out)?;
            return self.replace_views(body, places, before, bytes_mut(out)?);
        }
        let mut between = Decoded::new(&Physical::Bytes, BytesForm::Offsets32);
        small(&mut between)?;
        let DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, data)) = &between.values else {
            return Err(not_bytes());
        };
        let (bytes, mut unread) = (bytes_mut(out)?, 0);
        let append = |bytes: &mut DecodedBytes, rows: Range<usize>| {
            let lengths: Vec<u32> = offsets[rows.start..=rows.end].windows(2).map(|p| (p[1] - p[0]) as u32).collect();
            append_concatenated(bytes, &lengths, &data[offsets[rows.start] as usize..offsets[rows.end] as usize])
        };
        for &(place, index) in places {
            if let Some(value) = self.fetch(body, index)? {
                append(bytes, unread..place)?;
                append_concatenated(bytes, &[value.len() as u32], &value)?;
                unread = place + 1;
            }
        }
        append(bytes, unread..between.rows)?;
        out.extend_valid(between.rows);
        Ok(())
    }

    /// Puts large values in the place of views, which are counted from `before`.
    fn replace_views(
        &self,
        body: &Body,
        places: &[(usize, usize)],
        before: usize,
        bytes: &mut DecodedBytes,
    ) -> Result<()> {
        let DecodedBytes::Views(views) = bytes else { return Err(not_bytes()) };
        let (views, buffers) = views.parts_mut();
        for &(place, index) in places {
            let Some(value) = self.fetch(body, index)? else { continue };
            // A view's length is a signed number of 32 bits.
            if i32::try_from(value.len()).is_err() {
                return Err(Error::OffsetOverflow);
            }
            views[before + place] = view_of(&value, buffers.len() as u32, 0);
            buffers.push(value);
        }
        Ok(())
    }
}

impl Node for LargeNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let places = self.rows(body)?.into_iter().enumerate().map(|(index, row)| (row as usize, index));
        let touched = places.filter(|(row, _)| rows.contains(row)).map(|(row, index)| (row - rows.start, index));
        self.merge(body, &touched.collect::<Vec<_>>(), out, |out| self.child.decode(body, rows, out))
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let large = self.rows(body)?;
        let touched = rows.iter().enumerate().filter_map(|(place, row)| Some((place, large.binary_search(row).ok()?)));
        self.merge(body, &touched.collect::<Vec<_>>(), out, |out| self.child.get(body, rows, out))
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.child]
    }

    fn describe(&self) -> String {
        format!("{} values outside the block", self.count)
    }
}
