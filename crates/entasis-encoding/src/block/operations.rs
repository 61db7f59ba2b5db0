//! Selecting and filtering: operations over a selection.

use super::{Block, vector_rows};
use crate::error::Result;
use crate::filter::{Filter, FilterWork};
use crate::predicate::{Predicate, Scalar};
use crate::selection::{Selection, VectorSelection};
use crate::values::{Decoded, DecodedValues};
use crate::{Fixed, Lane, Physical, VECTOR_ROWS, with_decoded_lanes};

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
