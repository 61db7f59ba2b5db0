//! Tables of Parquet files behind the cache give what DataFusion gives on Parquet: cold, warming, warm, and with next to no memory.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;
#[allow(dead_code, missing_docs, reason = "its main is for the command line")]
#[path = "../examples/cache.rs"]
mod example;

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, UInt64Array,
    types::Int32Type,
};
use arrow_schema::{DataType, Field, Fields, Schema};
use datafusion::{
    arrow::compute::cast,
    object_store::{ObjectStore, ObjectStoreExt, PutPayload, memory::InMemory, path::Path as StorePath},
    physical_plan::execute_stream,
    prelude::SessionContext,
};
use entasis_cache::{Cache, CacheOptions};
use futures::StreamExt;
use parquet::{arrow::ArrowWriter, file::properties::WriterProperties};

use common::*;

/// Rows of all common types with nulls, from `first` on.
fn table(first: i64, rows: usize) -> RecordBatch {
    let numbers = first..first + rows as i64;
    let mixed = |row: i64| (row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 20).rem_euclid(1_000_003);
    let some = |row: i64, every: i64| mixed(row) % every != 0;
    let texts: ArrayRef = Arc::new(StringArray::from_iter(
        numbers
            .clone()
            .map(|row| some(row, 11).then(|| format!("/page/{}?from={}", mixed(row) % 700, mixed(row) % 13))),
    ));
    let small: ArrayRef =
        Arc::new(Int32Array::from_iter(numbers.clone().map(|row| some(row, 7).then_some((mixed(row) % 1_000) as i32))));
    let lists = numbers.clone().map(|row| {
        some(row, 5).then(|| (0..mixed(row) % 4).map(|item| (item != 2).then_some(item as i32)).collect::<Vec<_>>())
    });
    let nested: ArrayRef = Arc::new(StructArray::new(
        Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("t", DataType::Utf8, true)]),
        vec![small.clone(), texts.clone()],
        Some(numbers.clone().map(|row| some(row, 6)).collect()),
    ));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(numbers.clone()))),
        ("n", small),
        ("tiny", Arc::new(Int8Array::from_iter(numbers.clone().map(|row| Some((mixed(row) % 5) as i8))))),
        ("big", Arc::new(UInt64Array::from_iter_values(numbers.clone().map(|row| mixed(row) as u64 * 1_000_003)))),
        (
            "f",
            Arc::new(Float64Array::from_iter(
                numbers
                    .clone()
                    .map(|row| some(row, 9).then(|| if row % 97 == 0 { f64::NAN } else { mixed(row) as f64 / 8.0 })),
            )),
        ),
        ("g", Arc::new(Float32Array::from_iter_values(numbers.clone().map(|row| (mixed(row) % 100) as f32 - 50.0)))),
        (
            "d",
            Arc::new(
                Decimal128Array::from_iter_values(numbers.clone().map(|row| i128::from(mixed(row))))
                    .with_precision_and_scale(12, 2)
                    .unwrap(),
            ),
        ),
        ("day", Arc::new(Date32Array::from_iter_values(numbers.clone().map(|row| 19_000 + (row / 2_000) as i32)))),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(numbers.clone().map(|row| mixed(row) * 1_000_000))),
        ),
        ("flag", Arc::new(BooleanArray::from_iter(numbers.clone().map(|row| some(row, 10).then_some(row % 3 == 0))))),
        ("t", texts.clone()),
        ("kind", cast(&texts, &DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))).unwrap()),
        ("bytes", Arc::new(BinaryArray::from_iter_values(numbers.clone().map(|row| (mixed(row) % 300).to_be_bytes())))),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ("s", nested),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn parquet(batch: &RecordBatch, row_group_rows: usize) -> Vec<u8> {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(row_group_rows)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

const QUERIES: &[&str] = &[
    "SELECT count(*) FROM t",
    "SELECT * FROM t WHERE id % 4001 = 7",
    "SELECT id, t FROM t WHERE n = 77 AND f > 100",
    "SELECT count(*), min(f), max(d), sum(big % 1000) FROM t WHERE n < 500",
    "SELECT count(*) FROM t WHERE t LIKE '%/3_?from=1%' OR n IS NULL",
    "SELECT count(*) FROM t WHERE NOT (t LIKE '/page/1%' OR n >= 300)",
    "SELECT count(*), count(t) FROM t WHERE t <> '' AND upper(t) LIKE '%PAGE/12%'",
    "SELECT id FROM t WHERE length(t) = 9 AND tiny IN (1, 3) AND flag",
    "SELECT count(*) FROM t WHERE flag IS NOT TRUE AND g BETWEEN -10.0 AND 4.5",
    "SELECT count(*) FROM t WHERE f <> 12.5 AND isnan(f)",
    "SELECT day, count(*), avg(n) FROM t WHERE day > '2022-01-20' GROUP BY day",
    "SELECT id, n, at FROM t ORDER BY n DESC NULLS LAST, id LIMIT 9",
    "SELECT id, t FROM t WHERE t LIKE '%from=3' ORDER BY big, id LIMIT 5",
    "SELECT a.id, b.t FROM t a JOIN t b ON a.id = b.big % 1000 WHERE b.n = 5",
    "SELECT count(*) FROM t WHERE id IN (SELECT big % 50000 FROM t WHERE n = 3)",
    "SELECT s['x'], count(*) FROM t WHERE s['x'] > 990 GROUP BY 1",
    "SELECT s['t'], l FROM t WHERE s IS NOT NULL AND s['x'] = 4 AND array_length(l) > 1",
    "SELECT id, l, s FROM t WHERE id BETWEEN 69990 AND 70010",
    "SELECT bytes, count(*) FROM t WHERE bytes < X'0000000000000030' GROUP BY bytes",
    "SELECT kind, count(*) FROM t WHERE kind LIKE '/page/69%' AND kind <> '/page/690?from=1' GROUP BY kind",
    "SELECT id FROM t WHERE n < tiny",
    "SELECT count(*) FROM t WHERE d > 9000.5 AND at < '1970-01-05T00:00:00'",
    "SELECT id + 1 FROM t WHERE id > 149990 LIMIT 3",
    "SELECT t, count(*) FROM t GROUP BY t ORDER BY 2 DESC, 1 LIMIT 12",
];

/// Three objects in a folder of a store, of several row groups.
async fn objects() -> Arc<dyn ObjectStore> {
    let store = InMemory::new();
    for (file, (first, rows, row_group_rows)) in
        [(0, 90_000, 80_000), (90_000, 50_000, 20_000), (140_000, 10_000, 100_000)].into_iter().enumerate()
    {
        let path = StorePath::from(format!("t/{file}.parquet"));
        store.put(&path, PutPayload::from(parquet(&table(first, rows), row_group_rows))).await.unwrap();
    }
    Arc::new(store)
}

async fn context(store: &Arc<dyn ObjectStore>, partitions: usize, cache: Option<&Cache>) -> SessionContext {
    let context = session(partitions);
    context.register_object_store(&"mem://box/".parse().unwrap(), store.clone());
    if let Some(cache) = cache {
        entasis_datafusion::cache_tables(&context, cache);
    }
    context.register_parquet("t", "mem://box/t/", Default::default()).await.unwrap();
    context
}

fn cache(memory_bytes: u64) -> Cache {
    Cache::new(CacheOptions { memory_bytes, transcoders: 0, ..CacheOptions::default() }).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn queries_give_what_they_give_on_parquet() {
    let store = objects().await;
    let plain = context(&store, 2, None).await;
    let mut expected = Vec::new();
    for query in QUERIES {
        expected.push(sorted_rows(&plain, query).await);
    }
    for (partitions, memory_bytes) in [(1, 1 << 30), (3, 1 << 30), (3, 300_000), (2, 0)] {
        let cache = cache(memory_bytes);
        let context = context(&store, partitions, Some(&cache)).await;
        for round in ["cold", "warming", "warm"] {
            for (query, expected) in QUERIES.iter().zip(&expected) {
                let found = sorted_rows(&context, query).await;
                assert_eq!(&found, expected, "{query}, {round}, {partitions} partitions, {memory_bytes} bytes");
                if round == "warming" {
                    cache.transcode_one();
                }
            }
            while round == "warming" && cache.transcode_one() {}
        }
        // NaN isn't in Parquet's statistics, by which DataFusion's own reader leaves out the rows that have it.
        let not_a_number =
            ["f >= 'NaN'::DOUBLE", "isnan(f)"].map(|which| format!("SELECT count(*) FROM t WHERE {which}"));
        let [by_order, by_name] = &not_a_number;
        assert_eq!(sorted_rows(&context, by_order).await, sorted_rows(&context, by_name).await);
        // What has just been asked for finds its blocks, however little memory there is.
        let hits = cache.statistics().encoded_hits;
        for _ in 0..2 {
            sorted_rows(&context, "SELECT count(*) FROM t WHERE tiny = 3").await;
            while cache.transcode_one() {}
        }
        let statistics = cache.statistics();
        assert!(statistics.used_bytes <= memory_bytes);
        assert_eq!(statistics.encoded_hits > hits, memory_bytes > 0, "{memory_bytes} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_give_the_same_however_predicates_are_answered() {
    let store = objects().await;
    let plain = context(&store, 2, None).await;
    let cache = cache(1 << 30);
    for way in ["left", "together", "decoded", "encoded"] {
        let context = context(&store, 2, Some(&cache)).await;
        text(&context, &format!("SET entasis.predicates = '{way}'")).await;
        for query in QUERIES {
            assert_eq!(sorted_rows(&context, query).await, sorted_rows(&plain, query).await, "{way}: {query}");
        }
        while cache.transcode_one() {}
    }
}

#[tokio::test]
async fn plans_say_what_is_behind_the_cache() {
    let store = objects().await;
    let cache = cache(1 << 30);
    let context = context(&store, 2, Some(&cache)).await;
    let found = plan(&context, "SELECT id FROM t WHERE n = 5 AND length(t) > n").await;
    assert!(found.contains("file_type=cached parquet") && found.contains("predicate=n@"), "{found}");
    assert!(
        found.contains("left_to_the_engine") && found.contains("no encoded answer for character_length()"),
        "{found}"
    );
    for _ in 0..2 {
        text(&context, "SELECT id FROM t WHERE n = 5").await;
    }
    let analyzed = text(&context, "EXPLAIN ANALYZE SELECT id FROM t WHERE n = 5").await;
    assert!(analyzed.contains("cells_decoded=0") && analyzed.contains("rows_scanned=150"), "{analyzed}");
    // Other ways to name a table, and subqueries.
    text(&context, "CREATE EXTERNAL TABLE u STORED AS PARQUET LOCATION 'mem://box/t/'").await;
    let found = plan(&context, "SELECT id FROM u WHERE n > (SELECT avg(n) FROM t)").await;
    assert_eq!(found.matches("file_type=cached parquet").count(), 2, "{found}");
    let on_file = format!("SELECT trip_id FROM '{}'", sample().display());
    assert!(plan(&context, &on_file).await.contains("file_type=cached parquet"));
}

#[tokio::test]
async fn an_object_that_was_overwritten_is_read_anew() {
    let store = objects().await;
    let cache = cache(1 << 30);
    let context = context(&store, 2, Some(&cache)).await;
    let query = "SELECT count(*), min(id), max(id), sum(n) FROM t";
    let where_ = "SELECT count(*), min(id), max(id) FROM t WHERE id >= 0";
    let before = sorted_rows(&context, query).await;
    let path = StorePath::from("t/0.parquet");
    for first in [1_000_000, 2_000_000] {
        // The same number of rows, in the same place.
        store.put(&path, PutPayload::from(parquet(&table(first, 90_000), 80_000))).await.unwrap();
        let plain = self::context(&store, 1, None).await;
        for query in [query, where_] {
            let found = sorted_rows(&context, query).await;
            assert_eq!(found, sorted_rows(&plain, query).await);
            assert_ne!(found, before);
        }
    }
    store.delete(&path).await.unwrap();
    assert!(sorted_rows(&context, query).await[0].starts_with("|60000|90000|149999|"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_given_up_leaves_nothing_behind() {
    let store = objects().await;
    let cache = cache(1 << 30);
    let context = context(&store, 3, Some(&cache)).await;
    for batches in 0..4 {
        let frame = context.sql("SELECT * FROM t WHERE n > 100").await.unwrap();
        let plan = frame.create_physical_plan().await.unwrap();
        let mut stream = execute_stream(plan, context.task_ctx()).unwrap();
        for _ in 0..batches {
            stream.next().await.unwrap().unwrap();
        }
        drop(stream);
    }
    // Nobody waits for a cell that no one decodes any more.
    assert!(!sorted_rows(&context, "SELECT id FROM t WHERE n > 990").await.is_empty());
    let pool = context.runtime_env().memory_pool.clone();
    assert_eq!(pool.reserved(), 0);
    let statistics = cache.statistics();
    assert_eq!(statistics.pinned_bytes, 0);
}

#[tokio::test]
async fn metadata_of_fields_are_no_reason_to_decode() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let batch = table(0, 10_000);
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|field| {
        let metadata = [("unit".to_owned(), "apples".to_owned())].into();
        field.as_ref().clone().with_metadata(metadata)
    });
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), batch.columns().to_vec());
    store.put(&StorePath::from("t/0.parquet"), PutPayload::from(parquet(&batch.unwrap(), 5_000))).await.unwrap();
    let cache = cache(1 << 30);
    let context = context(&store, 1, Some(&cache)).await;
    let query = "EXPLAIN ANALYZE SELECT id FROM t WHERE n < 10 AND t LIKE '%7%'";
    for _ in 0..2 {
        text(&context, query).await;
        while cache.transcode_one() {}
    }
    let found = text(&context, query).await;
    assert!(found.contains("rows_asked_for_expressions=0") && found.contains("cells_decoded=0"), "{found}");
}

#[tokio::test]
async fn schemas_that_differ_and_folders_that_are_columns() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let one = RecordBatch::try_from_iter([
        ("a", Arc::new(Int32Array::from_iter_values(0..3_000)) as ArrayRef),
        ("t", Arc::new(StringArray::from_iter_values((0..3_000).map(|row| format!("x{}", row % 7)))) as ArrayRef),
    ]);
    let other = RecordBatch::try_from_iter([
        ("b", Arc::new(BooleanArray::from_iter((0..2_000).map(|row| Some(row % 2 == 0)))) as ArrayRef),
        ("a", Arc::new(Int64Array::from_iter_values((0..2_000).map(|row| row * 1_000_000_007))) as ArrayRef),
    ]);
    for (path, batch) in [("p/year=2024/x.parquet", one), ("p/year=2025/x.parquet", other)] {
        store.put(&StorePath::from(path), PutPayload::from(parquet(&batch.unwrap(), 1_000))).await.unwrap();
    }
    let create = "CREATE EXTERNAL TABLE p (a BIGINT, t VARCHAR, b BOOLEAN, year INT) STORED AS PARQUET \
        PARTITIONED BY (year) LOCATION 'mem://box/p/'";
    let cache = cache(1 << 30);
    let contexts = [session(2), session(2)];
    for context in &contexts {
        context.register_object_store(&"mem://box/".parse().unwrap(), store.clone());
        text(context, create).await;
    }
    entasis_datafusion::cache_tables(&contexts[1], &cache);
    for _ in 0..2 {
        for query in [
            "SELECT year, count(*), count(t), count(b), sum(a % 1000) FROM p GROUP BY year",
            "SELECT a, t, b, year FROM p WHERE a % 500 = 3 AND year > 2000",
            "SELECT count(*) FROM p WHERE t = 'x3' OR b",
            "SELECT count(*) FROM p WHERE t IS NULL AND a > 2000",
            "SELECT max(a) FROM p WHERE year = 2025",
        ] {
            let expected = sorted_rows(&contexts[0], query).await;
            assert_eq!(sorted_rows(&contexts[1], query).await, expected, "{query}");
        }
        while cache.transcode_one() {}
    }
}

#[tokio::test]
async fn the_example_runs() {
    let sql = "SELECT start_station, count(*) FROM t WHERE price > 10 GROUP BY 1 ORDER BY 2 DESC LIMIT 3";
    let cache = example::run(sample().to_str().unwrap(), sql).await.unwrap();
    let statistics = cache.statistics();
    let hits = statistics.pages_hits + statistics.arrow_hits + statistics.encoded_hits;
    assert!(statistics.misses > 0 && hits > 0, "{statistics:?}");
}
