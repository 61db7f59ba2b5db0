//! Values that lie in blocks as Arrow wants them are lent: no byte of theirs is copied.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Field};
use bytes::Bytes;
use common::{concat, write};
use entasis::{EncodeOptions, Error, Profile, ReadRequest, Reader, WriteOptions};

const DIMENSIONS: u32 = 1_024;
/// Two blocks of 8 MiB, and a little one.
const ROWS: u32 = 2 * 2_048 + 30;

/// Numbers of which only signs and exponents have a pattern.
fn scattered(number: u32) -> f32 {
    (number.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0
}

fn lists(floats: Float32Array) -> ArrayRef {
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    Arc::new(FixedSizeListArray::new(item, DIMENSIONS as i32, Arc::new(floats), None))
}

fn embeddings() -> ArrayRef {
    lists(Float32Array::from_iter_values((0..ROWS * DIMENSIONS).map(scattered)))
}

fn table(vectors: ArrayRef) -> RecordBatch {
    let id = Arc::new(Int64Array::from_iter_values(0..vectors.len() as i64)) as ArrayRef;
    RecordBatch::try_from_iter([("id", id), ("vector", vectors)]).unwrap()
}

fn written(batch: &RecordBatch, profile: Profile) -> Bytes {
    let options = WriteOptions { encode: EncodeOptions::of(profile), ..WriteOptions::default() };
    write(&batch.schema(), std::slice::from_ref(batch), options)
}

fn large_batches() -> ReadRequest {
    ReadRequest { column_bytes: u64::MAX, ..ReadRequest::default() }
}

fn read(reader: &Reader, request: ReadRequest) -> Vec<RecordBatch> {
    reader.read(request).unwrap().map(|batch| batch.unwrap()).collect()
}

fn assert_rows(expected: &RecordBatch, batches: &[RecordBatch]) {
    common::assert_same(expected, &concat(&expected.schema(), batches), "batches together");
}

/// Where the numbers of a batch's vectors lie.
fn addresses(batch: &RecordBatch) -> Range<usize> {
    let data = batch.column(1).as_fixed_size_list().values().to_data();
    let start = data.buffers()[0].as_ptr().addr() + data.offset() * 4;
    start..start + data.len() * 4
}

#[test]
fn embeddings_lie_where_the_file_does() {
    let batch = table(embeddings());
    let bytes = written(&batch, Profile::Balanced);
    let file = bytes.as_ptr().addr()..bytes.as_ptr().addr() + bytes.len();
    let reader = Reader::from_bytes(bytes).unwrap();
    let whole = read(&reader, large_batches());
    assert_eq!(whole.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2_048, 2_048, 30]);
    let small = read(&reader, ReadRequest { batch_rows: 1_500, rows: Some(7..4_000), ..large_batches() });
    assert_eq!(small.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1_500, 541, 1_500, 452]);
    let cached = read(&reader, ReadRequest::default());
    assert_eq!(cached.iter().map(RecordBatch::num_rows).max(), Some(128), "half a megabyte");
    for lent in whole.iter().chain(&small).chain(&cached).map(addresses) {
        assert!(file.start <= lent.start && lent.end <= file.end, "{lent:?} isn't in {file:?}");
    }
    assert_rows(&batch, &cached);
    assert_rows(&batch, &whole);
    assert_rows(&batch.slice(7, 3_993), &small);
}

#[test]
fn one_batch_is_copied_together_where_that_is_asked_for() {
    let batch = table(embeddings());
    let reader = Reader::from_bytes(written(&batch, Profile::Balanced)).unwrap();
    let whole = read(&reader, ReadRequest { end_at_lent_blocks: false, ..large_batches() });
    assert_eq!(whole.len(), 1);
    assert_rows(&batch, &whole);
}

#[test]
fn files_on_disk_lend_their_values_too() {
    let batch = table(embeddings());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vectors.ent");
    std::fs::write(&path, written(&batch, Profile::Balanced)).unwrap();
    for reader in [Reader::open(&path).unwrap(), Reader::open_mapped(&path).unwrap()] {
        let batches = read(&reader, large_batches());
        assert_eq!(batches.len(), 3);
        // What is read outlives its reader.
        drop(reader);
        assert_rows(&batch, &batches);
    }
}

#[test]
fn embeddings_that_shrink_or_have_nulls_are_decoded() {
    let quantised = lists(Float32Array::from_iter_values((0..ROWS * DIMENSIONS).map(|at| (at % 251) as f32 / 128.0)));
    let some = |at: u32| (!at.is_multiple_of(977)).then(|| scattered(at));
    let nulls = lists(Float32Array::from_iter((0..ROWS * DIMENSIONS).map(some)));
    for (vectors, most_bytes) in [(quantised, ROWS * DIMENSIONS * 2), (nulls, ROWS * DIMENSIONS * 4)] {
        let batch = table(vectors);
        let bytes = written(&batch, Profile::Balanced);
        assert!(bytes.len() < most_bytes as usize, "{} bytes", bytes.len());
        let batches = read(&Reader::from_bytes(bytes).unwrap(), large_batches());
        assert_eq!(batches.len(), 1, "there is nothing to lend");
        assert_rows(&batch, &batches);
    }
}

#[test]
fn profiles_weigh_bytes_against_lending() {
    let batch = table(embeddings().slice(0, 1_000));
    let [size, balanced, scan] = Profile::ALL.map(|profile| written(&batch, profile).len());
    let values = 1_000 * DIMENSIONS as usize * 4;
    assert!(size < values * 9 / 10, "{size} bytes");
    // A checksum per 8 KiB and a little more.
    assert!(balanced == scan && balanced < values + values / 1_500, "{balanced} and {scan} bytes");
}

#[test]
fn what_is_lent_was_verified() {
    let batch = table(embeddings());
    let mut bytes = written(&batch, Profile::Balanced).to_vec();
    // In the second block.
    bytes[12 * 1024 * 1024] ^= 1;
    let reader = Reader::from_bytes(bytes.into()).unwrap();
    let batches: Vec<_> = reader.read(large_batches()).unwrap().collect();
    assert!(
        matches!(&batches[1], Err(Error::Corrupt { part, .. }) if part.contains("\"vector\"") && part.contains("block 1"))
    );
    assert_rows(&batch.slice(0, 2_048), &[batches[0].as_ref().unwrap().clone()]);
    assert_rows(&batch.slice(4_096, 30), &[batches[2].as_ref().unwrap().clone()]);
}
