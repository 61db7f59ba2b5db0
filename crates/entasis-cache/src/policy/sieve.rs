//! SIEVE.

use std::collections::HashSet;

use super::{Policy, order::Order};
use crate::CellId;

/// A hand goes from the oldest cell to the youngest and over again; cells that were asked for since it last passed stay where they are, and
/// the first that wasn't goes (Zhang et al., NSDI 2024, algorithm 1).
#[derive(Debug, Default)]
pub struct Sieve {
    order: Order,
    visited: HashSet<CellId>,
    /// The place at which the hand goes on.
    hand: u64,
}

impl Policy for Sieve {
    fn admit(&mut self, cell: &CellId, _size_bytes: u64) {
        self.order.push(cell);
    }

    fn touch(&mut self, cell: &CellId) {
        if self.order.contains(cell) && !self.visited.contains(cell) {
            self.visited.insert(cell.clone());
        }
    }

    fn resize(&mut self, _cell: &CellId, _size_bytes: u64) {}

    fn remove(&mut self, cell: &CellId) {
        self.order.remove(cell);
        self.visited.remove(cell);
    }

    fn evict(&mut self, _newcomer: &CellId) -> Option<CellId> {
        loop {
            let (place, cell) = self.order.from(self.hand).or_else(|| self.order.from(0))?;
            let cell = cell.clone();
            self.hand = place + 1;
            if !self.visited.remove(&cell) {
                self.order.remove(&cell);
                return Some(cell);
            }
        }
    }
}
