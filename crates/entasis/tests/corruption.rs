//! Damage: every cut and every flipped byte of small files of every type gives the values or an error that names part
//! and offset; columns that aren't damaged stay readable; nothing panics.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::{collections::BTreeSet, sync::Arc};

use arrow_array::{Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use common::{assert_same, collect, read_all, write};
use entasis::{
    Condition, Error, ErrorKind, Projection, ReadLimits, ReadRequest, Reader, Result, ScanRequest, Strings,
    WriteOptions,
    compare::first_difference,
    encoding::{Comparison, FloatOrder, Predicate},
    fuzzing::{blooms_of, passing_rows},
    generate::{Generator, flat_types, nested_types},
    scan::scalar_of,
    source::BytesSource,
};

/// A small file of each type beside an integer column: two row groups, so that everything comes twice.
fn small_files() -> Vec<(RecordBatch, Bytes)> {
    let mut generator = Generator::new(40);
    flat_types()
        .into_iter()
        .chain(nested_types())
        .map(|data_type| {
            let schema = Arc::new(Schema::new(vec![
                Field::new("before", DataType::Int32, true),
                Field::new("column", data_type, true),
            ]));
            let batch = generator.batch(&schema, 30);
            let options = WriteOptions { row_group_rows: 20, bloom: blooms_of(&schema), ..WriteOptions::default() };
            (batch.clone(), write(&schema, &[batch], options))
        })
        .collect()
}

/// Everything that a reader can be asked. Errors of what is damaged must say where.
fn ask_everything(bytes: Bytes, expected: &RecordBatch) -> Result<()> {
    let reader = Reader::from_bytes(bytes)?;
    let mut first_error = None;
    let mut note = |error: Error| {
        assert_ne!(error.kind(), ErrorKind::Io, "{error}");
        if let Error::Corrupt { part, .. } = &error {
            assert!(!part.is_empty());
        }
        first_error.get_or_insert(error);
    };
    for column in 0..reader.column_count() {
        let request = ReadRequest { projection: Projection::of_columns([column]), ..ReadRequest::default() };
        match reader.read(request).and_then(collect) {
            Ok(read) => {
                let expected = expected.project(&[column]).unwrap();
                assert_eq!(first_difference(&read, &expected).unwrap(), None, "a flipped byte gives other values");
            }
            Err(error) => note(error),
        }
    }
    for column in 0..reader.column_count() {
        let Some(literal) = scalar_of(&*expected.column(column).slice(0, 1)) else { continue };
        let predicate = Predicate::Compare(Comparison::Equal, literal, FloatOrder::Total);
        let condition = Condition::column(column, predicate);
        let (rows, projection) = (passing_rows(&condition, expected).len(), Projection::of_columns([]));
        let scan = reader.scan(ScanRequest { condition, projection, ..ScanRequest::default() });
        match scan.and_then(|scan| scan.map(|batch| Ok(batch?.num_rows())).sum::<Result<usize>>()) {
            Ok(found) => assert_eq!(found, rows, "a flipped byte gives other rows"),
            Err(error) => note(error),
        }
    }
    let rows = [29, 0, 19, 20, 0];
    if let Err(error) = reader.take(&rows, &Projection::all(), Strings::Views) {
        note(error);
    }
    [reader.schema().err(), reader.columns_named("column").err(), reader.layout().err(), reader.sort_order().err()]
        .into_iter()
        .flatten()
        .for_each(note);
    first_error.map_or(Ok(()), Err)
}

/// Bytes of the file's Bloom filters.
fn bloom_bytes(bytes: &Bytes) -> u64 {
    let parts = Reader::from_bytes(bytes.clone()).unwrap().layout().unwrap();
    parts.iter().filter(|part| part.section == "file.md, Bloom filters").map(|part| part.size_bytes).sum()
}

#[test]
fn every_cut_is_an_error() {
    for (batch, bytes) in small_files() {
        for length in 0..bytes.len() {
            let error = ask_everything(bytes.slice(..length), &batch).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{length}: {error}");
            assert!(length < 8 || matches!(error, Error::Truncated { .. }), "{length}: {error}");
        }
    }
}

#[test]
fn every_flip_gives_the_values_or_an_error_with_its_place() {
    for (batch, bytes) in small_files() {
        let whole = ask_everything(bytes.clone(), &batch);
        assert!(whole.is_ok(), "{:?} without damage", batch.schema().field(1));
        let mut found = 0;
        for index in 0..bytes.len() {
            for bit in [0x01, 0x80] {
                let mut flipped = bytes.to_vec();
                flipped[index] ^= bit;
                if let Err(error) = ask_everything(flipped.into(), &batch) {
                    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{index}: {error}");
                    found += 1;
                }
            }
        }
        // Bloom filters are read where that saves anything.
        let flips = 2 * (bytes.len() - bloom_bytes(&bytes) as usize);
        assert!(found * 10 > flips * 8, "{found} of {flips} flips are found by reading");
    }
}

#[test]
fn verify_finds_every_flip_but_those_of_the_magic_of_others() {
    for (_, bytes) in small_files().into_iter().step_by(7) {
        for index in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[index] ^= 0x10;
            let Ok(reader) = Reader::from_bytes(flipped.into()) else { continue };
            let damages = reader.verify(&mut |_| {}).unwrap();
            assert!(!damages.is_empty(), "the flip of byte {index} of {} isn't found", bytes.len());
        }
    }
}

#[test]
fn other_columns_and_blocks_stay_readable() {
    let mut generator = Generator::new(41);
    let fields: Vec<_> = (0..40).map(|index| Field::new(format!("c{index}"), DataType::Utf8, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = generator.batch(&schema, 3_000);
    let options = WriteOptions { row_group_rows: 2_000, ..WriteOptions::default() };
    let bytes = write(&schema, std::slice::from_ref(&batch), options);
    let block = Reader::from_bytes(bytes.clone()).unwrap().column(7).unwrap().chunks[1].blocks[0].clone();
    let mut damaged = bytes.to_vec();
    damaged[block.offset as usize + 3] ^= 4;
    let reader = Reader::from_bytes(damaged.into()).unwrap();
    for column in 0..40 {
        let request = ReadRequest { projection: Projection::of_columns([column]), ..ReadRequest::default() };
        let mut batches = reader.read(request).unwrap();
        let expected = batch.project(&[column]).unwrap();
        assert_same(&batches.next().unwrap().unwrap(), &expected.slice(0, 2_000), "the first row group is whole");
        match batches.next().unwrap() {
            Ok(read) => assert_same(&read, &expected.slice(2_000, 1_000), "a whole column"),
            Err(Error::Corrupt { part, offset, .. }) => {
                assert_eq!(column, 7);
                assert!(part.starts_with("column \"c7\", row group 1, block 0"), "{part}");
                assert!((block.offset..block.offset + block.size_bytes).contains(&offset));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(batches.next().is_none());
    }
    let damages = reader.verify(&mut |_| {}).unwrap();
    assert_eq!(damages.len(), 1);
    assert!(damages[0].part.contains("c7"), "{:?}", damages[0]);
}

#[test]
fn a_damaged_page_hides_only_its_own_columns() {
    let fields: Vec<_> = (0..2_000).map(|index| Field::new(format!("c{index}"), DataType::Int64, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = Generator::new(42).batch(&schema, 3);
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    let page = Reader::from_bytes(bytes.clone())
        .unwrap()
        .layout()
        .unwrap()
        .into_iter()
        .find(|part| part.what == "metadata page 5")
        .unwrap();
    let mut damaged = bytes.to_vec();
    damaged[page.offset as usize + 100] ^= 1;
    let reader = Reader::from_bytes(damaged.into()).unwrap();
    let mut hidden = 0;
    for column in 0..2_000 {
        let named = reader.columns_named(&format!("c{column}"));
        let request = ReadRequest { projection: Projection::of_columns([column]), ..ReadRequest::default() };
        match reader.read(request).and_then(collect) {
            Ok(read) => {
                assert_same(&read, &batch.project(&[column]).unwrap(), "a whole column");
                assert_eq!(named.unwrap(), [column]);
            }
            Err(Error::Corrupt { part, offset, .. }) => {
                assert_eq!((part.as_str(), offset), ("metadata page 5", page.offset));
                assert!(named.is_err());
                hidden += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!((10..200).contains(&hidden), "{hidden} columns lie in one page");
    assert!(reader.schema().is_err());
    let damaged: BTreeSet<_> = reader.verify(&mut |_| {}).unwrap().into_iter().map(|damage| damage.part).collect();
    assert_eq!(damaged, BTreeSet::from(["metadata page 5".to_owned()]));
}

#[test]
fn foreign_files_are_refused() {
    let parquet = Bytes::from_static(b"PAR1 and a lot of other bytes until it ends in PAR1");
    for bytes in [Bytes::new(), Bytes::from_static(b"E"), parquet, Bytes::from(vec![0; 100_000])] {
        let error = Reader::from_bytes(bytes.clone()).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Corrupt), "{error}");
        assert_eq!(bytes.len() == 1, matches!(error, Error::Truncated { .. }), "{error}");
    }
}

/// The trailer with a byte changed and the checksum made to fit.
fn with_trailer_byte(bytes: &Bytes, offset: usize, value: u8) -> Bytes {
    let mut changed = bytes.to_vec();
    let trailer = changed.len() - 64;
    changed[trailer + offset] = value;
    let checksum = crc32c::crc32c(&changed[trailer..trailer + 56]).to_le_bytes();
    changed[trailer + 56..trailer + 60].copy_from_slice(&checksum);
    changed.into()
}

#[test]
fn what_newer_writers_say_is_refused_or_ignored() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let batch = Generator::new(43).batch(&schema, 5);
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    for offset in (42..52).filter(|&offset| offset != 45) {
        let error = Reader::from_bytes(with_trailer_byte(&bytes, offset, 1)).err().unwrap();
        assert!(matches!(error, Error::Unsupported(_)), "byte {offset}: {error}");
    }
    let error = Reader::from_bytes(with_trailer_byte(&bytes, 44, 7)).err().unwrap().to_string();
    assert!(error.contains("version 7"), "{error}");
    let ignored = Reader::from_bytes(with_trailer_byte(&bytes, 52, 0xFF)).unwrap();
    assert_same(&read_all(&ignored).unwrap(), &batch, "may-ignore bits");
}

#[test]
fn blocks_over_the_limit_are_refused() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, false)]));
    let long = "x".repeat(10_000);
    let texts = StringArray::from_iter_values((0..200).map(|_| &long));
    assert_eq!(texts.len(), 200);
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(texts)]).unwrap();
    let bytes = write(&schema, std::slice::from_ref(&batch), WriteOptions::default());
    let open = |decoded_bytes| {
        let limits = ReadLimits { decoded_bytes, ..ReadLimits::default() };
        Reader::from_source(Arc::new(BytesSource::new(bytes.clone(), "a.ent")), limits).unwrap()
    };
    assert_same(&read_all(&open(3_000_000)).unwrap(), &batch, "under the limit");
    match read_all(&open(1_000_000)) {
        Err(Error::OverLimit { part, declared, limit, .. }) => {
            assert_eq!(limit, 1_000_000);
            assert!(part.contains("column \"a\"") && declared > limit, "{part}: {declared}");
        }
        other => panic!("{other:?}"),
    }
}
