//! One reader used by many threads at once: its blocks are supplied, dropped and opened again meanwhile, and its source fails
//! now and then. What comes back is right or an error, and errors aren't remembered.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use common::{Counted, Fails, assert_same, collect, write};
use entasis::{
    Error, Projection, ReadLimits, ReadRequest, Reader, Result, Strings, WriteOptions, generate::Generator,
    source::FileSource,
};

/// Columns whose blocks have texts, dictionaries (shared and not), packed values, and a few large values.
fn table(rows: usize) -> RecordBatch {
    let mut generator = Generator::new(41);
    let mut number = |below: usize| generator.below(below);
    let line = |user: usize, port: usize| {
        format!("Nov 22 sshd[{}]: Failed password for user{user} from 10.0.7.1 port {port} ssh2", port * 3)
    };
    let logs: Vec<String> = (0..rows).map(|_| line(number(90), number(60_000))).collect();
    let few: Vec<String> = (0..rows).map(|row| line(row / 400 % 50, 22)).collect();
    let sparse: Vec<Option<String>> = logs.iter().map(|log| (number(3) == 0).then(|| log[10..30].to_owned())).collect();
    let large: Vec<String> =
        (0..rows).map(|row| "large value ".repeat(if row % 9_000 == 7 { 2_000 } else { row % 3 })).collect();
    let numbers: Vec<Option<i64>> =
        (0..rows).map(|row| (number(5) > 0).then(|| (row * 977 % 100_003) as i64)).collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("logs", Arc::new(StringArray::from(logs))),
        ("few", Arc::new(StringArray::from(few))),
        ("sparse", Arc::new(StringArray::from(sparse))),
        ("large", Arc::new(StringArray::from(large))),
        ("numbers", Arc::new(Int64Array::from(numbers))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn oracle(batch: &RecordBatch, rows: &[u64]) -> RecordBatch {
    arrow_select::take::take_record_batch(batch, &UInt64Array::from(rows.to_vec())).unwrap()
}

/// Takes and reads on several threads; answers are right, errors are those of the source.
fn use_from_threads(reader: &Reader, batch: &RecordBatch, may_fail: bool) -> u64 {
    let failures = AtomicU64::new(0);
    let rows = batch.num_rows();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let failures = &failures;
            scope.spawn(move || {
                let mut generator = Generator::new(900 + thread);
                let hold = |result: Result<(RecordBatch, RecordBatch)>| match result {
                    Ok((found, expected)) => assert_same(&found, &expected, "on several threads"),
                    Err(Error::Io { .. }) if may_fail => drop(failures.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => panic!("{error}"),
                };
                for round in 0..25 {
                    let wanted: Vec<u64> = (0..1 + round % 4 * 3).map(|_| generator.below(rows) as u64).collect();
                    let strings = if round % 2 == 0 { Strings::AsStored } else { Strings::Views };
                    let taken = reader.take(&wanted, &Projection::all(), strings);
                    hold(taken.map(|taken| (taken, oracle(batch, &wanted))));
                    if round % 8 == 0 {
                        let start = generator.below(rows);
                        let length = generator.below(3_000).min(rows - start);
                        let request =
                            ReadRequest { rows: Some(start as u64..(start + length) as u64), ..ReadRequest::default() };
                        hold(reader.read(request).and_then(collect).map(|read| (read, batch.slice(start, length))));
                    }
                }
            });
        }
    });
    failures.into_inner()
}

#[test]
fn threads_share_a_reader_of_a_source_that_fails() {
    let batch = table(150_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ent");
    std::fs::write(&path, write(&batch.schema(), std::slice::from_ref(&batch), WriteOptions::default())).unwrap();
    for request_bytes in [0, 4_000] {
        // From a cache that holds nothing, over one that is cleared again and again, to one that holds all.
        for open_block_bytes in [0, 300_000, 64 << 20] {
            let source = Counted::with_request_bytes(FileSource::open(&path).unwrap(), request_bytes);
            let limits = ReadLimits { open_block_bytes, ..ReadLimits::default() };
            let reader = Reader::from_source(source.clone(), limits).unwrap();
            *source.fails.lock().unwrap() = Fails::Every(7);
            assert!(use_from_threads(&reader, &batch, true) > 0, "some reads have failed");
            *source.fails.lock().unwrap() = Fails::Never;
            assert_eq!(use_from_threads(&reader, &batch, false), 0);
        }
    }
}

#[test]
fn whoever_waits_for_a_batch_can_give_it_up() {
    let batch = table(20_000);
    let bytes = write(&batch.schema(), std::slice::from_ref(&batch), WriteOptions::default());
    let reader = Reader::from_bytes(bytes).unwrap();
    for threads in [1, 3] {
        let asked = AtomicU64::new(0);
        let go_on = move || match asked.fetch_add(1, Ordering::Relaxed) {
            3 => Err(Error::InvalidArgument("enough".to_owned())),
            _ => Ok(()),
        };
        let request = ReadRequest { batch_rows: 4_096, threads, ..ReadRequest::default() };
        let mut batches = reader.read(request).unwrap().asking(go_on);
        let error = batches.next().unwrap().unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(what) if what == "enough"), "{error}");
        let rest = collect(batches).unwrap();
        assert_same(&batch.slice(4_096, 20_000 - 4_096), &rest, "the batches after the one that was given up");
    }
}
