//! 100,000 columns: written in seconds, opened without reading what grows with their number.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::{sync::Arc, time::Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use common::{Counted, collect, write};
use entasis::{ReadLimits, ReadRequest, Reader, WriteOptions, source::BytesSource};

const COLUMNS: usize = 100_000;

fn wide_file(columns: usize) -> Bytes {
    let fields: Vec<_> =
        (0..columns).map(|index| Field::new(format!("column_{index}"), DataType::Int64, true)).collect();
    let arrays = (0..columns as i64)
        .map(|index| Arc::new(Int64Array::from_iter_values((0..10).map(|row| index * row))) as ArrayRef)
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    write(&schema, &[batch], WriteOptions::default())
}

#[test]
fn one_column_of_many_is_four_reads_away() {
    let started = Instant::now();
    let bytes = wide_file(COLUMNS);
    let written_s = started.elapsed().as_secs_f64();
    let mut reads_of_width = Vec::new();
    for (columns, bytes) in [(COLUMNS, bytes), (1_000, wide_file(1_000))] {
        let source = Counted::new(BytesSource::new(bytes, "wide.ent"));
        let mut most = (0, 0);
        for column in (0..columns).step_by(columns / 50) {
            source.take_counts();
            let reader = Reader::from_source(source.clone(), ReadLimits::default()).unwrap();
            let projection = reader.projection(&[format!("column_{column}")]).unwrap();
            let read = collect(reader.read(ReadRequest { projection, ..ReadRequest::default() }).unwrap()).unwrap();
            let expected: ArrayRef = Arc::new(Int64Array::from_iter_values((0..10).map(|row| column as i64 * row)));
            assert_eq!(read.column(0), &expected);
            let (reads, bytes) = source.take_counts();
            most = (most.0.max(reads), most.1.max(bytes));
        }
        let (reads, bytes) = most;
        assert!(reads <= 4, "{reads} reads for a column of {columns}");
        assert!(bytes <= 128 * 1024, "{bytes} bytes read for a column of {columns}");
        reads_of_width.push(reads);
    }
    assert!(written_s < 60.0, "writing took {written_s} s, even without optimisation");
}

#[test]
fn names_that_are_not_there_cost_no_more() {
    let source = Counted::new(BytesSource::new(wide_file(5_000), "wide.ent"));
    let reader = Reader::from_source(source.clone(), ReadLimits::default()).unwrap();
    source.take_counts();
    assert_eq!(reader.columns_named("column_5000").unwrap(), [0; 0]);
    assert!(reader.projection(&["a.b.c".to_owned()]).is_err());
    let (reads, _) = source.take_counts();
    assert!(reads <= 4, "{reads} reads for names that aren't there");
}

#[test]
fn all_columns_can_be_read_and_the_schema_asked_for() {
    let source = Counted::new(BytesSource::new(wide_file(3_000), "wide.ent"));
    let reader = Reader::from_source(source.clone(), ReadLimits::default()).unwrap();
    source.take_counts();
    assert_eq!(reader.schema().unwrap().fields().len(), 3_000);
    let (reads, _) = source.take_counts();
    assert!(reads <= 2, "{reads} reads for a schema");
    let read = collect(reader.read(ReadRequest::default()).unwrap()).unwrap();
    assert_eq!(read.num_columns(), 3_000);
    let (reads, _) = source.take_counts();
    assert_eq!(reads, 1, "blocks that lie side by side are read together");
    assert_eq!(reader.columns_named("column_2999").unwrap(), [2_999]);
}
