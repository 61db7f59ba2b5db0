//! Are two tables equal, bit for bit, and where do they differ first?

use std::fmt;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::Schema;

use crate::exit::Failure;
use crate::table::printable;

/// The first place where two tables differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A value.
    Value {
        /// The column's name.
        column: String,
        /// Rows count from 0.
        row: u64,
        /// The value of the first table, as text.
        left: String,
        /// The value of the second table.
        right: String,
    },
    /// A column's name, type, or presence.
    Column {
        /// The column's place, from 0.
        index: usize,
        /// What the first table has there, in words.
        left: String,
        /// What the second table has there.
        right: String,
    },
    /// One table ends earlier.
    Rows {
        /// Rows that both have.
        common: u64,
        /// True if the first table is the longer one.
        left_is_longer: bool,
    },
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Value { column, row, left, right } => {
                write!(formatter, "column {column:?}, row {row}: {left} is {right} in the other")
            }
            Difference::Column { index, left, right } => {
                write!(formatter, "column {index}: {left} is {right} in the other")
            }
            Difference::Rows { common, left_is_longer } => {
                let which = if *left_is_longer { "the other" } else { "this one" };
                write!(formatter, "row {common}: {which} ends here")
            }
        }
    }
}

/// The first column in which two schemas differ by name or type. Metadata and nullability are no values.
pub fn schemas(left: &Schema, right: &Schema) -> Option<Difference> {
    let words = |schema: &Schema, index: usize| {
        schema
            .fields()
            .get(index)
            .map_or("nothing".to_owned(), |field| format!("{:?} ({})", field.name(), field.data_type()))
    };
    let count = left.fields().len().max(right.fields().len());
    (0..count).find_map(|index| {
        let equal = match (left.fields().get(index), right.fields().get(index)) {
            (Some(one), Some(two)) => one.name() == two.name() && one.data_type().equals_datatype(two.data_type()),
            _ => false,
        };
        let differ = || Difference::Column { index, left: words(left, index), right: words(right, index) };
        (!equal).then(differ)
    })
}

/// The first difference between two streams of batches, which may be cut at different rows. The schemas must be equal.
///
/// Values are compared by their bits: `-0.0` isn't `0.0`, and a NaN is itself only. Calls `progress` with the rows done.
pub fn batches(
    left: impl Iterator<Item = Result<RecordBatch, Failure>>,
    right: impl Iterator<Item = Result<RecordBatch, Failure>>,
    mut progress: impl FnMut(u64),
) -> Result<Option<Difference>, Failure> {
    let (mut left, mut right) = (Cursor::new(left), Cursor::new(right));
    let mut row = 0;
    loop {
        let (Some(one), Some(two)) = (left.fill()?, right.fill()?) else {
            let left_is_longer = left.fill()?.is_some();
            let ended_together = !left_is_longer && right.fill()?.is_none();
            return Ok((!ended_together).then_some(Difference::Rows { common: row, left_is_longer }));
        };
        let rows = one.num_rows().min(two.num_rows());
        if let Some(difference) = within(&one.slice(0, rows), &two.slice(0, rows), row) {
            return Ok(Some(difference));
        }
        left.skip(rows);
        right.skip(rows);
        row += rows as u64;
        progress(row);
    }
}

/// A stream of batches, read by rows.
struct Cursor<I> {
    batches: I,
    current: Option<RecordBatch>,
}

impl<I: Iterator<Item = Result<RecordBatch, Failure>>> Cursor<I> {
    fn new(batches: I) -> Self {
        Cursor { batches, current: None }
    }

    /// What is left of the current batch, or the next that has rows.
    fn fill(&mut self) -> Result<Option<RecordBatch>, Failure> {
        while self.current.as_ref().is_none_or(|batch| batch.num_rows() == 0) {
            match self.batches.next() {
                Some(batch) => self.current = Some(batch?),
                None => return Ok(None),
            }
        }
        Ok(self.current.clone())
    }

    fn skip(&mut self, rows: usize) {
        self.current = self.current.take().map(|batch| batch.slice(rows, batch.num_rows() - rows));
    }
}

/// The first row in which two batches of equal length differ, and there the first column.
fn within(left: &RecordBatch, right: &RecordBatch, first_row: u64) -> Option<Difference> {
    let columns = left.columns().iter().zip(right.columns()).enumerate();
    let first = columns.filter_map(|(index, (one, two))| first_row_of(one, two).map(|row| (row, index))).min()?;
    let (row, index) = first;
    Some(Difference::Value {
        column: left.schema().field(index).name().clone(),
        row: first_row + row as u64,
        left: shown(left.column(index), row),
        right: shown(right.column(index), row),
    })
}

/// Arrays are equal by their bits in Arrow's own comparison; if they aren't, halving finds the row.
fn first_row_of(left: &ArrayRef, right: &ArrayRef) -> Option<usize> {
    let equal =
        |start: usize, length: usize| left.slice(start, length).to_data() == right.slice(start, length).to_data();
    let (mut start, mut length) = (0, left.len());
    if equal(start, length) {
        return None;
    }
    while length > 1 {
        let half = length / 2;
        if equal(start, half) {
            start += half;
            length -= half;
        } else {
            length = half;
        }
    }
    Some(start)
}

fn shown(column: &ArrayRef, row: usize) -> String {
    if column.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return "null".to_owned();
    }
    let options = FormatOptions::new().with_display_error(true);
    match ArrayFormatter::try_new(column, &options) {
        Ok(formatter) => printable(&formatter.value(row).to_string()),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Float64Array, StringArray};
    use std::sync::Arc;

    fn table(numbers: Vec<f64>, texts: Vec<Option<&str>>) -> RecordBatch {
        let numbers = Arc::new(Float64Array::from(numbers)) as ArrayRef;
        let texts = Arc::new(StringArray::from(texts)) as ArrayRef;
        RecordBatch::try_from_iter_with_nullable([("x", numbers, true), ("t", texts, true)]).unwrap()
    }

    fn cut(batch: &RecordBatch, at: &[usize]) -> Vec<Result<RecordBatch, Failure>> {
        let mut start = 0;
        let ends = at.iter().copied().chain([batch.num_rows()]);
        ends.map(|end| {
            let piece = batch.slice(start, end - start);
            start = end;
            Ok(piece)
        })
        .collect()
    }

    fn compared(left: &RecordBatch, right: &RecordBatch) -> Option<Difference> {
        batches(cut(left, &[1, 1, 3]).into_iter(), cut(right, &[2]).into_iter(), |_| ()).unwrap()
    }

    #[test]
    fn values_are_compared_by_their_bits() {
        let other_nan = f64::from_bits(f64::NAN.to_bits() ^ 1);
        let base = table(vec![0.0, f64::NAN, 1.0, 2.0], vec![Some("a"), None, Some(""), Some("d")]);
        assert_eq!(compared(&base, &base), None);
        let minus = table(vec![-0.0, f64::NAN, 1.0, 2.0], vec![Some("a"), None, Some(""), Some("d")]);
        let nan = table(vec![0.0, other_nan, 1.0, 2.0], vec![Some("a"), None, Some(""), Some("d")]);
        let text = table(vec![0.0, f64::NAN, 1.0, 2.5], vec![Some("a"), None, None, Some("d")]);
        for (other, column, row) in [(minus, "x", 0), (nan, "x", 1), (text, "t", 2)] {
            match compared(&base, &other) {
                Some(Difference::Value { column: found, row: at, .. }) => {
                    assert_eq!((found.as_str(), at), (column, row))
                }
                found => panic!("{found:?}"),
            }
        }
    }

    #[test]
    fn lengths_count() {
        let base = table(vec![1.0, 2.0, 3.0], vec![None; 3]);
        let difference = compared(&base, &base.slice(0, 2).clone());
        assert_eq!(difference, Some(Difference::Rows { common: 2, left_is_longer: true }));
    }

    #[test]
    fn schemas_differ_by_name_and_type() {
        let base = table(vec![], vec![]);
        let swapped = base.project(&[1, 0]).unwrap();
        let difference = schemas(&base.schema(), &swapped.schema()).unwrap();
        assert_eq!(difference.to_string(), r#"column 0: "x" (Float64) is "t" (Utf8) in the other"#);
        assert_eq!(schemas(&base.schema(), &base.schema()), None);
    }
}
