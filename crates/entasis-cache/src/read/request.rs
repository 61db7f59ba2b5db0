//! What is asked of a file, and what answering it took.

use entasis::Projection;
use entasis::scan::Condition;

use crate::CELL_ROWS;

/// What is asked of a file. [`Default`] is every row and column.
#[derive(Debug, Clone)]
pub struct ParquetRequest {
    /// Columns that come out.
    pub projection: Projection,
    /// Which rows pass.
    pub condition: Condition,
    /// Row groups to read, by number: all.
    pub row_groups: Option<Vec<usize>>,
    /// Most rows that come out.
    pub limit: Option<u64>,
    /// Most rows of a batch: 65,536, and never more.
    pub batch_rows: usize,
}

impl Default for ParquetRequest {
    fn default() -> Self {
        Self {
            projection: Projection::all(),
            condition: Condition::Always(true),
            row_groups: None,
            limit: None,
            batch_rows: CELL_ROWS,
        }
    }
}

/// What a read did. Rows that fall on a rung aren't seen by the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReadMetrics {
    /// Row groups that fell by Parquet's statistics.
    pub row_groups_pruned: usize,
    /// Row groups that were read.
    pub row_groups_read: usize,
    /// Rows that conditions were asked about.
    pub rows: u64,
    /// Rows that fell by Parquet's statistics.
    pub rows_pruned: u64,
    /// Rows that fell on cells, without a value of a row being decoded for an expression.
    pub rows_fallen_encoded: u64,
    /// Rows that fell by expressions on decoded values.
    pub rows_fallen_decoded: u64,
    /// Rows that passed.
    pub rows_passed: u64,
    /// Cells that were in the cache, or that others brought in meanwhile.
    pub cells_found: u64,
    /// Cells of which all pages were fetched from Parquet, to be decoded.
    pub cells_decoded: u64,
    /// Pieces of columns of which just the survivors were decoded from Parquet, past the cache.
    pub pieces_selected: u64,
    /// Values that were decoded to be compared.
    pub values_decoded: u64,
    /// Values that were compared as they are encoded.
    pub values_compared: u64,
    /// Distinct values that expressions were evaluated for, instead of for rows.
    pub values_asked: u64,
    /// Rows that expressions were evaluated for.
    pub rows_evaluated: u64,
    /// Nanoseconds in which conditions were asked, of threads that may have been interrupted.
    pub asking_ns: u64,
    /// Likewise, in which values were decoded or copied: for conditions, before these were asked, and for the output.
    pub decoding_ns: u64,
    /// Bytes of Parquet that were asked of the store, metadata not counted.
    pub bytes_read: u64,
}
