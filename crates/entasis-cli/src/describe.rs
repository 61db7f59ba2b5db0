//! What an Entasis file holds of a column: how large, encoded how, with which values.

use entasis::{ColumnRecord, Reader};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::stats::ColumnStats;

/// A column of a file, over all row groups.
#[derive(Clone, Debug)]
pub struct Described {
    /// What its record tells.
    pub stats: ColumnStats,
    /// Bytes that its blocks decode to, as they declare.
    pub decoded_bytes: u64,
    /// Cascades in words, and how many blocks use each; the most used first.
    pub cascades: Vec<(String, usize)>,
}

/// Reads all blocks of a column.
pub fn describe(reader: &Reader, path: &str, record: &ColumnRecord) -> Result<Described, Failure> {
    let described = reader.describe_column(path, record)?;
    let cascades = described.cascades.iter().map(|used| (used.cascade.words(), used.blocks)).collect();
    Ok(Described { stats: ColumnStats::of(path, record), decoded_bytes: described.decoded_bytes, cascades })
}

/// Every column of a file, fields of structs after their struct.
pub fn describe_all(reader: &Reader) -> Result<Vec<Described>, Failure> {
    let mut all = Vec::new();
    for index in 0..reader.column_count() {
        for (path, record) in reader.column(index)?.tree() {
            all.push(describe(reader, &path, &record)?);
        }
    }
    Ok(all)
}

impl Described {
    /// The cascades in words, each with the number of its blocks if there are several.
    pub fn cascade_words(&self) -> String {
        match self.cascades.as_slice() {
            [(words, _)] => words.clone(),
            several => {
                several.iter().map(|(words, blocks)| format!("{blocks} × {words}")).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// As the help of `inspect` describes it.
    pub fn to_json(&self) -> Value {
        let cascades: Vec<Value> =
            self.cascades.iter().map(|(words, blocks)| json!({ "cascade": words, "blocks": blocks })).collect();
        let range = &self.stats.range;
        json!({
            "path": self.stats.path,
            "type": self.stats.data_type.to_string(),
            "rows": self.stats.rows,
            "size_bytes": self.stats.size_bytes,
            "decoded_bytes": self.decoded_bytes,
            "blocks": self.stats.blocks,
            "shared_parts": self.stats.shared_parts,
            "bloom_bytes": self.stats.bloom_bytes,
            "nulls": self.stats.null_count,
            "min": range.min.as_ref().map(|bound| &bound.text),
            "max": range.max.as_ref().map(|bound| &bound.text),
            "min_is_exact": range.min.as_ref().map(|bound| bound.is_exact),
            "max_is_exact": range.max.as_ref().map(|bound| bound.is_exact),
            "cascades": cascades,
        })
    }
}
