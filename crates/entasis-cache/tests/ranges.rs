//! Ranges of objects through the cache: what the store would have said, of one version, and without asking it twice.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use common::flaky::Flaky;
use common::{Random, options};
use entasis::{AsyncReader, ReadRequest};
use entasis_cache::{Cache, CacheOptions, CachedObject, CachedStore, DiskOptions, RANGE_PAGE_BYTES, RANGES_LEAF};
use futures::executor::block_on;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};

/// Rows whose every value tells its generation: about 2 MB of blocks.
fn batch(generation: u64, rows: usize) -> RecordBatch {
    let mut random = Random(generation);
    let noise: Vec<usize> = (0..rows).map(|_| random.below(1 << 30)).collect();
    let numbers = noise.iter().map(|&noise| (generation << 32) as i64 + noise as i64);
    let texts = noise.iter().map(|noise| format!("{generation}.{noise:x}"));
    let columns: [(&str, ArrayRef); 2] =
        [("n", Arc::new(Int64Array::from_iter_values(numbers))), ("t", Arc::new(StringArray::from_iter_values(texts)))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn put(store: &dyn ObjectStore, path: &str, batch: &RecordBatch) {
    let mut writer = entasis::Writer::new(Vec::new(), batch.schema(), entasis::WriteOptions::default()).unwrap();
    writer.write(batch).unwrap();
    block_on(store.put(&Path::from(path), writer.finish().unwrap().0.into())).unwrap();
}

fn cached(cache: &Cache, store: &Arc<Flaky>, url: &str) -> Arc<dyn ObjectStore> {
    Arc::new(CachedStore::new(cache, store.clone(), url))
}

async fn open(store: &Arc<dyn ObjectStore>, path: &str) -> entasis::Result<AsyncReader> {
    AsyncReader::open(store.clone(), path.into()).await
}

async fn rows_of(reader: &AsyncReader) -> entasis::Result<RecordBatch> {
    let batches = reader.read(ReadRequest::default()).await?.collect().await?;
    Ok(arrow_select::concat::concat_batches(&batches[0].schema(), &batches).unwrap())
}

fn read(store: &Arc<dyn ObjectStore>, path: &str) -> entasis::Result<RecordBatch> {
    block_on(async { rows_of(&open(store, path).await?).await })
}

/// Both kinds of store. The folder lives as long as its store is used.
fn stores() -> (tempfile::TempDir, [Arc<Flaky>; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let local = LocalFileSystem::new_with_prefix(folder.path()).unwrap();
    (folder, [Arc::new(Flaky::new(InMemory::new(), 0)), Arc::new(Flaky::new(local, 0))])
}

#[test]
fn a_file_that_was_read_costs_one_request_that_asks_for_its_version() {
    let (_folder, stores) = stores();
    for store in stores {
        let cache = Cache::new(options(64 << 20)).unwrap();
        let rows = batch(1, 200_000);
        put(&*store, "t.ent", &rows);
        let through = cached(&cache, &store, "x://");
        assert_eq!(read(&through, "t.ent").unwrap(), rows);
        let cold = cache.statistics();
        let before = store.requests.load(Ordering::SeqCst);
        assert_eq!(read(&through, "t.ent").unwrap(), rows);
        assert_eq!(store.requests.load(Ordering::SeqCst) - before, 1);
        let warm = cache.statistics();
        assert_eq!((warm.misses, warm.filled), (cold.misses, cold.misses));
        assert!(warm.encoded_hits >= cold.encoded_hits + warm.misses && warm.misses >= 4, "{warm:?}");
        let columns = cache.columns();
        assert_eq!(columns.iter().map(|column| column.column.leaf).collect::<Vec<_>>(), [RANGES_LEAF]);
        assert_eq!(cache.invalidate_version(&columns[0].column.version) as u64, warm.misses);
    }
}

#[test]
fn of_a_version_that_is_known_only_what_lacks_is_asked_for() {
    let (_folder, stores) = stores();
    for store in stores {
        let cache = Cache::new(options(64 << 20)).unwrap();
        let rows = batch(1, 200_000);
        put(&*store, "t.ent", &rows);
        // As a store without ETags says it.
        for (round, has_tag) in [true, true, false].into_iter().enumerate() {
            let meta = block_on(store.head(&Path::from("t.ent"))).unwrap();
            let meta = ObjectMeta { e_tag: meta.e_tag.filter(|_| has_tag), ..meta };
            if !has_tag {
                let object = CachedObject::new(&cache, store.clone(), "x://", meta);
                assert!(block_on(object.range(0..9)).is_err(), "the store says that it is another version");
                continue;
            }
            let before = store.requests.load(Ordering::SeqCst);
            let object = Arc::new(CachedObject::new(&cache, store.clone(), "x://", meta));
            let found = block_on(async { rows_of(&AsyncReader::open_source(object.clone()).await?).await }).unwrap();
            assert_eq!(found, rows);
            assert_eq!(store.requests.load(Ordering::SeqCst) > before, round == 0);
            assert_eq!(cache.columns()[0].column.version, *object.version());
            for outside in [0..object.meta().size + 1, u64::MAX - 1..u64::MAX] {
                assert!(block_on(object.range(outside)).is_err());
            }
        }
    }
}

#[test]
fn what_was_overwritten_shortened_or_deleted_is_never_answered_from_the_cache() {
    let (_folder, stores) = stores();
    for store in stores {
        let cache = Cache::new(options(64 << 20)).unwrap();
        let through = cached(&cache, &store, "x://");
        put(&*store, "t.ent", &batch(1, 200_000));
        let opened = block_on(open(&through, "t.ent")).unwrap();
        for (generation, rows) in [(2, 200_000), (3, 1_000)] {
            put(&*store, "t.ent", &batch(generation, rows));
            assert!(block_on(rows_of(&opened)).is_err(), "who opened the old one sees no mixture");
            assert_eq!(read(&through, "t.ent").unwrap(), batch(generation, rows));
        }
        // All of a version that is cached stays readable for who opened it.
        let opened = block_on(open(&through, "t.ent")).unwrap();
        assert_eq!(block_on(rows_of(&opened)).unwrap(), batch(3, 1_000));
        block_on(store.delete(&Path::from("t.ent"))).unwrap();
        assert_eq!(block_on(rows_of(&opened)).unwrap(), batch(3, 1_000));
        assert!(read(&through, "t.ent").is_err(), "it is gone for who asks now");
    }
    let memories = [(); 2].map(|()| Arc::new(Flaky::new(InMemory::new(), 0)));
    let cache = Cache::new(options(64 << 20)).unwrap();
    for (generation, store) in (5..).zip(&memories) {
        put(&**store, "t.ent", &batch(generation, 500));
    }
    // In memory ETags count from 0: those of two stores are alike.
    for (generation, store) in (5..).zip(&memories) {
        let url = format!("memory://{generation}");
        assert_eq!(read(&cached(&cache, store, &url), "t.ent").unwrap(), batch(generation, 500));
    }
}

#[test]
fn what_has_neither_tag_nor_time_is_never_kept() {
    let store = Arc::new(Flaky::mute(InMemory::new()));
    let cache = Cache::new(options(64 << 20)).unwrap();
    let through = cached(&cache, &store, "x://");
    for text in ["old bytes", "new bytes"] {
        let path = Path::from("t");
        block_on(store.put(&path, text.into())).unwrap();
        assert_eq!(block_on(through.get_range(&path, 0..9)).unwrap(), text);
        let object = CachedObject::new(&cache, store.clone(), "x://", block_on(store.head(&path)).unwrap());
        assert_eq!(block_on(object.range(2..7)).unwrap(), text[2..7]);
        assert_eq!(block_on(object.range(4..4)).unwrap(), "");
        assert!(block_on(object.range(0..10)).is_err());
    }
    assert_eq!(cache.statistics().used_bytes, 0);
}

#[test]
fn ranges_are_those_of_the_store() {
    let (_folder, stores) = stores();
    for store in stores {
        let size_bytes = 3 * RANGE_PAGE_BYTES + 1_000;
        let bytes: Vec<u8> = (0..size_bytes).map(|at| ((at * 31) >> 3) as u8).collect();
        let path = Path::from("any");
        block_on(store.put(&path, bytes.clone().into())).unwrap();
        let cache = Cache::new(options(RANGE_PAGE_BYTES * 2 + 10_000)).unwrap();
        let through = cached(&cache, &store, "x://");
        let mut random = Random(1);
        for _ in 0..200 {
            let [start, length] =
                [random.below(size_bytes as usize + 10), random.below(600_000)].map(|number| number as u64);
            let range = match random.below(3) {
                0 => GetRange::Bounded(start..start + length),
                1 => GetRange::Offset(start),
                _ => GetRange::Suffix(length),
            };
            let get = async |store: &dyn ObjectStore| {
                let options = GetOptions { range: Some(range.clone()), ..GetOptions::default() };
                let result = store.get_opts(&path, options).await?;
                let (meta, range) = (result.meta.clone(), result.range.clone());
                Ok::<_, Error>((meta, range, result.bytes().await?))
            };
            match (block_on(get(&*store)), block_on(get(&*through))) {
                (Ok(direct), Ok(through)) => assert_eq!(direct, through, "{range:?}"),
                (direct, through) => assert!(direct.is_err() && through.is_err(), "{range:?}"),
            }
            let statistics = cache.statistics();
            assert!(statistics.used_bytes <= statistics.budget_bytes);
        }
        let ranges: [Range<u64>; 3] = [5..9, 200_000..600_000, size_bytes - 1..size_bytes];
        let found = block_on(through.get_ranges(&path, &ranges)).unwrap();
        for (range, found) in ranges.iter().zip(found) {
            assert_eq!(found, bytes[range.start as usize..range.end as usize]);
        }
        let wrong =
            GetOptions { if_match: Some("no".into()), range: Some(GetRange::Suffix(9)), ..GetOptions::default() };
        assert!(matches!(block_on(through.get_opts(&path, wrong)), Err(Error::Precondition { .. })));
        assert_eq!(block_on(block_on(through.get(&path)).unwrap().bytes()).unwrap(), bytes, "all of it is the store's");
        assert!(cache.statistics().evicted > 0);
    }
}

#[test]
fn pages_go_to_disk_and_are_there_after_a_restart() {
    let (_folder, [store, _]) = stores();
    let rows = batch(1, 200_000);
    put(&*store, "t.ent", &rows);
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let disk = Some(DiskOptions::new(folder.path(), 16 << 20));
        Cache::new(CacheOptions { disk, ..options(16 << 20) }).unwrap()
    };
    {
        let cache = open();
        assert_eq!(read(&cached(&cache, &store, "x://"), "t.ent").unwrap(), rows);
        cache.flush();
    }
    let before = store.requests.load(Ordering::SeqCst);
    let cache = open();
    assert_eq!(read(&cached(&cache, &store, "x://"), "t.ent").unwrap(), rows);
    assert_eq!(store.requests.load(Ordering::SeqCst) - before, 1, "for the version");
    assert!(cache.statistics().disk_hits >= 4 && cache.statistics().misses == 0);
}

#[test]
fn answers_of_a_store_that_fails_are_right_or_errors() {
    let store = Arc::new(Flaky::new(InMemory::new(), 5));
    let rows = batch(1, 100_000);
    put(&*store, "t.ent", &rows);
    let cache = Cache::new(options(3 * RANGE_PAGE_BYTES)).unwrap();
    let through = cached(&cache, &store, "x://");
    let counts = thread::scope(|scope| {
        let askers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let found = (0..12).filter_map(|_| read(&through, "t.ent").ok());
                    found.inspect(|found| assert_eq!(found, &rows)).count()
                })
            })
            .collect();
        askers.into_iter().map(|asker| asker.join().unwrap()).sum::<usize>()
    });
    assert!(counts > 3 && counts < 48, "{counts} answers");
    let statistics = cache.statistics();
    assert_eq!((statistics.filling_cells, statistics.misses), (0, statistics.filled + statistics.abandoned));
}
