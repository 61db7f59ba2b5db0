//! What a file holds of each column: how large it is, and encoded how.

use arrow_schema::DataType;
use entasis_encoding::Cascade;

use crate::{Reader, Result, metadata::record::ColumnRecord};

/// A column of a file, over all row groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
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
    /// Bytes of its Bloom filters, which aren't among the others.
    pub bloom_bytes: u64,
    /// Rows that are null.
    pub null_count: u64,
    /// The cascades of its blocks, the most used first.
    pub cascades: Vec<CascadeUse>,
}

/// A cascade that blocks of a column have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CascadeUse {
    /// Rows and bytes are those of all these blocks; parameters, in which they may differ, are left out.
    pub cascade: Cascade,
    /// How many blocks use it.
    pub blocks: usize,
}

impl Reader {
    /// Describes one column, without those below it; errors call it `path`. Reads all of its blocks.
    pub fn describe_column(&self, path: &str, record: &ColumnRecord) -> Result<ColumnDescription> {
        let mut described = ColumnDescription {
            path: path.to_owned(),
            data_type: record.field.data_type().clone(),
            rows: 0,
            size_bytes: 0,
            decoded_bytes: 0,
            blocks: 0,
            shared_parts: 0,
            bloom_bytes: 0,
            null_count: 0,
            cascades: Vec::new(),
        };
        for (row_group, chunk) in record.chunks.iter().enumerate() {
            described.shared_parts += chunk.parts.len();
            described.bloom_bytes += chunk.bloom_bytes();
            described.size_bytes += chunk.parts.iter().map(|part| part.size_bytes).sum::<u64>();
            for (number, stored) in chunk.blocks.iter().enumerate() {
                let block = self.block(record, row_group, number)?;
                described.note(block.cascade());
                described.decoded_bytes += block.decoded_size_bytes();
                described.blocks += 1;
                described.rows += u64::from(stored.rows);
                described.size_bytes += stored.size_bytes;
                described.null_count += stored.zone.null_count;
            }
        }
        described.cascades.sort_by_key(|used| (std::cmp::Reverse(used.blocks), used.cascade.words()));
        Ok(described)
    }

    /// Describes every column, fields of structs after their struct. Reads all blocks.
    pub fn describe(&self) -> Result<Vec<ColumnDescription>> {
        let mut all = Vec::new();
        for index in 0..self.column_count() {
            for (path, record) in self.column(index)?.tree() {
                all.push(self.describe_column(&path, &record)?);
            }
        }
        Ok(all)
    }
}

impl ColumnDescription {
    fn note(&mut self, cascade: Cascade) {
        match self.cascades.iter_mut().find(|used| is_like(&used.cascade, &cascade)) {
            Some(used) => {
                used.blocks += 1;
                add(&mut used.cascade, &cascade);
            }
            None => self.cascades.push(CascadeUse { cascade: without_parameters(cascade), blocks: 1 }),
        }
    }
}

/// Whether two trees are of the same encodings.
fn is_like(one: &Cascade, other: &Cascade) -> bool {
    let children = || one.children.iter().zip(&other.children);
    one.id == other.id
        && one.children.len() == other.children.len()
        && children().all(|(one, other)| is_like(one, other))
}

fn add(sum: &mut Cascade, other: &Cascade) {
    sum.rows += other.rows;
    sum.size_bytes += other.size_bytes;
    sum.children.iter_mut().zip(&other.children).for_each(|(sum, other)| add(sum, other));
}

fn without_parameters(cascade: Cascade) -> Cascade {
    let children = cascade.children.into_iter().map(without_parameters).collect();
    Cascade { parameters: String::new(), children, ..cascade }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};

    use super::*;
    use crate::{WriteOptions, Writer};

    #[test]
    fn columns_are_described_with_all_their_blocks() {
        let numbers: ArrayRef =
            Arc::new(Int64Array::from_iter((0..5_000).map(|row| (row % 5 > 0).then_some(row * row))));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..5_000).map(|row| ["a", "b"][row % 2])));
        let pair = StructArray::from(RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap());
        let batch = RecordBatch::try_from_iter([("pair", Arc::new(pair) as ArrayRef)]).unwrap();
        let options = WriteOptions { row_group_rows: 2_048, ..WriteOptions::default() };
        let mut writer = Writer::new(Vec::new(), batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        let reader = Reader::from_bytes(writer.finish().unwrap().0.into()).unwrap();

        let described = reader.describe().unwrap();
        let paths: Vec<_> = described.iter().map(|column| column.path.as_str()).collect();
        assert_eq!(paths, ["pair", "pair.n", "pair.t"]);
        let [_, numbers, texts] = &described[..] else { panic!("three columns") };
        assert_eq!((numbers.rows, numbers.blocks, numbers.null_count), (5_000, 3, 1_000));
        assert_eq!((texts.rows, texts.blocks, texts.null_count), (5_000, 3, 0));
        assert!(texts.size_bytes > 0 && texts.decoded_bytes > texts.size_bytes);
        for column in [numbers, texts] {
            assert_eq!(column.cascades.iter().map(|used| used.blocks).sum::<usize>(), 3);
            assert_eq!(column.cascades.iter().map(|used| used.cascade.rows).sum::<usize>(), 5_000);
            assert!(column.cascades.is_sorted_by_key(|used| std::cmp::Reverse(used.blocks)));
        }
    }
}
