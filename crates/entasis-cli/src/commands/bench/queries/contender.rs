//! The systems that answer queries: one engine, several ways to keep its tables.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext, lit};
use datafusion::sql::parser::{DFParser, Statement};
use datafusion::sql::sqlparser::ast::Statement as Sql;
use entasis_datafusion::EntasisFormat;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tokio::runtime::{Builder, Runtime};

use super::super::super::sql::failure;
use super::super::clock::cpu_seconds;
use crate::exit::Failure;
use crate::progress::Progress;

/// A system with all tables.
pub struct Contender {
    pub name: &'static str,
    context: SessionContext,
    runtime: Arc<Runtime>,
}

/// A query that was run: CPU and wall time in seconds.
pub struct Run {
    /// All of it.
    pub cpu: f64,
    /// What it took to plan it.
    pub planning: f64,
    pub wall: f64,
    pub bytes_read: u64,
    /// Of a scan behind the cache: what asking its conditions took, and what decoding and copying values did.
    pub asking: f64,
    pub decoding: f64,
    pub batches: Vec<RecordBatch>,
}

impl Run {
    /// Rows of the answer.
    pub fn row_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The times alone.
    pub fn without_rows(self) -> Self {
        Self { batches: Vec::new(), ..self }
    }
}

impl Contender {
    /// All systems, Entasis first. Converted tables are in `folder`, or are put there.
    pub fn all(
        tables: &[(String, PathBuf)],
        folder: &Path,
        threads: usize,
        tuned: bool,
        progress: &Progress,
    ) -> Result<Vec<Self>, Failure> {
        let runtime = Arc::new(Builder::new_multi_thread().worker_threads(threads).enable_all().build()?);
        let mut all = vec![
            Self::new("Entasis", false, threads, &runtime)?,
            Self::new("Parquet", false, threads, &runtime)?,
            Self::new("Parquet pushdown", true, threads, &runtime)?,
        ];
        if tuned {
            all.push(Self::new("Parquet tuned", false, threads, &runtime)?);
            all.push(Self::new("Parquet tuned pushdown", true, threads, &runtime)?);
        }
        for (index, (name, path)) in tables.iter().enumerate() {
            progress.set(index as f64 / tables.len() as f64, || format!("converting {name}"));
            let made = made_anew(path, &folder.join(format!("{name}.ent")), to_entasis)?;
            all[0].add(name, &made)?;
            all[1].add(name, path)?;
            all[2].add(name, path)?;
            if tuned {
                let made = made_anew(path, &folder.join(format!("{name}.parquet")), to_tuned)?;
                all[3].add(name, &made)?;
                all[4].add(name, &made)?;
            }
        }
        Ok(all)
    }

    /// A system without tables: Parquet with its filters pushed down into the reader, or without.
    pub fn new(name: &'static str, pushdown: bool, threads: usize, runtime: &Arc<Runtime>) -> Result<Self, Failure> {
        let mut config = SessionConfig::new().with_target_partitions(threads);
        let parquet = &mut config.options_mut().execution.parquet;
        (parquet.pushdown_filters, parquet.reorder_filters) = (pushdown, pushdown);
        let context = SessionContext::new_with_config(config);
        entasis_datafusion::register(&context).map_err(|error| failure(&error))?;
        Ok(Self { name, context, runtime: runtime.clone() })
    }

    /// The same with its Parquet files behind a cache.
    #[cfg(feature = "cache")]
    pub fn cached(self, cache: &entasis_cache::Cache) -> Self {
        entasis_datafusion::cache_tables(&self.context, cache);
        self
    }

    /// Adds a table that is one file.
    pub fn add(&self, name: &str, path: &Path) -> Result<(), Failure> {
        let is_parquet = path.extension().is_some_and(|extension| extension == "parquet");
        let options = match is_parquet {
            true => ListingOptions::new(Arc::new(
                ParquetFormat::default().with_options(self.context.state().table_options().parquet.clone()),
            )),
            false => ListingOptions::new(Arc::new(EntasisFormat::default())),
        };
        let added = self.runtime.block_on(async {
            let url = ListingTableUrl::parse(path.display().to_string())?;
            let config = ListingTableConfig::new(url).with_listing_options(options.with_file_extension(""));
            let config = config.infer_schema(&self.context.state()).await?;
            self.context.register_table(name, Arc::new(ListingTable::try_new(config)?))
        });
        added.map(|_| ()).map_err(|error: DataFusionError| failure(&error))
    }

    /// Carries out a statement that isn't a query.
    pub fn set_up(&mut self, sql: &str) -> Result<(), Failure> {
        let done = self.runtime.block_on(async { self.context.sql(sql).await?.collect().await });
        done.map(|_| ()).map_err(|error| failure(&error))
    }

    /// Runs a query, all of it.
    pub fn run(&self, sql: &str) -> Result<Run, Failure> {
        self.measured(async || self.context.sql(sql).await)
    }

    /// What the rows of a query are ordered by that a limit cuts, or nothing for each row if they have no order; `None` if no limit
    /// cuts them.
    pub fn keys(&self, sql: &str) -> Result<Option<Run>, Failure> {
        let plan =
            self.runtime.block_on(self.context.sql(sql)).map_err(|error| failure(&error))?.into_unoptimized_plan();
        let LogicalPlan::Limit(limit) = &plan else { return Ok(None) };
        let mut below = &limit.input;
        while let LogicalPlan::Projection(projection) = below.as_ref() {
            below = &projection.input;
        }
        let (input, keys) = match below.as_ref() {
            LogicalPlan::Sort(sort) => (below.clone(), sort.expr.iter().map(|key| key.expr.clone()).collect()),
            _ => (limit.input.clone(), vec![lit("")]),
        };
        let keyed = (|| {
            let cut = LogicalPlanBuilder::from(input.as_ref().clone());
            let cut = cut.limit_by_expr(limit.skip.as_deref().cloned(), limit.fetch.as_deref().cloned())?;
            cut.project(keys)?.build()
        })();
        let keyed = keyed.map_err(|error| failure(&error))?;
        self.measured(async || Ok(DataFrame::new(self.context.state(), keyed.clone()))).map(Some)
    }

    fn measured(&self, frame: impl AsyncFn() -> Result<DataFrame, DataFusionError>) -> Result<Run, Failure> {
        let (begin, begin_cpu) = (Instant::now(), cpu_seconds());
        let ran = self.runtime.block_on(async {
            let plan = frame().await?.create_physical_plan().await?;
            let planning = cpu_seconds() - begin_cpu;
            let batches = collect(plan.clone(), self.context.task_ctx()).await?;
            Ok((plan, planning, batches))
        });
        let (cpu, wall) = (cpu_seconds() - begin_cpu, begin.elapsed().as_secs_f64());
        let (plan, planning, batches) = ran.map_err(|error: DataFusionError| failure(&error))?;
        let seconds = |name| scanned(&*plan, name) as f64 / 1e9;
        let (asking, decoding) = (seconds("nanoseconds_asking"), seconds("nanoseconds_decoding"));
        Ok(Run { cpu, planning, wall, bytes_read: scanned(&*plan, "bytes_scanned"), asking, decoding, batches })
    }
}

/// The sum of a metric of the scans below.
fn scanned(plan: &dyn ExecutionPlan, name: &str) -> u64 {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize());
    own as u64 + plan.children().into_iter().map(|child| scanned(&**child, name)).sum::<u64>()
}

/// The statements of a text.
pub fn statements(text: &str) -> Result<Vec<String>, Failure> {
    let statements = DFParser::parse_sql(text).map_err(|error| failure(&error))?;
    Ok(statements.iter().map(ToString::to_string).collect())
}

/// True of what has rows.
pub fn is_query(sql: &str) -> bool {
    let Ok(statements) = DFParser::parse_sql(sql) else { return false };
    matches!(statements.front(), Some(Statement::Statement(statement)) if matches!(**statement, Sql::Query(_)))
}

/// What `make` makes of a table, unless it is there already and newer than the table.
fn made_anew(path: &Path, made: &Path, make: fn(&Path, &Path) -> Result<(), Failure>) -> Result<PathBuf, Failure> {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let table = modified(path).map_err(|error| Failure::io(path, &error))?;
    if !modified(made).is_ok_and(|made| made > table) {
        if let Some(folder) = made.parent() {
            fs::create_dir_all(folder).map_err(|error| Failure::io(folder, &error))?;
        }
        make(path, made)?;
    }
    Ok(made.to_owned())
}

/// Writes with default settings.
fn to_entasis(path: &Path, made: &Path) -> Result<(), Failure> {
    let file = fs::File::open(path).map_err(|error| Failure::io(path, &error))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| Failure::parquet(path, error))?;
    let schema = reader.schema().clone();
    let mut writer = entasis::FileWriter::create(made, schema, entasis::WriteOptions::default())?;
    for batch in reader.with_batch_size(65_536).build().map_err(|error| Failure::parquet(path, error))? {
        writer.write(&batch.map_err(|error| Failure::arrow(path, error))?)?;
    }
    writer.finish()?;
    Ok(())
}

/// Writes Parquet as those do who have read the manual: Zstandard, small pages, a page index.
fn to_tuned(path: &Path, made: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::parquet(path, error);
    let file = fs::File::open(path).map_err(|error| Failure::io(path, &error))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed)?;
    let level = ZstdLevel::try_new(3).map_err(failed)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
    let properties = properties.set_data_page_row_count_limit(20_000).build();
    let mut whole = entasis::atomic::AtomicFile::create(made)?;
    let mut writer = ArrowWriter::try_new(&mut whole, reader.schema().clone(), Some(properties)).map_err(failed)?;
    for batch in reader.with_batch_size(65_536).build().map_err(failed)? {
        writer.write(&batch.map_err(|error| Failure::arrow(path, error))?).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    whole.commit()?;
    Ok(())
}
