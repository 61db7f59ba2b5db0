//! Aggregates that scans answer: what is counted, ordered and added of all rows of `.ent` files comes from their zones and encoded values.

mod functions;
mod node;

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, aggregates::AggregateExec},
};

pub(crate) use functions::{Function, Term};
use node::ScanAggregateExec;

/// Replaces aggregates without groups in plans that stand right above a scan of `.ent` files, where the scan can answer all of them.
#[derive(Debug, Default)]
pub(crate) struct AnswerAggregates;

impl PhysicalOptimizerRule for AnswerAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let answered = node.downcast_ref::<AggregateExec>().and_then(ScanAggregateExec::of);
            Ok(match answered {
                Some(answered) => Transformed::yes(Arc::new(answered) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "entasis_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
