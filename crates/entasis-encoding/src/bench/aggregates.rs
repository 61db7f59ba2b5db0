//! Aggregates of a kernel's values, as they are encoded and of decoded ones.

use super::Kernel;
use crate::aggregate::{AggregateWork, Aggregates, Living, Reduction, Wanted};
use crate::error::{Error, Result};
use crate::values::Decoded;
use crate::{Physical, Selection};

/// Something that is wanted of a kernel's values.
#[derive(Debug)]
pub struct Reduced<'a> {
    /// The block.
    pub kernel: &'a Kernel,
    /// What is wanted, in words.
    pub words: &'static str,
    /// Values that are decoded to find out.
    pub decoded_values: u64,
    wanted: Wanted,
}

impl Reduced<'_> {
    /// Reduces the encoded values.
    ///
    /// # Errors
    /// None: they were reduced before.
    pub fn of_encoded(&self, work: &mut AggregateWork) -> Result<Aggregates> {
        let mut found = Aggregates::default();
        self.kernel.block.aggregate(&Selection::all(self.kernel.rows), self.wanted, work, &mut found)?;
        Ok(found)
    }

    /// Decodes all values and reduces them then, by the same kernels; what `out` held is forgotten.
    ///
    /// # Errors
    /// None: they were decoded before.
    pub fn of_decoded(&self, out: &mut Decoded, work: &mut AggregateWork) -> Result<Aggregates> {
        let mut found = Aggregates::default();
        self.kernel.decode(out)?;
        let mut reduction = Reduction::new(self.wanted, self.kernel.block.physical(), work, &mut found);
        reduction.decoded(out, Living::All(self.kernel.rows));
        Ok(found)
    }
}

impl Kernel {
    /// The range, and the sum of integers; nothing of nested values. Encoded and decoded values give the same answer.
    ///
    /// # Errors
    /// An encoding that answers otherwise than its decoded values.
    pub fn reduced(&self) -> Result<Vec<Reduced<'_>>> {
        let range = Wanted { min: true, max: true, sum: false };
        let sum = Wanted { sum: true, ..Wanted::COUNT };
        let wanted: &[(&'static str, Wanted)] = match self.block.physical() {
            Physical::Fixed(fixed) if !fixed.is_float() && fixed.size_bytes() <= 8 => {
                &[("least and greatest", range), ("sum", sum)]
            }
            Physical::Bool | Physical::Fixed(_) | Physical::Bytes => &[("least and greatest", range)],
            _ => &[],
        };
        let mut all = Vec::new();
        for &(words, wanted) in wanted {
            let mut reduced = Reduced { kernel: self, words, decoded_values: 0, wanted };
            let mut work = AggregateWork::default();
            let encoded = reduced.of_encoded(&mut work)?;
            reduced.decoded_values = work.decoded_values;
            if encoded != reduced.of_decoded(&mut self.output(), &mut work)? {
                let what = format!("{} reduces otherwise than decoded ({}, {words})", self.encoding, self.values);
                return Err(Error::InvalidArgument(what));
            }
            all.push(reduced);
        }
        Ok(all)
    }
}
