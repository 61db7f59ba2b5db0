//! Which tables are behind the cache: of Parquet, all that a query of the session names.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult},
    },
    datasource::{
        DefaultTableSource, file_format::parquet::ParquetFormat, listing::ListingTable, provider_as_source,
        source_as_provider,
    },
    logical_expr::LogicalPlan,
    optimizer::AnalyzerRule,
    prelude::SessionContext,
};
use entasis_cache::Cache;

use super::{
    far::SessionCache,
    table::{CachedTable, Known},
};
use crate::{output::EvaluateInScans, predicates::ScanOptions, rules::add_rule};

/// Puts the files of a session behind a cache: all tables of Parquet files, those that it has and those that it will have, however they are named:
/// `register_parquet`, `CREATE EXTERNAL TABLE … STORED AS PARQUET`, `'x.parquet'`; and `.ent` files, if the session knows them ([`register`](crate::register)),
/// in stores that aren't this machine's disk. What is behind it, and why something isn't, is in plans.
/// The session's caches of listings and statistics are switched off, for they would hide objects that were overwritten.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("cities.parquet").display().to_string();
/// # let context = datafusion::prelude::SessionContext::new();
/// # context.sql(&format!("COPY (VALUES ('Paestum', 50), ('Segesta', 36)) TO '{path}'")).await?.collect().await?;
/// let cache = entasis_cache::Cache::new(entasis_cache::CacheOptions::default())?;
/// entasis_datafusion::cache_tables(&context, &cache);
/// # context.register_parquet("cities", &path, Default::default()).await?;
/// # let found = context.sql("SELECT column1 FROM cities WHERE column2 > 40").await?.collect().await?;
/// # assert_eq!(found.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
/// # assert!(cache.statistics().used_bytes > 0);
/// # Ok(())
/// # }
/// ```
pub fn cache_tables(context: &SessionContext, cache: &Cache) {
    let manager = &context.runtime_env().cache_manager;
    if let Some(listings) = manager.get_list_files_cache() {
        listings.update_cache_limit(0);
    }
    if let Some(statistics) = manager.get_file_statistic_cache() {
        statistics.update_cache_limit(0);
    }
    let state = context.state_ref();
    let mut state = state.write();
    ScanOptions::register(state.config_mut().options_mut());
    state.config_mut().set_extension(Arc::new(SessionCache::new(cache)));
    add_rule(&mut state, EvaluateInScans);
    drop(state);
    context.add_analyzer_rule(Arc::new(CacheParquet { cache: cache.clone(), known: Arc::default() }));
}

/// Replaces tables of Parquet files in plans.
#[derive(Debug)]
struct CacheParquet {
    cache: Cache,
    known: Arc<Known>,
}

impl AnalyzerRule for CacheParquet {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_down_with_subqueries(|node| {
            let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
            let is_parquet = |table: &ListingTable| table.options().format.is::<ParquetFormat>();
            if !scan.source.is::<DefaultTableSource>() {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            }
            let table = source_as_provider(&scan.source)?;
            if !table.downcast_ref::<ListingTable>().is_some_and(is_parquet) {
                return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
            }
            scan.source = provider_as_source(Arc::new(CachedTable::new(table, self.cache.clone(), self.known.clone())));
            Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "entasis_cache"
    }
}
