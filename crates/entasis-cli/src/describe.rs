//! What an Entasis file holds of a column: how large, encoded how, with which values.

use std::collections::BTreeMap;

use arrow_schema::DataType;
use entasis::{ColumnRecord, Reader};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::zone::{self, Range};

/// A column of a file, over all row groups.
#[derive(Clone, Debug)]
pub struct Described {
    /// Names of structs and of the column, joined by dots.
    pub path: String,
    /// Its Arrow type.
    pub data_type: DataType,
    /// Rows of its blocks.
    pub rows: u64,
    /// Bytes of its blocks and shared parts, without the columns below it.
    pub size_bytes: u64,
    /// Bytes that its blocks decode to, as they declare.
    pub decoded_bytes: u64,
    /// Its blocks.
    pub blocks: usize,
    /// What its blocks share.
    pub shared_parts: usize,
    /// Rows that are null.
    pub null_count: u64,
    /// Least and greatest value.
    pub range: Range,
    /// Cascades in words, and how many blocks use each; the most used first.
    pub cascades: Vec<(String, usize)>,
}

/// Reads all blocks of a column.
pub fn describe(reader: &Reader, path: &str, record: &ColumnRecord) -> Result<Described, Failure> {
    let mut cascades: BTreeMap<String, usize> = BTreeMap::new();
    let mut described = Described {
        path: path.to_owned(),
        data_type: record.field.data_type().clone(),
        rows: 0,
        size_bytes: 0,
        decoded_bytes: 0,
        blocks: 0,
        shared_parts: 0,
        null_count: 0,
        range: zone::range(record),
        cascades: Vec::new(),
    };
    for (row_group, chunk) in record.chunks.iter().enumerate() {
        described.shared_parts += chunk.parts.len();
        described.size_bytes += chunk.parts.iter().map(|part| part.size_bytes).sum::<u64>();
        for (number, stored) in chunk.blocks.iter().enumerate() {
            let block = reader.block(record, row_group, number)?;
            *cascades.entry(block.cascade().words()).or_default() += 1;
            described.decoded_bytes += block.decoded_size_bytes();
            described.blocks += 1;
            described.rows += u64::from(stored.rows);
            described.size_bytes += stored.size_bytes;
            described.null_count += stored.zone.null_count;
        }
    }
    described.cascades = cascades.into_iter().collect();
    described.cascades.sort_by_key(|(_, blocks)| std::cmp::Reverse(*blocks));
    Ok(described)
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
        json!({
            "path": self.path,
            "type": self.data_type.to_string(),
            "rows": self.rows,
            "size_bytes": self.size_bytes,
            "decoded_bytes": self.decoded_bytes,
            "blocks": self.blocks,
            "shared_parts": self.shared_parts,
            "nulls": self.null_count,
            "min": self.range.min.as_ref().map(|bound| &bound.text),
            "max": self.range.max.as_ref().map(|bound| &bound.text),
            "min_is_exact": self.range.min.as_ref().map(|bound| bound.is_exact),
            "max_is_exact": self.range.max.as_ref().map(|bound| bound.is_exact),
            "cascades": cascades,
        })
    }
}
