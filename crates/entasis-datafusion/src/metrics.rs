//! What scans did, rung by rung, as `EXPLAIN ANALYZE` shows it.

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use entasis::scan::ScanMetrics;

/// What a counter counts.
type Of<M> = fn(&M) -> u64;

/// Names of counters, each with what it counts.
type Counts<M> = &'static [(&'static str, Of<M>)];

/// Counters of one file's scan; DataFusion adds up those of all files and partitions.
pub(crate) struct Counters<M: 'static> {
    counts: Vec<(Count, Of<M>)>,
    seen: M,
}

/// Of `.ent` files; rows that fall on a rung aren't seen by the next.
pub(crate) const SCAN: Counts<ScanMetrics> = &[
    ("rows_scanned", |metrics| metrics.rows),
    ("rows_fallen_by_zones", |metrics| metrics.rows_fallen_by_zones),
    ("rows_fallen_by_blooms", |metrics| metrics.rows_fallen_by_blooms),
    ("rows_fallen_encoded", |metrics| metrics.rows_fallen_encoded),
    ("rows_fallen_decoded", |metrics| metrics.rows_fallen_decoded),
    ("rows_passed", |metrics| metrics.rows_passed),
    ("row_groups", |metrics| metrics.row_groups),
    ("row_groups_fallen", |metrics| metrics.row_groups_fallen),
    ("values_compared_encoded", |metrics| metrics.compared_values),
    ("values_decoded_for_predicates", |metrics| metrics.decoded_values),
    ("values_asked_for_expressions", |metrics| metrics.asked_values),
    ("rows_asked_for_expressions", |metrics| metrics.evaluated_rows),
    ("values_aggregated_by_zones", |metrics| metrics.aggregated_by_zones),
    ("values_aggregated_encoded", |metrics| metrics.aggregated_encoded),
    ("values_decoded_for_aggregates", |metrics| metrics.aggregated_decoded),
    ("requests", |metrics| metrics.requests),
    ("bytes_scanned", |metrics| metrics.bytes_read),
];

/// Of Parquet through the cache.
#[cfg(feature = "cache")]
pub(crate) const READ: Counts<entasis_cache::read::ReadMetrics> = &[
    ("rows_scanned", |metrics| metrics.rows + metrics.rows_pruned),
    ("rows_fallen_by_zones", |metrics| metrics.rows_pruned),
    ("rows_fallen_encoded", |metrics| metrics.rows_fallen_encoded),
    ("rows_fallen_decoded", |metrics| metrics.rows_fallen_decoded),
    ("rows_passed", |metrics| metrics.rows_passed),
    ("row_groups", |metrics| (metrics.row_groups_read + metrics.row_groups_pruned) as u64),
    ("row_groups_fallen", |metrics| metrics.row_groups_pruned as u64),
    ("values_compared_encoded", |metrics| metrics.values_compared),
    ("values_decoded_for_predicates", |metrics| metrics.values_decoded),
    ("values_asked_for_expressions", |metrics| metrics.values_asked),
    ("rows_asked_for_expressions", |metrics| metrics.rows_evaluated),
    ("bytes_scanned", |metrics| metrics.bytes_read),
    ("cells_found", |metrics| metrics.cells_found),
    ("cells_decoded", |metrics| metrics.cells_decoded),
    ("pieces_past_the_cache", |metrics| metrics.pieces_selected),
    ("nanoseconds_asking", |metrics| metrics.asking_ns),
    ("nanoseconds_decoding", |metrics| metrics.decoding_ns),
];

impl<M: Clone + Default> Counters<M> {
    /// Counters at zero.
    pub fn new(counts: Counts<M>, metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let count = |&(name, of): &(&'static str, _)| (MetricBuilder::new(metrics).counter(name, partition), of);
        Self { counts: counts.iter().map(count).collect(), seen: M::default() }
    }

    /// Adds what a scan did since it was last looked at.
    pub fn set(&mut self, now: &M) {
        for (count, of) in &self.counts {
            count.add((of(now) - of(&self.seen)) as usize);
        }
        self.seen = now.clone();
    }
}
