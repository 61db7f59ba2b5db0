//! What the tests share.
#![allow(dead_code, reason = "every test uses some of it")]
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use datafusion::{
    arrow::util::pretty::pretty_format_batches,
    execution::{runtime_env::RuntimeEnvBuilder, session_state::SessionStateBuilder},
    prelude::{SessionConfig, SessionContext},
};
use entasis::{FileWriter, WriteOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// A session that knows `.ent` files, with so many partitions, of files however small.
pub fn session(partitions: usize) -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(partitions).with_information_schema(true);
    config.options_mut().optimizer.repartition_file_min_size = 1;
    of_config(config, RuntimeEnvBuilder::new())
}

/// A session with this configuration.
pub fn of_config(config: SessionConfig, runtime: RuntimeEnvBuilder) -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime.build_arc().unwrap())
        .with_default_features()
        .build();
    let context = SessionContext::new_with_state(state).enable_url_table();
    entasis_datafusion::register(&context).unwrap();
    context
}

/// The sample table as Parquet.
pub fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/trips.parquet").canonicalize().unwrap()
}

/// All rows of a Parquet file.
pub fn parquet_batches(path: &Path) -> Vec<RecordBatch> {
    let file = std::fs::File::open(path).unwrap();
    ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap().map(Result::unwrap).collect()
}

/// Writes batches of one schema as a `.ent` file.
pub fn write(path: &Path, batches: &[RecordBatch], options: WriteOptions) {
    let schema = Arc::new(Schema::new(batches[0].schema().fields().clone()));
    let mut writer = FileWriter::create(path, schema.clone(), options).unwrap();
    for batch in batches {
        writer.write(&batch.clone().with_schema(schema.clone()).unwrap()).unwrap();
    }
    writer.finish().unwrap();
}

/// Writes the sample table as a `.ent` file of several row groups.
pub fn write_sample(path: &Path) {
    write(path, &parquet_batches(&sample()), WriteOptions { row_group_rows: 30_000, ..WriteOptions::default() });
}

/// The answer to a query, as text.
pub async fn text(context: &SessionContext, query: &str) -> String {
    match try_text(context, query).await {
        Ok(text) => text,
        Err(error) => panic!("{query}: {error}"),
    }
}

/// The answer to a query, as text, or why there is none.
pub async fn try_text(context: &SessionContext, query: &str) -> datafusion::common::Result<String> {
    let batches = context.sql(query).await?.collect().await?;
    Ok(pretty_format_batches(&batches)?.to_string())
}

/// The rows of an answer, each as text with `|` around values, in order of their text.
pub async fn sorted_rows(context: &SessionContext, query: &str) -> Vec<String> {
    let text = text(context, query).await;
    let cells = |line: &str| line.split('|').map(str::trim).collect::<Vec<_>>().join("|");
    let mut rows: Vec<String> = text.lines().filter(|line| line.starts_with('|')).skip(1).map(cells).collect();
    rows.sort();
    rows
}

/// The physical plan of a query.
pub async fn plan(context: &SessionContext, query: &str) -> String {
    let plan = context.sql(query).await.unwrap().create_physical_plan().await.unwrap();
    datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string()
}
