//! Predicates that the scan answers: what passes is what passes on Parquet.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::{path::Path, sync::Arc};

use arrow_array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    physical_plan::{ExecutionPlan, collect},
    prelude::SessionContext,
};
use entasis::{WriteOptions, generate::Generator};
use parquet::arrow::ArrowWriter;

use common::*;

const PREDICATES: &[&str] = &[
    "price = 3.5",
    "price <> 0",
    "price > 15 OR price < 0.2",
    "4 <= price AND price <= 4.1",
    "price NOT BETWEEN 1 AND 17",
    "battery_percent IS NULL",
    "battery_percent IS NOT NULL AND battery_percent < 10",
    "NOT (battery_percent > 10)",
    "NOT (battery_percent > 10 AND price > 2)",
    "start_station = 'Bridge Lane'",
    "start_station IN ('Bridge Lane', 'Canal Hill', 'nowhere')",
    "start_station NOT IN ('Bridge Lane', NULL)",
    "start_station LIKE 'Brew%'",
    "start_station LIKE '%Lane' AND start_station NOT LIKE '_r%'",
    "starts_with(start_station, 'Canal')",
    "start_station > 'University'",
    "note LIKE '%broken%'",
    "note ILIKE '%BROKEN%'",
    "note IS NULL AND trip_id % 3 = 0",
    "length(start_station) = 11",
    "started_at >= '2024-05-20T00:00:00Z' AND started_at < '2024-05-20T06:00:00Z'",
    "weather['celsius'] < 8",
    "weather['celsius'] IS NULL OR trip_id < 7400100",
    "price > distance_km",
    "price * 2 > 30",
    "CASE WHEN price > 5 THEN battery_percent > 50 ELSE false END",
    "trip_id IN (7400002, 7400007)",
    "array_length(checkpoints) = 3",
    "NULL",
    "false",
    "price = NULL OR price > 16",
    "start_station ~ 'B.*Lane$'",
    "start_station !~* 'lane|HILL'",
    "regexp_like(end_station, '^[A-C]')",
    "lower(start_station) = 'bridge lane'",
    "upper(membership) <> 'DAY'",
    "length(note) > 20",
    "NOT (lower(note) LIKE '%broken%')",
    "coalesce(note, 'none') = 'none'",
    "note IS DISTINCT FROM 'Bell is broken.'",
    "date_part('hour', started_at) = 8",
    "extract(dow FROM started_at) IN (0, 6)",
    "CASE membership WHEN 'day' THEN true WHEN 'year' THEN false END",
    "NOT (CASE WHEN length(start_station) > 11 THEN true END)",
    "abs(battery_percent - 50) > 40",
    "substr(start_station, 1, 1) IN ('B', 'C')",
    "round(weather['celsius']) = 12",
    "concat(start_station, end_station) LIKE '%LaneM%'",
];

async fn compare(context: &SessionContext, predicate: &str, path: &Path) {
    let query =
        |path: &Path| format!("SELECT trip_id, price, start_station, note FROM '{}' WHERE {predicate}", path.display());
    let expected = sorted_rows(context, &query(&sample())).await;
    assert_eq!(sorted_rows(context, &query(path)).await, expected, "{predicate}");
}

#[tokio::test]
async fn predicates_pass_what_they_pass_on_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = session(2);
    for predicate in PREDICATES {
        compare(&context, predicate, &path).await;
    }
}

#[tokio::test]
async fn random_trees_of_predicates_pass_what_they_pass_on_parquet() {
    fn tree(random: &mut Generator, depth: usize) -> String {
        match if depth == 0 { 3 } else { random.below(5) } {
            0 => format!("({} AND {})", tree(random, depth - 1), tree(random, depth - 1)),
            1 => format!("({} OR {})", tree(random, depth - 1), tree(random, depth - 1)),
            2 => format!("NOT ({})", tree(random, depth - 1)),
            _ => format!("({})", PREDICATES[random.below(PREDICATES.len())]),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = session(2);
    let mut random = Generator::new(7);
    for _ in 0..15 {
        compare(&context, &tree(&mut random, 3), &path).await;
    }
}

/// However a session has predicates answered, they pass the same, and each way does what it says: the engine is handed all rows, the scan
/// evaluates all of them, or those that the conditions before left, or none.
#[tokio::test]
async fn predicates_pass_the_same_however_they_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let query = format!("SELECT trip_id FROM '{}' WHERE price > 15 AND start_station LIKE 'B%'", path.display());
    for (way, evaluated) in
        [("left", 0..=0), ("together", 68_000..=68_000), ("decoded", 68_001..=135_999), ("encoded", 0..=0)]
    {
        let context = session(1);
        context.sql(&format!("SET entasis.predicates = '{way}'")).await.unwrap().collect().await.unwrap();
        for predicate in PREDICATES {
            compare(&context, predicate, &path).await;
        }
        let (rows, asked) = measured(&context, &query, "rows_asked_for_expressions").await;
        assert!(rows > 0 && evaluated.contains(&asked), "{way}: {asked}");
        let (_, scanned) = measured(&context, &query, "rows_passed").await;
        assert_eq!(scanned == 68_000, way == "left", "{way}: {scanned}");
    }
}

/// Zeros are alike to the engine's comparisons, but not to its lists of four and more; NaNs are greater than all else, or less with a sign.
#[tokio::test]
async fn floats_compare_as_they_do_in_memory() {
    const SPECIAL: [f64; 9] = [0.0, -0.0, f64::NAN, -f64::NAN, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, 5e-324];
    let rows = 0..3_000;
    let value = |row: usize| (row % 11 != 10).then(|| SPECIAL[(row / 7 + row % 11) % SPECIAL.len()]);
    let wide: Float64Array = rows.clone().map(value).collect();
    let narrow: Float32Array = rows.clone().map(|row| value(row).map(|value| value as f32)).collect();
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("r", Arc::new(Int64Array::from_iter_values(rows.map(|row| row as i64))) as ArrayRef, false),
        ("f", Arc::new(wide) as ArrayRef, true),
        ("g", Arc::new(narrow) as ArrayRef, true),
    ])
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("floats.ent");
    let mut writer = entasis::FileWriter::create(&path, batch.schema(), WriteOptions::default()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    let context = session(2);
    context.register_batch("memory", batch).unwrap();
    let literals = ["0.0", "-0.0", "1.0", "-1.5", "5e-324", "'NaN'::double", "'-inf'::double", "'0'::float"];
    let mut predicates = Vec::new();
    for column in ["f", "g"] {
        for literal in literals {
            for operator in ["=", "<>", "<", "<=", ">", ">="] {
                predicates.push(format!("{column} {operator} {literal}"));
                predicates.push(format!("NOT ({literal} {operator} {column})"));
            }
            predicates.push(format!("{column} BETWEEN {literal} AND 0.5"));
            predicates.push(format!("{column} NOT BETWEEN -0.5 AND {literal}"));
            predicates.push(format!("{column} IN ({literal})"));
            predicates.push(format!("{column} NOT IN ({literal}, 1.0)"));
            predicates.push(format!("{column} IN ({literal}, 5.0, 6.0, 7.0, 8.0)"));
            predicates.push(format!("{column} IS DISTINCT FROM {literal}"));
        }
    }
    for predicate in predicates {
        let query = |table: &str| format!("SELECT r, f, g FROM {table} WHERE {predicate}");
        let expected = sorted_rows(&context, &query("memory")).await;
        let found = sorted_rows(&context, &query(&format!("'{}'", path.display()))).await;
        assert_eq!(found, expected, "{predicate}");
    }
}

/// Runs a query; what a metric of all of its scans adds up to.
async fn measured(context: &SessionContext, query: &str, name: &str) -> (usize, usize) {
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let rows = collect(plan.clone(), context.task_ctx()).await.unwrap().iter().map(|batch| batch.num_rows()).sum();
    let mut found = 0;
    let add = |node: &Arc<dyn ExecutionPlan>| {
        found += node.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize());
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply(add).unwrap();
    (rows, found)
}

#[tokio::test]
async fn predicates_are_answered_by_the_scan_and_left_to_the_engine_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = session(1);
    let table = format!("'{}'", path.display());
    let found =
        plan(&context, &format!("SELECT trip_id FROM {table} WHERE price > 15 AND start_station LIKE 'B%'")).await;
    assert!(!found.contains("FilterExec") && found.contains("predicate="), "{found}");
    for (left, reason) in [
        ("concat(start_station, end_station) = 'x'", "no encoded answer for concat() of several columns"),
        (
            "length(concat(start_station, end_station)) > 30",
            "no encoded answer for character_length() of several columns",
        ),
    ] {
        let found = plan(&context, &format!("SELECT trip_id FROM {table} WHERE price > 15 AND {left}")).await;
        assert!(found.contains("FilterExec") && found.contains(reason), "{found}");
    }
    let found = plan(&context, &format!("SELECT trip_id FROM {table} WHERE random() < 2 AND price > 15")).await;
    assert!(found.contains("FilterExec: random() < 2"), "{found}");
    let query = format!("SELECT trip_id FROM {table} WHERE trip_id < 7400100");
    let (rows, fallen) = measured(&context, &query, "rows_fallen_by_zones").await;
    assert!(rows > 50 && fallen > 30_000, "{rows} {fallen}");
    let query = format!("SELECT trip_id FROM {table} WHERE price > 15");
    let (rows, fallen) = measured(&context, &query, "rows_fallen_encoded").await;
    assert_eq!(rows + fallen, 68_000);
}

#[tokio::test]
async fn bloom_filters_are_written_where_they_are_asked_for_and_spare_lookups_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, path) = (folder.path().join("plain.ent"), folder.path().join("ids.ent"));
    let context = session(1);
    let ids = "SELECT digest(value::varchar, 'md5') AS id, value % 7 AS part FROM generate_series(1, 200000)";
    text(&context, &format!("COPY ({ids}) TO '{}'", plain.display())).await;
    let copy = format!("COPY ({ids}) TO '{}' OPTIONS (format.bloom 'id=0.001, part')", path.display());
    assert!(text(&context, &copy).await.contains("200000"));
    let reader = entasis::Reader::open(&path).unwrap();
    assert!(reader.column(0).unwrap().chunks[0].bloom.is_some());
    for (looked_for, there) in [("digest('77', 'md5')", 1), ("digest('x', 'md5')", 0)] {
        let on = |path: &std::path::Path| format!("SELECT part FROM '{}' WHERE id = {looked_for}", path.display());
        let (rows, fallen) = measured(&context, &on(&path), "rows_fallen_by_blooms").await;
        assert_eq!(rows, there);
        assert!(fallen >= 200_000 - 2 * 65_536 * there, "{fallen} fell");
        let (_, read) = measured(&context, &on(&path), "bytes_scanned").await;
        let (_, read_without) = measured(&context, &on(&plain), "bytes_scanned").await;
        assert!(2 * read < read_without, "{read} and {read_without} bytes");
    }
    // A join with few rows asks as well, while it runs.
    let join = format!(
        "SELECT count(*) FROM (VALUES ('5'), ('y')) v(text) JOIN '{}' t ON t.id = digest(v.text, 'md5')",
        path.display()
    );
    assert!(text(&context, &join).await.contains("| 1 "), "{}", text(&context, &join).await);
    let wrong = format!("COPY ({ids}) TO '{}' OPTIONS (format.bloom 'nothing')", folder.path().join("w.ent").display());
    let error = try_text(&context, &wrong).await.unwrap_err().to_string();
    assert!(error.contains("\"nothing\", which Bloom filters were asked for, names no column"), "{error}");
}

#[tokio::test]
async fn filters_of_joins_and_limits_reach_the_scan_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = session(1);
    let table = format!("'{}'", path.display());
    let query = format!("SELECT trip_id, note FROM {table} ORDER BY trip_id LIMIT 5");
    let (rows, passed) = measured(&context, &query, "rows_passed").await;
    assert!(rows == 5 && passed < 40_000, "{passed} rows passed");
    let query = format!("SELECT t.note FROM (VALUES (7400002), (7400007)) v(id) JOIN {table} t ON t.trip_id = v.id");
    let (rows, passed) = measured(&context, &query, "rows_passed").await;
    assert!(rows == 2 && passed == 2, "{rows} of {passed} rows");
    for query in [
        "SELECT trip_id FROM {} ORDER BY price DESC, trip_id LIMIT 9",
        "SELECT start_station, price FROM {} ORDER BY start_station, price LIMIT 30",
        "SELECT count(*) FROM {} a JOIN {} b ON a.trip_id = b.trip_id AND b.price > 16",
    ] {
        let on = |path: &Path| query.replace("{}", &format!("'{}'", path.display()));
        assert_eq!(sorted_rows(&context, &on(&path)).await, sorted_rows(&context, &on(&sample())).await, "{query}");
    }
}

#[tokio::test]
async fn functions_of_one_column_are_answered_once_per_distinct_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = session(1);
    for predicate in [
        "lower(start_station) = 'bridge lane'",
        "start_station ILIKE '%LANE'",
        "start_station ~ 'L[ai]n'",
        "length(start_station) > 11",
        "upper(end_station) LIKE '%E'",
        "CASE WHEN length(start_station) > 11 THEN start_station > 'M' ELSE start_station < 'M' END",
    ] {
        let query = format!("SELECT trip_id FROM '{}' WHERE {predicate}", path.display());
        assert!(!plan(&context, &query).await.contains("FilterExec"), "{predicate}");
        let (rows, asked) = measured(&context, &query, "values_asked_for_expressions").await;
        assert!(rows > 500 && (1..20_000).contains(&asked), "{predicate}: {rows} rows, {asked} values");
        assert_eq!(measured(&context, &query, "rows_asked_for_expressions").await.1, 0, "{predicate}");
    }
}

/// A condition that changes on the way has nobody asked again about what stays.
#[tokio::test]
async fn what_distinct_values_answered_is_kept_while_a_limit_becomes_stricter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.ent");
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..400_000).map(|row| format!("Text {}", row % 997))));
    let falling: ArrayRef = Arc::new(Int64Array::from_iter_values((0..400_000).rev()));
    let batch = RecordBatch::try_from_iter([("text", texts), ("falling", falling)]).unwrap();
    write(&path, &[batch], WriteOptions::default());
    let context = session(1);
    let query =
        format!("SELECT falling FROM '{}' WHERE lower(text) LIKE '%7' ORDER BY falling LIMIT 3", path.display());
    let (rows, asked) = measured(&context, &query, "values_asked_for_expressions").await;
    assert_eq!((rows, asked), (3, 997));
}

/// What fails for a value that no row has which is left fails no query.
#[tokio::test]
async fn functions_fail_only_for_rows_that_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let context = session(1);
    let count = |predicate: &str| format!("SELECT trip_id FROM '{}' WHERE {predicate}", path.display());
    let kept = count("battery_percent BETWEEN 60 AND 90 AND 1000 / (battery_percent - 50) > 50");
    let expected = count("battery_percent BETWEEN 60 AND 69");
    let (rows, _) = measured(&context, &kept, "rows_passed").await;
    assert_eq!(rows, measured(&context, &expected, "rows_passed").await.0);
    let error = try_text(&context, &count("1000 / (battery_percent - 50) > 50")).await.unwrap_err().to_string();
    assert!(error.contains("Divide by zero"), "{error}");
}

/// Texts and numbers as they come from CSV: of few values and of many, with nulls, empty and beside the point.
fn csv_like(random: &mut Generator, rows: usize) -> RecordBatch {
    let words = ["", "alpha", "Beta", "GAMMA", "delta delta", "ümlaut", "100", "-7", "a%b_c", "x y z"];
    let mut texts = |values: usize, nulls: usize| -> ArrayRef {
        let text = |random: &mut Generator| format!("{}{}", words[random.below(10)], random.below(values));
        let texts = (0..rows).map(|_| (!random.chance(nulls)).then(|| text(random)));
        Arc::new(texts.collect::<StringArray>())
    };
    let (few, many) = (texts(3, 20), texts(100_000, 0));
    let number: ArrayRef =
        Arc::new((0..rows).map(|row| (row % 7 != 2).then_some((row / 40 % 90) as i64 - 30)).collect::<Int64Array>());
    RecordBatch::try_from_iter_with_nullable([("few", few, true), ("many", many, true), ("number", number, true)])
        .unwrap()
}

#[tokio::test]
async fn random_functions_of_random_texts_pass_what_they_pass_on_parquet() {
    fn leaf(random: &mut Generator) -> String {
        let column = ["few", "many"][random.below(2)];
        let text = ["a", "BETA1", "%a%", "ü", "7", ""][random.below(6)];
        match random.below(12) {
            0 => format!("{column} ILIKE '%{text}%'"),
            1 => format!("{column} NOT ILIKE '{text}%'"),
            2 => format!("{column} ~ '{text}[0-2]'"),
            3 => format!("{column} !~* '^{text}'"),
            4 => format!("lower({column}) = lower('{text}2')"),
            5 => format!("length({column}) > {}", random.below(12)),
            6 => format!("coalesce({column}, '{text}') < 'd'"),
            7 => format!("{column} IS DISTINCT FROM '{text}0'"),
            8 => format!("nullif({column}, 'Beta1') IS NULL"),
            9 => format!("number % {} = 1", 2 + random.below(5)),
            10 => "CASE WHEN number < 0 THEN NULL WHEN number > 20 THEN true ELSE false END".to_owned(),
            _ => format!("{column} LIKE '%{text}%'"),
        }
    }
    fn tree(random: &mut Generator, depth: usize) -> String {
        match if depth == 0 { 3 } else { random.below(5) } {
            0 => format!("({} AND {})", tree(random, depth - 1), tree(random, depth - 1)),
            1 => format!("({} OR {})", tree(random, depth - 1), tree(random, depth - 1)),
            2 => format!("NOT ({})", tree(random, depth - 1)),
            _ => format!("({})", leaf(random)),
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (ent, parquet) = (folder.path().join("a.ent"), folder.path().join("a.parquet"));
    let context = session(2);
    let mut random = Generator::new(3);
    let batch = csv_like(&mut random, 12_000);
    write(&ent, std::slice::from_ref(&batch), WriteOptions { row_group_rows: 5_000, ..WriteOptions::default() });
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&parquet).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    for _ in 0..40 {
        let predicate = tree(&mut random, 2);
        let query = |path: &Path| format!("SELECT * FROM '{}' WHERE {predicate}", path.display());
        let expected = sorted_rows(&context, &query(&parquet)).await;
        assert_eq!(sorted_rows(&context, &query(&ent)).await, expected, "{predicate}");
    }
}
