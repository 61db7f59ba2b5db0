//! Two lines put the Parquet files of a program behind the cache: `cargo run --features cache --example cache -- FILE SQL`; the table is `t`.
use datafusion::{common::Result, prelude::SessionContext};
use entasis_cache::{Cache, CacheOptions};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    run(&arguments.next().unwrap_or_default(), &arguments.next().unwrap_or_default()).await.map(|_| ())
}

/// Asks twice, and returns the cache.
pub async fn run(file: &str, sql: &str) -> Result<Cache> {
    let context = SessionContext::new();
    let cache = Cache::new(CacheOptions::default())?;
    entasis_datafusion::cache_tables(&context, &cache);
    context.register_parquet("t", file, Default::default()).await?;
    context.sql(sql).await?.show().await?;
    context.sql(sql).await?.show().await?;
    println!("{:?}", cache.statistics());
    Ok(cache)
}
