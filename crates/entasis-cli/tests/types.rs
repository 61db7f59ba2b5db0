//! Every Arrow type through the commands: to Entasis and back, and to the other formats as far as they go.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema};
use common::Place;
use entasis::generate::{Generator, flat_types, nested_types};
use entasis::{FileWriter, WriteOptions};

fn all_types() -> Vec<DataType> {
    flat_types().into_iter().chain(nested_types()).collect()
}

fn table(seed: u64, types: Vec<DataType>, rows: usize) -> RecordBatch {
    let fields =
        types.into_iter().enumerate().map(|(index, data_type)| Field::new(format!("c{index}"), data_type, true));
    Generator::new(seed).batch(&Arc::new(Schema::new(fields.collect::<Vec<_>>())), rows)
}

fn stream_of(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), batches[0].schema_ref()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

#[test]
fn every_type_goes_to_entasis_and_back() {
    let place = Place::new();
    place.write("t.arrows", stream_of(&[table(1, all_types(), 300)]));
    for (from, to) in
        [("t.arrows", "t.ent"), ("t.ent", "back.arrows"), ("t.ent", "back.arrow"), ("back.arrow", "u.ent")]
    {
        place.good(&["convert", from, to]);
        place.good(&["verify", to, "--against", "t.arrows"]);
        assert_eq!(place.good(&["schema", to]), place.good(&["schema", "t.arrows"]), "{to}");
        assert_eq!(place.good(&["head", to]), place.good(&["head", "t.arrows"]), "{to}");
    }
    assert_eq!(std::fs::read(place.path("t.ent")).unwrap(), std::fs::read(place.path("u.ent")).unwrap());
    let inspected = place.good(&["inspect", "t.ent"]);
    assert!(inspected.contains("Map") && inspected.contains("Union"), "{inspected}");
    for index in 0..all_types().len() {
        place.good(&["inspect", "t.ent", "--column", &format!("c{index}")]);
    }
}

#[test]
fn parquet_holds_a_type_or_says_that_it_cannot() {
    let place = Place::new();
    let (mut held, mut refused, mut lost) = (0, 0, Vec::new());
    let dictionary = |value| DataType::Dictionary(Box::new(DataType::Int32), Box::new(value));
    let dictionaries = flat_types().into_iter().filter(|value| !value.is_nested()).map(dictionary);
    for (index, data_type) in all_types().into_iter().chain(dictionaries).enumerate() {
        let batch = table(index as u64, vec![data_type.clone()], 200);
        let mut file = FileWriter::create(&place.path("t.ent"), batch.schema(), WriteOptions::default()).unwrap();
        file.write(&batch).unwrap();
        file.finish().unwrap();
        let before = place.names();
        let run = place.run(&["convert", "t.ent", "t.parquet"]);
        if run.code == 2 {
            assert!(run.stderr.contains("Parquet can't hold") && run.stderr.contains("\"c0\""), "{data_type}: {run:?}");
            assert_eq!(place.names(), before, "{data_type}");
            refused += 1;
            continue;
        }
        let back = place.run(&["verify", "t.parquet", "--against", "t.ent"]);
        if (run.code, back.code) != (0, 0) {
            lost.push(format!("{data_type}: {} {} {}", run.stderr, back.stdout, back.stderr));
            continue;
        }
        place.good(&["convert", "t.parquet", "u.ent"]);
        place.good(&["verify", "u.ent", "--against", "t.ent"]);
        std::fs::remove_file(place.path("t.parquet")).unwrap();
        held += 1;
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    assert!(held > 60 && refused > 10, "{held} are held, {refused} refused");
}

#[test]
fn text_formats_hold_a_type_or_say_that_they_cannot() {
    let place = Place::new();
    for (index, data_type) in all_types().into_iter().enumerate() {
        let batch = table(index as u64, vec![data_type.clone()], 100);
        let mut file = FileWriter::create(&place.path("t.ent"), batch.schema(), WriteOptions::default()).unwrap();
        file.write(&batch).unwrap();
        file.finish().unwrap();
        for to in ["t.csv", "t.ndjson"] {
            let run = place.run(&["convert", "t.ent", to]);
            // 3 are dates and times that no calendar has.
            assert!([0, 2, 3].contains(&run.code), "{data_type}: {run:?}");
            assert_eq!(run.stderr.lines().count(), usize::from(run.code > 0), "{data_type}: {run:?}");
            assert_eq!(place.path(to).exists(), run.code == 0, "{data_type}: {run:?}");
            if run.code == 0 {
                std::fs::remove_file(place.path(to)).unwrap();
            }
        }
    }
}

#[test]
fn dictionaries_inside_of_everything_fit_arrow_files() {
    let words = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let word = Arc::new(Field::new("word", words, true));
    let run_ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
    let fields = arrow_schema::UnionFields::from_fields([word.as_ref().clone()]);
    let types = vec![
        DataType::ListView(word.clone()),
        DataType::LargeListView(word.clone()),
        DataType::RunEndEncoded(run_ends, word),
        DataType::Union(fields.clone(), arrow_schema::UnionMode::Dense),
        DataType::Union(fields, arrow_schema::UnionMode::Sparse),
    ];
    let batches = [table(3, types.clone(), 500), table(4, types, 500)];
    let place = Place::new();
    place.write("t.arrows", stream_of(&batches));
    for (from, to) in [("t.arrows", "t.arrow"), ("t.arrow", "t.ent"), ("t.ent", "u.arrow")] {
        place.good(&["convert", from, to]);
        place.good(&["verify", to, "--against", "t.arrows"]);
    }
}
