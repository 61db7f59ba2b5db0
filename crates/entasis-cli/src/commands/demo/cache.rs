//! `entasis demo cache`

use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::object_store::{ObjectStoreExt, path::Path};
use datafusion::prelude::{SessionConfig, SessionContext};
use entasis_cache::{Cache, CacheOptions};
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

/// Runs the query on plain Parquet, and then behind the cache, cold and warm.
pub fn run(report: &mut Report<'_>) -> Result<Exit, Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let cache = Cache::new(CacheOptions { transcoders: 0, ..CacheOptions::default() })?;
    let runs = runtime.block_on(run_all(&cache)).map_err(|error| failure(&error))?;
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
        "On Parquet in a store that takes {} to answer and sends {} a second; all answers are equal.\n",
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
async fn run_all(cache: &Cache) -> Result<Option<Vec<Taken>>, DataFusionError> {
    let store = Arc::new(Slow::default());
    store.put(&Path::from("trips.parquet"), TRIPS.into()).await?;
    let plain = context(&store).await?;
    let cached = context(&store).await?;
    entasis_datafusion::cache_parquet(&cached, cache);
    let mut runs = Vec::new();
    let (expected, taken) = timed("plain Parquet", &plain, &store).await?;
    runs.push(taken);
    for run in ["behind the cache, cold", "the second time", "from blocks"] {
        if run == "from blocks" {
            while cache.transcode_one() {}
        }
        let (found, taken) = timed(run, &cached, &store).await?;
        if found != expected {
            return Ok(None);
        }
        runs.push(taken);
    }
    Ok(Some(runs))
}

async fn context(store: &Arc<Slow>) -> Result<SessionContext, DataFusionError> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let url = url::Url::parse("far://away/").map_err(|error| DataFusionError::External(Box::new(error)))?;
    context.register_object_store(&url, store.clone());
    context.register_parquet("trips", "far://away/trips.parquet", Default::default()).await?;
    Ok(context)
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
