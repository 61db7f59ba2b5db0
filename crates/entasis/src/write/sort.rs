//! Holds the rows to the declared sort order while they are written.
//!
//! Integers, decimals, dates and times are in the order of numbers, byte strings in that of their bytes, false comes
//! before true; floats are in the order of numbers with −0.0 equal to 0.0 and NaN after all. Nulls, and values of null
//! structs, come first or last, whatever the direction.

use std::cmp::Ordering;

use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array, cast::AsArray};
use entasis_encoding::{Column, Fixed, Lanes, Physical, Values};
use half::f16;

use super::SortColumn;
use crate::{
    arrow::{ColumnNode, with_column},
    error::{Error, Result},
    metadata::file_record::SortKey,
};

/// The declared order and the last row that was seen.
pub struct SortCheck {
    columns: Vec<CheckedColumn>,
    keys: Vec<SortKey>,
    rows_seen: u64,
    /// Per column, one row: its value, and the validity of the structs around it.
    last: Option<Vec<(ArrayRef, Vec<BooleanArray>)>>,
}

struct CheckedColumn {
    path: String,
    /// Number of the column in pre-order, and of the structs around it.
    index: usize,
    structs: Vec<usize>,
}

impl SortCheck {
    /// The check of `order` on columns of `trees`. A path that names no column or several, or one of lists, is
    /// [`Error::InvalidArgument`].
    pub fn new(trees: &[ColumnNode], order: &[SortColumn]) -> Result<Self> {
        let mut columns = Vec::new();
        let mut keys = Vec::new();
        for column in order {
            let mut found = Vec::new();
            find(trees, 0, &column.column, &mut Vec::new(), &mut found);
            let [(index, structs, node)] = &found[..] else {
                let what = format!("sort column {:?} is the name of {} columns", column.column, found.len());
                return Err(Error::InvalidArgument(what));
            };
            if !matches!(node.physical, Physical::Bool | Physical::Fixed(_) | Physical::Bytes | Physical::Null)
                || node.children.is_some()
            {
                return Err(Error::InvalidArgument(format!("sort column {:?} is nested", column.column)));
            }
            columns.push(CheckedColumn { path: column.column.clone(), index: *index, structs: structs.clone() });
            let (descending, nulls_first) = (column.descending, column.nulls_first);
            keys.push(SortKey { field_id: *index as u64, descending, nulls_first });
        }
        Ok(Self { columns, keys, rows_seen: 0, last: None })
    }

    /// The order, as the file record has it.
    pub fn keys(&self) -> &[SortKey] {
        &self.keys
    }

    /// Checks the next `rows` rows; `arrays` are those of all columns in pre-order. On failure nothing has been seen.
    pub fn check(&mut self, arrays: &[ArrayRef], rows: usize) -> Result<()> {
        if self.columns.is_empty() || rows == 0 {
            return Ok(());
        }
        // How the row before compares with each row, by the columns looked at so far.
        let mut orderings = vec![Ordering::Equal; rows];
        for (number, (column, key)) in self.columns.iter().zip(&self.keys).enumerate() {
            let lent = Rows::new(&arrays[column.index], column.structs.iter().map(|&index| &arrays[index]));
            if let (Some(last), true) = (&self.last, orderings[0] == Ordering::Equal) {
                let (array, structs) = &last[number];
                let last = Rows { array, structs: structs.iter().collect() };
                orderings[0] = last.compare_first(&lent, key)?;
            }
            lent.compare_neighbours(key, &mut orderings)?;
        }
        if let Some(row) = orderings.iter().position(|&ordering| ordering == Ordering::Greater) {
            let names: Vec<_> = self.columns.iter().map(|column| column.path.as_str()).collect();
            let row = self.rows_seen + row as u64;
            let what = format!("row {row} comes before row {} in the declared order of {names:?}", row - 1);
            return Err(Error::InvalidArgument(what));
        }
        self.keep_last(arrays, rows - 1)?;
        self.rows_seen += rows as u64;
        Ok(())
    }

    fn keep_last(&mut self, arrays: &[ArrayRef], row: usize) -> Result<()> {
        // Copied, for a slice would keep the whole batch.
        let row = UInt32Array::from(vec![row as u32]);
        let keep = |index: usize| arrow_select::take::take(&arrays[index], &row, None);
        let keep_column = |column: &CheckedColumn| {
            let structs = column.structs.iter().map(|&index| Ok(keep(index)?.as_boolean().clone()));
            Ok((keep(column.index)?, structs.collect::<Result<_>>()?))
        };
        self.last = Some(self.columns.iter().map(keep_column).collect::<Result<_>>()?);
        Ok(())
    }
}

type Found<'a> = (usize, Vec<usize>, &'a ColumnNode);

/// Adds every column that `path` names, with its number in pre-order (that of the first of `nodes` being `first`) and
/// those of the structs around it.
fn find<'a>(nodes: &'a [ColumnNode], first: usize, path: &str, structs: &mut Vec<usize>, found: &mut Vec<Found<'a>>) {
    let mut index = first;
    for node in nodes {
        if node.field.name() == path {
            found.push((index, structs.clone(), node));
        } else if let Some(rest) = path.strip_prefix(node.field.name().as_str()).and_then(|rest| rest.strip_prefix('.'))
        {
            structs.push(index);
            find(node.children.as_deref().unwrap_or_default(), index + 1, rest, structs, found);
            structs.pop();
        }
        index += node.column_count();
    }
}

/// Rows of one column of the order.
struct Rows<'a> {
    array: &'a ArrayRef,
    structs: Vec<&'a BooleanArray>,
}

impl<'a> Rows<'a> {
    fn new(array: &'a ArrayRef, structs: impl Iterator<Item = &'a ArrayRef>) -> Self {
        Self { array, structs: structs.map(|validity| validity.as_boolean()).collect() }
    }

    fn is_null(&self, column: &Column<'_>, row: usize) -> bool {
        column.validity.is_some_and(|validity| !validity.get(row))
            || matches!(column.values, Values::Null)
            || self.structs.iter().any(|validity| !validity.value(row))
    }

    /// How this one row compares with the first of `next`.
    fn compare_first(&self, next: &Rows<'_>, key: &SortKey) -> Result<Ordering> {
        with_column(self.array, |left| {
            with_column(&next.array.slice(0, 1), |right| {
                let nulls = (self.is_null(left, 0), next.is_null(right, 0));
                compare(nulls, key, || compare_values(&left.values, 0, &right.values, 0))
            })
        })?
    }

    /// How each row but the first compares with the row before it, where nothing has told them apart yet.
    fn compare_neighbours(&self, key: &SortKey, orderings: &mut [Ordering]) -> Result<()> {
        with_column(self.array, |column| {
            let undecided = orderings.iter_mut().enumerate().skip(1).filter(|(_, ordering)| ordering.is_eq());
            for (row, ordering) in undecided {
                let nulls = (self.is_null(column, row - 1), self.is_null(column, row));
                *ordering = compare(nulls, key, || compare_values(&column.values, row - 1, &column.values, row));
            }
        })
    }
}

fn compare(nulls: (bool, bool), key: &SortKey, values: impl FnOnce() -> Ordering) -> Ordering {
    match nulls {
        (true, true) => Ordering::Equal,
        (true, false) if key.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) if key.nulls_first => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if key.descending => values().reverse(),
        (false, false) => values(),
    }
}

fn compare_values(left: &Values<'_>, row: usize, right: &Values<'_>, other: usize) -> Ordering {
    match (left, right) {
        (Values::Bool(left), Values::Bool(right)) => left.get(row).cmp(&right.get(other)),
        (Values::Bytes(left), Values::Bytes(right)) => left[row].cmp(right[other]),
        (Values::Fixed(fixed, left), Values::Fixed(_, right)) => compare_lanes(*fixed, left, row, right, other),
        _ => Ordering::Equal,
    }
}

fn compare_lanes(fixed: Fixed, left: &Lanes<'_>, row: usize, right: &Lanes<'_>, other: usize) -> Ordering {
    let signed = fixed.is_signed();
    match (left, right) {
        (Lanes::L8(left), Lanes::L8(right)) if signed => (left[row] as i8).cmp(&(right[other] as i8)),
        (Lanes::L8(left), Lanes::L8(right)) => left[row].cmp(&right[other]),
        (Lanes::L16(left), Lanes::L16(right)) if fixed == Fixed::F16 => {
            compare_floats(f16::from_bits(left[row]).to_f64(), f16::from_bits(right[other]).to_f64())
        }
        (Lanes::L16(left), Lanes::L16(right)) if signed => (left[row] as i16).cmp(&(right[other] as i16)),
        (Lanes::L16(left), Lanes::L16(right)) => left[row].cmp(&right[other]),
        (Lanes::L32(left), Lanes::L32(right)) if fixed == Fixed::F32 => {
            compare_floats(f32::from_bits(left[row]).into(), f32::from_bits(right[other]).into())
        }
        (Lanes::L32(left), Lanes::L32(right)) if signed => (left[row] as i32).cmp(&(right[other] as i32)),
        (Lanes::L32(left), Lanes::L32(right)) => left[row].cmp(&right[other]),
        (Lanes::L64(left), Lanes::L64(right)) if fixed == Fixed::F64 => {
            compare_floats(f64::from_bits(left[row]), f64::from_bits(right[other]))
        }
        (Lanes::L64(left), Lanes::L64(right)) if signed => (left[row] as i64).cmp(&(right[other] as i64)),
        (Lanes::L64(left), Lanes::L64(right)) => left[row].cmp(&right[other]),
        (Lanes::L128(left), Lanes::L128(right)) => (left[row] as i128).cmp(&(right[other] as i128)),
        (Lanes::L256(left), Lanes::L256(right)) => {
            let parts = |lane: entasis_encoding::U256| (lane.high as i128, lane.low);
            parts(left[row]).cmp(&parts(right[other]))
        }
        _ => Ordering::Equal,
    }
}

fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Float64Array, Int32Array, StringArray};
    use arrow_schema::{DataType, Field, Fields, Schema};

    use super::*;
    use crate::arrow::shred;

    fn schema() -> Schema {
        let inner = Fields::from(vec![Field::new("x", DataType::Float64, true)]);
        Schema::new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Utf8, true),
            Field::new("s", DataType::Struct(inner), true),
            Field::new("twice", DataType::Int32, true),
            Field::new("twice", DataType::Int32, true),
            Field::new("list", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))), true),
        ])
    }

    fn sort_column(column: &str, descending: bool, nulls_first: bool) -> SortColumn {
        SortColumn { column: column.to_owned(), descending, nulls_first }
    }

    fn check_of(order: &[SortColumn]) -> Result<SortCheck> {
        SortCheck::new(&shred(&schema()).unwrap(), order)
    }

    fn integers(values: &[Option<i32>]) -> ArrayRef {
        Arc::new(Int32Array::from(values.to_vec()))
    }

    #[test]
    fn directions_and_nulls_are_honoured() {
        let ascending = [Some(-5), Some(1), Some(1), Some(7)];
        let descending = [Some(7), Some(1), Some(-5), Some(-5)];
        for (is_descending, values) in [(false, ascending), (true, descending)] {
            for nulls_first in [false, true] {
                let mut values = values.to_vec();
                values.insert(if nulls_first { 0 } else { 4 }, None);
                let mut check = check_of(&[sort_column("a", is_descending, nulls_first)]).unwrap();
                check.check(&[integers(&values)], 5).unwrap();
                let mut check = check_of(&[sort_column("a", is_descending, !nulls_first)]).unwrap();
                assert!(check.check(&[integers(&values)], 5).is_err());
                let mut check = check_of(&[sort_column("a", !is_descending, nulls_first)]).unwrap();
                assert!(check.check(&[integers(&values)], 5).is_err());
            }
        }
    }

    #[test]
    fn edges_between_batches_count_and_failures_are_not_seen() {
        let order = [sort_column("a", false, false), sort_column("b", true, true)];
        let mut check = check_of(&order).unwrap();
        let batch = |a: &[i32], b: &[&str]| -> Vec<ArrayRef> {
            vec![Arc::new(Int32Array::from(a.to_vec())), Arc::new(StringArray::from(b.to_vec()))]
        };
        check.check(&batch(&[1, 2, 2], &["a", "z", "m"]), 3).unwrap();
        let error = check.check(&batch(&[2, 3], &["n", "a"]), 2).unwrap_err().to_string();
        assert!(error.contains("row 3 comes before row 2"), "{error}");
        check.check(&batch(&[2, 3], &["m", "a"]), 2).unwrap();
        check.check(&batch(&[], &[]), 0).unwrap();
        let error = check.check(&batch(&[3, 3], &["a", "b"]), 2).unwrap_err().to_string();
        assert!(error.contains("row 6 comes before row 5"), "{error}");
    }

    #[test]
    fn floats_have_one_order_and_null_structs_are_null() {
        let order = [sort_column("s.x", false, true)];
        let mut check = check_of(&order).unwrap();
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![9.0, -1.0, 0.0, -0.0, 5.0, f64::NAN, -f64::NAN]));
        let validity: ArrayRef = Arc::new(BooleanArray::from(vec![false, true, true, true, true, true, true]));
        let none = integers(&[]);
        let arrays = [none.clone(), none, validity, floats];
        check.check(&arrays, 7).unwrap();
        assert_eq!(check.keys()[0].field_id, 3);
    }

    #[test]
    fn paths_name_one_flat_column() {
        for path in ["none", "twice", "s", "s.y", "list", ""] {
            let refused = check_of(&[sort_column(path, false, false)]);
            assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{path}");
        }
    }
}
