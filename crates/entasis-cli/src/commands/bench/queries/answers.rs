//! Whether two systems gave the same answer.

use std::fmt;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::display::array_value_to_string;
use arrow_schema::DataType;

use super::contender::Run;
use crate::exit::Failure;

/// What two answers have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// The same rows, whatever their order; sums of floats may differ in the tenth digit.
    Equal,
    /// As many rows, and the same values to order by: of rows that are alike in them, a limit lets any pass.
    ButForTies,
    /// As many rows, where the query takes any.
    AnyRows,
    Different,
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Agreement::Equal => "equal",
            Agreement::ButForTies => "equal but for ties",
            Agreement::AnyRows => "any rows",
            Agreement::Different => "DIFFERENT",
        })
    }
}

/// Rows as text, in an order of their own.
#[derive(Debug, PartialEq)]
pub struct Answers(Vec<String>);

impl Answers {
    /// The rows of a run.
    pub fn of(run: &Run) -> Self {
        let mut rows = Vec::new();
        for batch in &run.batches {
            for row in 0..batch.num_rows() {
                let cells: Vec<String> = batch.columns().iter().map(|column| cell(column, row)).collect();
                rows.push(cells.join("\u{1f}"));
            }
        }
        rows.sort_unstable();
        Self(rows)
    }

    /// How these stand to others. Where the rows differ, `keys` gives what they are ordered by in both, if a limit cuts them.
    pub fn agreement(
        &self,
        other: &Self,
        keys: impl FnOnce() -> Result<(Option<Answers>, Option<Answers>), Failure>,
    ) -> Result<Agreement, Failure> {
        if self == other {
            return Ok(Agreement::Equal);
        }
        if self.0.len() != other.0.len() {
            return Ok(Agreement::Different);
        }
        Ok(match keys()? {
            (Some(keys), Some(others)) if keys.0.first().is_some_and(String::is_empty) && keys == others => {
                Agreement::AnyRows
            }
            (Some(keys), Some(others)) if keys == others => Agreement::ButForTies,
            _ => Agreement::Different,
        })
    }
}

fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "NULL".to_owned();
    }
    let float = |value: f64| if value == 0.0 { "0".to_owned() } else { format!("{value:.9e}") };
    match column.data_type() {
        DataType::Float64 => float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Float32 => float(column.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float16 => float(column.as_primitive::<Float16Type>().value(row).into()),
        _ => array_value_to_string(column, row).unwrap_or_else(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_told_from_differences() {
        let rows = |rows: &[&str]| Answers(rows.iter().map(|row| (*row).to_owned()).collect());
        let agreement = |keys: Option<&[&str]>, others: Option<&[&str]>| {
            rows(&["a", "b"]).agreement(&rows(&["a", "c"]), || Ok((keys.map(rows), others.map(rows)))).unwrap()
        };
        assert_eq!(agreement(None, None), Agreement::Different);
        assert_eq!(agreement(Some(&["1", "2"]), Some(&["1", "2"])), Agreement::ButForTies);
        assert_eq!(agreement(Some(&["1", "2"]), Some(&["1", "3"])), Agreement::Different);
        assert_eq!(agreement(Some(&["", ""]), Some(&["", ""])), Agreement::AnyRows);
        let same = rows(&["a"]).agreement(&rows(&["a"]), || Ok((None, None))).unwrap();
        assert_eq!(same, Agreement::Equal);
        let fewer = rows(&["a"]).agreement(&rows(&["a", "b"]), || Ok((None, None))).unwrap();
        assert_eq!(fewer, Agreement::Different);
    }
}
