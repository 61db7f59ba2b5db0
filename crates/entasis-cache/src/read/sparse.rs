//! Which cells few rows were wanted of: what is wanted again is worth being decoded whole.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use crate::CellId;

/// So many are remembered, as 64 bits each, before all are forgotten.
const MOST_CELLS: usize = 1 << 16;

/// Cells of which few rows were read, past the cache.
#[derive(Debug, Default)]
pub(crate) struct Sparse {
    hashes: HashSet<u64>,
    state: RandomState,
}

impl Sparse {
    /// Whether this was said of the cell before; then it is forgotten. Two cells of one hash are rare, and do no harm.
    pub fn is_wanted_again(&mut self, cell: &CellId) -> bool {
        let hash = self.state.hash_one(cell);
        if self.hashes.remove(&hash) {
            return true;
        }
        if self.hashes.len() == MOST_CELLS {
            self.hashes.clear();
        }
        self.hashes.insert(hash);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnId, ObjectId, Stamp, Version};

    #[test]
    fn every_second_time_is_again() {
        let version = Version::new(ObjectId::new("s3://a", "t".into()), Stamp::ETag("1".to_owned()));
        let cell = |piece| CellId { column: ColumnId { version: version.clone(), leaf: 3 }, row_group: 0, piece };
        let mut sparse = Sparse::default();
        assert_eq!(
            [0, 1, 0, 0, 1].map(|piece| sparse.is_wanted_again(&cell(piece))),
            [false, false, true, false, true]
        );
        (0..3 * MOST_CELLS).for_each(|piece| assert!(!sparse.is_wanted_again(&cell(piece + 9))));
        assert!(sparse.hashes.len() <= MOST_CELLS);
    }
}
