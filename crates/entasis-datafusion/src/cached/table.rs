//! A table of Parquet files, scanned through the cache.

use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::{
    catalog::{ScanArgs, ScanResult, Session, TableProvider},
    common::{Constraints, Result, Statistics},
    datasource::{
        TableType,
        physical_plan::{
            FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
            parquet::metadata::DFParquetMetadata,
        },
        source::DataSourceExec,
    },
    execution::SessionState,
    logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown},
    physical_plan::ExecutionPlan,
};
use datafusion_datasource::compute_all_files_statistics;
use entasis::arrow::shred;
use entasis_cache::{Cache, Version, read::ParquetFile};
use futures::{StreamExt, TryStreamExt};

use crate::{
    error::of_cache,
    source::{EntasisSource, Files},
};

/// So many files' statistics are remembered.
const KNOWN_FILES: usize = 1_000;

/// Statistics of files for tables of a schema, by version.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<VecDeque<(Version, SchemaRef, Arc<Statistics>)>>);

impl Known {
    fn get(&self, version: &Version, schema: &SchemaRef) -> Option<Arc<Statistics>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one = |(kept, of, _): &&(Version, SchemaRef, _)| kept == version && of == schema;
        known.iter().find(is_one).map(|(.., statistics)| statistics.clone())
    }

    fn insert(&self, version: Version, schema: SchemaRef, statistics: Arc<Statistics>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.push_back((version, schema, statistics));
        if known.len() > KNOWN_FILES {
            known.pop_front();
        }
    }
}

/// A table of Parquet files as DataFusion knows it, but for who reads it.
#[derive(Debug)]
pub(crate) struct CachedTable {
    table: Arc<dyn TableProvider>,
    cache: Cache,
    known: Arc<Known>,
}

impl CachedTable {
    pub fn new(table: Arc<dyn TableProvider>, cache: Cache, known: Arc<Known>) -> Self {
        Self { table, cache, known }
    }

    /// The plan with the cache's source instead of Parquet's; `None` where that one has to stay: encrypted files, timestamps of 96 bits as
    /// something else than they are, columns that only Parquet's reader makes, types that blocks can't hold, and files whose versions can't be told
    /// apart.
    async fn cached(&self, state: &dyn Session, plan: &dyn ExecutionPlan) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let config = plan.downcast_ref::<DataSourceExec>().map(|exec| exec.data_source());
        let Some(config) = config.and_then(|source| source.downcast_ref::<FileScanConfig>()) else { return Ok(None) };
        let Some(parquet) = config.file_source().downcast_ref::<ParquetSource>() else { return Ok(None) };
        let options = parquet.table_parquet_options();
        let is_special = options.crypto.file_decryption.is_some()
            || options.crypto.factory_id.is_some()
            || options.global.coerce_int96.is_some()
            || !parquet.table_schema().virtual_columns().is_empty();
        let is_held = shred(parquet.table_schema().file_schema()).is_ok();
        let Some(projection) = parquet.projection().filter(|_| !is_special && is_held) else { return Ok(None) };
        let source = EntasisSource::with_files(parquet.table_schema().clone(), Files::Parquet(self.cache.clone()))
            .with_projection(projection.clone())
            .with_memory_pool(state.runtime_env().memory_pool.clone());
        if forget_untold(state, config) {
            return Ok(None);
        }
        let mut config = config.clone();
        if state.config_options().execution.collect_statistics {
            self.collect_statistics(state, &mut config).await?;
        }
        let config = FileScanConfigBuilder::from(config).with_source(Arc::new(source)).build();
        Ok(Some(DataSourceExec::from_data_source(config)))
    }

    /// What Parquet's metadata say of the versions that are to be read, from the cache's copy of them.
    async fn collect_statistics(&self, state: &dyn Session, config: &mut FileScanConfig) -> Result<()> {
        let store = state.runtime_env().object_store(&config.object_store_url)?;
        let url: Arc<str> = config.object_store_url.as_str().into();
        let schema = config.file_source().table_schema().file_schema().clone();
        let at_a_time = state.config_options().execution.meta_fetch_concurrency.get();
        let mut groups = Vec::with_capacity(config.file_groups.len());
        for group in std::mem::take(&mut config.file_groups) {
            let with_statistics = group.into_inner().into_iter().map(|mut file| {
                let (store, url, schema) = (store.clone(), url.clone(), schema.clone());
                async move {
                    let version = Version::of(url.clone(), &file.object_meta);
                    let statistics = match self.known.get(&version, &schema) {
                        Some(statistics) => statistics,
                        None => {
                            let opened = ParquetFile::open_found(&self.cache, store, url, file.object_meta.clone());
                            let opened = opened.await.map_err(of_cache)?;
                            let metadata = opened.metadata();
                            let found = DFParquetMetadata::statistics_from_parquet_metadata(metadata, &schema)?;
                            let found = Arc::new(found);
                            self.known.insert(version, schema, found.clone());
                            found
                        }
                    };
                    file = file.with_statistics(statistics);
                    Ok::<_, datafusion::common::DataFusionError>(file)
                }
            });
            let files = futures::stream::iter(with_statistics).buffered(at_a_time).try_collect().await?;
            groups.push(FileGroup::new(files));
        }
        let table = config.file_source().table_schema().table_schema().clone();
        let (groups, statistics) = compute_all_files_statistics(groups, table, true, false)?;
        *config =
            FileScanConfigBuilder::from(config.clone()).with_file_groups(groups).with_statistics(statistics).build();
        Ok(())
    }
}

/// Whether some file's versions can't be told apart. What DataFusion remembers of such, by path, size and time, is forgotten.
fn forget_untold(state: &dyn Session, config: &FileScanConfig) -> bool {
    let metadata = state.runtime_env().cache_manager.get_file_metadata_cache();
    let files = config.file_groups.iter().flat_map(|group| group.files());
    let untold: Vec<_> = files.map(|file| &file.object_meta).filter(|meta| !Version::is_told(meta)).collect();
    untold.iter().for_each(|meta| drop(metadata.remove(&meta.location)));
    !untold.is_empty()
}

#[async_trait]
impl TableProvider for CachedTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.table.constraints()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.table.get_table_definition()
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.table.get_logical_plan()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.table.get_column_default(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let args = ScanArgs::default().with_projection(projection.map(Vec::as_slice));
        Ok(self.scan_with_args(state, args.with_filters(Some(filters)).with_limit(limit)).await?.into_inner())
    }

    async fn scan_with_args<'a>(&self, state: &dyn Session, args: ScanArgs<'a>) -> Result<ScanResult> {
        let Some(session) = state.as_any().downcast_ref::<SessionState>() else {
            return self.table.scan_with_args(state, args).await;
        };
        // Statistics are collected here, for what DataFusion remembers of files it finds by path, size and time.
        let mut without = session.clone();
        without.config_mut().options_mut().execution.collect_statistics = false;
        let plan = self.table.scan_with_args(&without, args.clone()).await?.into_inner();
        match self.cached(state, plan.as_ref()).await? {
            Some(cached) => Ok(cached.into()),
            None => self.table.scan_with_args(state, args).await,
        }
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }
}
