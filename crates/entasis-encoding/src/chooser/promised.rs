//! What a child may take beyond packing: asked of a sample of what an encoding makes of its values, before any of it is encoded.

use super::statistics::{RECURRING, Statistics, entropy_bits};
use super::{Effort, Encoder};
use crate::values::{Column, LaneAccess, Values};
use crate::{Fixed, PackedLane, simd};

/// What recurs in a sample recurs a little less elsewhere.
const MARGIN: f64 = 1.1;
/// The share of the bits that numbers of a sample's values have, above which hardly one comes again.
const ALL_DIFFERENT: f64 = 0.95;

impl Encoder<'_> {
    /// Bytes that `vectors`, which an encoding makes of the sample of these lanes, promise to take as a child: `packed` or, where they
    /// recur so often that it may be fewer than that and than the best so far, what the child's own encodings promise.
    pub fn promised_for<T: PackedLane + LaneAccess>(
        &self,
        statistics: &Statistics<'_>,
        fixed: Fixed,
        vectors: &[Vec<T>],
        packed: f64,
    ) -> f64 {
        let Some(lanes) = statistics.lanes().filter(|_| self.may_cascade_below(1)) else { return packed };
        let rows: usize = vectors.iter().map(Vec::len).sum();
        let words: Vec<u64> = vectors.iter().step_by(2).flatten().map(|value| value.to_u64()).collect();
        let packed_bits = packed.min(self.best_bytes() / lanes.scale()) * 8.0 / rows.max(1) as f64;
        // Of values that are nearly all different, a sample says no more than that.
        let different_bits = ALL_DIFFERENT * (words.len().max(1) as f64).log2();
        if entropy_bits(&words) > different_bits.min(RECURRING * packed_bits) {
            return packed;
        }
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
