//! What the tests share. None needs all of it.

#![allow(dead_code, clippy::unwrap_used, reason = "each test is a crate of its own, and may panic")]

pub mod flaky;
pub mod tables;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use entasis_cache::{CacheOptions, CellId, ColumnId, ObjectId, Stamp, Version};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

/// A piece of a leaf of a version of one object.
pub fn cell(version: &str, leaf: usize, piece: usize) -> CellId {
    let object = ObjectId::new("memory://tests", "t.parquet".into());
    let version = Version::new(object, Stamp::ETag(version.to_owned()));
    CellId { column: ColumnId { version, leaf }, row_group: 0, piece }
}

/// A budget, and no threads. Objects are so small that they would be read whole.
pub fn options(memory_bytes: u64) -> CacheOptions {
    CacheOptions { memory_bytes, whole_bytes: 0, transcoders: 0, ..CacheOptions::default() }
}

/// Numbers that look random (SplitMix64).
pub struct Random(pub u64);

impl Random {
    /// A number below `end`, which isn't 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (((bits ^ (bits >> 27)) >> 8) % end as u64) as usize
    }
}

/// A Parquet file of row groups of 1,000 rows, whose every value tells its generation.
pub fn file(generation: i64, rows: usize) -> Vec<u8> {
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| generation * 100 + row % 7)));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("{generation}.{}", row % 5))));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1_000)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}
