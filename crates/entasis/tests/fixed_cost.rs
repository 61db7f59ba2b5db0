//! A column of one block costs at most 128 bytes beyond its values, name included.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use common::write;
use entasis::{WriteOptions, generate::Generator};

/// Columns that can't be laid out in less than their plain values, and the bytes of those.
fn column(kind: &str, rows: usize, generator: &mut Generator) -> (ArrayRef, usize) {
    let mut words = || (0..rows).map(|_| generator.next_u64()).collect::<Vec<_>>();
    let words_now = words();
    let is_valid = |row: usize| words_now[row] % 3 != 0;
    match kind {
        "int64" => (Arc::new(Int64Array::from_iter_values(words().iter().map(|&word| word as i64))), rows * 8),
        "float64" => {
            (Arc::new(Float64Array::from_iter_values(words().iter().map(|&word| f64::from_bits(word)))), rows * 8)
        }
        "boolean" => {
            let values: Vec<_> = words().iter().map(|word| word & 1 == 1).collect();
            (Arc::new(BooleanArray::from(values)), rows.div_ceil(8))
        }
        "utf8" => {
            let texts: Vec<_> = words().iter().map(|word| format!("{word:016x}")).collect();
            // What the values are: hexadecimal digits and a length each.
            (Arc::new(StringArray::from(texts)), rows * 17)
        }
        _ => {
            let values = words();
            let values = (0..rows).map(|row| is_valid(row).then_some(values[row] as i64));
            (Arc::new(Int64Array::from_iter(values)), rows * 8 + rows.div_ceil(8))
        }
    }
}

#[test]
fn one_block_costs_at_most_128_bytes_beyond_its_values() {
    for kind in ["int64", "float64", "boolean", "utf8", "nullable int64"] {
        for (rows, columns) in [(10, 1_000), (10_000, 100)] {
            let mut generator = Generator::new(rows as u64);
            let (arrays, values): (Vec<ArrayRef>, Vec<usize>) =
                (0..columns).map(|_| column(kind, rows, &mut generator)).unzip();
            let field = |(index, array): (usize, &ArrayRef)| {
                Field::new(format!("column_{index}"), array.data_type().clone(), array.null_count() > 0)
            };
            let schema = Arc::new(Schema::new(arrays.iter().enumerate().map(field).collect::<Vec<_>>()));
            let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
            let file_bytes = write(&schema, &[batch], WriteOptions::default()).len();
            let value_bytes: usize = values.iter().sum();
            let cost = (file_bytes as f64 - value_bytes as f64) / columns as f64;
            println!("{kind}, {rows} rows: {cost:.1} bytes beyond the values of a column");
            assert!(cost <= 128.0, "{kind}, {rows} rows: {cost:.1} bytes beyond the values");
        }
    }
}
