//! Counts, extremes and sums of encoded values, found where they lie.
//!
//! Each node reduces its values as its encoding allows (`Node::aggregate`): a constant and a run count as often as they have rows, a
//! dictionary counts its codes and reduces each value once, packed integers that can't widen the range that is known aren't unpacked,
//! decimals are reduced as their integers, and nulls are counted by the bits that say which they are. What has no better way is decoded,
//! a few vectors at a time, and reduced then.

mod lent;
mod living;
mod reduction;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use crate::encodings::Encoding;
use crate::encodings::validity::Validity;
use crate::error::Result;
use crate::predicate::{FloatOrder, Scalar};
use crate::scratch::Scratch;
use crate::selection::{Selection, VectorSelection};
use crate::values::{BitBuffer, BytesForm, Decoded};
use crate::{Block, Physical, VECTOR_ROWS};
pub(crate) use living::Living;
pub(crate) use reduction::{Reduction, aggregate_decoded};
#[cfg(test)]
pub(crate) use tests::{check_aggregates, check_lent_aggregates, naive};

/// What is wanted of values, beside how many they are: nobody pays for what isn't.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Wanted {
    /// The least value.
    pub min: bool,
    /// The greatest value.
    pub max: bool,
    /// The sum of integers of at most 64 bits.
    pub sum: bool,
}

/// What is known of some values after looking at all of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Aggregates {
    /// Values that aren't null.
    pub count: u64,
    /// Nulls.
    pub null_count: u64,
    /// NaNs, which neither `min` nor `max` regards; counted where one of these is wanted.
    pub nan_count: u64,
    /// The least, −0.0 being less than 0.0. `None` without values or for nested types.
    pub min: Option<Scalar>,
    /// The greatest, 0.0 being greater than −0.0.
    pub max: Option<Scalar>,
    /// The sum of integers of at most 64 bits; `None` for other types. Floats have none, for it would depend on their order.
    pub sum: Option<i128>,
}

/// What aggregates did, and memory that they use again.
#[derive(Debug, Default)]
pub struct AggregateWork {
    /// Values that were decoded, those of dictionaries among them.
    pub decoded_values: u64,
    /// Values that were reduced as they are encoded: those of constants and runs, codes, packed integers.
    pub reduced_values: u64,
    pub(crate) scratch: Scratch,
}

impl Wanted {
    /// Only how many there are.
    pub const COUNT: Self = Self { min: false, max: false, sum: false };
    /// All that there is.
    pub const ALL: Self = Self { min: true, max: true, sum: true };

    /// What is wanted here or there.
    pub fn or(self, other: Self) -> Self {
        Self { min: self.min | other.min, max: self.max | other.max, sum: self.sum | other.sum }
    }
}

impl Aggregates {
    /// Counts in what is known of other values of the same type.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.null_count += other.null_count;
        self.nan_count += other.nan_count;
        self.widen(other.min, other.max);
        if let Some(sum) = other.sum {
            // Whoever made up a sum may have made up a large one.
            self.sum = Some(self.sum.unwrap_or(0).wrapping_add(sum));
        }
    }

    /// Moves the ends of the range to values that lie beyond.
    fn widen(&mut self, min: Option<Scalar>, max: Option<Scalar>) {
        let is = |value: &Scalar, known: &Option<Scalar>, ordering| {
            known.as_ref().is_none_or(|known| value.compare(known, FloatOrder::Total) == Some(ordering))
        };
        if let Some(min) = min.filter(|min| is(min, &self.min, Ordering::Less)) {
            self.min = Some(min);
        }
        if let Some(max) = max.filter(|max| is(max, &self.max, Ordering::Greater)) {
            self.max = Some(max);
        }
    }
}

impl Block {
    /// Counts the rows that are alive into `into`, which may know of other rows of the column. Vectors without any aren't touched; of those
    /// with a few, these are got one by one.
    ///
    /// # Errors
    /// Corrupt if what the rows need is; an invalid argument if block and selection are of different length. After an error `into` is
    /// unspecified.
    pub fn aggregate(
        &self,
        selection: &Selection,
        wanted: Wanted,
        work: &mut AggregateWork,
        into: &mut Aggregates,
    ) -> Result<()> {
        self.check_selection(selection)?;
        let mut reduction = Reduction::new(wanted, self.physical(), work, into);
        let needs_values = reduction.needs_values();
        let may_be_null = *self.physical() == Physical::Null || self.root_encoding() == Validity.id();
        if !needs_values && !may_be_null {
            reduction.count(selection.count());
            return Ok(());
        }
        let few = if needs_values { self.root().few() } else { 0 };
        let is_few = |vector: usize| selection.count_in(vector) <= few.min(selection.vector_rows(vector) - 1);
        let vectors = selection.vectors();
        let mut vector = 0;
        while vector < vectors.len() {
            if vectors[vector] == VectorSelection::None {
                vector += 1;
                continue;
            }
            let first = vector * VECTOR_ROWS;
            if is_few(vector) {
                self.aggregate_few(first, selection.vector_iter(vector), &mut reduction)?;
                vector += 1;
                continue;
            }
            let is_dense = |vector: usize| vectors[vector] != VectorSelection::None && !is_few(vector);
            let end = (vector + 1..vectors.len()).find(|&vector| !is_dense(vector)).unwrap_or(vectors.len());
            let rows = first..(end * VECTOR_ROWS).min(self.rows());
            let mut bits = BitBuffer::default();
            if vectors[vector..end].iter().any(|vector| *vector != VectorSelection::All) {
                selection.extend_bits(vector..end, &mut bits);
            }
            let alive = if bits.is_empty() { Living::All(rows.len()) } else { Living::Some(bits.bits()) };
            self.root().aggregate(self.body(), rows, alive, &mut reduction)?;
            vector = end;
        }
        Ok(())
    }

    /// Gets the living rows of a vector, one by one.
    fn aggregate_few(
        &self,
        first: usize,
        alive: impl Iterator<Item = usize>,
        reduction: &mut Reduction<'_>,
    ) -> Result<()> {
        let rows: Vec<u32> = alive.map(|row| (first + row) as u32).collect();
        let mut values = Decoded::new(self.physical(), BytesForm::Offsets32);
        self.root().get(self.body(), &rows, &mut values)?;
        reduction.decoded(&mut values, Living::All(rows.len()));
        Ok(())
    }
}
