//! Aggregates of scans against a naive oracle: random tables, random conditions, every kind of source; and what zones answer alone.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod common;

use std::{cmp::Ordering, sync::Arc};

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use common::{Counted, write};
use entasis::{
    Condition, Error, Projection, Reader, ScanRequest, WriteOptions,
    encoding::{Aggregates, Comparison, FloatOrder, Predicate, Scalar, Wanted},
    fuzzing::{passing_rows, random_condition},
    generate::Generator,
    scan::{ScanMetrics, scalar_of},
    source::BytesSource,
};

/// Aggregates of some rows of an array, one by one.
fn oracle(array: &ArrayRef, rows: &[usize], wanted: Wanted) -> Aggregates {
    let mut found =
        Aggregates { sum: (wanted.sum && array.data_type().is_integer()).then_some(0), ..Default::default() };
    let nulls = array.logical_nulls();
    for &row in rows {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            found.null_count += 1;
            continue;
        }
        found.count += 1;
        let Some(value) = scalar_of(&array.slice(row, 1)) else { continue };
        match (&value, &mut found.sum) {
            (Scalar::Float(float), _) if float.is_nan() => {
                found.nan_count += u64::from(wanted.min || wanted.max);
                continue;
            }
            (Scalar::Int(value), Some(sum)) => *sum += value,
            _ => {}
        }
        let is = |known: &Option<Scalar>, ordering| {
            known.as_ref().is_none_or(|known| value.compare(known, FloatOrder::Total) == Some(ordering))
        };
        if wanted.min && is(&found.min, Ordering::Less) {
            found.min = Some(value.clone());
        }
        if wanted.max && is(&found.max, Ordering::Greater) {
            found.max = Some(value);
        }
    }
    found
}

/// What a scan counts together, and what it did.
fn aggregated(reader: &Reader, request: ScanRequest, wanted: &[Wanted]) -> (Vec<Aggregates>, ScanMetrics) {
    let mut scan = reader.scan(request).unwrap();
    let mut found = vec![Aggregates::default(); wanted.len()];
    while scan.aggregate(wanted, &mut found).unwrap() {}
    (found, scan.metrics())
}

/// Columns whose values have an order here.
fn ordered(batch: &RecordBatch) -> Vec<usize> {
    let is_ordered = |array: &ArrayRef| match array.data_type() {
        DataType::Dictionary(_, values) => values.is_string(),
        other => {
            other.is_primitive() && !matches!(other, DataType::Interval(_))
                || other.is_string()
                || *other == DataType::Boolean
        }
    };
    (0..batch.num_columns()).filter(|&column| is_ordered(batch.column(column))).collect()
}

#[test]
fn random_aggregates_of_random_tables() {
    let mut asked = 0;
    for seed in 0..30 {
        let mut generator = Generator::new(seed);
        let schema = generator.schema(10);
        let rows = 1 + generator.below(5_000);
        let batch = generator.batch(&schema, rows);
        let options = WriteOptions { row_group_rows: 2_500, ..WriteOptions::default() };
        let bytes = write(&schema, std::slice::from_ref(&batch), options);
        let memory = Reader::from_bytes(bytes.clone()).unwrap();
        let counted = Counted::with_request_bytes(BytesSource::new(bytes, "a.ent"), 64);
        let distant = Reader::from_source(counted, Default::default()).unwrap();
        let columns = ordered(&batch);
        asked += columns.len();
        for _ in 0..12 {
            let condition = match generator.below(4) {
                0 => Condition::Always(true),
                _ => random_condition(&mut generator, &batch, 3),
            };
            let mut flip = || generator.below(2) == 0;
            let wanted: Vec<Wanted> =
                columns.iter().map(|_| Wanted { min: flip(), max: flip(), sum: flip() }).collect();
            let (start, end) = (generator.below(rows), generator.below(rows + 1));
            let range = if generator.below(2) == 0 { 0..rows } else { start.min(end)..start.max(end) };
            let passing: Vec<usize> =
                passing_rows(&condition, &batch).into_iter().filter(|row| range.contains(row)).collect();
            let request = ScanRequest {
                condition: condition.clone(),
                rows: Some(range.start as u64..range.end as u64),
                projection: Projection::of_columns(columns.iter().copied()),
                ..ScanRequest::default()
            };
            for reader in [&memory, &distant] {
                let (found, metrics) = aggregated(reader, request.clone(), &wanted);
                assert_eq!(metrics.rows_passed, passing.len() as u64);
                for ((found, wanted), &column) in found.iter().zip(&wanted).zip(&columns) {
                    let array = batch.column(column);
                    let mut expected = oracle(array, &passing, *wanted);
                    // Dates, times and narrow decimals are integers that may be added, too; what isn't looked at has no sum.
                    if !array.data_type().is_integer() || passing.is_empty() {
                        expected.sum = found.sum;
                    }
                    let context = format!("seed {seed}, {}, {wanted:?}, {condition:?}", array.data_type());
                    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{context}");
                }
            }
        }
    }
    assert!(asked > 80, "{asked} columns");
}

/// Three blocks: an ascending number, a float, a text, and numbers of which some are null.
fn table(rows: usize) -> RecordBatch {
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let float: ArrayRef =
        Arc::new(Float64Array::from_iter_values((0..rows).map(|row| (row * 37 % 1_000 + 1) as f64 / 4.0)));
    let text: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("text {}", row * 37 % 5_003))));
    let some: ArrayRef =
        Arc::new((0..rows as i64).map(|row| (row % 3 != 1).then_some(row * row % 100_003)).collect::<Int64Array>());
    let fields = [
        ("number", DataType::Int64),
        ("float", DataType::Float64),
        ("text", DataType::Utf8),
        ("some", DataType::Int64),
    ];
    let fields: Vec<_> = fields.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![number, float, text, some]).unwrap()
}

const ROWS: usize = 3 * 65_536;

fn at_least(row: i64) -> Condition {
    let order = FloatOrder::default();
    Condition::column(0, Predicate::Compare(Comparison::GreaterOrEqual, Scalar::Int(row.into()), order))
}

#[test]
fn exact_zones_answer_without_a_read() {
    let batch = table(ROWS);
    let source = Counted::new(BytesSource::new(
        write(&batch.schema(), std::slice::from_ref(&batch), WriteOptions::default()),
        "a.ent",
    ));
    let reader = Reader::from_source(source.clone(), Default::default()).unwrap();
    let wanted = [Wanted::ALL; 4];
    // The first time metadata are read.
    for condition in [Condition::Always(true), Condition::Always(true), at_least(65_536)] {
        let kept = if matches!(condition, Condition::Always(_)) { 0 } else { 65_536 };
        source.take_counts();
        let (found, metrics) = aggregated(&reader, ScanRequest { condition, ..ScanRequest::default() }, &wanted);
        let rows: Vec<usize> = (kept..ROWS).collect();
        for (found, array) in found.iter().zip(batch.columns()) {
            assert_eq!(format!("{found:?}"), format!("{:?}", oracle(array, &rows, Wanted::ALL)));
        }
        assert_eq!(metrics.aggregated_by_zones, 4 * rows.len() as u64);
        assert_eq!((metrics.bytes_read, metrics.aggregated_encoded, metrics.aggregated_decoded), (0, 0, 0));
    }
    assert_eq!(source.take_counts(), (0, 0));
}

#[test]
fn blocks_of_which_some_rows_pass_answer_as_they_are_encoded() {
    let batch = table(ROWS);
    let reader =
        Reader::from_bytes(write(&batch.schema(), std::slice::from_ref(&batch), WriteOptions::default())).unwrap();
    let request = ScanRequest { condition: at_least(100_000), ..ScanRequest::default() };
    let (found, metrics) = aggregated(&reader, request.clone(), &[Wanted::ALL; 4]);
    let rows: Vec<usize> = (100_000..ROWS).collect();
    for (found, array) in found.iter().zip(batch.columns()) {
        assert_eq!(format!("{found:?}"), format!("{:?}", oracle(array, &rows, Wanted::ALL)));
    }
    assert_eq!(metrics.aggregated_by_zones, 4 * 65_536);
    assert!(metrics.aggregated_encoded > 0, "{metrics:?}");
    // Packed integers and the texts' dictionary aren't decoded.
    assert!(metrics.aggregated_decoded < 4 * (2 * 65_536 - 100_000), "{metrics:?}");
    let counted = [Wanted::COUNT; 4];
    let (found, metrics) = aggregated(&reader, request, &counted);
    assert!(found.iter().all(|found| found.min.is_none() && found.sum.is_none()));
    assert_eq!(found.iter().map(|found| found.count).max(), Some(rows.len() as u64));
    assert_eq!(metrics.aggregated_decoded, 0);
}

#[test]
fn a_range_that_is_known_spares_blocks() {
    let batch = table(ROWS);
    let reader =
        Reader::from_bytes(write(&batch.schema(), std::slice::from_ref(&batch), WriteOptions::default())).unwrap();
    // One row fewer than all: of the first block the zone says nothing any more, but no later block can go below it.
    let request =
        ScanRequest { condition: at_least(1), projection: Projection::of_columns([0]), ..ScanRequest::default() };
    let least = [Wanted { min: true, ..Wanted::COUNT }];
    let (found, metrics) = aggregated(&reader, request, &least);
    assert_eq!((found[0].min.clone(), found[0].count), (Some(Scalar::Int(1)), ROWS as u64 - 1));
    assert_eq!(metrics.aggregated_by_zones, 2 * 65_536);
}

/// Long strings make blocks of fewer rows, which don't end where the scan's steps do.
#[test]
fn blocks_that_lie_in_several_steps_are_counted_once() {
    let rows = 150_000;
    let thirds: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row % 3)));
    let text = |row: i64| format!("{:06} {}", row * 7_919 % 150_001, "a long text ".repeat(25));
    let texts: ArrayRef = Arc::new((0..rows).map(|row| (row % 10 != 0).then(|| text(row))).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter([("thirds", thirds), ("text", texts)]).unwrap();
    let bytes = write(&batch.schema(), std::slice::from_ref(&batch), WriteOptions::default());
    let reader = Reader::from_bytes(bytes).unwrap();
    assert!(reader.column(1).unwrap().chunks[0].blocks.len() > 4);
    let order = FloatOrder::default();
    for (comparison, wanted) in [
        (Comparison::Equal, Wanted { min: true, ..Wanted::COUNT }),
        (Comparison::NotEqual, Wanted::ALL),
        (Comparison::GreaterOrEqual, Wanted::COUNT),
    ] {
        let condition = Condition::column(0, Predicate::Compare(comparison, Scalar::Int(0), order));
        let passing: Vec<usize> =
            (0..rows).filter(|row| comparison.holds(Some((row % 3).cmp(&0)))).map(|row| row as usize).collect();
        let request = ScanRequest { condition, projection: Projection::of_columns([1]), ..ScanRequest::default() };
        let (found, _) = aggregated(&reader, request, &[wanted]);
        assert_eq!(format!("{:?}", found[0]), format!("{:?}", oracle(batch.column(1), &passing, wanted)));
    }
}

#[test]
fn columns_that_have_no_aggregates_are_refused() {
    let inner = Field::new("inner", DataType::Int64, true);
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let shape: ArrayRef = Arc::new(arrow_array::StructArray::from(vec![(Arc::new(inner), values)]));
    let batch = RecordBatch::try_from_iter([("shape", shape)]).unwrap();
    let reader =
        Reader::from_bytes(write(&batch.schema(), std::slice::from_ref(&batch), WriteOptions::default())).unwrap();
    let refused = reader.scan(ScanRequest::default()).unwrap().aggregate(&[Wanted::ALL], &mut [Aggregates::default()]);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    let none = ScanRequest { projection: Projection::of_columns([]), ..ScanRequest::default() };
    let refused = reader.scan(none).unwrap().aggregate(&[Wanted::ALL], &mut [Aggregates::default()]);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
}
