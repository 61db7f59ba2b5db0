//! The part of a plan that knows `.ent` files, and Parquet files behind the cache.

use std::{fmt, sync::Arc};

use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::TreeNodeRecursion},
    datasource::{
        physical_plan::{FileOpener, FileScanConfig, FileSource},
        source::DataSourceExec,
        table_schema::TableSchema,
    },
    execution::memory_pool::MemoryPool,
    object_store::ObjectStore,
    physical_expr::{PhysicalExpr, conjunction_opt, projection::ProjectionExprs},
    physical_expr_adapter::DefaultPhysicalExprAdapterFactory,
    physical_plan::{
        DisplayFormatType, ExecutionPlan, apply_expression_roots,
        filter_pushdown::{FilterPushdownPropagation, PushedDown},
        metrics::ExecutionPlanMetricsSet,
    },
};

#[cfg(feature = "cache")]
use crate::cached::CachedOpener;
use crate::{
    asked::Asked,
    opened::FileCache,
    opener::EntasisOpener,
    place::{Behind, Place},
    predicates::Predicates,
    translate::why_left,
};

/// Rows of a batch where the session doesn't say.
const BATCH_ROWS: usize = 8192;

/// Which files a source reads.
#[derive(Clone)]
pub(crate) enum Files {
    /// `.ent` files, open ones shared with others.
    Ent(Arc<FileCache>),
    /// Parquet files through a cache.
    #[cfg(feature = "cache")]
    Parquet(entasis_cache::Cache),
}

/// Reads `.ent` files for DataFusion, or Parquet files behind the cache.
#[derive(Clone)]
pub struct EntasisSource {
    table: TableSchema,
    projection: ProjectionExprs,
    /// What rows must pass, all of it: the engine doesn't ask again.
    predicate: Option<Arc<dyn PhysicalExpr>>,
    predicates: Predicates,
    /// Predicates that are left to the engine, and why.
    left: Vec<String>,
    batch_rows: usize,
    files: Files,
    /// The cache that `.ent` files are behind.
    behind: Option<Behind>,
    memory: Option<Arc<dyn MemoryPool>>,
    metrics: ExecutionPlanMetricsSet,
}

impl EntasisSource {
    /// A source of tables with this schema.
    pub fn new(table: impl Into<TableSchema>) -> Self {
        Self::with_files(table.into(), Files::Ent(Arc::default()))
    }

    /// A source of these files.
    pub(crate) fn with_files(table: TableSchema, files: Files) -> Self {
        let schema = table.table_schema();
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        let projection = ProjectionExprs::from_indices(&columns, schema);
        let metrics = ExecutionPlanMetricsSet::new();
        Self {
            table,
            projection,
            predicate: None,
            predicates: Predicates::default(),
            left: Vec::new(),
            batch_rows: BATCH_ROWS,
            files,
            behind: None,
            memory: None,
            metrics,
        }
    }

    /// The source with the columns of a plan.
    #[cfg(feature = "cache")]
    pub(crate) fn with_projection(mut self, projection: ProjectionExprs) -> Self {
        self.projection = projection;
        self
    }

    /// Whether files are `.ent` files.
    pub(crate) fn reads_ent(&self) -> bool {
        matches!(self.files, Files::Ent(_))
    }

    /// The columns and expressions that come out.
    pub(crate) fn projected(&self) -> &ProjectionExprs {
        &self.projection
    }

    /// The table's columns, those of folders behind those of files.
    pub(crate) fn table(&self) -> &TableSchema {
        &self.table
    }

    /// An opener of `.ent` files of which other columns are asked than the plan's.
    ///
    /// # Errors
    /// An internal one of sources of other files.
    pub(crate) fn ent_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        projection: &ProjectionExprs,
        batch_rows: usize,
        partition: usize,
    ) -> Result<EntasisOpener> {
        match &self.files {
            Files::Ent(files) => Ok(self.opener(files, store, self.asked(config, projection, batch_rows)?, partition)),
            #[cfg(feature = "cache")]
            Files::Parquet(_) => Err(datafusion::common::internal_datafusion_err!("files that aren't .ent files")),
        }
    }

    fn opener(
        &self,
        files: &Arc<FileCache>,
        store: Arc<dyn ObjectStore>,
        asked: Asked,
        partition: usize,
    ) -> EntasisOpener {
        let (metrics, memory) = (self.metrics.clone(), self.memory.clone());
        let place = Place { store, behind: self.behind.clone() };
        EntasisOpener { files: files.clone(), place, asked, metrics, memory, partition }
    }

    fn asked(&self, config: &FileScanConfig, projection: &ProjectionExprs, batch_rows: usize) -> Result<Asked> {
        let adapters = config.expr_adapter_factory.clone();
        Ok(Asked {
            adapters: adapters.unwrap_or_else(|| Arc::new(DefaultPhysicalExprAdapterFactory)),
            table: self.table.clone(),
            projection: projection.clone(),
            output: Arc::new(projection.project_schema(self.table.table_schema())?),
            batch_rows,
            predicate: self.predicate.clone(),
            predicates: self.predicates,
            limit: config.limit,
        })
    }

    /// The source of files of a place.
    pub(crate) fn at(mut self, place: Place) -> Self {
        self.behind = place.behind;
        self
    }

    /// The source with a pool to which it accounts for the blocks that it holds.
    pub fn with_memory_pool(mut self, memory: Arc<dyn MemoryPool>) -> Self {
        self.memory = Some(memory);
        self
    }
}

/// The scan of this crate's that a node is.
pub(crate) fn scan_of(node: &Arc<dyn ExecutionPlan>) -> Option<(&FileScanConfig, &EntasisSource)> {
    node.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<EntasisSource>()
}

impl fmt::Debug for EntasisSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntasisSource").field("table", &self.table).field("projection", &self.projection).finish()
    }
}

impl FileSource for EntasisSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        Ok(match &self.files {
            Files::Ent(files) => {
                let asked = self.asked(config, &self.projection, self.batch_rows)?;
                Arc::new(self.opener(files, store, asked, partition))
            }
            #[cfg(feature = "cache")]
            Files::Parquet(cache) => {
                let asked = self.asked(config, &self.projection, self.batch_rows)?;
                let (metrics, memory) = (self.metrics.clone(), self.memory.clone());
                let (cache, url) = (cache.clone(), config.object_store_url.as_str().into());
                Arc::new(CachedOpener { cache, store, url, asked, metrics, memory, partition })
            }
        })
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table
    }

    fn with_batch_size(&self, batch_rows: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_rows, ..self.clone() })
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        match self.files {
            Files::Ent(_) if self.behind.is_some() => "cached entasis",
            Files::Ent(_) => "entasis",
            #[cfg(feature = "cache")]
            Files::Parquet(_) => "cached parquet",
        }
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let projection = self.projection.try_merge(projection)?;
        Ok(Some(Arc::new(Self { projection, ..self.clone() })))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.predicate.clone()
    }

    /// Takes predicates that it then answers exactly, and says of the others why it doesn't.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let mut source = Self { predicates: Predicates::of(config), ..self.clone() };
        let mut results = Vec::with_capacity(filters.len());
        let mut taken = Vec::with_capacity(filters.len() + 1);
        taken.extend(self.predicate.clone());
        for filter in filters {
            let reason = match source.predicates {
                Predicates::Left => Some("as entasis.predicates says".to_owned()),
                _ => why_left(&filter, self.table.table_schema()),
            };
            match reason {
                None => {
                    taken.push(filter);
                    results.push(PushedDown::Yes);
                }
                Some(reason) => {
                    source.left.push(format!("{filter} ({reason})"));
                    results.push(PushedDown::No);
                }
            }
        }
        source.predicate = conjunction_opt(taken);
        let node: Arc<dyn FileSource> = Arc::new(source);
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(results).with_updated_node(node))
    }

    fn fmt_extra(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, between) = match kind {
            DisplayFormatType::TreeRender => ("", "\n"),
            DisplayFormatType::Default | DisplayFormatType::Verbose => (", ", ""),
        };
        if let Some(predicate) = &self.predicate {
            write!(f, "{before}predicate={predicate}{between}")?;
        }
        if !self.left.is_empty() {
            write!(f, "{before}left_to_the_engine=[{}]{between}", self.left.join(", "))?;
        }
        Ok(())
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.predicate.iter().chain(self.projection.iter().map(|column| &column.expr)), f)
    }
}
