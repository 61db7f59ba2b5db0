//! Row groups, and pages, of which Parquet's statistics say that no row passes.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_schema::Schema;
use entasis::scan::{Bounds, Verdict, scalar_of};
use entasis_encoding::{Physical, Predicate, Selection, VECTOR_ROWS};
use parquet::arrow::arrow_reader::RowSelection;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, SortOrder};
use parquet::file::metadata::ParquetMetaData;

/// What Parquet says of a row group's top-level columns. Floats are left alone: Parquet's writers disagree about NaNs and zeros. So are
/// statistics of an old form, whose order of strings nobody wrote down.
#[derive(Clone, Copy)]
pub(crate) struct Statistics<'a> {
    pub metadata: &'a ParquetMetaData,
    pub schema: &'a Schema,
    pub row_group: usize,
}

/// What is known of a column of a row group, or of a page.
struct Known {
    bounds: Bounds,
    null_count: Option<u64>,
    rows: u64,
}

impl<'a> Statistics<'a> {
    /// Whether rows may pass a predicate on a column.
    pub fn may_pass(self, column: usize, physical: &Physical, predicate: &Predicate) -> bool {
        self.of_group(column, physical).is_none_or(|known| known.may_pass(predicate))
    }

    /// The rows that may pass a predicate on a column, as the page index tells. `None` if all may.
    pub fn rows_left(self, column: usize, physical: &Physical, predicate: &Predicate) -> Option<RowSelection> {
        let pages = self.of_pages(column, physical)?;
        let rows = self.rows()?;
        let left: Vec<Range<usize>> =
            pages.into_iter().filter(|(_, known)| known.may_pass(predicate)).map(|(rows, _)| rows).collect();
        let is_all = left.iter().map(ExactSizeIterator::len).sum::<usize>() == rows;
        (!is_all).then(|| RowSelection::from_consecutive_ranges(left.into_iter(), rows))
    }

    /// The row group's rows.
    pub fn rows(self) -> Option<usize> {
        usize::try_from(self.metadata.row_group(self.row_group).num_rows()).ok()
    }

    /// Nothing if there is no such column, or if it has no order.
    fn converter(self, column: usize, physical: &Physical) -> Option<(StatisticsConverter<'a>, usize)> {
        let has_order = match physical {
            Physical::Bool | Physical::Bytes => true,
            Physical::Fixed(fixed) => !fixed.is_float(),
            _ => false,
        };
        let fields = self.schema.fields();
        let name = fields.get(column)?.name();
        let is_only = || fields.iter().filter(|other| other.name() == name).count() == 1;
        if !has_order || !is_only() {
            return None;
        }
        let descriptor = self.metadata.file_metadata().schema_descr();
        let converter = StatisticsConverter::try_new(name, self.schema, descriptor).ok()?;
        let leaf = converter.parquet_column_index()?;
        Some((converter, leaf))
    }

    fn of_group(self, column: usize, physical: &Physical) -> Option<Known> {
        let (converter, leaf) = self.converter(column, physical)?;
        let group = self.metadata.row_group(self.row_group);
        let statistics = group.column(leaf).statistics();
        let is_new = statistics.is_some_and(|statistics| !statistics.is_min_max_deprecated());
        let bound = |found: parquet::errors::Result<ArrayRef>| {
            found.ok().filter(|bounds| is_new && bounds.len() == 1).and_then(|bounds| scalar_of(&bounds))
        };
        Some(Known {
            bounds: Bounds {
                min: bound(converter.row_group_mins([group])),
                max: bound(converter.row_group_maxes([group])),
            },
            null_count: statistics.and_then(|statistics| statistics.null_count_opt()),
            rows: u64::try_from(group.num_rows()).unwrap_or(u64::MAX),
        })
    }

    /// The pages of a column: their rows, and what is known of them. Nothing if there is no index of them, or one that contradicts itself.
    fn of_pages(self, column: usize, physical: &Physical) -> Option<Vec<(Range<usize>, Known)>> {
        let (columns, offsets) = (self.metadata.column_index()?, self.metadata.offset_index()?);
        let (converter, leaf) = self.converter(column, physical)?;
        let order = self.metadata.file_metadata().column_orders()?.get(leaf)?;
        if !matches!(order, ColumnOrder::TYPE_DEFINED_ORDER(order) if *order != SortOrder::UNDEFINED) {
            return None;
        }
        columns.get(self.row_group)?.get(leaf)?;
        let places = offsets.get(self.row_group)?.get(leaf)?.page_locations();
        let starts = places.iter().map(|place| usize::try_from(place.first_row_index).ok());
        let mut starts: Vec<usize> = starts.collect::<Option<_>>()?;
        starts.push(self.rows()?);
        if starts[0] != 0 || !starts.is_sorted() {
            return None;
        }
        let group = [&self.row_group];
        let mins = converter.data_page_mins(columns, offsets, group).ok()?;
        let maxes = converter.data_page_maxes(columns, offsets, group).ok()?;
        let null_counts = converter.data_page_null_counts(columns, offsets, group).ok()?;
        if [mins.len(), maxes.len(), null_counts.len()] != [places.len(); 3] {
            return None;
        }
        let known = |(page, rows): (usize, &[usize])| {
            let bound = |bounds: &ArrayRef| scalar_of(&bounds.slice(page, 1));
            let rows = rows[0]..rows[1];
            let known = Known {
                bounds: Bounds { min: bound(&mins), max: bound(&maxes) },
                null_count: null_counts.is_valid(page).then(|| null_counts.value(page)),
                rows: rows.len() as u64,
            };
            (rows, known)
        };
        Some(starts.windows(2).enumerate().map(known).collect())
    }
}

impl Known {
    fn may_pass(&self, predicate: &Predicate) -> bool {
        match predicate {
            Predicate::IsNull => self.null_count != Some(0),
            _ if self.null_count == Some(self.rows) => false,
            _ => self.bounds.verdict(predicate) != Some(Verdict::None),
        }
    }
}

/// The rows of a row group that may pass.
#[derive(Debug)]
pub(crate) struct RowsLeft {
    /// They ascend; `None` if all may.
    ranges: Option<Vec<Range<usize>>>,
}

impl RowsLeft {
    /// All rows unless a selection says which.
    pub fn new(selection: Option<RowSelection>) -> Self {
        let ranges = selection.map(|selection| {
            let mut next = 0;
            let mut ranges = Vec::new();
            for selector in selection.iter() {
                let rows = next..next + selector.row_count;
                next = rows.end;
                if !selector.skip {
                    ranges.push(rows);
                }
            }
            ranges
        });
        Self { ranges }
    }

    /// Those among some rows that follow each other, counted from the first of these: whole vectors, for what is beside them is decoded with them.
    pub fn of(&self, rows: Range<usize>) -> Selection {
        let mut selection = Selection::all(rows.len());
        let Some(ranges) = &self.ranges else { return selection };
        for vector in 0..selection.vectors().len() {
            let start = rows.start + vector * VECTOR_ROWS;
            let end = start + selection.vector_rows(vector);
            let next = ranges.partition_point(|range| range.end <= start);
            if ranges.get(next).is_none_or(|range| range.start >= end) {
                selection.clear(vector);
            }
        }
        selection
    }
}
