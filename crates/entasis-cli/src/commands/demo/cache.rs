//! `entasis demo cache`

use std::sync::Arc;
use std::time::Instant;

use arrow_array::{RecordBatch, RecordBatchReader};
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::object_store::{ObjectStoreExt, path::Path};
use datafusion::prelude::{SessionConfig, SessionContext};
use entasis::{WriteOptions, Writer};
use entasis_cache::{Cache, CacheOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::json;
use tokio::runtime::Builder;

use super::super::Report;
use super::super::bench::cpu_seconds;
use super::super::sql::failure;
use super::TRIPS;
use super::slow::{BYTES_PER_SECOND, LATENCY, Slow};
use crate::exit::{Exit, Failure};
use crate::table::Table;
use crate::units;

const QUERY: &str = "SELECT start_station, count(*) AS trips, avg(price) AS price FROM trips \
    WHERE note LIKE '%broken%' AND distance_km > 1 GROUP BY start_station ORDER BY trips DESC, start_station";

/// What one run took.
struct Taken {
    run: &'static str,
    seconds: f64,
    cpu_seconds: f64,
    requests: u64,
    bytes: u64,
}

/// Runs the query on plain Parquet, and then behind the cache, cold and warm; then the same on an `.ent` file.
pub fn run(report: &mut Report<'_>) -> Result<Exit, Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let cache = Cache::new(CacheOptions { transcoders: 0, ..CacheOptions::default() })?;
    let ent = ent_of(TRIPS).map_err(|error| failure(&error))?;
    let runs = runtime.block_on(run_all(&cache, ent)).map_err(|error| failure(&error))?;
    let Some(runs) = runs else {
        let message = "the answers differ".to_owned();
        return Err(Failure::Told { exit: Exit::Different, message });
    };
    if report.json {
        let runs: Vec<_> = runs
            .iter()
            .map(|taken| {
                json!({
                    "run": taken.run,
                    "seconds": taken.seconds,
                    "cpu_seconds": taken.cpu_seconds,
                    "requests": taken.requests,
                    "bytes": taken.bytes,
                })
            })
            .collect();
        let (latency, speed) = (LATENCY.as_secs_f64(), BYTES_PER_SECOND);
        report.json(&json!({ "query": QUERY, "latency_seconds": latency, "bytes_per_second": speed, "runs": runs }))?;
        return Ok(Exit::Good);
    }
    writeln!(report.out, "{QUERY}\n")?;
    writeln!(
        report.out,
        "On files in a store that takes {} to answer and sends {} a second; all answers are equal.\n",
        units::seconds(LATENCY.as_secs_f64()),
        units::bytes(BYTES_PER_SECOND),
    )?;
    let mut table = Table::new(&["", ">time", ">CPU", ">requests", ">bytes"]);
    for taken in runs {
        table.row(vec![
            taken.run.to_owned(),
            units::seconds(taken.seconds),
            units::seconds(taken.cpu_seconds),
            units::grouped(taken.requests),
            units::grouped(taken.bytes),
        ]);
    }
    table.print(report.out)?;
    writeln!(
        report.out,
        "\nTry next:\n  entasis sql --cache 1GiB\n  entasis bench cache FOLDER_OF_PARQUET QUERIES.sql"
    )?;
    Ok(Exit::Good)
}

/// Nothing if the answers differ.
async fn run_all(cache: &Cache, ent: Vec<u8>) -> Result<Option<Vec<Taken>>, DataFusionError> {
    let store = Arc::new(Slow::default());
    store.put(&Path::from("trips.parquet"), TRIPS.into()).await?;
    store.put(&Path::from("trips.ent"), ent.into()).await?;
    let mut runs = Vec::new();
    let mut answers = Vec::new();
    let parquet = ["behind the cache, cold", "the second time", "from blocks"];
    let ent = ["behind the cache, cold", "the second time"];
    for (kind, plain, behind) in [("PARQUET", "plain Parquet", &parquet[..]), ("ENTASIS", "an .ent file", &ent)] {
        let (found, taken) = timed(plain, &context(&store, kind, None).await?, &store).await?;
        answers.push(found);
        runs.push(taken);
        let cached = context(&store, kind, Some(cache)).await?;
        for run in behind {
            while *run == "from blocks" && cache.transcode_one() {}
            let (found, taken) = timed(run, &cached, &store).await?;
            answers.push(found);
            runs.push(taken);
        }
    }
    Ok(answers.windows(2).all(|pair| pair[0] == pair[1]).then_some(runs))
}

async fn context(store: &Arc<Slow>, kind: &str, cache: Option<&Cache>) -> Result<SessionContext, DataFusionError> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    entasis_datafusion::register(&context)?;
    let url = url::Url::parse("far://away/").map_err(|error| DataFusionError::External(Box::new(error)))?;
    context.register_object_store(&url, store.clone());
    if let Some(cache) = cache {
        entasis_datafusion::cache_tables(&context, cache);
    }
    let file = if kind == "PARQUET" { "trips.parquet" } else { "trips.ent" };
    let create = format!("CREATE EXTERNAL TABLE trips STORED AS {kind} LOCATION 'far://away/{file}'");
    context.sql(&create).await?.collect().await?;
    Ok(context)
}

/// The rows of a Parquet file as an `.ent` file.
fn ent_of(parquet: &'static [u8]) -> Result<Vec<u8>, DataFusionError> {
    let failure = |error: entasis::Error| DataFusionError::External(Box::new(error));
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from_static(parquet))?.build()?;
    let schema = RecordBatchReader::schema(&reader);
    let mut writer = Writer::new(Vec::new(), schema, WriteOptions::default()).map_err(failure)?;
    for batch in reader {
        writer.write(&batch?).map_err(failure)?;
    }
    Ok(writer.finish().map_err(failure)?.0)
}

async fn timed(
    run: &'static str,
    context: &SessionContext,
    store: &Slow,
) -> Result<(Vec<RecordBatch>, Taken), DataFusionError> {
    store.take_counts();
    let (begin, begin_cpu) = (Instant::now(), cpu_seconds());
    let found = context.sql(QUERY).await?.collect().await?;
    let (seconds, cpu_seconds) = (begin.elapsed().as_secs_f64(), cpu_seconds() - begin_cpu);
    let (requests, bytes) = store.take_counts();
    Ok((found, Taken { run, seconds, cpu_seconds, requests, bytes }))
}
