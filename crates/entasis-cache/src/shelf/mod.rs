//! The bookkeeping: which cells are there, in which state, and who has to go. One lock guards all of it; nothing is decoded or
//! encoded under it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

mod staged;

use crate::disk::{self, Place, Tier};
use crate::flight::Flight;
use crate::ledger::{Holdings, Ledger};
use crate::policy::Policy;
use crate::statistics::{ColumnUse, Event, Statistics};
use crate::values::Values;
use crate::{CellId, ColumnId, State, Version};
use staged::Staged;
pub(crate) use staged::Written;

/// A cell that is there.
struct Entry {
    values: Values,
    holdings: Holdings,
    pins: usize,
    /// Tells it from a cell of the same name that was there before or will be.
    serial: u64,
    transcoding: Transcoding,
}

/// What is to become of a cell that isn't blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transcoding {
    Idle,
    Queued,
    Running,
    /// It stays what it is.
    Refused,
}

/// All cells.
pub(crate) struct Shelf {
    budget_bytes: u64,
    queue_cells: usize,
    entries: HashMap<CellId, Entry>,
    ledger: Ledger,
    /// Knows every cell that may go: those that aren't pinned.
    policy: Box<dyn Policy>,
    pinned_bytes: u64,
    flights: HashMap<CellId, Arc<Flight>>,
    queue: VecDeque<CellId>,
    /// The cells on disk, if there is a disk.
    tier: Option<Tier>,
    /// Cells that had to go, and wait to be written. They count as memory.
    staged: Staged,
    next_serial: u64,
    counters: Statistics,
    events: Vec<Event>,
    /// Queries that compute.
    pub inside: usize,
    /// Threads that transcode.
    pub transcoding: usize,
    /// No thread transcodes any more.
    pub is_closed: bool,
}

/// What an asker is told.
pub(crate) enum Found {
    Values(Values),
    /// The asker is to decode.
    Missing(Arc<Flight>),
    /// Somebody decodes.
    Flying(Arc<Flight>),
    /// The asker is to read it from disk.
    OnDisk(Arc<Flight>, Arc<Place>),
}

/// A cell that is being transcoded.
pub(crate) struct Job {
    pub cell: CellId,
    pub values: Values,
    serial: u64,
}

impl Shelf {
    pub fn new(budget_bytes: u64, queue_cells: usize, policy: Box<dyn Policy>, tier: Option<Tier>) -> Self {
        Self {
            budget_bytes,
            queue_cells,
            entries: HashMap::new(),
            ledger: Ledger::default(),
            policy,
            pinned_bytes: 0,
            flights: HashMap::new(),
            queue: VecDeque::new(),
            staged: Staged::new(if tier.is_some() { disk::most_waiting_bytes(budget_bytes) } else { 0 }),
            tier,
            next_serial: 0,
            counters: Statistics::default(),
            events: Vec::new(),
            inside: 0,
            transcoding: 0,
            is_closed: false,
        }
    }

    /// What happened since it was last asked.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The cell if it is in memory. It counts as used then.
    pub fn get(&mut self, cell: &CellId) -> Option<Values> {
        self.rescue(cell);
        let values = self.entries.get(cell)?.values.clone();
        self.policy.touch(cell);
        let state = values.state();
        match state {
            State::Pages => self.counters.pages_hits += 1,
            State::Arrow => self.counters.arrow_hits += 1,
            State::Encoded => self.counters.encoded_hits += 1,
        }
        self.enqueue(cell);
        self.events.push(Event::Hit { cell: cell.clone(), state });
        Some(values)
    }

    /// Whether the cell is there, be it on disk. It doesn't count as used.
    pub fn contains(&self, cell: &CellId) -> bool {
        self.entries.contains_key(cell)
            || self.staged.contains(cell)
            || self.tier.as_ref().is_some_and(|tier| tier.contains(cell))
    }

    /// Whether the cell is there, or on disk, and answers without its source's pages being decoded. It doesn't count as used.
    pub fn answers(&self, cell: &CellId) -> bool {
        match self.entries.get(cell) {
            Some(entry) => entry.values.state() != State::Pages,
            None => self.contains(cell),
        }
    }

    /// The cell if it is in memory; else who reads or decodes it, if need be the asker.
    pub fn find(&mut self, cell: &CellId) -> Found {
        if let Some(values) = self.get(cell) {
            return Found::Values(values);
        }
        if let Some(flight) = self.flights.get(cell) {
            self.counters.waits += 1;
            self.events.push(Event::Wait { cell: cell.clone() });
            return Found::Flying(flight.clone());
        }
        if let Some((flight, place)) = self.find_on_disk(cell) {
            return Found::OnDisk(flight, place);
        }
        self.count_miss(cell);
        Found::Missing(self.begin_flight(cell))
    }

    fn count_miss(&mut self, cell: &CellId) {
        self.counters.misses += 1;
        self.events.push(Event::Miss { cell: cell.clone() });
    }

    /// A flight for a cell that is neither in memory nor being decoded, and where it is on disk, if it is; `None` otherwise.
    pub fn fly_if_missing(&mut self, cell: &CellId) -> Option<(Arc<Flight>, Option<Arc<Place>>)> {
        let is_missing =
            !self.entries.contains_key(cell) && !self.staged.contains(cell) && !self.flights.contains_key(cell);
        is_missing.then(|| match self.find_on_disk(cell) {
            Some((flight, place)) => (flight, Some(place)),
            None => (self.begin_flight(cell), None),
        })
    }

    fn begin_flight(&mut self, cell: &CellId) -> Arc<Flight> {
        let flight = Arc::new(Flight::default());
        self.flights.insert(cell.clone(), flight.clone());
        flight
    }

    /// Ends the flight of a cell that was decoded, and takes the cell in; without evicting others unless `may_evict`. One whose flight isn't
    /// the cell's any more was invalidated meanwhile, and stays out. Returns whether the cell came in.
    pub fn fill(&mut self, cell: &CellId, flight: &Arc<Flight>, values: Values, may_evict: bool) -> bool {
        self.counters.filled += 1;
        self.end_flight(cell, flight) && self.take_in(cell, values, may_evict)
    }

    /// Ends the flight of a cell that was fetched, for those who wait alone: it stays out.
    pub fn fill_for_others(&mut self, cell: &CellId, flight: &Arc<Flight>, values: &Values) {
        self.counters.filled += 1;
        self.end_flight(cell, flight);
        self.counters.rejected += 1;
        self.events.push(Event::Rejected { cell: cell.clone(), size_bytes: values.holdings().size_bytes() });
    }

    /// Takes a cell in that isn't there, if there is room for it.
    fn take_in(&mut self, cell: &CellId, values: Values, may_evict: bool) -> bool {
        let holdings = values.holdings();
        let size_bytes = holdings.size_bytes();
        if !self.make_room(cell, &holdings, may_evict) {
            self.counters.rejected += 1;
            self.events.push(Event::Rejected { cell: cell.clone(), size_bytes });
            return false;
        }
        self.ledger.add(&holdings);
        self.policy.admit(cell, size_bytes);
        self.next_serial += 1;
        let (serial, transcoding) = (self.next_serial, Transcoding::Idle);
        self.entries.insert(cell.clone(), Entry { values, holdings, pins: 0, serial, transcoding });
        self.events.push(Event::Filled { cell: cell.clone(), size_bytes });
        self.enqueue(cell);
        true
    }

    /// Ends the flight of a cell that nobody decoded.
    pub fn abandon(&mut self, cell: &CellId, flight: &Arc<Flight>) {
        self.end_flight(cell, flight);
        self.counters.abandoned += 1;
        self.events.push(Event::Abandoned { cell: cell.clone() });
    }

    fn end_flight(&mut self, cell: &CellId, flight: &Arc<Flight>) -> bool {
        let is_current = self.flights.get(cell).is_some_and(|current| Arc::ptr_eq(current, flight));
        if is_current {
            self.flights.remove(cell);
        }
        is_current
    }

    /// Evicts until the cell fits that holds `holdings`; false if it is to stay out.
    fn make_room(&mut self, cell: &CellId, holdings: &Holdings, may_evict: bool) -> bool {
        if holdings.size_bytes() > self.room_bytes().saturating_sub(self.pinned_bytes + self.names_bytes()) {
            return false;
        }
        // What others hold as well costs nothing, until they go.
        while self.held_bytes() + self.ledger.added_bytes(holdings) > self.room_bytes() {
            if !may_evict || !self.evict_for(cell) {
                return false;
            }
        }
        true
    }

    /// Drops the cell that the policy names, to make room for `cell`. False if none may go.
    fn evict_for(&mut self, cell: &CellId) -> bool {
        let victim = self.policy.evict(cell);
        if let Some(victim) = &victim {
            self.evict(victim);
        }
        victim.is_some()
    }

    /// The most bytes that cells and names may have: those that wait to be written have a part of the budget of their own, so that a cell
    /// which has to go gives room at once.
    fn room_bytes(&self) -> u64 {
        self.budget_bytes - self.staged.most_bytes()
    }

    /// Bytes of what isn't waiting to be written.
    fn held_bytes(&self) -> u64 {
        self.used_bytes() - self.staged.size_bytes()
    }

    /// Bytes of everything that counts.
    fn used_bytes(&self) -> u64 {
        self.ledger.used_bytes() + self.names_bytes()
    }

    /// Drops a cell that the policy has named, and forgotten.
    fn evict(&mut self, cell: &CellId) {
        let Some(entry) = self.entries.remove(cell) else { return };
        let (size_bytes, state) = (entry.holdings.size_bytes(), entry.values.state());
        self.counters.evicted += 1;
        self.counters.evicted_bytes += size_bytes;
        self.events.push(Event::Evicted { cell: cell.clone(), size_bytes, state });
        if let Some(entry) = self.stage(cell, entry) {
            self.ledger.remove(&entry.holdings);
        }
    }

    /// Drops the cells of a version that are pages, but for pinned ones.
    pub fn drop_pages(&mut self, version: &Version) {
        let is_one = |cell: &CellId, entry: &Entry| {
            entry.values.state() == State::Pages && entry.pins == 0 && cell.column.version == *version
        };
        let gone: Vec<CellId> =
            self.entries.iter().filter(|(cell, entry)| is_one(cell, entry)).map(|(cell, _)| cell.clone()).collect();
        for cell in &gone {
            self.policy.remove(cell);
            self.evict(cell);
        }
    }

    /// Pins a cell that is in memory; returns its serial number.
    pub fn pin(&mut self, cell: &CellId) -> Option<u64> {
        self.rescue(cell);
        let entry = self.entries.get_mut(cell)?;
        entry.pins += 1;
        if entry.pins == 1 {
            self.policy.remove(cell);
            self.pinned_bytes += entry.holdings.size_bytes();
        }
        Some(entry.serial)
    }

    /// Takes one pin back, if the cell is still the one that was pinned. It counts as new then.
    pub fn unpin(&mut self, cell: &CellId, serial: u64) {
        let Some(entry) = self.entries.get_mut(cell).filter(|entry| entry.serial == serial) else { return };
        entry.pins -= 1;
        if entry.pins == 0 {
            let size_bytes = entry.holdings.size_bytes();
            self.pinned_bytes -= size_bytes;
            self.policy.admit(cell, size_bytes);
        }
    }

    /// Drops all cells of columns for which `goes` is true, pinned ones as well; what is just being decoded of them stays out.
    pub fn invalidate(&mut self, goes: impl Fn(&ColumnId) -> bool) -> usize {
        self.flights.retain(|cell, _| !goes(&cell.column));
        let gone: Vec<CellId> = self.entries.keys().filter(|cell| goes(&cell.column)).cloned().collect();
        for cell in &gone {
            self.policy.remove(cell);
            if let Some(entry) = self.entries.remove(cell) {
                self.ledger.remove(&entry.holdings);
                if entry.pins > 0 {
                    self.pinned_bytes -= entry.holdings.size_bytes();
                }
            }
        }
        let gone = self.invalidate_elsewhere(gone, goes);
        self.counters.invalidated += gone.len() as u64;
        let count = gone.len();
        self.events.extend(gone.into_iter().map(|cell| Event::Invalidated { cell }));
        count
    }

    /// Puts a cell into the queue that isn't blocks, unless it is there, or the queue is full.
    fn enqueue(&mut self, cell: &CellId) {
        let Some(entry) = self.entries.get_mut(cell) else { return };
        if entry.values.state() == State::Encoded || entry.transcoding != Transcoding::Idle {
            return;
        }
        if self.queue.len() >= self.queue_cells {
            self.counters.not_queued += 1;
            return;
        }
        entry.transcoding = Transcoding::Queued;
        self.queue.push_back(cell.clone());
    }

    /// Whether a cell waits to be transcoded, or did until it went.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next cell to transcode.
    pub fn next_job(&mut self) -> Option<Job> {
        while let Some(cell) = self.queue.pop_front() {
            if let Some(entry) = self.entries.get_mut(&cell).filter(|entry| entry.transcoding == Transcoding::Queued) {
                entry.transcoding = Transcoding::Running;
                return Some(Job { values: entry.values.clone(), serial: entry.serial, cell });
            }
        }
        None
    }

    /// Puts what a cell became in the place of what it was, if that is still there: blocks, or the array that stays. `None`: it couldn't be
    /// decoded, and goes.
    pub fn finish_job(&mut self, job: &Job, values: Option<Values>, elapsed: std::time::Duration) {
        self.counters.transcoding_ns += elapsed.as_nanos() as u64;
        let Some(values) = values else { return self.drop_job(job) };
        let (is_encoded, holdings) = (values.state() == State::Encoded, values.holdings());
        // What is larger than what was there needs room before it comes: pages may be smaller than their blocks.
        if !self.make_room_instead(job, &holdings) {
            return;
        }
        let Some(entry) = self.entries.get_mut(&job.cell) else { return };
        let (from_bytes, to_bytes) = (entry.holdings.size_bytes(), holdings.size_bytes());
        entry.values = values;
        entry.transcoding = if is_encoded { Transcoding::Idle } else { Transcoding::Refused };
        if entry.pins > 0 {
            self.pinned_bytes = self.pinned_bytes - from_bytes + to_bytes;
        } else {
            self.policy.resize(&job.cell, to_bytes);
        }
        let before = std::mem::replace(&mut entry.holdings, holdings.clone());
        self.ledger.remove(&before);
        self.ledger.add(&holdings);
        let cell = job.cell.clone();
        if is_encoded {
            self.counters.transcoded += 1;
            self.counters.transcoded_from_bytes += from_bytes;
            self.counters.transcoded_to_bytes += to_bytes;
            self.events.push(Event::Transcoded { cell, from_bytes, to_bytes, elapsed });
        } else {
            self.counters.kept_as_arrow += 1;
            self.events.push(Event::KeptAsArrow { cell });
        }
    }

    /// The entry that a job is about, if it is there.
    fn entry_of(&mut self, job: &Job) -> Option<&mut Entry> {
        self.entries.get_mut(&job.cell).filter(|entry| entry.serial == job.serial)
    }

    /// Evicts others until a job's cell fits that will hold `after`; false if it can't, or isn't there any more. One that can't stays what
    /// it is, and is queued when it is asked for again.
    fn make_room_instead(&mut self, job: &Job, after: &Holdings) -> bool {
        loop {
            let Some(before) = self.entry_of(job).map(|entry| entry.holdings.clone()) else { return false };
            let used_bytes = self.ledger.used_bytes_after(&before, after) + self.names_bytes();
            if used_bytes - self.staged.size_bytes() <= self.room_bytes() {
                return true;
            }
            if !self.evict_for(&job.cell) {
                if let Some(entry) = self.entry_of(job) {
                    entry.transcoding = Transcoding::Idle;
                }
                return false;
            }
        }
    }

    /// Drops the cell of a job.
    fn drop_job(&mut self, job: &Job) {
        match self.entry_of(job) {
            Some(entry) if entry.pins > 0 => return entry.transcoding = Transcoding::Refused,
            Some(_) => {}
            None => return,
        }
        self.policy.remove(&job.cell);
        if let Some(entry) = self.entries.remove(&job.cell) {
            self.ledger.remove(&entry.holdings);
            self.counters.undecodable += 1;
        }
    }

    pub fn statistics(&self) -> Statistics {
        let mut statistics = Statistics {
            budget_bytes: self.budget_bytes,
            used_bytes: self.used_bytes(),
            pinned_bytes: self.pinned_bytes,
            queued_cells: self.queue.len(),
            filling_cells: self.flights.len(),
            ..self.counters
        };
        self.count_disk(&mut statistics);
        for entry in self.entries.values() {
            let size_bytes = entry.holdings.size_bytes();
            match entry.values.state() {
                State::Pages => {
                    statistics.pages_cells += 1;
                    statistics.pages_bytes += size_bytes;
                }
                State::Arrow => {
                    statistics.arrow_cells += 1;
                    statistics.arrow_bytes += size_bytes;
                }
                State::Encoded => {
                    statistics.encoded_cells += 1;
                    statistics.encoded_bytes += size_bytes;
                }
            }
        }
        statistics
    }

    pub fn columns(&self) -> Vec<ColumnUse> {
        let mut columns: HashMap<&ColumnId, ColumnUse> = HashMap::new();
        for (cell, entry) in &self.entries {
            let column = columns.entry(&cell.column).or_insert_with(|| ColumnUse::nothing_of(&cell.column));
            column.size_bytes += entry.holdings.size_bytes();
            match entry.values.state() {
                State::Pages => column.pages_cells += 1,
                State::Arrow => column.arrow_cells += 1,
                State::Encoded => column.encoded_cells += 1,
            }
        }
        for (cell, page_bytes) in self.tier.iter().flat_map(Tier::cells) {
            let column = columns.entry(&cell.column).or_insert_with(|| ColumnUse::nothing_of(&cell.column));
            column.disk_cells += 1;
            column.disk_bytes += page_bytes;
        }
        columns.into_values().collect()
    }
}
