//! Asks a block everything that can be asked. Whatever the bytes, the answers are values or errors, and values are such
//! that Arrow could take them without looking.

use std::sync::Arc;

use bytes::Bytes;

use super::{DECODED_BYTES, split};
use crate::values::{BitBuffer, BytesForm, Decoded, DecodedBytes, DecodedValues, LargeValues};
use crate::{
    AggregateWork, Aggregates, Block, Cascade, Comparison, Error, FloatOrder, LayoutItem, Like, Limits, Parts,
    Predicate, Result, Scalar, Selection, VECTOR_ROWS, Wanted, with_decoded_lanes,
};

/// Opens the last block of `bytes` with those before it as shared parts, and asks it everything.
///
/// # Panics
/// If an answer isn't what it claims to be: that is a bug.
pub fn exercise(bytes: &[u8]) {
    let blocks = split(bytes);
    let limits = Limits { decoded_bytes: DECODED_BYTES };
    let open = |bytes: &[u8], parts: &Parts| {
        Block::open(Bytes::copy_from_slice(bytes), parts, Some(Arc::new(Region)), &limits)
    };
    let (last, before) = blocks.split_last().unwrap_or_else(|| unreachable!("an input has a last block"));
    let mut parts = Parts::new();
    for part in before {
        match open(part, &Parts::new()) {
            Ok(part) => parts.push(part),
            Err(_) => return,
        }
    }
    if let Ok(block) = open(last, &parts) {
        describe(&block);
        let _ = block.verify();
        for form in [BytesForm::Offsets32, BytesForm::Offsets64, BytesForm::Views] {
            decode(&block, form);
            pick(&block, form);
        }
        ask(&block);
    }
}

/// A region for large values that has zeros wherever it is asked, as far as it is asked for little.
struct Region;

impl LargeValues for Region {
    fn fetch(&self, _: u64, size_bytes: u64) -> Result<Bytes> {
        match usize::try_from(size_bytes) {
            Ok(size_bytes) if size_bytes <= 1 << 16 => Ok(Bytes::from(vec![0; size_bytes])),
            _ => Err(Error::LargeValue(format!("{size_bytes} bytes are beyond the region"))),
        }
    }
}

fn describe(block: &Block) {
    assert!(!block.cascade().words().is_empty());
    assert_eq!(end_of(&block.layout(), 0), block.size_bytes());
}

/// Where `items` end, which begin at `start` and leave no gap, their parts neither.
fn end_of(items: &[LayoutItem], start: u64) -> u64 {
    items.iter().fold(start, |end, item| {
        assert_eq!(item.range.start, end, "the layout leaves no gap");
        assert!(item.children.is_empty() || end_of(&item.children, end) == item.range.end);
        item.range.end
    })
}

fn decode(block: &Block, form: BytesForm) {
    let rows = block.rows();
    let new = || Decoded::new(block.physical(), form);
    let mut whole = new();
    if block.decode(0..rows, &mut whole).is_ok() {
        check(&whole, rows);
        // What rows take and what byte strings take are each held against what the block declares.
        let outside = has_large(&block.cascade());
        assert!(outside || form != BytesForm::Offsets32 || size_bytes(&whole) <= 2 * block.decoded_size_bytes());
    }
    let mut by_vector = new();
    let vectors = (0..rows).step_by(VECTOR_ROWS).map(|start| start..(start + VECTOR_ROWS).min(rows));
    if vectors.into_iter().rev().all(|vector| block.decode(vector, &mut by_vector).is_ok()) {
        check(&by_vector, rows);
    }
    let mut middle = new();
    if block.decode(rows / 3..rows - rows / 4, &mut middle).is_ok() {
        check(&middle, rows - rows / 4 - rows / 3);
    }
}

fn pick(block: &Block, form: BytesForm) {
    let rows = block.rows();
    let picked: Vec<u32> = (0..rows as u32).rev().step_by(37).flat_map(|row| [row, row / 2]).collect();
    let mut out = Decoded::new(block.physical(), form);
    if block.get(&picked, &mut out).is_ok() {
        check(&out, picked.len());
    }
    let thirds = Selection::from_bits(&(0..rows).map(|row| row % 3 == 0).collect::<BitBuffer>());
    let mut out = Decoded::new(block.physical(), form);
    if block.select(&thirds, &mut out).is_ok() {
        check(&out, thirds.count());
    }
    let beyond = block.get(&[rows as u32], &mut Decoded::new(block.physical(), form));
    assert!(matches!(beyond, Err(Error::InvalidArgument(_))), "a row past the end: {beyond:?}");
}

fn ask(block: &Block) {
    let rows = block.rows();
    let (mut work, mut found) = (AggregateWork::default(), Aggregates::default());
    let least = match block.aggregate(&Selection::all(rows), Wanted::ALL, &mut work, &mut found) {
        Ok(()) => {
            assert_eq!(found.count + found.null_count, rows as u64);
            assert_eq!(found.min.is_some(), found.max.is_some());
            found.min
        }
        Err(_) => None,
    };
    let literal = least.unwrap_or(Scalar::Bytes(b"a".to_vec()));
    let order = FloatOrder::Total;
    let like = |begin: &[u8]| {
        let text = if let Scalar::Bytes(text) = &literal { text.as_slice() } else { b"a" };
        let middle = &text[text.len() / 3..text.len().div_ceil(2)];
        Predicate::Like(Like { pattern: [begin, b"%", middle].concat(), escape: None, negated: false })
    };
    for predicate in [
        Predicate::IsNull,
        like(b""),
        like(b"%a"),
        like(b"_b"),
        Predicate::Compare(Comparison::Equal, literal.clone(), order),
        Predicate::Compare(Comparison::Greater, literal.clone(), FloatOrder::Ieee),
        Predicate::In { values: vec![literal.clone()], negated: true, order },
        Predicate::Between { low: literal.clone(), high: literal, negated: false, order },
    ] {
        let before = Selection::from_bits(&(0..rows).map(|row| row % 5 != 2).collect::<BitBuffer>());
        let mut after = before.clone();
        if block.filter(&predicate, &mut after).is_ok() {
            assert!(after.iter().all(|row| before.contains(row)), "a filter only ever removes");
        }
    }
}

fn has_large(cascade: &Cascade) -> bool {
    cascade.encoding == "Large" || cascade.children.iter().any(has_large)
}

/// What `decoded` takes by the rules of *Bounds* in `spec/block.md`.
fn size_bytes(decoded: &Decoded) -> u64 {
    let rows = decoded.rows as u64;
    let values = match &decoded.values {
        DecodedValues::Null => 0,
        DecodedValues::Bool(_) => rows.div_ceil(8),
        DecodedValues::Bytes(DecodedBytes::Offsets32(_, bytes)) => 4 * (rows + 1) + bytes.len() as u64,
        DecodedValues::Bytes(_) => 0,
        DecodedValues::List(_, child) => 4 * (rows + 1) + size_bytes(child),
        DecodedValues::FixedList(_, child) => size_bytes(child),
        DecodedValues::Struct(fields) => fields.iter().map(size_bytes).sum(),
        lanes => with_decoded_lanes!(lanes, lanes => size_of_val(lanes.as_slice()) as u64, 0),
    };
    values + if decoded.validity.is_some() { rows.div_ceil(8) } else { 0 }
}

/// Asserts that `decoded` holds `rows` values of its layout, all of them in bounds.
fn check(decoded: &Decoded, rows: usize) {
    assert_eq!(decoded.rows, rows);
    assert!(decoded.validity.as_ref().is_none_or(|bits| bits.len() == rows), "a validity bit per row");
    match &decoded.values {
        DecodedValues::Null => {}
        DecodedValues::Bool(bits) => assert_eq!(bits.len(), rows),
        DecodedValues::Bytes(bytes) => check_bytes(bytes, rows),
        DecodedValues::List(offsets, child) => {
            assert_eq!((offsets.len(), offsets[0]), (rows + 1, 0));
            assert!(offsets.is_sorted());
            check(child, offsets[rows] as usize);
        }
        DecodedValues::FixedList(size, child) => check(child, rows * *size as usize),
        DecodedValues::Struct(fields) => fields.iter().for_each(|field| check(field, rows)),
        lanes => with_decoded_lanes!(lanes, lanes => assert_eq!(lanes.len(), rows), {}),
    }
}

fn check_bytes(strings: &DecodedBytes, rows: usize) {
    match strings {
        DecodedBytes::Offsets32(offsets, bytes) => {
            assert_eq!((offsets.len(), offsets[0], offsets[rows] as usize), (rows + 1, 0, bytes.len()));
            assert!(offsets.is_sorted());
        }
        DecodedBytes::Offsets64(offsets, bytes) => {
            assert_eq!((offsets.len(), offsets[0], offsets[rows] as usize), (rows + 1, 0, bytes.len()));
            assert!(offsets.is_sorted());
        }
        DecodedBytes::Views(strings) => {
            assert_eq!(strings.len(), rows);
            let buffers = strings.buffers();
            for &view in strings.views() {
                let length = view as u32 as usize;
                if length <= 12 {
                    assert_eq!(view >> 32 >> (8 * length), 0, "padding of an inline view is zero");
                    continue;
                }
                let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
                let string = &buffers[buffer][offset..offset + length];
                assert_eq!(string[..4], ((view >> 32) as u32).to_le_bytes(), "the prefix is that of the string");
            }
        }
    }
}
