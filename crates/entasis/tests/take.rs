//! Single rows: those of the whole table, whatever is read for them; and little is read for them.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::{Arc, atomic::Ordering};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use common::{Counted, Fails, assert_same, write};
use entasis::{
    Error, Projection, ReadLimits, Reader, Strings, WriteOptions,
    generate::{Generator, flat_types, nested_types},
    source::{BytesSource, REQUEST_BYTES},
};

/// The longest that a checksum run is, but for padding.
const RUN_BYTES: u64 = 16 * 1024;

/// A reader that says of its source that requests cost nothing, so that it reads single runs of every block.
fn scattered(bytes: &Bytes) -> (Reader, Arc<Counted<BytesSource>>) {
    counted(bytes, 0)
}

fn counted(bytes: &Bytes, request_bytes: u64) -> (Reader, Arc<Counted<BytesSource>>) {
    let source = Counted::with_request_bytes(BytesSource::new(bytes.clone(), "a.ent"), request_bytes);
    (Reader::from_source(source.clone(), ReadLimits::default()).unwrap(), source)
}

/// The rows by Arrow's own means.
fn oracle(batch: &RecordBatch, rows: &[u64]) -> RecordBatch {
    let rows = UInt64Array::from(rows.to_vec());
    arrow_select::take::take_record_batch(batch, &rows).unwrap()
}

/// Whether Arrow's `take` is to be trusted with a type: it loses the rows of values that have no width.
fn has_width(data_type: &DataType) -> bool {
    match data_type {
        DataType::FixedSizeBinary(size) => *size > 0,
        DataType::FixedSizeList(item, size) => *size > 0 && has_width(item.data_type()),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::RunEndEncoded(_, item)
        | DataType::Map(item, _) => has_width(item.data_type()),
        DataType::Union(fields, _) => fields.iter().all(|(_, field)| has_width(field.data_type())),
        DataType::Struct(fields) => !fields.is_empty() && fields.iter().all(|field| has_width(field.data_type())),
        _ => true,
    }
}

fn some_rows(generator: &mut Generator, count: usize, rows: usize) -> Vec<u64> {
    let mut picked: Vec<u64> = (0..count).map(|_| generator.below(rows) as u64).collect();
    if generator.chance(50) {
        picked.sort_unstable();
    }
    picked
}

/// Takes rows of a file in several ways, and holds them against those of the batch that it was made of.
fn check(batch: &RecordBatch, bytes: &Bytes, generator: &mut Generator, context: &str) {
    let rows = batch.num_rows();
    for request_bytes in [0, 700, REQUEST_BYTES] {
        let (reader, _) = counted(bytes, request_bytes);
        for count in [1, 3, 60, 3] {
            let wanted = some_rows(generator, count, rows);
            let taken = reader.take(&wanted, &Projection::all(), Strings::AsStored).unwrap();
            assert_same(&taken, &oracle(batch, &wanted), &format!("{context}, {count} rows, {request_bytes}"));
            let views = reader.take(&wanted, &Projection::all(), Strings::Views).unwrap();
            let whole = Reader::from_bytes(bytes.clone()).unwrap().take(&wanted, &Projection::all(), Strings::Views);
            assert_same(&views, &whole.unwrap(), &format!("{context}, {count} rows as views, {request_bytes}"));
        }
    }
}

#[test]
fn rows_of_every_type_are_those_of_the_whole_table() {
    for (seed, data_type) in flat_types().into_iter().chain(nested_types()).filter(has_width).enumerate() {
        let mut generator = Generator::new(500 + seed as u64);
        let schema = Arc::new(Schema::new(vec![Field::new("column", data_type, true)]));
        // Each with another shape of values, and so other encodings.
        for round in 0..5 {
            let rows = 3_000 + generator.below(3_000);
            let batch = generator.batch(&schema, rows);
            let options = WriteOptions { row_group_rows: 2_500, ..WriteOptions::default() };
            let bytes = write(&schema, std::slice::from_ref(&batch), options);
            check(&batch, &bytes, &mut generator, &format!("{}, round {round}", schema.field(0).data_type()));
        }
    }
}

#[test]
fn rows_of_nested_tables_are_those_of_the_whole_table() {
    let mut checked = 0;
    for seed in 0..40 {
        let mut generator = Generator::new(600 + seed);
        let schema = generator.schema(6);
        if !schema.fields().iter().all(|field| has_width(field.data_type())) {
            continue;
        }
        let rows = 1 + generator.below(9_000);
        let batch = generator.batch(&schema, rows);
        let options = WriteOptions { row_group_rows: 4_000, ..WriteOptions::default() };
        let bytes = write(&schema, std::slice::from_ref(&batch), options);
        check(&batch, &bytes, &mut generator, &format!("seed {seed}"));
        checked += 1;
    }
    assert!(checked >= 15, "{checked} tables");
}

/// Eight columns as tables have them, of which each block has many runs.
fn orders(rows: usize) -> (SchemaRef, RecordBatch) {
    let mut generator = Generator::new(700);
    let words =
        ["carefully", "final", "packages", "sleep", "quickly", "regular", "ideas", "above", "ironic", "theodolites"];
    let text = |generator: &mut Generator| {
        let count = 3 + generator.below(6);
        (0..count).map(|_| words[generator.below(words.len())]).collect::<Vec<_>>().join(" ")
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("key", Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row / 4 * 32 + row % 7)))),
        ("customer", Arc::new(Int64Array::from_iter_values((0..rows).map(|_| generator.below(150_000) as i64)))),
        ("noise", Arc::new(UInt64Array::from_iter_values((0..rows).map(|_| generator.next_u64())))),
        (
            "price",
            Arc::new(Float64Array::from_iter_values((0..rows).map(|_| generator.below(9_999_999) as f64 / 100.0))),
        ),
        (
            "date",
            Arc::new(Date32Array::from_iter(
                (0..rows).map(|_| Some(8_000 + generator.below(2_500) as i32).filter(|day| day % 9 > 0)),
            )),
        ),
        ("flag", Arc::new(StringArray::from_iter_values((0..rows).map(|_| ["A", "N", "R"][generator.below(3)])))),
        ("open", Arc::new(BooleanArray::from_iter((0..rows).map(|_| Some(generator.chance(40)))))),
        ("comment", Arc::new(StringArray::from_iter_values((0..rows).map(|_| text(&mut generator))))),
    ];
    let fields: Vec<_> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), array.null_count() > 0))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns.into_iter().map(|(_, array)| array).collect()).unwrap();
    (schema, batch)
}

/// Bytes of what is read whatever the rows: heads, as many as are read of each at once, and shared parts.
fn fixed_bytes(reader: &Reader) -> u64 {
    let columns = (0..reader.column_count()).map(|column| reader.column(column).unwrap());
    let of_chunk = |chunk: &entasis::Chunk| {
        chunk.blocks.len() as u64 * 4096 + chunk.parts.iter().map(|part| part.size_bytes).sum::<u64>()
    };
    columns.map(|column| column.chunks.iter().map(of_chunk).sum::<u64>()).sum()
}

#[test]
fn two_runs_are_read_for_a_value() {
    let (schema, batch) = orders(200_000);
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    for request_bytes in [0, 2_000, REQUEST_BYTES] {
        for count in [1, 2, 10, 100, 1_000] {
            let (reader, source) = counted(&bytes, request_bytes);
            let fixed_bytes = fixed_bytes(&reader);
            source.take_counts();
            let mut generator = Generator::new(count);
            let wanted = some_rows(&mut generator, count as usize, 200_000);
            let taken = reader.take(&wanted, &Projection::all(), Strings::AsStored).unwrap();
            assert_same(&taken, &oracle(&batch, &wanted), "rows");
            let (_, read_bytes) = source.take_counts();
            let most = 2 * RUN_BYTES * count * schema.fields().len() as u64 + fixed_bytes;
            assert!(read_bytes <= most, "{read_bytes} bytes for {count} rows, where {most} are allowed");
            assert!(read_bytes <= bytes.len() as u64 + fixed_bytes, "nothing is read twice but what follows a head");
            // What was read is kept.
            reader.take(&wanted, &Projection::all(), Strings::AsStored).unwrap();
            assert_eq!(source.take_counts(), (0, 0), "{count} rows again");
        }
    }
}

#[test]
fn one_row_takes_few_requests() {
    let (schema, batch) = orders(200_000);
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    let (reader, source) = counted(&bytes, REQUEST_BYTES);
    reader.schema().unwrap();
    source.take_counts();
    reader.take(&[123_456], &Projection::all(), Strings::AsStored).unwrap();
    let (reads, _) = source.take_counts();
    assert!(reads <= 30, "{reads} reads for a row of eight columns");
}

#[test]
fn a_damaged_run_hides_only_its_rows() {
    let (schema, batch) = orders(100_000);
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    let column = schema.index_of("noise").unwrap();
    let block = Reader::from_bytes(bytes.clone()).unwrap().column(column).unwrap().chunks[0].blocks[1].clone();
    let mut damaged = bytes.to_vec();
    let place = block.offset + block.size_bytes / 2;
    damaged[place as usize] ^= 8;
    let (reader, _) = scattered(&damaged.into());
    let projection = Projection::of_columns([column]);
    let (mut good, mut bad) = (0, 0);
    for row in (65_536..100_000).step_by(300) {
        match reader.take(&[row], &projection, Strings::AsStored) {
            Ok(taken) => {
                assert_same(&taken, &oracle(&batch.project(&[column]).unwrap(), &[row]), "rows beside the damage");
                good += 1;
            }
            Err(Error::Corrupt { part, offset, .. }) => {
                assert_eq!(part, "column \"noise\", row group 0, block 1, checksum run");
                assert!((offset..offset + RUN_BYTES).contains(&place), "{offset} for a flip at {place}");
                bad += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(bad > 0 && good > 10 * bad, "{good} good, {bad} bad");
}

#[test]
fn a_file_that_was_cut_while_open_is_an_error() {
    let (schema, batch) = orders(100_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ent");
    std::fs::write(&path, write(&schema, std::slice::from_ref(&batch), WriteOptions::default())).unwrap();
    let reader = Reader::open(&path).unwrap();
    reader.schema().unwrap();
    reader.take(&[5], &Projection::all(), Strings::AsStored).unwrap();
    let block = reader.column(7).unwrap().chunks[0].blocks[1].clone();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(block.offset + block.size_bytes / 2).unwrap();
    let last = batch.num_rows() as u64 - 1;
    let cut = reader.take(&[last], &Projection::all(), Strings::AsStored);
    assert!(matches!(cut, Err(Error::Truncated { .. })), "{cut:?}");
    let whole = reader.take(&[5], &Projection::all(), Strings::AsStored).unwrap();
    assert_same(&whole, &oracle(&batch, &[5]), "rows that were read before");
}

#[test]
fn threads_take_rows_of_the_same_blocks() {
    let (schema, batch) = orders(100_000);
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    for repetition in 0..8 {
        let (reader, source) = scattered(&bytes);
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (reader, batch) = (reader.clone(), &batch);
                scope.spawn(move || {
                    let mut generator = Generator::new(800 + repetition * 10 + thread);
                    for round in 0..10 {
                        let wanted = some_rows(&mut generator, 1 + round * 11, 100_000);
                        let taken = reader.take(&wanted, &Projection::all(), Strings::AsStored).unwrap();
                        assert_same(&taken, &oracle(batch, &wanted), &format!("thread {thread}, round {round}"));
                    }
                });
            }
        });
        let (_, read_bytes) = source.take_counts();
        assert!(read_bytes < 6 * 2 * bytes.len() as u64, "{read_bytes} bytes were read of {}", bytes.len());
    }
}

#[test]
fn failures_of_the_source_are_not_kept() {
    let (schema, batch) = orders(70_000);
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    let wanted = [69_999, 3, 40_000, 65_536];
    let mut failures = 0;
    for fails_at in 0.. {
        let (reader, source) = scattered(&bytes);
        *source.fails.lock().unwrap() = Fails::At(source.reads.load(Ordering::Relaxed) + fails_at);
        let take = || reader.take(&wanted, &Projection::all(), Strings::AsStored);
        let taken = match take() {
            Ok(taken) => taken,
            Err(Error::Io { .. }) => {
                failures += 1;
                take().unwrap()
            }
            Err(error) => panic!("{error}"),
        };
        assert_same(&taken, &oracle(&batch, &wanted), "after a failure");
        if matches!(*source.fails.lock().unwrap(), Fails::At(read) if source.reads.load(Ordering::Relaxed) <= read) {
            break;
        }
    }
    assert!(failures > 10, "{failures} of the reads failed");
}
