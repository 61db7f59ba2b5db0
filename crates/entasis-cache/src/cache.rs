//! The cache as its users see it.

use std::sync::{Arc, PoisonError};

use arrow_array::{Array, ArrayRef};
use bytes::Bytes;
use entasis_encoding::EncodeOptions;

use crate::disk::{self, DiskOptions, Folder, Place};
use crate::flight::Flight;
use crate::policy::{Policy, PolicyKind};
use crate::read::{Footers, Pages, Sparse};
use crate::shelf::{Found, Shelf};
use crate::statistics::{ColumnUse, Observer, Statistics};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::values::{Encoded, Values};
use crate::{CELL_ROWS, Cell, CellId, Error, ObjectId, Result, Version, Waiter, transcode};

/// How a cache is made. [`Default`] gives what the fields say.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// The most bytes that cells may hold, whatever happens: 1 GiB.
    pub memory_bytes: u64,
    /// The most bytes of Parquet's metadata that are kept beside the cells: 64 MiB.
    pub metadata_bytes: u64,
    /// Objects of at most so many bytes are read whole where their metadata are read, as another request would take longer than their bytes:
    /// 2 MiB. They are held beside the metadata until they are asked for, or have to go.
    pub whole_bytes: u64,
    /// Who goes when there is no room: [`PolicyKind::ColumnPrefix`].
    pub policy: PolicyKind,
    /// Threads that transcode: as many as the machine has cores, but four at most. With 0, the cache has no threads at all:
    /// [`Cache::transcode_one`] and [`Cache::write_one`] do the work.
    pub transcoders: usize,
    /// Cores that transcoding leaves to queries that are [inside](Cache::enter): as many as the machine has.
    pub cores: usize,
    /// As what cells of Parquet files come in: [`Arrival::Pages`].
    pub arrival: Arrival,
    /// Cells that may wait to be transcoded: 4,096. Others are queued when they are next asked for.
    pub queue_cells: usize,
    /// Where cells go that have to leave memory as blocks: nowhere.
    pub disk: Option<DiskOptions>,
    /// How cells are encoded: as files are.
    pub encode: EncodeOptions,
    /// Who is told what happens: nobody.
    pub observer: Option<Arc<dyn Observer>>,
}

/// As what cells of Parquet files come in, before they are blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arrival {
    /// As the pages that were fetched: little memory, and a query that is the first pays hardly more than without the cache; the next pays for
    /// decoding again, unless they are blocks by then.
    #[default]
    Pages,
    /// As arrays, decoded: much memory, which takes its time to be had; the next query gets them as they are.
    Arrays,
}

impl Default for CacheOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            memory_bytes: 1 << 30,
            metadata_bytes: 64 << 20,
            whole_bytes: 2 << 20,
            policy: PolicyKind::default(),
            transcoders: cores.min(4),
            cores,
            arrival: Arrival::default(),
            queue_cells: 4_096,
            disk: None,
            encode: EncodeOptions::default(),
            observer: None,
        }
    }
}

/// Cells in memory, under a budget. Cheap to clone: clones are the same cache. With the last of them its threads end.
#[derive(Clone)]
pub struct Cache {
    shared: Arc<Shared>,
    /// Ends the threads with the last clone.
    _threads: Arc<Threads>,
}

/// What the cache, its guards and its threads share.
pub(crate) struct Shared {
    shelf: Mutex<Shelf>,
    /// Something happened that threads that transcode wait for.
    pub has_changed: Condvar,
    /// Something happened that the thread waits for that writes to disk.
    pub has_writes: Condvar,
    folder: Option<Folder>,
    /// Held by who writes the index.
    pub saving: Mutex<()>,
    pub encode: EncodeOptions,
    pub cores: usize,
    whole_bytes: u64,
    arrival: Arrival,
    observer: Option<Arc<dyn Observer>>,
    footers: Mutex<Footers>,
    sparse: Mutex<Sparse>,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the bookkeeping, and tells the observer what happened, without the lock.
    pub fn change<R>(&self, change: impl FnOnce(&mut Shelf) -> R) -> R {
        let mut shelf = self.lock();
        let result = change(&mut shelf);
        let events = shelf.take_events();
        let (has_work, has_writes) = (shelf.has_work(), shelf.has_writes());
        drop(shelf);
        if has_work {
            self.has_changed.notify_one();
        }
        if has_writes {
            self.has_writes.notify_one();
        }
        if let Some(observer) = &self.observer {
            events.iter().for_each(|event| observer.observe(event));
        }
        result
    }
}

/// The threads that transcode, and the one that writes to disk.
struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.has_changed.notify_all();
        self.shared.has_writes.notify_all();
        for thread in self.threads.drain(..) {
            // An observer may have had the last clone, on one of these threads.
            if thread.thread().id() != thread::current().id() {
                // A thread that panicked has said so itself.
                let _ = thread.join();
            }
        }
        if let Some(folder) = &self.shared.folder {
            disk::save(&self.shared, folder);
        }
    }
}

/// What is known of a cell that was asked for.
#[derive(Debug)]
pub enum Lookup {
    /// It is there.
    Hit(Cell),
    /// It isn't, and the asker is to decode it.
    Miss(Fill),
    /// It isn't, and somebody decodes it.
    Wait(Waiter),
}

impl Cache {
    /// An empty cache, but for what its folder holds. Starts its threads.
    ///
    /// # Errors
    /// [`WouldBlock`](std::io::ErrorKind::WouldBlock) if the folder is another cache's at the moment, of this process or of another one;
    /// [`InvalidInput`](std::io::ErrorKind::InvalidInput) if its limit is too low; what the system says of folder and threads.
    pub fn new(options: CacheOptions) -> std::io::Result<Self> {
        let policy = options.policy.policy();
        Self::with_policy(options, policy)
    }

    /// As [`Cache::new`], with a policy of your own, which knows no cell yet.
    pub fn with_policy(options: CacheOptions, policy: Box<dyn Policy>) -> std::io::Result<Self> {
        let opened = options.disk.as_ref().map(|disk| disk::open(disk, options.memory_bytes)).transpose()?;
        let (folder, tier) = opened.unzip();
        let shared = Arc::new(Shared {
            shelf: Mutex::new(Shelf::new(options.memory_bytes, options.queue_cells, policy, tier)),
            has_changed: Condvar::new(),
            has_writes: Condvar::new(),
            folder,
            saving: Mutex::new(()),
            encode: options.encode,
            cores: options.cores,
            whole_bytes: options.whole_bytes,
            arrival: options.arrival,
            observer: options.observer,
            footers: Mutex::new(Footers::new(options.metadata_bytes)),
            sparse: Mutex::default(),
        });
        // Should a thread fail to start, those before it are ended by this.
        let mut threads = Threads { shared: shared.clone(), threads: Vec::new() };
        for number in 0..options.transcoders {
            let own = shared.clone();
            let builder = thread::Builder::new().name(format!("entasis-transcode-{number}"));
            threads.threads.push(builder.spawn(move || transcode::run(&own))?);
        }
        if options.transcoders > 0 && shared.folder.is_some() {
            let own = shared.clone();
            let write = move || own.folder.iter().for_each(|folder| disk::run(&own, folder));
            threads.threads.push(thread::Builder::new().name("entasis-disk".to_owned()).spawn(write)?);
        }
        Ok(Self { shared, _threads: Arc::new(threads) })
    }

    /// The cell if it is there, be it on disk; it counts as used.
    pub fn get(&self, cell: &CellId) -> Option<Cell> {
        let (values, on_disk) = self.shared.change(|shelf| match shelf.get(cell) {
            Some(values) => (Some(values), None),
            None => (None, shelf.find_on_disk(cell)),
        });
        let (flight, place) = match on_disk {
            Some(found) => found,
            None => return values.map(Cell::new),
        };
        Fill::new(&self.shared, cell, flight).recall(&place, true).ok().map(|(cell, _)| cell)
    }

    /// Whether the cell is there; it doesn't count as used.
    pub fn contains(&self, cell: &CellId) -> bool {
        self.shared.lock().contains(cell)
    }

    /// Whether the cell is there and answers without pages being decoded.
    pub(crate) fn answers(&self, cell: &CellId) -> bool {
        self.shared.lock().answers(cell)
    }

    /// Drops the cells of a version that are pages, as their metadata aren't kept any more.
    pub(crate) fn drop_pages(&self, version: &Version) {
        self.shared.change(|shelf| shelf.drop_pages(version));
    }

    /// As what cells of Parquet files come in.
    pub(crate) fn arrival(&self) -> Arrival {
        self.shared.arrival
    }

    /// What is kept of Parquet's metadata.
    pub(crate) fn footers(&self) -> MutexGuard<'_, Footers> {
        self.shared.footers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects of at most so many bytes are read whole.
    pub(crate) fn whole_bytes(&self) -> u64 {
        self.shared.whole_bytes
    }

    /// Of which cells few rows were wanted.
    pub(crate) fn sparse(&self) -> MutexGuard<'_, Sparse> {
        self.shared.sparse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cell, or who decodes it: of all who ask for a missing cell at the same time, one gets a [`Fill`], the others wait for that one.
    /// A cell that is on disk is read by the calling thread: a moment, mostly, and nothing is decoded.
    pub fn lookup(&self, cell: &CellId) -> Lookup {
        match self.shared.change(|shelf| shelf.find(cell)) {
            Found::Values(values) => Lookup::Hit(Cell::new(values)),
            Found::Missing(flight) => Lookup::Miss(Fill::new(&self.shared, cell, flight)),
            Found::Flying(flight) => Lookup::Wait(Waiter::new(flight)),
            Found::OnDisk(flight, place) => match Fill::new(&self.shared, cell, flight).recall(&place, true) {
                Ok((cell, _)) => Lookup::Hit(cell),
                Err(fill) => Lookup::Miss(fill),
            },
        }
    }

    /// The cell; if it isn't there, `decode` yields it, or somebody else does, for whom the thread waits.
    ///
    /// # Errors
    /// Those of `decode`, which others who wait then call with their own; too many rows.
    pub fn get_or_decode<E: From<Error>>(
        &self,
        cell: &CellId,
        decode: impl FnOnce() -> Result<ArrayRef, E>,
    ) -> Result<Cell, E> {
        loop {
            match self.lookup(cell) {
                Lookup::Hit(cell) => return Ok(cell),
                Lookup::Miss(fill) => return Ok(fill.complete(decode()?)?),
                Lookup::Wait(waiter) => {
                    if let Some(cell) = waiter.wait() {
                        return Ok(cell);
                    }
                }
            }
        }
    }

    /// Brings in cells before somebody asks for them, in this order, from disk or by `decode`, until one doesn't fit: nothing is evicted for
    /// them. Those that are in memory, or are being decoded, are left out. Returns how many came in.
    ///
    /// # Errors
    /// The first of `decode`; too many rows.
    pub fn prewarm<'a, E: From<Error>>(
        &self,
        cells: impl IntoIterator<Item = &'a CellId>,
        mut decode: impl FnMut(&CellId) -> Result<ArrayRef, E>,
    ) -> Result<usize, E> {
        let mut count = 0;
        for cell in cells {
            let Some((flight, place)) = self.shared.change(|shelf| shelf.fly_if_missing(cell)) else { continue };
            let fill = Fill::new(&self.shared, cell, flight);
            let recalled = match place {
                Some(place) => fill.recall(&place, false),
                None => Err(fill),
            };
            let (_, came_in) = match recalled {
                Ok(recalled) => recalled,
                Err(fill) => fill.end(decode(cell)?, false)?,
            };
            if !came_in {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Keeps a cell that is in memory from being evicted, as long as the pin lives. Its room isn't there for others meanwhile.
    pub fn pin(&self, cell: &CellId) -> Option<Pin> {
        let serial = self.shared.change(|shelf| shelf.pin(cell))?;
        Some(Pin { shared: self.shared.clone(), cell: cell.clone(), serial })
    }

    /// Drops all cells of a version, pinned ones and those on disk as well. Returns how many there were.
    pub fn invalidate_version(&self, version: &Version) -> usize {
        self.shared.change(|shelf| shelf.invalidate(|column| column.version == *version))
    }

    /// Drops all cells of all versions of an object, pinned ones and those on disk as well. Returns how many there were.
    pub fn invalidate_object(&self, object: &ObjectId) -> usize {
        self.shared.change(|shelf| shelf.invalidate(|column| column.version.object() == object))
    }

    /// Drops all cells of an object but those of its version `current`. Returns how many there were.
    pub fn invalidate_older(&self, current: &Version) -> usize {
        let is_older = |version: &Version| version.object() == current.object() && version != current;
        self.shared.change(|shelf| shelf.invalidate(|column| is_older(&column.version)))
    }

    /// Says that the calling thread computes for a query, as long as the guard lives: transcoding leaves it a core.
    pub fn enter(&self) -> Inside {
        self.shared.lock().inside += 1;
        Inside { shared: self.shared.clone() }
    }

    /// Transcodes the cell that waits longest, on the calling thread, whoever is inside. False if none waits.
    pub fn transcode_one(&self) -> bool {
        transcode::one(&self.shared)
    }

    /// Writes the cell to disk that waits longest for it, on the calling thread. False if none waits.
    pub fn write_one(&self) -> bool {
        self.shared.folder.as_ref().is_some_and(|folder| disk::one(&self.shared, folder))
    }

    /// Brings all to disk that is blocks, also what needn't leave memory, as far as the limit lets it, and the index: what a process does that is
    /// about to end, so that the next one finds it. Without it a cache that is dropped leaves what it evicted.
    pub fn flush(&self) {
        let Some(folder) = &self.shared.folder else { return };
        while self.write_one() {}
        let unwritten = self.shared.lock().unwritten();
        unwritten.iter().for_each(|job| disk::write(&self.shared, folder, job));
        disk::save(&self.shared, folder);
    }

    /// Counters and sizes of this moment.
    pub fn statistics(&self) -> Statistics {
        self.shared.lock().statistics()
    }

    /// What is there of each column, in no particular order.
    pub fn columns(&self) -> Vec<ColumnUse> {
        self.shared.lock().columns()
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("statistics", &self.statistics()).finish_non_exhaustive()
    }
}

/// The duty to decode a cell that others may wait for. Dropping it gives the cell up: one of the others has the duty then.
pub struct Fill {
    shared: Arc<Shared>,
    cell: CellId,
    flight: Arc<Flight>,
    is_done: bool,
}

impl Fill {
    fn new(shared: &Arc<Shared>, cell: &CellId, flight: Arc<Flight>) -> Self {
        Self { shared: shared.clone(), cell: cell.clone(), flight, is_done: false }
    }

    /// The cell to decode.
    pub fn cell(&self) -> &CellId {
        &self.cell
    }

    /// Hands all rows of the cell to those who wait, and to the cache if there is room. Memory that the array shares with others, as
    /// slices of one array do, stays allocated with it.
    ///
    /// # Errors
    /// More rows than a cell has; the cell is given up then.
    pub fn complete(self, array: ArrayRef) -> Result<Cell> {
        Ok(self.end(array, true)?.0)
    }

    /// Hands the pages of the cell to those who wait, and to the cache if there is room, and if their metadata are kept.
    pub(crate) fn complete_pages(mut self, pages: Pages, is_kept: bool) -> Cell {
        let values = Values::Pages(Arc::new(pages));
        if is_kept {
            return self.hand_over(values, true).0;
        }
        self.is_done = true;
        self.shared.change(|shelf| shelf.fill_for_others(&self.cell, &self.flight, &values));
        self.flight.end(Some(values.clone()));
        Cell::new(values)
    }

    /// Hands bytes of an object to those who wait, and to the cache if there is room.
    pub(crate) fn complete_bytes(self, bytes: Bytes) {
        self.hand_over(Values::Encoded(Arc::new(Encoded::of_bytes(bytes))), true);
    }

    /// As [`Fill::complete`], and says whether the cell came in.
    fn end(self, array: ArrayRef, may_evict: bool) -> Result<(Cell, bool)> {
        if array.len() > CELL_ROWS {
            return Err(Error::TooManyRows { cell: self.cell.to_string(), rows: array.len() });
        }
        Ok(self.hand_over(Values::Arrow(array), may_evict))
    }

    fn hand_over(mut self, values: Values, may_evict: bool) -> (Cell, bool) {
        self.is_done = true;
        let came_in = self.shared.change(|shelf| shelf.fill(&self.cell, &self.flight, values.clone(), may_evict));
        self.flight.end(Some(values.clone()));
        (Cell::new(values), came_in)
    }
}

impl Fill {
    /// Reads the cell from disk instead, and says whether it came in; gives itself back if it isn't there any more, or is damaged.
    fn recall(mut self, place: &Arc<Place>, may_evict: bool) -> Result<(Cell, bool), Self> {
        let read = self.shared.folder.as_ref().and_then(|folder| folder.read(&self.cell, place));
        let Some(encoded) = read else {
            self.shared.change(|shelf| shelf.fail_recall(&self.cell, place));
            return Err(self);
        };
        self.is_done = true;
        let values = Values::Encoded(Arc::new(encoded));
        let recalled = |shelf: &mut Shelf| shelf.finish_recall(&self.cell, &self.flight, values.clone(), may_evict);
        let came_in = self.shared.change(recalled);
        self.flight.end(Some(values.clone()));
        Ok((Cell::new(values), came_in))
    }
}

impl Drop for Fill {
    fn drop(&mut self) {
        if !self.is_done {
            self.shared.change(|shelf| shelf.abandon(&self.cell, &self.flight));
            self.flight.end(None);
        }
    }
}

impl std::fmt::Debug for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fill").field("cell", &self.cell).finish_non_exhaustive()
    }
}

/// Keeps a cell in memory.
pub struct Pin {
    shared: Arc<Shared>,
    cell: CellId,
    serial: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.shared.change(|shelf| shelf.unpin(&self.cell, self.serial));
    }
}

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pin").field("cell", &self.cell).finish_non_exhaustive()
    }
}

/// A query that computes.
pub struct Inside {
    shared: Arc<Shared>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut shelf = self.shared.lock();
        shelf.inside -= 1;
        let has_work = shelf.has_work();
        drop(shelf);
        if has_work {
            self.shared.has_changed.notify_one();
        }
    }
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inside").finish_non_exhaustive()
    }
}
