//! Values as text.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, ArrayFormatterFactory, DisplayIndex, FormatOptions, FormatResult};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, TimeUnit};
use serde_json::{Value, json};

use crate::table::Table;

const FORMAT: FormatOptions<'static> =
    FormatOptions::new().with_display_error(true).with_formatter_factory(Some(&WithUnits));

/// Further from 1970 no calendar reaches; a little less than chrono's, so that every time zone's offset fits.
const CALENDAR_SECONDS: u64 = 8_210_000_000_000;

/// Writes the values of `array` as Arrow does, but dates and times that no calendar has as numbers with their unit.
pub fn formatter(array: &dyn Array) -> Result<ArrayFormatter<'_>, ArrowError> {
    let own = WithUnits.create_array_formatter(array, &FORMAT, None)?;
    own.map_or_else(|| ArrayFormatter::try_new(array, &FORMAT), Ok)
}

/// Calls `row` with the values of every row as text; nulls are `None`.
pub fn for_each_row(batch: &RecordBatch, mut row: impl FnMut(Vec<Option<String>>)) -> Result<(), ArrowError> {
    let columns = batch.columns();
    let formatters = columns.iter().map(|column| formatter(column)).collect::<Result<Vec<_>, _>>()?;
    let nulls: Vec<_> = columns.iter().map(|column| column.logical_nulls()).collect();
    for index in 0..batch.num_rows() {
        let cells = formatters.iter().zip(&nulls).map(|(formatter, nulls)| {
            let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index));
            valid.then(|| formatter.value(index).to_string())
        });
        row(cells.collect());
    }
    Ok(())
}

/// A table for people, without rows.
pub fn table(schema: &Schema) -> Table {
    Table::with_columns(schema.fields().iter().map(|field| (field.name().clone(), field.data_type().is_numeric())))
}

/// Appends the rows of a batch to a table for people.
pub fn add_rows(batch: &RecordBatch, table: &mut Table) -> Result<(), ArrowError> {
    for_each_row(batch, |cells| {
        table.row(cells.into_iter().map(|cell| cell.unwrap_or_else(|| "∅".to_owned())).collect());
    })
}

/// Names and types of columns, for programs.
pub fn columns_to_json(schema: &Schema) -> Value {
    let column = |field: &FieldRef| json!({ "name": field.name(), "type": field.data_type().to_string() });
    schema.fields().iter().map(column).collect()
}

/// Formatters for the types whose numbers may lie outside the calendar.
#[derive(Debug)]
struct WithUnits;

impl ArrayFormatterFactory for WithUnits {
    fn create_array_formatter<'a>(
        &self,
        array: &'a dyn Array,
        options: &FormatOptions<'a>,
        _field: Option<&'a Field>,
    ) -> Result<Option<ArrayFormatter<'a>>, ArrowError> {
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let values = self.create_array_formatter(dictionary.values().as_ref(), options, None)?;
            return Ok(values.map(|values| {
                // Keys of nothing but nulls need no values.
                let keys = if dictionary.values().is_empty() { Vec::new() } else { dictionary.normalized_keys() };
                let keyed = Keyed { nulls: array.nulls().cloned(), keys, values };
                ArrayFormatter::new(Box::new(keyed), true)
            }));
        }
        let Some(unit) = unit_of(array.data_type()) else { return Ok(None) };
        let calendar = ArrayFormatter::try_new(array, options)?;
        let temporal = Temporal { data: array.to_data(), unit, calendar };
        Ok(Some(ArrayFormatter::new(Box::new(temporal), true)))
    }
}

/// What the numbers of a type count; `None` for types that aren't numbers of time.
fn unit_of(data_type: &DataType) -> Option<&'static str> {
    Some(match data_type {
        DataType::Date32 => "days",
        DataType::Date64 => "ms",
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Timestamp(unit, _) | DataType::Duration(unit) => {
            match unit {
                TimeUnit::Second => "s",
                TimeUnit::Millisecond => "ms",
                TimeUnit::Microsecond => "µs",
                TimeUnit::Nanosecond => "ns",
            }
        }
        _ => return None,
    })
}

/// Dates and times.
struct Temporal<'a> {
    data: ArrayData,
    unit: &'static str,
    calendar: ArrayFormatter<'a>,
}

impl Temporal<'_> {
    fn number(&self, index: usize) -> i64 {
        match self.data.data_type() {
            DataType::Date32 | DataType::Time32(_) => self.data.buffer::<i32>(0)[index].into(),
            _ => self.data.buffer::<i64>(0)[index],
        }
    }

    /// The value by the calendar; `None` where it has none.
    fn by_calendar(&self, index: usize) -> Option<String> {
        let per_second = match self.unit {
            "ms" => 1_000,
            "µs" => 1_000_000,
            "ns" => 1_000_000_000,
            _ => 1,
        };
        let is_timestamp = matches!(self.data.data_type(), DataType::Timestamp(..));
        if is_timestamp && self.number(index).unsigned_abs() / per_second > CALENDAR_SECONDS {
            return None;
        }
        // So Arrow writes durations that are too long.
        self.calendar.value(index).try_to_string().ok().filter(|text| text != "<invalid>")
    }
}

impl DisplayIndex for Temporal<'_> {
    fn write(&self, index: usize, out: &mut dyn Write) -> FormatResult {
        if self.data.is_null(index) {
            return Ok(());
        }
        match self.by_calendar(index) {
            Some(text) => out.write_str(&text)?,
            None => write!(out, "{} {}", self.number(index), self.unit)?,
        }
        Ok(())
    }
}

/// A dictionary's values, where their formatter is one of ours.
struct Keyed<'a> {
    nulls: Option<NullBuffer>,
    keys: Vec<usize>,
    values: ArrayFormatter<'a>,
}

impl DisplayIndex for Keyed<'_> {
    fn write(&self, index: usize, out: &mut dyn Write) -> FormatResult {
        if self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index)) {
            self.values.value(self.keys[index]).write(out)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, Date32Array, Date64Array, DictionaryArray, DurationSecondArray, Int32Array, StructArray,
        Time32SecondArray, TimestampMicrosecondArray, TimestampSecondArray,
    };

    fn texts(array: &dyn Array) -> Vec<String> {
        let formatter = formatter(array).unwrap();
        (0..array.len()).map(|index| formatter.value(index).to_string()).collect()
    }

    #[test]
    fn dates_and_times_of_no_calendar_are_numbers_with_units() {
        assert_eq!(texts(&Date32Array::from(vec![0, i32::MAX])), ["1970-01-01", "2147483647 days"]);
        assert_eq!(texts(&Date64Array::from(vec![i64::MIN])), ["-9223372036854775808 ms"]);
        assert_eq!(texts(&Time32SecondArray::from(vec![Some(3_600), None, Some(-1)])), ["01:00:00", "", "-1 s"]);
        assert_eq!(texts(&DurationSecondArray::from(vec![1, i64::MAX])), ["PT1S", "9223372036854775807 s"]);
        let far = TimestampSecondArray::from(vec![0, 8_210_200_000_000, i64::MIN]).with_timezone("+14:00");
        assert_eq!(texts(&far), ["1970-01-01T14:00:00+14:00", "8210200000000 s", "-9223372036854775808 s"]);
        let micros = TimestampMicrosecondArray::from(vec![i64::MAX]);
        assert_eq!(texts(&micros), ["9223372036854775807 µs"]);
    }

    #[test]
    fn so_they_are_inside_of_structs_and_dictionaries() {
        let days = Arc::new(Date32Array::from(vec![1, i32::MIN])) as ArrayRef;
        let parent = StructArray::from(vec![(Arc::new(Field::new("d", DataType::Date32, true)), days.clone())]);
        assert_eq!(texts(&parent), ["{d: 1970-01-02}", "{d: -2147483648 days}"]);
        let keyed = DictionaryArray::new(Int32Array::from(vec![Some(1), None, Some(0)]), days);
        assert_eq!(texts(&keyed), ["-2147483648 days", "", "1970-01-02"]);
        let empty = DictionaryArray::new(Int32Array::from(vec![None]), Arc::new(Date32Array::from(vec![0; 0])));
        assert_eq!(texts(&empty), [""]);
    }
}
