//! What the bookkeeping does about the disk: cells that wait to be written, and those that are there.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::{Entry, Shelf, Transcoding};
use crate::disk::{DISK_CELL_OVERHEAD_BYTES, Job, Place, Reserved, Tier};
use crate::flight::Flight;
use crate::ledger::Holdings;
use crate::statistics::{Event, Statistics};
use crate::values::{Encoded, Values};
use crate::{CellId, ColumnId};

/// Cells that had to go and wait to be written.
pub(super) struct Staged {
    cells: HashMap<CellId, Waiting>,
    /// In the order in which they came; some may not wait any more.
    queue: VecDeque<CellId>,
    size_bytes: u64,
    most_bytes: u64,
}

struct Waiting {
    values: Arc<Encoded>,
    holdings: Holdings,
    serial: u64,
    is_writing: bool,
}

/// What became of a cell that was to be written.
pub(crate) enum Written {
    Done(Reserved, Place),
    /// There is no room for it, or it is there already.
    Refused,
    /// The system refused; what was reserved is given back.
    Failed(Option<Reserved>),
}

impl Staged {
    pub fn new(most_bytes: u64) -> Self {
        Self { cells: HashMap::new(), queue: VecDeque::new(), size_bytes: 0, most_bytes }
    }

    /// The most bytes that may wait.
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Bytes of those that wait.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub fn contains(&self, cell: &CellId) -> bool {
        self.cells.contains_key(cell)
    }

    fn remove(&mut self, cell: &CellId) -> Option<Waiting> {
        let waiting = self.cells.remove(cell)?;
        // It may come again before the writer has got to it.
        self.queue.retain(|queued| queued != cell);
        self.size_bytes -= waiting.holdings.size_bytes();
        Some(waiting)
    }
}

impl Shelf {
    /// Bytes of the names of cells on disk.
    pub(super) fn names_bytes(&self) -> u64 {
        self.tier.as_ref().map_or(0, Tier::names_bytes)
    }

    /// Lets a cell wait to be written that had to go, if it is to be on disk and isn't there; else gives it back.
    pub(super) fn stage(&mut self, cell: &CellId, entry: Entry) -> Option<Entry> {
        let (Values::Encoded(values), Some(tier)) = (&entry.values, &mut self.tier) else { return Some(entry) };
        // That it was in memory until now is a use of what is on disk.
        if tier.find(cell).is_some() {
            return Some(entry);
        }
        let size_bytes = entry.holdings.size_bytes();
        if self.staged.size_bytes + size_bytes > self.staged.most_bytes {
            self.counters.not_written += 1;
            return Some(entry);
        }
        let waiting =
            Waiting { values: values.clone(), holdings: entry.holdings, serial: entry.serial, is_writing: false };
        self.staged.size_bytes += size_bytes;
        self.staged.cells.insert(cell.clone(), waiting);
        self.staged.queue.push_back(cell.clone());
        None
    }

    /// Takes a cell back that waits to be written.
    pub(super) fn rescue(&mut self, cell: &CellId) {
        let Some(waiting) = self.staged.remove(cell) else { return };
        while self.held_bytes() > self.room_bytes() {
            if !self.evict_for(cell) {
                self.ledger.remove(&waiting.holdings);
                return;
            }
        }
        let (size_bytes, serial) = (waiting.holdings.size_bytes(), waiting.serial);
        let values = Values::Encoded(waiting.values);
        let transcoding = Transcoding::Idle;
        self.policy.admit(cell, size_bytes);
        self.entries.insert(cell.clone(), Entry { values, holdings: waiting.holdings, pins: 0, serial, transcoding });
        self.events.push(Event::Recalled { cell: cell.clone(), size_bytes });
    }

    fn unstage(&mut self, cell: &CellId) {
        if let Some(waiting) = self.staged.remove(cell) {
            self.ledger.remove(&waiting.holdings);
        }
    }

    /// Whether a cell waits to be written, or did until it was asked for, or the index has to be written.
    pub fn has_writes(&self) -> bool {
        !self.staged.queue.is_empty() || self.index_is_due(true)
    }

    /// The next cell to write.
    pub fn next_write(&mut self) -> Option<Job> {
        while let Some(cell) = self.staged.queue.pop_front() {
            // One that went twice may be in the queue twice, or be there already.
            let Some(waiting) = self.staged.cells.get_mut(&cell).filter(|waiting| !waiting.is_writing) else {
                continue;
            };
            waiting.is_writing = true;
            return Some(Job { values: waiting.values.clone(), serial: waiting.serial, cell });
        }
        None
    }

    /// Cells in memory that are blocks and not on disk.
    pub fn unwritten(&self) -> Vec<Job> {
        let Some(tier) = &self.tier else { return Vec::new() };
        let entries = self.entries.iter().filter(|(cell, _)| !tier.knows(cell));
        let jobs = entries.filter_map(|(cell, entry)| match &entry.values {
            Values::Encoded(values) => Some(Job { cell: cell.clone(), values: values.clone(), serial: entry.serial }),
            Values::Pages(_) | Values::Arrow(_) => None,
        });
        jobs.collect()
    }

    /// Pages for a cell of so many bytes.
    pub fn reserve_on_disk(&mut self, cell: &CellId, size_bytes: u64) -> Option<Reserved> {
        let mut evicted = Vec::new();
        let reserved = self.tier.as_mut()?.reserve(cell, size_bytes, &mut evicted);
        for (cell, place) in evicted {
            let size_bytes = place.page_bytes();
            self.counters.disk_evicted += 1;
            self.counters.disk_evicted_bytes += size_bytes;
            self.events.push(Event::EvictedFromDisk { cell, size_bytes });
        }
        reserved
    }

    /// The files are gone, and all cells with them.
    pub fn disk_is_gone(&mut self) {
        self.counters.disk_errors += 1;
        self.tier.iter_mut().for_each(Tier::begin_anew);
    }

    /// A cell was written, or wasn't. One that was invalidated meanwhile, or has no room for its name, isn't taken in.
    pub fn finish_write(&mut self, job: &Job, written: Written) {
        let was_staged = self.staged.cells.get(&job.cell).is_some_and(|waiting| waiting.serial == job.serial);
        if was_staged {
            self.unstage(&job.cell);
        }
        let is_valid = was_staged || self.entries.get(&job.cell).is_some_and(|entry| entry.serial == job.serial);
        match written {
            Written::Done(reserved, place) => {
                let has_room = is_valid && self.make_room_for_name(&job.cell);
                let Some(tier) = &mut self.tier else { return };
                if !has_room || !tier.is_current(&reserved) {
                    tier.release(&job.cell, &reserved);
                    self.counters.not_written += 1;
                    return;
                }
                let size_bytes = place.page_bytes();
                tier.admit(&job.cell, &reserved, place);
                self.counters.written += 1;
                self.counters.written_bytes += size_bytes;
                self.events.push(Event::Written { cell: job.cell.clone(), size_bytes });
            }
            Written::Refused => self.counters.not_written += 1,
            Written::Failed(reserved) => {
                self.counters.not_written += 1;
                self.counters.disk_errors += 1;
                if let (Some(reserved), Some(tier)) = (reserved, &mut self.tier) {
                    tier.release(&job.cell, &reserved);
                }
            }
        }
    }

    fn make_room_for_name(&mut self, cell: &CellId) -> bool {
        while self.held_bytes() + DISK_CELL_OVERHEAD_BYTES > self.room_bytes() {
            if !self.evict_for(cell) {
                return false;
            }
        }
        true
    }

    /// A flight for a cell that is on disk, and that nobody reads or decodes, and its place.
    pub fn find_on_disk(&mut self, cell: &CellId) -> Option<(Arc<Flight>, Arc<Place>)> {
        if self.flights.contains_key(cell) {
            return None;
        }
        let place = self.tier.as_mut()?.find(cell)?;
        Some((self.begin_flight(cell), place))
    }

    /// Ends the flight of a cell that was read from disk, and takes the cell in, as [`Shelf::fill`] does. It stays on disk as well.
    pub fn finish_recall(&mut self, cell: &CellId, flight: &Arc<Flight>, values: Values, may_evict: bool) -> bool {
        self.counters.disk_hits += 1;
        self.events.push(Event::Recalled { cell: cell.clone(), size_bytes: values.holdings().size_bytes() });
        self.end_flight(cell, flight) && self.take_in(cell, values, may_evict)
    }

    /// A cell couldn't be read from its place: it is forgotten, unless that is another cell's place by now. Its flight goes on: the asker is to
    /// decode.
    pub fn fail_recall(&mut self, cell: &CellId, place: &Arc<Place>) {
        if self.tier.as_mut().is_some_and(|tier| tier.remove(cell, place)) {
            self.counters.disk_damaged += 1;
            self.events.push(Event::DamagedOnDisk { cell: cell.clone() });
        }
        self.count_miss(cell);
    }

    /// Invalidates what isn't in memory, or waits to be written; `gone` are the cells that were in memory. Returns all that there were.
    pub(super) fn invalidate_elsewhere(&mut self, gone: Vec<CellId>, goes: impl Fn(&ColumnId) -> bool) -> Vec<CellId> {
        let mut all: HashSet<CellId> = gone.into_iter().collect();
        let staged: Vec<CellId> = self.staged.cells.keys().filter(|cell| goes(&cell.column)).cloned().collect();
        staged.iter().for_each(|cell| self.unstage(cell));
        all.extend(staged);
        all.extend(self.tier.iter_mut().flat_map(|tier| tier.invalidate(&goes)));
        all.into_iter().collect()
    }

    /// Whether the index is to be written: where nothing else is to be done as soon as it differs, else where it differs much.
    pub fn index_is_due(&self, is_quiet: bool) -> bool {
        self.tier.as_ref().is_some_and(|tier| tier.has_changed_much() || (is_quiet && tier.has_changed()))
    }

    /// What the index is to say, if it doesn't.
    pub fn index(&mut self) -> Option<Vec<(CellId, Arc<Place>)>> {
        self.tier.as_mut().filter(|tier| tier.has_changed()).map(Tier::index)
    }

    /// The index was written, of so many bytes, or wasn't.
    pub fn finish_index(&mut self, size_bytes: Option<u64>) {
        match size_bytes {
            Some(size_bytes) => self.counters.disk_index_bytes = size_bytes,
            None => self.counters.disk_errors += 1,
        }
    }

    pub(super) fn count_disk(&self, statistics: &mut Statistics) {
        statistics.staged_cells = self.staged.cells.len();
        statistics.staged_bytes = self.staged.size_bytes;
        let Some(tier) = &self.tier else { return };
        statistics.disk_limit_bytes = tier.limit_bytes();
        statistics.disk_cells = tier.cell_count();
        statistics.disk_names_bytes = tier.names_bytes();
        statistics.disk_used_bytes = tier.page_bytes();
        statistics.disk_file_bytes = tier.file_bytes() + self.counters.disk_index_bytes;
    }
}
