//! Bloom filters that are asked for on the command line, shown, verified and measured.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, StructArray};
use common::{Place, nested, parquet_bytes};

/// Identifiers in no order, as numbers and as text, beside rows that are in order.
fn identifiers(rows: i64) -> RecordBatch {
    // The finalizer of MurmurHash3, which leaves no pattern.
    let mixed = |row: i64| {
        let bits = (row as u64 + 1).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        ((bits ^ bits >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53) >> 1) as i64
    };
    let ids = || (0..rows).map(mixed);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(ids()));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(ids().map(|id| format!("user-{id:016x}"))));
    let order: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    RecordBatch::try_from_iter([("id", numbers), ("key=1", texts), ("row", order)]).unwrap()
}

fn with_tables() -> Place {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&identifiers(150_000)));
    place.write("n.parquet", parquet_bytes(&nested(3_000)));
    place
}

#[test]
fn filters_are_written_shown_and_verified() {
    let place = with_tables();
    place.good(&["convert", "t.parquet", "plain.ent"]);
    place.good(&["convert", "t.parquet", "t.ent", "--bloom", "id", "--bloom", "key=1=0.1", "--bloom", "row"]);
    place.good(&["verify", "t.ent", "--against", "t.parquet"]);
    let bytes = |file: &str, command: &str| -> Vec<u64> {
        let value = place.json(&[command, file]);
        value["columns"].as_array().unwrap().iter().map(|column| column["bloom_bytes"].as_u64().unwrap()).collect()
    };
    assert_eq!(bytes("plain.ent", "inspect"), [0, 0, 0]);
    assert!(!place.good(&["inspect", "plain.ent"]).contains("Bloom"));
    let found = bytes("t.ent", "inspect");
    assert!(found[0] > 200_000 && found[0] * 6 > found[1] * 10 && found[1] > 0 && found[2] == 0, "{found:?}");
    assert_eq!(bytes("t.ent", "stats"), found);
    for command in ["inspect", "stats"] {
        assert!(place.good(&[command, "t.ent"]).contains("Bloom filters"), "{command}");
    }
    let map = place.good(&["inspect", "t.ent", "--bytes"]);
    let line = map.lines().find(|line| line.contains("column \"id\", row group 0, Bloom filters")).unwrap();
    assert!(line.ends_with("file.md, Bloom filters"), "{line}");
    let column = place.json(&["inspect", "t.ent", "--column", "id"]);
    let bloom = &column["columns"][0]["row_groups"][0]["bloom"];
    assert_eq!(bloom["size_bytes"], found[0]);
    let text = place.good(&["inspect", "t.ent", "--column", "id"]);
    assert!(text.contains("  row group 0, Bloom filters: ") && text.contains(" buckets a block, "), "{text}");
    // A byte of a filter that is wrong.
    let mut damaged = std::fs::read(place.path("t.ent")).unwrap();
    let offset = bloom["offset"].as_u64().unwrap();
    damaged[offset as usize + 3] ^= 1;
    place.write("damaged.ent", damaged);
    let run = place.run(&["verify", "damaged.ent"]);
    let expected =
        format!("corrupt column \"id\", row group 0, Bloom filters, run 0 at byte {offset}: checksum differs");
    assert!(run.code == 3 && run.stdout.contains(&expected), "{run:?}");
    // Fields of structs.
    let visits: ArrayRef = Arc::new(StructArray::from(identifiers(3_000)));
    place.write("s.parquet", parquet_bytes(&RecordBatch::try_from_iter([("visit", visits)]).unwrap()));
    place.good(&["convert", "s.parquet", "s.ent", "--bloom", "visit.id"]);
    let found = bytes("s.ent", "inspect");
    assert!(found[1] > 3_000 && [found[0], found[2], found[3]] == [0; 3], "{found:?}");
}

#[test]
fn what_can_t_have_filters_is_told_and_nothing_is_written() {
    let place = with_tables();
    let before = place.names();
    for (input, out, options, expected) in [
        (
            "t.parquet",
            "t.ent",
            &["--bloom", "nothing"][..],
            "\"nothing\", which Bloom filters were asked for, names no column",
        ),
        ("n.parquet", "n.ent", &["--bloom", "items"], "column \"items\" is of type List(Int32)"),
        (
            "n.parquet",
            "n.ent",
            &["--bloom", "pair"],
            "\"pair\", which Bloom filters were asked for, names no column of values",
        ),
        ("t.parquet", "t.ent", &["--bloom", "id=2"], "at a rate of 2; it can be 0.000001 to 0.5"),
        ("t.parquet", "t.ent", &["--bloom", "id", "--bloom", "id=0.1"], "--bloom names \"id\" twice"),
        ("t.parquet", "t.csv", &["--bloom", "id"], "t.csv: --bloom is for .ent files only"),
    ] {
        let run = place.run(&[&["convert", input, out], options].concat());
        assert!(run.code == 2 && run.stderr.contains(expected), "{run:?}");
        assert_eq!(place.names(), before, "{run:?}");
    }
}

#[test]
fn bench_lookups_measures_files_of_the_same_rows() {
    let place = with_tables();
    place.good(&["convert", "t.parquet", "plain.ent"]);
    place.good(&["convert", "t.parquet", "t.ent", "--bloom", "id"]);
    let options = ["--rounds", "3", "--columns", "row", "--latency", "50", "--bandwidth", "10"];
    let value = place.json(&[&["bench", "lookups", "id", "plain.ent", "t.ent"], &options[..]].concat());
    assert_eq!(
        (&value["files"][0]["bloom_bytes"], value["files"][1]["bloom_bytes"].as_u64() > Some(0)),
        (&0.into(), true)
    );
    let lookups = value["lookups"].as_array().unwrap();
    assert_eq!(lookups.len(), 2 * 3 * 2);
    for (plain, bloom) in lookups[..6].iter().zip(&lookups[6..]) {
        assert_eq!((&plain["store"], &plain["value"]), (&bloom["store"], &bloom["value"]));
        assert_eq!(plain["rows_fallen_by_blooms"], 0);
        // Of one megabyte, a store sends all in the time of a request.
        let asks = bloom["store"] != "remote";
        assert_eq!(bloom["rows_fallen_by_blooms"].as_u64() >= Some(80_000), asks, "{bloom}");
        assert!(!asks || bloom["bytes"].as_u64().unwrap() < plain["bytes"].as_u64().unwrap(), "{plain} {bloom}");
    }
    let text = place.good(&["bench", "lookups", "id", "t.ent", "--rounds", "1"]);
    assert!(text.contains("fell by Bloom filters") && text.contains("not there"), "{text}");
    place.good(&["convert", "t.parquet", "other.ent", "--columns", "row,id"]);
    let run = place.run(&["bench", "lookups", "id", "t.ent", "other.ent", "--rounds", "1"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(place.run(&["bench", "lookups", "nothing", "t.ent"]).code, 2);
}
