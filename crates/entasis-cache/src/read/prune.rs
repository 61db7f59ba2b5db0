//! Row groups of which Parquet's statistics say that no row passes.

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{Field, Schema};
use entasis::scan::scalar_of;
use entasis_encoding::{Comparison, FloatOrder, Physical, Predicate, Scalar};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;

/// What is known of a column of a row group.
struct Known {
    min: Option<Scalar>,
    max: Option<Scalar>,
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
            min: bound(converter.row_group_mins([group])),
            max: bound(converter.row_group_maxes([group])),
            null_count: statistics.and_then(|statistics| statistics.null_count_opt()),
            rows: u64::try_from(group.num_rows()).unwrap_or(u64::MAX),
        })
    }

    fn may_pass(&self, predicate: &Predicate) -> bool {
        match predicate {
            Predicate::IsNull => return self.null_count != Some(0),
            _ if self.null_count == Some(self.rows) => return false,
            _ => {}
        }
        match predicate {
            Predicate::Compare(Comparison::Less, literal, _) => !self.min_is(literal, Ordering::is_ge),
            Predicate::Compare(Comparison::LessOrEqual, literal, _) => !self.min_is(literal, Ordering::is_gt),
            Predicate::Compare(Comparison::Greater, literal, _) => !self.max_is(literal, Ordering::is_le),
            Predicate::Compare(Comparison::GreaterOrEqual, literal, _) => !self.max_is(literal, Ordering::is_lt),
            Predicate::Compare(Comparison::Equal, literal, _) => self.may_hold(literal),
            Predicate::Between { low, high, negated: false, .. } => {
                !self.max_is(low, Ordering::is_lt) && !self.min_is(high, Ordering::is_gt)
            }
            Predicate::In { values, negated: false, .. } => values.iter().any(|value| self.may_hold(value)),
            _ => true,
        }
    }

    fn may_hold(&self, literal: &Scalar) -> bool {
        !self.min_is(literal, Ordering::is_gt) && !self.max_is(literal, Ordering::is_lt)
    }

    fn min_is(&self, literal: &Scalar, is: fn(Ordering) -> bool) -> bool {
        stands(self.min.as_ref(), literal, is)
    }

    fn max_is(&self, literal: &Scalar, is: fn(Ordering) -> bool) -> bool {
        stands(self.max.as_ref(), literal, is)
    }
}

/// False where a bound isn't known, or is of another kind than the literal.
fn stands(bound: Option<&Scalar>, literal: &Scalar, is: fn(Ordering) -> bool) -> bool {
    bound.and_then(|bound| bound.compare(literal, FloatOrder::default())).is_some_and(is)
}
