//! What falls by Parquet's own statistics, of row groups and of pages, beside the definition of predicates.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use common::tables::{by_arrow, compare, expected, near, parquet, read, store, table};
use common::{Random, options};
use entasis::Projection;
use entasis::scan::Condition;
use entasis_cache::read::{ParquetFile, ParquetRequest};
use entasis_cache::{Cache, CacheOptions};
use entasis_encoding::{Comparison, FloatOrder, Like, Predicate, Scalar};
use futures::executor::block_on;
use object_store::path::Path;

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
