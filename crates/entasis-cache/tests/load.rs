//! Everything at once: sixteen threads of queries over stores that fail, objects that are overwritten, shortened, deleted and swapped, a disk that
//! somebody damages, queries that are cancelled. `ENTASIS_LOAD_SECONDS` says for how long: 15 unless it does.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::fs;
use std::future::Future;
use std::path::Path as FilePath;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray, types::Int64Type};
use common::Random;
use common::flaky::Flaky;
use entasis::scan::Condition;
use entasis_cache::read::{ParquetFile, ParquetRequest};
use entasis_cache::{Cache, CacheOptions, DiskOptions, Error, Result};
use entasis_encoding::{Like, Predicate};
use futures::executor::block_on;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

const ASKERS: u64 = 16;
const MEMORY_BYTES: u64 = 640 << 10;
const DISK_BYTES: u64 = 1 << 20;

/// What may be resident beside the budget.
const SLACK_BYTES: u64 = 256 << 20;

/// A Parquet file of row groups of 4,000 rows, whose every value tells its generation, and which blocks hold in a third of what arrays take.
fn file(generation: i64, rows: usize) -> Vec<u8> {
    let mut random = Random(generation as u64);
    let noise: Vec<usize> = (0..rows).map(|_| random.below(1 << 20)).collect();
    let numbers = Int64Array::from_iter_values(noise.iter().map(|&noise| generation << 20 | noise as i64));
    let text = |(row, noise): (usize, &usize)| format!("{generation}.{noise}.{}", row % 5);
    let texts = StringArray::from_iter_values(noise.iter().enumerate().map(text));
    let columns: [(&str, ArrayRef); 2] = [("n", Arc::new(numbers)), ("t", Arc::new(texts))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(4_000)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// What an object was at some time: its generation and rows, unless it wasn't there.
type Content = Option<(i64, usize)>;

/// An object, and all that it ever was.
struct Subject {
    store: Arc<dyn ObjectStore>,
    url: &'static str,
    path: Path,
    past: Mutex<Past>,
}

#[derive(Default)]
struct Past {
    contents: Vec<Content>,
    /// Changes that are complete: all but the last, while one is under way.
    complete: usize,
}

impl Subject {
    fn new(store: &Arc<dyn ObjectStore>, url: &'static str, path: &str) -> Self {
        Self { store: store.clone(), url, path: path.into(), past: Mutex::default() }
    }

    /// Announces what it becomes, before it does.
    fn announce(&self, content: Content) {
        self.past.lock().unwrap().contents.push(content);
    }

    fn has_changed(&self) {
        let mut past = self.past.lock().unwrap();
        past.complete = past.contents.len();
    }

    fn complete(&self) -> usize {
        self.past.lock().unwrap().complete
    }

    fn write(&self, generation: i64, rows: usize) {
        self.announce(Some((generation, rows)));
        while block_on(self.store.put(&self.path, file(generation, rows).into())).is_err() {}
        self.has_changed();
    }

    fn delete(&self) {
        self.announce(None);
        let _ = block_on(self.store.delete(&self.path));
        self.has_changed();
    }
}

/// What a query saw: the generation of all rows, and how many of them.
async fn query(cache: &Cache, subject: &Subject, digit: Option<usize>) -> Result<(Option<i64>, usize)> {
    let opened = ParquetFile::open(cache, subject.store.clone(), subject.url, &subject.path).await?;
    let like = |digit| Like { pattern: format!("%.{digit}").into_bytes(), escape: None, negated: false };
    let all = Condition::Always(true);
    let condition = digit.map_or(all, |digit| Condition::column(1, Predicate::Like(like(digit))));
    let mut rows = opened.read(&ParquetRequest { condition, ..ParquetRequest::default() })?;
    let (mut generation, mut count) = (None, 0);
    while let Some(batch) = rows.next().await? {
        let (numbers, texts) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string::<i32>());
        for row in 0..batch.num_rows() {
            let of_number = numbers.value(row) >> 20;
            assert_eq!(texts.value(row).split('.').next().unwrap(), of_number.to_string(), "a row of two versions");
            assert_eq!(*generation.get_or_insert(of_number), of_number, "rows of two versions");
        }
        count += batch.num_rows();
    }
    Ok((generation, count))
}

/// Asserts that what a query saw was there at some time since it began.
fn check(subject: &Subject, before: usize, digit: Option<usize>, seen: (Option<i64>, usize)) {
    let expected = |&content: &Content| {
        let (generation, rows) = content?;
        let count = digit.map_or(rows, |digit| (0..rows).filter(|row| row % 5 == digit).count());
        Some(((count > 0).then_some(generation), count))
    };
    let past = subject.past.lock().unwrap();
    let since = &past.contents[before.saturating_sub(1)..];
    assert!(since.iter().any(|content| expected(content) == Some(seen)), "{seen:?} of {}, {since:?}", subject.url);
}

#[derive(Default)]
struct Counts {
    answers: AtomicU64,
    refusals: AtomicU64,
    cancelled: AtomicU64,
}

/// One thread of queries.
fn ask(cache: &Cache, subjects: &[Subject], counts: &Counts, is_over: &AtomicBool, progress: &AtomicU64, seed: u64) {
    let mut random = Random(seed);
    while !is_over.load(Ordering::SeqCst) {
        progress.fetch_add(1, Ordering::SeqCst);
        let subject = &subjects[random.below(subjects.len())];
        let digit = (random.below(3) > 0).then(|| random.below(5));
        let before = subject.complete();
        let mut running = pin!(query(cache, subject, digit));
        if random.below(4) == 0 {
            let mut context = Context::from_waker(Waker::noop());
            let polls = random.below(40);
            let _ = (0..polls).find(|_| running.as_mut().poll(&mut context).is_ready());
            counts.cancelled.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        match block_on(running) {
            Ok(seen) => {
                check(subject, before, digit, seen);
                counts.answers.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => {
                let is_clear = matches!(&error, Error::Changed(_) | Error::Damaged { .. } | Error::Store(_));
                assert!(is_clear, "{error:?}");
                counts.refusals.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// Changes objects one after the other. The last two lie in two folders, and are swapped.
fn change(subjects: &[Subject], folders: [&FilePath; 2], is_over: &AtomicBool) {
    let (mut random, mut generation) = (Random(77), 100);
    let (swapped, others) = (&subjects[subjects.len() - 2..], &subjects[..subjects.len() - 2]);
    while !is_over.load(Ordering::SeqCst) {
        generation += 1;
        match random.below(12) {
            0 => swap(swapped, folders),
            1 => others[random.below(others.len())].delete(),
            2 => swapped[random.below(2)].write(generation, 9_000),
            3 => others[random.below(others.len())].write(generation, random.below(300)),
            _ => others[random.below(others.len())].write(generation, 1_000 + random.below(12_000)),
        }
        thread::sleep(Duration::from_millis(random.below(200) as u64));
    }
}

fn swap(subjects: &[Subject], folders: [&FilePath; 2]) {
    let contents = [0, 1].map(|number: usize| *subjects[number].past.lock().unwrap().contents.last().unwrap());
    // Between the renames one is gone, and another is there twice.
    let [first, second] = folders.map(|folder| folder.join("t.parquet"));
    let aside = folders[0].join("aside");
    for (subject, to) in [(0, None), (0, contents[1]), (1, None), (1, contents[0])] {
        subjects[subject].announce(to);
    }
    fs::rename(&first, &aside).unwrap();
    fs::rename(&second, &first).unwrap();
    fs::rename(&aside, &second).unwrap();
    subjects.iter().for_each(Subject::has_changed);
}

/// Damages what is on disk, now and then; seldom removes it.
fn damage(folder: &FilePath, is_over: &AtomicBool) {
    let mut random = Random(5);
    while !is_over.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(30));
        let cells = folder.join("entasis-cache.cells");
        match random.below(40) {
            0 => drop(fs::remove_file(cells)),
            1 => drop(fs::remove_dir_all(folder)),
            2 => drop(fs::OpenOptions::new().write(true).open(cells).and_then(|file| file.set_len(100_000))),
            _ => {
                use std::os::unix::fs::FileExt;
                let Ok(file) = fs::OpenOptions::new().write(true).open(cells) else { continue };
                let place = 4_096 + random.below(DISK_BYTES as usize - 8_192) as u64;
                // Not beyond its end: that would be this test's own bytes over the limit.
                if file.metadata().is_ok_and(|found| found.len() > place + 64) {
                    let _ = file.write_at(&[0xA5; 64], place);
                }
            }
        }
    }
}

/// Resident bytes of this process, where the system tells.
fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    Some(pages * 4_096)
}

fn folder_bytes(folder: &FilePath) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// Looks at what must hold at any moment.
fn watch(cache: &Cache, folder: &FilePath, baseline: Option<u64>, progress: &[AtomicU64], deadline: Instant) {
    let mut seen = vec![(0, Instant::now()); progress.len()];
    while Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
        let statistics = cache.statistics();
        assert!(statistics.used_bytes <= MEMORY_BYTES, "{statistics:?}");
        assert!(folder_bytes(folder) <= DISK_BYTES, "{} bytes on disk", folder_bytes(folder));
        if let (Some(baseline), Some(resident)) = (baseline, resident_bytes()) {
            assert!(resident <= baseline + MEMORY_BYTES + SLACK_BYTES, "{resident} resident, {baseline} before");
        }
        for (seen, progress) in seen.iter_mut().zip(progress) {
            let now = progress.load(Ordering::SeqCst);
            if now != seen.0 {
                *seen = (now, Instant::now());
            }
            assert!(seen.1.elapsed() < Duration::from_secs(60), "a query hangs");
        }
    }
}

fn subjects(folders: &[tempfile::TempDir; 2]) -> Vec<Subject> {
    let flaky: Arc<dyn ObjectStore> = Arc::new(Flaky::new(InMemory::new(), 3));
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let [first, second] = folders.each_ref().map(|folder| {
        Arc::new(Flaky::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap(), 1)) as Arc<dyn ObjectStore>
    });
    let mut subjects = vec![
        Subject::new(&flaky, "flaky://", "t.parquet"),
        Subject::new(&flaky, "flaky://", "u.parquet"),
        Subject::new(&memory, "memory://", "t.parquet"),
        Subject::new(&memory, "memory://", "a/t.parquet"),
        Subject::new(&first, "file://first", "u.parquet"),
        Subject::new(&second, "file://second", "u.parquet"),
    ];
    subjects.push(Subject::new(&first, "file://first", "t.parquet"));
    subjects.push(Subject::new(&second, "file://second", "t.parquet"));
    (1..).zip(&subjects).for_each(|(generation, subject)| subject.write(generation, 12_000));
    subjects
}

#[test]
fn answers_are_right_and_bounds_hold_under_load() {
    let seconds = std::env::var("ENTASIS_LOAD_SECONDS").ok().map_or(15, |seconds| seconds.parse().unwrap());
    let (folders, disk) = ([(); 2].map(|()| tempfile::tempdir().unwrap()), tempfile::tempdir().unwrap());
    let folder = disk.path().join("cache");
    let subjects = subjects(&folders);
    let paths = folders.each_ref().map(|folder| folder.path());
    let baseline = resident_bytes();
    let options = CacheOptions {
        memory_bytes: MEMORY_BYTES,
        transcoders: 2,
        cores: 20,
        disk: Some(DiskOptions::new(&folder, DISK_BYTES)),
        ..CacheOptions::default()
    };
    let cache = Cache::new(options).unwrap();
    let (counts, is_over) = (Counts::default(), AtomicBool::new(false));
    let progress: Vec<AtomicU64> = (0..ASKERS).map(|_| AtomicU64::new(0)).collect();
    let deadline = Instant::now() + Duration::from_secs(seconds);
    thread::scope(|scope| {
        for (seed, progress) in (0..).zip(&progress) {
            let (cache, subjects, counts, is_over) = (&cache, &subjects, &counts, &is_over);
            scope.spawn(move || ask(cache, subjects, counts, is_over, progress, seed));
        }
        scope.spawn(|| change(&subjects, paths, &is_over));
        scope.spawn(|| damage(&folder, &is_over));
        // Whatever it finds, the others end.
        let watched = scope.spawn(|| watch(&cache, &folder, baseline, &progress, deadline)).join();
        is_over.store(true, Ordering::SeqCst);
        watched.unwrap();
    });
    let statistics = cache.statistics();
    assert_eq!((statistics.filling_cells, statistics.pinned_bytes), (0, 0), "{statistics:?}");
    assert_eq!(statistics.misses, statistics.filled + statistics.abandoned);
    let [answers, refusals, cancelled] = [counts.answers, counts.refusals, counts.cancelled].map(AtomicU64::into_inner);
    println!("{answers} answers, {refusals} refusals, {cancelled} cancelled: {statistics:?}");
    assert!(answers > 100 && refusals > 10 && cancelled > 10, "{answers}, {refusals}, {cancelled}");
    assert!(statistics.evicted > 0 && statistics.transcoded > 0 && statistics.disk_hits > 0, "{statistics:?}");
    assert!(statistics.disk_damaged > 0 && statistics.disk_errors > 0, "{statistics:?}");
    drop(cache);
    if let (Some(baseline), Some(resident)) = (baseline, resident_bytes()) {
        println!("{baseline} bytes resident before, {resident} after");
        assert!(resident <= baseline + (64 << 20), "{resident} bytes resident, {baseline} before");
    }
}
