//! Selecting, filtering and aggregating: the operations over a selection, by default on decoded vectors.

use super::{Block, vector_rows};
use crate::error::Result;
use crate::filter::{Filter, FilterWork};
use crate::predicate::{FloatOrder, Predicate, Scalar};
use crate::selection::{Selection, VectorSelection};
use crate::values::{BytesForm, Decoded, DecodedValues};
use crate::{Fixed, Lane, Physical, VECTOR_ROWS, with_decoded_lanes};

/// What is known of some values after looking at all of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Aggregates {
    /// Values that aren't null.
    pub count: u64,
    /// Nulls.
    pub null_count: u64,
    /// NaNs, which neither `min` nor `max` regards.
    pub nan_count: u64,
    /// The least; a zero is −0.0. `None` without values or for nested types.
    pub min: Option<Scalar>,
    /// The greatest; a zero is +0.0.
    pub max: Option<Scalar>,
    /// The sum of integers of at most 64 bits; `None` for other types.
    pub sum: Option<i128>,
}

/// How many rows of a vector are alive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alive {
    None,
    Few,
    Many,
    All,
}

impl Block {
    /// Appends the rows that are alive. Vectors without any aren't touched. Of those with a few, these are got one by one; the others
    /// are decoded, and the rows that aren't alive left behind.
    pub fn select(&self, selection: &Selection, out: &mut Decoded) -> Result<()> {
        self.check_selection(selection)?;
        let few = self.root().few();
        let kind = |vector: usize| match &selection.vectors()[vector] {
            VectorSelection::None => Alive::None,
            VectorSelection::All => Alive::All,
            VectorSelection::Mask(_) if selection.count_in(vector) <= few => Alive::Few,
            VectorSelection::Mask(_) => Alive::Many,
        };
        let mut picked = Vec::new();
        let mut vector = 0;
        while vector < selection.vectors().len() {
            let alive = kind(vector);
            let same = (vector..selection.vectors().len()).take_while(|&next| kind(next) == alive).count();
            let rows = vector_rows(vector, self.rows()).start..vector_rows(vector + same - 1, self.rows()).end;
            picked.clear();
            if matches!(alive, Alive::Few | Alive::Many) {
                for vector in vector..vector + same {
                    picked.extend(selection.vector_iter(vector).map(|row| (vector * VECTOR_ROWS + row) as u32));
                }
            }
            match alive {
                Alive::None => {}
                Alive::All => self.decode(rows, out)?,
                Alive::Few => self.get(&picked, out)?,
                Alive::Many => self.root().pick(self.body(), rows, &picked, out)?,
            }
            vector += same;
        }
        Ok(())
    }

    /// Keeps the rows of `selection` for which `predicate` is true. Who asks several blocks makes a [`Filter`] once.
    pub fn filter(&self, predicate: &Predicate, selection: &mut Selection) -> Result<()> {
        Filter::new(predicate, self.physical()).apply(self, selection, &mut FilterWork::default())
    }

    /// Aggregates of the rows that are alive.
    pub fn aggregate(&self, selection: &Selection) -> Result<Aggregates> {
        self.check_selection(selection)?;
        let summed = matches!(self.physical(), Physical::Fixed(fixed) if !fixed.is_float() && fixed.size_bytes() <= 8);
        let mut aggregates = Aggregates { sum: summed.then_some(0), ..Aggregates::default() };
        let mut values = Decoded::new(self.physical(), BytesForm::Views);
        for vector in 0..selection.vectors().len() {
            if selection.vectors()[vector] == VectorSelection::None {
                continue;
            }
            values.clear();
            self.decode(vector_rows(vector, self.rows()), &mut values)?;
            for row in selection.vector_iter(vector) {
                aggregates.add(values.is_valid(row), values.scalar(self.physical(), row));
            }
        }
        Ok(aggregates)
    }
}

impl Aggregates {
    /// Counts one value in.
    fn add(&mut self, valid: bool, value: Option<Scalar>) {
        if !valid {
            self.null_count += 1;
            return;
        }
        self.count += 1;
        let Some(value) = value else { return };
        match (&value, &mut self.sum) {
            (Scalar::Float(float), _) if float.is_nan() => {
                self.nan_count += 1;
                return;
            }
            (Scalar::Int(int), Some(sum)) => *sum += int,
            _ => {}
        }
        // The total order puts −0.0 below 0.0, which is how zones want them.
        let order = FloatOrder::Total;
        if self.min.as_ref().is_none_or(|min| value.compare(min, order) == Some(std::cmp::Ordering::Less)) {
            self.min = Some(value.clone());
        }
        if self.max.as_ref().is_none_or(|max| value.compare(max, order) == Some(std::cmp::Ordering::Greater)) {
            self.max = Some(value);
        }
    }
}

impl Decoded {
    /// True if `row` isn't null.
    pub fn is_valid(&self, row: usize) -> bool {
        !matches!(self.values, DecodedValues::Null) && self.validity.as_ref().is_none_or(|bits| bits.bits().get(row))
    }

    /// The value of `row`, if it isn't null and of a type that has scalars.
    pub fn scalar(&self, physical: &Physical, row: usize) -> Option<Scalar> {
        if !self.is_valid(row) {
            return None;
        }
        let fixed = match physical {
            Physical::Fixed(fixed) => *fixed,
            _ => Fixed::U8,
        };
        match &self.values {
            DecodedValues::Bool(bits) => Some(Scalar::Bool(bits.bits().get(row))),
            DecodedValues::Bytes(strings) => Some(Scalar::Bytes(strings.with(row, <[u8]>::to_vec))),
            lanes => with_decoded_lanes!(lanes, lanes => Some(Scalar::from_lane(fixed, lanes[row].widen())), None),
        }
    }
}
