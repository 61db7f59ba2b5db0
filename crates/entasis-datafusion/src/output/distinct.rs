//! Which views of an array are the same.

use arrow_array::{Array, ArrayRef, UInt32Array, cast::AsArray};
use arrow_schema::DataType;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// More distinct values than this share of the rows aren't worth finding.
const MOST_DISTINCT_SHARE: f64 = 0.75;

/// Finds views that are the same, in memory that is used again.
#[derive(Default)]
pub(super) struct DistinctViews {
    /// Distinct values found so far, by their views.
    found: HashTable<u32>,
    hasher: DefaultHashBuilder,
    first: Vec<u32>,
    index: Vec<u32>,
}

impl DistinctViews {
    /// A row of each distinct value, and for every row which value it has. Equal strings that lie in different places are different
    /// values, nulls are one. `None` where there are too many, or the array isn't one of views.
    pub fn find(&mut self, strings: &ArrayRef) -> Option<(UInt32Array, UInt32Array)> {
        let views: &[u128] = match strings.data_type() {
            DataType::Utf8View => strings.as_string_view().views(),
            DataType::BinaryView => strings.as_binary_view().views(),
            _ => return None,
        };
        let Self { found, hasher, first, index } = self;
        let most = (views.len() as f64 * MOST_DISTINCT_SHARE) as usize;
        found.clear();
        first.clear();
        index.clear();
        let nulls = strings.nulls().filter(|nulls| nulls.null_count() > 0);
        let (mut null, mut last) = (None, None);
        for (row, &view) in views.iter().enumerate() {
            let value = if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                *null.get_or_insert_with(|| add(first, row))
            } else if let Some((_, value)) = last.filter(|&(before, _)| before == view) {
                value
            } else {
                let is_same = |&value: &u32| views[first[value as usize] as usize] == view;
                let entry = found.find(hasher.hash_one(view), is_same).copied();
                let value = entry.unwrap_or_else(|| {
                    let value = add(first, row);
                    let hash = |&value: &u32| hasher.hash_one(views[first[value as usize] as usize]);
                    found.insert_unique(hasher.hash_one(view), value, hash);
                    value
                });
                last = Some((view, value));
                value
            };
            if first.len() > most {
                return None;
            }
            index.push(value);
        }
        Some((std::mem::take(first).into(), std::mem::take(index).into()))
    }

    /// Takes memory back that isn't needed any more.
    pub fn give_back(&mut self, first: UInt32Array, index: UInt32Array) {
        for (array, place) in [(first, &mut self.first), (index, &mut self.index)] {
            if let Ok(memory) = array.into_parts().1.into_inner().into_vec() {
                *place = memory;
            }
        }
    }
}

fn add(first: &mut Vec<u32>, row: usize) -> u32 {
    first.push(row as u32);
    (first.len() - 1) as u32
}
