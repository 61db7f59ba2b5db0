//! Parquet read through the cache, beside arrow-rs' own reader and the definition of predicates.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;
#[allow(dead_code, reason = "its main is for the command line")]
#[path = "../examples/query.rs"]
mod example;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
    StructArray,
    cast::AsArray,
    types::{Int32Type, Int64Type},
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use bytes::Bytes;
use common::{Random, options};
use entasis::scan::{Condition, Expression, scalar_of};
use entasis::{Projection, Selected};
use entasis_cache::read::{ParquetFile, ParquetRequest, ReadMetrics};
use entasis_cache::{Arrival, CELL_OVERHEAD_BYTES, CELL_ROWS, Cache, CacheOptions};
use entasis_encoding::{Comparison, FloatOrder, Like, Predicate, Scalar};
use futures::executor::block_on;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression::SNAPPY;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

/// A table with nulls, strings, lists, and structs in structs.
fn table(seed: u64, rows: usize) -> RecordBatch {
    let mut random = Random(seed);
    let mut nulls = |percent: usize| -> NullBuffer { (0..rows).map(|_| random.below(100) >= percent).collect() };
    let (few, many, outer, inner) = (nulls(5), nulls(60), nulls(10), nulls(20));
    let mut number = || random.below(1_000);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row * 3)));
    let numbers: Vec<i32> = (0..rows).map(|_| number() as i32).collect();
    let numbers: ArrayRef = Arc::new(Int32Array::new(numbers.into(), Some(few)));
    let floats: Vec<f64> = (0..rows).map(|_| number() as f64 / 8.0).collect();
    let floats: ArrayRef = Arc::new(Float64Array::new(floats.into(), Some(many)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter((0..rows).map(|row| {
        let number = number();
        (number % 9 > 0).then(|| format!("/page/{}?{}", number % 40, row / 1_000))
    })));
    let lists = (0..rows).map(|_| {
        let number = number();
        (number % 5 > 0).then(|| (0..number % 4).map(|item| (item != 2).then_some(item as i32)).collect::<Vec<_>>())
    });
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
    let flags: ArrayRef = Arc::new(BooleanArray::from_iter((0..rows).map(|_| Some(number() % 10 == 0))));
    let field = |name: &str, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
    let inner_fields = Fields::from(vec![field("x", &numbers), field("t", &texts)]);
    let nested: ArrayRef = Arc::new(StructArray::new(inner_fields, vec![numbers.clone(), texts.clone()], Some(inner)));
    let outer_fields = Fields::from(vec![field("flag", &flags), field("inner", &nested), field("y", &floats)]);
    let nested: ArrayRef =
        Arc::new(StructArray::new(outer_fields, vec![flags.clone(), nested, floats.clone()], Some(outer)));
    let columns = [("id", ids), ("n", numbers), ("f", floats), ("t", texts), ("l", lists), ("s", nested), ("b", flags)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn parquet(batch: &RecordBatch, row_group_rows: usize) -> Vec<u8> {
    parquet_with(WriterProperties::builder(), batch, row_group_rows)
}

fn parquet_with(builder: WriterPropertiesBuilder, batch: &RecordBatch, row_group_rows: usize) -> Vec<u8> {
    let properties = builder
        .set_max_row_group_row_count(Some(row_group_rows))
        .set_data_page_row_count_limit(5_000)
        .set_write_batch_size(1_000)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn by_arrow(bytes: &[u8]) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::copy_from_slice(bytes)).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// A store with one object.
fn store(path: &str, bytes: Vec<u8>) -> Arc<dyn ObjectStore> {
    let store = InMemory::new();
    block_on(store.put(&Path::from(path), bytes.into())).unwrap();
    Arc::new(store)
}

/// A store of files with one object.
fn near(folder: &std::path::Path, bytes: &[u8]) -> Arc<dyn ObjectStore> {
    std::fs::write(folder.join("t.parquet"), bytes).unwrap();
    Arc::new(LocalFileSystem::new_with_prefix(folder).unwrap())
}

fn read(
    cache: &Cache,
    store: &Arc<dyn ObjectStore>,
    path: &str,
    request: &ParquetRequest,
) -> (RecordBatch, ReadMetrics) {
    block_on(async {
        let file = ParquetFile::open(cache, store.clone(), "memory://a", &Path::from(path)).await.unwrap();
        let mut rows = file.read(request).unwrap();
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await.unwrap() {
            assert!(batch.num_rows() > 0 && batch.num_rows() <= entasis_cache::CELL_ROWS);
            batches.push(batch);
        }
        (concat_batches(rows.schema(), &batches).unwrap(), rows.metrics())
    })
}

/// The value of a column, or of a field of a struct, in one row; where a struct is null, so are its fields.
fn value(batch: &RecordBatch, path: &[usize], row: usize) -> Option<Scalar> {
    let mut array = batch.column(path[0]).clone();
    for &field in &path[1..] {
        if array.is_null(row) {
            return None;
        }
        array = array.as_struct().column(field).clone();
    }
    scalar_of(&array.slice(row, 1))
}

/// Whether a condition is true of a row, or false; neither of nulls.
fn holds(batch: &RecordBatch, condition: &Condition, row: usize) -> Option<bool> {
    let each = |conditions: &[Condition]| conditions.iter().map(|one| holds(batch, one, row)).collect::<Vec<_>>();
    match condition {
        Condition::Always(holds) => Some(*holds),
        Condition::Column { path, predicate } => {
            let value = value(batch, path, row);
            let is_known = value.is_some() || matches!(predicate, Predicate::IsNull | Predicate::IsNotNull);
            is_known.then(|| predicate.holds(value.as_ref()))
        }
        Condition::Not(condition) => holds(batch, condition, row).map(|holds| !holds),
        Condition::And(conditions) => {
            let each = each(conditions);
            if each.contains(&Some(false)) {
                Some(false)
            } else {
                each.into_iter().collect::<Option<Vec<_>>>().map(|_| true)
            }
        }
        Condition::Or(conditions) => {
            let each = each(conditions);
            if each.contains(&Some(true)) {
                Some(true)
            } else {
                each.into_iter().collect::<Option<Vec<_>>>().map(|_| false)
            }
        }
        Condition::Expression(expression) => {
            let one = batch.slice(row, 1);
            let columns: Vec<usize> =
                expression.projection().selected().unwrap().iter().map(|one| one.column).collect();
            let found = expression.evaluate(&one.project(&columns).unwrap()).unwrap();
            found.is_valid(0).then(|| found.value(0))
        }
    }
}

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

/// The rows of which a condition is true by definition.
fn mask(batch: &RecordBatch, condition: &Condition) -> BooleanArray {
    (0..batch.num_rows()).map(|row| holds(batch, condition, row)).collect()
}

fn expected(batch: &RecordBatch, request: &ParquetRequest) -> RecordBatch {
    filtered(batch, &mask(batch, &request.condition), request)
}

fn filtered(batch: &RecordBatch, mask: &BooleanArray, request: &ParquetRequest) -> RecordBatch {
    let projection: Vec<usize> = match request.projection.selected() {
        Some(selected) => selected.iter().map(|one| one.column).collect(),
        None => (0..batch.num_columns()).collect(),
    };
    filter_record_batch(&batch.project(&projection).unwrap(), mask).unwrap()
}

fn compare(comparison: Comparison, literal: Scalar) -> Predicate {
    Predicate::Compare(comparison, literal, FloatOrder::default())
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
fn row_groups_fall_by_statistics() {
    let bytes = parquet(&table(6, 10_000), 1_000);
    let store = store("t.parquet", bytes);
    let cache = Cache::new(options(256 << 20)).unwrap();
    let pruned = |predicate| {
        let (projection, condition) = (Projection::of_columns([0]), Condition::column(0, predicate));
        let request = ParquetRequest { projection, condition, ..ParquetRequest::default() };
        read(&cache, &store, "t.parquet", &request).1.row_groups_pruned
    };
    // Row group g has the ids from 3,000 g to 3,000 g + 2,997.
    let number = |comparison, literal| compare(comparison, Scalar::Int(literal));
    assert_eq!(pruned(number(Comparison::Less, 6_000)), 8);
    assert_eq!(pruned(number(Comparison::LessOrEqual, 6_000)), 7);
    assert_eq!(pruned(number(Comparison::Greater, 26_997)), 9);
    assert_eq!(pruned(number(Comparison::GreaterOrEqual, 26_997)), 8);
    assert_eq!(pruned(number(Comparison::Equal, 4_500)), 9);
    assert_eq!(pruned(number(Comparison::NotEqual, 4_500)), 0);
    assert_eq!(pruned(Predicate::IsNull), 10);
    assert_eq!(pruned(Predicate::IsNotNull), 0);
    let order = FloatOrder::default();
    let values = vec![Scalar::Int(1), Scalar::Int(9_001), Scalar::Int(1_000_000)];
    assert_eq!(pruned(Predicate::In { values: values.clone(), negated: false, order }), 8);
    assert_eq!(pruned(Predicate::In { values, negated: true, order }), 0);
    let (low, high) = (Scalar::Int(2_998), Scalar::Int(6_000));
    assert_eq!(pruned(Predicate::Between { low, high, negated: false, order }), 8);
}

/// Row groups of a single value, and of values that begin alike, fall by negations, and by patterns.
#[test]
fn row_groups_fall_by_negations_and_patterns() {
    let rows = 10_000;
    let numbers = Int32Array::from_iter((0..rows).map(|row| (row % 1_000 > 0).then_some(row / 1_000 / 5)));
    let texts = StringArray::from_iter_values((0..rows).map(|row| format!("/{}/{row}", row / 1_000)));
    let batch = RecordBatch::try_from_iter([("a", Arc::new(numbers) as ArrayRef), ("b", Arc::new(texts) as _)]);
    let bytes = parquet(&batch.unwrap(), 1_000);
    let whole = by_arrow(&bytes);
    let store = store("t.parquet", bytes);
    let cache = Cache::new(options(256 << 20)).unwrap();
    let pruned = |column, predicate| {
        let (projection, condition) = (Projection::of_columns([0, 1]), Condition::column(column, predicate));
        let request = ParquetRequest { projection, condition, ..ParquetRequest::default() };
        let (found, metrics) = read(&cache, &store, "t.parquet", &request);
        assert_eq!(found, expected(&whole, &request));
        metrics.row_groups_pruned
    };
    // The first five row groups have zeros, the others ones, nulls among both.
    let order = FloatOrder::default();
    assert_eq!(pruned(0, compare(Comparison::NotEqual, Scalar::Int(0))), 5);
    assert_eq!(pruned(0, compare(Comparison::NotEqual, Scalar::Int(2))), 0);
    let among = |values: &[i128]| values.iter().copied().map(Scalar::Int).collect();
    assert_eq!(pruned(0, Predicate::In { values: among(&[1, 7]), negated: true, order }), 5);
    assert_eq!(pruned(0, Predicate::In { values: among(&[0, 1]), negated: true, order }), 10);
    let outside = |low, high| {
        let (low, high) = (Scalar::Int(low), Scalar::Int(high));
        Predicate::Between { low, high, negated: true, order }
    };
    assert_eq!((pruned(0, outside(-1, 0)), pruned(0, outside(0, 1)), pruned(0, outside(2, 3))), (5, 10, 0));
    let like = |pattern: &str, negated| Predicate::Like(Like { pattern: pattern.into(), escape: None, negated });
    assert_eq!(
        (pruned(1, like("/3/31%", false)), pruned(1, like("%/1", false)), pruned(1, like("/3%", true))),
        (9, 0, 0)
    );
}

/// Rows fall with their pages, of 5,000 rows each, where Parquet has an index of them; as many vectors stay as have some of the others.
#[test]
fn pages_fall_by_statistics() {
    let bytes = parquet(&table(7, 100_000), 100_000);
    let whole = by_arrow(&bytes);
    let store = store("t.parquet", bytes);
    let cache = Cache::new(options(256 << 20)).unwrap();
    let ask = |condition| {
        let request = ParquetRequest { projection: Projection::of_columns([0, 3]), condition, ..Default::default() };
        let (found, metrics) = read(&cache, &store, "t.parquet", &request);
        assert_eq!(found, expected(&whole, &request));
        assert_eq!(metrics.rows + metrics.rows_pruned, 100_000);
        metrics
    };
    // Row r has the id 3 r.
    let id = |comparison, row: i128| Condition::column(0, compare(comparison, Scalar::Int(3 * row)));
    let cold = ask(id(Comparison::Less, 5_000));
    assert_eq!((cold.rows, cold.cells_decoded, cold.rows_passed), (5 * 1_024, 2, 5_000), "no second piece");
    let apart = Condition::Or(vec![id(Comparison::Less, 3), id(Comparison::Equal, 71_680)]);
    assert_eq!(ask(apart.clone()).rows, 5 * 1_024 + 6 * 1_024, "the first page, and 70,000 to 75,000, both rounded");
    let none = Condition::And(vec![apart.clone(), id(Comparison::Equal, 30_000)]);
    assert_eq!(ask(none).rows, 0, "row groups can't tell, pages can");
    assert_eq!(ask(Condition::Not(Box::new(apart.clone()))).rows, 100_000);
    let number = Condition::column(1, compare(Comparison::Less, Scalar::Int(500)));
    assert_eq!(ask(Condition::Or(vec![apart.clone(), number.clone()])).rows, 100_000, "one of them is everywhere");
    let both = Condition::And(vec![number, apart]);
    assert_eq!(ask(both.clone()).rows, 11 * 1_024);
    while cache.transcode_one() {}
    assert_eq!(ask(both).rows, 11 * 1_024, "of blocks as well");
}

/// Of a file of this machine the index of pages is decoded when rows are read, and kept; of another store's with the other metadata.
#[test]
fn the_index_of_pages_is_decoded_when_it_is_needed() {
    let bytes = parquet(&table(8, 200_000), 200_000);
    let folder = tempfile::tempdir().unwrap();
    for (store, is_near) in [(near(folder.path(), &bytes), true), (store("t.parquet", bytes.clone()), false)] {
        let cache = Cache::new(CacheOptions { ..options(256 << 20) }).unwrap();
        let has_index = || {
            let path = Path::from("t.parquet");
            let file = block_on(ParquetFile::open(&cache, store.clone(), "memory://a", &path)).unwrap();
            file.metadata().offset_index().is_some() && file.metadata().column_index().is_some()
        };
        assert_eq!(has_index(), !is_near);
        let condition = |row: i128| Condition::column(0, compare(Comparison::Equal, Scalar::Int(3 * row)));
        let ask = |condition| {
            let request = ParquetRequest { condition, ..ParquetRequest::default() };
            read(&cache, &store, "t.parquet", &request).1
        };
        assert_eq!(ask(condition(200_000)).row_groups_pruned, 1);
        assert_eq!(has_index(), !is_near, "statistics of row groups were enough");
        // Several begin at the same time; one decodes it.
        std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| ask(condition(100_000))));
            for metrics in threads.map(|thread| thread.join().unwrap()) {
                assert_eq!((metrics.rows_passed, metrics.rows), (1, 6 * 1_024));
            }
        });
        assert!(has_index());
        assert_eq!(ask(condition(10)).rows, 5 * 1_024);
    }
}

/// What is asked of random pages' statistics lets no row fall that passes.
#[test]
fn rows_that_pass_are_in_pages_that_may() {
    let mut random = Random(11);
    for round in 0..12 {
        let rows = 20_000 + random.below(60_000);
        let mut number = random.below(1_000) as i64;
        // Runs of numbers, nulls, and pages of nothing else.
        let numbers: Int64Array = (0..rows)
            .map(|row| {
                number += (random.below(4_000) == 0) as i64 * (random.below(9) as i64 - 3);
                (row / 5_000 % 3 != 1 && random.below(50) > 0).then_some(number)
            })
            .collect();
        let texts = StringArray::from_iter(numbers.iter().map(|number| number.map(|number| format!("{number:05}"))));
        let batch = RecordBatch::try_from_iter([("a", Arc::new(numbers) as ArrayRef), ("b", Arc::new(texts) as _)]);
        let bytes = parquet(&batch.unwrap(), rows);
        let whole = by_arrow(&bytes);
        let store = store("t.parquet", bytes);
        let cache = Cache::new(options(256 << 20)).unwrap();
        for _ in 0..12 {
            let mut leaf = || {
                let literal = number + random.below(40) as i64 - 20;
                let comparison = Comparison::ALL[random.below(6)];
                let scalar = match random.below(2) {
                    0 => (0, Scalar::Int(literal.into())),
                    _ => (1, Scalar::Bytes(format!("{literal:05}").into_bytes())),
                };
                match random.below(8) {
                    0 => Condition::column(scalar.0, Predicate::IsNull),
                    1 => Condition::Not(Box::new(Condition::column(scalar.0, compare(comparison, scalar.1)))),
                    _ => Condition::column(scalar.0, compare(comparison, scalar.1)),
                }
            };
            let condition = Condition::And(vec![leaf(), Condition::Or(vec![leaf(), leaf()])]);
            let request = ParquetRequest { condition, ..ParquetRequest::default() };
            let (found, _) = read(&cache, &store, "t.parquet", &request);
            assert_eq!(found, expected(&whole, &request), "round {round}: {:?}", request.condition);
        }
    }
}

/// Row groups that are yet to come fall by what a condition has become, none twice.
#[test]
fn row_groups_fall_when_a_condition_becomes_stricter() {
    let store = store("t.parquet", parquet(&table(6, 10_000), 1_000));
    let cache = Cache::new(options(256 << 20)).unwrap();
    let below = |most: i128| Condition::column(0, compare(Comparison::Less, Scalar::Int(most)));
    let request =
        ParquetRequest { projection: Projection::of_columns([0]), condition: below(27_000), ..Default::default() };
    let metrics = block_on(async {
        let path = Path::from("t.parquet");
        let file = ParquetFile::open(&cache, store, "memory://a", &path).await.unwrap();
        let mut rows = file.read(&request).unwrap();
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 1_000);
        rows.set_condition(&below(9_000)).unwrap();
        rows.set_condition(&below(6_000)).unwrap();
        assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 1_000);
        assert!(rows.next().await.unwrap().is_none());
        rows.metrics()
    });
    assert_eq!((metrics.row_groups_read, metrics.row_groups_pruned), (2, 8));
    assert_eq!((metrics.rows, metrics.rows_pruned, metrics.rows_passed), (2_000, 8_000, 2_000));
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
