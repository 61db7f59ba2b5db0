//! Values that aren't encoded, reduced where they lie.

use super::{AggregateWork, Aggregates, Living, Reduction, Wanted};
use crate::values::{BitBuffer, Column, Values};
use crate::{simd, with_lanes};

impl Column<'_> {
    /// Counts all values into `into`, which may know of others of the same type.
    pub fn aggregate(&self, wanted: Wanted, work: &mut AggregateWork, into: &mut Aggregates) {
        let physical = self.values.physical();
        let mut reduction = Reduction::new(wanted, &physical, work, into);
        if let Values::Null = self.values {
            return reduction.nulls(self.rows);
        }
        let mut valid = BitBuffer::default();
        let alive = match self.validity {
            None => Living::All(self.rows),
            Some(validity) => {
                valid.extend_bits(validity);
                Living::of(&valid)
            }
        };
        reduction.nulls(self.rows - alive.count());
        if !reduction.needs_values() {
            return reduction.count(alive.count());
        }
        reduction.work.decoded_values += self.rows as u64;
        match (&self.values, alive) {
            (Values::Bool(bits), _) => reduction.bits(*bits, alive),
            (Values::Bytes(slices), _) => reduction.strings(*slices, alive),
            (Values::Fixed(_, lanes), Living::All(_)) => with_lanes!(lanes, lanes => reduction.lanes(lanes)),
            (Values::Fixed(_, lanes), Living::Some(bits)) => with_lanes!(lanes, lanes => {
                let mut lanes = lanes.to_vec();
                simd::compact(&mut lanes, bits);
                reduction.lanes(&lanes);
            }),
            _ => reduction.count(alive.count()),
        }
    }
}
