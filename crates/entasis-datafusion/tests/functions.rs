//! Functions of strings that scans evaluate once per distinct value, beside the engine's own on the same rows in memory.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod common;

use std::{fs::File, path::Path, sync::Arc};

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, StructArray};
use common::{plan, session, sorted_rows, try_text, write};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    parquet::arrow::ArrowWriter,
    physical_plan::{ExecutionPlan, collect},
    prelude::SessionContext,
};
use entasis::{WriteOptions, generate::Generator};

/// Strings that repeat: long, short, null, in structs and as bytes; and others that don't.
fn batch(generator: &mut Generator, rows: usize) -> RecordBatch {
    let mut words = |nulls: u64, few: u64| -> Vec<Option<String>> {
        let mut word = || {
            let word = generator.below(few as usize);
            let filler = "-".repeat(word % 23);
            (generator.below(100) as u64 >= nulls).then(|| format!("{word}/{filler}/Ä {}", word % 7))
        };
        (0..rows).map(|_| word()).collect()
    };
    let (word, null, other) = (words(0, 150), words(30, 40), words(10, 90));
    let unique = (0..rows).map(|row| format!("https://example.com/{row}/{}", row * 7919 % 1_000));
    let number = (0..rows).map(|_| Some(generator.below(1_000) as i64));
    let bytes: BinaryArray = word.iter().map(|word| word.as_ref().map(String::as_bytes)).collect();
    let inner: ArrayRef = Arc::new(StringArray::from(other));
    let field = arrow_schema::Field::new("part", inner.data_type().clone(), true);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("word", Arc::new(StringArray::from(word))),
        ("hole", Arc::new(StringArray::from(null))),
        ("one", Arc::new(StringArray::from_iter_values(unique))),
        ("number", Arc::new(number.collect::<Int64Array>())),
        ("bytes", Arc::new(bytes)),
        ("of", Arc::new(StructArray::from(vec![(Arc::new(field), inner)]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// A session with the rows as tables `memory`, `ent` and, behind a cache, `parquet`.
async fn tables(folder: &Path, rows: usize) -> SessionContext {
    let batch = batch(&mut Generator::new(7), rows);
    let context = session(2);
    write(
        &folder.join("t.ent"),
        &[batch.slice(0, rows / 3), batch.slice(rows / 3, rows - rows / 3)],
        WriteOptions::default(),
    );
    let mut parquet =
        ArrowWriter::try_new(File::create(folder.join("t.parquet")).unwrap(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    parquet.close().unwrap();
    #[cfg(feature = "cache")]
    {
        let cache = entasis_cache::Cache::new(entasis_cache::CacheOptions::default()).unwrap();
        entasis_datafusion::cache_tables(&context, &cache);
    }
    context.register_batch("memory", batch).unwrap();
    for (name, format) in [("ent", "ENTASIS"), ("parquet", "PARQUET")] {
        let path = folder.join(format!("t.{name}"));
        let create = format!("CREATE EXTERNAL TABLE {name} STORED AS {format} LOCATION '{}'", path.display());
        try_text(&context, &create).await.unwrap();
    }
    context
}

/// Runs a query; what a metric of all of its scans adds up to.
async fn counted(context: &SessionContext, query: &str, name: &str) -> usize {
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    collect(plan.clone(), context.task_ctx()).await.unwrap();
    let mut found = 0;
    let add = |node: &Arc<dyn ExecutionPlan>| {
        found += node.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize());
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply(add).unwrap();
    found
}

const FUNCTIONS: [&str; 14] = [
    "regexp_replace(word, '^([0-9]+)/.*$', '\\1')",
    "upper(word)",
    "CASE WHEN word LIKE '%3%' THEN length(word) ELSE -1 END",
    "word LIKE '%Ä 3'",
    "coalesce(hole, 'nothing')",
    "CAST(split_part(hole, '/', 1) AS BIGINT) + 1",
    "hole LIKE '1%' OR hole IS NULL",
    "substr(one, 1, 22)",
    "lower(one)",
    "md5(word)",
    "sha256(bytes)",
    "upper(of['part'])",
    "concat(word, hole)",
    "nullif(word, '1/-/Ä 1')",
];

#[tokio::test]
async fn groups_by_functions_and_aggregates_of_them_are_the_engines() {
    let folder = tempfile::tempdir().unwrap();
    let context = tables(folder.path(), 30_000).await;
    for function in FUNCTIONS {
        for (select, rest) in [
            (format!("{function} AS k, count(*), sum(number)"), "GROUP BY k"),
            (format!("{function} AS k, max({function}), min(word)"), "WHERE number < 300 GROUP BY k"),
            (format!("number % 5 AS n, count(DISTINCT {function}), min({function})"), "GROUP BY n"),
            (format!("number % 3 AS n, max({function}) FILTER (WHERE word > '5')"), "WHERE hole <> '' GROUP BY n"),
            (format!("{function} AS k"), "WHERE number BETWEEN 10 AND 20"),
            (format!("number, {function} AS k"), "ORDER BY number, k LIMIT 50"),
        ] {
            let of = |table: &str| format!("SELECT {select} FROM {table} {rest}");
            let expected = sorted_rows(&context, &of("memory")).await;
            assert!(expected.len() > 1, "{select} {rest}");
            for table in ["ent", "parquet", "parquet"] {
                assert_eq!(sorted_rows(&context, &of(table)).await, expected, "{}", of(table));
            }
        }
    }
}

#[tokio::test]
async fn functions_see_distinct_values_where_strings_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let context = tables(folder.path(), 60_000).await;
    let query = "SELECT regexp_replace(word, '^([0-9]+)/.*$', '\\1') AS k, count(*) FROM ent GROUP BY k";
    assert!(plan(&context, query).await.contains("projection=[word, regexp_replace(word"), "the scan computes it");
    let (rows, values) =
        (counted(&context, query, "rows_computed_by_values").await, counted(&context, query, "values_computed").await);
    // Each partition evaluates one batch row by row, to compare.
    assert!(rows >= 60_000 - 2 * 8192, "{rows}");
    assert!(values * 20 < rows, "{values} of {rows}");
    let unique = "SELECT substr(one, 1, 22) AS k, count(*) FROM ent GROUP BY k";
    assert_eq!(counted(&context, unique, "rows_computed_by_values").await, 0, "all values differ");
}

#[tokio::test]
async fn only_values_that_are_left_are_evaluated_and_their_errors_reported() {
    let folder = tempfile::tempdir().unwrap();
    let context = tables(folder.path(), 20_000).await;
    for table in ["ent", "parquet"] {
        let of = |filter: &str| {
            format!(
                "SELECT 10 / (CAST(split_part(word, '/', 1) AS BIGINT) - 5) AS k, count(*) FROM {table} {filter} GROUP BY k"
            )
        };
        let error = try_text(&context, &of("")).await.unwrap_err();
        assert!(error.to_string().to_lowercase().contains("divide by zero"), "{error}");
        let found = sorted_rows(&context, &of("WHERE word NOT LIKE '5/%'")).await;
        assert!(found.len() > 3, "{found:?}");
    }
}

#[tokio::test]
async fn what_changes_from_row_to_row_is_evaluated_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let context = tables(folder.path(), 20_000).await;
    let query = "SELECT concat(word, CAST(random() AS VARCHAR)) AS k FROM ent GROUP BY k";
    let rows = sorted_rows(&context, query).await.len();
    assert!(rows > 19_990, "{rows}");
}
