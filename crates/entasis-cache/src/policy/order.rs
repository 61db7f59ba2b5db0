//! Cells in an order, and the two policies that are nothing else.

use std::collections::{BTreeMap, HashMap};

use super::Policy;
use crate::CellId;

/// Cells in the order in which they were put at the end. A place is a number that is never given twice.
#[derive(Debug, Default)]
pub(super) struct Order {
    places: HashMap<CellId, u64>,
    cells: BTreeMap<u64, CellId>,
    next: u64,
}

impl Order {
    /// Puts a cell at the end, wherever it was.
    pub fn push(&mut self, cell: &CellId) {
        if let Some(place) = self.places.insert(cell.clone(), self.next) {
            self.cells.remove(&place);
        }
        self.cells.insert(self.next, cell.clone());
        self.next += 1;
    }

    /// Whether a cell is among them.
    pub fn contains(&self, cell: &CellId) -> bool {
        self.places.contains_key(cell)
    }

    /// Takes a cell out; false if it isn't among them.
    pub fn remove(&mut self, cell: &CellId) -> bool {
        let place = self.places.remove(cell);
        place.is_some_and(|place| self.cells.remove(&place).is_some())
    }

    /// Takes the first cell out.
    pub fn pop(&mut self) -> Option<CellId> {
        let (_, cell) = self.cells.pop_first()?;
        self.places.remove(&cell);
        Some(cell)
    }

    /// Takes out the cell before the last one; the last if it is the only one.
    pub fn pop_before_last(&mut self) -> Option<CellId> {
        let mut from_end = self.cells.keys().rev();
        let last = *from_end.next()?;
        let place = from_end.next().copied().unwrap_or(last);
        let cell = self.cells.remove(&place)?;
        self.places.remove(&cell);
        Some(cell)
    }

    /// The first cell from a place on, and its place.
    pub fn from(&self, place: u64) -> Option<(u64, &CellId)> {
        self.cells.range(place..).next().map(|(&place, cell)| (place, cell))
    }

    /// True without cells.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

/// First in, first out.
#[derive(Debug, Default)]
pub struct Fifo(Order);

impl Policy for Fifo {
    fn admit(&mut self, cell: &CellId, _size_bytes: u64) {
        self.0.push(cell);
    }

    fn touch(&mut self, _cell: &CellId) {}

    fn resize(&mut self, _cell: &CellId, _size_bytes: u64) {}

    fn remove(&mut self, cell: &CellId) {
        self.0.remove(cell);
    }

    fn evict(&mut self, _newcomer: &CellId) -> Option<CellId> {
        self.0.pop()
    }
}

/// The least recently used cell goes.
#[derive(Debug, Default)]
pub struct Lru(Order);

impl Policy for Lru {
    fn admit(&mut self, cell: &CellId, _size_bytes: u64) {
        self.0.push(cell);
    }

    fn touch(&mut self, cell: &CellId) {
        if self.0.contains(cell) {
            self.0.push(cell);
        }
    }

    fn resize(&mut self, _cell: &CellId, _size_bytes: u64) {}

    fn remove(&mut self, cell: &CellId) {
        self.0.remove(cell);
    }

    fn evict(&mut self, _newcomer: &CellId) -> Option<CellId> {
        self.0.pop()
    }
}
