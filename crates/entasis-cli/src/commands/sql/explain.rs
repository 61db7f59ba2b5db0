//! `entasis sql --explain`: how a query was answered.

use std::sync::Arc;

use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use serde_json::{Map, Value, json};

use super::super::Report;
use super::session::Query;
use crate::exit::Failure;
use crate::table::Table;
use crate::units;

/// Rows that fell by Bloom filters.
const BLOOMS: &str = "rows_fallen_by_blooms";

/// What a scan of `.ent` files counts, and what its column is called. Rows that fall on a rung aren't seen by the next.
const RUNGS: [(&str, &str); 7] = [
    ("rows_scanned", ">rows"),
    ("rows_fallen_by_zones", ">fell by zones"),
    (BLOOMS, ">fell by Bloom filters"),
    ("rows_fallen_encoded", ">fell encoded"),
    ("rows_fallen_decoded", ">fell decoded"),
    ("rows_passed", ">passed"),
    ("bytes_scanned", ">bytes read"),
];

/// Runs a query and prints its plan with what each node measured, and what fell on each rung of its scans.
pub fn print(query: &Query<'_>, report: &mut Report<'_>) -> Result<(), Failure> {
    let plan = query.run_plan()?;
    let text = DisplayableExecutionPlan::with_metrics(Arc::as_ref(&plan)).indent(false).to_string();
    let mut scans = Vec::new();
    add_scans(&plan, &mut scans);
    if report.json {
        let scans: Vec<Value> = scans.iter().map(Scan::to_json).collect();
        return report.json(&json!({ "plan": text.trim_end().lines().collect::<Vec<_>>(), "scans": scans }));
    }
    writeln!(report.out, "{}", text.trim_end())?;
    if scans.is_empty() {
        return Ok(());
    }
    // Few files have Bloom filters.
    let is_shown = |&rung: &usize| RUNGS[rung].0 != BLOOMS || scans.iter().any(|scan| scan.counts[rung] > 0);
    let rungs: Vec<usize> = (0..RUNGS.len()).filter(is_shown).collect();
    let headings: Vec<_> = ["scan"].into_iter().chain(rungs.iter().map(|&rung| RUNGS[rung].1)).collect();
    let mut table = Table::new(&headings);
    for scan in &scans {
        let counts = rungs.iter().map(|&rung| units::grouped(scan.counts[rung]));
        table.row([scan.file.clone()].into_iter().chain(counts).collect());
    }
    writeln!(report.out)?;
    Ok(table.print(report.out)?)
}

/// One scan of a plan.
struct Scan {
    /// The name of its first file.
    file: String,
    counts: [u64; RUNGS.len()],
}

impl Scan {
    fn to_json(&self) -> Value {
        let counts = RUNGS.iter().zip(self.counts).map(|((name, _), count)| ((*name).to_owned(), json!(count)));
        json!({ "file": self.file, "counts": counts.collect::<Map<_, _>>() })
    }
}

/// Adds the scans of `.ent` files, those of inputs first.
fn add_scans(plan: &Arc<dyn ExecutionPlan>, scans: &mut Vec<Scan>) {
    plan.children().into_iter().for_each(|input| add_scans(input, scans));
    let Some(source) = plan.downcast_ref::<DataSourceExec>() else { return };
    let Some(config) = source.data_source().downcast_ref::<FileScanConfig>() else { return };
    let Some(metrics) = plan.metrics().filter(|metrics| metrics.sum_by_name(RUNGS[0].0).is_some()) else { return };
    let count = |(name, _)| metrics.sum_by_name(name).map_or(0, |count| count.as_usize() as u64);
    let files = || config.file_groups.iter().flat_map(FileGroup::iter);
    let first = files().next().and_then(|file| file.object_meta.location.filename()).unwrap_or_default();
    let others = if files().any(|file| file.object_meta.location.filename() != Some(first)) { ", …" } else { "" };
    scans.push(Scan { file: format!("{first}{others}"), counts: RUNGS.map(count) });
}
