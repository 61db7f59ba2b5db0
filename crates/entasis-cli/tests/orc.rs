//! ORC in.

#![cfg(feature = "orc")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use arrow_array::RecordBatch;
use common::{Place, table};
use orc_rust::arrow_writer::ArrowWriterBuilder;

fn orc_bytes(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriterBuilder::new(&mut bytes, batch.schema()).try_build().unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// Columns of the types that the writer of these files knows.
fn columns(rows: i64) -> RecordBatch {
    let whole = table(rows);
    let names = ["id", "city", "price", "ratio", "flag"];
    let indices: Vec<usize> = names.iter().map(|name| whole.schema().index_of(name).unwrap()).collect();
    whole.project(&indices).unwrap()
}

#[test]
fn orc_becomes_entasis() {
    let place = Place::new();
    let batch = columns(70_000);
    place.write("t.orc", orc_bytes(&batch));
    place.write("t.parquet", common::parquet_bytes(&batch));
    place.good(&["convert", "t.orc", "t.ent"]);
    place.good(&["verify", "t.ent", "--against", "t.orc"]);
    place.good(&["verify", "t.orc", "--against", "t.parquet"]);
    let picked = ["--columns", "price,id", "--format", "csv", "-n", "3"];
    let head = place.good(&[&["head", "t.orc"], &picked[..]].concat());
    assert_eq!(head, place.good(&[&["head", "t.parquet"], &picked[..]].concat()));
    assert_eq!(place.run(&["convert", "t.ent", "out.orc"]).code, 2);
    assert_eq!(place.run(&["head", "t.orc", "--columns", "none"]).code, 2);
}

#[test]
fn what_is_no_orc_file_is_told_in_one_line_and_nothing_is_written() {
    let place = Place::new();
    let whole = orc_bytes(&columns(3_000));
    let mut cases = vec![Vec::new(), b"ORC".to_vec(), vec![0xFF; 100], whole[..whole.len() / 2].to_vec()];
    // The last bytes say where all else is.
    for back in 1..40 {
        let mut flipped = whole.clone();
        flipped[whole.len() - back] ^= 0x55;
        cases.push(flipped);
    }
    for bytes in cases {
        place.write("t.orc", bytes);
        let run = place.run(&["convert", "t.orc", "t.ent"]);
        assert!(run.code == 0 || (run.code == 3 && run.stderr.lines().count() == 1), "{run:?}");
        if run.code == 3 {
            assert_eq!(place.names(), ["t.orc"]);
        } else {
            std::fs::remove_file(place.path("t.ent")).unwrap();
        }
    }
    assert_eq!(place.run(&["convert", "none.orc", "t.ent"]).code, 4);
}
