//! The types of a CSV file's columns, told from its text.

use std::path::Path;
use std::str;

use arrow_array::timezone::Tz;
use arrow_array::types::{Date32Type, Float64Type, Int64Type};
use arrow_cast::parse::{Parser, string_to_datetime};
use arrow_schema::{DataType, Field, TimeUnit};
use csv::ByteRecord;

use super::csv_error::{self, Scanner};
use crate::exit::Failure;

/// The columns of the file at `path`, all nullable, after a look at its first `row_limit` rows.
///
/// A column gets the type that most of its values have, so that a bad number is an error with its place instead of a column of numbers
/// that silently became text. Numbers with leading zeros (`00501`) are codes: text.
pub fn infer(path: &Path, row_limit: Option<u64>) -> Result<Vec<Field>, Failure> {
    let mut scanner = Scanner::open(path)?;
    let names = scanner.names().to_vec();
    let mut tallies = vec![Tally::default(); names.len()];
    let mut record = ByteRecord::new();
    let mut rows = 0;
    while row_limit.is_none_or(|limit| rows < limit) && scanner.next(&mut record)? {
        rows += 1;
        for (tally, value) in tallies.iter_mut().zip(&record) {
            // What isn't UTF-8 is refused by the reader, with its place.
            if let Ok(text) = str::from_utf8(value) {
                tally.count(text);
            }
        }
        csv_error::check_shape(&scanner, &record)?;
    }
    Ok(names.iter().zip(tallies).map(|(name, tally)| Field::new(name, tally.data_type(), true)).collect())
}

/// How many values of a column look like what.
#[derive(Clone, Default)]
struct Tally {
    booleans: u64,
    integers: u64,
    /// Above the range of `i64`, within that of `u64`.
    large_integers: u64,
    negative_integers: u64,
    floats: u64,
    dates: u64,
    timestamps: u64,
    timestamps_with_zone: u64,
    /// The most digits after the seconds' point.
    fraction_digits: usize,
    /// Digits that aren't a number: `007`.
    codes: u64,
    texts: u64,
}

impl Tally {
    fn count(&mut self, text: &str) {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if text.is_empty() {
        } else if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            self.booleans += 1;
        } else if digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty() {
            self.count_digits(text, digits);
        } else if is_float(text) {
            self.floats += 1;
        } else if text.len() == 10 && Date32Type::parse(text).is_some() {
            self.dates += 1;
        } else if let Some((fraction_digits, zone)) = timestamp(text) {
            self.timestamps += 1;
            self.timestamps_with_zone += u64::from(zone);
            self.fraction_digits = self.fraction_digits.max(fraction_digits);
        } else {
            self.texts += 1;
        }
    }

    fn count_digits(&mut self, text: &str, digits: &str) {
        if digits.len() > 1 && digits.starts_with('0') {
            self.codes += 1;
        } else if Int64Type::parse(text).is_some() {
            self.integers += 1;
            self.negative_integers += u64::from(digits.len() < text.len());
        } else if text.parse::<u64>().is_ok() {
            self.large_integers += 1;
        } else {
            self.codes += 1;
        }
    }

    fn data_type(&self) -> DataType {
        let numbers = self.integers + self.large_integers + self.floats;
        let times = self.dates + self.timestamps;
        let values = self.booleans + numbers + times + self.codes + self.texts;
        let mostly = |count: u64| count * 2 > values;
        if self.codes > 0 {
            DataType::Utf8
        } else if mostly(self.booleans) {
            DataType::Boolean
        } else if mostly(numbers) {
            self.number_type()
        } else if mostly(times) {
            self.time_type()
        } else {
            DataType::Utf8
        }
    }

    fn number_type(&self) -> DataType {
        match (self.floats, self.large_integers, self.negative_integers) {
            (0, 0, _) => DataType::Int64,
            (0, _, 0) => DataType::UInt64,
            // No number type holds both exactly.
            (0, _, _) => DataType::Utf8,
            _ => DataType::Float64,
        }
    }

    fn time_type(&self) -> DataType {
        let unit = match self.fraction_digits {
            0 => TimeUnit::Second,
            1..=3 => TimeUnit::Millisecond,
            4..=6 => TimeUnit::Microsecond,
            _ => TimeUnit::Nanosecond,
        };
        match (self.timestamps, self.timestamps_with_zone) {
            (0, _) => DataType::Date32,
            (all, zoned) if all == zoned && self.dates == 0 => DataType::Timestamp(unit, Some("+00:00".into())),
            _ => DataType::Timestamp(unit, None),
        }
    }
}

/// The names that Rust gives to special values count only as it writes them: `Infinity` may be somebody's name.
fn is_float(text: &str) -> bool {
    let special = matches!(text, "NaN" | "nan" | "inf" | "-inf");
    special || (text.bytes().any(|byte| byte.is_ascii_digit()) && Float64Type::parse(text).is_some())
}

/// Digits after the seconds' point, and whether a zone follows; `None` for what isn't a timestamp.
fn timestamp(text: &str) -> Option<(usize, bool)> {
    let utc: Tz = "+00:00".parse().ok()?;
    let after_seconds = text.get(19..)?;
    text.get(10..11).filter(|separator| matches!(*separator, "T" | " "))?;
    string_to_datetime(&utc, text).ok()?;
    let fraction = after_seconds.strip_prefix('.').unwrap_or("");
    let fraction_digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let zone = match after_seconds.strip_prefix('.') {
        Some(_) => fraction.len() > fraction_digits,
        None => !after_seconds.is_empty(),
    };
    Some((fraction_digits, zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(values: &[&str]) -> DataType {
        let mut tally = Tally::default();
        values.iter().for_each(|value| tally.count(value));
        tally.data_type()
    }

    #[test]
    fn types_are_those_of_most_values() {
        let zoned = DataType::Timestamp(TimeUnit::Second, Some("+00:00".into()));
        for (values, expected) in [
            (&["1", "", "-2"][..], DataType::Int64),
            (&["1", "2", "x"], DataType::Int64),
            (&["1", "x", "y"], DataType::Utf8),
            (&["1", "2.5"], DataType::Float64),
            (&["1e5", "NaN"], DataType::Float64),
            (&["007", "1"], DataType::Utf8),
            (&["-", "--"], DataType::Utf8),
            (&["18446744073709551615", "1"], DataType::UInt64),
            (&["18446744073709551615", "-1"], DataType::Utf8),
            (&["true", "FALSE"], DataType::Boolean),
            (&["2024-02-29"], DataType::Date32),
            (&["2024-02-30"], DataType::Utf8),
            (&["2024-02-29 10:00:00"], DataType::Timestamp(TimeUnit::Second, None)),
            (&["2024-02-29T10:00:00.1234", "2024-02-29"], DataType::Timestamp(TimeUnit::Microsecond, None)),
            (&["2024-02-29T10:00:00Z", "2024-02-29T10:00:00+02:00"], zoned),
            (&["Infinity", "Nan"], DataType::Utf8),
            (&["", ""], DataType::Utf8),
            (&[], DataType::Utf8),
        ] {
            assert_eq!(inferred(values), expected, "{values:?}");
        }
    }
}
