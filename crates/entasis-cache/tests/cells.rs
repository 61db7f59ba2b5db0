//! Cells one at a time: budget, states, pins, invalidation, single flight, events.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, DictionaryArray, Int64Array, RecordBatch, StringArray};
use arrow_schema::DataType;
use common::{cell, options};
use entasis_cache::policy::PolicyKind;
use entasis_cache::{
    CELL_OVERHEAD_BYTES, CELL_ROWS, Cache, CacheOptions, CellId, Error, Event, Lookup, Observer, State, Statistics,
};
use entasis_encoding::{Selection, digest};

/// Numbers that blocks hold in much less room.
fn numbers(first: i64, rows: usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| first + row % 50)))
}

/// Puts an array into the cache, if it has room.
fn fill(cache: &Cache, id: &CellId, array: ArrayRef) {
    cache.get_or_decode(id, || Ok::<_, Error>(array)).unwrap();
}

fn state(cache: &Cache, id: &CellId) -> Option<State> {
    cache.get(id).map(|cell| cell.state())
}

fn size_bytes(array: &dyn Array) -> u64 {
    array.get_buffer_memory_size() as u64 + CELL_OVERHEAD_BYTES
}

#[test]
fn the_budget_is_kept_to_the_byte() {
    let array = numbers(0, 1_000);
    let one = size_bytes(&array);
    for (spare, count) in [(0, 3), (one - 1, 3), (one, 4)] {
        let cache = Cache::new(CacheOptions { policy: PolicyKind::Lru, ..options(3 * one + spare) }).unwrap();
        for piece in 0..10 {
            fill(&cache, &cell("a", 0, piece), numbers(piece as i64, 1_000));
            let Statistics { used_bytes, budget_bytes, arrow_bytes, .. } = cache.statistics();
            assert!(used_bytes <= budget_bytes && used_bytes == arrow_bytes);
        }
        let there: Vec<usize> = (0..10).filter(|&piece| cache.get(&cell("a", 0, piece)).is_some()).collect();
        assert_eq!(there, (10 - count..10).collect::<Vec<_>>());
        assert_eq!(cache.statistics().used_bytes, count as u64 * one);
    }
}

#[test]
fn a_cell_that_is_larger_than_the_budget_answers_and_drives_nobody_out() {
    let small = numbers(0, 100);
    let cache = Cache::new(options(size_bytes(&small))).unwrap();
    fill(&cache, &cell("a", 0, 0), small.clone());
    let large = cache.get_or_decode(&cell("a", 0, 1), || Ok::<_, Error>(numbers(0, 10_000))).unwrap();
    assert_eq!(large.rows(), 10_000);
    assert_eq!(state(&cache, &cell("a", 0, 0)), Some(State::Arrow));
    assert_eq!((cache.statistics().rejected, cache.statistics().evicted), (1, 0));
}

#[test]
fn a_dictionary_that_cells_share_counts_once() {
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..5_000).map(|row| format!("a long value {row}"))));
    let keys = |piece: i32| arrow_array::Int32Array::from_iter_values((0..2_000).map(|row| (row * 7 + piece) % 5_000));
    let arrays = (0..8).map(|piece| DictionaryArray::new(keys(piece), values.clone()));
    let shared = values.get_buffer_memory_size() as u64;
    let cache = Cache::new(options(1 << 20)).unwrap();
    let mut expected = shared;
    for (piece, array) in arrays.enumerate() {
        expected += size_bytes(&array) - shared;
        fill(&cache, &cell("a", 0, piece), Arc::new(array));
        assert_eq!(cache.statistics().used_bytes, expected);
    }
    while cache.transcode_one() {}
    let after = cache.statistics();
    assert_eq!(after.used_bytes, after.encoded_bytes + after.arrow_bytes, "blocks share nothing");
    assert!(after.used_bytes <= after.budget_bytes);
}

#[test]
fn blocks_that_come_on_top_of_a_shared_dictionary_stay_within_the_budget() {
    // As long as a cell holds the values, the blocks of others free nothing but their keys.
    let text = |row: u128| format!("{:032x}", (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values((0..3_000).map(text)));
    let keys = |piece: i32| arrow_array::Int32Array::from_iter_values((0..3_000).map(|row| (row * 11 + piece) % 3_000));
    let cells: Vec<ArrayRef> =
        (0..4).map(|piece| Arc::new(DictionaryArray::new(keys(piece), values.clone())) as ArrayRef).collect();
    let own = size_bytes(&cells[0]) - values.get_buffer_memory_size() as u64;
    let cache = Cache::new(options(values.get_buffer_memory_size() as u64 + 4 * own)).unwrap();
    for (piece, array) in cells.iter().enumerate() {
        fill(&cache, &cell("a", 0, piece), array.clone());
    }
    assert_eq!(cache.statistics().arrow_cells, 4, "all fit as arrays");
    let transcode = || {
        while cache.transcode_one() {
            let Statistics { used_bytes, budget_bytes, .. } = cache.statistics();
            assert!(used_bytes <= budget_bytes, "{used_bytes} of {budget_bytes}");
        }
    };
    let pins: Vec<_> = (0..4).map(|piece| cache.pin(&cell("a", 0, piece)).unwrap()).collect();
    transcode();
    let Statistics { arrow_cells, transcoded, evicted, .. } = cache.statistics();
    assert_eq!((arrow_cells, transcoded, evicted), (4, 0, 0), "nobody may go, so they stay what they are");
    drop(pins);
    (0..4).for_each(|piece| assert!(cache.get(&cell("a", 0, piece)).is_some(), "asked for again, they are queued"));
    transcode();
    let Statistics { encoded_cells, evicted, .. } = cache.statistics();
    assert!(encoded_cells > 0 && evicted > 0);
}

#[test]
fn cells_become_the_blocks_of_a_file() {
    let rows = 0..CELL_ROWS as i64;
    let texts =
        rows.clone().map(|row| (row % 13 > 0).then(|| format!("https://example.com/{}?q={}", row % 700, row / 9)));
    let arrays: [ArrayRef; 3] = [
        numbers(0, CELL_ROWS),
        Arc::new(StringArray::from_iter(texts)),
        Arc::new(BooleanArray::from_iter(rows.map(|row| Some(row % 100 < 3)))),
    ];
    let cache = Cache::new(options(64 << 20)).unwrap();
    for (leaf, array) in arrays.iter().enumerate() {
        let id = cell("a", leaf, 0);
        fill(&cache, &id, array.clone());
        assert_eq!(state(&cache, &id), Some(State::Arrow));
        assert!(cache.transcode_one());
        let found = cache.get(&id).unwrap();
        assert_eq!(found.state(), State::Encoded);
        assert_eq!(&found.decode().unwrap(), array);
        assert_eq!(found.digests(), digests_in_file(array), "{}", array.data_type());
    }
    assert!(!cache.transcode_one(), "nothing waits");
    let statistics = cache.statistics();
    assert_eq!((statistics.transcoded, statistics.encoded_cells, statistics.arrow_cells), (3, 3, 0));
    assert!(statistics.transcoded_to_bytes * 4 < statistics.transcoded_from_bytes);
    assert_eq!(statistics.used_bytes, statistics.transcoded_to_bytes);
}

#[test]
fn bytes_that_are_no_text_are_refused_as_text_in_either_state() {
    let values = (0..5_000u32).map(|row| if row % 9 == 0 { vec![0xFF, 0xFE, row as u8] } else { vec![b'a'; 20] });
    let cache = Cache::new(options(64 << 20)).unwrap();
    let id = cell("a", 0, 0);
    fill(&cache, &id, Arc::new(BinaryArray::from_iter_values(values)));
    let all = Selection::all(5_000);
    for expected in [State::Arrow, State::Encoded] {
        let found = cache.get(&id).unwrap();
        assert_eq!(found.state(), expected);
        assert!(found.select_as(&all, &DataType::Utf8).is_err(), "{expected:?}");
        assert_eq!(found.select_as(&all, &DataType::LargeBinary).unwrap().null_count(), 0);
        cache.transcode_one();
    }
}

/// The digests of the blocks of a file whose row group holds these rows alone.
fn digests_in_file(array: &ArrayRef) -> Vec<u64> {
    let batch = RecordBatch::try_from_iter_with_nullable([("a", array.clone(), true)]).unwrap();
    let options = entasis::WriteOptions { row_group_rows: array.len() as u64, ..entasis::WriteOptions::default() };
    let mut writer = entasis::Writer::new(Vec::new(), batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let file = writer.finish().unwrap().0;
    let reader = entasis::Reader::from_bytes(file.clone().into()).unwrap();
    let record = reader.column(0).unwrap();
    let blocks = record.chunks.iter().flat_map(|chunk| &chunk.blocks);
    blocks.map(|block| digest(&file[block.range().start as usize..block.range().end as usize])).collect()
}

#[test]
fn what_would_not_shrink_stays_an_array() {
    let mut state_of = 7u64;
    let noise = (0..5_000).map(|_| {
        state_of = state_of.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state_of >> 1) as i64 ^ (state_of << 40) as i64
    });
    let cache = Cache::new(options(1 << 20)).unwrap();
    let id = cell("a", 0, 0);
    fill(&cache, &id, Arc::new(Int64Array::from_iter_values(noise)));
    assert!(cache.transcode_one());
    assert_eq!(state(&cache, &id), Some(State::Arrow));
    assert_eq!(cache.statistics().kept_as_arrow, 1);
    assert!(!cache.transcode_one(), "it isn't tried again");
}

#[test]
fn a_full_queue_lets_cells_wait_until_they_are_asked_for() {
    let cache = Cache::new(CacheOptions { queue_cells: 2, ..options(1 << 20) }).unwrap();
    for piece in 0..3 {
        fill(&cache, &cell("a", 0, piece), numbers(0, 1_000));
    }
    let statistics = cache.statistics();
    assert_eq!((statistics.queued_cells, statistics.not_queued), (2, 1));
    while cache.transcode_one() {}
    assert_eq!(state(&cache, &cell("a", 0, 2)), Some(State::Arrow));
    assert!(cache.transcode_one(), "it was asked for");
    assert_eq!(state(&cache, &cell("a", 0, 2)), Some(State::Encoded));
}

#[test]
fn pinned_cells_stay() {
    let one = size_bytes(&numbers(0, 1_000));
    let cache = Cache::new(options(2 * one)).unwrap();
    fill(&cache, &cell("a", 0, 0), numbers(0, 1_000));
    let pins = [cache.pin(&cell("a", 0, 0)).unwrap(), cache.pin(&cell("a", 0, 0)).unwrap()];
    assert!(cache.pin(&cell("a", 0, 9)).is_none(), "it isn't there");
    for piece in 1..6 {
        fill(&cache, &cell("a", 0, piece), numbers(0, 1_000));
    }
    assert_eq!(state(&cache, &cell("a", 0, 0)), Some(State::Arrow));
    fill(&cache, &cell("a", 1, 0), numbers(0, 2_000));
    assert_eq!(state(&cache, &cell("a", 1, 0)), None, "what is pinned isn't room for others");
    assert_eq!(cache.statistics().pinned_bytes, one);
    // Transcoding changes what a pin holds, not that it holds it.
    while cache.transcode_one() {}
    let pinned_bytes = cache.statistics().pinned_bytes;
    assert!(pinned_bytes > 0 && pinned_bytes < one);
    let [first, second] = pins;
    drop(first);
    assert_eq!(cache.statistics().pinned_bytes, pinned_bytes);
    drop(second);
    assert_eq!(cache.statistics().pinned_bytes, 0);
    for piece in 0..4 {
        fill(&cache, &cell("b", 0, piece), numbers(piece as i64, 1_000));
    }
    assert_eq!(state(&cache, &cell("a", 0, 0)), None, "it went, as any other");
}

#[test]
fn versions_and_objects_are_invalidated() {
    let cache = Cache::new(options(1 << 20)).unwrap();
    let ids = [cell("a", 0, 0), cell("a", 1, 0), cell("b", 0, 0)];
    let refill = || ids.iter().for_each(|id| fill(&cache, id, numbers(0, 100)));
    refill();
    let pin = cache.pin(&ids[0]).unwrap();
    assert_eq!(cache.invalidate_version(&ids[0].column.version), 2);
    assert_eq!(ids.each_ref().map(|id| cache.get(id).is_some()), [false, false, true]);
    assert_eq!(cache.statistics().pinned_bytes, 0);
    refill();
    drop(pin);
    assert_eq!(cache.statistics().pinned_bytes, 0, "a pin of a cell that is gone is nobody's");
    assert_eq!(cache.invalidate_older(&ids[2].column.version), 2, "a and b are versions of one object");
    refill();
    assert_eq!(cache.invalidate_object(ids[0].column.version.object()), 3);
    let statistics = cache.statistics();
    assert_eq!((statistics.used_bytes, statistics.arrow_cells, statistics.invalidated), (0, 0, 7));
}

#[test]
fn what_is_decoded_while_its_version_is_invalidated_stays_out() {
    let cache = Cache::new(options(1 << 20)).unwrap();
    let id = cell("a", 0, 0);
    let Lookup::Miss(duty) = cache.lookup(&id) else { panic!("a miss") };
    let Lookup::Wait(waiter) = cache.lookup(&id) else { panic!("somebody decodes") };
    cache.invalidate_version(&id.column.version);
    assert_eq!(duty.complete(numbers(0, 10)).unwrap().rows(), 10);
    assert_eq!(waiter.wait().unwrap().rows(), 10, "who asked before is answered");
    assert!(cache.get(&id).is_none());
}

#[test]
fn prewarming_drives_nobody_out() {
    let one = size_bytes(&numbers(0, 1_000));
    let cache = Cache::new(options(3 * one)).unwrap();
    fill(&cache, &cell("a", 0, 0), numbers(0, 1_000));
    let ids: Vec<CellId> = (0..6).map(|piece| cell("a", 0, piece)).collect();
    let mut decoded = 0;
    let came_in = cache.prewarm(&ids, |id| {
        decoded += 1;
        Ok::<_, Error>(numbers(id.piece as i64, 1_000))
    });
    assert_eq!(
        (came_in.unwrap(), decoded),
        (2, 3),
        "the one that was there is left out, the first without room ends it"
    );
    assert_eq!((cache.statistics().evicted, cache.statistics().arrow_cells), (0, 3));
}

#[test]
fn cells_have_no_more_rows_than_blocks() {
    let cache = Cache::new(options(1 << 20)).unwrap();
    let id = cell("a", 0, 0);
    let refused = cache.get_or_decode(&id, || Ok::<_, Error>(numbers(0, CELL_ROWS + 1)));
    assert!(matches!(refused, Err(Error::TooManyRows { rows: 65_537, .. })));
    assert!(matches!(cache.lookup(&id), Lookup::Miss(_)), "it was given up");
}

/// Counts how often it was woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn waiting_is_a_future() {
    let cache = Cache::new(options(1 << 20)).unwrap();
    let id = cell("a", 0, 0);
    let Lookup::Miss(duty) = cache.lookup(&id) else { panic!("a miss") };
    let woken = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    let wakers = woken.each_ref().map(|woken| Waker::from(woken.clone()));
    let [first, cancelled] = [cache.lookup(&id), cache.lookup(&id)].map(|found| match found {
        Lookup::Wait(waiter) => waiter,
        other => panic!("{other:?}"),
    });
    let mut first = pin!(first);
    assert!(first.as_mut().poll(&mut Context::from_waker(&wakers[0])).is_pending());
    {
        let mut cancelled = pin!(cancelled);
        assert!(cancelled.as_mut().poll(&mut Context::from_waker(&wakers[1])).is_pending());
    }
    drop(duty.complete(numbers(0, 10)).unwrap());
    assert_eq!(woken.each_ref().map(|woken| woken.0.load(Ordering::SeqCst)), [1, 0], "who went isn't woken");
    match first.as_mut().poll(&mut Context::from_waker(&wakers[0])) {
        Poll::Ready(Some(cell)) => assert_eq!(cell.rows(), 10),
        other => panic!("{other:?}"),
    }
    let statistics = cache.statistics();
    assert_eq!((statistics.misses, statistics.waits, statistics.filled), (1, 2, 1));
}

#[test]
fn who_gives_up_strands_nobody() {
    let cache = Cache::new(options(1 << 20)).unwrap();
    let id = cell("a", 0, 0);
    let Lookup::Miss(duty) = cache.lookup(&id) else { panic!("a miss") };
    let Lookup::Wait(waiter) = cache.lookup(&id) else { panic!("somebody decodes") };
    drop(duty);
    assert!(waiter.wait().is_none());
    let failed = cache.get_or_decode(&id, || Err::<ArrayRef, Error>(entasis::Error::Unsupported("no".into()).into()));
    assert!(failed.is_err());
    assert_eq!(cache.get_or_decode(&id, || Ok::<_, Error>(numbers(0, 10))).unwrap().rows(), 10);
    assert_eq!((cache.statistics().abandoned, cache.statistics().filling_cells), (2, 0));
}

#[derive(Debug, Default)]
struct Log(Mutex<Vec<String>>);

impl Observer for Log {
    fn observe(&self, event: &Event) {
        let (word, cell) = match event {
            Event::Hit { cell, state } => (format!("hit {state:?}"), cell),
            Event::Miss { cell } => ("miss".to_owned(), cell),
            Event::Filled { cell, .. } => ("filled".to_owned(), cell),
            Event::Transcoded { cell, from_bytes, to_bytes, .. } => {
                assert!(to_bytes < from_bytes);
                ("transcoded".to_owned(), cell)
            }
            Event::Evicted { cell, state, .. } => (format!("evicted {state:?}"), cell),
            Event::Invalidated { cell } => ("invalidated".to_owned(), cell),
            other => panic!("{other:?}"),
        };
        self.0.lock().unwrap().push(format!("{word} {}", cell.piece));
    }
}

#[test]
fn events_tell_a_cell_s_life() {
    let log = Arc::new(Log::default());
    let one = size_bytes(&numbers(0, 1_000));
    let observer: Option<Arc<dyn Observer>> = Some(log.clone());
    let cache = Cache::new(CacheOptions { observer, policy: PolicyKind::Fifo, ..options(one + one / 2) }).unwrap();
    fill(&cache, &cell("a", 0, 0), numbers(0, 1_000));
    cache.get(&cell("a", 0, 0));
    fill(&cache, &cell("a", 0, 1), numbers(0, 1_000));
    cache.transcode_one();
    cache.get(&cell("a", 0, 1));
    cache.invalidate_version(&cell("a", 0, 1).column.version);
    let expected =
        "miss 0, filled 0, hit Arrow 0, miss 1, evicted Arrow 0, filled 1, transcoded 1, hit Encoded 1, invalidated 1";
    assert_eq!(log.0.lock().unwrap().join(", "), expected);
}

#[test]
fn columns_say_what_is_there() {
    let cache = Cache::new(options(1 << 20)).unwrap();
    for (leaf, piece) in [(0, 0), (0, 1), (3, 0)] {
        fill(&cache, &cell("a", leaf, piece), numbers(0, 1_000));
    }
    cache.transcode_one();
    let mut columns = cache.columns();
    columns.sort_by_key(|column| column.column.leaf);
    let counts: Vec<_> =
        columns.iter().map(|column| (column.column.leaf, column.arrow_cells, column.encoded_cells)).collect();
    assert_eq!(counts, [(0, 1, 1), (3, 1, 0)]);
    assert_eq!(columns.iter().map(|column| column.size_bytes).sum::<u64>(), cache.statistics().used_bytes);
}
