//! One growing dictionary for each column, out of batches that each bring their own: what Arrow's file format asks for.

use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, cast::AsArray, make_array};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;

/// What has been written of each column's dictionary.
#[derive(Default)]
pub struct Dictionaries {
    columns: Vec<Option<Grown>>,
}

/// A column's dictionary so far: the batches' own, one after the other.
struct Grown {
    values: ArrayRef,
    /// The last batch's own dictionary, and where it begins.
    last: ArrayRef,
    last_start: usize,
}

impl Dictionaries {
    /// The batch with its columns over dictionaries that begin with those of the batch before.
    ///
    /// # Errors
    /// Keys that are too narrow for all values together are refused. Dictionaries inside structs and lists are left as they are.
    pub fn grow(&mut self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        self.columns.resize_with(batch.num_columns(), || None);
        let grown = self.columns.iter_mut().zip(batch.columns()).map(|(so_far, column)| match column.data_type() {
            DataType::Dictionary(..) => grow(so_far, column),
            _ => Ok(column.clone()),
        });
        let columns = grown.collect::<Result<Vec<_>, _>>()?;
        // A batch of no columns has no dictionaries either.
        if columns.is_empty() { Ok(batch.clone()) } else { RecordBatch::try_new(batch.schema(), columns) }
    }
}

fn grow(so_far: &mut Option<Grown>, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let own = column.as_any_dictionary().values();
    let Some(grown) = so_far else {
        *so_far = Some(Grown { values: own.clone(), last: own.clone(), last_start: 0 });
        return Ok(column.clone());
    };
    if grown.last.to_data() != own.to_data() {
        grown.last_start = grown.values.len();
        grown.values = concat(&[&grown.values, own])?;
        grown.last = own.clone();
    }
    shifted(column, grown.last_start, &grown.values)
}

/// The column with all keys higher by `start`, over `values`.
fn shifted(column: &ArrayRef, start: usize, values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let keys = column.as_any_dictionary().keys();
    let higher =
        cast(keys, &DataType::Int64)?.as_primitive::<Int64Type>().unary::<_, Int64Type>(|key| key + start as i64);
    let exact = CastOptions { safe: false, ..CastOptions::default() };
    let keys = cast_with_options(&higher, keys.data_type(), &exact)?;
    let data = keys.to_data().into_builder();
    Ok(make_array(data.data_type(column.data_type().clone()).child_data(vec![values.to_data()]).build()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::DictionaryArray;
    use arrow_array::types::Int8Type;
    use std::sync::Arc;

    fn batch(words: &[Option<&str>]) -> RecordBatch {
        let column: DictionaryArray<Int8Type> = words.iter().copied().collect();
        RecordBatch::try_from_iter_with_nullable([("w", Arc::new(column) as ArrayRef, true)]).unwrap()
    }

    #[test]
    fn dictionaries_only_grow_and_values_stay() {
        let mut dictionaries = Dictionaries::default();
        let mut before = Vec::new();
        for words in [&[Some("a"), None, Some("b")][..], &[Some("c"), Some("a"), None], &[Some("c"), Some("a")]] {
            let grown = dictionaries.grow(&batch(words)).unwrap();
            let column = grown.column(0).as_dictionary::<Int8Type>();
            let typed = column.downcast_dict::<arrow_array::StringArray>().unwrap();
            assert_eq!(typed.into_iter().collect::<Vec<_>>(), words);
            let values: Vec<_> = column.values().as_string::<i32>().iter().flatten().map(str::to_owned).collect();
            assert!(values.starts_with(&before), "{values:?}");
            before = values;
        }
        assert_eq!(before, ["a", "b", "c", "a"], "the third batch's dictionary was there already");
    }

    #[test]
    fn keys_that_are_too_narrow_are_refused() {
        let mut dictionaries = Dictionaries::default();
        let words: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let of = |words: &[String]| batch(&words.iter().map(|word| Some(word.as_str())).collect::<Vec<_>>());
        dictionaries.grow(&of(&words[..100])).unwrap();
        assert!(dictionaries.grow(&of(&words[100..])).is_err());
    }
}
