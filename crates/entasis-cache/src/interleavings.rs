//! The bookkeeping under a scheduler that tries out interleavings: every lock, wait and thread of this crate is shuttle's here (`sync.rs`). A
//! deadlock, or a wake-up that nobody gets, is an execution that doesn't end, which shuttle reports with a schedule that leads there.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use arrow_array::{ArrayRef, Int64Array};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};

use crate::policy::PolicyKind;
use crate::sync::thread;
use crate::{Cache, CacheOptions, Cell, CellId, ColumnId, DiskOptions, Error, Lookup, ObjectId, Stamp, Version};

const PIECES: usize = 4;

/// Values of a cell are fewer than make a difference between Arrow and blocks, but for their bytes.
const ROWS: i64 = 600;

fn cell(version: &str, piece: usize) -> CellId {
    let object = ObjectId::new("memory://tests", "t.parquet".into());
    let version = Version::new(object, Stamp::ETag(version.to_owned()));
    CellId { column: ColumnId { version, leaf: 0 }, row_group: 0, piece }
}

fn values(id: &CellId) -> ArrayRef {
    let is_a = id.column.version == cell("a", 0).column.version;
    let first = i64::from(is_a) * 1_000 + id.piece as i64 * 100;
    Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| first + row % 10)))
}

fn check(id: &CellId, cell: &Cell) {
    assert_eq!(&cell.decode().expect("cells decode"), &values(id), "{id}");
}

/// Runs something under several schedulers, so many times under each.
fn explore(times: usize, run: impl Fn() + Send + Sync + Clone + 'static) {
    fn under(scheduler: impl Scheduler + 'static, run: impl Fn() + Send + Sync + 'static) {
        let mut config = shuttle::Config::new();
        // Encoding wants more than the default.
        config.stack_size = 1 << 20;
        shuttle::Runner::new(scheduler, config).run(run);
    }
    under(RandomScheduler::new(times), run.clone());
    under(PctScheduler::new(2, times), run.clone());
    under(PctScheduler::new(4, times), run);
}

/// A cache of which about two arrays, or all blocks, have room.
fn options(transcoders: usize, folder: Option<&Path>) -> CacheOptions {
    let disk = folder.map(|folder| DiskOptions::new(folder, 1 << 20));
    let memory_bytes = if disk.is_some() { 40_000 } else { 14_000 };
    let policy = PolicyKind::ALL[thread_rng().gen_range(0..PolicyKind::ALL.len())];
    CacheOptions { memory_bytes, transcoders, cores: 2, queue_cells: 2, policy, disk, ..CacheOptions::default() }
}

/// What all threads of an execution share.
struct Load {
    cache: Cache,
    /// Threads that decode each cell of the version that is never invalidated.
    decoding: [AtomicUsize; PIECES],
}

impl Load {
    fn decode(&self, id: &CellId, fails: bool) -> Result<ArrayRef, Error> {
        let is_alone = id.column.version == cell("a", 0).column.version;
        if is_alone {
            assert_eq!(self.decoding[id.piece].fetch_add(1, Ordering::SeqCst), 0, "two decode {id}");
        }
        thread::yield_now();
        if is_alone {
            self.decoding[id.piece].fetch_sub(1, Ordering::SeqCst);
        }
        if fails { Err(entasis::Error::Unsupported("a failure".to_owned()).into()) } else { Ok(values(id)) }
    }

    /// One thing that a query or a thread of the cache does.
    fn step(&self) {
        let mut random = thread_rng();
        let id = cell(if random.gen_range(0..4) == 0 { "b" } else { "a" }, random.gen_range(0..PIECES));
        match random.gen_range(0..12) {
            0 => {
                let _pin = self.cache.pin(&id);
                thread::yield_now();
            }
            1 => {
                self.cache.invalidate_version(&cell("b", 0).column.version);
            }
            2 => drop(self.cache.lookup(&id)),
            3 => match self.cache.lookup(&id) {
                Lookup::Hit(cell) => check(&id, &cell),
                Lookup::Miss(fill) => check(&id, &fill.complete(values(&id)).expect("few rows")),
                Lookup::Wait(waiter) => {
                    let _ = pin!(waiter).poll(&mut Context::from_waker(Waker::noop()));
                }
            },
            4 | 5 => {
                self.cache.transcode_one();
            }
            6 | 7 => {
                self.cache.write_one();
            }
            8 => self.cache.get(&id).iter().for_each(|cell| check(&id, cell)),
            action => {
                let _inside = (action < 10).then(|| self.cache.enter());
                let fails = random.gen_range(0..6) == 0;
                let found = self.cache.get_or_decode(&id, || self.decode(&id, fails));
                found.iter().for_each(|cell| check(&id, cell));
            }
        }
        let statistics = self.cache.statistics();
        assert!(statistics.used_bytes <= statistics.budget_bytes, "{statistics:?}");
    }

    fn check_end(&self) {
        let statistics = self.cache.statistics();
        assert_eq!((statistics.filling_cells, statistics.pinned_bytes), (0, 0), "{statistics:?}");
        assert_eq!(statistics.misses, statistics.filled + statistics.abandoned, "every duty was done or given up");
        assert_eq!((statistics.disk_damaged, statistics.disk_errors), (0, 0), "{statistics:?}");
        while self.cache.write_one() {}
        self.cache.invalidate_object(cell("a", 0).column.version.object());
        let statistics = self.cache.statistics();
        assert_eq!((statistics.used_bytes, statistics.disk_used_bytes, statistics.staged_bytes), (0, 0, 0));
    }
}

/// Three threads, each of which does a few things.
fn mixed(transcoders: usize, folder: Option<&Path>) {
    let cache = Cache::new(options(transcoders, folder)).expect("threads start");
    let load = Arc::new(Load { cache, decoding: Default::default() });
    let askers: Vec<_> = (0..3)
        .map(|_| {
            let load = load.clone();
            thread::spawn(move || (0..6).for_each(|_| load.step()))
        })
        .collect();
    askers.into_iter().for_each(|asker| asker.join().expect("no asker panics"));
    if transcoders == 0 {
        load.check_end();
    }
}

#[test]
fn askers_leave_the_bookkeeping_right_in_any_order() {
    explore(1600, || mixed(0, None));
}

#[test]
fn threads_of_the_cache_end_with_it_in_any_order() {
    explore(1200, || mixed(2, None));
}

#[test]
fn cells_go_to_disk_and_come_back_in_any_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let number = Arc::new(AtomicUsize::new(0));
    let path = folder.path().to_owned();
    explore(480, move || {
        let inner = path.join(number.fetch_add(1, Ordering::SeqCst).to_string());
        mixed(0, Some(&inner));
        mixed(1, Some(&inner));
        std::fs::remove_dir_all(&inner).expect("it is there");
    });
}

#[test]
fn who_waits_is_woken_in_any_order() {
    explore(1600, || {
        let cache = Cache::new(options(0, None)).expect("no threads");
        let id = cell("a", 1);
        let gives_up = thread_rng().gen_range(0..3);
        let askers: Vec<_> = (0..4)
            .map(|number| {
                let (cache, id) = (cache.clone(), id.clone());
                thread::spawn(move || match cache.lookup(&id) {
                    Lookup::Miss(fill) if number == gives_up => drop(fill),
                    Lookup::Miss(fill) => check(&id, &fill.complete(values(&id)).expect("few rows")),
                    Lookup::Hit(cell) => check(&id, &cell),
                    Lookup::Wait(waiter) if number % 2 == 0 => {
                        waiter.wait().iter().for_each(|cell| check(&id, cell));
                    }
                    Lookup::Wait(waiter) => {
                        shuttle::future::block_on(waiter).iter().for_each(|cell| check(&id, cell));
                    }
                })
            })
            .collect();
        askers.into_iter().for_each(|asker| asker.join().expect("no asker panics"));
        assert_eq!(cache.statistics().filling_cells, 0);
    });
}

#[test]
fn what_is_invalidated_is_gone_whoever_writes_or_reads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let number = Arc::new(AtomicUsize::new(0));
    let path = folder.path().to_owned();
    explore(600, move || {
        let inner = path.join(number.fetch_add(1, Ordering::SeqCst).to_string());
        let cache = Cache::new(options(0, Some(&inner))).expect("no threads");
        let (id, other) = (cell("b", 1), cell("a", 1));
        for id in [&id, &other] {
            cache.get_or_decode(id, || Ok::<_, Error>(values(id))).expect("few rows");
            cache.transcode_one();
        }
        let is_written = thread_rng().gen_range(0..2) == 0;
        if is_written {
            cache.flush();
        }
        let tasks: [fn(&Cache); 3] = [
            |cache| cache.flush(),
            |cache| {
                cache.invalidate_version(&cell("b", 1).column.version);
            },
            |cache| cache.get(&cell("b", 1)).iter().for_each(|found| check(&cell("b", 1), found)),
        ];
        let threads = tasks.map(|task| {
            let cache = cache.clone();
            thread::spawn(move || task(&cache))
        });
        threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        assert!(cache.get(&id).is_none() && cache.get(&other).is_some());
        let statistics = cache.statistics();
        assert_eq!((statistics.disk_cells, statistics.filling_cells), (1, 0), "{statistics:?}");
        drop(cache);
        std::fs::remove_dir_all(&inner).expect("it is there");
    });
}
