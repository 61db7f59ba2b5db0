//! Parquet read through the cache, beside arrow-rs' own reader and the definition of predicates.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;
#[allow(dead_code, reason = "its main is for the command line")]
#[path = "../examples/query.rs"]
mod example;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray,
    cast::AsArray,
    types::{Int32Type, Int64Type},
};
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use common::tables::{
    by_arrow, compare, expected, filtered, mask, near, parquet, parquet_with, read, store, table, value,
};
use common::{Random, options};
use entasis::scan::{Condition, Expression};
use entasis::{Projection, Selected};
use entasis_cache::read::{ParquetFile, ParquetRequest};
use entasis_cache::{Arrival, CELL_OVERHEAD_BYTES, CELL_ROWS, Cache, CacheOptions};
use entasis_encoding::{Comparison, Like, Predicate, Scalar};
use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::basic::Compression::SNAPPY;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;

/// Rows whose string has an odd length; with a number before it, whether both are odd or both aren't.
#[derive(Debug)]
struct Odd(Projection);

impl Expression for Odd {
    fn projection(&self) -> &Projection {
        &self.0
    }

    fn evaluate(&self, batch: &RecordBatch) -> entasis::Result<BooleanArray> {
        let texts = batch.columns().last().unwrap().as_string::<i32>();
        let odd = texts.iter().map(|text| text.map(|text| text.len() % 2 == 1));
        if batch.num_columns() == 1 {
            return Ok(odd.collect());
        }
        let numbers = batch.column(0).as_primitive::<Int32Type>();
        Ok(odd.zip(numbers).map(|(odd, number)| Some(odd? == (number? % 2 == 1))).collect())
    }
}

/// Rows whose number is even; but 77 is more than it can bear.
#[derive(Debug)]
struct Fussy(Projection);

impl Expression for Fussy {
    fn projection(&self) -> &Projection {
        &self.0
    }

    fn evaluate(&self, batch: &RecordBatch) -> entasis::Result<BooleanArray> {
        let numbers = batch.columns().last().unwrap().as_primitive::<Int32Type>();
        if numbers.iter().flatten().any(|number| number == 77) {
            return Err(entasis::Error::InvalidArgument("77".to_owned()));
        }
        Ok(numbers.iter().map(|number| number.map(|number| number % 2 == 0)).collect())
    }
}

fn requests() -> Vec<ParquetRequest> {
    let condition = |path: &[usize], predicate| Condition::Column { path: path.to_vec(), predicate };
    let not = |condition| Condition::Not(Box::new(condition));
    let odd = |columns: &[usize]| Condition::Expression(Arc::new(Odd(Projection::of_columns(columns.iter().copied()))));
    let number = |comparison, literal| compare(comparison, Scalar::Int(literal));
    let like = || Predicate::Like(Like { pattern: b"%/3?%".to_vec(), escape: None, negated: false });
    let many = || condition(&[2], compare(Comparison::Greater, Scalar::Float(60.0)));
    let conditions = vec![
        Condition::Always(true),
        condition(&[1], number(Comparison::Less, 500)),
        condition(&[1], number(Comparison::Equal, 77)),
        Condition::And(vec![condition(&[3], like()), many()]),
        Condition::And(vec![
            condition(&[5, 1, 0], number(Comparison::GreaterOrEqual, 990)),
            condition(&[6], Predicate::IsNotNull),
        ]),
        condition(&[5, 0], compare(Comparison::Equal, Scalar::Bool(true))),
        Condition::And(vec![condition(&[1], Predicate::IsNull), condition(&[0], number(Comparison::Greater, 9_000))]),
        condition(&[0], number(Comparison::Less, -1)),
        not(Condition::Or(vec![condition(&[3], like()), many()])),
        Condition::Or(vec![condition(&[1], number(Comparison::Equal, 77)), condition(&[5, 1, 0], Predicate::IsNull)]),
        not(condition(&[5, 1, 1], Predicate::IsNull)),
        Condition::And(vec![odd(&[3]), condition(&[1], number(Comparison::Less, 700))]),
        not(Condition::Or(vec![odd(&[1, 3]), condition(&[1], number(Comparison::Less, 700))])),
        // What one asks of a column the next asks of what is left of it, and of others.
        Condition::And(vec![
            condition(&[1], number(Comparison::Less, 90)),
            Condition::Or(vec![condition(&[1], number(Comparison::GreaterOrEqual, 40)), condition(&[3], like())]),
            odd(&[1, 3]),
        ]),
    ];
    let of = |columns: &[usize]| Projection::of_columns(columns.iter().copied());
    let projections = [Projection::all(), of(&[5, 1]), of(&[]), of(&[4])];
    let both = conditions.into_iter().flat_map(|condition| {
        let request = move |projection: &Projection| {
            let (projection, condition) = (projection.clone(), condition.clone());
            ParquetRequest { projection, condition, ..ParquetRequest::default() }
        };
        projections.iter().map(request).collect::<Vec<_>>()
    });
    both.collect()
}

#[test]
fn rows_are_those_of_the_parquet_reader() {
    for (seed, rows, row_group_rows) in [(1, 10_000, 100_000), (2, 150_000, 140_000), (3, 9_000, 2_500)] {
        let bytes = parquet(&table(seed, rows), row_group_rows);
        let whole = by_arrow(&bytes);
        let store = store("t.parquet", bytes);
        let cache = Cache::new(options(256 << 20)).unwrap();
        // Requests of one condition follow each other.
        let masks: Vec<BooleanArray> = requests().chunks(4).map(|alike| mask(&whole, &alike[0].condition)).collect();
        for round in 0..2 {
            for (number, request) in requests().iter().enumerate() {
                let (found, metrics) = read(&cache, &store, "t.parquet", request);
                assert_eq!(
                    found,
                    filtered(&whole, &masks[number / 4], request),
                    "seed {seed}, round {round}, request {number}"
                );
                assert_eq!(metrics.rows_passed, found.num_rows() as u64);
                if round == 1 {
                    assert_eq!((metrics.cells_decoded, metrics.pieces_selected), (0, 0), "all of it is in the cache");
                }
            }
            while cache.transcode_one() {}
        }
        assert!(cache.statistics().encoded_hits > 0);
    }
}

/// Cells come in as pages, be it left in a file that is near, or as arrays, and are whatever transcoding has got to, cell by cell; with an index
/// of pages and without, which are fetched one by one or together.
#[test]
fn rows_are_alike_whatever_state_cells_are_in() {
    let table = table(11, 75_000);
    let folder = tempfile::tempdir().unwrap();
    let ways = [(true, false), (false, false), (true, true), (false, true)].map(|way| (Arrival::Pages, way));
    for (seed, (arrival, (has_index, is_near))) in
        (1..).zip(ways.into_iter().chain([(Arrival::Arrays, (false, false))]))
    {
        let mut random = Random(seed);
        let builder = WriterProperties::builder().set_offset_index_disabled(!has_index);
        let bytes = parquet_with(builder, &table, 70_000);
        let whole = by_arrow(&bytes);
        let store = if is_near { near(folder.path(), &bytes) } else { store("t.parquet", bytes) };
        let requests = requests();
        let masks: Vec<BooleanArray> = requests.chunks(4).map(|alike| mask(&whole, &alike[0].condition)).collect();
        let made = || Cache::new(CacheOptions { arrival, ..options(256 << 20) }).unwrap();
        let mut cache = made();
        let mut states = [0; 3];
        for _ in 0..60 {
            if random.below(8) == 0 {
                cache = made();
            }
            let number = random.below(requests.len());
            let limit = (random.below(4) == 0).then(|| random.below(3_000) as u64);
            let batch_rows = [CELL_ROWS, 8_192, 1_000][random.below(3)];
            let request = ParquetRequest { limit, batch_rows, ..requests[number].clone() };
            let (found, metrics) = read(&cache, &store, "t.parquet", &request);
            let expected = filtered(&whole, &masks[number / 4], &request);
            let rows = limit.map_or(expected.num_rows(), |limit| expected.num_rows().min(limit as usize));
            assert_eq!(found, expected.slice(0, rows), "seed {seed}, request {number}, limit {limit:?}");
            assert_eq!(metrics.rows_passed, found.num_rows() as u64);
            for _ in 0..random.below(6) {
                cache.transcode_one();
            }
            let statistics = cache.statistics();
            let counts = [statistics.pages_cells, statistics.arrow_cells, statistics.encoded_cells];
            states.iter_mut().zip(counts).for_each(|(state, count)| *state += count);
        }
        // Arrays stay where blocks would be larger.
        assert!((states[0] > 0) == (arrival == Arrival::Pages) && states[1] > 0 && states[2] > 0, "{states:?}");
    }
}

/// A file of this machine's disk is read again rather than held, as the version that it was.
#[test]
fn pages_of_near_files_stay_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = parquet(&table(9, 100_000), 1 << 20);
    let store = near(folder.path(), &bytes);
    let cache = Cache::new(options(256 << 20)).unwrap();
    let request = ParquetRequest { projection: Projection::of_columns([0, 3]), ..ParquetRequest::default() };
    let (cold, metrics) = read(&cache, &store, "t.parquet", &request);
    let statistics = cache.statistics();
    assert_eq!((statistics.pages_cells, metrics.cells_decoded), (4, 4));
    assert!(metrics.bytes_read > 200_000 && statistics.used_bytes < 50_000, "{statistics:?}");
    let (again, metrics) = read(&cache, &store, "t.parquet", &request);
    assert!(again == cold && metrics.bytes_read > 200_000 && metrics.cells_found == 4);
    assert!(cache.transcode_one() && cache.statistics().encoded_cells == 1);
    near(folder.path(), &parquet(&table(10, 90_000), 1 << 20));
    while cache.transcode_one() {}
    let statistics = cache.statistics();
    assert_eq!(
        (statistics.encoded_cells, statistics.pages_cells, statistics.undecodable),
        (1, 0, 3),
        "of the version that is gone"
    );
    let (other, _) = read(&cache, &store, "t.parquet", &request);
    assert_eq!(other.num_rows(), 90_000);
}

/// What was there as pages costs about what they do, once: pieces of a column share what they can't hold apart.
#[test]
fn pages_are_counted_once() {
    let bytes = parquet_with(WriterProperties::builder().set_offset_index_disabled(true), &table(6, 200_000), 1 << 20);
    let store = store("t.parquet", bytes);
    let cache = Cache::new(options(256 << 20)).unwrap();
    let request = ParquetRequest { projection: Projection::of_columns([0, 3]), ..ParquetRequest::default() };
    let (_, cold) = read(&cache, &store, "t.parquet", &request);
    let statistics = cache.statistics();
    assert_eq!((statistics.pages_cells, cold.cells_decoded), (8, 8), "four pieces of two columns");
    let overhead = 8 * CELL_OVERHEAD_BYTES;
    let held = statistics.used_bytes - overhead;
    assert!((cold.bytes_read..cold.bytes_read + (64 << 10)).contains(&held), "{held} for {}", cold.bytes_read);
    assert!(statistics.pages_bytes > 3 * held, "by themselves");
    let (_, again) = read(&cache, &store, "t.parquet", &request);
    assert_eq!((again.bytes_read, again.cells_found, again.rows_passed), (0, 8, 200_000));
    while cache.transcode_one() {}
    let statistics = cache.statistics();
    assert_eq!((statistics.pages_cells, statistics.encoded_cells), (0, 8));
    assert_eq!(statistics.used_bytes, statistics.encoded_bytes, "nothing of the pages is left");
}

/// A condition that becomes stricter while rows come out of pages is asked of those that are left, and the old one of all.
#[test]
fn conditions_become_stricter_while_pages_are_decoded() {
    let whole = table(7, 130_000);
    let store = store("t.parquet", parquet(&whole, 1 << 20));
    let few = || Condition::column(1, compare(Comparison::Less, Scalar::Int(700)));
    let fewer = Condition::And(vec![few(), Condition::column(0, compare(Comparison::Less, Scalar::Int(90_000)))]);
    for projection in [Projection::of_columns([0, 1]), Projection::of_columns([0, 3])] {
        let cache = Cache::new(options(256 << 20)).unwrap();
        let request = ParquetRequest { projection, condition: few(), batch_rows: 4_096, ..ParquetRequest::default() };
        let batches = block_on(async {
            let path = Path::from("t.parquet");
            let file = ParquetFile::open(&cache, store.clone(), "memory://a", &path).await.unwrap();
            let mut rows = file.read(&request).unwrap();
            let mut batches = vec![rows.next().await.unwrap().unwrap()];
            rows.set_condition(&fewer).unwrap();
            while let Some(batch) = rows.next().await.unwrap() {
                batches.push(batch);
            }
            batches
        });
        let found = concat_batches(&batches[0].schema(), &batches).unwrap();
        let all = filtered(&whole, &mask(&whole, &few()), &request);
        let ids = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        let (found, all) = (ids(&found), ids(&all));
        let first = batches[0].num_rows();
        assert_eq!(found[..first], all[..first]);
        let stricter: Vec<i64> = all.iter().copied().filter(|id| *id < 90_000).collect();
        assert!(stricter.iter().all(|id| found.contains(id)) && found.iter().all(|id| all.contains(id)));
        assert!(found.is_sorted() && found.len() < stricter.len() + 20_000, "{} of {}", found.len(), all.len());
    }
}

/// Of a column that a selective condition asks about, and that comes out, what passes is kept, and not all that was decoded to see that.
#[test]
fn rows_that_fall_are_not_kept() {
    let texts = (0..150_000).map(|row| format!("{}{row:0250}", if row % 500 == 7 { "found" } else { "lost" }));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..150_000));
    let whole = RecordBatch::try_from_iter([("id", ids), ("t", texts)]).unwrap();
    let store = store("t.parquet", parquet_with(WriterProperties::builder().set_compression(SNAPPY), &whole, 1 << 20));
    let cache = Cache::new(options(256 << 20)).unwrap();
    let like = |pattern: &str| Predicate::Like(Like { pattern: pattern.into(), escape: None, negated: false });
    let condition = Condition::And(vec![Condition::column(1, like("found%")), Condition::column(1, like("%7"))]);
    let request = ParquetRequest { condition, ..ParquetRequest::default() };
    let (found, most) = block_on(async {
        let file = ParquetFile::open(&cache, store, "memory://a", &Path::from("t.parquet")).await.unwrap();
        let (mut rows, mut most, mut batches) = (file.read(&request).unwrap(), 0, Vec::new());
        while let Some(batch) = rows.next().await.unwrap() {
            batches.push(batch);
            most = most.max(rows.held_bytes());
        }
        (concat_batches(rows.schema(), &batches).unwrap(), most)
    });
    let all = (0..150_000).filter(|row| row % 500 == 7);
    assert_eq!(found.column(0).as_primitive::<Int64Type>().values().to_vec(), all.collect::<Vec<i64>>());
    assert_eq!(found, filtered(&whole, &mask(&whole, &request.condition), &request));
    let bytes = whole.column(1).get_array_memory_size();
    assert!(most * 8 < bytes, "{most} bytes held of {bytes}");
}

/// A condition that becomes stricter again and again, as that of `ORDER BY … LIMIT` does: what was measured of it before isn't forgotten, so
/// that it is asked before other columns are decoded.
#[test]
fn what_was_measured_of_a_condition_is_known_of_a_stricter_one() {
    let whole = table(7, 300_000);
    let store = store("t.parquet", parquet(&whole, 70_000));
    let below = |most: i128| Condition::column(1, compare(Comparison::Less, Scalar::Int(most)));
    let cache = Cache::new(options(256 << 20)).unwrap();
    let projection = Projection::of_columns([0, 3]);
    let request = ParquetRequest { projection, condition: below(40), batch_rows: 512, ..ParquetRequest::default() };
    let (found, metrics) = block_on(async {
        let path = Path::from("t.parquet");
        let file = ParquetFile::open(&cache, store.clone(), "memory://a", &path).await.unwrap();
        let mut rows = file.read(&request).unwrap();
        let (mut batches, mut most) = (Vec::new(), 40);
        while let Some(batch) = rows.next().await.unwrap() {
            batches.push(batch);
            most = (most - 1).max(10);
            rows.set_condition(&below(most)).unwrap();
        }
        (concat_batches(&batches[0].schema(), &batches).unwrap(), rows.metrics())
    });
    let ids = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    let (all, least) = (filtered(&whole, &mask(&whole, &below(40)), &request), mask(&whole, &below(10)));
    let (found, all, least) = (ids(&found), ids(&all), ids(&filtered(&whole, &least, &request)));
    assert!(found.iter().all(|id| all.contains(id)) && least.iter().all(|id| found.contains(id)));
    assert_eq!(metrics.rows, 300_000);
    assert!(metrics.pieces_selected >= 4, "other columns are decoded for few rows: {metrics:?}");
}

/// Pages are of no use without their object's metadata, whose room is bounded: they go with them.
#[test]
fn pages_go_with_their_metadata() {
    let bytes = parquet(&table(13, 20_000), 1 << 20);
    let inner = InMemory::new();
    for path in ["t.parquet", "u.parquet"] {
        block_on(inner.put(&Path::from(path), bytes.clone().into())).unwrap();
    }
    let store: Arc<dyn ObjectStore> = Arc::new(inner);
    let request = ParquetRequest { projection: Projection::of_columns([0, 3]), ..ParquetRequest::default() };
    let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
    let metadata_bytes = reader.parse_and_finish(&Bytes::from(bytes)).unwrap().memory_size();
    for (room, expected) in [(0, [0, 0, 0]), (metadata_bytes * 3 / 2, [2, 2, 2]), (metadata_bytes * 4, [2, 4, 4])] {
        let cache = Cache::new(CacheOptions { metadata_bytes: room as u64, ..options(256 << 20) }).unwrap();
        let cells = ["t.parquet", "u.parquet", "t.parquet"].map(|path| {
            assert_eq!(read(&cache, &store, path, &request).0.num_rows(), 20_000);
            cache.statistics().pages_cells
        });
        assert_eq!(cells, expected, "{room} bytes");
        if room == 0 {
            assert_eq!(cache.statistics().used_bytes, 0);
        }
    }
}

/// Conditions that wait for pages to be decoded still spare expressions the rows that they fail on.
#[test]
fn expressions_see_what_predicates_leave_them() {
    let whole = table(12, 70_000);
    let store = store("t.parquet", parquet(&whole, 1 << 20));
    let spared = || Condition::column(1, compare(Comparison::NotEqual, Scalar::Int(77)));
    let fussy =
        |columns: &[usize]| Condition::Expression(Arc::new(Fussy(Projection::of_columns(columns.iter().copied()))));
    for (columns, outputs) in [(vec![1], vec![1, 3]), (vec![0, 1], vec![3]), (vec![0, 1], vec![])] {
        // With nothing in the cache, with the expression's other column as blocks, and with all.
        for encoded in [vec![], vec![0], vec![0, 1, 3]] {
            let cache = Cache::new(options(256 << 20)).unwrap();
            let before = Projection::of_columns(encoded.iter().copied());
            read(&cache, &store, "t.parquet", &ParquetRequest { projection: before, ..ParquetRequest::default() });
            while cache.transcode_one() {}
            let condition = Condition::And(vec![fussy(&columns), spared()]);
            let projection = Projection::of_columns(outputs.iter().copied());
            let request = ParquetRequest { projection, condition, ..ParquetRequest::default() };
            let even = |row: usize| {
                let number = value(&whole, &[1], row);
                matches!(number, Some(Scalar::Int(number)) if number != 77 && number % 2 == 0)
            };
            let (found, _) = read(&cache, &store, "t.parquet", &request);
            let mask = (0..whole.num_rows()).map(|row| Some(even(row))).collect();
            assert_eq!(found, filtered(&whole, &mask, &request), "{columns:?} {outputs:?} {encoded:?}");
        }
    }
}

/// Pages that can't be decoded are an error of who asks for them, and no cell for long.
#[test]
fn damaged_pages_are_an_error_and_go() {
    let mut bytes = parquet(&table(8, 20_000), 1 << 20);
    bytes[4..600].fill(0xA5);
    let store = store("t.parquet", bytes);
    let cache = Cache::new(options(256 << 20)).unwrap();
    let request = ParquetRequest { projection: Projection::of_columns([0]), ..ParquetRequest::default() };
    let ask = || {
        block_on(async {
            let path = Path::from("t.parquet");
            let file = ParquetFile::open(&cache, store.clone(), "memory://a", &path).await.unwrap();
            file.read(&request).unwrap().next().await.map(drop)
        })
    };
    ask().unwrap_err();
    assert_eq!(cache.statistics().pages_cells, 1);
    while cache.transcode_one() {}
    let statistics = cache.statistics();
    assert_eq!((statistics.pages_cells, statistics.undecodable, statistics.used_bytes), (0, 1, 0));
    ask().unwrap_err();
}

#[test]
fn a_cache_that_holds_nothing_answers_alike() {
    let bytes = parquet(&table(4, 100_000), 80_000);
    let whole = by_arrow(&bytes);
    let store = store("t.parquet", bytes);
    for memory_bytes in [0, 200_000] {
        let cache = Cache::new(CacheOptions { transcoders: 1, ..options(memory_bytes) }).unwrap();
        for request in requests() {
            let (found, _) = read(&cache, &store, "t.parquet", &request);
            assert_eq!(found, expected(&whole, &request));
        }
        let statistics = cache.statistics();
        assert!(statistics.used_bytes <= memory_bytes && statistics.rejected > 0);
    }
}

#[test]
fn columns_are_decoded_once_and_only_as_far_as_needed() {
    let bytes = parquet(&table(5, 130_000), 1 << 20);
    let store = store("t.parquet", bytes);
    let cache = Cache::new(options(256 << 20)).unwrap();
    let rare = Condition::column(1, compare(Comparison::Equal, Scalar::Int(5)));
    let projection = Projection::of_columns([1, 3]);
    let request = ParquetRequest { projection, condition: rare, ..ParquetRequest::default() };
    let (_, cold) = read(&cache, &store, "t.parquet", &request);
    // Two pieces of the predicate's column, for predicate and output; of the other column, just the survivors.
    assert_eq!((cold.cells_decoded, cold.cells_found, cold.pieces_selected), (2, 0, 2));
    while cache.transcode_one() {}
    let (_, again) = read(&cache, &store, "t.parquet", &request);
    assert_eq!((again.cells_decoded, again.cells_found, again.pieces_selected), (2, 2, 0), "worth being kept");
    assert!(again.values_compared > 0 && again.values_decoded < 1_000, "{again:?}");
    let (_, warm) = read(&cache, &store, "t.parquet", &request);
    assert_eq!((warm.cells_decoded, warm.cells_found, warm.pieces_selected), (0, 4, 0));
    assert_eq!(warm.bytes_read, 0);
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    let store = store("t.parquet", parquet(&table(7, 100), 100));
    let cache = Cache::new(options(1 << 20)).unwrap();
    let file = block_on(ParquetFile::open(&cache, store, "memory://a", &Path::from("t.parquet"))).unwrap();
    let ask = |path: &[usize], predicate| {
        let condition = Condition::Column { path: path.to_vec(), predicate };
        file.read(&ParquetRequest { condition, ..ParquetRequest::default() }).map(|_| ())
    };
    assert!(ask(&[9], Predicate::IsNull).is_err(), "there is no such column");
    assert!(ask(&[1, 0], Predicate::IsNull).is_err(), "a number has no fields");
    assert!(ask(&[5], Predicate::IsNull).is_err(), "a struct");
    assert!(ask(&[4], Predicate::IsNotNull).is_err(), "a list");
    let request = ParquetRequest { projection: Projection::of_columns([7]), ..ParquetRequest::default() };
    assert!(file.read(&request).is_err());
    assert!(file.read(&ParquetRequest { row_groups: Some(vec![1]), ..ParquetRequest::default() }).is_err());
    assert!(file.read(&ParquetRequest { batch_rows: 0, ..ParquetRequest::default() }).is_err());
    assert_eq!(file.schema().field(5).data_type(), table(7, 1).schema().field(5).data_type());
    assert!(matches!(file.schema().field(5).data_type(), DataType::Struct(_)));
}

#[test]
fn limits_row_groups_and_fields_are_read_alone() {
    let bytes = parquet(&table(8, 200_000), 150_000);
    let whole = by_arrow(&bytes);
    let store = store("t.parquet", bytes);
    let cache = Cache::new(options(256 << 20)).unwrap();
    for round in 0..2 {
        let limited = ParquetRequest {
            projection: Projection::of_columns([0]),
            condition: Condition::column(1, compare(Comparison::Less, Scalar::Int(300))),
            limit: Some(30_000),
            batch_rows: 1_000,
            ..ParquetRequest::default()
        };
        let (found, metrics) = read(&cache, &store, "t.parquet", &limited);
        let all = expected(&whole, &ParquetRequest { limit: None, ..limited.clone() });
        assert_eq!(found, all.slice(0, 30_000));
        // At first one piece is looked at, then two together; of what is in the cache, one at a time.
        assert_eq!(metrics.rows, if round == 0 { 150_000 } else { 131_072 });
        let second = ParquetRequest { row_groups: Some(vec![1]), ..ParquetRequest::default() };
        assert_eq!(read(&cache, &store, "t.parquet", &second).0, whole.slice(150_000, 50_000), "round {round}");
        let inner = Selected { column: 1, fields: Some(vec![Selected { column: 1, fields: None }]) };
        let fields = Projection::of_selected(vec![Selected { column: 5, fields: Some(vec![inner]) }]);
        let (found, _) =
            read(&cache, &store, "t.parquet", &ParquetRequest { projection: fields, ..ParquetRequest::default() });
        let (found, outer) = (found.column(0).as_struct().clone(), whole.column(5).as_struct());
        assert_eq!(found.num_columns(), 1);
        assert_eq!(found.nulls(), outer.nulls());
        let (found, inner) = (found.column(0).as_struct().clone(), outer.column(1).as_struct());
        assert_eq!((found.num_columns(), found.column(0)), (1, inner.column(1)));
        while cache.transcode_one() {}
    }
}

#[test]
fn strings_come_as_they_are_wanted_whatever_the_cache_holds() {
    let bytes = parquet(&table(9, 70_000), 100_000);
    let whole = by_arrow(&bytes);
    let store = store("t.parquet", bytes);
    let cache = Cache::new(options(256 << 20)).unwrap();
    let open = || block_on(ParquetFile::open(&cache, store.clone(), "memory://a", &Path::from("t.parquet"))).unwrap();
    let as_type = |data_type: DataType| {
        let fields: Vec<_> = whole
            .schema()
            .fields()
            .iter()
            .map(|field| match field.name().as_str() {
                "t" => Arc::new(field.as_ref().clone().with_data_type(data_type.clone())),
                _ => field.clone(),
            })
            .collect();
        Arc::new(arrow_schema::Schema::new(fields))
    };
    let request = ParquetRequest { projection: Projection::of_columns([3]), ..ParquetRequest::default() };
    for round in 0..2 {
        for data_type in [DataType::Utf8View, DataType::Utf8, DataType::LargeUtf8] {
            let file = open().with_schema(as_type(data_type.clone())).unwrap();
            let mut rows = file.read(&request).unwrap();
            let mut batches = Vec::new();
            while let Some(batch) = block_on(rows.next()).unwrap() {
                batches.push(batch);
            }
            let found = concat_batches(rows.schema(), &batches).unwrap();
            assert_eq!(found.schema().field(0).data_type(), &data_type);
            let found = arrow_cast::cast(found.column(0), &DataType::Utf8).unwrap();
            assert_eq!(&found, whole.column(3), "round {round}, {data_type}");
        }
        while cache.transcode_one() {}
    }
    assert!(open().with_schema(as_type(DataType::Int64)).is_err(), "text isn't a number");
}

#[test]
fn the_example_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    std::fs::write(&path, parquet(&table(10, 9_000), 4_000)).unwrap();
    let found = example::run(path.to_str().unwrap(), "id", 13_500).unwrap();
    assert_eq!((found[0].0, found[1].0), (4_500, 4_500));
    assert!(found[0].1.cells_decoded > 0 && found[1].1.cells_decoded == 0, "{found:?}");
}
