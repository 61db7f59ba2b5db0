//! What `entasis bench kernels` runs: a block of a few vectors for each encoding, small enough for the first cache, its cascade rooted in
//! that encoding. Not part of the crate's interface.

mod aggregates;
mod prices;

use std::cmp::Ordering;

pub use aggregates::Reduced;
use bytes::Bytes;
pub use prices::{NodePrice, node_prices};

use crate::chooser::chunk::{decoded_size_bytes, finished};
use crate::chooser::{EncodeOptions, Encoder};
use crate::encodings::{REGISTRY, validity::Validity};
use crate::error::{Error, Result};
use crate::random::Random;
use crate::values::{BitBuffer, Column, Decoded, DecodedBytes, DecodedValues, Lanes, Values};
use crate::{
    Block, BytesForm, Comparison, Filter, FilterWork, Fixed, FloatOrder, Like, Limits, Parts, Predicate, Scalar,
    Selection, VECTOR_ROWS,
};

/// A block whose root is a certain encoding.
#[derive(Debug)]
pub struct Kernel {
    /// Name of the encoding at the root.
    pub encoding: &'static str,
    /// The whole cascade, as `Dictionary(BitPacking)`.
    pub cascade: String,
    /// The values, in words.
    pub values: &'static str,
    /// Their number.
    pub rows: usize,
    /// Bytes of the block, head and all.
    pub encoded_bytes: usize,
    /// Bytes of the buffers that it decodes to.
    pub decoded_bytes: usize,
    block: Block,
}

impl Kernel {
    /// Room for the decoded values.
    pub fn output(&self) -> Decoded {
        Decoded::new(self.block.physical(), BytesForm::Offsets32)
    }

    /// Decodes all values; what `out` held is forgotten.
    ///
    /// # Errors
    /// None: the block was decoded before.
    pub fn decode(&self, out: &mut Decoded) -> Result<()> {
        out.clear();
        self.block.decode(0..self.rows, out)
    }
}

/// Kernels for each encoding: of the columns that are typical of it, else of that on which it is smallest beside all others. Each has been
/// decoded, and holds what went in.
///
/// # Errors
/// An encoding that gives back other values than went in.
pub fn kernels() -> Result<Vec<Kernel>> {
    let samples: Vec<Sample> = numbers().into_iter().chain(others()).collect();
    let mut typical: Vec<Vec<Kernel>> = REGISTRY.iter().map(|_| Vec::new()).collect();
    let mut best: Vec<Option<(f64, Kernel)>> = REGISTRY.iter().map(|_| None).collect();
    for sample in &samples {
        let mut kernels = Vec::new();
        for (place, encoding) in REGISTRY.iter().enumerate() {
            kernels.extend(sample.kernel(encoding.id(), encoding.name())?.map(|kernel| (place, kernel)));
        }
        let sizes: Vec<usize> = kernels.iter().map(|(_, kernel)| kernel.encoded_bytes).collect();
        for (index, (place, kernel)) in kernels.into_iter().enumerate() {
            let others = sizes.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, size)| *size);
            let advantage = others.min().map_or(1.0, |other| other as f64 / sizes[index] as f64);
            if sample.typical_of == kernel.encoding {
                typical[place].push(kernel);
            } else if best[place].as_ref().is_none_or(|(known, _)| advantage > *known) {
                best[place] = Some((advantage, kernel));
            }
        }
    }
    let chosen = typical.into_iter().zip(best).map(|(typical, best)| match (typical.is_empty(), best) {
        (true, Some((_, kernel))) => vec![kernel],
        _ => typical,
    });
    Ok(chosen.flatten().collect())
}

/// A predicate that is asked of a kernel's values.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The block.
    pub kernel: &'a Kernel,
    /// What is asked, in words.
    pub predicate: &'static str,
    /// Values that pass.
    pub passing: usize,
    /// Values that are decoded to find out.
    pub decoded_values: u64,
    filter: Filter,
}

impl Asked<'_> {
    /// Asks the encoded values.
    ///
    /// # Errors
    /// None: they were asked before.
    pub fn of_encoded(&self, work: &mut FilterWork) -> Result<Selection> {
        let mut selection = Selection::all(self.kernel.rows);
        self.filter.apply(&self.kernel.block, &mut selection, work)?;
        Ok(selection)
    }

    /// Decodes all values and asks them then; what `out` and `bits` held is forgotten.
    ///
    /// # Errors
    /// None: they were asked before.
    pub fn of_decoded(&self, out: &mut Decoded, bits: &mut BitBuffer) -> Result<Selection> {
        self.kernel.decode(out)?;
        bits.truncate(0);
        self.filter.answer_decoded(out, bits)?;
        Ok(Selection::from_bits(bits))
    }
}

impl Kernel {
    /// Some predicates of values of this kind; none for nested ones. Encoded and decoded values give the same answer.
    ///
    /// # Errors
    /// An encoding that answers otherwise than its decoded values.
    pub fn asked(&self) -> Result<Vec<Asked<'_>>> {
        let mut out = self.output();
        self.decode(&mut out)?;
        let mut values: Vec<Scalar> = (0..self.rows).filter_map(|row| out.scalar(self.block.physical(), row)).collect();
        let order = FloatOrder::Ieee;
        values.sort_by(|one, other| one.compare(other, order).unwrap_or(Ordering::Equal));
        let (Some(least), Some(middle)) = (values.first(), values.get(values.len() / 2)) else { return Ok(Vec::new()) };
        let compare = |comparison, literal: &Scalar| Predicate::Compare(comparison, literal.clone(), order);
        let mut predicates = vec![
            ("= one of them", compare(Comparison::Equal, middle)),
            ("none: < the least", compare(Comparison::Less, least)),
            ("half: ≤ the middle", compare(Comparison::LessOrEqual, middle)),
            ("all: ≥ the least", compare(Comparison::GreaterOrEqual, least)),
        ];
        if let Scalar::Bytes(text) = middle {
            let pattern = [b"%", &text[text.len().saturating_sub(3)..], b"%"].concat();
            predicates
                .push(("LIKE %its last 3 bytes%", Predicate::Like(Like { pattern, escape: None, negated: false })));
        }
        let mut all = Vec::new();
        for (words, predicate) in predicates {
            let filter = Filter::new(&predicate, self.block.physical());
            let mut asked = Asked { kernel: self, predicate: words, passing: 0, decoded_values: 0, filter };
            let mut work = FilterWork::default();
            let encoded = asked.of_encoded(&mut work)?;
            if encoded != asked.of_decoded(&mut out, &mut BitBuffer::default())? {
                let what = format!("{} answers otherwise than decoded ({}, {words})", self.encoding, self.values);
                return Err(Error::InvalidArgument(what));
            }
            (asked.passing, asked.decoded_values) = (encoded.count(), work.decoded_values);
            all.push(asked);
        }
        Ok(all)
    }
}

/// Values of a kind that some encoding is made for.
struct Sample {
    /// The encoding, if there is one of that name.
    typical_of: &'static str,
    words: &'static str,
    validity: Option<BitBuffer>,
    values: Stored,
}

enum Stored {
    Null(usize),
    Bool(BitBuffer),
    U8(Vec<u8>),
    U32(Vec<u32>),
    I64(Vec<u64>),
    F64(Vec<u64>),
    I128(Vec<u128>),
    Strings(Vec<String>),
    Lists(Vec<u32>, Vec<u32>),
    FixedLists(u32, Vec<u32>),
    Structs(Vec<u32>, BitBuffer),
}

impl Sample {
    /// The column under the encoding of this id; `None` if that can't hold it.
    fn kernel(&self, id: u8, encoding: &'static str) -> Result<Option<Kernel>> {
        let strings: Vec<&[u8]> = match &self.values {
            Stored::Strings(strings) => strings.iter().map(String::as_bytes).collect(),
            _ => Vec::new(),
        };
        let column = self.column(&strings);
        let options = EncodeOptions::default();
        // Validity stands above what the chooser takes for the values; no other encoding stands above it.
        let is_validity = id == crate::encodings::Encoding::id(&Validity);
        let root = match (is_validity, &column.validity) {
            (true, Some(_)) => Encoder::new(&options, None, None).root(&column),
            (false, None) => Encoder::forcing(&options, id).root(&column),
            _ => return Ok(None),
        };
        let Ok(root) = root else { return Ok(None) };
        let physical = column.values.physical();
        let bytes = finished(&root, &physical, decoded_size_bytes(&column, false), false).bytes;
        let encoded_bytes = bytes.len();
        let block = Block::open(Bytes::from(bytes), &Parts::new(), None, &Limits::default())?;
        let (cascade, rows) = (block.cascade().words(), column.rows);
        let mut kernel = Kernel { encoding, cascade, values: self.words, rows, encoded_bytes, decoded_bytes: 0, block };
        let mut out = kernel.output();
        // Twice, for what the first time leaves in memory must not be added to.
        for _ in 0..2 {
            kernel.decode(&mut out)?;
            if !holds(&column, &out) {
                return Err(Error::InvalidArgument(format!("{encoding} gives back other values ({})", self.words)));
            }
        }
        kernel.decoded_bytes = size_bytes(&out);
        Ok(Some(kernel))
    }

    fn column<'a>(&'a self, strings: &'a [&'a [u8]]) -> Column<'a> {
        let plain = |rows, values| Column { rows, validity: None, values };
        let lanes32 = |lanes: &'a [u32]| Values::Fixed(Fixed::U32, Lanes::L32(lanes));
        let column = match &self.values {
            Stored::Null(rows) => plain(*rows, Values::Null),
            Stored::Bool(bits) => plain(bits.len(), Values::Bool(bits.bits())),
            Stored::U8(lanes) => plain(lanes.len(), Values::Fixed(Fixed::U8, Lanes::L8(lanes))),
            Stored::U32(lanes) => plain(lanes.len(), lanes32(lanes)),
            Stored::I64(lanes) => plain(lanes.len(), Values::Fixed(Fixed::I64, Lanes::L64(lanes))),
            Stored::F64(lanes) => plain(lanes.len(), Values::Fixed(Fixed::F64, Lanes::L64(lanes))),
            Stored::I128(lanes) => plain(lanes.len(), Values::Fixed(Fixed::I128, Lanes::L128(lanes))),
            Stored::Strings(_) => plain(strings.len(), Values::Bytes(strings)),
            Stored::Lists(offsets, items) => {
                plain(offsets.len() - 1, Values::List(offsets, Box::new(plain(items.len(), lanes32(items)))))
            }
            Stored::FixedLists(size, items) => {
                let child = Box::new(plain(items.len(), lanes32(items)));
                plain(items.len() / *size as usize, Values::FixedList(*size, child))
            }
            Stored::Structs(lanes, bits) => {
                let fields = vec![plain(lanes.len(), lanes32(lanes)), plain(bits.len(), Values::Bool(bits.bits()))];
                plain(lanes.len(), Values::Struct(fields))
            }
        };
        Column { validity: self.validity.as_ref().map(BitBuffer::bits), ..column }
    }
}

/// Values of lanes.
const ROWS: usize = 2 * VECTOR_ROWS;

fn sample(typical_of: &'static str, words: &'static str, values: Stored) -> Sample {
    Sample { typical_of, words, validity: None, values }
}

fn below(random: &mut Random, count: usize, limit: usize) -> Vec<u64> {
    (0..count).map(|_| random.below(limit) as u64).collect()
}

fn narrow(numbers: &[u64]) -> Vec<u32> {
    numbers.iter().map(|number| *number as u32).collect()
}

/// Every kind of numbers, two vectors of each.
fn numbers() -> Vec<Sample> {
    let mut random = Random::new(7);
    let mut below = |count, limit| below(&mut random, count, limit);
    let floats = |numbers: Vec<f64>| Stored::F64(numbers.into_iter().map(f64::to_bits).collect());
    let steps = below(ROWS, 1000);
    let ascending = steps.iter().scan(1_700_000_000_000, |last, step| Some(std::mem::replace(last, *last + step)));
    let runs = below(ROWS / 32, 1 << 40).into_iter().flat_map(|value| [value; 32]);
    let few = below(50, 1 << 40);
    let repeated = below(ROWS, 50).into_iter().map(|code| few[code as usize]);
    let outliers = below(ROWS, 1000).into_iter().map(|number| if number == 0 { 1 << 40 } else { number % 256 });
    let mostly = below(ROWS, 100).into_iter().map(|number| if number < 5 { number + 1000 } else { 7 });
    let rough = below(ROWS, 1 << 40).into_iter().map(|number| (number as f64).sqrt().sin()).collect();
    let decimals = below(ROWS, 100_000).into_iter().map(|number| number as f64 / 100.0).collect();
    let kinds = below(ROWS / 4, 9).into_iter();
    let recurring = kinds.flat_map(|kind| (0..16).map(move |step| (kind * 23 + step * step) as u8));
    let regular = (0..ROWS as u64).map(|row| 1_700_000_000 + row * 60);
    vec![
        sample("Plain", "i64 at random", Stored::I64(below(ROWS, usize::MAX))),
        sample("Constant", "i64, one value", Stored::I64(vec![42; ROWS])),
        sample("BitPacking", "u32 below 1,000", Stored::U32(narrow(&below(ROWS, 1000)))),
        sample("BitPacking", "i64, 0.1 % outliers", Stored::I64(outliers.collect())),
        sample("Delta", "i64 ascending", Stored::I64(ascending.collect())),
        sample("Sequence", "i64, steps of 60", Stored::I64(regular.collect())),
        sample("Dictionary", "i64, 50 values", Stored::I64(repeated.collect())),
        sample("Sparse", "i64, 95 % one value", Stored::I64(mostly.collect())),
        sample("Run", "i64, runs of 32", Stored::I64(runs.collect())),
        sample(
            "Narrow",
            "i128 below 2^40",
            Stored::I128(below(ROWS / 2, 1 << 40).into_iter().map(u128::from).collect()),
        ),
        sample("Serial", "u8, sequences", Stored::U8(recurring.collect())),
        sample("Alp", "f64, 2 decimals", floats(decimals)),
        sample("AlpRd", "f64, all digits", floats(rough)),
    ]
}

/// All other kinds, a vector or two of each.
fn others() -> Vec<Sample> {
    let mut random = Random::new(8);
    let mut below = |count, limit| below(&mut random, count, limit);
    let bits = |numbers: &[u64]| -> BitBuffer { numbers.iter().map(|number| *number == 0).collect() };
    let strings = |numbers: Vec<u64>, text: fn(u64) -> String| Stored::Strings(numbers.into_iter().map(text).collect());
    let mut offsets = vec![0];
    offsets.extend(below(ROWS / 2, 4).iter().scan(0, |end, size| {
        *end += *size as u32;
        Some(*end)
    }));
    let items = narrow(&below(offsets[ROWS / 2] as usize, 1000));
    let nullable = Stored::U32(narrow(&below(ROWS, 1000)));
    let validity = below(ROWS, 10).iter().map(|number| *number > 0).collect();
    let phrase = |number| format!("{number} is what the meter on the left of the hall had at noon");
    vec![
        Sample { validity: Some(validity), ..sample("Validity", "u32, 10 % nulls", nullable) },
        sample("Bitmap", "bool", Stored::Bool(bits(&below(ROWS, 3)))),
        sample("Roaring", "bool, 0.5 % true", Stored::Bool(bits(&below(ROWS, 200)))),
        sample("Fsst", "addresses", strings(below(VECTOR_ROWS, 1 << 20), |number| format!("http://a.org/{number}"))),
        sample("Strings", "names", strings(below(VECTOR_ROWS, 1 << 40), |number| format!("{number:x}"))),
        sample(
            "Dictionary",
            "strings, 50 values",
            strings(below(VECTOR_ROWS, 50), |number| format!("number {number}")),
        ),
        sample("Phrases", "one phrase", strings(below(256, 9999), phrase)),
        sample("List", "0 to 3 u32", Stored::Lists(offsets, items)),
        sample("FixedList", "8 u32", Stored::FixedLists(8, narrow(&below(ROWS, 1000)))),
        sample("Struct", "u32 and bool", Stored::Structs(narrow(&below(ROWS, 1000)), bits(&below(ROWS, 3)))),
        sample("Null", "null", Stored::Null(ROWS)),
    ]
}

/// Whether what was decoded is what went in; under nulls anything may be.
fn holds(column: &Column<'_>, decoded: &Decoded) -> bool {
    let validity = decoded.validity.as_ref().map(BitBuffer::bits);
    let is_null = |row: usize| column.validity.is_some_and(|bits| !bits.get(row));
    let same_nulls = (0..column.rows).all(|row| is_null(row) == validity.is_some_and(|bits| !bits.get(row)));
    fn lanes<T: PartialEq>(one: &[T], other: &[T], is_null: impl Fn(usize) -> bool) -> bool {
        one.len() == other.len() && (0..one.len()).all(|row| is_null(row) || one[row] == other[row])
    }
    let same_values = match (&column.values, &decoded.values) {
        (Values::Null, DecodedValues::Null) => return decoded.rows == column.rows,
        (Values::Bool(one), DecodedValues::Bool(other)) => one.iter().eq(other.bits().iter()),
        (Values::Fixed(_, Lanes::L8(one)), DecodedValues::L8(other)) => lanes(one, other, is_null),
        (Values::Fixed(_, Lanes::L32(one)), DecodedValues::L32(other)) => lanes(one, other, is_null),
        (Values::Fixed(_, Lanes::L64(one)), DecodedValues::L64(other)) => lanes(one, other, is_null),
        (Values::Fixed(_, Lanes::L128(one)), DecodedValues::L128(other)) => lanes(one, other, is_null),
        (Values::Bytes(one), DecodedValues::Bytes(other)) => {
            one.len() == other.len() && (0..one.len()).all(|row| other.with(row, |bytes| bytes == one[row]))
        }
        (Values::List(one, child), DecodedValues::List(other, items)) => {
            one.iter().map(|end| u64::from(*end)).eq(other.iter().copied()) && holds(child, items)
        }
        (Values::FixedList(one, child), DecodedValues::FixedList(other, items)) => one == other && holds(child, items),
        (Values::Struct(one), DecodedValues::Struct(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(field, values)| holds(field, values))
        }
        _ => false,
    };
    decoded.rows == column.rows && same_nulls && same_values
}

/// Bytes of the decoded buffers.
fn size_bytes(decoded: &Decoded) -> usize {
    let validity = decoded.validity.as_ref().map_or(0, |bits| bits.len().div_ceil(8));
    let values = match &decoded.values {
        DecodedValues::Null => 0,
        DecodedValues::Bool(bits) => bits.len().div_ceil(8),
        DecodedValues::L8(lanes) => size_of_val(lanes.as_slice()),
        DecodedValues::L16(lanes) => size_of_val(lanes.as_slice()),
        DecodedValues::L32(lanes) => size_of_val(lanes.as_slice()),
        DecodedValues::L64(lanes) => size_of_val(lanes.as_slice()),
        DecodedValues::L128(lanes) => size_of_val(lanes.as_slice()),
        DecodedValues::L256(lanes) => size_of_val(lanes.as_slice()),
        DecodedValues::Bytes(DecodedBytes::Offsets32(offsets, bytes)) => size_of_val(offsets.as_slice()) + bytes.len(),
        DecodedValues::Bytes(DecodedBytes::Offsets64(offsets, bytes)) => size_of_val(offsets.as_slice()) + bytes.len(),
        DecodedValues::Bytes(DecodedBytes::Views(views)) => {
            size_of_val(views.views()) + views.buffers().iter().map(Bytes::len).sum::<usize>()
        }
        DecodedValues::List(offsets, items) => size_of_val(offsets.as_slice()) + size_bytes(items),
        DecodedValues::FixedList(_, items) => size_bytes(items),
        DecodedValues::Struct(fields) => fields.iter().map(size_bytes).sum(),
    };
    validity + values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_has_a_kernel_but_that_of_large_values() {
        let kernels = kernels().unwrap();
        let mut named: Vec<&str> = kernels.iter().map(|kernel| kernel.encoding).collect();
        named.dedup();
        let expected: Vec<&str> =
            REGISTRY.iter().map(|encoding| encoding.name()).filter(|name| *name != "Large").collect();
        assert_eq!(named, expected);
        for kernel in &kernels {
            assert!(kernel.cascade.starts_with(kernel.encoding), "{kernel:?}");
            assert!(kernel.decoded_bytes <= 32 << 10, "{} is too much for the first cache", kernel.encoding);
            assert_eq!(kernel.decoded_bytes == 0, kernel.encoding == "Null", "{kernel:?}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_chosen_only_where_nothing_else_holds_the_values() {
        let options = EncodeOptions { allowed: Some(vec![1]), ..EncodeOptions::default() };
        let names = crate::encoding_names();
        for sample in numbers().into_iter().chain(others()) {
            let strings: Vec<&[u8]> = match &sample.values {
                Stored::Strings(strings) => strings.iter().map(String::as_bytes).collect(),
                _ => Vec::new(),
            };
            let root = Encoder::new(&options, None, None).root(&sample.column(&strings)).unwrap();
            let mut used = Vec::new();
            root.visit(&mut |node| {
                used.extend(names.iter().filter(|(id, _)| *id == node.encoding).map(|(_, name)| *name))
            });
            if matches!(&sample.values, Stored::U32(_) | Stored::I64(_)) && sample.validity.is_none() {
                assert_eq!(used, ["Plain"], "{}", sample.words);
            }
        }
    }

    #[test]
    fn encodings_answer_without_decoding_what_they_need_not() {
        let kernels = kernels().unwrap();
        let mut answered = Vec::new();
        for kernel in &kernels {
            let asked = kernel.asked().unwrap();
            let decoded = asked.iter().map(|asked| asked.decoded_values).max().unwrap_or(0);
            if !asked.is_empty() && decoded * 4 < kernel.rows as u64 {
                answered.push(kernel.encoding);
            }
            for asked in asked {
                assert!(asked.decoded_values <= kernel.rows as u64, "{asked:?}");
                let half = asked.predicate.starts_with("half") && asked.passing * 2 >= kernel.rows * 8 / 10;
                assert!(half || !asked.predicate.starts_with("half"), "{asked:?}");
                assert!(asked.passing == 0 || !asked.predicate.starts_with("none"), "{asked:?}");
            }
        }
        answered.dedup();
        let expected = [
            "Constant",
            "Validity",
            "Bitmap",
            "Run",
            "Dictionary",
            "BitPacking",
            "Alp",
            "Fsst",
            "Strings",
            "Narrow",
            "Sparse",
        ];
        assert!(expected.iter().all(|name| answered.contains(name)), "{answered:?}");
    }

    #[test]
    fn other_values_are_noticed() {
        let sample = sample("Plain", "", Stored::U32(vec![1, 2, 3]));
        let kernel = sample.kernel(1, "Plain").unwrap().unwrap();
        let mut out = kernel.output();
        kernel.decode(&mut out).unwrap();
        let other = super::sample("Plain", "", Stored::U32(vec![1, 2, 4]));
        assert!(holds(&sample.column(&[]), &out) && !holds(&other.column(&[]), &out));
    }
}
