//! Policies that choose a column first, and then a cell of it.

use std::collections::{BTreeMap, HashMap};

use super::{Policy, order::Order};
use crate::{CellId, ColumnId};

/// The policy of the paper: the least recently used column goes, cell by cell, the cell that came in first before others (LiquidCache
/// §3.3). What is read of a column is mostly all of it, and columns are read independently of each other.
#[derive(Debug, Default)]
pub struct ColumnLru(Columns);

/// As [`ColumnLru`], but of a column the cell goes that came in last, the very last excepted, which may be just being read.
///
/// Columns are read from their beginning, again and again. One that is larger than the room for it would lose each cell before it is asked for
/// once more, if the oldest went first; so its beginning stays, whatever follows.
#[derive(Debug, Default)]
pub struct ColumnPrefix(Columns);

/// Columns in the order of their last use, each with its cells in the order in which they came in.
#[derive(Debug, Default)]
struct Columns {
    columns: HashMap<ColumnId, Column>,
    by_last_use: BTreeMap<u64, ColumnId>,
    now: u64,
}

#[derive(Debug, Default)]
struct Column {
    last_use: u64,
    cells: Order,
}

impl Columns {
    /// The column, which is the most recently used one now.
    fn used(&mut self, id: &ColumnId) -> &mut Column {
        self.now += 1;
        let column = self.columns.entry(id.clone()).or_default();
        self.by_last_use.remove(&column.last_use);
        column.last_use = self.now;
        self.by_last_use.insert(self.now, id.clone());
        column
    }

    fn admit(&mut self, cell: &CellId) {
        self.used(&cell.column).cells.push(cell);
    }

    fn touch(&mut self, cell: &CellId) {
        if self.columns.get(&cell.column).is_some_and(|column| column.cells.contains(cell)) {
            self.used(&cell.column);
        }
    }

    fn remove(&mut self, cell: &CellId) {
        if let Some(column) = self.columns.get_mut(&cell.column) {
            column.cells.remove(cell);
            self.drop_if_empty(&cell.column);
        }
    }

    /// Takes out of the least recently used column what `take` takes of its cells.
    fn evict(&mut self, take: impl FnOnce(&mut Order) -> Option<CellId>) -> Option<CellId> {
        let id = self.by_last_use.first_key_value()?.1.clone();
        let cell = take(&mut self.columns.get_mut(&id)?.cells);
        self.drop_if_empty(&id);
        cell
    }

    fn drop_if_empty(&mut self, id: &ColumnId) {
        if let Some(column) = self.columns.get(id).filter(|column| column.cells.is_empty()) {
            self.by_last_use.remove(&column.last_use);
            self.columns.remove(id);
        }
    }
}

impl Policy for ColumnLru {
    fn admit(&mut self, cell: &CellId, _size_bytes: u64) {
        self.0.admit(cell);
    }

    fn touch(&mut self, cell: &CellId) {
        self.0.touch(cell);
    }

    fn resize(&mut self, _cell: &CellId, _size_bytes: u64) {}

    fn remove(&mut self, cell: &CellId) {
        self.0.remove(cell);
    }

    fn evict(&mut self, _newcomer: &CellId) -> Option<CellId> {
        self.0.evict(Order::pop)
    }
}

impl Policy for ColumnPrefix {
    fn admit(&mut self, cell: &CellId, _size_bytes: u64) {
        self.0.admit(cell);
    }

    fn touch(&mut self, cell: &CellId) {
        self.0.touch(cell);
    }

    fn resize(&mut self, _cell: &CellId, _size_bytes: u64) {}

    fn remove(&mut self, cell: &CellId) {
        self.0.remove(cell);
    }

    fn evict(&mut self, _newcomer: &CellId) -> Option<CellId> {
        self.0.evict(Order::pop_before_last)
    }
}
