//! Tables of `.ent` files give what the same rows give as Parquet.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, Date32Array, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray, StructArray};
use arrow_schema::{DataType, Field};
use datafusion::{
    execution::runtime_env::RuntimeEnvBuilder,
    object_store::{ObjectStoreExt, PutPayload, memory::InMemory, path::Path as StorePath},
    prelude::SessionConfig,
};
use entasis::{SortColumn, WriteOptions};

use common::*;

const QUERIES: &[&str] = &[
    "SELECT * FROM {} WHERE trip_id % 1009 = 0",
    "SELECT count(*) FROM {}",
    "SELECT count(*), count(note), min(distance_km), max(price), min(started_at), max(start_station) FROM {}",
    "SELECT start_station, count(*), sum(distance_km) > 0, min(note) FROM {} GROUP BY start_station",
    "SELECT trip_id, weather FROM {} ORDER BY started_at, trip_id LIMIT 7",
    "SELECT avg(weather['celsius']) FROM {} WHERE weather['celsius'] > 5",
    "SELECT trip_id, checkpoints FROM {} WHERE array_length(checkpoints) > 4 ORDER BY trip_id LIMIT 20",
    "SELECT battery_percent, count(*) FROM {} WHERE note LIKE '%broken%' OR battery_percent IS NULL GROUP BY 1",
    "SELECT a.trip_id FROM {} a JOIN {} b ON a.trip_id = b.trip_id WHERE b.price > 17",
    "SELECT start_station, price FROM {} WHERE price BETWEEN 3 AND 3.5 AND start_station IN ('Bridge Lane', 'Lindens Square')",
];

#[tokio::test]
async fn queries_give_what_they_give_on_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    for partitions in [1, 4] {
        let context = session(partitions);
        for query in QUERIES {
            let on = |path: &std::path::Path| query.replace("{}", &format!("'{}'", path.display()));
            let expected = sorted_rows(&context, &on(&sample())).await;
            assert!(!expected.is_empty(), "{query}");
            assert_eq!(sorted_rows(&context, &on(&path)).await, expected, "{query}");
        }
    }
}

#[tokio::test]
async fn any_store_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let store = Arc::new(InMemory::new());
    let bytes = std::fs::read(&path).unwrap();
    store.put(&StorePath::from("a/trips.ent"), PutPayload::from(bytes)).await.unwrap();
    let context = session(3);
    context.register_object_store(&"mem://box/".parse().unwrap(), store);
    text(&context, "CREATE EXTERNAL TABLE trips STORED AS ENT LOCATION 'mem://box/a/'").await;
    let query = |table: &str| format!("SELECT start_station, count(*), max(note) FROM {table} GROUP BY 1");
    let expected = sorted_rows(&context, &query(&format!("'{}'", path.display()))).await;
    assert_eq!(sorted_rows(&context, &query("trips")).await, expected);
}

#[tokio::test]
async fn a_file_is_read_by_several_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = session(4);
    let found = plan(&context, &format!("SELECT price FROM '{}' WHERE price > 1", path.display())).await;
    assert!(found.contains("3 groups") || found.contains("4 groups"), "{found}");
    let total = |path: &std::path::Path| format!("SELECT count(*), sum(trip_id) FROM '{}'", path.display());
    assert_eq!(sorted_rows(&context, &total(&path)).await, sorted_rows(&context, &total(&sample())).await);
}

#[tokio::test]
async fn folders_of_hive_partitions_are_columns() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().display();
    let context = session(2);
    let copy = format!(
        "COPY (SELECT trip_id, price, start_station FROM '{}') TO '{target}/' STORED AS ENT PARTITIONED BY (start_station)",
        sample().display()
    );
    text(&context, &copy).await;
    text(
        &context,
        &format!("CREATE EXTERNAL TABLE trips STORED AS ENTASIS PARTITIONED BY (start_station) LOCATION '{target}/'"),
    )
    .await;
    for query in [
        "SELECT start_station, count(*), min(trip_id) FROM {} GROUP BY start_station",
        "SELECT count(*), min(price) FROM {} WHERE start_station = 'Bridge Lane'",
        "SELECT DISTINCT start_station FROM {} WHERE price > 15",
    ] {
        let expected = sorted_rows(&context, &query.replace("{}", &format!("'{}'", sample().display()))).await;
        assert_eq!(sorted_rows(&context, &query.replace("{}", "trips")).await, expected, "{query}");
    }
    let found = plan(&context, "SELECT trip_id FROM trips WHERE start_station = 'Bridge Lane'").await;
    assert!(found.contains("Bridge") && !found.contains("Lindens"), "{found}");
}

#[tokio::test]
async fn files_of_a_table_may_differ() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, columns: Vec<(&str, ArrayRef)>| {
        write(&folder.path().join(name), &[RecordBatch::try_from_iter(columns).unwrap()], WriteOptions::default());
    };
    let structs = |fields: Vec<(&str, ArrayRef)>| -> ArrayRef {
        let fields = fields
            .into_iter()
            .map(|(name, array)| (Arc::new(Field::new(name, array.data_type().clone(), true)), array));
        Arc::new(StructArray::from(fields.collect::<Vec<_>>()))
    };
    let small: ArrayRef = Arc::new(Int16Array::from(vec![Some(1), None]));
    let large: ArrayRef = Arc::new(Int64Array::from(vec![1 << 40, 2]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["one", "two"]));
    file("1.ent", vec![("a", small.clone()), ("b", words.clone()), ("s", structs(vec![("x", small.clone())]))]);
    file("2.ent", vec![("s", structs(vec![("y", words.clone()), ("x", large.clone())])), ("a", large)]);
    file("3.ent", vec![("c", words)]);
    let context = session(2);
    text(&context, &format!("CREATE EXTERNAL TABLE t STORED AS ENTASIS LOCATION '{}/'", folder.path().display())).await;
    let columns =
        text(&context, "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't'").await;
    assert!(columns.contains("Int64") && columns.contains(r#"Struct("x": Int64, "y": Utf8View)"#), "{columns}");
    let rows = sorted_rows(&context, "SELECT a, b, c, s['x'] AS x, s['y'] AS y FROM t").await;
    let expected =
        ["|1099511627776|||1099511627776|one|", "|1|one||1||", "|2|||2|two|", "||two||||", "|||one|||", "|||two|||"];
    assert_eq!(rows, expected);
    let sums = sorted_rows(&context, "SELECT count(a), sum(a), max(a), min(b), count(s['y']) FROM t").await;
    assert_eq!(sums, ["|3|1099511627779|1099511627776|one|2|"]);
}

#[tokio::test]
async fn schemas_without_a_common_type_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["one"]));
    for (name, array) in [("1.ent", numbers), ("2.ent", words)] {
        write(
            &folder.path().join(name),
            &[RecordBatch::try_from_iter([("a", array)]).unwrap()],
            WriteOptions::default(),
        );
    }
    let context = session(1);
    let create = format!("CREATE EXTERNAL TABLE t STORED AS ENTASIS LOCATION '{}/'", folder.path().display());
    let error = try_text(&context, &create).await.unwrap_err().to_string();
    assert!(error.contains("2.ent") && error.contains("column a"), "{error}");
}

#[tokio::test]
async fn statistics_are_exact_only_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.ent");
    let long = "a very long string that no zone keeps as it is";
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int64Array::from(vec![Some(3), None, Some(-7)]))),
        ("f", Arc::new(Float64Array::from(vec![1.0, f64::NAN, 0.5]))),
        ("z", Arc::new(Float64Array::from(vec![0.0, 1.0, 2.0]))),
        ("s", Arc::new(StringArray::from(vec![long, "b", "c"]))),
    ];
    write(&path, &[RecordBatch::try_from_iter(columns).unwrap()], WriteOptions::default());
    let context = session(1);
    let table = format!("'{}'", path.display());
    let from_zones = |plan: &str| !plan.contains("DataSourceExec");
    for (question, is_exact) in [
        ("count(*)", true),
        ("count(i)", true),
        ("min(i)", true),
        ("max(i)", true),
        ("max(z)", true),
        ("max(s)", true),
        ("min(f)", false),
        ("max(f)", false),
        ("min(z)", false),
        ("min(s)", false),
    ] {
        let found = plan(&context, &format!("SELECT {question} FROM {table}")).await;
        assert_eq!(from_zones(&found), is_exact, "{question}: {found}");
    }
    let question = "count(*), count(i), min(i), max(i), max(z), min(z), max(s), min(s), min(f), max(f)";
    let answers = sorted_rows(&context, &format!("SELECT {question} FROM {table}")).await;
    assert_eq!(answers, [format!("|3|2|-7|3|2.0|0.0|c|{long}|0.5|NaN|")]);
}

/// Files of several row groups, of types from narrow to wide, with columns that some lack: what zones say of all of them is read from
/// none of them.
#[tokio::test]
async fn aggregates_of_folders_come_from_zones() {
    let folder = tempfile::tempdir().unwrap();
    let options = || WriteOptions { row_group_rows: 1_500, ..WriteOptions::default() };
    let numbers = |from: i64| (0..4_000).map(move |row| (row % 7 != 0).then_some(from + row * 37 % 4_001));
    let narrow: ArrayRef =
        Arc::new(numbers(-50).map(|number| number.map(|number| number as i16)).collect::<Int16Array>());
    let wide: ArrayRef = Arc::new(numbers(1 << 40).collect::<Int64Array>());
    let days: ArrayRef = Arc::new(Date32Array::from_iter_values((0..4_000).map(|row| 19_000 + row * 3 % 1_000)));
    let later: ArrayRef = Arc::new(Date32Array::from_iter_values((0..4_000).map(|row| 20_500 + row % 9)));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..4_000).map(|row| format!("word {}", row % 300))));
    let nothing: ArrayRef = Arc::new(Int64Array::from(vec![None; 4_000]));
    let files = [
        vec![("a", narrow), ("day", days), ("word", words.clone()), ("nothing", nothing)],
        vec![("word", words), ("a", wide), ("day", later)],
    ];
    for (number, columns) in files.into_iter().enumerate() {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)));
        write(&folder.path().join(format!("{number}.ent")), &[batch.unwrap()], options());
    }
    let context = session(3);
    text(&context, &format!("CREATE EXTERNAL TABLE t STORED AS ENTASIS LOCATION '{}/'", folder.path().display())).await;
    for (question, expected) in [
        ("count(*)", "8000"),
        ("count(a)", "6856"),
        ("min(a)", "-49"),
        ("max(a)", "1099511631776"),
        ("min(day)", "2022-01-08"),
        ("max(day)", "2026-02-24"),
        ("min(word)", "word 0"),
        ("max(word)", "word 99"),
        ("count(nothing)", "0"),
    ] {
        let query = format!("SELECT {question} FROM t");
        let found = plan(&context, &query).await;
        assert!(found.contains("PlaceholderRowExec") && !found.contains("DataSourceExec"), "{question}: {found}");
        assert_eq!(sorted_rows(&context, &query).await, [format!("|{expected}|")], "{question}");
        // What is asked so that no zone can answer is the same.
        let counted = sorted_rows(&context, &format!("SELECT {question} FROM t WHERE a IS NULL OR a > -100")).await;
        assert_eq!(counted, [format!("|{expected}|")], "{question}");
    }
    // Of a whole table and several columns at once, by one file's partitions as well.
    let all = "SELECT count(*), count(a), min(day), max(word) FROM t";
    assert!(!plan(&context, all).await.contains("DataSourceExec"));
    let minimum = sorted_rows(&context, "SELECT min(nothing), max(nothing) FROM t").await;
    assert_eq!(minimum, ["|||"]);
}

#[tokio::test]
async fn the_declared_order_of_rows_saves_sorting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.ent");
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(|row| row / 3)));
    let other: ArrayRef = Arc::new(Int64Array::from_iter_values((0..200_000).map(|row| row % 7)));
    let batch = RecordBatch::try_from_iter([("other", other), ("a", values)]).unwrap();
    let sort_order = vec![SortColumn { column: "a".to_owned(), descending: false, nulls_first: false }];
    write(&path, &[batch], WriteOptions { sort_order, ..WriteOptions::default() });
    let context = session(1);
    let table = format!("'{}'", path.display());
    let found = plan(&context, &format!("SELECT a FROM {table} ORDER BY a")).await;
    assert!(!found.contains("SortExec") && found.contains("output_ordering=[a@0 ASC NULLS LAST]"), "{found}");
    let found = plan(&context, &format!("SELECT a FROM {table} ORDER BY other")).await;
    assert!(found.contains("SortExec"), "{found}");
    let copy = folder.path().join("copy.ent");
    text(&context, &format!("COPY (SELECT * FROM {table} ORDER BY a) TO '{}'", copy.display())).await;
    let reader = entasis::Reader::open(&copy).unwrap();
    assert_eq!(reader.sort_order().unwrap().len(), 1);
}

#[tokio::test]
async fn only_fields_that_are_needed_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = session(1);
    let found = plan(&context, &format!("SELECT weather['celsius'] FROM '{}'", path.display())).await;
    assert!(found.contains("projection=[get_field(weather"), "{found}");
    assert!(!found.contains("ProjectionExec"), "{found}");
}

#[tokio::test]
async fn a_scan_is_accounted_to_the_memory_pool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = of_config(SessionConfig::new(), RuntimeEnvBuilder::new().with_memory_limit(1000, 1.0));
    let error =
        try_text(&context, &format!("SELECT trip_id + 1 FROM '{}'", path.display())).await.unwrap_err().to_string();
    assert!(error.contains("EntasisScan"), "{error}");
}

#[tokio::test]
async fn strings_come_as_views_or_as_they_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = session(1);
    for (table, options, expected) in
        [("v", "", DataType::Utf8View), ("s", " OPTIONS (format.strings 'stored')", DataType::Utf8)]
    {
        text(
            &context,
            &format!("CREATE EXTERNAL TABLE {table} STORED AS ENTASIS LOCATION '{}'{options}", path.display()),
        )
        .await;
        let batches =
            context.sql(&format!("SELECT start_station FROM {table} LIMIT 1")).await.unwrap().collect().await.unwrap();
        assert_eq!(batches[0].schema().field(0).data_type(), &expected);
    }
}
