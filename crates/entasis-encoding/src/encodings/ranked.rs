//! Rows of which some have a value of their own: which do, as a boolean child, and how many come before each vector. What
//! `Validity` and `Sparse` have in common.

use std::ops::Range;

use super::bitmap::bits_mut;
use super::node::{Node, Opening, by_vector};
use crate::aggregate::{Living, Reduction};
use crate::block::body::Body;
use crate::error::{Error, Result};
use crate::filter::{AskCount, FilterWork, Question, spread_found};
use crate::values::{BitBuffer, Bits, BytesForm, Decoded};
use crate::{Physical, VECTOR_ROWS};

/// Number of set bits before each vector.
pub(crate) fn ranks(bits: Bits<'_>) -> Vec<u64> {
    let vectors = (0..bits.len()).step_by(VECTOR_ROWS);
    let counts = vectors.map(|row| bits.slice(row, VECTOR_ROWS.min(bits.len() - row)).count_ones() as u64);
    counts.scan(0, |rank, count| Some(std::mem::replace(rank, *rank + count))).collect()
}

/// Which rows have a value of their own, and where those of each vector begin.
#[derive(Debug)]
pub(crate) struct Ranked {
    which: Box<dyn Node>,
    /// Number of values before each vector, and of all.
    ranks: Vec<usize>,
}

/// The values that some rows have.
pub(crate) struct RangeValues {
    bits: BitBuffer,
    lead: usize,
    /// Numbers of the values of these rows.
    pub values: Range<usize>,
}

impl RangeValues {
    /// A bit per row, set where it has a value.
    pub fn bits(&self) -> Bits<'_> {
        self.bits.bits().slice(self.lead, self.bits.len() - self.lead)
    }
}

impl Ranked {
    /// Opens child 0 of the node, whose child 1 holds the values.
    pub fn open(opening: &Opening<'_>, mut ranks: Vec<u64>) -> Result<Self> {
        let which = opening.child(0, &Physical::Bool, opening.rows())?;
        let value_count = opening.record.children[1].rows;
        ranks.push(value_count as u64);
        if ranks[0] != 0 || ranks.windows(2).any(|pair| pair[0] > pair[1] || pair[1] - pair[0] > VECTOR_ROWS as u64) {
            return Err(opening.corrupt(format!("ranks don't ascend to {value_count} values")));
        }
        Ok(Self { which, ranks: ranks.into_iter().map(|rank| rank as usize).collect() })
    }

    /// The boolean child.
    pub fn which(&self) -> &dyn Node {
        &*self.which
    }

    /// Number of values.
    pub fn value_count(&self) -> usize {
        self.ranks.last().copied().unwrap_or(0)
    }

    /// Which of `rows`, not empty, have values.
    pub fn range(&self, body: &Body, rows: &Range<usize>) -> Result<RangeValues> {
        let first = rows.start / VECTOR_ROWS;
        let (bits, lead) = self.bits(body, rows)?;
        let start = self.ranks[first] + bits.bits().slice(0, lead).count_ones();
        let end = self.end_rank(first, bits.bits())?;
        Ok(RangeValues { bits, lead, values: start..end })
    }

    /// Which of single rows have values, and the numbers of those.
    pub fn single(&self, body: &Body, rows: &[u32]) -> Result<(BitBuffer, Vec<u32>)> {
        let (mut which, mut values) = (BitBuffer::default(), Vec::with_capacity(rows.len()));
        for group in by_vector(rows) {
            let first = group[0] as usize / VECTOR_ROWS;
            let last = group.iter().copied().max().unwrap_or(0) as usize;
            let (bits, _) = self.bits(body, &(last..last + 1))?;
            let bits = bits.bits();
            self.end_rank(first, bits)?;
            let mut before = [0; VECTOR_ROWS / 64];
            let words = (0..bits.len()).step_by(64).map(|row| bits.word(row));
            words.zip(&mut before).fold(self.ranks[first] as u32, |rank, (word, before)| {
                *before = rank;
                rank + word.count_ones()
            });
            for &row in group {
                let place = row as usize % VECTOR_ROWS;
                let (word, bit) = (bits.word(place / 64 * 64), 1u64 << (place % 64));
                which.push(word & bit != 0);
                if word & bit != 0 {
                    values.push(before[place / 64] + (word & (bit - 1)).count_ones());
                }
            }
        }
        Ok((which, values))
    }

    /// Appends a bit for each of `rows`: what its value among `values` answers, and `others` where it has none.
    #[allow(clippy::too_many_arguments, reason = "those of `Node::filter`, and where the values are")]
    pub fn filter(
        &self,
        body: &Body,
        rows: Range<usize>,
        values: &dyn Node,
        others: bool,
        question: &Question,
        work: &mut FilterWork,
        out: &mut BitBuffer,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let range = self.range(body, &rows)?;
        let mut found = BitBuffer::default();
        values.filter(body, range.values.clone(), question, work, &mut found)?;
        spread_found(found.bits(), range.bits(), others, out);
        Ok(())
    }

    /// Reduces the values, among `values`, of those of `rows` that are alive and have one, and says how many are alive that have none.
    pub fn aggregate(
        &self,
        body: &Body,
        rows: Range<usize>,
        alive: Living<'_>,
        values: &dyn Node,
        out: &mut Reduction<'_>,
    ) -> Result<usize> {
        if rows.is_empty() {
            return Ok(0);
        }
        let range = self.range(body, &rows)?;
        if let Living::All(count) = alive {
            let with_value = range.values.len();
            out.values(values, body, range.values, Living::All(with_value))?;
            return Ok(count - with_value);
        }
        let packed = alive.packed(range.bits());
        let packed = Living::of(&packed);
        out.values(values, body, range.values, packed)?;
        Ok(alive.count() - packed.count())
    }

    /// How many of `values` a question is put to, and `others` more.
    pub fn ask_count(&self, others: usize, values: &dyn Node, question: &Question) -> AskCount {
        let count = values.ask_count(self.value_count(), question);
        AskCount { own: count.own + others, ..count }
    }

    /// The bits of `rows` from the beginning of their first vector, and how many rows that is too early.
    fn bits(&self, body: &Body, rows: &Range<usize>) -> Result<(BitBuffer, usize)> {
        let first = rows.start / VECTOR_ROWS * VECTOR_ROWS;
        let mut bits = Decoded::new(&Physical::Bool, BytesForm::Offsets32);
        self.which.decode(body, first..rows.end, &mut bits)?;
        Ok((std::mem::take(bits_mut(&mut bits)?), rows.start - first))
    }

    /// Number of the value after the last of these bits, which begin at vector `first`. Bits that don't agree with the ranks are
    /// refused, so that every way to a row sees the same value.
    fn end_rank(&self, first: usize, bits: Bits<'_>) -> Result<usize> {
        let mut rank = self.ranks[first];
        for (vector, row) in (first..).zip((0..bits.len()).step_by(VECTOR_ROWS)) {
            let whole = bits.len() - row >= VECTOR_ROWS;
            rank += bits.slice(row, VECTOR_ROWS.min(bits.len() - row)).count_ones();
            if rank > self.ranks[vector + 1] || (whole && rank != self.ranks[vector + 1]) {
                return Err(Error::corrupt("node", 0, "ranks that don't agree with the rows that have values"));
            }
        }
        Ok(rank)
    }
}
