//! Objects that change under a warm cache: a query that starts after an overwrite sees the new object, and no query ever sees rows of two.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use arrow_array::{cast::AsArray, types::Int64Type};
use common::flaky::Flaky;
use common::{Random, file, options};
use entasis::scan::Condition;
use entasis_cache::read::{ParquetFile, ParquetRequest, ParquetRows};
use entasis_cache::{Cache, CacheOptions, Error, Result};
use entasis_encoding::{Comparison, FloatOrder, Predicate, Scalar};
use futures::executor::block_on;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

fn put(store: &Arc<dyn ObjectStore>, path: &str, generation: i64, rows: usize) {
    block_on(store.put(&Path::from(path), file(generation, rows).into())).unwrap();
}

async fn open(cache: &Cache, store: &Arc<dyn ObjectStore>, url: &str, path: &str) -> Result<ParquetFile> {
    ParquetFile::open(cache, store.clone(), url, &Path::from(path)).await
}

/// The generation of all rows, which must be one, and how many there are.
async fn drain(mut rows: ParquetRows) -> Result<(Option<i64>, usize)> {
    let (mut generation, mut count) = (None, 0);
    while let Some(batch) = rows.next().await? {
        for row in 0..batch.num_rows() {
            let of_number = batch.column(0).as_primitive::<Int64Type>().value(row) / 100;
            let text = batch.column(1).as_string::<i32>().value(row);
            assert_eq!(text.split('.').next().unwrap(), of_number.to_string(), "a row of two versions");
            assert_eq!(*generation.get_or_insert(of_number), of_number, "rows of two versions");
        }
        count += batch.num_rows();
    }
    Ok((generation, count))
}

fn query(cache: &Cache, store: &Arc<dyn ObjectStore>, url: &str, path: &str) -> Result<(Option<i64>, usize)> {
    block_on(async { drain(open(cache, store, url, path).await?.read(&ParquetRequest::default())?).await })
}

/// Both kinds of store: one with counted ETags, one of files. The folder lives as long as its store is used.
fn stores() -> (tempfile::TempDir, [Arc<dyn ObjectStore>; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let local = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    (folder, [Arc::new(InMemory::new()), Arc::new(local)])
}

#[test]
fn what_was_overwritten_shortened_or_deleted_is_never_answered_from_the_cache() {
    let (_folder, stores) = stores();
    for store in &stores {
        let cache = Cache::new(options(64 << 20)).unwrap();
        put(store, "t.parquet", 1, 5_000);
        for _ in 0..2 {
            assert_eq!(query(&cache, store, "x://", "t.parquet").unwrap(), (Some(1), 5_000));
            while cache.transcode_one() {}
        }
        put(store, "t.parquet", 2, 5_000);
        assert_eq!(query(&cache, store, "x://", "t.parquet").unwrap(), (Some(2), 5_000), "overwritten");
        put(store, "t.parquet", 3, 100);
        assert_eq!(query(&cache, store, "x://", "t.parquet").unwrap(), (Some(3), 100), "shortened");
        put(store, "t.parquet", 4, 0);
        assert_eq!(query(&cache, store, "x://", "t.parquet").unwrap(), (None, 0), "emptied");
        block_on(store.delete(&Path::from("t.parquet"))).unwrap();
        let deleted = query(&cache, store, "x://", "t.parquet").unwrap_err();
        assert!(matches!(deleted, Error::Store(object_store::Error::NotFound { .. })), "{deleted}");
        block_on(store.put(&Path::from("t.parquet"), b"no Parquet at all".to_vec().into())).unwrap();
        assert!(matches!(query(&cache, store, "x://", "t.parquet").unwrap_err(), Error::Damaged { .. }));
    }
}

#[test]
fn versions_that_can_t_be_told_apart_are_refused() {
    let store: Arc<dyn ObjectStore> = Arc::new(Flaky::mute(InMemory::new()));
    let cache = Cache::new(options(64 << 20)).unwrap();
    put(&store, "t.parquet", 1, 5_000);
    let error = query(&cache, &store, "x://", "t.parquet").unwrap_err();
    assert_eq!(error.kind(), entasis::ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("x:/t.parquet: caching what has neither an ETag nor a time"), "{error}");
}

#[test]
fn a_query_over_which_its_object_changes_fails() {
    let (_folder, stores) = stores();
    for store in &stores {
        for is_deleted in [false, true] {
            let cache = Cache::new(options(64 << 20)).unwrap();
            put(store, "t.parquet", 1, 5_000);
            let opened = block_on(open(&cache, store, "x://", "t.parquet")).unwrap();
            let mut rows = opened.read(&ParquetRequest::default()).unwrap();
            assert_eq!(block_on(rows.next()).unwrap().unwrap().num_rows(), 1_000);
            match is_deleted {
                false => put(store, "t.parquet", 2, 5_000),
                true => block_on(store.delete(&Path::from("t.parquet"))).unwrap(),
            }
            let error = block_on(drain(rows)).unwrap_err();
            assert!(matches!(&error, Error::Changed(version) if version == opened.version()), "{error}");
            assert_eq!(cache.statistics().filling_cells, 0, "nobody waits for it");
            // What was read before is of the old version, and only found under it.
            let again = opened.read(&ParquetRequest::default()).unwrap();
            assert!(block_on(drain(again)).is_err());
            assert_eq!(cache.invalidate_version(opened.version()), 2);
        }
    }
}

#[test]
fn objects_that_swap_their_folders_are_not_mixed_up() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let stores = folders
        .each_ref()
        .map(|folder| Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap()) as Arc<dyn ObjectStore>);
    let cache = Cache::new(options(64 << 20)).unwrap();
    for (generation, store) in (1..).zip(&stores) {
        put(store, "t.parquet", generation, 3_000);
    }
    let both = || [0, 1].map(|place| query(&cache, &stores[place], ["a://", "b://"][place], "t.parquet").unwrap().0);
    assert_eq!(both(), [Some(1), Some(2)]);
    let paths = folders.each_ref().map(|folder| folder.path().join("t.parquet"));
    let aside = folders[0].path().join("aside");
    fs::rename(&paths[0], &aside).unwrap();
    fs::rename(&paths[1], &paths[0]).unwrap();
    fs::rename(&aside, &paths[1]).unwrap();
    assert_eq!(both(), [Some(2), Some(1)]);
    // In memory ETags count from 0: those of two stores are alike.
    let memories: [Arc<dyn ObjectStore>; 2] = [Arc::new(InMemory::new()), Arc::new(InMemory::new())];
    for (generation, store) in (5..).zip(&memories) {
        put(store, "t.parquet", generation, 3_000);
    }
    let of = |place: usize, url: &str| query(&cache, &memories[place], url, "t.parquet").unwrap().0;
    assert_eq!([of(0, "m://1"), of(1, "m://2")], [Some(5), Some(6)]);
}

/// Readers while a writer overwrites: what they see is whole, and not older than what was there when they began.
fn storm(store: &Arc<dyn ObjectStore>, write: impl Fn(i64, usize) + Sync) {
    let cache = Cache::new(CacheOptions { transcoders: 1, ..options(1 << 20) }).unwrap();
    let (written, is_over) = (AtomicI64::new(1), AtomicBool::new(false));
    let (answers, refusals) = (AtomicI64::new(0), AtomicI64::new(0));
    write(1, 4_000);
    thread::scope(|scope| {
        for reader in 0..3 {
            let (cache, written, is_over, answers, refusals) = (&cache, &written, &is_over, &answers, &refusals);
            scope.spawn(move || {
                let mut random = Random(reader);
                while !is_over.load(Ordering::SeqCst) {
                    let begun = written.load(Ordering::SeqCst);
                    let predicate = Predicate::Compare(
                        Comparison::NotEqual,
                        Scalar::Int(random.below(7) as i128),
                        FloatOrder::default(),
                    );
                    let condition = Condition::column(0, predicate);
                    let request = ParquetRequest { condition, ..ParquetRequest::default() };
                    let answer = block_on(async {
                        let rows = open(cache, store, "x://", "t.parquet").await?.read(&request)?;
                        drain(rows).await
                    });
                    match answer {
                        Ok((generation, _)) => {
                            assert!(generation.unwrap() >= begun, "stale");
                            answers.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(_) => {
                            refusals.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
            });
        }
        let mut random = Random(99);
        for generation in 2..60 {
            write(generation, 1_000 + random.below(4_000));
            written.store(generation, Ordering::SeqCst);
            thread::sleep(std::time::Duration::from_millis(random.below(8) as u64));
        }
        while answers.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(answers.load(Ordering::SeqCst) > 0);
    assert_eq!(cache.statistics().filling_cells, 0);
    let last = query(&cache, store, "x://", "t.parquet").unwrap();
    assert_eq!(last.0, Some(59));
}

#[test]
fn queries_among_overwrites_see_one_version_and_a_fresh_one() {
    let (folder, stores) = stores();
    for store in &stores {
        storm(store, |generation, rows| put(store, "t.parquet", generation, rows));
    }
    // Written in place, which stores don't do, and people do.
    let path = folder.path().join("t.parquet");
    storm(&stores[1], |generation, rows| fs::write(&path, file(generation, rows)).unwrap());
}
