//! What scans did, rung by rung, as `EXPLAIN ANALYZE` shows it.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use entasis::scan::ScanMetrics;

/// What a counter counts.
type Of = fn(&ScanMetrics) -> u64;

/// Counters of one file's scan; DataFusion adds up those of all files and partitions.
pub(crate) struct Counters {
    counts: Vec<(Count, Of)>,
    seen: ScanMetrics,
}

/// Each with its name; rows that fall on a rung aren't seen by the next.
const COUNTS: &[(&str, Of)] = &[
    ("rows_scanned", |metrics| metrics.rows),
    ("rows_fallen_by_zones", |metrics| metrics.rows_fallen_by_zones),
    ("rows_fallen_encoded", |metrics| metrics.rows_fallen_encoded),
    ("rows_fallen_decoded", |metrics| metrics.rows_fallen_decoded),
    ("rows_passed", |metrics| metrics.rows_passed),
    ("row_groups", |metrics| metrics.row_groups),
    ("row_groups_fallen", |metrics| metrics.row_groups_fallen),
    ("values_compared_encoded", |metrics| metrics.compared_values),
    ("values_decoded_for_predicates", |metrics| metrics.decoded_values),
    ("requests", |metrics| metrics.requests),
    ("bytes_scanned", |metrics| metrics.bytes_read),
];

impl Counters {
    /// Counters at zero.
    pub fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |&(name, of): &(&'static str, _)| (MetricBuilder::new(metrics).counter(name, partition), of);
        Self { counts: COUNTS.iter().map(count).collect(), seen: ScanMetrics::default() }
    }

    /// Adds what a scan did since it was last looked at.
    pub fn set(&mut self, now: &ScanMetrics) {
        for (count, of) in &self.counts {
            count.add((of(now) - of(&self.seen)) as usize);
        }
        self.seen = now.clone();
    }
}
