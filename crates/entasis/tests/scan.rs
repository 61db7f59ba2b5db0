//! The scan against a naive oracle: random tables, random conditions, every kind of source.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod common;

use std::sync::Arc;

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
    generate::Generator,
    scan::{Expression, ScanMetrics, scalar_of},
    source::BytesSource,
};

/// What a condition is of one row; `None` is neither true nor false.
fn truth(condition: &Condition, batch: &RecordBatch, row: usize) -> Option<bool> {
    match condition {
        Condition::Always(holds) => Some(*holds),
        Condition::Not(inner) => truth(inner, batch, row).map(|holds| !holds),
        Condition::And(inner) => kleene(inner.iter().map(|one| truth(one, batch, row)), false),
        Condition::Or(inner) => kleene(inner.iter().map(|one| truth(one, batch, row)), true),
        Condition::Column { path, predicate } => {
            let array = value_of(batch, path, row);
            let is_null =
                array.as_ref().is_none_or(|array| array.logical_nulls().is_some_and(|nulls| nulls.is_null(0)));
            match (predicate, is_null) {
                (Predicate::IsNull, _) => Some(is_null),
                (Predicate::IsNotNull, _) => Some(!is_null),
                (_, true) => None,
                _ => Some(predicate.holds(Some(&scalar_of(&array.unwrap()).unwrap()))),
            }
        }
        Condition::Expression(expression) => {
            let columns: Vec<usize> =
                expression.projection().selected().unwrap().iter().map(|one| one.column).collect();
            let values = expression.evaluate(&batch.project(&columns).unwrap().slice(row, 1)).unwrap();
            values.is_valid(0).then(|| values.value(0))
        }
    }
}

/// Any of them where `decisive` is true, all of them where it is false, in three-valued logic.
fn kleene(truths: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut all = Some(!decisive);
    for one in truths {
        match one {
            Some(value) if value == decisive => return Some(decisive),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}

/// The value of a row as an array of one; `None` in a struct that is null.
fn value_of(batch: &RecordBatch, path: &[usize], row: usize) -> Option<ArrayRef> {
    let mut array = batch.column(path[0]).slice(row, 1);
    for &field in &path[1..] {
        if array.is_null(0) {
            return None;
        }
        array = array.as_struct().column(field).clone();
    }
    Some(array)
}

/// The rows that pass, one by one.
fn oracle(condition: &Condition, batch: &RecordBatch) -> RecordBatch {
    let passing: Vec<bool> = (0..batch.num_rows()).map(|row| truth(condition, batch, row) == Some(true)).collect();
    // Not by Arrow's kernel, which forgets how many empty binaries it was given.
    let (mut runs, mut row) = (Vec::new(), 0);
    for run in passing.chunk_by(|left, right| left == right) {
        if run[0] {
            runs.push(batch.slice(row, run.len()));
        }
        row += run.len();
    }
    concat(&batch.schema(), &runs)
}

/// True where the sum of what the values look like is odd, and neither where nothing is seen. Needs values that were decoded.
#[derive(Debug)]
struct Odd(Projection);

impl Expression for Odd {
    fn projection(&self) -> &Projection {
        &self.0
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let odd = |row: usize| {
            let shown = |column: &ArrayRef| array_value_to_string(column, row).unwrap_or_default();
            let shown: String = batch.columns().iter().map(shown).collect();
            let sum: usize = shown.bytes().map(usize::from).sum();
            (!shown.is_empty()).then_some(sum % 2 == 1)
        };
        Ok((0..batch.num_rows()).map(odd).collect())
    }
}

/// A random condition on a table; literals are its own values, mostly.
fn condition(generator: &mut Generator, batch: &RecordBatch, depth: usize) -> Condition {
    let some = |generator: &mut Generator| {
        (0..1 + generator.below(3)).map(|_| condition(generator, batch, depth - 1)).collect()
    };
    match generator.below(if depth == 0 { 6 } else { 12 }) {
        0 => Condition::Always(generator.chance(50)),
        1 => {
            let columns = [generator.below(batch.num_columns()), generator.below(batch.num_columns())];
            Condition::Expression(Arc::new(Odd(Projection::of_columns(columns))))
        }
        2..6 => leaf(generator, batch),
        6 | 7 => Condition::And(some(generator)),
        8 | 9 => Condition::Or(some(generator)),
        _ => Condition::Not(Box::new(condition(generator, batch, depth - 1))),
    }
}

/// True where nulls are those of a union, which no predicate asks for.
fn is_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::Dictionary(_, values) => is_union(values),
        DataType::RunEndEncoded(_, values) => is_union(values.data_type()),
        _ => false,
    }
}

fn leaf(generator: &mut Generator, batch: &RecordBatch) -> Condition {
    let mut path = vec![generator.below(batch.num_columns())];
    let mut data_type = batch.column(path[0]).data_type().clone();
    while let DataType::Struct(fields) = &data_type {
        if fields.is_empty() || generator.chance(20) {
            break;
        }
        let field = generator.below(fields.len());
        path.push(field);
        data_type = fields[field].data_type().clone();
    }
    if is_union(&data_type) {
        return Condition::Always(true);
    }
    let mut literal = || {
        let row = generator.below(batch.num_rows());
        value_of(batch, &path, row).and_then(|array| scalar_of(&array))
    };
    let literals: Vec<Scalar> = (0..4).filter_map(|_| literal()).collect();
    let order = [FloatOrder::Ieee, FloatOrder::NanGreatest, FloatOrder::Total][generator.below(3)];
    let negated = generator.chance(50);
    let predicate = match (generator.below(7), &literals[..]) {
        (0, _) | (_, []) => [Predicate::IsNull, Predicate::IsNotNull][generator.below(2)].clone(),
        (1, values) => Predicate::In { values: values.to_vec(), negated, order },
        (2, [low, .., high]) => Predicate::Between { low: low.clone(), high: high.clone(), negated, order },
        (3, [Scalar::Bytes(text), ..]) => {
            let cut = generator.below(text.len() + 1);
            let pattern = [b"%", &text[cut..], b"%"][generator.below(2)..].concat();
            Predicate::Like(Like { pattern, escape: None, negated })
        }
        (_, [literal, ..]) => {
            let comparisons = [
                Comparison::Equal,
                Comparison::NotEqual,
                Comparison::Less,
                Comparison::LessOrEqual,
                Comparison::Greater,
                Comparison::GreaterOrEqual,
            ];
            Predicate::Compare(comparisons[generator.below(6)], literal.clone(), order)
        }
    };
    Condition::Column { path, predicate }
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
        let options = WriteOptions { row_group_rows: 2_500, ..WriteOptions::default() };
        let bytes = write(&schema, std::slice::from_ref(&batch), options);
        let memory = Reader::from_bytes(bytes.clone()).unwrap();
        // A source that asks for little at a time, so that single rows are got by themselves.
        let counted = Counted::with_request_bytes(BytesSource::new(bytes, "a.ent"), 64);
        let distant = Reader::from_source(counted, Default::default()).unwrap();
        for _ in 0..12 {
            let condition = condition(&mut generator, &batch, 3);
            let expected = oracle(&condition, &batch);
            let context = format!("seed {seed}, {condition:?}").chars().take(600).collect::<String>();
            for reader in [&memory, &distant] {
                let batch_rows = 1 + generator.below(3_000);
                let request = ScanRequest { condition: condition.clone(), batch_rows, ..ScanRequest::default() };
                let (found, metrics) = scanned(reader, request.clone());
                assert_same(&found, &expected, &context);
                let fallen = metrics.rows_fallen_by_zones + metrics.rows_fallen_encoded + metrics.rows_fallen_decoded;
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
    assert_eq!(all.conditions.iter().map(|one| one.rows_passed).min(), Some(all.rows_passed));
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
    let expression = Condition::Expression(Arc::new(Odd(Projection::of_columns([1]))));
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
