//! Categories: the values of an ordered dictionary, whose order its rows don't tell.

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field};
use entasis_encoding::{BytesForm, Decoded};

use super::{
    dictionary::{distinct, numbered},
    output::to_arrow,
};
use crate::{Error, Result};

/// What every dictionary array of a column begins with.
#[derive(Debug, Clone)]
pub struct Categories {
    decoded: Decoded,
    values: ArrayRef,
}

impl Categories {
    /// Categories from decoded values, strings as views, of a dictionary of `value_type`.
    ///
    /// # Errors
    /// An invalid argument where one is null or occurs twice.
    pub fn new(decoded: Decoded, value_type: &DataType) -> Result<Self> {
        let rows = decoded.rows;
        let (_, decoded, _) = distinct(decoded, value_type, BytesForm::Views)?;
        if decoded.rows != rows {
            let what = format!("of {rows} categories, {} are null or equal to others", rows - decoded.rows);
            return Err(Error::InvalidArgument(what));
        }
        let values = to_arrow(in_form_of(&decoded, value_type)?, value_type)?;
        Ok(Self { decoded, values })
    }

    /// A dictionary array of `decoded` values over all categories, in their order; values that are none follow in the order of their first
    /// rows.
    ///
    /// # Errors
    /// An invalid argument if the key type can't number them all.
    pub fn to_dictionary(&self, decoded: Decoded, key_type: &DataType, value_type: &DataType) -> Result<ArrayRef> {
        let (mut keys, found, nulls) = distinct(decoded, value_type, BytesForm::Views)?;
        let mut all = self.decoded.empty_like();
        all.extend_picked(&self.decoded, 0..self.decoded.rows)?;
        all.extend_picked(&found, 0..found.rows)?;
        let (numbers, all, _) = distinct(all, value_type, BytesForm::Views)?;
        let numbers = &numbers[self.decoded.rows..];
        if !numbers.is_empty() {
            keys.iter_mut().for_each(|key| *key = numbers[*key as usize]);
        }
        let values = match all.rows == self.values.len() {
            true => self.values.clone(),
            false => to_arrow(in_form_of(&all, value_type)?, value_type)?,
        };
        numbered(&keys, values, nulls, key_type)
    }
}

/// Distinct values with byte strings as `value_type` has them.
fn in_form_of(decoded: &Decoded, value_type: &DataType) -> Result<Decoded> {
    Ok(distinct(decoded.clone(), value_type, super::bytes_form_of(value_type))?.1)
}

/// Key and value type of a field whose order is that of its dictionary; `None` for all others.
pub fn ordered_types(field: &Field) -> Option<(&DataType, &DataType)> {
    match field.data_type() {
        DataType::Dictionary(key, value) if field.dict_is_ordered() == Some(true) => Some((key, value)),
        _ => None,
    }
}

/// How many values a key type can number.
pub fn most_values(key_type: &DataType) -> usize {
    let bits = match key_type {
        DataType::Int8 => 7,
        DataType::UInt8 => 8,
        DataType::Int16 => 15,
        DataType::UInt16 => 16,
        _ => 31,
    };
    1 << bits
}
