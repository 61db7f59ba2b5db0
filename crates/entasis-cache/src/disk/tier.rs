//! Which cells are on disk, and where: the bookkeeping, under the cache's lock. Nothing here touches a file.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::folder::Bounds;
use super::index::Cells;
use super::space::{PAGE_BYTES, Run, Space};
use crate::policy::Policy;
use crate::{CellId, ColumnId};

/// What the cache itself needs for a cell on disk: its names and places. It counts as memory.
pub const DISK_CELL_OVERHEAD_BYTES: u64 = 512;

/// The most bytes of a cell's head: names, types and statistics.
pub(super) const MOST_HEAD_BYTES: u32 = 1 << 20;

/// Where a cell lies, and how it begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its pages, in order.
    pub(super) runs: Vec<Run>,
    pub(super) size_bytes: u64,
    pub(super) head_bytes: u32,
    /// XXH3-64 of the head, which holds those of all else.
    pub(super) head_digest: u64,
}

impl Place {
    /// Bytes that its pages take.
    pub fn page_bytes(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.pages) * PAGE_BYTES).sum()
    }

    /// Where bytes of the cell are in the file.
    pub(super) fn pieces(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut pieces = Vec::new();
        let mut start = 0;
        for run in &self.runs {
            let end = start + u64::from(run.pages) * PAGE_BYTES;
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                let at = u64::from(run.first) * PAGE_BYTES;
                pieces.push(at + from - start..at + to - start);
            }
            start = end;
        }
        pieces
    }

    /// Whether a file of so many bytes has all of its pages, of which the very last may be a part.
    pub(super) fn ends_before(&self, file_bytes: u64) -> bool {
        let pages = file_bytes.div_ceil(PAGE_BYTES);
        self.runs.iter().all(|run| run.end().is_some_and(|end| u64::from(end) <= pages))
    }

    /// Whether its pages are as many as it needs, and its head is a part of it.
    fn is_sound(&self) -> bool {
        let pages: u64 = self.runs.iter().map(|run| u64::from(run.pages)).sum();
        let most_head_bytes = self.size_bytes.min(u64::from(MOST_HEAD_BYTES));
        pages == self.size_bytes.div_ceil(PAGE_BYTES) && u64::from(self.head_bytes) <= most_head_bytes
    }
}

/// Pages for a cell that is to be written.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(super) runs: Vec<Run>,
    /// That of the file when they were given.
    generation: u64,
}

struct OnDisk {
    place: Arc<Place>,
    last_use: u64,
}

/// The cells on disk.
pub(crate) struct Tier {
    space: Space,
    bounds: Bounds,
    cells: HashMap<CellId, OnDisk>,
    /// Cells that are being written.
    pending: HashSet<CellId>,
    most_cells: usize,
    policy: Box<dyn Policy>,
    now: u64,
    /// Counts the files of cells: places in one mean nothing in the next.
    generation: u64,
    /// Cells that came or went since the index was written.
    changes: usize,
}

impl Tier {
    /// A tier within `bounds`, of the cells of an index, those last used first. What can't be there, or is too much, is
    /// left out.
    pub fn new(bounds: Bounds, most_cells: usize, policy: Box<dyn Policy>, found: Cells) -> Self {
        let mut tier = Self {
            space: Space::new(bounds.end_page),
            bounds,
            cells: HashMap::new(),
            pending: HashSet::new(),
            most_cells,
            policy,
            now: 0,
            generation: 0,
            changes: 0,
        };
        for (cell, place) in found.into_iter().take(most_cells).rev() {
            if place.is_sound() && !tier.cells.contains_key(&cell) && tier.space.take(&place.runs) {
                tier.insert(&cell, place);
            }
        }
        tier
    }

    /// The most bytes of all files.
    pub fn limit_bytes(&self) -> u64 {
        self.bounds.limit_bytes
    }

    pub fn cell_count(&self) -> usize {
        self.cells.len()
    }

    /// Bytes of memory for all of that.
    pub fn names_bytes(&self) -> u64 {
        self.cells.len() as u64 * DISK_CELL_OVERHEAD_BYTES
    }

    /// Bytes of the pages that cells have, also of those that are being written.
    pub fn page_bytes(&self) -> u64 {
        self.space.taken_pages() * PAGE_BYTES
    }

    /// Bytes of the file of cells.
    pub fn file_bytes(&self) -> u64 {
        u64::from(self.space.reach()) * PAGE_BYTES
    }

    /// The cells, with the bytes of their pages.
    pub fn cells(&self) -> impl Iterator<Item = (&CellId, u64)> {
        self.cells.iter().map(|(cell, on_disk)| (cell, on_disk.place.page_bytes()))
    }

    /// Whether a cell is there.
    pub fn contains(&self, cell: &CellId) -> bool {
        self.cells.contains_key(cell)
    }

    /// Whether a cell is there, or is being written.
    pub fn knows(&self, cell: &CellId) -> bool {
        self.cells.contains_key(cell) || self.pending.contains(cell)
    }

    /// Where a cell is. It counts as used then.
    pub fn find(&mut self, cell: &CellId) -> Option<Arc<Place>> {
        let on_disk = self.cells.get_mut(cell)?;
        self.now += 1;
        on_disk.last_use = self.now;
        self.policy.touch(cell);
        Some(on_disk.place.clone())
    }

    /// Pages for a cell that isn't there, of so many bytes; others go for it, into `evicted`, if need be. `None` if it is to stay out.
    pub fn reserve(
        &mut self,
        cell: &CellId,
        size_bytes: u64,
        evicted: &mut Vec<(CellId, Arc<Place>)>,
    ) -> Option<Reserved> {
        let pages = u32::try_from(size_bytes.div_ceil(PAGE_BYTES)).ok()?;
        if pages >= self.bounds.end_page || self.most_cells == 0 || self.knows(cell) {
            return None;
        }
        loop {
            if self.cells.len() + self.pending.len() < self.most_cells
                && let Some(runs) = self.space.allocate(pages)
            {
                self.pending.insert(cell.clone());
                return Some(Reserved { runs, generation: self.generation });
            }
            let victim = self.policy.evict(cell)?;
            if let Some(place) = self.drop_cell(&victim) {
                evicted.push((victim, place));
            }
        }
    }

    /// A cell was written to the pages that were reserved for it.
    pub fn admit(&mut self, cell: &CellId, reserved: &Reserved, place: Place) {
        if reserved.generation == self.generation {
            self.pending.remove(cell);
            self.changes += 1;
            self.insert(cell, Arc::new(place));
        }
    }

    /// A cell wasn't written, or is to be forgotten.
    pub fn release(&mut self, cell: &CellId, reserved: &Reserved) {
        if reserved.generation == self.generation {
            self.pending.remove(cell);
            self.space.free(&reserved.runs);
        }
    }

    /// Whether pages were reserved in the file that there is now.
    pub fn is_current(&self, reserved: &Reserved) -> bool {
        reserved.generation == self.generation
    }

    fn insert(&mut self, cell: &CellId, place: Arc<Place>) {
        self.now += 1;
        self.policy.admit(cell, place.page_bytes());
        self.cells.insert(cell.clone(), OnDisk { place, last_use: self.now });
    }

    /// Forgets a cell if it is at this place. Returns whether it was.
    pub fn remove(&mut self, cell: &CellId, place: &Arc<Place>) -> bool {
        let is_there = self.cells.get(cell).is_some_and(|on_disk| Arc::ptr_eq(&on_disk.place, place));
        if is_there {
            self.policy.remove(cell);
            self.drop_cell(cell);
        }
        is_there
    }

    /// Forgets all cells of columns for which `goes` is true, and returns them.
    pub fn invalidate(&mut self, goes: impl Fn(&ColumnId) -> bool) -> Vec<CellId> {
        let gone: Vec<CellId> = self.cells.keys().filter(|cell| goes(&cell.column)).cloned().collect();
        for cell in &gone {
            self.policy.remove(cell);
            self.drop_cell(cell);
        }
        gone
    }

    /// Forgets everything: there is another file, with nothing in it.
    pub fn begin_anew(&mut self) {
        for cell in self.cells.keys() {
            self.policy.remove(cell);
        }
        self.cells.clear();
        self.pending.clear();
        self.space = Space::new(self.bounds.end_page);
        self.generation += 1;
        self.changes += 1;
    }

    /// A cell that the policy doesn't know any more.
    fn drop_cell(&mut self, cell: &CellId) -> Option<Arc<Place>> {
        let on_disk = self.cells.remove(cell)?;
        self.space.free(&on_disk.place.runs);
        self.changes += 1;
        Some(on_disk.place)
    }

    /// Whether the index says something else.
    pub fn has_changed(&self) -> bool {
        self.changes > 0
    }

    /// Whether so much has changed that the index is to be written, though more is to come: a process that is killed loses no more than that.
    pub fn has_changed_much(&self) -> bool {
        self.changes > 256.max(self.cells.len() / 4)
    }

    /// What the index is to say: the cells that were used last first.
    pub fn index(&mut self) -> Cells {
        self.changes = 0;
        let mut cells: Vec<(&CellId, &OnDisk)> = self.cells.iter().collect();
        cells.sort_unstable_by_key(|(_, on_disk)| std::cmp::Reverse(on_disk.last_use));
        cells.into_iter().map(|(cell, on_disk)| (cell.clone(), on_disk.place.clone())).collect()
    }
}

impl std::fmt::Debug for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tier").field("cells", &self.cells.len()).finish_non_exhaustive()
    }
}
