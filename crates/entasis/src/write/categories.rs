//! The categories of ordered dictionaries while they are written: their order is in the dictionaries of the batches alone.

use arrow_array::{Array, ArrayRef, cast::AsArray, new_empty_array};
use arrow_schema::{DataType, FieldRef};
use arrow_select::concat::concat;
use entasis_encoding::{Block, EncodeOptions, EncodedBlock, Limits, Parts};

use crate::{
    arrow::{ColumnNode, Split, most_values, ordered_types},
    blocks::{decode_rows, encode_array},
    error::Result,
};

/// What the dictionaries of one column hold together, and in which order.
pub struct SeenCategories {
    /// Number of the column in pre-order.
    pub column: usize,
    field: FieldRef,
    /// The dictionary that came last: neighbouring batches often share one.
    last: Option<ArrayRef>,
    /// Each value once, in the order in which dictionaries first have them; `None` if they can't be kept.
    seen: Option<ArrayRef>,
}

impl SeenCategories {
    /// One for each column of the trees whose order is that of its dictionary.
    pub fn of_columns(trees: &[ColumnNode]) -> Vec<Self> {
        let columns = trees.iter().flat_map(ColumnNode::columns).enumerate();
        let ordered = columns.filter_map(|(column, node)| {
            let (_, value_type) = ordered_types(&node.field)?;
            let seen = Some(new_empty_array(value_type));
            Some(Self { column, field: node.field.clone(), last: None, seen })
        });
        ordered.collect()
    }

    /// Takes in the dictionary of the column's array, among those that a batch was split into.
    ///
    /// # Errors
    /// Those of values that no block can hold.
    pub fn add(&mut self, splits: &[Split]) -> Result<()> {
        let (Some(seen), Some(Split::Leaf(array))) = (&self.seen, splits.get(self.column)) else { return Ok(()) };
        let values = array.as_any_dictionary().values();
        if self.last.as_ref().is_some_and(|last| last.to_data().ptr_eq(&values.to_data()) || last == values) {
            return Ok(());
        }
        self.last = Some(values.clone());
        self.seen = match concat(&[seen, values]) {
            Ok(both) => self.distinct(&both)?,
            // Dictionaries of dictionaries may have more values together than their keys can tell apart.
            Err(_) => None,
        };
        Ok(())
    }

    /// Each value once, without nulls; `None` if there are more than keys can number, or values that lie outside blocks.
    fn distinct(&self, values: &ArrayRef) -> Result<Option<ArrayRef>> {
        let Some((key_type, value_type)) = ordered_types(&self.field) else { return Ok(None) };
        let mut opened = Vec::new();
        for block in encode_array(values, &EncodeOptions::default())? {
            if !block.large.is_empty() {
                return Ok(None);
            }
            opened.push(Block::open(block.encoded.bytes.into(), &Parts::new(), None, &Limits::default())?);
        }
        let rows = opened.iter().map(|block| (block, 0..block.rows()));
        let numbered = DataType::Dictionary(DataType::UInt64.into(), value_type.clone().into());
        let distinct = decode_rows(rows, &numbered)?.as_any_dictionary().values().clone();
        Ok((distinct.len() <= most_values(key_type)).then_some(distinct))
    }

    /// The categories as blocks; none if there are none, or they can't be kept.
    ///
    /// # Errors
    /// Those of values that no block can hold.
    pub fn blocks(&self) -> Result<Vec<EncodedBlock>> {
        let blocks = self.seen.as_ref().map_or(Ok(Vec::new()), |seen| encode_array(seen, &EncodeOptions::default()));
        Ok(blocks?.into_iter().map(|block| block.encoded).collect())
    }
}
