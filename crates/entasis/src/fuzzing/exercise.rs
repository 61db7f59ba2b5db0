//! Asks a file everything that can be asked. Whatever the bytes, the answers are values or errors, and arrays are valid.

use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;

use super::look_up;
use crate::{
    Projection, ReadLimits, ReadRequest, Reader, ScanRequest, Strings,
    encoding::{Aggregates, Wanted},
    source::BytesSource,
};

/// Batches that are read of each request: rows without columns cost no bytes, and a file may declare any number of them.
const MOST_BATCHES: usize = 20;

/// Columns that are read one by one.
const MOST_COLUMNS: usize = 20;

/// Opens `file` and asks it everything.
///
/// # Panics
/// If an answer isn't what it claims to be: that is a bug.
pub fn exercise(file: &[u8]) {
    let limits = ReadLimits { decoded_bytes: 16 << 20, open_block_bytes: 1 << 20 };
    let source = Arc::new(BytesSource::new(Bytes::copy_from_slice(file), "fuzzed"));
    let Ok(reader) = Reader::from_source(source, limits) else { return };
    describe(&reader);
    for column in 0..reader.column_count().min(MOST_COLUMNS) {
        for strings in [Strings::AsStored, Strings::Views, Strings::Offsets] {
            let projection = Projection::of_columns([column]);
            read(&reader, ReadRequest { projection: projection.clone(), strings, ..ReadRequest::default() });
            take(&reader, &projection, strings);
        }
        aggregate(&reader, column);
        look_up(&reader, column);
    }
    read(&reader, ReadRequest { batch_rows: 1_000, rows: Some(500..70_000), ..ReadRequest::default() });
    take(&reader, &Projection::all(), Strings::AsStored);
    let _ = reader.verify(&mut |_| {});
}

fn describe(reader: &Reader) {
    let _ = (reader.row_group_rows(), reader.user_metadata(), reader.written_by(), reader.sort_order());
    for name in ["", "c0", "same"] {
        for column in reader.columns_named(name).unwrap_or_default() {
            assert!(column < reader.column_count());
        }
    }
    if let Ok(schema) = reader.schema() {
        assert_eq!(schema.fields().len(), reader.column_count());
        let _ = reader.projection(&["s.x".to_owned(), "c0".to_owned()]);
    }
    let _ = reader.layout();
    for column in 0..reader.column_count().min(MOST_COLUMNS) {
        let Ok(record) = reader.column(column) else { continue };
        for (row_group, chunk) in record.chunks.iter().enumerate().take(MOST_BATCHES) {
            for block in 0..chunk.blocks.len().min(MOST_BATCHES) {
                let _ = reader.block(&record, row_group, block).map(|block| block.cascade());
            }
        }
    }
}

fn read(reader: &Reader, request: ReadRequest) {
    let batch_rows = request.batch_rows;
    let Ok(batches) = reader.read(request) else { return };
    let schema = batches.schema().clone();
    for batch in batches.take(MOST_BATCHES).map_while(Result::ok) {
        assert!(batch.num_rows() <= batch_rows && batch.schema() == schema);
        check(&batch);
    }
}

fn take(reader: &Reader, projection: &Projection, strings: Strings) {
    let rows = reader.rows();
    let picked = [rows.saturating_sub(1), 0, rows / 2, rows / 2, rows / 3, 1_030, 1_023];
    let picked: Vec<u64> = picked.into_iter().filter(|&row| row < rows).collect();
    if let Ok(batch) = reader.take(&picked, projection, strings) {
        assert_eq!(batch.num_rows(), picked.len());
        check(&batch);
    }
    assert!(reader.take(&[rows], projection, strings).is_err(), "there is no row {rows}");
}

fn aggregate(reader: &Reader, column: usize) {
    let request = ScanRequest { projection: Projection::of_columns([column]), ..ScanRequest::default() };
    for wanted in [Wanted::COUNT, Wanted::ALL] {
        let Ok(mut scan) = reader.scan(request.clone()) else { return };
        let mut found = [Aggregates::default()];
        let more = (0..MOST_BATCHES).map_while(|_| scan.aggregate(&[wanted], &mut found).ok()).take_while(|more| *more);
        more.for_each(drop);
        let [Aggregates { count, null_count, .. }] = &found;
        // A column that has no aggregates counts nothing.
        assert!(*count + *null_count <= scan.metrics().rows_passed, "{found:?}");
    }
}

fn check(batch: &RecordBatch) {
    for column in batch.columns() {
        column.to_data().validate_full().unwrap_or_else(|error| panic!("an invalid array: {error}"));
    }
}
