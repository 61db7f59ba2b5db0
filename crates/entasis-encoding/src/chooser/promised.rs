//! What a child may take beyond packing: asked of a sample of what an encoding makes of its values, before any of it is encoded.

use super::statistics::{RECURRING, Statistics, entropy_bits};
use super::{Effort, Encoder};
use crate::values::{Column, LaneAccess, Values};
use crate::{Fixed, PackedLane, simd};

/// What recurs in a sample recurs a little less elsewhere.
const MARGIN: f64 = 1.1;
/// The share of the bits that numbers of a sample's values have, above which hardly one comes again.
const ALL_DIFFERENT: f64 = 0.95;

/// How often values recur in a sample.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recurrence {
    /// The entropy of a value.
    bits: f64,
    /// What that is where nearly all differ: then a sample says no more.
    different_bits: f64,
}

impl Recurrence {
    pub fn of<T: PackedLane>(vectors: &[Vec<T>]) -> Self {
        let words: Vec<u64> = vectors.iter().flatten().map(|value| value.to_u64()).collect();
        let different_bits = ALL_DIFFERENT * (words.len().max(1) as f64).log2();
        Self { bits: entropy_bits(&words), different_bits }
    }
}

impl Encoder<'_> {
    /// Whether some of the sample of these lanes, of which an encoding makes `packed_bits` a value, recurs so often that a child may take
    /// fewer than those and than the best so far.
    pub fn may_promise_less(&self, statistics: &Statistics<'_>, recurrence: Recurrence, packed_bits: f64) -> bool {
        let best_bits = self.best_bytes() * 8.0 / statistics.rows.max(1) as f64;
        let enough_bits = recurrence.different_bits.min(RECURRING * packed_bits.min(best_bits));
        self.may_cascade_below(1) && recurrence.bits <= enough_bits
    }

    /// Bytes that `vectors`, which an encoding makes of the sample of these lanes, promise to take as a child: `packed`, or what the child's
    /// own encodings promise. For those of which [`Self::may_promise_less`] holds.
    pub fn promised_for<T: PackedLane + LaneAccess>(
        &self,
        statistics: &Statistics<'_>,
        fixed: Fixed,
        vectors: &[Vec<T>],
        packed: f64,
    ) -> f64 {
        let Some(lanes) = statistics.lanes() else { return packed };
        let rows: usize = vectors.iter().map(Vec::len).sum();
        // All runs tell whether the sample has its share of them: within runs values cost least.
        let sampled_runs: usize = lanes.sample::<T>().into_iter().map(simd::count_runs).sum();
        let runs = statistics.run_count().unwrap_or(statistics.rows) as f64;
        let more_runs = (runs / (sampled_runs.max(1) as f64 * lanes.scale())).clamp(1.0, lanes.scale());
        let sample = vectors.concat();
        let values = Values::Fixed(fixed, T::lanes(&sample));
        let most_bytes = packed.min(self.best_bytes() / lanes.scale()) / (more_runs * MARGIN);
        let promised = self.promised_beneath(&Statistics::new(&Column { rows, validity: None, values }), most_bytes);
        promised.map_or(packed, |bytes| packed.min(bytes * more_runs * MARGIN))
    }

    /// Bytes and price that the best encoding promises for a child with these values, without learning anything from them; more than
    /// `most_bytes` are of no use, and may be too many.
    pub fn promised_beneath(&self, statistics: &Statistics<'_>, most_bytes: f64) -> Option<f64> {
        let mut child = Encoder { best_bytes: most_bytes, ..self.one_deeper() };
        let candidates = child.candidates(statistics, true, Effort::Some);
        candidates.first().map(|candidate| candidate.0)
    }
}
