//! The scan against a naive oracle: random tables, random conditions, every kind of source.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod common;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray, cast::AsArray,
};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use common::{Counted, assert_same, concat, write};
use entasis::{
    Condition, Error, Projection, Reader, Result, ScanRequest, Strings, WriteOptions,
    encoding::{Comparison, FloatOrder, Like, Predicate, Scalar},
    fuzzing::{Hashed, blooms_of, passing_rows, random_condition},
    generate::Generator,
    scan::{Expression, ScanMetrics},
    source::BytesSource,
};

/// The rows that pass, one by one.
fn oracle(condition: &Condition, batch: &RecordBatch) -> RecordBatch {
    // Not by Arrow's kernel, which forgets how many empty binaries it was given.
    let rows = passing_rows(condition, batch);
    let runs: Vec<_> = rows.chunk_by(|row, next| row + 1 == *next).map(|run| batch.slice(run[0], run.len())).collect();
    concat(&batch.schema(), &runs)
}

/// True where what a value looks like adds up to something odd, and of nulls; fails where it is asked about one that looks like
/// `forbidden`. Counts what it is asked.
#[derive(Debug)]
struct OddOrNull {
    projection: Projection,
    forbidden: &'static str,
    asked: AtomicUsize,
}

impl OddOrNull {
    fn of(column: usize, forbidden: &'static str) -> Arc<Self> {
        Arc::new(Self { projection: Projection::of_columns([column]), forbidden, asked: AtomicUsize::new(0) })
    }
}

impl Expression for OddOrNull {
    fn projection(&self) -> &Projection {
        &self.projection
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        self.asked.fetch_add(batch.num_rows(), Relaxed);
        let mut found = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let shown = array_value_to_string(batch.column(0), row).unwrap_or_default();
            if shown == self.forbidden {
                return Err(Error::InvalidArgument(format!("asked about {shown:?}")));
            }
            found.push(shown.is_empty() || shown.bytes().map(usize::from).sum::<usize>() % 2 == 1);
        }
        Ok(found.into())
    }
}

/// All rows of a scan, and what it did.
fn scanned(reader: &Reader, request: ScanRequest) -> (RecordBatch, ScanMetrics) {
    let batch_rows = request.batch_rows;
    let mut scan = reader.scan(request).unwrap();
    let batches: Vec<RecordBatch> = scan.by_ref().map(Result::unwrap).collect();
    assert!(batches.iter().all(|batch| (1..=batch_rows).contains(&batch.num_rows())));
    (concat(scan.schema(), &batches), scan.metrics())
}

#[test]
fn random_conditions_on_random_tables() {
    for seed in 0..30 {
        let mut generator = Generator::new(seed);
        let schema = generator.schema(8);
        let rows = 1 + generator.below(5_000);
        let batch = generator.batch(&schema, rows);
        let bloom = if seed % 3 > 0 { blooms_of(&schema) } else { Vec::new() };
        let options = WriteOptions { row_group_rows: 2_500, bloom, ..WriteOptions::default() };
        let bytes = write(&schema, std::slice::from_ref(&batch), options);
        let memory = Reader::from_bytes(bytes.clone()).unwrap();
        // A source that asks for little at a time, so that single rows are got by themselves.
        let counted = Counted::with_request_bytes(BytesSource::new(bytes, "a.ent"), 64);
        let distant = Reader::from_source(counted, Default::default()).unwrap();
        for _ in 0..12 {
            let condition = random_condition(&mut generator, &batch, 3);
            let expected = oracle(&condition, &batch);
            let context = format!("seed {seed}, {condition:?}").chars().take(600).collect::<String>();
            for reader in [&memory, &distant] {
                let batch_rows = 1 + generator.below(3_000);
                let request = ScanRequest { condition: condition.clone(), batch_rows, ..ScanRequest::default() };
                let (found, metrics) = scanned(reader, request.clone());
                assert_same(&found, &expected, &context);
                let fallen = metrics.rows_fallen_by_zones
                    + metrics.rows_fallen_by_blooms
                    + metrics.rows_fallen_encoded
                    + metrics.rows_fallen_decoded;
                assert_eq!(metrics.rows, rows as u64, "{context}");
                assert_eq!(metrics.rows_passed + fallen, rows as u64, "{context}");
                // A part of the rows, a limit, no columns.
                let (start, end) = (generator.below(rows), generator.below(rows + 1));
                let range = start.min(end)..start.max(end);
                let part = oracle(&condition, &batch.slice(range.start, range.len()));
                let limit = generator.below(40);
                let rows = Some(range.start as u64..range.end as u64);
                let request = ScanRequest { rows, limit: Some(limit as u64), ..request };
                let (found, _) = scanned(reader, request.clone());
                assert_same(&found, &part.slice(0, limit.min(part.num_rows())), &context);
                let counted = ScanRequest { limit: None, projection: Projection::of_columns([]), ..request };
                let batches = reader.scan(counted).unwrap();
                assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), part.num_rows());
            }
        }
    }
}

/// A table of several blocks: an ascending number, one that repeats, a text, and a struct.
fn table(rows: usize) -> RecordBatch {
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let float: ArrayRef =
        Arc::new((0..rows).map(|row| (row % 11 != 3).then_some((row % 1_000) as f64 / 4.0)).collect::<Float64Array>());
    let text: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("text {}", row * 37 % 5_003))));
    let inner = Field::new("inner", DataType::Int64, true);
    let shape = StructArray::new(
        vec![inner.clone()].into(),
        vec![Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row % 7)))],
        Some((0..rows).map(|row| row % 5 != 0).collect::<Vec<_>>().into()),
    );
    let fields = [
        Field::new("number", DataType::Int64, false),
        Field::new("float", DataType::Float64, true),
        Field::new("text", DataType::Utf8, false),
        Field::new("shape", DataType::Struct(vec![inner].into()), true),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), vec![number, float, text, Arc::new(shape)]).unwrap()
}

fn compare(comparison: Comparison, literal: Scalar) -> Predicate {
    Predicate::Compare(comparison, literal, FloatOrder::Total)
}

fn file(rows: usize) -> (RecordBatch, Bytes) {
    let batch = table(rows);
    let options = WriteOptions { row_group_rows: 150_000, ..WriteOptions::default() };
    let bytes = write(&batch.schema(), std::slice::from_ref(&batch), options);
    (batch, bytes)
}

#[test]
fn rows_fall_on_the_rung_that_can_tell() {
    let (batch, bytes) = file(400_000);
    let counted = Counted::new(BytesSource::new(bytes, "a.ent"));
    let reader = Reader::from_source(counted.clone(), Default::default()).unwrap();
    reader.schema().unwrap();
    let scan = |condition: &Condition| {
        counted.take_counts();
        let request = ScanRequest { condition: condition.clone(), ..ScanRequest::default() };
        let (found, metrics) = scanned(&reader, request);
        assert_same(&found, &oracle(condition, &batch), &format!("{condition:?}"));
        let (reads, bytes) = counted.take_counts();
        assert_eq!((metrics.requests, metrics.bytes_read), (reads, bytes), "{condition:?}");
        metrics
    };
    // Nothing is read where zones know the answer.
    let nothing = scan(&Condition::column(0, compare(Comparison::Less, Scalar::Int(0))));
    assert_eq!((nothing.rows_fallen_by_zones, nothing.bytes_read, nothing.row_groups_fallen), (400_000, 0, 3));
    // One block of the numbers, and single rows of everything.
    let one = scan(&Condition::column(0, compare(Comparison::Equal, Scalar::Int(200_000))));
    assert_eq!((one.rows_passed, one.row_groups_fallen), (1, 2));
    assert_eq!(one.rows_fallen_by_zones, 400_000 - 65_536);
    assert!(one.decoded_values <= 65_536 && one.bytes_read < 400_000, "{one:?}");
    // What a predicate passes wholly needs no block of its column.
    let all = scan(&Condition::And(vec![
        Condition::column(0, compare(Comparison::GreaterOrEqual, Scalar::Int(0))),
        Condition::column(1, Predicate::IsNull),
        Condition::Column { path: vec![3, 0], predicate: compare(Comparison::Equal, Scalar::Int(3)) },
    ]));
    assert_eq!(all.rows_fallen_by_zones, 0);
    let kept = |metrics: &ScanMetrics, start: &str| {
        let found = metrics.conditions.iter().find(|one| one.condition.starts_with(start)).unwrap();
        (found.rows, found.rows_passed)
    };
    // Whatever the order, and it may change on the way: each row falls once or passes.
    let fallen: u64 = all.conditions.iter().map(|one| one.rows - one.rows_passed).sum();
    assert_eq!(fallen + all.rows_passed, 400_000, "{all:?}");
    // The dear one is asked last, and of survivors only.
    let ordered = scan(&Condition::And(vec![
        Condition::column(2, Predicate::Like(Like { pattern: b"%9%".to_vec(), escape: None, negated: false })),
        Condition::column(
            0,
            Predicate::Between {
                low: Scalar::Int(1_000),
                high: Scalar::Int(1_999),
                negated: false,
                order: FloatOrder::Total,
            },
        ),
    ]));
    assert_eq!(kept(&ordered, "number BETWEEN"), (65_536, 1_000));
    assert_eq!(kept(&ordered, "text LIKE").0, 1_000);
    assert_eq!(ordered.conditions[0].condition, "number BETWEEN 1000 AND 1999");
    let expression = Condition::Expression(Arc::new(Hashed::new(vec![1], None)));
    let last =
        scan(&Condition::And(vec![expression, Condition::column(0, compare(Comparison::Less, Scalar::Int(10)))]));
    assert_eq!(last.conditions[1].rows, 10);
    assert_eq!(last.rows_passed + last.rows_fallen_decoded, 10);
}

#[test]
fn conditions_may_become_stricter_on_the_way() {
    let (batch, bytes) = file(400_000);
    let reader = Reader::from_bytes(bytes).unwrap();
    let request = ScanRequest { batch_rows: 65_536, ..ScanRequest::default() };
    let mut scan = reader.scan(request).unwrap();
    let first = scan.next().unwrap().unwrap();
    assert_same(&first, &batch.slice(0, 65_536), "first");
    scan.set_condition(&Condition::column(0, compare(Comparison::GreaterOrEqual, Scalar::Int(390_000)))).unwrap();
    let rest: Vec<RecordBatch> = scan.by_ref().map(Result::unwrap).collect();
    assert_same(&concat(&batch.schema(), &rest), &batch.slice(390_000, 10_000), "rest");
    assert!(scan.metrics().rows_fallen_by_zones > 250_000);
}

#[test]
fn errors_say_what_is_wrong() {
    let (_, bytes) = file(1_000);
    let reader = Reader::from_bytes(bytes).unwrap();
    let scan = |condition| {
        reader.scan(ScanRequest { condition, ..ScanRequest::default() }).err().map(|error| error.to_string())
    };
    let missing = scan(Condition::column(9, Predicate::IsNull));
    assert_eq!(missing.as_deref(), Some("invalid argument: column 9 of 4"));
    let of_struct = scan(Condition::column(3, compare(Comparison::Equal, Scalar::Int(1))));
    assert_eq!(of_struct.as_deref(), Some("invalid argument: column \"shape\" is a struct: = 1"));
    let no_fields = scan(Condition::Column { path: vec![0, 1], predicate: Predicate::IsNull });
    assert_eq!(no_fields.as_deref(), Some("invalid argument: column \"number\" has no fields"));
    assert!(scan(Condition::Column { path: vec![], predicate: Predicate::IsNull }).is_some());
    // An expression that doesn't keep its promise.
    #[derive(Debug)]
    struct Short(Projection);
    impl Expression for Short {
        fn projection(&self) -> &Projection {
            &self.0
        }
        fn evaluate(&self, _: &RecordBatch) -> Result<BooleanArray> {
            Ok(BooleanArray::from(vec![true]))
        }
    }
    let condition = Condition::Expression(Arc::new(Short(Projection::of_columns([0]))));
    let mut scan = reader.scan(ScanRequest { condition, ..ScanRequest::default() }).unwrap();
    let error = scan.next().unwrap().unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    assert!(scan.next().is_none());
}

#[test]
fn a_damaged_block_fails_the_scan_that_needs_it() {
    let (batch, bytes) = file(100_000);
    let clean = Reader::from_bytes(bytes.clone()).unwrap();
    let block = clean.column(2).unwrap().chunks[0].blocks[1].clone();
    let mut damaged = bytes.to_vec();
    damaged[block.offset as usize + 3] ^= 1;
    let reader = Reader::from_bytes(damaged.into()).unwrap();
    let text = |low: i64, high: i64| {
        let number = Predicate::Between {
            low: Scalar::Int(low.into()),
            high: Scalar::Int(high.into()),
            negated: false,
            order: FloatOrder::Total,
        };
        let wanted = compare(Comparison::GreaterOrEqual, Scalar::Bytes(b"text".to_vec()));
        let condition = Condition::And(vec![Condition::column(0, number), Condition::column(2, wanted)]);
        ScanRequest { condition, ..ScanRequest::default() }
    };
    let (found, _) = scanned(&reader, text(5, 60_000));
    assert_same(&found, &batch.slice(5, 59_996), "the block isn't needed");
    let error = reader.scan(text(5, 70_000)).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("column \"text\", row group 0, block 1") && error.contains("at byte"), "{error}");
    let strings = ScanRequest { strings: Strings::Views, ..text(0, 9) };
    assert_eq!(scanned(&reader, strings).0.column(2).data_type(), &DataType::Utf8View);
}

/// Texts of 1,000 values that blocks share, the same with nulls, texts of their own, numbers in runs, and fields of structs.
fn repeating(rows: usize) -> (RecordBatch, Reader) {
    let text = |row: usize| format!("the value {}", row * 37 % 1_000);
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(text)));
    let holey: ArrayRef = Arc::new((0..rows).map(|row| (row % 9 != 0).then(|| text(row / 3))).collect::<StringArray>());
    let single: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("single {}", row * 7))));
    let runs: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row / 5_000 * 31)));
    let inner = Field::new("inner", DataType::Utf8, true);
    let shape = |nulls: Option<Vec<bool>>| -> ArrayRef {
        Arc::new(StructArray::new(vec![inner.clone()].into(), vec![holey.clone()], nulls.map(Into::into)))
    };
    let (whole, broken) = (shape(None), shape(Some((0..rows).map(|row| row % 4 != 1).collect())));
    let names = ["texts", "holey", "single", "runs", "whole", "broken"];
    let columns = names.into_iter().zip([texts, holey.clone(), single, runs, whole, broken]);
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap();
    let options = WriteOptions { row_group_rows: 150_000, ..WriteOptions::default() };
    let bytes = write(&batch.schema(), std::slice::from_ref(&batch), options);
    (batch, Reader::from_bytes(bytes).unwrap())
}

#[test]
fn expressions_on_one_column_are_evaluated_once_per_distinct_value() {
    let (batch, reader) = repeating(200_000);
    let scan = |condition: &Condition| {
        let (found, metrics) = scanned(&reader, ScanRequest { condition: condition.clone(), ..ScanRequest::default() });
        assert_same(&found, &oracle(condition, &batch), &format!("{condition:?}"));
        metrics
    };
    let odd = |column: usize| Condition::Expression(OddOrNull::of(column, "forbidden"));
    // Once for each row group, and not for rows.
    for column in [0, 1] {
        for condition in [odd(column), Condition::Not(Box::new(odd(column)))] {
            let metrics = scan(&condition);
            assert!((2_000..=2_100).contains(&metrics.asked_values), "{metrics:?}");
            assert_eq!((metrics.evaluated_rows, metrics.rows_fallen_decoded), (0, 0), "{metrics:?}");
            assert_eq!(metrics.rows_fallen_encoded + metrics.rows_passed, 200_000);
        }
    }
    let runs = scan(&odd(3));
    // The row group's last block is too short for runs.
    assert!(runs.asked_values <= 60 && runs.evaluated_rows < 20_000, "{runs:?}");
    // Values that stand for no other row are asked about as rows.
    let single = scan(&odd(2));
    assert_eq!((single.asked_values, single.evaluated_rows), (0, 200_000));
    assert_eq!(single.rows_fallen_decoded + single.rows_passed, 200_000);
    // A few rows are fewer than the values of a dictionary.
    let few = Condition::column(3, compare(Comparison::Equal, Scalar::Int(31)));
    let some = Condition::column(2, Predicate::Like(Like { pattern: b"%33%".to_vec(), escape: None, negated: false }));
    let metrics = scan(&Condition::And(vec![few, some, odd(0)]));
    assert!(metrics.asked_values == 0 && metrics.evaluated_rows < 700, "{metrics:?}");
    // What distinct values answer is asked before what has rows decoded, once that is known.
    let metrics = scan(&Condition::And(vec![odd(2), odd(0)]));
    assert!(metrics.asked_values >= 2_000 && metrics.evaluated_rows < 150_000, "{metrics:?}");
}

#[test]
fn expressions_on_fields_of_structs_ask_distinct_values_where_no_struct_is_null() {
    #[derive(Debug)]
    struct Field(Projection);
    impl Expression for Field {
        fn projection(&self) -> &Projection {
            &self.0
        }
        fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
            let of = batch.column(0).as_struct();
            let texts = of.column(0).as_string::<i32>();
            let holds = |row| match of.is_null(row) || texts.is_null(row) {
                true => Some(true),
                false => Some(texts.value(row).ends_with('7')),
            };
            Ok((0..batch.num_rows()).map(holds).collect())
        }
    }
    let (batch, reader) = repeating(200_000);
    for (column, is_asked) in [(4, true), (5, false)] {
        let condition = Condition::Expression(Arc::new(Field(Projection::of_columns([column]))));
        let request = ScanRequest { condition: condition.clone(), ..ScanRequest::default() };
        let (found, metrics) = scanned(&reader, request);
        assert_same(&found, &oracle(&condition, &batch), "fields");
        assert_eq!((metrics.asked_values > 0, metrics.evaluated_rows == 0), (is_asked, is_asked), "{metrics:?}");
    }
}

#[test]
fn what_an_expression_fails_for_fails_the_scan_only_if_a_row_has_it() {
    let (batch, reader) = repeating(200_000);
    let without = Condition::column(0, compare(Comparison::NotEqual, Scalar::Bytes(b"the value 7".to_vec())));
    let expression = OddOrNull::of(0, "the value 7");
    let condition = Condition::And(vec![without, Condition::Expression(expression.clone())]);
    let request = ScanRequest { condition: condition.clone(), ..ScanRequest::default() };
    let (found, metrics) = scanned(&reader, request);
    // It was tried once, for one dictionary.
    assert_eq!(metrics.asked_values, 1_000);
    assert!(metrics.evaluated_rows > 190_000 && expression.asked.load(Relaxed) < 202_000, "{metrics:?}");
    let expected = Condition::And(vec![
        Condition::column(0, compare(Comparison::NotEqual, Scalar::Bytes(b"the value 7".to_vec()))),
        Condition::Expression(OddOrNull::of(0, "forbidden")),
    ]);
    assert_same(&found, &oracle(&expected, &batch), "all but one value");
    let failing = Condition::Expression(OddOrNull::of(0, "the value 7"));
    let mut scan = reader.scan(ScanRequest { condition: failing, ..ScanRequest::default() }).unwrap();
    let error = scan.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("asked about \"the value 7\""), "{error}");
    // One that can't be told of a null is asked of rows.
    let of_null = Condition::Expression(OddOrNull::of(0, ""));
    let (_, metrics) = scanned(&reader, ScanRequest { condition: of_null, ..ScanRequest::default() });
    assert_eq!((metrics.asked_values, metrics.evaluated_rows), (0, 200_000));
}
