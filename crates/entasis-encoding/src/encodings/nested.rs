//! List, FixedList and Struct: what lies under lists. See their sections in `spec/encodings.md`.
//!
//! ```text
//! List        parameters: │ u8 tag of the lengths' type │ entry points: first child of each vector │
//!             child 0: lengths     child 1: the children of all lists, back to back
//! FixedList   child 0: the children, as many per row as the physical type says
//! Struct      child n: field n
//! ```

use std::ops::Range;

use bytes::Bytes;

use super::Encoding;
use super::node::{Node, Opening, grains};
use super::strings::{length_type, locate, locate_each};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics};
use crate::error::{Error, Result};
use crate::values::{Decoded, DecodedValues, Values};
use crate::wire::EntryPoints;
use crate::{Fixed, Physical, VECTOR_ROWS};

fn wrong_output() -> Error {
    Error::InvalidArgument("output of another physical type".into())
}

pub(crate) struct List;

impl Encoding for List {
    fn id(&self) -> u8 {
        14
    }

    fn name(&self) -> &'static str {
        "List"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        matches!(statistics.column.values, Values::List(..)).then_some(0.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::List(offsets, child) = &column.values else { return Ok(None) };
        let lengths: Vec<u32> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let longest = u64::from(lengths.iter().copied().max().unwrap_or(0));
        let mut parameters = vec![Fixed::unsigned_for(longest) as u8];
        let starts = (0..column.rows).step_by(VECTOR_ROWS).map(|row| u64::from(offsets[row]));
        EntryPoints::write(&starts.collect::<Vec<_>>(), &mut parameters);
        let children = vec![encoder.unsigned_child(&lengths, longest)?, encoder.nested(child)?];
        Ok(Some(EncodedNode { encoding: self.id(), rows: column.rows, parameters, buffers: Vec::new(), children }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        let Physical::List(item) = opening.physical else {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        };
        opening.shape(2, 0)?;
        opening.within_bounds(4)?;
        let (tag, mut starts) = opening.parameters(|reader| {
            let tag = reader.u8()?;
            Ok((tag, EntryPoints::read(reader, opening.vectors())?))
        })?;
        let children = opening.record.children[1].rows;
        starts.push(children as u64);
        if starts[0] != 0 || starts.windows(2).any(|pair| pair[0] > pair[1]) {
            return Err(opening.corrupt("entry points don't ascend from 0 to the number of children"));
        }
        let length_type = length_type(opening, tag)?;
        Ok(Box::new(ListNode {
            starts: starts.into_iter().map(|start| start as usize).collect(),
            length_type,
            lengths: opening.child(0, &Physical::Fixed(length_type), opening.rows())?,
            items: opening.nullable_child(1, item, children)?,
        }))
    }
}

/// Items of so many that lie together are decoded as a range; fewer are got one by one.
const RANGE_ITEMS: usize = 64;

/// Appends ranges of items to `out`, in their order.
struct ItemRanges<'a> {
    items: &'a dyn Node,
    body: &'a Body,
    out: &'a mut Decoded,
    /// Single items that wait to be got.
    single: Vec<u32>,
}

impl<'a> ItemRanges<'a> {
    fn new(items: &'a dyn Node, body: &'a Body, out: &'a mut Decoded) -> Self {
        Self { items, body, out, single: Vec::new() }
    }

    fn push(&mut self, range: Range<usize>) -> Result<()> {
        if range.len() < RANGE_ITEMS {
            self.single.extend(range.start as u32..range.end as u32);
            return Ok(());
        }
        self.flush()?;
        self.items.decode(self.body, range, self.out)
    }

    fn flush(&mut self) -> Result<()> {
        self.items.get(self.body, &std::mem::take(&mut self.single), self.out)
    }
}

#[derive(Debug)]
struct ListNode {
    starts: Vec<usize>,
    length_type: Fixed,
    lengths: Box<dyn Node>,
    items: Box<dyn Node>,
}

impl Node for ListNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let (lengths, range) = locate(body, &*self.lengths, self.length_type, &self.starts, rows)?;
        let DecodedValues::List(offsets, items) = &mut out.values else { return Err(wrong_output()) };
        self.items.decode(body, range, items)?;
        let mut end = offsets.last().copied().unwrap_or(0);
        offsets.extend(lengths.iter().map(|&length| {
            end += u64::from(length);
            end
        }));
        out.extend_valid(lengths.len());
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let DecodedValues::List(offsets, items) = &mut out.values else { return Err(wrong_output()) };
        let mut ranges = ItemRanges::new(&*self.items, body, items);
        let mut end = offsets.last().copied().unwrap_or(0);
        locate_each(body, &*self.lengths, self.length_type, &self.starts, rows, |range| {
            end += range.len() as u64;
            offsets.push(end);
            ranges.push(range)
        })?;
        ranges.flush()?;
        out.extend_valid(rows.len());
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.lengths, &*self.items]
    }

    fn describe(&self) -> String {
        format!("{} items", self.starts.last().copied().unwrap_or(0))
    }
}

pub(crate) struct FixedList;

impl Encoding for FixedList {
    fn id(&self) -> u8 {
        15
    }

    fn name(&self) -> &'static str {
        "FixedList"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        matches!(statistics.column.values, Values::FixedList(..)).then_some(0.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::FixedList(_, child) = &column.values else { return Ok(None) };
        let children = vec![encoder.nested_lent(child)?];
        let node = EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters: Vec::new(),
            buffers: Vec::new(),
            children,
        };
        Ok(Some(node))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        let Physical::FixedList(size, item) = opening.physical else {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        };
        opening.shape(1, 0)?;
        opening.parameters(|_| Ok(()))?;
        let size = *size as usize;
        let items = opening.rows().checked_mul(size).ok_or_else(|| opening.corrupt("too many items"))?;
        Ok(Box::new(FixedListNode { size, items: opening.nullable_child(0, item, items)? }))
    }
}

/// So many items are decoded at a time: what a cascade keeps on the way stays in the processor's cache.
const STEP_ITEMS: usize = 16 * VECTOR_ROWS;

#[derive(Debug)]
struct FixedListNode {
    size: usize,
    items: Box<dyn Node>,
}

impl Node for FixedListNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let DecodedValues::FixedList(_, items) = &mut out.values else { return Err(wrong_output()) };
        items.reserve(rows.len() * self.size + VECTOR_ROWS);
        for step in grains(rows.start * self.size..rows.end * self.size, STEP_ITEMS.max(self.items.grain_rows())) {
            self.items.decode(body, step, items)?;
        }
        out.extend_valid(rows.len());
        Ok(())
    }

    fn lend(&self, body: &Body, rows: Range<usize>) -> Result<Option<Bytes>> {
        self.items.lend(body, rows.start * self.size..rows.end * self.size)
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let DecodedValues::FixedList(_, items) = &mut out.values else { return Err(wrong_output()) };
        let mut ranges = ItemRanges::new(&*self.items, body, items);
        rows.iter().try_for_each(|&row| ranges.push(row as usize * self.size..(row as usize + 1) * self.size))?;
        ranges.flush()?;
        out.extend_valid(rows.len());
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![&*self.items]
    }

    fn describe(&self) -> String {
        format!("{} items a row", self.size)
    }
}

pub(crate) struct Struct;

impl Encoding for Struct {
    fn id(&self) -> u8 {
        16
    }

    fn name(&self) -> &'static str {
        "Struct"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, _: &Encoder<'_>) -> Option<f64> {
        matches!(statistics.column.values, Values::Struct(_)).then_some(0.0)
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        let Values::Struct(fields) = &column.values else { return Ok(None) };
        let children = fields.iter().map(|field| encoder.nested(field)).collect::<Result<_>>()?;
        let node = EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters: Vec::new(),
            buffers: Vec::new(),
            children,
        };
        Ok(Some(node))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        let Physical::Struct(fields) = opening.physical else {
            return Err(opening.corrupt(format!("can't hold {}", opening.physical)));
        };
        opening.shape(fields.len(), 0)?;
        opening.parameters(|_| Ok(()))?;
        let open = |(index, field)| opening.nullable_child(index, field, opening.rows());
        let fields = fields.iter().enumerate().map(open).collect::<Result<_>>()?;
        Ok(Box::new(StructNode { fields, decoded_bytes: opening.decoded_bytes }))
    }
}

#[derive(Debug)]
struct StructNode {
    fields: Vec<Box<dyn Node>>,
    /// What the block declares. Each field keeps to it by itself; together they must as well.
    decoded_bytes: u64,
}

impl Node for StructNode {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        let DecodedValues::Struct(fields) = &mut out.values else { return Err(wrong_output()) };
        let mut left = self.decoded_bytes;
        for (node, field) in self.fields.iter().zip(fields) {
            let before = field.string_bytes();
            node.decode(body, rows.clone(), field)?;
            let Some(rest) = left.checked_sub(field.string_bytes() - before) else {
                let what = format!("byte strings exceed the {} bytes that the block declares", self.decoded_bytes);
                return Err(Error::corrupt("struct", 0, what));
            };
            left = rest;
        }
        out.extend_valid(rows.len());
        Ok(())
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let DecodedValues::Struct(fields) = &mut out.values else { return Err(wrong_output()) };
        for (node, field) in self.fields.iter().zip(fields) {
            node.get(body, rows, field)?;
        }
        out.extend_valid(rows.len());
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        self.fields.iter().map(|field| &**field).collect()
    }
}
