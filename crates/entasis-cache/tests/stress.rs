//! Many threads at once, some of which give up in the middle: what the bookkeeping must hold at every moment, whoever comes first.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef, Int64Array, cast::AsArray, types::Int64Type};
use common::{Random, cell, options};
use entasis_cache::policy::PolicyKind;
use entasis_cache::{Cache, CacheOptions, Cell, CellId, DiskOptions, Error, Lookup, State};

const LEAVES: usize = 4;
const PIECES: usize = 6;
const ROWS: usize = 3_000;

/// What a cell holds and no other does.
fn values(version: &str, id: &CellId) -> ArrayRef {
    let first = i64::from(version.as_bytes()[0]) << 32 | (id.column.leaf << 16 | id.piece << 8) as i64;
    Arc::new(Int64Array::from_iter_values((0..ROWS as i64).map(|row| first + row % 40)))
}

fn check(version: &str, id: &CellId, cell: &Cell) {
    assert_eq!(&cell.decode().unwrap(), &values(version, id), "{id}");
}

/// What all threads share.
struct Load {
    cache: Cache,
    /// Threads that decode each cell of the version that is never invalidated.
    decoding: Vec<AtomicUsize>,
}

impl Load {
    /// Decodes, or fails; asserts that nobody else decodes the same cell.
    fn decode(&self, version: &str, id: &CellId, fails: bool) -> Result<ArrayRef, Error> {
        let decoding = &self.decoding[id.column.leaf * PIECES + id.piece];
        if version == "a" {
            assert_eq!(decoding.fetch_add(1, Ordering::SeqCst), 0, "two decode {id}");
        }
        thread::yield_now();
        let array = values(version, id);
        if version == "a" {
            decoding.fetch_sub(1, Ordering::SeqCst);
        }
        if fails { Err(entasis::Error::Unsupported("a failure".to_owned()).into()) } else { Ok(array) }
    }

    /// One thing that a query does.
    fn step(&self, random: &mut Random) {
        let version = if random.below(4) == 0 { "b" } else { "a" };
        let id = cell(version, random.below(LEAVES), random.below(PIECES));
        match random.below(20) {
            0 => {
                let _pin = self.cache.pin(&id);
                thread::yield_now();
            }
            1 if version == "b" => {
                self.cache.invalidate_version(&id.column.version);
            }
            2 => drop(self.cache.lookup(&id)),
            3 => self.poll_once(version, &id),
            4 => {
                self.cache.transcode_one();
                self.cache.write_one();
            }
            action => {
                let _inside = (action < 12).then(|| self.cache.enter());
                let found = self.cache.get_or_decode(&id, || self.decode(version, &id, action < 7));
                found.iter().for_each(|cell| check(version, &id, cell));
            }
        }
        let statistics = self.cache.statistics();
        assert!(statistics.used_bytes <= statistics.budget_bytes, "{statistics:?}");
        let cells_bytes = statistics.arrow_bytes + statistics.encoded_bytes + statistics.staged_bytes;
        assert_eq!(statistics.used_bytes, cells_bytes + statistics.disk_names_bytes, "nothing is shared here");
    }

    /// Asks as a future does, and goes.
    fn poll_once(&self, version: &str, id: &CellId) {
        match self.cache.lookup(id) {
            Lookup::Hit(cell) => check(version, id, &cell),
            Lookup::Miss(duty) => {
                let array = self.decode(version, id, false).unwrap();
                check(version, id, &duty.complete(array).unwrap());
            }
            Lookup::Wait(waiter) => {
                let _ = pin!(waiter).poll(&mut Context::from_waker(Waker::noop()));
            }
        }
    }
}

fn run(policy: PolicyKind, transcoders: usize, seed: u64, disk: Option<DiskOptions>) {
    let one = values("a", &cell("a", 0, 0)).get_buffer_memory_size() as u64;
    let memory_bytes = one * (LEAVES * PIECES) as u64 / 3;
    let has_disk = disk.is_some();
    let options = CacheOptions { transcoders, policy, queue_cells: 8, cores: 3, disk, ..options(memory_bytes) };
    let cache = Cache::new(options);
    let decoding = (0..LEAVES * PIECES).map(|_| AtomicUsize::new(0)).collect();
    let load = Load { cache: cache.unwrap(), decoding };
    thread::scope(|scope| {
        for thread in 0..8 {
            let load = &load;
            scope.spawn(move || {
                let mut random = Random(seed << 8 | thread);
                (0..400).for_each(|_| load.step(&mut random));
            });
        }
    });
    let statistics = load.cache.statistics();
    assert_eq!((statistics.filling_cells, statistics.pinned_bytes), (0, 0), "{policy}: {statistics:?}");
    assert!(statistics.evicted > 0 && statistics.transcoded > 0 && statistics.arrow_hits > 0, "{statistics:?}");
    assert_eq!(
        statistics.misses,
        statistics.filled + statistics.abandoned,
        "{policy}: every duty was done or given up"
    );
    assert_eq!((statistics.disk_damaged, statistics.disk_errors), (0, 0), "{policy}: {statistics:?}");
    assert!(!has_disk || (statistics.written > 0 && statistics.disk_hits > 0), "{policy}: {statistics:?}");
    while load.cache.write_one() {}
    load.cache.invalidate_object(cell("a", 0, 0).column.version.object());
    // The thread that writes may be at a cell: it gives its pages back once it finds that the cell is gone.
    let deadline = Instant::now() + Duration::from_secs(20);
    while load.cache.statistics().disk_used_bytes > 0 && Instant::now() < deadline {
        thread::yield_now();
    }
    assert_eq!((load.cache.statistics().used_bytes, load.cache.statistics().disk_used_bytes), (0, 0));
}

#[test]
fn threads_that_come_and_go_leave_the_bookkeeping_right() {
    for (seed, policy) in PolicyKind::ALL.into_iter().enumerate() {
        run(policy, 2, seed as u64, None);
        run(policy, 0, 100 + seed as u64, None);
        let folder = tempfile::tempdir().unwrap();
        // Less than all cells need.
        let disk = || Some(DiskOptions { policy, ..DiskOptions::new(folder.path(), 72 << 10) });
        run(policy, 2, 200 + seed as u64, disk());
        run(policy, 0, 300 + seed as u64, disk());
    }
}

#[test]
fn all_who_ask_at_once_get_what_one_decodes() {
    for round in 0..50 {
        let cache = Cache::new(options(1 << 20)).unwrap();
        let (id, count) = (cell("a", 0, 0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for asker in 0..6 {
                let (cache, id, count) = (&cache, &id, &count);
                scope.spawn(move || {
                    // Some give up: those who wait for them ask again.
                    if (asker + round) % 3 == 0 {
                        drop(cache.lookup(id));
                    }
                    let found = cache.get_or_decode(id, || {
                        count.fetch_add(1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(1));
                        Ok::<_, Error>(values("a", id))
                    });
                    check("a", id, &found.unwrap());
                });
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), 1, "round {round}");
    }
}

/// Waits until something is so.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn transcoding_leaves_queries_their_cores() {
    let cache = Cache::new(CacheOptions { transcoders: 2, cores: 2, ..options(8 << 20) }).unwrap();
    let queries = [cache.enter(), cache.enter()];
    for piece in 0..PIECES {
        let id = cell("a", 0, piece);
        cache.get_or_decode(&id, || Ok::<_, Error>(values("a", &id))).unwrap();
    }
    thread::sleep(Duration::from_millis(50));
    assert_eq!(cache.statistics().transcoded, 0, "both cores are taken");
    let [first, _second] = queries;
    drop(first);
    eventually("one core is left", || cache.statistics().transcoded == PIECES as u64);
    assert_eq!(cache.get(&cell("a", 0, 0)).unwrap().state(), State::Encoded);
}

/// Nobody who wants a core waits for blocks to be made, whether the cache knows of him or not.
#[test]
#[cfg(target_os = "linux")]
fn threads_that_transcode_have_the_lowest_priority() {
    let _cache = Cache::new(CacheOptions { transcoders: 2, ..options(8 << 20) }).unwrap();
    let nices = || -> Vec<i32> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        // A thread may end while it is looked at.
        let told = tasks.filter_map(|task| std::fs::read_to_string(task.join("stat")).ok());
        let nice_of = |stat: String| {
            let (before, after) = stat.rsplit_once(')').unwrap();
            // The nineteenth of the fields; the third comes after the name.
            before.contains("(entasis-transco").then(|| after.split_whitespace().nth(16).unwrap().parse().unwrap())
        };
        told.filter_map(nice_of).collect()
    };
    eventually("they stand back", || nices().len() >= 2 && nices().iter().all(|&nice| nice == 19));
}

#[test]
fn threads_end_with_the_cache() {
    let ended = Arc::new(AtomicBool::new(false));
    let done = ended.clone();
    let watched = thread::spawn(move || {
        for _ in 0..20 {
            let cache = Cache::new(CacheOptions { transcoders: 3, ..options(8 << 20) }).unwrap();
            let clone = cache.clone();
            for piece in 0..PIECES {
                let id = cell("a", 0, piece);
                clone.get_or_decode(&id, || Ok::<_, Error>(values("a", &id))).unwrap();
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    eventually("the threads of twenty caches end", || ended.load(Ordering::SeqCst));
    watched.join().unwrap();
}

#[test]
fn a_cell_that_went_stays_readable_for_who_has_it() {
    let cache = Cache::new(options(1 << 20)).unwrap();
    let id = cell("a", 1, 1);
    let kept = cache.get_or_decode(&id, || Ok::<_, Error>(values("a", &id))).unwrap();
    cache.transcode_one();
    let encoded = cache.get(&id).unwrap();
    assert_eq!((kept.state(), encoded.state()), (State::Arrow, State::Encoded));
    cache.invalidate_version(&id.column.version);
    check("a", &id, &kept);
    check("a", &id, &encoded);
    assert_eq!(kept.decode().unwrap().as_primitive::<Int64Type>().len(), ROWS);
}
