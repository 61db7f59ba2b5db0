//! A Parquet file, read through the cache without any engine: `cargo run --example query -p entasis-cache -- FILE COLUMN LEAST`
//!
//! Twice yields the rows whose COLUMN, of whole numbers, is at least LEAST: from the file, and from blocks.

use std::error::Error;
use std::sync::Arc;

use entasis::scan::Condition;
use entasis_cache::read::{ParquetFile, ParquetRequest, ReadMetrics};
use entasis_cache::{Cache, CacheOptions};
use entasis_encoding::{Comparison, FloatOrder, Predicate, Scalar};
use object_store::local::LocalFileSystem;
use object_store::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, column, least] = arguments.as_slice() else {
        return Err("usage: query FILE COLUMN LEAST".into());
    };
    run(file, column, least.parse()?)?;
    Ok(())
}

/// What each of both queries found and did.
pub fn run(file: &str, column: &str, least: i128) -> Result<Vec<(usize, ReadMetrics)>, Box<dyn Error>> {
    let least = Predicate::Compare(Comparison::GreaterOrEqual, Scalar::Int(least), FloatOrder::default());
    let cache = Cache::new(CacheOptions { memory_bytes: 256 << 20, ..CacheOptions::default() })?;
    let mut found = Vec::new();
    for round in ["from Parquet", "from the cache"] {
        let (rows, metrics) = futures::executor::block_on(query(&cache, file, column, least.clone()))?;
        println!("{round}: {rows} rows; {metrics:?}");
        found.push((rows, metrics));
        // Queries needn't wait for blocks; this one does, to show them.
        while cache.statistics().pages_cells > 0 {
            if !cache.transcode_one() {
                // One of the cache's own threads has the last.
                std::thread::yield_now();
            }
        }
    }
    println!("{:?}", cache.statistics());
    Ok(found)
}

async fn query(
    cache: &Cache,
    file: &str,
    column: &str,
    predicate: Predicate,
) -> Result<(usize, ReadMetrics), Box<dyn Error>> {
    let store = Arc::new(LocalFileSystem::new());
    let file = ParquetFile::open(cache, store, "file://", &Path::from_filesystem_path(file)?).await?;
    let condition = Condition::column(file.schema().index_of(column)?, predicate);
    let mut rows = file.read(&ParquetRequest { condition, ..ParquetRequest::default() })?;
    let mut count = 0;
    while let Some(batch) = rows.next().await? {
        count += batch.num_rows();
    }
    Ok((count, rows.metrics()))
}
