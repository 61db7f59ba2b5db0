//! Are two tables equal, and where do they differ first? What is equal, the library says; this walks two streams side by side.

use std::fmt;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use entasis::compare::first_difference;
use serde_json::{Value, json};

use crate::exit::Failure;

/// The first place where two tables differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path of the column; empty if the tables differ as wholes.
    pub column: String,
    /// The row, from 0; `None` if columns differ, not values.
    pub row: Option<u64>,
    /// What the first table has there, as text.
    pub left: String,
    /// What the second table has there.
    pub right: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.column.is_empty() {
            write!(formatter, "column {:?}, ", self.column)?;
        }
        if let Some(row) = self.row {
            write!(formatter, "row {row}, ")?;
        }
        write!(formatter, "{} in the one, {} in the other", self.left, self.right)
    }
}

impl Difference {
    /// With the names of the fields.
    pub fn to_json(&self) -> Value {
        json!({ "column": self.column, "row": self.row, "left": self.left, "right": self.right })
    }
}

/// Batches of one schema.
pub struct Stream<I> {
    /// The schema of all batches.
    pub schema: SchemaRef,
    /// The batches.
    pub batches: I,
}

/// The first difference between two tables, whose batches may be cut at different rows. Calls `progress` with the rows done.
///
/// Values are compared by their bits: `-0.0` isn't `0.0`. Metadata and nullability don't count.
pub fn first<L, R>(
    left: Stream<L>,
    right: Stream<R>,
    mut progress: impl FnMut(u64),
) -> Result<Option<Difference>, Failure>
where
    L: Iterator<Item = Result<RecordBatch, Failure>>,
    R: Iterator<Item = Result<RecordBatch, Failure>>,
{
    let empty = (RecordBatch::new_empty(left.schema), RecordBatch::new_empty(right.schema));
    if let Some(found) = first_difference(&empty.0, &empty.1)? {
        return Ok(Some(Difference { column: found.column, row: None, left: found.left, right: found.right }));
    }
    let (mut left, mut right) = (Cursor::new(left.batches), Cursor::new(right.batches));
    let mut row = 0;
    loop {
        let (one, two) = match (left.fill()?, right.fill()?) {
            (Some(one), Some(two)) => (one, two),
            (None, None) => return Ok(None),
            (one, _) => return Ok(Some(ends(row, one.is_none()))),
        };
        let rows = one.num_rows().min(two.num_rows());
        if let Some(found) = first_difference(&one.slice(0, rows), &two.slice(0, rows))? {
            let row = Some(row + found.row as u64);
            return Ok(Some(Difference { column: found.column, row, left: found.left, right: found.right }));
        }
        left.skip(rows);
        right.skip(rows);
        row += rows as u64;
        progress(row);
    }
}

fn ends(row: u64, left_ends: bool) -> Difference {
    let words = |ends: bool| if ends { "the end" } else { "a row" }.to_owned();
    Difference { column: String::new(), row: Some(row), left: words(left_ends), right: words(!left_ends) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Float64Array, StringArray};
    use std::sync::Arc;

    fn table(numbers: Vec<f64>, texts: Vec<Option<&str>>) -> RecordBatch {
        let numbers = Arc::new(Float64Array::from(numbers)) as ArrayRef;
        let texts = Arc::new(StringArray::from(texts)) as ArrayRef;
        RecordBatch::try_from_iter_with_nullable([("x", numbers, true), ("t", texts, true)]).unwrap()
    }

    /// The table in pieces that end at these rows.
    fn cut(batch: &RecordBatch, at: &[usize]) -> Stream<impl Iterator<Item = Result<RecordBatch, Failure>> + use<>> {
        let ends: Vec<usize> = at.iter().copied().chain([batch.num_rows()]).collect();
        let starts = [0].into_iter().chain(ends.clone());
        let pieces: Vec<_> = starts.zip(ends.clone()).map(|(start, end)| Ok(batch.slice(start, end - start))).collect();
        Stream { schema: batch.schema(), batches: pieces.into_iter() }
    }

    fn compared(left: &RecordBatch, right: &RecordBatch) -> Option<Difference> {
        first(cut(left, &[1, 1, 2]), cut(right, &[2]), |_| ()).unwrap()
    }

    #[test]
    fn values_are_compared_by_their_bits_and_found_by_row() {
        let other_nan = f64::from_bits(f64::NAN.to_bits() ^ 1);
        let base = table(vec![0.0, f64::NAN, 1.0, 2.0], vec![Some("a"), None, Some(""), Some("d")]);
        assert_eq!(compared(&base, &base), None);
        let minus = table(vec![-0.0, f64::NAN, 1.0, 2.0], vec![Some("a"), None, Some(""), Some("d")]);
        let nan = table(vec![0.0, other_nan, 1.0, 2.0], vec![Some("a"), None, Some(""), Some("d")]);
        let text = table(vec![0.0, f64::NAN, 1.0, 2.0], vec![Some("a"), None, None, Some("d")]);
        for (other, column, row) in [(minus, "x", 0), (nan, "x", 1), (text, "t", 2)] {
            let found = compared(&base, &other).unwrap();
            assert_eq!((found.column.as_str(), found.row), (column, Some(row)));
        }
    }

    #[test]
    fn the_shorter_table_is_named() {
        let base = table(vec![1.0, 2.0, 3.0], vec![None; 3]);
        let found = compared(&base, &base.slice(0, 2)).unwrap();
        assert_eq!(found.to_string(), "row 2, a row in the one, the end in the other");
    }

    #[test]
    fn schemas_differ_by_name_and_type() {
        let base = table(vec![], vec![]);
        let swapped = base.project(&[1, 0]).unwrap();
        let found = first(cut(&base, &[]), cut(&swapped, &[]), |_| ()).unwrap().unwrap();
        assert_eq!(found.row, None);
    }
}
