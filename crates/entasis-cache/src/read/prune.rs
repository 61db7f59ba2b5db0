//! Row groups of which Parquet's statistics say that no row passes.

use arrow_array::{Array, ArrayRef};
use arrow_schema::{Field, Schema};
use entasis::scan::{Bounds, Verdict, scalar_of};
use entasis_encoding::{Physical, Predicate};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;

/// What is known of a column of a row group.
struct Known {
    bounds: Bounds,
    null_count: Option<u64>,
    rows: u64,
}

/// Whether rows of a row group may pass a predicate on a top-level column. Statistics of floats are left alone: Parquet's writers disagree
/// about NaNs and zeros. So are those of an old form, whose order of strings nobody wrote down.
pub(crate) fn may_pass(
    metadata: &ParquetMetaData,
    row_group: usize,
    schema: &Schema,
    column: usize,
    physical: &Physical,
    predicate: &Predicate,
) -> bool {
    let has_order = match physical {
        Physical::Bool | Physical::Bytes => true,
        Physical::Fixed(fixed) => !fixed.is_float(),
        _ => false,
    };
    let field = schema.field(column);
    let is_only = || schema.fields().iter().filter(|other| other.name() == field.name()).count() == 1;
    let known = (has_order && is_only()).then(|| Known::of(metadata, row_group, schema, field)).flatten();
    known.is_none_or(|known| known.may_pass(predicate))
}

impl Known {
    /// Nothing if there is no such column.
    fn of(metadata: &ParquetMetaData, row_group: usize, schema: &Schema, field: &Field) -> Option<Self> {
        let group = metadata.row_group(row_group);
        let descriptor = metadata.file_metadata().schema_descr();
        let converter = StatisticsConverter::try_new(field.name(), schema, descriptor).ok()?;
        let statistics = group.column(converter.parquet_column_index()?).statistics();
        let is_new = statistics.is_some_and(|statistics| !statistics.is_min_max_deprecated());
        let bound = |found: parquet::errors::Result<ArrayRef>| {
            found.ok().filter(|bounds| is_new && bounds.len() == 1).and_then(|bounds| scalar_of(&bounds))
        };
        Some(Self {
            bounds: Bounds {
                min: bound(converter.row_group_mins([group])),
                max: bound(converter.row_group_maxes([group])),
            },
            null_count: statistics.and_then(|statistics| statistics.null_count_opt()),
            rows: u64::try_from(group.num_rows()).unwrap_or(u64::MAX),
        })
    }

    fn may_pass(&self, predicate: &Predicate) -> bool {
        match predicate {
            Predicate::IsNull => self.null_count != Some(0),
            _ if self.null_count == Some(self.rows) => false,
            _ => self.bounds.verdict(predicate) != Some(Verdict::None),
        }
    }
}
