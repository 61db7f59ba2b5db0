//! `.ent` files of stores that aren't this machine's disk, behind the cache: what they give without it, for the same requests the first time, and for
//! those that ask which version there is from then on.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use async_trait::async_trait;
use datafusion::{
    execution::runtime_env::RuntimeEnvBuilder,
    object_store::{
        CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
        PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, memory::InMemory, path::Path as StorePath,
    },
    physical_plan::execute_stream,
    prelude::{SessionConfig, SessionContext},
};
use entasis::WriteOptions;
use entasis_cache::{Cache, CacheOptions, DiskOptions, RANGES_LEAF};
use futures::{StreamExt, stream::BoxStream};
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};

use common::*;

/// Requests of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Requests {
    heads: usize,
    lists: usize,
    gets: usize,
    get_bytes: u64,
}

/// A store that counts, answers late, and may lack what others have.
#[derive(Debug, Default)]
struct Store {
    inner: InMemory,
    has_no_tags: AtomicBool,
    /// Its clock stands still.
    has_no_clock: AtomicBool,
    /// It sends no times, which is 1970 to who asks.
    tells_no_time: AtomicBool,
    requests: Mutex<Requests>,
}

impl Store {
    fn take(&self) -> Requests {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }

    fn told(&self, meta: ObjectMeta) -> ObjectMeta {
        let e_tag = meta.e_tag.filter(|_| !self.has_no_tags.load(SeqCst));
        let last_modified = match (self.tells_no_time.load(SeqCst), self.has_no_clock.load(SeqCst)) {
            (true, _) => Default::default(),
            (_, true) => "2026-01-01T00:00:00Z".parse().unwrap(),
            _ => meta.last_modified,
        };
        ObjectMeta { e_tag, last_modified, ..meta }
    }

    fn note(&self, add: impl Fn(&mut Requests)) {
        add(&mut self.requests.lock().unwrap());
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store that counts")
    }
}

#[async_trait]
impl ObjectStore for Store {
    async fn get_opts(&self, location: &StorePath, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let mut found = self.inner.get_opts(location, options).await?;
        let bytes = found.range.end - found.range.start;
        self.note(|requests| match is_head {
            true => requests.heads += 1,
            false => (requests.gets, requests.get_bytes) = (requests.gets + 1, requests.get_bytes + bytes),
        });
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        found.meta = self.told(found.meta);
        Ok(found)
    }

    async fn put_opts(&self, at: &StorePath, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(at, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        at: &StorePath,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(at, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<StorePath>>) -> BoxStream<'static, Result<StorePath>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&StorePath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.note(|requests| requests.lists += 1);
        let same = |flag: &AtomicBool| flag.load(SeqCst).into();
        let (has_no_tags, has_no_clock) = (same(&self.has_no_tags), same(&self.has_no_clock));
        let like = Self { has_no_tags, has_no_clock, tells_no_time: same(&self.tells_no_time), ..Self::default() };
        self.inner.list(prefix).map(move |found| Ok(like.told(found?))).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&StorePath>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &StorePath, to: &StorePath, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

/// Rows whose every value tells its generation, as a file of several row groups, some hundred kilobytes a column.
fn file(generation: i64, ids: Range<i64>) -> Vec<u8> {
    let mixed = |id: i64| (id.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 20).rem_euclid(1_000_003);
    let columns: [(&str, ArrayRef); 4] = [
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("g", Arc::new(Int64Array::from_iter_values(ids.clone().map(|_| generation)))),
        ("n", Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| (generation << 32) + mixed(id))))),
        ("t", Arc::new(StringArray::from_iter_values(ids.map(|id| format!("{generation}.{:x}", mixed(id * 7)))))),
    ];
    ent(&RecordBatch::try_from_iter(columns).unwrap())
}

fn ent(batch: &RecordBatch) -> Vec<u8> {
    let options = WriteOptions { row_group_rows: 70_000, ..WriteOptions::default() };
    let mut writer = entasis::Writer::new(Vec::new(), batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap().0
}

async fn put(store: &Store, path: &str, bytes: Vec<u8>) {
    store.inner.put(&StorePath::from(path), PutPayload::from(bytes)).await.unwrap();
}

/// A file by itself, and a folder of two.
async fn store() -> Arc<Store> {
    let store = Arc::new(Store::default());
    put(&store, "t.ent", file(1, 0..200_000)).await;
    put(&store, "days/1.ent", file(1, 0..90_000)).await;
    put(&store, "days/2.ent", file(1, 90_000..150_000)).await;
    store
}

const TABLES: [(&str, &str); 2] = [("t", "t.ent"), ("days", "days/")];

async fn context(store: &Arc<Store>, bucket: &str, partitions: usize, cache: Option<&Cache>) -> SessionContext {
    let context = session(partitions);
    let url = format!("mem://{bucket}/");
    context.register_object_store(&url.parse().unwrap(), store.clone());
    if let Some(cache) = cache {
        entasis_datafusion::cache_tables(&context, cache);
    }
    for (table, path) in TABLES {
        text(&context, &format!("CREATE EXTERNAL TABLE {table} STORED AS ENTASIS LOCATION '{url}{path}'")).await;
    }
    context
}

fn cache(memory_bytes: u64) -> Cache {
    Cache::new(CacheOptions { memory_bytes, transcoders: 0, ..CacheOptions::default() }).unwrap()
}

const QUERIES: [&str; 9] = [
    "SELECT count(*), min(n), max(n), sum(id) FROM {}",
    "SELECT count(*), sum(n % 1000) FROM {} WHERE t LIKE '1.a%'",
    "SELECT id, t FROM {} WHERE id % 40009 = 77",
    "SELECT id, n FROM {} ORDER BY n DESC, id LIMIT 5",
    "SELECT * FROM {} WHERE id BETWEEN 69990 AND 70010",
    "SELECT count(DISTINCT t) FROM {}",
    "SELECT g, count(*), avg(n) FROM {} GROUP BY g",
    "SELECT count(*) FROM {} a JOIN {} b ON a.id = b.n % 1000 WHERE b.id < 700",
    "SELECT count(*) FROM t JOIN days USING (id) WHERE t.n <> days.n OR t.t = days.t",
];

fn queries() -> impl Iterator<Item = String> {
    let on = |query: &str| TABLES.map(|(table, _)| query.replace("{}", table));
    QUERIES.into_iter().flat_map(on)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn queries_give_what_they_give_without_the_cache() {
    let store = store().await;
    let plain = context(&store, "box", 2, None).await;
    let mut expected = Vec::new();
    for query in queries() {
        expected.push(sorted_rows(&plain, &query).await);
    }
    for (partitions, memory_bytes) in [(1, 1 << 30), (3, 1 << 30), (3, 600_000), (2, 0)] {
        let cache = cache(memory_bytes);
        let context = context(&store, "box", partitions, Some(&cache)).await;
        for round in 0..2 {
            for (query, expected) in queries().zip(&expected) {
                let found = sorted_rows(&context, &query).await;
                assert_eq!(&found, expected, "{query}, round {round}, {partitions} partitions, {memory_bytes} bytes");
                let statistics = cache.statistics();
                assert!(statistics.used_bytes <= memory_bytes && statistics.filling_cells == 0, "{statistics:?}");
            }
        }
        assert_eq!(cache.statistics().encoded_hits > 0, memory_bytes > 0);
        assert_eq!(cache.statistics().evicted > 0, memory_bytes == 600_000);
    }
}

#[tokio::test]
async fn the_first_time_costs_the_requests_that_it_costs_without_the_cache() {
    let store = store().await;
    for has_no_tags in [false, true] {
        store.has_no_tags.store(has_no_tags, SeqCst);
        for query in queries() {
            let mut taken = Vec::new();
            for cache in [None, Some(cache(1 << 30))] {
                store.take();
                let context = context(&store, "box", 1, cache.as_ref()).await;
                let opened = store.take();
                text(&context, &query).await;
                taken.push([opened, store.take()]);
            }
            let [plain, cached] = [&taken[0], &taken[1]];
            for (plain, cached) in plain.iter().zip(cached) {
                let asked = |requests: &Requests| (requests.heads, requests.lists);
                assert_eq!(asked(plain), asked(cached), "{query}");
                assert!(cached.gets <= plain.gets, "{query}: {cached:?}, {plain:?} without the cache");
            }
            // What is near to what was asked for came along, so that sometimes less is left to be asked for.
            assert!(plain[0].gets == cached[0].gets && cached[0].gets == 3, "{query}: the tails");
        }
    }
}

#[tokio::test]
async fn from_then_on_a_query_asks_which_version_there_is() {
    let store = store().await;
    for has_no_tags in [false, true] {
        store.has_no_tags.store(has_no_tags, SeqCst);
        let cache = cache(1 << 30);
        for session in 0..2 {
            store.take();
            let context = context(&store, "box", 2, Some(&cache)).await;
            assert_eq!(store.take().gets, if session == 0 { 3 } else { 0 }, "metadata come from the cache");
            for query in queries() {
                text(&context, &query).await;
            }
            assert_eq!(store.take().gets > 0, session == 0);
            let misses = cache.statistics().misses;
            for query in queries() {
                text(&context, &query).await;
                let tables = TABLES.map(|(table, _)| query.matches(&format!(" {table} ")).count());
                let taken = store.take();
                assert_eq!((taken.gets, taken.get_bytes), (0, 0), "{query}");
                // Of a file by itself, and of a folder, for each time that it is named.
                assert!(taken.heads <= tables[0].max(2) && taken.lists <= tables[1].max(2), "{query}: {taken:?}");
                assert!(taken.heads + taken.lists > 0, "{query}");
            }
            assert_eq!(cache.statistics().misses, misses);
        }
        let columns = cache.columns();
        assert!(columns.len() == 3 && columns.iter().all(|column| column.column.leaf == RANGES_LEAF), "{columns:?}");
        let statistics = cache.statistics();
        assert!(statistics.encoded_hits > statistics.misses && statistics.encoded_bytes > 1_000_000, "{statistics:?}");
    }
}

#[tokio::test]
async fn what_was_overwritten_is_read_anew() {
    let store = store().await;
    // Versions differ by their tags alone, or by their times.
    for (has_no_tags, has_no_clock) in [(false, true), (true, false)] {
        store.has_no_tags.store(has_no_tags, SeqCst);
        store.has_no_clock.store(has_no_clock, SeqCst);
        let cache = cache(1 << 30);
        let context = context(&store, "box", 2, Some(&cache)).await;
        // Tables by other ways.
        let format = Arc::new(entasis_datafusion::EntasisFormat::default());
        let options = datafusion::datasource::listing::ListingOptions::new(format).with_file_extension(".ent");
        context.register_listing_table("listed", "mem://box/t.ent", options, None, None).await.unwrap();
        for generation in 2..5 {
            put(&store, "t.ent", file(generation, 0..200_000)).await;
            for table in ["t", "listed", "'mem://box/t.ent'"] {
                let of_zones = format!("SELECT min(g), max(g), count(*) FROM {table}");
                assert_eq!(sorted_rows(&context, &of_zones).await, [format!("|{generation}|{generation}|200000|")]);
                let of_rows = format!("SELECT DISTINCT g, n >> 32, split_part(t, '.', 1) FROM {table}");
                let expected = format!("|{generation}|{generation}|{generation}|");
                assert_eq!(sorted_rows(&context, &of_rows).await, [expected], "{table}");
            }
        }
        put(&store, "t.ent", file(9, 0..10)).await;
        assert_eq!(sorted_rows(&context, "SELECT count(*), sum(g) FROM t").await, ["|10|90|"]);
        store.inner.delete(&StorePath::from("t.ent")).await.unwrap();
        assert!(try_text(&context, "SELECT sum(n) FROM t").await.is_ok_and(|found| !found.contains("90")));
        put(&store, "t.ent", file(1, 0..200_000)).await;
    }
}

/// HTTP servers may send neither ETags nor times: an object that is overwritten by as many bytes looks as it did.
#[tokio::test]
async fn what_has_neither_tag_nor_time_is_read_past_the_cache() {
    let store = store().await;
    store.has_no_tags.store(true, SeqCst);
    store.tells_no_time.store(true, SeqCst);
    let cache = cache(1 << 30);
    let parquet = |batch: &RecordBatch| {
        let properties = WriterProperties::builder().set_dictionary_enabled(false).build();
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.into_inner().unwrap()
    };
    let write = async |generation: i64| {
        let mixed = |row: i64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) as u64 >> 40;
        let numbers = Int64Array::from_iter_values((0..200_000).map(|row| (generation << 32) + mixed(row) as i64));
        let batch = RecordBatch::try_from_iter([("n", Arc::new(numbers) as ArrayRef)]).unwrap();
        for (path, bytes) in [("t.ent", ent(&batch)), ("t.parquet", parquet(&batch))] {
            put(&store, path, bytes).await;
        }
        let size = async |path: &str| store.inner.head(&StorePath::from(path)).await.unwrap().size;
        (size("t.ent").await, size("t.parquet").await)
    };
    let sizes = write(1).await;
    let context = context(&store, "box", 2, Some(&cache)).await;
    text(&context, "CREATE EXTERNAL TABLE p STORED AS PARQUET LOCATION 'mem://box/t.parquet'").await;
    for generation in [1, 2, 1, 2] {
        assert_eq!(write(generation).await, sizes, "nothing else tells them apart");
        for table in ["t", "'mem://box/t.ent'", "p", "'mem://box/t.parquet'"] {
            // By values; and by statistics, which would let rows fall.
            for predicate in ["true".to_owned(), format!("n >= {}", generation << 32)] {
                let query = format!("SELECT n >> 32, count(*) FROM {table} WHERE {predicate} GROUP BY 1");
                assert_eq!(sorted_rows(&context, &query).await, [format!("|{generation}|200000|")], "{query}");
            }
            let few = format!("SELECT count(*) FROM {table} WHERE n < {}", generation << 32);
            assert_eq!(sorted_rows(&context, &few).await, ["|0|"], "{table}");
        }
    }
    assert_eq!(cache.statistics().used_bytes, 0);
    assert!(plan(&context, "SELECT n FROM p").await.contains("file_type=parquet"));
    store.tells_no_time.store(false, SeqCst);
    assert!(plan(&context, "SELECT n FROM p").await.contains("file_type=cached parquet"));
}

#[tokio::test]
async fn a_query_that_is_overtaken_sees_one_version_or_fails() {
    let store = store().await;
    for has_no_tags in [false, true] {
        store.has_no_tags.store(has_no_tags, SeqCst);
        let cache = cache(1 << 30);
        let mut failures = 0;
        for generation in 2..8 {
            let context = context(&store, "box", 1, Some(&cache)).await;
            let plan = context.sql("SELECT g, n, t FROM t").await.unwrap().create_physical_plan().await.unwrap();
            let mut batches = execute_stream(plan, context.task_ctx()).unwrap();
            let mut seen = Vec::new();
            for index in 0.. {
                if index == generation % 3 {
                    put(&store, "t.ent", file(generation, 0..200_000)).await;
                }
                match batches.next().await {
                    None => break,
                    Some(Ok(batch)) => {
                        let generations = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values();
                        let numbers = batch.column(1).as_any().downcast_ref::<Int64Array>().unwrap().values();
                        seen.extend_from_slice(generations);
                        seen.extend(numbers.iter().map(|number| number >> 32));
                    }
                    Some(Err(error)) => {
                        assert!(error.to_string().contains("t.ent"), "{error}");
                        failures += 1;
                        break;
                    }
                }
            }
            assert!(seen.iter().all(|&of| of == generation - 1), "generation {generation}");
        }
        assert!(failures > 0);
        put(&store, "t.ent", file(1, 0..200_000)).await;
    }
}

#[tokio::test]
async fn the_same_path_in_two_buckets_is_two_files() {
    let cache = cache(1 << 30);
    let context = session(2);
    entasis_datafusion::cache_tables(&context, &cache);
    for generation in [1, 2] {
        // In memory tags count from 0, so that both are alike; so are their times.
        let store = Arc::new(Store::default());
        store.has_no_clock.store(true, SeqCst);
        put(&store, "t.ent", file(generation, 0..80_000)).await;
        context.register_object_store(&format!("mem://bucket{generation}/").parse().unwrap(), store);
    }
    for _ in 0..2 {
        for generation in [1, 2] {
            let query = format!("SELECT DISTINCT g, n >> 32 FROM 'mem://bucket{generation}/t.ent'");
            assert_eq!(sorted_rows(&context, &query).await, [format!("|{generation}|{generation}|")]);
        }
    }
}

#[tokio::test]
async fn the_next_session_finds_on_disk_what_this_one_read() {
    let store = store().await;
    let folder = tempfile::tempdir().unwrap();
    for session in 0..2 {
        let disk = Some(DiskOptions::new(folder.path(), 64 << 20));
        let cache = Cache::new(CacheOptions { disk, transcoders: 0, ..CacheOptions::default() }).unwrap();
        store.take();
        let context = context(&store, "box", 2, Some(&cache)).await;
        text(&context, "SELECT count(DISTINCT t), sum(n) FROM t").await;
        assert_eq!(store.take().gets > 0, session == 0);
        assert_eq!(cache.statistics().disk_hits > 0, session == 1);
        cache.flush();
    }
}

#[tokio::test]
async fn plans_say_what_is_behind_the_cache() {
    let store = store().await;
    let cache = cache(1 << 30);
    let context = context(&store, "box", 2, Some(&cache)).await;
    assert!(plan(&context, "SELECT n FROM t WHERE g > 1").await.contains("file_type=cached entasis"));
    assert!(plan(&context, "SELECT n FROM 'mem://box/days/1.ent'").await.contains("file_type=cached entasis"));
    // Files of this machine are read directly.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.ent");
    std::fs::write(&path, file(1, 0..1_000)).unwrap();
    let used = cache.statistics().used_bytes;
    let near = format!("SELECT n FROM '{}'", path.display());
    let found = plan(&context, &near).await;
    assert!(found.contains("file_type=entasis") && !found.contains("cached"), "{found}");
    text(&context, &near).await;
    assert_eq!(cache.statistics().used_bytes, used);
}

#[tokio::test]
async fn a_table_that_was_there_before_the_cache_isn_t_opened_again() {
    let store = store().await;
    let context = context(&store, "box", 1, None).await;
    text(&context, "SELECT sum(id) FROM t").await;
    let cache = cache(1 << 30);
    entasis_datafusion::cache_tables(&context, &cache);
    store.take();
    for (round, gets) in [1, 0].into_iter().enumerate() {
        text(&context, "SELECT count(*) FROM t WHERE t LIKE '%77%' AND id < 60000").await;
        assert_eq!(store.take().gets, gets, "round {round}");
    }
}

/// Who waits for pages that somebody else fetches gets them, whether or not anybody asks that one for rows meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_who_isn_t_polled() {
    let store = store().await;
    for memory_bytes in [1 << 30, 300_000] {
        let cache = cache(memory_bytes);
        let context = context(&store, "box", 1, Some(&cache)).await;
        let query = "SELECT id, n, t FROM days";
        let mut streams = Vec::new();
        for _ in 0..4 {
            let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
            streams.push(execute_stream(plan, context.task_ctx()).unwrap());
        }
        // Each is polled once, and only the last one goes on.
        let mut rows = 0;
        for stream in &mut streams {
            rows = match futures::poll!(stream.next()) {
                Poll::Ready(batch) => batch.unwrap().unwrap().num_rows(),
                Poll::Pending => 0,
            };
        }
        let rows = async {
            while let Some(batch) = streams.last_mut().unwrap().next().await {
                rows += batch.unwrap().num_rows();
            }
            rows
        };
        let rows = tokio::time::timeout(Duration::from_secs(60), rows).await.unwrap();
        assert_eq!(rows, 150_000);
        drop(streams);
        assert_eq!(sorted_rows(&context, "SELECT count(*), max(g) FROM days WHERE n > 0").await, ["|150000|1|"]);
        let statistics = cache.statistics();
        assert_eq!((statistics.filling_cells, statistics.pinned_bytes), (0, 0));
    }
    // Merge joins ask one input at a time.
    let mut config = SessionConfig::new().with_target_partitions(3);
    config.options_mut().optimizer.prefer_hash_join = false;
    config.options_mut().optimizer.repartition_file_min_size = 1;
    let context = of_config(config, RuntimeEnvBuilder::new());
    context.register_object_store(&"mem://box/".parse().unwrap(), store.clone());
    entasis_datafusion::cache_tables(&context, &cache(1 << 30));
    let join = "SELECT count(*) FROM 'mem://box/t.ent' a JOIN 'mem://box/t.ent' b ON a.id = b.id WHERE a.t = b.t";
    let found = tokio::time::timeout(Duration::from_secs(60), sorted_rows(&context, join)).await.unwrap();
    assert_eq!(found, ["|200000|"]);
}
