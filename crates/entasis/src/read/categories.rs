//! The categories of an ordered dictionary, from its column's record.

use arrow_schema::DataType;
use entasis_encoding::{Block, Limits, Parts};

use crate::{
    arrow::{Categories, empty_decoded},
    error::{Error, Result},
    metadata::record::ColumnRecord,
};

/// What arrays of `data_type`, a dictionary, begin with; `None` where nothing is stored, and for all other types. They decode to at most
/// `limit` bytes.
///
/// # Errors
/// Those of blocks that are damaged or too large; an invalid argument if they hold values of another type, nulls, or one value twice.
pub fn categories_of(record: &ColumnRecord, data_type: &DataType, limit: u64) -> Result<Option<Categories>> {
    let DataType::Dictionary(_, value_type) = data_type else { return Ok(None) };
    if record.categories.is_empty() {
        return Ok(None);
    }
    let (physical, mut left) = (record.physical()?, limit);
    let mut decoded = empty_decoded(data_type)?;
    for bytes in &record.categories {
        let block = Block::open(bytes.clone(), &Parts::new(), None, &Limits { decoded_bytes: left })?;
        if block.physical() != &physical {
            let what = format!("they are {}, but the column is {physical}", block.physical());
            return Err(Error::InvalidArgument(what));
        }
        left = left.saturating_sub(block.decoded_size_bytes());
        block.decode(0..block.rows(), &mut decoded)?;
    }
    Categories::new(decoded, value_type).map(Some)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, StringArray, cast::AsArray, types::Int8Type};
    use arrow_schema::Field;
    use bytes::Bytes;
    use entasis_encoding::EncodeOptions;

    use super::*;
    use crate::blocks::encode_array;

    const LIMIT: u64 = 1 << 20;

    fn record(values: &[ArrayRef]) -> ColumnRecord {
        let categories = values.iter().map(|values| {
            let blocks = encode_array(values, &EncodeOptions::default()).unwrap();
            Bytes::from(blocks.into_iter().next().unwrap().encoded.bytes)
        });
        let field = Field::new("grade", data_type(), true).with_dict_is_ordered(true);
        let (encodings, chunks, children) = (vec![], vec![], None);
        ColumnRecord {
            field: Arc::new(field),
            field_id: 0,
            categories: categories.collect(),
            encodings,
            chunks,
            children,
        }
    }

    fn data_type() -> DataType {
        DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into())
    }

    fn texts<'a>(values: impl IntoIterator<Item = Option<&'a str>>) -> ArrayRef {
        Arc::new(StringArray::from_iter(values))
    }

    #[test]
    fn blocks_of_categories_are_one_list() {
        let record = record(&[texts([Some("low"), Some("mid")]), texts([Some("high")])]);
        let categories = categories_of(&record, &data_type(), LIMIT).unwrap().unwrap();
        let mut decoded = empty_decoded(&data_type()).unwrap();
        let block = Block::open(record.categories[1].clone(), &Parts::new(), None, &Limits::default()).unwrap();
        block.decode(0..1, &mut decoded).unwrap();
        let array = categories.to_dictionary(decoded, &DataType::Int8, &DataType::Utf8).unwrap();
        let array = array.as_dictionary::<Int8Type>();
        assert_eq!(array.values().as_ref(), texts(["low", "mid", "high"].map(Some)).as_ref());
        assert_eq!(array.keys().values()[..], [2]);
        assert!(categories_of(&record, &DataType::Utf8, LIMIT).unwrap().is_none());
    }

    #[test]
    fn what_can_be_no_categories_is_refused() {
        let error = |values: &[ArrayRef]| {
            categories_of(&record(values), &data_type(), LIMIT).expect_err("these are no categories").to_string()
        };
        assert!(error(&[texts([Some("a"), None])]).contains("1 are null or equal"));
        assert!(error(&[texts([Some("a"), Some("b")]), texts([Some("a")])]).contains("1 are null or equal"));
        assert!(error(&[Arc::new(Int64Array::from(vec![1]))]).contains("but the column is"));
        let many = texts([Some("a string of 25 characters")]);
        let blocks = record(&[many.clone(), many]);
        let size_bytes = 2 * Block::open(blocks.categories[0].clone(), &Parts::new(), None, &Limits::default())
            .unwrap()
            .decoded_size_bytes();
        let over = categories_of(&blocks, &data_type(), size_bytes - 1).expect_err("together they are too large");
        assert!(!over.to_string().contains("equal"), "{over}");
    }

    #[test]
    fn damaged_blocks_are_errors_or_other_categories() {
        let whole = record(&[texts(["low", "mid", "high"].map(Some))]);
        for at in 0..whole.categories[0].len() {
            for bit in 0..8 {
                let mut bytes = whole.categories[0].to_vec();
                bytes[at] ^= 1 << bit;
                let damaged = ColumnRecord { categories: vec![bytes.into()], ..whole.clone() };
                assert!(categories_of(&damaged, &data_type(), LIMIT).is_err(), "bit {bit} of byte {at}");
            }
        }
        for end in 0..whole.categories[0].len() {
            let cut = ColumnRecord { categories: vec![whole.categories[0].slice(..end)], ..whole.clone() };
            assert!(categories_of(&cut, &data_type(), LIMIT).is_err(), "{end} bytes");
        }
    }
}
