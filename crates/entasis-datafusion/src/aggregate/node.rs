//! The node of a plan that asks scans for aggregates.

use std::{fmt, sync::Arc};

use arrow_array::RecordBatch;
use datafusion::{
    common::{DataFusionError, Result, tree_node::TreeNodeRecursion},
    datasource::listing::PartitionedFile,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{
        PhysicalExpr,
        projection::{ProjectionExpr, ProjectionExprs},
    },
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
        aggregates::{AccumulatorItem, AggregateExec, AggregateMode, create_accumulators, finalize_aggregation},
        execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};

use super::Function;
use crate::{
    opener::{Answer, EntasisOpener},
    source::scan_of,
};

/// An aggregate without groups whose input is a scan of `.ent` files, which answers it. Files of which it can't, for their columns are of
/// other types than the table's, are read, and their rows counted in.
pub(super) struct ScanAggregateExec {
    /// What it stands for: the functions, the mode and the schema.
    aggregate: Arc<AggregateExec>,
    functions: Vec<Function>,
    /// The arguments of the functions, on the table's columns.
    arguments: ProjectionExprs,
    metrics: ExecutionPlanMetricsSet,
}

impl ScanAggregateExec {
    /// The node that does what `aggregate` does, if a scan can answer it.
    pub fn of(aggregate: &AggregateExec) -> Option<Self> {
        let is_whole = matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single)
            && aggregate.group_expr().is_true_no_grouping()
            && aggregate.filter_expr().iter().all(Option::is_none)
            && aggregate.limit_options().is_none();
        let (config, source) = scan_of(aggregate.input())?;
        if !is_whole || !source.reads_ent() || config.limit.is_some() {
            return None;
        }
        let functions: Vec<Function> =
            aggregate.aggr_expr().iter().map(|aggregate| Function::of(aggregate)).collect::<Option<_>>()?;
        let arguments = aggregate.aggr_expr().iter().flat_map(|aggregate| {
            aggregate.expressions().into_iter().map(|argument| ProjectionExpr::new(argument, aggregate.name()))
        });
        let arguments = source.projected().try_merge(&ProjectionExprs::new(arguments)).ok()?;
        let table = source.table().table_schema();
        let is_answered =
            |(function, argument): (&Function, &ProjectionExpr)| function.term(&argument.expr, table).is_some();
        if functions.is_empty() || !functions.iter().zip(arguments.iter()).all(is_answered) {
            return None;
        }
        let metrics = ExecutionPlanMetricsSet::new();
        Some(Self { aggregate: Arc::new(aggregate.clone()), functions, arguments, metrics })
    }

    /// One row: the states of the accumulators, or their values, once all files of a partition have answered.
    async fn answer(
        aggregate: Arc<AggregateExec>,
        functions: Vec<Function>,
        opener: EntasisOpener,
        files: Vec<PartitionedFile>,
    ) -> Result<RecordBatch> {
        let mut accumulators = create_accumulators(aggregate.aggr_expr())?;
        for file in files {
            match opener.clone().answer(file, &functions).await? {
                Answer::Found(found) => {
                    for (index, (term, found)) in found.iter().enumerate() {
                        let fields = aggregate.aggr_expr()[index].state_fields()?;
                        accumulators[index].merge_batch(&functions[index].state(term, found, &fields)?)?;
                    }
                }
                Answer::Rows(mut batches) => {
                    while let Some(batch) = batches.next().await {
                        count_in(&mut accumulators, &batch?)?;
                    }
                }
            }
        }
        let columns = finalize_aggregation(&mut accumulators, aggregate.mode())?;
        Ok(RecordBatch::try_new(aggregate.schema(), columns)?)
    }
}

/// Counts rows in, of which a batch has the arguments of each accumulator.
fn count_in(accumulators: &mut [AccumulatorItem], batch: &RecordBatch) -> Result<()> {
    for (accumulator, argument) in accumulators.iter_mut().zip(batch.columns()) {
        accumulator.update_batch(std::slice::from_ref(argument))?;
    }
    Ok(())
}

impl fmt::Debug for ScanAggregateExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScanAggregateExec").field("aggregate", &self.aggregate).finish_non_exhaustive()
    }
}

impl DisplayAs for ScanAggregateExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.aggregate.aggr_expr().iter().map(|aggregate| aggregate.name()).collect();
        match kind {
            DisplayFormatType::TreeRender => writeln!(f, "mode={:?}\naggr={}", self.aggregate.mode(), names.join(", ")),
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let name = self.name();
                write!(f, "{name}: mode={:?}, answered_by_the_scan=[{}]", self.aggregate.mode(), names.join(", "))
            }
        }
    }
}

impl ExecutionPlan for ScanAggregateExec {
    fn name(&self) -> &str {
        "EntasisAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.aggregate.input()]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.aggregate.input_distribution_requirements()
    }

    /// On another input it is what it stands for, unless that can answer, too.
    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let aggregate = self.aggregate.clone().replace_children(children, options)?;
        let answered = aggregate.downcast_ref::<AggregateExec>().and_then(Self::of);
        Ok(answered.map_or(aggregate, |answered| Arc::new(answered)))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.aggregate.apply_expressions(f)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some((config, source)) = scan_of(self.aggregate.input()) else {
            return Err(DataFusionError::Internal("the input of an answered aggregate isn't a scan".to_owned()));
        };
        let store = context.runtime_env().object_store(&config.object_store_url)?;
        let batch_rows = context.session_config().batch_size();
        let opener = source.ent_opener(store, config, &self.arguments, batch_rows, partition)?;
        let files = config.file_groups.get(partition).map(|group| group.files().to_vec()).unwrap_or_default();
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let answer = Self::answer(self.aggregate.clone(), self.functions.clone(), opener, files);
        let answer = async move {
            let time = baseline.elapsed_compute().clone();
            let _timer = time.timer();
            Ok(answer.await?.record_output(&baseline))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream::once(answer))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
