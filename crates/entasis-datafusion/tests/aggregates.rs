//! Aggregates that scans answer, beside the engine's own on the same rows in memory.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod common;

use std::{path::Path, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, UInt8Array, UInt64Array, types::Int32Type,
};
use common::{plan, session, text, write};
use datafusion::prelude::SessionContext;
use entasis::{WriteOptions, generate::Generator};

const NODE: &str = "EntasisAggregateExec";

/// Values of every type that has aggregates, some of them null.
fn batch(generator: &mut Generator, rows: usize) -> RecordBatch {
    let few = 1 + generator.below(300) as i64;
    let nulls = generator.below(3) * 20;
    let mut value = || (generator.below(100) >= nulls).then(|| generator.below(1 << 20) as i64 % few - few / 3);
    let mut values = || (0..rows).map(|_| value()).collect::<Vec<Option<i64>>>();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ("small", Arc::new(values().into_iter().map(|v| v.map(|v| v as i16)).collect::<Int16Array>())),
        ("narrow", Arc::new(values().into_iter().map(|v| v.map(|v| v as u8)).collect::<UInt8Array>())),
        ("medium", Arc::new(values().into_iter().map(|v| v.map(|v| v as i32 * 1_000)).collect::<Int32Array>())),
        ("wide", Arc::new(values().into_iter().map(|v| v.map(|v| v << 54)).collect::<Int64Array>())),
        ("unsigned", Arc::new(values().into_iter().map(|v| v.map(|v| v as u64)).collect::<UInt64Array>())),
        ("real", Arc::new(values().into_iter().map(|v| v.map(|v| v as f64 / 8.0)).collect::<Float64Array>())),
        ("word", Arc::new(values().into_iter().map(|v| v.map(|v| format!("a word {v}"))).collect::<StringArray>())),
        ("flag", Arc::new(values().into_iter().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>())),
        ("day", Arc::new(values().into_iter().map(|v| v.map(|v| v as i32)).collect::<Date32Array>())),
        ("time", Arc::new(values().into_iter().map(|v| v.map(|v| v * 977)).collect::<TimestampMicrosecondArray>())),
        ("price", Arc::new(values().into_iter().map(|v| v.map(i128::from)).collect::<Decimal128Array>())),
        (
            "kind",
            Arc::new(
                values()
                    .into_iter()
                    .map(|v| v.map(|v| format!("{}", v % 5)))
                    .collect::<Vec<_>>()
                    .iter()
                    .map(Option::as_deref)
                    .collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// A session with the rows as table `memory`, and as table `file` of the files in a folder.
async fn tables(folder: &Path, batches: &[RecordBatch], partitions: usize) -> SessionContext {
    let context = session(partitions);
    context.register_batch("memory", arrow_select(batches)).unwrap();
    let location = folder.display();
    text(&context, &format!("CREATE EXTERNAL TABLE file STORED AS ENTASIS LOCATION '{location}/'")).await;
    context
}

fn arrow_select(batches: &[RecordBatch]) -> RecordBatch {
    datafusion::arrow::compute::concat_batches(&batches[0].schema(), batches).unwrap()
}

/// Asks both tables; whether the scan answered.
async fn agree(context: &SessionContext, select: &str, filter: &str) -> bool {
    let of = |table: &str| format!("SELECT {select} FROM {table} AS t {filter}");
    let (found, expected) = (text(context, &of("file")).await, text(context, &of("memory")).await);
    assert_eq!(found, expected, "SELECT {select} {filter}");
    if !plan(context, &of("file")).await.contains(NODE) {
        return false;
    }
    let frame = context.sql(&of("file")).await.unwrap();
    let schema = frame.schema().as_arrow().clone();
    for batch in frame.collect().await.unwrap() {
        assert_eq!(batch.schema().fields(), schema.fields(), "SELECT {select} {filter}");
    }
    true
}

const FUNCTIONS: [&str; 21] = [
    "COUNT(*)",
    "COUNT(word)",
    "COUNT(real)",
    "SUM(small)",
    "SUM(narrow)",
    "SUM(medium)",
    "SUM(wide)",
    "SUM(unsigned)",
    "SUM(id + 3)",
    "SUM(wide - 77)",
    "SUM(9223372036854775807 + medium)",
    "AVG(small)",
    "AVG(medium)",
    "MIN(small)",
    "MAX(unsigned)",
    "MIN(word)",
    "MAX(word)",
    "MAX(flag)",
    "MIN(day)",
    "MAX(time)",
    "MIN(price)",
];

const FILTERS: [&str; 12] = [
    "",
    "WHERE id >= 100",
    "WHERE id BETWEEN 1000 AND 1010",
    "WHERE small > 5",
    "WHERE small IS NULL",
    "WHERE word LIKE '%1%'",
    "WHERE real < 3.5 AND flag",
    "WHERE kind = '3' OR medium > 0",
    "WHERE id < 0",
    "WHERE word IS NOT NULL AND word <> 'a word 3'",
    "WHERE NOT (narrow = 7)",
    "WHERE id % 7 = 3",
];

#[tokio::test]
async fn random_aggregates_are_those_of_the_engine() {
    let mut answered = 0;
    for seed in 0..6 {
        let mut generator = Generator::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let batches: Vec<RecordBatch> = (0..2)
            .map(|_| {
                let rows = 1 + generator.below(9_000);
                batch(&mut generator, rows)
            })
            .collect();
        for (number, batch) in batches.iter().enumerate() {
            let options = WriteOptions { row_group_rows: 4_096, ..WriteOptions::default() };
            write(&folder.path().join(format!("{number}.ent")), std::slice::from_ref(batch), options);
        }
        let context = tables(folder.path(), &batches, 1 + generator.below(4)).await;
        for _ in 0..25 {
            let count = 1 + generator.below(4);
            let select: Vec<&str> = (0..count).map(|_| FUNCTIONS[generator.below(FUNCTIONS.len())]).collect();
            let select: Vec<String> =
                select.iter().enumerate().map(|(n, function)| format!("{function} AS a{n}")).collect();
            let filter = FILTERS[generator.below(FILTERS.len())];
            answered += usize::from(agree(&context, &select.join(", "), filter).await);
        }
    }
    assert!(answered > 80, "{answered} of 150 were answered by scans");
}

#[tokio::test]
async fn what_a_scan_cant_answer_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let batches = [batch(&mut Generator::new(9), 3_000)];
    write(&folder.path().join("a.ent"), &batches, WriteOptions::default());
    let context = tables(folder.path(), &batches, 2).await;
    for (select, filter) in [
        ("SUM(DISTINCT small)", ""),
        ("SUM(small) FILTER (WHERE flag)", "WHERE id > 3"),
        ("SUM(real), MIN(real)", "WHERE id > 3"),
        ("SUM(small * 2)", "WHERE id > 3"),
        ("SUM(price)", "WHERE id > 3"),
        ("MIN(kind)", "WHERE id > 3"),
        ("COUNT(kind)", "WHERE id > 3"),
        ("SUM(small), COUNT(*)", "WHERE small + id < medium * 3"),
        ("COUNT(*)", "WHERE random() < 2 AND id > 3"),
    ] {
        agree(&context, select, filter).await;
    }
    for left in ["SUM(DISTINCT small)", "SUM(small) FILTER (WHERE flag)", "MIN(real)", "SUM(small * 2)", "MIN(kind)"] {
        let found = plan(&context, &format!("SELECT {left} FROM file WHERE id > 3")).await;
        assert!(!found.contains(NODE), "{found}");
    }
    let limited = "SELECT SUM(small) FROM (SELECT small FROM file LIMIT 10)";
    let found = plan(&context, limited).await;
    assert!(!found.contains(NODE), "{found}");
    let found = plan(&context, "SELECT SUM(small) FROM file WHERE id > 3").await;
    assert!(found.contains("EntasisAggregateExec: mode=") && found.contains("answered_by_the_scan=[sum("), "{found}");
}

/// Values that are folders' names, columns that a file lacks, and narrower ones.
#[tokio::test]
async fn files_that_differ_are_answered_or_read() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, columns: Vec<(&str, ArrayRef)>| {
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)));
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        write(&path, &[batch.unwrap()], WriteOptions::default());
    };
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None, Some(i64::MAX)]));
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![Some(-7), Some(9)]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["x", "b"]));
    make("year=2024/a.ent", vec![("number", wide), ("word", Arc::new(StringArray::from(vec!["c", "d", "e"])))]);
    make("year=2025/a.ent", vec![("number", narrow), ("word", words.clone())]);
    make("year=2026/a.ent", vec![("word", words)]);
    let context = session(2);
    let location = folder.path().display();
    text(
        &context,
        &format!("CREATE EXTERNAL TABLE file STORED AS ENTASIS PARTITIONED BY (year) LOCATION '{location}/'"),
    )
    .await;
    text(
        &context,
        "CREATE TABLE memory AS SELECT * FROM (VALUES (5, 'c', '2024'), (NULL, 'd', '2024'), (9223372036854775807, 'e', '2024'),
         (-7, 'x', '2025'), (9, 'b', '2025'), (NULL, 'x', '2026'), (NULL, 'b', '2026')) AS t(number, word, year)",
    )
    .await;
    let numbers = "COUNT(*), COUNT(number), MIN(number), MAX(number), SUM(number), SUM(number + 1)";
    for filter in ["", "WHERE year > '2024'", "WHERE word > 'b'", "WHERE number IS NULL", "WHERE year = '2026'"] {
        for select in [numbers, "MIN(word), MAX(word)", "MIN(year), MAX(year), COUNT(year)", "AVG(number - 9)"] {
            let of = |table: &str| format!("SELECT {select} FROM {table} {filter}");
            let body = |text: String| {
                text.lines()
                    .filter(|line| line.starts_with('|'))
                    .skip(1)
                    .map(|line| line.replace(' ', ""))
                    .collect::<Vec<_>>()
            };
            let (found, expected) =
                (body(text(&context, &of("file")).await), body(text(&context, &of("memory")).await));
            assert_eq!(found, expected, "{select} {filter}");
        }
    }
    assert!(plan(&context, &format!("SELECT {numbers} FROM file WHERE word > 'b'")).await.contains(NODE));
}

#[tokio::test]
async fn metrics_say_what_was_told_by_zones() {
    let folder = tempfile::tempdir().unwrap();
    let rows = 3 * 65_536;
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row * row % 1_000_003)));
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    let batches = [RecordBatch::try_from_iter([("id", id), ("number", number)]).unwrap()];
    write(&folder.path().join("a.ent"), &batches, WriteOptions::default());
    let context = tables(folder.path(), &batches, 1).await;
    assert!(agree(&context, "SUM(number), COUNT(*), MAX(id)", "WHERE id >= 65000").await);
    let explained =
        text(&context, "EXPLAIN ANALYZE SELECT SUM(number), COUNT(*), MAX(id) FROM file WHERE id >= 65000").await;
    let count = |name: &str| {
        let rest = explained.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{name} in {explained}"));
        rest.split([',', ']']).next().unwrap_or_default().to_owned()
    };
    // Of both columns two blocks of three.
    assert_eq!(count("values_aggregated_by_zones"), "262.1 K", "{explained}");
    assert_eq!(count("rows_passed"), "131.6 K");
    // Of the block that some rows of passed, one vector of each column.
    assert_eq!(count("values_decoded_for_aggregates"), "2.05 K");
}
