//! Trials: where bytes are all that counts, what promises about the fewest is encoded, and what takes the fewest is kept. Promises
//! err, for what children take isn't known before they are encoded.

use super::hints::Hint;
use super::{Encoder, Statistics};
use crate::block::head::EncodedNode;
use crate::encodings::{Encoding, dictionary::Dictionary};
use crate::error::Result;

/// So many are tried.
const TRIALS: usize = 3;
/// What promises so many times the bytes of the best isn't.
const SLACK: f64 = 1.5;

impl Encoder<'_> {
    /// The smallest of the candidates, which are sorted by what they promise; `None` where there is nothing to try, or where the choice
    /// is to be told or shared with other blocks: then the best is first among the candidates.
    pub(super) fn try_out(
        &mut self,
        candidates: &mut [(f64, &'static dyn Encoding)],
        statistics: &Statistics<'_>,
    ) -> Result<Option<EncodedNode>> {
        let least = candidates.first().map_or(0.0, |candidate| candidate.0);
        let few = candidates.iter().take(TRIALS).take_while(|candidate| candidate.0 <= least * SLACK).count();
        if few < 2 {
            return Ok(None);
        }
        let mut best: Option<(f64, usize, EncodedNode, Option<Hint>)> = None;
        for (place, &(promised, encoding)) in candidates[..few].iter().enumerate() {
            let mut beside = self.beside();
            let Some(node) = beside.attempt(encoding, promised / statistics.rows.max(1) as f64, statistics)? else {
                continue;
            };
            let taken = node.priced_bytes(self.options) - self.shared_bytes(&node, statistics);
            if best.as_ref().is_none_or(|best| taken < best.0) {
                best = Some((taken, place, node, beside.learned));
            }
        }
        let Some((_, place, node, learned)) = best else { return Ok(None) };
        let is_shared = node.encoding == Dictionary.id() && self.shared.is_some();
        if is_shared || self.trace.is_some() {
            candidates[..=place].rotate_right(1);
            return Ok(None);
        }
        self.learned = learned;
        Ok(Some(node))
    }

    /// Bytes of a dictionary's values that other blocks of the chunk have as well.
    fn shared_bytes(&self, node: &EncodedNode, statistics: &Statistics<'_>) -> f64 {
        let (Some(fresh), Some(values)) = (self.fresh_values(statistics), node.children.get(1)) else { return 0.0 };
        if node.encoding != Dictionary.id() {
            return 0.0;
        }
        let known = values.rows.saturating_sub(fresh);
        values.size_bytes() as f64 * known as f64 / values.rows.max(1) as f64
    }
}
