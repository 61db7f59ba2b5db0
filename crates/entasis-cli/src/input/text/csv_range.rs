//! Numbers beyond the range of their floating-point type: parsers make them infinite without a word.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use csv::ByteRecord;

use super::csv_error::Scanner;
use crate::exit::Failure;

/// Looks at the text behind every infinite value. The file is read a second time only if there are any, and only as far as they go.
pub struct RangeCheck {
    path: PathBuf,
    /// Reads behind the rows, and how many it has read.
    scanner: Option<(Scanner, u64)>,
}

impl RangeCheck {
    /// Nothing is read yet.
    pub fn new(path: &Path) -> Self {
        RangeCheck { path: path.to_owned(), scanner: None }
    }

    /// Checks a batch whose first row is row `first_row` of the file and whose columns are those numbered `columns` in it.
    pub fn check(&mut self, batch: &RecordBatch, columns: &[usize], first_row: u64) -> Result<(), Failure> {
        let infinite = batch.columns().iter().zip(columns);
        let mut infinite: Vec<(usize, usize)> = infinite
            .flat_map(|(values, column)| infinite_rows(values).into_iter().map(move |row| (row, *column)))
            .collect();
        infinite.sort_unstable();
        let mut record = ByteRecord::new();
        for (row, column) in infinite {
            let (scanner, rows_read) = match &mut self.scanner {
                Some(scanner) => scanner,
                none => none.insert((Scanner::open(&self.path)?, 0)),
            };
            while *rows_read <= first_row + row as u64 {
                if !scanner.next(&mut record)? {
                    return Ok(());
                }
                *rows_read += 1;
            }
            let text = String::from_utf8_lossy(record.get(column).unwrap_or_default());
            if !is_infinity(&text) {
                let (place, name) = (scanner.place(&record, column), batch_name(scanner, column));
                let what = format!(
                    "{place}: {text:?} is beyond the range of its type; to read the column as text: --types {name}=string"
                );
                return Err(Failure::corrupt(&self.path, what));
            }
        }
        Ok(())
    }
}

fn batch_name(scanner: &Scanner, column: usize) -> &str {
    scanner.names().get(column).map_or("", String::as_str)
}

fn infinite_rows(values: &dyn Array) -> Vec<usize> {
    fn rows<T: ArrowPrimitiveType>(values: &dyn Array, is_infinite: impl Fn(T::Native) -> bool) -> Vec<usize> {
        let values = values.as_primitive::<T>().values().iter().enumerate();
        values.filter(|(_, value)| is_infinite(**value)).map(|(row, _)| row).collect()
    }
    match values.data_type() {
        DataType::Float16 => rows::<Float16Type>(values, |value| value.is_infinite()),
        DataType::Float32 => rows::<Float32Type>(values, f32::is_infinite),
        DataType::Float64 => rows::<Float64Type>(values, f64::is_infinite),
        _ => Vec::new(),
    }
}

/// Infinity by name.
fn is_infinity(text: &str) -> bool {
    let name = text.trim().trim_start_matches(['+', '-']);
    name.eq_ignore_ascii_case("inf") || name.eq_ignore_ascii_case("infinity")
}
