//! Cells on disk: the same bytes, under a limit, there again after a restart; and whatever becomes of the files, right answers.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use common::{Random, cell, file, options};
use entasis_cache::policy::PolicyKind;
use entasis_cache::read::{ParquetFile, ParquetRequest};
use entasis_cache::{
    CELL_ROWS, Cache, CacheOptions, CellId, DISK_CELL_OVERHEAD_BYTES, DiskOptions, Error, Event, Lookup, Observer,
    State,
};
use entasis_encoding::digest;
use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

const CELLS: &str = "entasis-cache.cells";
const INDEX: &str = "entasis-cache.index";

/// The values of a cell, which no other cell has; blocks hold them in about 4 KiB.
fn values(id: &CellId) -> ArrayRef {
    let version = u64::from(id.column.version.to_string().as_bytes()[26]);
    let first = version << 40 | (id.column.leaf << 20 | id.piece << 8) as u64;
    let mut random = Random(first);
    Arc::new(Int64Array::from_iter_values((0..3_000).map(|_| (first * 7) as i64 + random.below(2_039) as i64)))
}

fn with_disk(memory_bytes: u64, folder: &Path, limit_bytes: u64) -> CacheOptions {
    CacheOptions { disk: Some(DiskOptions::new(folder, limit_bytes)), ..options(memory_bytes) }
}

fn open(memory_bytes: u64, folder: &Path, limit_bytes: u64) -> Cache {
    Cache::new(with_disk(memory_bytes, folder, limit_bytes)).unwrap()
}

/// Asks for a cell, checks it, and makes blocks of it. Returns whether it had to be decoded.
fn ask(cache: &Cache, id: &CellId) -> bool {
    let mut was_decoded = false;
    let decode = || {
        was_decoded = true;
        Ok::<_, Error>(values(id))
    };
    let found = cache.get_or_decode(id, decode).unwrap();
    assert_eq!(&found.decode().unwrap(), &values(id), "{id}");
    cache.transcode_one();
    was_decoded
}

/// Fills a folder with so many cells of a version.
fn fill_folder(folder: &Path, version: &str, count: usize) {
    let cache = open(8 << 20, folder, 4 << 20);
    for piece in 0..count {
        assert!(ask(&cache, &cell(version, 0, piece)));
    }
    cache.flush();
    assert_eq!(cache.statistics().disk_cells, count);
}

/// How many of the cells of a version have to be decoded.
fn decoded(cache: &Cache, version: &str, count: usize) -> usize {
    (0..count).filter(|&piece| ask(cache, &cell(version, 0, piece))).count()
}

fn folder_bytes(folder: &Path) -> u64 {
    // A file may be renamed or gone between being listed and being looked at.
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

#[test]
fn blocks_are_the_same_bytes_in_a_file_in_memory_and_on_disk() {
    let rows = 0..CELL_ROWS as i64;
    let texts =
        rows.clone().map(|row| (row % 13 > 0).then(|| format!("https://example.com/{}?q={}", row % 700, row / 9)));
    let arrays: [ArrayRef; 3] = [
        Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row * 31 % 5_003))),
        Arc::new(StringArray::from_iter(texts)),
        Arc::new(BooleanArray::from_iter(rows.map(|row| Some(row % 100 < 3)))),
    ];
    let folder = tempfile::tempdir().unwrap();
    let cache = open(64 << 20, folder.path(), 8 << 20);
    let mut in_memory = Vec::new();
    for (leaf, array) in arrays.iter().enumerate() {
        let id = cell("a", leaf, 0);
        cache.get_or_decode(&id, || Ok::<_, Error>(array.clone())).unwrap();
        cache.transcode_one();
        in_memory.push(cache.get(&id).unwrap().digests());
    }
    cache.flush();
    drop(cache);
    let on_disk = fs::read(folder.path().join(CELLS)).unwrap();
    let again = open(64 << 20, folder.path(), 8 << 20);
    for (leaf, array) in arrays.iter().enumerate() {
        let block = block_in_file(array);
        assert_eq!(in_memory[leaf], [digest(&block)], "in memory");
        let places = (0..=on_disk.len() - block.len()).step_by(64);
        assert_eq!(places.filter(|&place| on_disk[place..place + block.len()] == block).count(), 1, "on disk");
        let recalled = again.get(&cell("a", leaf, 0)).unwrap();
        assert_eq!(recalled.digests(), in_memory[leaf], "and back");
        assert_eq!(recalled.state(), State::Encoded);
        assert_eq!(&recalled.decode().unwrap(), array);
    }
    let statistics = again.statistics();
    assert_eq!((statistics.disk_hits, statistics.misses, statistics.transcoded), (3, 0, 0), "nothing was decoded");
}

/// The block of a `.ent` file whose row group holds these rows alone.
fn block_in_file(array: &ArrayRef) -> Vec<u8> {
    let batch = arrow_array::RecordBatch::try_from_iter_with_nullable([("a", array.clone(), true)]).unwrap();
    let options = entasis::WriteOptions { row_group_rows: array.len() as u64, ..entasis::WriteOptions::default() };
    let mut writer = entasis::Writer::new(Vec::new(), batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let file = writer.finish().unwrap().0;
    let reader = entasis::Reader::from_bytes(file.clone().into()).unwrap();
    let record = reader.column(0).unwrap();
    let range = record.chunks[0].blocks[0].range();
    file[range.start as usize..range.end as usize].to_vec()
}

#[derive(Debug, Default)]
struct Log(Mutex<Vec<String>>);

impl Observer for Log {
    fn observe(&self, event: &Event) {
        let (word, cell) = match event {
            Event::Evicted { cell, state, .. } => (format!("evicted {state:?}"), cell),
            Event::Written { cell, .. } => ("written".to_owned(), cell),
            Event::Recalled { cell, .. } => ("recalled".to_owned(), cell),
            Event::EvictedFromDisk { cell, .. } => ("evicted from disk".to_owned(), cell),
            Event::DamagedOnDisk { cell } => ("damaged".to_owned(), cell),
            _ => return,
        };
        self.0.lock().unwrap().push(format!("{word} {}", cell.piece));
    }
}

#[test]
fn what_has_to_go_from_memory_goes_to_disk_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let log = Arc::new(Log::default());
    let observer: Option<Arc<dyn Observer>> = Some(log.clone());
    let disk = Some(DiskOptions::new(folder.path(), 4 << 20));
    let cache = Cache::new(CacheOptions { observer, policy: PolicyKind::Fifo, disk, ..options(512 << 10) }).unwrap();
    let count = 135;
    let mut piece = 0;
    while cache.statistics().evicted == 0 {
        assert!(ask(&cache, &cell("a", 0, piece)));
        piece += 1;
    }
    let statistics = cache.statistics();
    assert!(statistics.staged_cells > 0 && statistics.used_bytes > statistics.encoded_bytes, "what waits is held");
    assert!(statistics.used_bytes <= statistics.budget_bytes);
    assert!(!ask(&cache, &cell("a", 0, 0)), "what waits to be written is still in memory");
    while piece < count {
        while cache.write_one() {}
        assert!(ask(&cache, &cell("a", 0, piece)));
        piece += 1;
    }
    while cache.write_one() {}
    let statistics = cache.statistics();
    assert_eq!((statistics.staged_cells, statistics.staged_bytes), (0, 0));
    assert!(statistics.written > 20 && statistics.disk_cells as u64 == statistics.written, "{statistics:?}");
    assert_eq!(statistics.disk_names_bytes, statistics.written * DISK_CELL_OVERHEAD_BYTES);
    assert_eq!(statistics.used_bytes, statistics.disk_names_bytes + statistics.encoded_bytes + statistics.arrow_bytes);
    assert!(!ask(&cache, &cell("a", 0, 1)), "read from disk");
    assert_eq!(cache.statistics().disk_hits, 1);
    assert_eq!(cache.get(&cell("a", 0, 1)).unwrap().state(), State::Encoded);
    assert_eq!(cache.statistics().disk_hits, 1, "it is in memory again");
    let log = log.0.lock().unwrap().join(", ");
    assert!(log.starts_with("evicted Encoded 0, recalled 0, "), "{log}");
    assert!(log.contains("written 1, ") && log.contains("recalled 1"), "{log}");
    let columns = cache.columns();
    assert_eq!(columns.iter().map(|column| column.disk_cells).sum::<usize>(), cache.statistics().disk_cells);
    assert_eq!(columns.iter().map(|column| column.disk_bytes).sum::<u64>(), cache.statistics().disk_used_bytes);
}

#[test]
fn a_restart_finds_what_was_there_under_its_version_only() {
    let folder = tempfile::tempdir().unwrap();
    fill_folder(folder.path(), "a", 20);
    let cache = open(8 << 20, folder.path(), 4 << 20);
    assert_eq!(cache.statistics().disk_cells, 20);
    assert_eq!(decoded(&cache, "b", 20), 20, "cells of another version are other cells");
    assert_eq!(decoded(&cache, "a", 20), 0);
    // Without being flushed, what is in memory alone is lost, and what is on disk stays.
    drop(cache);
    let cache = open(8 << 20, folder.path(), 4 << 20);
    assert_eq!((decoded(&cache, "a", 20), decoded(&cache, "b", 20)), (0, 20));
    cache.flush();
    assert_eq!(cache.invalidate_version(&cell("a", 0, 0).column.version), 20);
    drop(cache);
    let cache = open(8 << 20, folder.path(), 4 << 20);
    assert_eq!((decoded(&cache, "a", 20), decoded(&cache, "b", 20)), (20, 0), "invalidated on disk too");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// Changes a file in a folder, and asks for all cells of a new cache on it: those that are lost are decoded, and nothing else happens.
fn after(change: impl Fn(&Path), expected_decoded: impl Fn(usize) -> bool) {
    let folder = tempfile::tempdir().unwrap();
    fill_folder(folder.path(), "a", 20);
    change(folder.path());
    for is_again in [false, true] {
        let cache = open(8 << 20, folder.path(), 4 << 20);
        let count = decoded(&cache, "a", 20);
        assert!(if is_again { count == 0 } else { expected_decoded(count) }, "{count} were decoded");
        assert!(folder_bytes(folder.path()) <= 4 << 20);
        cache.flush();
    }
}

#[test]
fn an_index_that_is_lost_cut_or_damaged_costs_cells_and_nothing_else() {
    let all = |count| count == 20;
    after(|folder| fs::remove_file(folder.join(INDEX)).unwrap(), all);
    after(|folder| fs::write(folder.join(INDEX), "").unwrap(), all);
    for place in [0, 8, 9, 30, 200, 420] {
        let damage = |folder: &Path| {
            let mut bytes = fs::read(folder.join(INDEX)).unwrap();
            bytes[place] ^= 0x40;
            fs::write(folder.join(INDEX), bytes).unwrap();
        };
        after(damage, all);
        after(
            |folder| {
                fs::OpenOptions::new().write(true).open(folder.join(INDEX)).unwrap().set_len(place as u64).unwrap()
            },
            all,
        );
    }
    after(|folder| fs::write(folder.join("entasis-cache.index.tmp"), "half").unwrap(), |count| count == 0);
}

#[test]
fn cells_that_are_lost_cut_or_damaged_are_decoded_again() {
    let path = |folder: &Path| folder.join(CELLS);
    after(|folder| fs::remove_file(path(folder)).unwrap(), |count| count == 20);
    after(|folder| fs::write(path(folder), "other").unwrap(), |count| count == 20);
    let cut = |folder: &Path| {
        let file = fs::OpenOptions::new().write(true).open(path(folder)).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    };
    after(cut, |count| (8..=12).contains(&count));
    let mut random = Random(5);
    for _ in 0..10 {
        let place = random.below(1 << 20);
        let damage = |folder: &Path| {
            let mut bytes = fs::read(path(folder)).unwrap();
            let place = 4_096 + place % (bytes.len() - 4_096);
            bytes[place] ^= 0x80;
            fs::write(path(folder), bytes).unwrap();
        };
        // What lies between blocks is nobody's.
        after(damage, |count| count <= 1);
    }
    // The whole of another folder's file, of the same size and shape.
    let other = tempfile::tempdir().unwrap();
    fill_folder(other.path(), "b", 20);
    let copy = |folder: &Path| {
        fs::copy(path(other.path()), path(folder)).unwrap();
    };
    after(copy, |count| count == 20);
}

#[test]
fn an_index_that_is_older_than_the_cells_takes_none_for_another() {
    let folder = tempfile::tempdir().unwrap();
    fill_folder(folder.path(), "a", 20);
    let older = fs::read(folder.path().join(INDEX)).unwrap();
    {
        let cache = open(8 << 20, folder.path(), 4 << 20);
        cache.invalidate_version(&cell("a", 0, 0).column.version);
        // On the pages of the others.
        assert_eq!(decoded(&cache, "b", 10), 10);
        cache.flush();
    }
    fs::write(folder.path().join(INDEX), older).unwrap();
    let cache = open(8 << 20, folder.path(), 4 << 20);
    assert_eq!(cache.statistics().disk_cells, 20);
    assert_eq!((decoded(&cache, "a", 20), cache.statistics().disk_damaged), (10, 10));
    assert_eq!(decoded(&cache, "b", 10), 10);
}

#[test]
fn damages_under_a_running_cache_are_found_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    fill_folder(folder.path(), "a", 20);
    let cache = open(8 << 20, folder.path(), 4 << 20);
    let mut bytes = fs::read(folder.path().join(CELLS)).unwrap();
    bytes[4_096..].fill(0xEE);
    fs::write(folder.path().join(CELLS), bytes).unwrap();
    assert!(cache.get(&cell("a", 0, 3)).is_none());
    assert!(matches!(cache.lookup(&cell("a", 0, 4)), Lookup::Miss(_)));
    assert_eq!(decoded(&cache, "a", 20), 20);
    let statistics = cache.statistics();
    assert_eq!((statistics.disk_damaged, statistics.disk_cells, statistics.disk_used_bytes), (20, 0, 0));
    assert_eq!(statistics.misses, statistics.filled + statistics.abandoned);
    assert_eq!(statistics.filling_cells, 0);
}

#[test]
fn files_and_folders_may_vanish_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    let cache = open(200 << 10, &inner, 4 << 20);
    for round in 0..4 {
        match round {
            0 => {}
            1 => fs::remove_file(inner.join(CELLS)).unwrap(),
            2 => fs::remove_dir_all(&inner).unwrap(),
            _ => {
                fs::remove_dir_all(folder.path().join("a")).unwrap();
                // Where it was is something that is no folder.
                fs::write(folder.path().join("a"), "a file").unwrap();
            }
        }
        for piece in 0..60 {
            ask(&cache, &cell("a", round, piece));
            while cache.write_one() {}
        }
        cache.flush();
        let statistics = cache.statistics();
        if round < 3 {
            assert!(statistics.disk_cells > 0 && inner.join(INDEX).exists(), "round {round}: {statistics:?}");
            assert!(folder_bytes(&inner) <= 4 << 20);
        } else {
            assert!(statistics.disk_cells == 0 && statistics.disk_errors > 0);
        }
    }
}

#[test]
fn the_limit_holds_at_every_moment() {
    let (folder, limit_bytes) = (tempfile::tempdir().unwrap(), 300 << 10);
    for policy in PolicyKind::ALL {
        let disk = Some(DiskOptions { policy, ..DiskOptions::new(folder.path(), limit_bytes) });
        let cache = Cache::new(CacheOptions { disk, policy, transcoders: 1, ..options(256 << 10) }).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    let size_bytes = folder_bytes(folder.path());
                    assert!(size_bytes <= limit_bytes, "{size_bytes}");
                }
            });
            let mut random = Random(3);
            for step in 0..900 {
                ask(&cache, &cell("a", random.below(4), random.below(60)));
                cache.write_one();
                if step % 150 == 0 {
                    cache.flush();
                }
                let statistics = cache.statistics();
                assert!(statistics.disk_file_bytes <= limit_bytes && statistics.used_bytes <= statistics.budget_bytes);
            }
            cache.flush();
            is_over.store(true, Ordering::SeqCst);
        });
        let statistics = cache.statistics();
        assert!(statistics.disk_evicted > 10 && statistics.disk_hits > 10, "{policy}: {statistics:?}");
        assert_eq!((statistics.disk_damaged, statistics.disk_errors), (0, 0), "{policy}");
        drop(cache);
        // A lower limit holds from the beginning.
        let lower = open(1 << 20, folder.path(), 100 << 10);
        assert!(folder_bytes(folder.path()) <= 100 << 10);
        assert!(lower.statistics().disk_cells > 0, "some of it is still there");
        drop(lower);
        fs::remove_dir_all(folder.path()).unwrap();
    }
}

#[test]
fn cells_that_are_larger_than_the_disk_stay_out() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(8 << 20, folder.path(), 64 << 10);
    let id = cell("a", 0, 0);
    let mut random = Random(1);
    let numbers = (0..60_000).map(|_| random.below(1 << 30) as i64);
    cache.get_or_decode(&id, || Ok::<_, Error>(Arc::new(Int64Array::from_iter_values(numbers)) as ArrayRef)).unwrap();
    cache.transcode_one();
    assert_eq!(cache.get(&id).unwrap().state(), State::Encoded);
    cache.flush();
    let statistics = cache.statistics();
    assert_eq!((statistics.disk_cells, statistics.disk_used_bytes, statistics.disk_errors), (0, 0, 0));
    let error = Cache::new(with_disk(1 << 20, &folder.path().join("b"), 1_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

/// Runs a test of this binary in another process, in which `ENTASIS_CACHE_FOLDER` is set, by `shell`, which has `"$@"` in it. Returns what
/// it says.
fn in_another_process(test: &str, folder: &Path, shell: &str) -> String {
    let output = Command::new("sh")
        .args(["-c", shell, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("ENTASIS_CACHE_FOLDER", folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    said
}

/// The folder that another process runs this test for.
fn given_folder() -> Option<std::path::PathBuf> {
    std::env::var_os("ENTASIS_CACHE_FOLDER").map(Into::into)
}

#[test]
fn a_folder_is_one_cache_s_at_a_time() {
    if let Some(folder) = given_folder() {
        match Cache::new(with_disk(1 << 20, &folder, 4 << 20)) {
            Ok(cache) => println!("opened {}", decoded(&cache, "a", 20)),
            Err(error) => println!("refused {:?}: {error}", error.kind()),
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fill_folder(folder.path(), "a", 20);
    let cache = open(8 << 20, folder.path(), 4 << 20);
    let other = || in_another_process("a_folder_is_one_cache_s_at_a_time", folder.path(), "exec \"$@\"");
    let said = other();
    assert!(said.contains("refused WouldBlock") && said.contains("is in use by another process"), "{said}");
    let error = Cache::new(with_disk(1 << 20, folder.path(), 4 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "nor another cache of the same process");
    assert_eq!(decoded(&cache, "a", 20), 0, "the first isn't disturbed");
    drop(cache);
    assert!(other().contains("opened 0"));
}

#[test]
fn a_system_that_refuses_to_write_costs_no_query_anything() {
    if let Some(folder) = given_folder() {
        let cache = open(200 << 10, &folder, 4 << 20);
        for round in 0..3 {
            for piece in 0..80 {
                ask(&cache, &cell("a", round, piece));
                while cache.write_one() {}
            }
        }
        cache.flush();
        let statistics = cache.statistics();
        println!("{} written, {} errors", statistics.written > 0, statistics.disk_errors > 10);
        assert_eq!(statistics.disk_damaged, 0);
        return;
    }
    // Files may have 64 KiB, as on a disk that is full: the signal is ignored, writing fails.
    let folder = tempfile::tempdir().unwrap();
    let name = "a_system_that_refuses_to_write_costs_no_query_anything";
    let said = in_another_process(name, folder.path(), "trap '' XFSZ; ulimit -f 128; exec \"$@\"");
    assert!(said.contains("true written, true errors"), "{said}");
}

#[test]
fn names_on_disk_are_memory() {
    let folder = tempfile::tempdir().unwrap();
    let memory_bytes = 256 << 10;
    let cache = open(memory_bytes, folder.path(), 8 << 20);
    for piece in 0..400 {
        ask(&cache, &cell("a", 0, piece));
        while cache.write_one() {}
        let statistics = cache.statistics();
        assert!(statistics.used_bytes <= statistics.budget_bytes);
        assert!(statistics.disk_names_bytes <= memory_bytes / 16);
    }
    let statistics = cache.statistics();
    assert_eq!(statistics.disk_cells as u64, memory_bytes / 16 / DISK_CELL_OVERHEAD_BYTES);
    drop(cache);
    let less = open(memory_bytes / 4, folder.path(), 8 << 20).statistics();
    assert_eq!(less.disk_cells, statistics.disk_cells / 4, "as many as there is memory for");
}

#[test]
fn prewarming_reads_from_disk_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    fill_folder(folder.path(), "a", 5);
    let cache = open(8 << 20, folder.path(), 4 << 20);
    let ids: Vec<CellId> = (0..8).map(|piece| cell("a", 0, piece)).collect();
    let mut decoded = Vec::new();
    let came_in = cache.prewarm(&ids, |id| {
        decoded.push(id.piece);
        Ok::<_, Error>(values(id))
    });
    assert_eq!((came_in.unwrap(), decoded), (8, vec![5, 6, 7]));
    assert_eq!((cache.statistics().disk_hits, cache.statistics().encoded_cells), (5, 5));
}

#[test]
fn parquet_that_was_read_before_a_restart_is_not_decoded_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    block_on(store.put(&"t.parquet".into(), file(3, 5_000).into())).unwrap();
    let query = |cache: &Cache| {
        block_on(async {
            let file = ParquetFile::open(cache, store.clone(), "x://", &"t.parquet".into()).await?;
            let mut rows = file.read(&ParquetRequest::default())?;
            let mut batches = Vec::new();
            while let Some(batch) = rows.next().await? {
                batches.push(batch);
            }
            Ok::<_, Error>((batches, rows.metrics()))
        })
        .unwrap()
    };
    let cold = {
        let cache = open(8 << 20, folder.path(), 4 << 20);
        let cold = query(&cache);
        while cache.transcode_one() {}
        cache.flush();
        cold
    };
    let warm = query(&open(8 << 20, folder.path(), 4 << 20));
    assert_eq!(cold.0, warm.0);
    assert_eq!((cold.1.cells_decoded, warm.1.cells_decoded, warm.1.cells_found), (10, 0, 10));
}
