//! Files that are damaged, and files that change under a query.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::prelude::SessionContext;
use entasis::WriteOptions;

use common::*;

fn write_numbers(path: &std::path::Path, from: i64) {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..100_000).map(|row| from + row * row % 7919)));
    write(path, &[RecordBatch::try_from_iter([("a", numbers)]).unwrap()], WriteOptions::default());
}

#[tokio::test]
async fn a_corrupt_block_fails_the_query_that_needs_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trips.ent");
    write_sample(&path);
    let reader = entasis::Reader::open(&path).unwrap();
    let price = reader.column(reader.columns_named("price").unwrap()[0]).unwrap();
    let block = price.chunks[1].blocks[0].range();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(block.start + block.end) as usize / 2] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let context = session(1);
    let query = |what: &str| format!("SELECT {what} FROM '{}' WHERE trip_id % 2 = 0", path.display());
    assert_eq!(sorted_rows(&context, &query("count(distance_km)")).await.len(), 1);
    let error = try_text(&context, &query("sum(price)")).await.unwrap_err().to_string();
    assert!(error.contains("trips.ent") && error.contains("price") && error.contains("row group 1"), "{error}");
    assert!(error.contains("at byte"), "{error}");
}

#[tokio::test]
async fn a_file_that_was_replaced_is_noticed_and_then_seen_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.ent");
    write_numbers(&path, 0);
    let context = session(1);
    text(&context, &format!("CREATE EXTERNAL TABLE t STORED AS ENTASIS LOCATION '{}'", path.display())).await;
    let sum = |context: SessionContext| async move { text(&context, "SELECT min(a + 0) FROM t").await };
    assert!(sum(context.clone()).await.contains("| 0 "));
    let planned = context.sql("SELECT sum(a + 0) FROM t").await.unwrap();
    let planned = planned.create_physical_plan().await.unwrap();
    write_numbers(&path, 5000);
    let error = datafusion::physical_plan::collect(planned, context.task_ctx()).await.unwrap_err().to_string();
    assert!(error.contains("t.ent") && error.contains("replaced"), "{error}");
    let found = sum(context).await;
    assert!(found.contains("| 5000 "), "{found}");
}

#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_read_is_noticed() {
    use futures::StreamExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.ent");
    write_numbers(&path, 0);
    let context = session(1);
    let mut rows =
        context.sql(&format!("SELECT a FROM '{}'", path.display())).await.unwrap().execute_stream().await.unwrap();
    assert!(rows.next().await.unwrap().is_ok());
    write_numbers(&path, 5000);
    let error = rows.next().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("replaced"), "{error}");
}
