//! DataFusion, set up to find tables by their files' names.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::catalog::DynamicFileCatalog;
use datafusion::dataframe::DataFrame;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParser, Statement};
#[cfg(feature = "cache")]
use entasis_cache::{Cache, CacheOptions, DiskOptions};

use super::answer::Answer;
use super::errors::failure;
use super::interrupt::Interrupt;
use super::tables::PathTables;
use super::workers::Workers;
use crate::exit::{Exit, Failure};

/// A session: its tables live as long as it does.
pub struct Session {
    workers: RefCell<Arc<Workers>>,
    threads: usize,
    context: SessionContext,
    cache: Option<Cache>,
}

/// There is none.
#[cfg(not(feature = "cache"))]
pub enum Cache {}

/// A statement that is ready to run.
pub struct Query<'a> {
    session: &'a Session,
    frame: DataFrame,
    interrupt: Interrupt,
}

impl Session {
    /// A session with so many threads, and memory for operators if there is a limit.
    pub fn new(threads: usize, memory_bytes: Option<usize>) -> Result<Self, Failure> {
        let workers = Workers::new(threads)?;
        let mut config = SessionConfig::new().with_target_partitions(threads).with_information_schema(true);
        config.options_mut().sql_parser.collect_spans = true;
        let mut environment = RuntimeEnvBuilder::new();
        if let Some(bytes) = memory_bytes {
            environment = environment.with_memory_limit(bytes, 1.0);
        }
        let set_up = || -> datafusion::common::Result<SessionContext> {
            let context = SessionContext::new_with_config_rt(config, environment.build_arc()?);
            entasis_datafusion::register(&context)?;
            let state = context.state_weak_ref();
            let tables = Arc::new(PathTables::new(move || Some(state.upgrade()?.read().clone())));
            let catalogs = context.state().catalog_list().clone();
            context.register_catalog_list(Arc::new(DynamicFileCatalog::new(catalogs, tables)));
            Ok(context)
        };
        let context = set_up().map_err(|error| failure(&error))?;
        Ok(Self { workers: RefCell::new(Arc::new(workers)), threads, context, cache: None })
    }

    /// The session with Parquet files behind a cache of so many bytes of memory, and of disk.
    #[cfg(feature = "cache")]
    pub fn with_cache(mut self, memory_bytes: u64, disk: Option<DiskOptions>) -> Result<Self, Failure> {
        let cache = Cache::new(CacheOptions { memory_bytes, disk, ..Default::default() })?;
        entasis_datafusion::cache_tables(&self.context, &cache);
        self.cache = Some(cache);
        Ok(self)
    }

    /// Leaves on disk what the cache holds, as blocks, if it has one.
    pub fn flush_cache(&self) {
        #[cfg(feature = "cache")]
        if let Some(cache) = self.cache.as_ref().filter(|cache| cache.statistics().disk_limit_bytes > 0) {
            while cache.transcode_one() {}
            cache.flush();
        }
    }

    /// The cache if there is one.
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    fn workers(&self) -> Arc<Workers> {
        self.workers.borrow().clone()
    }

    /// Has other threads answer from now on: those that there are may still compute what was given up.
    pub fn replace_workers(&self) -> Result<(), Failure> {
        self.workers.replace(Arc::new(Workers::new(self.threads)?));
        Ok(())
    }

    /// Whether somebody presses Ctrl-C from now on.
    pub fn listen(&self) -> Interrupt {
        Interrupt::listen(&self.workers())
    }

    /// The statements of a text.
    pub fn parse(&self, text: &str) -> Result<VecDeque<Statement>, Failure> {
        DFParser::parse_sql(text).map_err(|error| failure(&error))
    }

    /// Plans a statement, and carries it out if it isn't a query.
    pub fn plan(&self, statement: Statement, interrupt: &Interrupt) -> Result<Query<'_>, Failure> {
        let context = self.context.clone();
        let frame = async move {
            let plan = context.state().statement_to_plan(statement).await?;
            context.execute_logical_plan(plan).await
        };
        let frame = interrupt.unless_stopped(&self.workers(), frame)?;
        Ok(Query { session: self, frame, interrupt: interrupt.clone() })
    }

    /// Names of the tables that were created.
    pub fn tables(&self) -> Vec<String> {
        let catalogs = self.context.catalog_names().into_iter().filter_map(|name| self.context.catalog(&name));
        let schemas = catalogs.flat_map(|catalog| {
            catalog.schema_names().into_iter().filter_map(move |name| catalog.schema(&name)).collect::<Vec<_>>()
        });
        schemas.flat_map(|schema| schema.table_names()).collect()
    }
}

impl Query<'_> {
    /// The rows, as they come; `None` for statements that have none.
    pub fn answer(&self) -> Result<Option<Answer>, Failure> {
        if self.frame.schema().fields().is_empty() {
            return Ok(None);
        }
        let workers = self.session.workers();
        let stream = self.interrupt.unless_stopped(&workers, self.frame.clone().execute_stream())?;
        Ok(Some(Answer::new(workers, stream, self.interrupt.clone())))
    }

    /// Runs it to its end for what its plan can tell afterwards.
    pub fn run_plan(&self) -> Result<Arc<dyn ExecutionPlan>, Failure> {
        let workers = self.session.workers();
        let frame = self.frame.clone();
        let plan = self.interrupt.unless_stopped(&workers, async move { frame.create_physical_plan().await })?;
        // Streams are begun on the runtime, for they may spawn tasks.
        let _entered = workers.enter();
        let stream = execute_stream(plan.clone(), self.session.context.task_ctx()).map_err(|error| failure(&error))?;
        for batch in Answer::new(workers.clone(), stream, self.interrupt.clone()) {
            batch?;
        }
        Ok(plan)
    }
}

/// A question that can't be answered as it was put.
pub fn unanswerable(message: impl Into<String>) -> Failure {
    Failure::Told { exit: Exit::Usage, message: message.into() }
}
