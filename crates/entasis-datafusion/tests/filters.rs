//! Predicates that the scan answers: what passes is what passes on Parquet.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::path::Path;

use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    physical_plan::{ExecutionPlan, collect},
    prelude::SessionContext,
};
use entasis::generate::Generator;

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

/// Runs a query; what a metric of all of its scans adds up to.
async fn measured(context: &SessionContext, query: &str, name: &str) -> (usize, usize) {
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    let rows = collect(plan.clone(), context.task_ctx()).await.unwrap().iter().map(|batch| batch.num_rows()).sum();
    let mut found = 0;
    let add = |node: &std::sync::Arc<dyn ExecutionPlan>| {
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
    let found =
        plan(&context, &format!("SELECT trip_id FROM {table} WHERE price > 15 AND length(start_station) > 20")).await;
    assert!(found.contains("FilterExec") && found.contains("no encoded answer for character_length()"), "{found}");
    let query = format!("SELECT trip_id FROM {table} WHERE trip_id < 7400100");
    let (rows, fallen) = measured(&context, &query, "rows_fallen_by_zones").await;
    assert!(rows > 50 && fallen > 30_000, "{rows} {fallen}");
    let query = format!("SELECT trip_id FROM {table} WHERE price > 15");
    let (rows, fallen) = measured(&context, &query, "rows_fallen_encoded").await;
    assert_eq!(rows + fallen, 68_000);
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
