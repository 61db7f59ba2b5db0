//! Bloom filters: no value that a block holds is ever denied, what isn't there is seldom read, and damage is named.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use common::{Counted, assert_same, concat, write};
use entasis::{
    BloomColumn, Condition, Error, ErrorKind, Projection, Reader, Result, ScanRequest, WriteOptions, Writer,
    arrow::physical_of,
    encoding::{Comparison, FloatOrder, Physical, Predicate, Scalar},
    fuzzing::{blooms_of, passing_rows},
    generate::{Generator, flat_types},
    scan::{ScanMetrics, scalar_of},
    source::BytesSource,
};

const ROWS: usize = 200_000;
const GROUP_ROWS: u64 = 140_000;

fn random(seed: u64) -> impl Iterator<Item = u64> {
    let mut generator = Generator::new(seed);
    std::iter::repeat_with(move || generator.next_u64())
}

/// Five blocks in two row groups: identifiers in no order, as numbers and as text, a third of which are null; floats, few names.
fn table() -> RecordBatch {
    let ids: Vec<u64> = random(1).take(ROWS).collect();
    let texts = ids.iter().map(|id| (id % 3 > 0).then(|| format!("{:032x}", u128::from(*id) << 60)));
    let floats = ids.iter().map(|id| match id % 100 {
        0 => f64::NAN,
        1 => -0.0,
        _ => (id >> 20) as f64 / 7.0,
    });
    let inner = Field::new("key", DataType::Int64, true);
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.iter().map(|id| (id >> 1) as i64 - (1 << 62))));
    let validity: NullBuffer = ids.iter().map(|id| id % 5 != 0).collect::<Vec<_>>().into();
    let nested = StructArray::new(vec![inner.clone()].into(), vec![keys], Some(validity));
    let names = (0..ROWS).map(|row| ["Paestum", "Segesta", "Agrigento"][row % 3]);
    let columns: Vec<(Field, ArrayRef)> = vec![
        (Field::new("id", DataType::UInt64, false), Arc::new(UInt64Array::from(ids.clone()))),
        (Field::new("text", DataType::Utf8, true), Arc::new(texts.collect::<StringArray>())),
        (Field::new("float", DataType::Float64, false), Arc::new(Float64Array::from_iter_values(floats))),
        (Field::new("nested", DataType::Struct(vec![inner].into()), true), Arc::new(nested)),
        (Field::new("name", DataType::Utf8, false), Arc::new(StringArray::from_iter_values(names))),
        (Field::new("row", DataType::Int64, false), Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
    ];
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn options(bloom: Vec<BloomColumn>) -> WriteOptions {
    WriteOptions { row_group_rows: GROUP_ROWS, bloom, ..WriteOptions::default() }
}

fn file(batch: &RecordBatch) -> Bytes {
    let bloom = blooms_of(&batch.schema());
    assert_eq!(bloom.len(), 6);
    write(&batch.schema(), std::slice::from_ref(batch), options(bloom))
}

fn equal(scalar: Scalar) -> Predicate {
    Predicate::Compare(Comparison::Equal, scalar, FloatOrder::Total)
}

fn one_of(values: Vec<Scalar>, negated: bool) -> Predicate {
    Predicate::In { values, negated, order: FloatOrder::Total }
}

/// What a scan finds, and what it did.
fn scanned(reader: &Reader, condition: &Condition) -> Result<(RecordBatch, ScanMetrics)> {
    let mut scan = reader.scan(ScanRequest { condition: condition.clone(), ..ScanRequest::default() })?;
    let batches = scan.by_ref().collect::<Result<Vec<_>>>()?;
    Ok((concat(scan.schema(), &batches), scan.metrics()))
}

/// Whether the chunks of a column have filters.
fn have_filters(reader: &Reader, column: usize) -> Vec<bool> {
    reader.column(column).unwrap().chunks.iter().map(|chunk| chunk.bloom.is_some()).collect()
}

#[test]
fn what_is_there_is_found_and_what_is_not_there_is_not_read() {
    let batch = table();
    let counted = Counted::new(BytesSource::new(file(&batch), "a.ent"));
    let reader = Reader::from_source(counted.clone(), Default::default()).unwrap();
    assert_eq!(reader.verify(&mut |_| {}).unwrap(), []);
    reader.schema().unwrap();
    let check = |condition: Condition| {
        counted.take_counts();
        let (found, metrics) = scanned(&reader, &condition).unwrap();
        let rows = passing_rows(&condition, &batch);
        let expected: Vec<_> = rows.iter().map(|&row| batch.slice(row, 1)).collect();
        assert_same(&found, &concat(&batch.schema(), &expected), &format!("{condition:?}"));
        assert_eq!((metrics.requests, metrics.bytes_read), counted.take_counts());
        let fallen = [metrics.rows_fallen_by_zones, metrics.rows_fallen_by_blooms, metrics.rows_fallen_encoded];
        assert_eq!(fallen.iter().sum::<u64>() + metrics.rows_passed, ROWS as u64);
        metrics
    };
    let value = |column: usize, row: usize| scalar_of(&*batch.column(column).slice(row, 1)).unwrap();
    let absent: Vec<Scalar> = random(2).take(8).map(|id| Scalar::Int(id.into())).collect();

    // A value that isn't there costs a run of each row group's filters.
    let missing = check(Condition::column(0, equal(absent[0].clone())));
    assert_eq!((missing.rows_fallen_by_blooms, missing.row_groups_fallen), (ROWS as u64, 2));
    assert!(missing.bytes_read < 9_000 && missing.requests == 2, "{missing:?}");
    // One that is there costs the block that holds it, nearly always, and a float's zeros and NaNs are found in any form.
    for column in 0..=2 {
        for row in
            [7, ROWS - 1].map(|row| (row..).chain((0..row).rev()).find(|&row| batch.column(column).is_valid(row)))
        {
            let one = check(Condition::column(column, equal(value(column, row.unwrap()))));
            assert!(one.rows_passed >= 1 && one.rows_fallen_by_blooms > ROWS as u64 / 2, "{one:?}");
        }
    }
    for (literal, order) in [
        (f64::NAN, FloatOrder::Total),
        (-f64::NAN, FloatOrder::NanGreatest),
        (0.0, FloatOrder::Ieee),
        (-0.0, FloatOrder::Total),
        (0.0, FloatOrder::Total),
    ] {
        check(Condition::column(2, Predicate::Compare(Comparison::Equal, Scalar::Float(literal), order)));
    }
    // Several values, none of several values, and what AND, OR and NOT make of them.
    let few = check(Condition::column(0, one_of([&absent[..4], &[value(0, 3)]].concat(), false)));
    assert!(few.rows_passed == 1 && few.rows_fallen_by_blooms > 0, "{few:?}");
    let others = check(Condition::column(0, one_of(absent.clone(), true)));
    assert_eq!((others.rows_passed, others.compared_values), (ROWS as u64, 0), "all pass, and no identifier is asked");
    let path = vec![3, 0];
    let nested = |row: usize| {
        let keys = batch.column(3).as_any().downcast_ref::<StructArray>().unwrap().column(0).clone();
        equal(scalar_of(&*keys.slice(row, 1)).unwrap())
    };
    let both = Condition::And(vec![
        Condition::column(0, equal(value(0, 9))),
        Condition::Not(Box::new(Condition::Column { path: path.clone(), predicate: nested(77) })),
    ]);
    check(both.clone());
    check(Condition::Not(Box::new(both)));
    let either = check(Condition::Or(vec![
        Condition::Column { path: path.clone(), predicate: nested(199_999) },
        Condition::column(0, equal(absent[1].clone())),
        Condition::column(1, equal(Scalar::Bytes(b"".to_vec()))),
    ]));
    assert!(either.rows_fallen_by_blooms > ROWS as u64 / 2, "{either:?}");
    // Literals that no value of the column is.
    let foreign = check(Condition::column(0, one_of(vec![Scalar::Int(-1), Scalar::Float(1.0)], false)));
    assert_eq!((foreign.rows_passed, foreign.bytes_read), (0, 0));
}

#[test]
fn rows_fall_as_often_as_was_asked() {
    let ids: ArrayRef = Arc::new(UInt64Array::from_iter_values(random(5).take(131_072)));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    for rate in [0.1, 0.01, 0.001] {
        let bloom = vec![BloomColumn { rate, ..BloomColumn::new("id") }];
        let bytes = write(&batch.schema(), std::slice::from_ref(&batch), options(bloom));
        let reader = Reader::from_bytes(bytes).unwrap();
        let (mut wrong, mut asked) = (0, 0);
        for chunk in random(6).take(60_000).collect::<Vec<_>>().chunks(6) {
            let values = chunk.iter().map(|&id| Scalar::Int(id.into())).collect();
            let request = ScanRequest {
                condition: Condition::column(0, one_of(values, false)),
                projection: Projection::of_columns([]),
                rows: Some(0..65_536),
                ..ScanRequest::default()
            };
            let mut scan = reader.scan(request).unwrap();
            assert!(scan.next().is_none());
            wrong += usize::from(scan.metrics().rows_fallen_by_blooms == 0);
            asked += chunk.len();
        }
        let found = wrong as f64 / asked as f64;
        // Six at a time: of several wrong answers one is counted.
        assert!((0.6..1.25).contains(&(found / rate)), "{rate} was asked, {found} found");
    }
}

#[test]
fn no_present_value_is_denied_whatever_its_type() {
    let mut generator = Generator::new(8);
    for data_type in flat_types() {
        let field = Field::new("column", data_type.clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        let bloom = blooms_of(&schema);
        let has_filters = matches!(physical_of(&data_type), Ok(Physical::Fixed(_) | Physical::Bytes));
        assert_eq!(!bloom.is_empty(), has_filters, "{data_type}");
        for rows in [1, 70, 3_000] {
            let batch = generator.batch(&schema, rows);
            let bytes =
                write(&schema, std::slice::from_ref(&batch), WriteOptions { bloom: bloom.clone(), ..options(vec![]) });
            let reader = Reader::from_bytes(bytes).unwrap();
            assert_eq!(reader.verify(&mut |_| {}).unwrap(), [], "{data_type}");
            for row in (0..rows).step_by(rows / 60 + 1) {
                let Some(scalar) = scalar_of(&*batch.column(0).slice(row, 1)) else { continue };
                let condition = Condition::column(0, equal(scalar));
                let (found, _) = scanned(&reader, &condition).unwrap();
                assert_eq!(found.num_rows(), passing_rows(&condition, &batch).len(), "{data_type}: {condition:?}");
            }
        }
    }
}

/// Asks a file's bytes as the specification says, by nothing but arithmetic.
#[test]
fn filters_lie_as_the_specification_says() {
    const SALTS: [u32; 8] =
        [0x47B6_137B, 0x4497_4D91, 0x8824_AD5B, 0xA2B7_289D, 0x7054_95C7, 0x2DF1_424B, 0x9EFC_4947, 0x5C6B_FB31];
    let batch = table();
    let bytes = file(&batch);
    let reader = Reader::from_bytes(bytes.clone()).unwrap();
    let ids: &UInt64Array = batch.column(0).as_any().downcast_ref().unwrap();
    let mut row = 0;
    for chunk in &reader.column(0).unwrap().chunks {
        let (bloom, blocks) = (chunk.bloom.unwrap(), chunk.blocks.len() as u64);
        let buckets = u64::from(bloom.layout.buckets());
        let run_stripes = (4_096 / (32 * blocks)).max(1);
        assert_eq!(bloom.layout.size_bytes(), 32 * blocks * buckets + 4 * buckets.div_ceil(run_stripes));
        for (block, reference) in chunk.blocks.iter().enumerate() {
            for id in &ids.values()[row..row + reference.rows as usize] {
                let hash = xxhash_rust::xxh3::xxh3_64(&id.to_le_bytes());
                let stripe = ((hash >> 32) * buckets) >> 32;
                let at = bloom.offset + 32 * (stripe * blocks + block as u64) + 4 * (stripe / run_stripes);
                for (word, salt) in SALTS.iter().enumerate() {
                    let at = at as usize + 4 * word;
                    let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                    assert_eq!(word >> ((hash as u32).wrapping_mul(*salt) >> 27) & 1, 1, "{id}");
                }
            }
            row += reference.rows as usize;
        }
    }
    assert_eq!(row, ROWS);
}

#[test]
fn large_values_are_looked_up_without_being_read() {
    let values = (0..300u64).map(|row| {
        let mut value = vec![row as u8; 20_000];
        value[..8].copy_from_slice(&(row * 7_919 % 300).to_le_bytes());
        value
    });
    let values: Vec<_> = values.collect();
    let array: ArrayRef = Arc::new(BinaryArray::from_iter_values(&values));
    let batch = RecordBatch::try_from_iter([("value", array)]).unwrap();
    let bytes = write(&batch.schema(), std::slice::from_ref(&batch), options(vec![BloomColumn::new("value")]));
    let reader = Reader::from_bytes(bytes).unwrap();
    assert_eq!((reader.verify(&mut |_| {}).unwrap(), have_filters(&reader, 0)), (vec![], vec![true]));
    let (found, _) = scanned(&reader, &Condition::column(0, equal(Scalar::Bytes(values[150].clone())))).unwrap();
    assert_eq!(found.num_rows(), 1);
}

#[test]
fn filters_are_left_out_where_they_are_no_smaller_than_the_values() {
    let batch = table();
    let reader = Reader::from_bytes(file(&batch)).unwrap();
    assert_eq!([0, 1, 2].map(|column| have_filters(&reader, column)), [[true; 2]; 3].map(Vec::from));
    assert_eq!(have_filters(&reader, 5), [false; 2], "ascending rows take fewer bytes than filters would");
    assert_eq!(have_filters(&reader, 4), [true; 2], "three names, 32 bytes a block");
    // Where no chunk has any, the file is as if none had been asked for.
    let rows = batch.project(&[5]).unwrap();
    let with = write(&rows.schema(), std::slice::from_ref(&rows), options(vec![BloomColumn::new("row")]));
    assert_eq!(with, write(&rows.schema(), &[rows], options(vec![])));
}

#[test]
fn bytes_depend_neither_on_batches_nor_on_threads() {
    let batch = table();
    let whole = file(&batch);
    let bloom = blooms_of(&batch.schema());
    for (rows, threads) in [(9_999, 1), (70_000, 3)] {
        let batches: Vec<_> = (0..ROWS).step_by(rows).map(|start| batch.slice(start, rows.min(ROWS - start))).collect();
        let again = write(&batch.schema(), &batches, WriteOptions { threads, ..options(bloom.clone()) });
        assert!(again == whole, "{rows} rows a batch, {threads} threads");
    }
}

#[test]
fn what_can_t_have_filters_is_refused_by_name() {
    let batch = table();
    let refused = |column: &str, rate: f64| {
        let bloom = vec![BloomColumn { column: column.to_owned(), rate }];
        let error = Writer::new(Vec::new(), batch.schema(), options(bloom)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string()
    };
    assert!(refused("nothing", 0.01).contains("\"nothing\", which Bloom filters were asked for, names no column"));
    assert!(refused("nested", 0.01).contains("names no column of values"));
    for rate in [0.0, 0.6, -1.0, f64::NAN] {
        assert!(refused("id", rate).contains("column \"id\" that answer wrongly at a rate of"), "{rate}");
    }
    let schema = Arc::new(Schema::new(vec![Field::new("flag", DataType::Boolean, true)]));
    let error = Writer::new(Vec::new(), schema, options(vec![BloomColumn::new("flag")])).err().unwrap();
    assert!(error.to_string().contains("column \"flag\" is of type Boolean"), "{error}");
    assert!(Writer::new(Vec::new(), batch.schema(), options(vec![BloomColumn::new("nested.key")])).is_ok());
}

#[test]
fn damage_is_named_with_its_place_and_hurts_nobody_else() {
    let batch = table();
    let bytes = file(&batch);
    let whole = Reader::from_bytes(bytes.clone()).unwrap();
    let bloom = whole.column(0).unwrap().chunks[1].bloom.unwrap();
    let absent = Condition::column(0, equal(Scalar::Int(random(2).next().unwrap().into())));
    assert_eq!(scanned(&whole, &absent).unwrap().1.rows_fallen_by_blooms, ROWS as u64);
    let mut found = 0;
    for run in 0..bloom.layout.run_count() {
        let at = bloom.run_range(run).start;
        let mut damaged = bytes.to_vec();
        damaged[at as usize + 5] ^= 4;
        let reader = Reader::from_bytes(damaged.into()).unwrap();
        if run % 20 == 0 {
            let damages = reader.verify(&mut |_| {}).unwrap();
            let [damage] = &damages[..] else { panic!("{damages:?}") };
            let part = format!("column \"id\", row group 1, Bloom filters, run {run}");
            assert_eq!((damage.part.as_str(), damage.offset, damage.what.as_str()), (&*part, at, "checksum differs"));
            assert!(scanned(&reader, &Condition::column(1, equal(Scalar::Bytes(b"a".to_vec())))).is_ok());
        }
        match scanned(&reader, &absent) {
            Ok((rows, _)) => assert_eq!(rows.num_rows(), 0),
            Err(Error::Corrupt { file, part, offset, .. }) => {
                assert_eq!((file.as_str(), offset), ("bytes in memory", at));
                assert!(part.starts_with("column \"id\", row group 1, Bloom filters, run"), "{part}");
                found += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(found, 1, "a lookup reads one run of a row group");
}
