//! Functions that aggregates evaluate, moved into the scans below them.

use std::sync::Arc;

use arrow_schema::Schema;
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    physical_expr::{PhysicalExpr, aggregate::AggregateFunctionExpr, expressions::Column, projection::ProjectionExpr},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy},
        projection::ProjectionExec,
    },
};

use super::strings_of;
use crate::source::scan_of;

/// Has scans evaluate functions of one column of strings by which an aggregate right above them groups, or that it aggregates: once per
/// distinct value, where that is cheaper.
#[derive(Debug, Default)]
pub(crate) struct EvaluateInScans;

impl PhysicalOptimizerRule for EvaluateInScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let moved = node.downcast_ref::<AggregateExec>().map(moved).transpose()?.flatten();
            Ok(match moved {
                Some(moved) => Transformed::yes(moved),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "entasis_functions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The aggregate on a scan that evaluates its functions, if there are any that it can.
fn moved(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (input, groups) = (aggregate.input(), aggregate.group_expr());
    let is_plain = aggregate.mode().input_mode() == AggregateInputMode::Raw && groups.is_single() && !groups.is_empty();
    if !is_plain || scan_of(input).is_none() {
        return Ok(None);
    }
    let schema = input.schema();
    let mut functions = Functions::new(&schema);
    let groups: Vec<_> =
        groups.expr().iter().map(|(expression, name)| (functions.place(expression), name.clone())).collect();
    let aggregates: Vec<_> =
        aggregate.aggr_expr().iter().map(|aggregate| functions.place_arguments(aggregate)).collect();
    if functions.found.is_empty() {
        return Ok(None);
    }
    let projection = ProjectionExec::try_new(functions.projection(), input.clone())?;
    let Some(scan) = input.try_swapping_with_projection(&projection)?.filter(|scan| scan_of(scan).is_some()) else {
        return Ok(None);
    };
    let (groups, filters) = (PhysicalGroupBy::new_single(groups), aggregate.filter_expr().to_vec());
    let schema = scan.schema();
    let moved = AggregateExec::try_new(*aggregate.mode(), groups, aggregates, filters, scan, schema)?;
    Ok(Some(Arc::new(moved.with_limit_options(aggregate.limit_options()))))
}

/// What a scan is to evaluate behind the columns that it has.
struct Functions<'a> {
    columns: &'a Schema,
    found: Vec<Arc<dyn PhysicalExpr>>,
}

impl<'a> Functions<'a> {
    fn new(columns: &'a Schema) -> Self {
        Self { columns, found: Vec::new() }
    }

    /// The expression; the column that it will be, if it is a function of strings.
    fn place(&mut self, expression: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        if strings_of(expression, self.columns).is_none() {
            return expression.clone();
        }
        let known = self.found.iter().position(|found| found == expression);
        let place = known.unwrap_or_else(|| {
            self.found.push(expression.clone());
            self.found.len() - 1
        });
        Arc::new(Column::new(&name_of(expression), self.columns.fields().len() + place))
    }

    /// The aggregate of such columns.
    fn place_arguments(&mut self, aggregate: &Arc<AggregateFunctionExpr>) -> Arc<AggregateFunctionExpr> {
        let all = aggregate.all_expressions();
        if !all.order_by_exprs.is_empty() {
            return aggregate.clone();
        }
        let arguments = all.args.iter().map(|argument| self.place(argument)).collect();
        aggregate.with_new_expressions(arguments, Vec::new()).map_or_else(|| aggregate.clone(), Arc::new)
    }

    fn projection(&self) -> Vec<ProjectionExpr> {
        let columns = self.columns.fields().iter().enumerate().map(|(index, field)| {
            ProjectionExpr::new(
                Arc::new(Column::new(field.name(), index)) as Arc<dyn PhysicalExpr>,
                field.name().clone(),
            )
        });
        let functions = self.found.iter().map(|found| ProjectionExpr::new(found.clone(), name_of(found)));
        columns.chain(functions).collect()
    }
}

fn name_of(expression: &Arc<dyn PhysicalExpr>) -> String {
    expression.to_string()
}
