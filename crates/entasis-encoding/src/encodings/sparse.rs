//! Sparse: one frequent value, which rows have another, and those others. See *Sparse* in `spec/encodings.md`.
//!
//! ```text
//! parameters: │ v bytes, the frequent value │ ranks: entry points: number of other values before each vector │
//! child 0: boolean, set where the value is another       child 1: the other values, in the order of rows
//! ```
//!
//! Frequency encoding as in BtrBlocks (Kuschewski, Sauerwein, Alhomssi, Leis, SIGMOD 2023, §2.2).

use std::ops::Range;

use super::node::{Node, Opening, bound_of_rows, lanes_mut};
use super::ranked::{Ranked, ranks};
use super::strings::{bytes_mut, extend_repeated};
use super::{Effort, Encoding};
use crate::aggregate::{Living, Reduction};
use crate::block::body::Body;
use crate::block::head::EncodedNode;
use crate::chooser::{Encoder, Statistics, frequent::other_lane_bytes, statistics::LEAST_SYMBOL_RATIO};
use crate::error::{Error, Result};
use crate::filter::{AskCount, FilterWork, Question};
use crate::values::{BitBuffer, Bits, Column, Decoded, LaneAccess, Values};
use crate::wire::{EntryPoints, write_bytes};
use crate::{Lane, Physical, Scalar, simd, with_lane_of, with_lanes};

pub(crate) struct Sparse;

/// Longer byte strings are left to other encodings, so that heads stay small.
const MAX_VALUE_BYTES: usize = 256;

impl Encoding for Sparse {
    fn id(&self) -> u8 {
        22
    }

    fn name(&self) -> &'static str {
        "Sparse"
    }

    fn predicted_bytes(&self, statistics: &Statistics<'_>, encoder: &Encoder<'_>) -> Option<f64> {
        if !encoder.may_cascade() || statistics.is_constant() {
            return None;
        }
        let frequent = statistics.frequent()?;
        if frequent.which_bytes + encoder.price_bytes(self, statistics.rows, 0.0) > encoder.best_bytes() {
            return None;
        }
        let others = match (&statistics.column.values, statistics.strings()) {
            // Where strings recur, the codes of a dictionary may be sparse.
            (Values::Bytes(_), Some(_)) if statistics.is_repetitive() => return None,
            (Values::Bytes(all), Some(strings)) => {
                let frequent_rows = statistics.rows as f64 - frequent.other_rows;
                let other_bytes = strings.total_bytes as f64 - frequent_rows * all[frequent.row].len() as f64;
                let least_bytes = frequent.which_bytes + other_bytes * LEAST_SYMBOL_RATIO;
                if least_bytes + encoder.price_bytes(self, statistics.rows, 0.0) > encoder.best_bytes() {
                    return None;
                }
                other_bytes.max(0.0) * strings.symbols().0.min(1.0) + frequent.other_rows
            }
            _ => other_lane_bytes(statistics, frequent, encoder.may_cascade_below(1))?,
        };
        Some(frequent.which_bytes + others)
    }

    fn effort(&self) -> Effort {
        Effort::Some
    }

    fn encode(&self, statistics: &Statistics<'_>, encoder: &mut Encoder<'_>) -> Result<Option<EncodedNode>> {
        let column = statistics.column;
        if column.rows == 0 {
            return Ok(None);
        }
        let row = statistics.frequent().map_or(0, |frequent| frequent.row);
        let mut value = Vec::new();
        let (which, others) = match &column.values {
            Values::Fixed(fixed, lanes) => with_lanes!(lanes, lanes => {
                lanes[row].write(&mut value);
                let others = others(lanes, row);
                let values = Values::Fixed(*fixed, LaneAccess::lanes(&others.1));
                let column = Column { rows: others.1.len(), validity: None, values };
                (others.0, encoder.child_as_distinct(statistics, 1, &column)?)
            }),
            Values::Bytes(strings) if strings[row].len() <= MAX_VALUE_BYTES => {
                value.extend_from_slice(strings[row]);
                let others = others(strings, row);
                let values = Values::Bytes(&others.1);
                let column = Column { rows: others.1.len(), validity: None, values };
                (others.0, encoder.child_like(statistics, &column)?)
            }
            _ => return Ok(None),
        };
        let mut parameters = Vec::new();
        write_bytes(&value, &mut parameters);
        EntryPoints::write(&ranks(which.bits()), &mut parameters);
        let which = encoder.child(&Column { rows: column.rows, validity: None, values: Values::Bool(which.bits()) })?;
        Ok(Some(EncodedNode {
            encoding: self.id(),
            rows: column.rows,
            parameters,
            buffers: Vec::new(),
            children: vec![which, others],
        }))
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Node>> {
        opening.shape(2, 0)?;
        opening.within_bounds(4)?;
        let (value, ranks) = opening
            .parameters(|reader| Ok((reader.bytes()?.to_vec(), EntryPoints::read(reader, opening.vectors())?)))?;
        let ranked = Ranked::open(opening, ranks)?;
        let others = opening.child(1, opening.physical, ranked.value_count())?;
        match opening.physical {
            Physical::Fixed(fixed) if value.len() == fixed.size_bytes() => {
                opening.within_bounds(fixed.size_bytes())?;
                Ok(
                    with_lane_of!(*fixed, T => Box::new(SparseLanes { value: <T as Lane>::read(&value), ranked, others })),
                )
            }
            Physical::Bytes => {
                Ok(Box::new(SparseStrings { value, ranked, others, decoded_bytes: opening.decoded_bytes }))
            }
            other => Err(opening.corrupt(format!("{} bytes of value for {other}", value.len()))),
        }
    }
}

/// Which values differ from that of `row`, and those.
fn others<T: Copy + PartialEq>(values: &[T], row: usize) -> (BitBuffer, Vec<T>) {
    let (frequent, mut which, mut others) = (values[row], BitBuffer::default(), Vec::new());
    for piece in values.chunks(64) {
        let word = piece.iter().rev().fold(0u64, |word, &value| word << 1 | u64::from(value != frequent));
        which.extend_word(word, piece.len());
        let mut left = word;
        while left != 0 {
            others.push(piece[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
    }
    (which, others)
}

fn describe(ranked: &Ranked) -> String {
    format!("{} other values", ranked.value_count())
}

#[derive(Debug)]
struct SparseLanes<T> {
    value: T,
    ranked: Ranked,
    others: Box<dyn Node>,
}

impl<T: LaneAccess> SparseLanes<T> {
    /// Appends the frequent value for clear bits, and for set bits one of the others after the other.
    fn append(&self, bits: Bits<'_>, others: &Decoded, out: &mut Decoded) -> Result<()> {
        let others = T::of(&others.values).filter(|others| others.len() == bits.count_ones()).ok_or_else(bad_count)?;
        simd::expand(others, bits, self.value, lanes_mut::<T>(out)?);
        out.extend_valid(bits.len());
        Ok(())
    }
}

fn bad_count() -> Error {
    Error::corrupt("node", 0, "Sparse: not as many other values as rows that have them")
}

impl<T: LaneAccess> Node for SparseLanes<T> {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let range = self.ranked.range(body, &rows)?;
        let mut others = out.empty_like();
        self.others.decode(body, range.values.clone(), &mut others)?;
        self.append(range.bits(), &others, out)
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let (which, values) = self.ranked.single(body, rows)?;
        let mut others = out.empty_like();
        self.others.get(body, &values, &mut others)?;
        self.append(which.bits(), &others, out)
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        work.compared_values += 1;
        let value_passes = question.passes_lane(self.value, work)?;
        self.ranked.filter(body, rows, &*self.others, value_passes, question, work, out)
    }

    fn ask_count(&self, _: usize, question: &Question) -> AskCount {
        self.ranked.ask_count(1, &*self.others, question)
    }

    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        out.work.reduced_values += 1;
        let frequent = self.ranked.aggregate(body, rows, alive, &*self.others, out)?;
        out.repeated_lane(self.value, frequent);
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![self.ranked.which(), &*self.others]
    }

    fn describe(&self) -> String {
        describe(&self.ranked)
    }
}

#[derive(Debug)]
struct SparseStrings {
    value: Vec<u8>,
    ranked: Ranked,
    others: Box<dyn Node>,
    decoded_bytes: u64,
}

impl SparseStrings {
    /// As for lanes; `others` is used up, and `bound` the most bytes that the strings may come to.
    fn append(&self, bits: Bits<'_>, mut others: Decoded, bound: u64, out: &mut Decoded) -> Result<()> {
        let count = bits.count_ones();
        if others.rows != count {
            return Err(bad_count());
        }
        let frequent_bytes = (bits.len() - count) as u64 * self.value.len() as u64;
        if frequent_bytes.saturating_add(others.string_bytes()) > bound {
            return Err(Error::corrupt("node", 0, "Sparse: strings exceed what the block declares"));
        }
        extend_repeated(bytes_mut(&mut others)?, &self.value, 1)?;
        let mut rank = 0;
        let mut picked = Vec::with_capacity(bits.len());
        for is_other in bits.iter() {
            picked.push(if is_other { rank } else { count });
            rank += usize::from(is_other);
        }
        out.extend_picked(&others, picked.into_iter())
    }
}

impl Node for SparseStrings {
    fn decode(&self, body: &Body, rows: Range<usize>, out: &mut Decoded) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let range = self.ranked.range(body, &rows)?;
        let mut others = out.empty_like();
        self.others.decode(body, range.values.clone(), &mut others)?;
        self.append(range.bits(), others, self.decoded_bytes, out)
    }

    fn get(&self, body: &Body, rows: &[u32], out: &mut Decoded) -> Result<()> {
        let (which, values) = self.ranked.single(body, rows)?;
        let mut others = out.empty_like();
        self.others.get(body, &values, &mut others)?;
        self.append(which.bits(), others, bound_of_rows(rows, self.decoded_bytes), out)
    }

    fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        work.compared_values += 1;
        let value_passes = question.passes_bytes(&self.value, work)?;
        self.ranked.filter(body, rows, &*self.others, value_passes, question, work, out)
    }

    fn ask_count(&self, _: usize, question: &Question) -> AskCount {
        self.ranked.ask_count(1, &*self.others, question)
    }

    fn aggregate(&self, body: &Body, rows: Range<usize>, alive: Living<'_>, out: &mut Reduction<'_>) -> Result<()> {
        out.work.reduced_values += 1;
        let frequent = self.ranked.aggregate(body, rows, alive, &*self.others, out)?;
        out.repeated(Scalar::Bytes(self.value.clone()), frequent);
        Ok(())
    }

    fn children(&self) -> Vec<&dyn Node> {
        vec![self.ranked.which(), &*self.others]
    }

    fn describe(&self) -> String {
        describe(&self.ranked)
    }
}
