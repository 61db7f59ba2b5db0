//! `entasis sql --explain`: how a query was answered.

use std::sync::Arc;

use datafusion::physical_plan::display::DisplayableExecutionPlan;
use serde_json::json;

use super::super::Report;
use super::session::Query;
use crate::exit::Failure;

/// Runs a query and prints its plan with what each node measured.
pub fn print(query: &Query<'_>, report: &mut Report<'_>) -> Result<(), Failure> {
    let plan = query.run_plan()?;
    let text = DisplayableExecutionPlan::with_metrics(Arc::as_ref(&plan)).indent(false).to_string();
    if report.json {
        return report.json(&json!({ "plan": text.trim_end().lines().collect::<Vec<_>>() }));
    }
    Ok(writeln!(report.out, "{}", text.trim_end())?)
}
