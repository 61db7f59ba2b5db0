//! A store that fails, waits, and gives other bytes than were asked for, under queries that are cancelled: right answers or clear errors, nobody
//! left waiting.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;

use bytes::Bytes;
use common::flaky::Flaky;
use common::{Random, file, options};
use entasis::scan::Condition;
use entasis_cache::read::{ParquetFile, ParquetRequest};
use entasis_cache::{Cache, CacheOptions, Result};
use entasis_encoding::{Comparison, FloatOrder, Predicate, Scalar};
use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::metadata::ParquetMetaDataReader;

const ROWS: usize = 5_000;

/// Counts the rows for which `n` is at least so much; all values are of generation 3.
async fn query(cache: &Cache, store: &Arc<dyn ObjectStore>, least: i128) -> Result<usize> {
    let file = ParquetFile::open(cache, store.clone(), "flaky://", &Path::from("t.parquet")).await?;
    let predicate = Predicate::Compare(Comparison::GreaterOrEqual, Scalar::Int(least), FloatOrder::default());
    let condition = Condition::column(0, predicate);
    let mut rows = file.read(&ParquetRequest { condition, ..ParquetRequest::default() })?;
    let mut count = 0;
    while let Some(batch) = rows.next().await? {
        count += batch.num_rows();
    }
    Ok(count)
}

fn expected(least: i128) -> usize {
    (0..ROWS as i128).filter(|row| 300 + row % 7 >= least).count()
}

fn flaky(percent: usize) -> (Arc<Flaky>, Arc<dyn ObjectStore>) {
    let flaky = Arc::new(Flaky::new(InMemory::new(), percent));
    block_on(flaky.put(&Path::from("t.parquet"), file(3, ROWS).into())).unwrap();
    (flaky.clone(), flaky)
}

#[test]
fn futures_may_go_from_thread_to_thread() {
    fn is_send(_: &impl Send) {}
    let cache = Cache::new(options(1 << 20)).unwrap();
    let (_, store) = flaky(0);
    is_send(&query(&cache, &store, 0));
}

#[test]
fn answers_of_a_store_that_fails_are_right_or_errors() {
    let (_, store) = flaky(4);
    let (answers, refusals) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for round in 0..6 {
        // Neither cells nor metadata stay, or the store would hardly be asked.
        let limits =
            CacheOptions { transcoders: 1, metadata_bytes: 0, ..options(if round % 2 == 0 { 400_000 } else { 9_000 }) };
        let cache = Cache::new(limits).unwrap();
        thread::scope(|scope| {
            for asker in 0..6 {
                let (cache, store, answers, refusals) = (&cache, &store, &answers, &refusals);
                scope.spawn(move || {
                    let mut random = Random(round * 10 + asker);
                    for _ in 0..25 {
                        let least = 299 + random.below(10) as i128;
                        let mut query = pin!(query(cache, store, least));
                        // Some are cancelled, wherever they are.
                        if random.below(3) == 0 {
                            let mut context = Context::from_waker(Waker::noop());
                            let polls = random.below(30);
                            let _ = (0..polls).find(|_| query.as_mut().poll(&mut context).is_ready());
                            continue;
                        }
                        match block_on(query) {
                            Ok(count) => {
                                assert_eq!(count, expected(least));
                                answers.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(_) => {
                                refusals.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    }
                });
            }
        });
        let statistics = cache.statistics();
        assert_eq!((statistics.filling_cells, statistics.pinned_bytes), (0, 0), "{statistics:?}");
        assert!(statistics.used_bytes <= statistics.budget_bytes);
        assert_eq!(statistics.misses, statistics.filled + statistics.abandoned);
    }
    let (answers, refusals) = (answers.into_inner(), refusals.into_inner());
    assert!(answers > 50 && refusals > 10, "{answers} answers, {refusals} refusals");
}

#[test]
fn a_query_that_finds_all_of_it_only_asks_for_the_version() {
    let (flaky, store) = flaky(0);
    let cache = Cache::new(options(1 << 20)).unwrap();
    assert_eq!(block_on(query(&cache, &store, 0)).unwrap(), ROWS);
    let before = flaky.requests.load(Ordering::SeqCst);
    assert_eq!(block_on(query(&cache, &store, 303)).unwrap(), expected(303));
    assert_eq!(flaky.requests.load(Ordering::SeqCst) - before, 1);
}

#[test]
fn a_small_object_is_read_by_one_request() {
    let (flaky, store) = flaky(0);
    let cache = Cache::new(CacheOptions { whole_bytes: 1 << 20, ..options(1 << 20) }).unwrap();
    for (least, requests) in [(303, 2), (0, 1), (303, 1)] {
        let before = flaky.requests.load(Ordering::SeqCst);
        assert_eq!(block_on(query(&cache, &store, least)).unwrap(), expected(least));
        assert_eq!(flaky.requests.load(Ordering::SeqCst) - before, requests, "the version, and all of it once");
    }
}

#[test]
fn what_will_be_needed_of_a_row_group_comes_along() {
    let (flaky, store) = flaky(0);
    let cache = Cache::new(options(1 << 20)).unwrap();
    let file = block_on(ParquetFile::open(&cache, store, "flaky://", &Path::from("t.parquet"))).unwrap();
    let before = flaky.requests.load(Ordering::SeqCst);
    let predicate = Predicate::Compare(Comparison::GreaterOrEqual, Scalar::Int(303), FloatOrder::Ieee);
    let request = ParquetRequest { condition: Condition::column(0, predicate), ..ParquetRequest::default() };
    let mut rows = file.read(&request).unwrap();
    while block_on(rows.next()).unwrap().is_some() {}
    let groups = rows.metrics().row_groups_read as u64;
    assert!(groups > 1);
    assert_eq!(flaky.requests.load(Ordering::SeqCst) - before, groups, "one request for predicate and output");
}

#[test]
fn a_read_that_was_given_up_says_so_instead_of_leaving_rows_out() {
    let (_, store) = flaky(0);
    let cache = Cache::new(options(0)).unwrap();
    let file = block_on(ParquetFile::open(&cache, store, "flaky://", &Path::from("t.parquet"))).unwrap();
    let given_up = (0..50).find_map(|_| {
        let mut rows = file.read(&ParquetRequest::default()).unwrap();
        let is_ready = pin!(rows.next()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        (!is_ready).then_some(rows)
    });
    assert!(block_on(given_up.expect("the store takes its time").next()).is_err());
}

#[test]
fn every_truncation_and_many_damages_of_a_file_give_rows_or_errors() {
    let bytes = file(3, 1_200);
    let cache = Cache::new(options(1 << 20)).unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let read = |bytes: Vec<u8>| {
        block_on(store.put(&Path::from("t.parquet"), bytes.into())).unwrap();
        block_on(query(&cache, &store, 0))
    };
    for length in (0..bytes.len()).step_by(11) {
        assert!(read(bytes[..length].to_vec()).is_err(), "{length} bytes");
    }
    // Numbers of the metadata become negative by their lowest bit: places before the first byte.
    let is_negative = |bytes: &[u8]| {
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&Bytes::copy_from_slice(bytes));
        let chunks = metadata.iter().flat_map(|metadata| metadata.row_groups()).flat_map(|group| group.columns());
        chunks.into_iter().any(|chunk| {
            let start = chunk.dictionary_page_offset().unwrap_or(0).min(chunk.data_page_offset());
            start.min(chunk.compressed_size()) < 0
        })
    };
    let mut negative = 0;
    for place in 4..bytes.len() - 8 {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        if is_negative(&damaged) {
            negative += 1;
            assert!(read(damaged).is_err(), "byte {place}");
        }
    }
    assert!(negative > 0);
    // The length of the metadata, which everything else is found by.
    for place in bytes.len() - 8..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0xFF;
        assert!(read(damaged).is_err(), "byte {place}");
    }
}
