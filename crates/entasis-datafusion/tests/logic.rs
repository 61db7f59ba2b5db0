//! SQL logic tests: what queries answer on tables of `.ent` files, beside what they answer on tables in memory.
//!
//! Those of the folder `logic` are this project's. `ENTASIS_LOGIC_TESTS` names a folder of others, DataFusion's for instance
//! (`datafusion/sqllogictest/test_files`): what passes in memory must pass on files. Plans aren't compared, as they name what they read.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod common;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow_array::{Array, RecordBatch, cast::AsArray, types::*};
use arrow_schema::DataType;
use datafusion::{
    arrow::util::display::{ArrayFormatter, FormatOptions},
    common::{DataFusionError, Result},
    prelude::SessionContext,
};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Record, Runner, parse_file};
use tempfile::TempDir;

/// A session whose tables lie in memory, or, once they are created, in files.
struct Tables {
    context: SessionContext,
    folder: Option<Arc<TempDir>>,
    stored: usize,
}

impl Tables {
    fn new(folder: Option<Arc<TempDir>>) -> Self {
        Self { context: common::session(2), folder, stored: 0 }
    }

    /// Moves a table that was just created to a folder of files; one without rows stays where it is, as nothing would be written.
    async fn store(&mut self, table: &str) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        if self.context.sql(&format!("SELECT 1 FROM {table} LIMIT 1")).await?.count().await? == 0 {
            return Ok(());
        }
        self.stored += 1;
        let location = folder.path().join(self.stored.to_string());
        let location = location.display();
        for statement in [
            format!("COPY {table} TO '{location}/1.ent' STORED AS ENTASIS"),
            format!("DROP TABLE {table}"),
            format!("CREATE EXTERNAL TABLE {table} STORED AS ENTASIS LOCATION '{location}/'"),
        ] {
            self.context.sql(&statement).await?.collect().await?;
        }
        Ok(())
    }
}

/// The name in `CREATE TABLE name …`.
fn created_table(sql: &str) -> Option<&str> {
    let mut words = sql.split_whitespace();
    let is = |word: Option<&str>, wanted: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(wanted));
    if !is(words.next(), "create") || !is(words.next(), "table") {
        return None;
    }
    let mut name = words.next()?;
    if name.eq_ignore_ascii_case("if") {
        name = words.nth(2)?;
    }
    name.split(['(', ';']).next()
}

#[async_trait::async_trait]
impl AsyncDB for Tables {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        let frame = self.context.sql(sql).await?;
        let types = vec![DefaultColumnType::Any; frame.schema().fields().len()];
        let batches = frame.collect().await?;
        if let Some(table) = created_table(sql) {
            self.store(table).await?;
        }
        if types.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let mut rows = Vec::new();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                rows.push(cells(batch, row)?);
            }
        }
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "DataFusion"
    }
}

/// Values as DataFusion's own tests write them.
fn cells(batch: &RecordBatch, row: usize) -> Result<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let cell = |column: &Arc<dyn Array>| -> Result<String> {
        let float = match column.data_type() {
            _ if column.is_null(row) => None,
            DataType::Float64 => Some(column.as_primitive::<Float64Type>().value(row)),
            DataType::Float32 => Some(f64::from(column.as_primitive::<Float32Type>().value(row))),
            _ => None,
        };
        Ok(match float {
            Some(float) if float.is_finite() => format!("{}", (float * 1e9).round() / 1e9),
            _ => match ArrayFormatter::try_new(column, &options)?.value(row).to_string() {
                empty if empty.is_empty() => "(empty)".to_owned(),
                shown => shown,
            },
        })
    };
    batch.columns().iter().map(cell).collect()
}

/// True of what says how a query is run, and of commands to a shell.
fn is_left_out(record: &Record<DefaultColumnType>) -> bool {
    if matches!(record, Record::System { .. }) {
        return true;
    }
    let (Record::Query { sql, .. } | Record::Statement { sql, .. }) = record else { return false };
    sql.trim_start().get(..7).is_some_and(|word| word.eq_ignore_ascii_case("explain"))
}

/// Runs a file on tables in memory and on files; how many of its records passed on both, how many don't pass in memory, and what went
/// wrong on files alone.
async fn run(file: &Path) -> (usize, usize, Vec<String>) {
    let folder = Arc::new(tempfile::tempdir().unwrap());
    let mut in_memory = Runner::new(|| async { Ok(Tables::new(None)) });
    let mut on_files = Runner::new(|| async { Ok(Tables::new(Some(folder.clone()))) });
    let (mut passed, mut not_in_memory, mut failures) = (0, 0, Vec::new());
    for record in parse_file::<DefaultColumnType>(file).unwrap() {
        if is_left_out(&record) {
            continue;
        }
        let is_asked = matches!(record, Record::Query { .. } | Record::Statement { .. });
        let (expected, found) = (in_memory.run_async(record.clone()).await, on_files.run_async(record).await);
        match (expected, found) {
            (Ok(_), Ok(_)) => passed += usize::from(is_asked),
            (Err(_), _) => not_in_memory += 1,
            (Ok(_), Err(error)) => failures.push(error.to_string()),
        }
    }
    (passed, not_in_memory, failures)
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "slt")).collect();
    files.sort();
    files
}

#[tokio::test]
async fn queries_answer_on_files_what_they_should() {
    let files = files_of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/logic"));
    assert!(files.len() >= 6, "{files:?}");
    for file in files {
        let (passed, not_in_memory, failures) = run(&file).await;
        assert!(failures.is_empty() && not_in_memory == 0, "{}: {not_in_memory} {failures:#?}", file.display());
        assert!(passed >= 10, "{}: {passed}", file.display());
    }
}

#[tokio::test]
async fn what_others_ask_is_answered_on_files_as_in_memory() {
    let Some(folder) = std::env::var_os("ENTASIS_LOGIC_TESTS") else { return };
    let mut all = Vec::new();
    for file in files_of(Path::new(&folder)) {
        let (passed, not_in_memory, failures) = run(&file).await;
        println!("{}: {passed} pass, {not_in_memory} fail in memory, {} on files", file.display(), failures.len());
        all.extend(failures);
    }
    assert!(all.is_empty(), "{all:#?}");
}
