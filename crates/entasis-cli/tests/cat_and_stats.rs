//! `cat` and `stats`.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use common::{Place, nested, parquet_bytes, table};
use serde_json::json;

/// Three files that hold the first 3,000 rows of a table, in three formats.
fn parts() -> Place {
    let place = Place::new();
    let whole = table(3_000);
    for (index, name) in ["a.parquet", "b.parquet", "c.parquet"].into_iter().enumerate() {
        place.write(name, parquet_bytes(&whole.slice(index * 1000, 1000)));
    }
    place.good(&["convert", "b.parquet", "b.ent"]);
    place.good(&["convert", "c.parquet", "c.arrow"]);
    place.write("whole.parquet", parquet_bytes(&whole));
    place
}

#[test]
fn cat_puts_tables_one_after_the_other() {
    let place = parts();
    let inputs = ["a.parquet", "b.ent", "c.arrow"];
    for (format, expected_lines) in [("ndjson", 3_000), ("csv", 3_001), ("table", 3_002)] {
        let text = place.good(&[&["cat"], &inputs[..], &["--format", format]].concat());
        assert_eq!(text.lines().count(), expected_lines);
        assert_eq!(text, place.good(&["cat", "whole.parquet", "--format", format]), "{format}");
        let head = place.good(&["head", "whole.parquet", "-n", "3000", "--format", format]);
        assert_eq!(text, head, "{format}");
    }
    assert!(place.good(&["cat", "a.parquet"]).starts_with("{\"id\":-7,\"city\":null,"));
    let output = place.command(&[&["cat"], &inputs[..], &["--format", "arrow"]].concat()).output().unwrap();
    place.write("all.arrows", output.stdout);
    place.good(&["verify", "whole.parquet", "--against", "all.arrows"]);
    for out in ["all.ent", "all.parquet", "all.arrow", "all.ndjson"] {
        let told = place.good(&[&["cat"], &inputs[..], &["-o", out]].concat());
        assert!(told.starts_with(&format!("3 files → {out}: 3,000 rows, ")), "{told}");
    }
    place.good(&["cat", "all.ent", "all.parquet", "-o", "twice.ent"]);
    assert_eq!(place.json(&["inspect", "twice.ent"])["rows"], 6_000);
    place.good(&["verify", "all.ent", "--against", "whole.parquet"]);
}

#[test]
fn cat_prints_json_and_keeps_columns() {
    let place = parts();
    let value = place.json(&["cat", "a.parquet", "b.ent", "--columns", "price,id"]);
    assert_eq!(value["columns"], json!([{ "name": "price", "type": "Float64" }, { "name": "id", "type": "Int64" }]));
    assert_eq!(value["rows"].as_array().unwrap().len(), 2_000);
    assert_eq!(value["rows"][0], json!([null, "-7"]));
    let value = place.json(&["cat", "a.parquet", "b.ent", "-o", "ab.ent"]);
    assert_eq!(value["files"][0]["rows"], 2_000);
}

#[test]
fn cat_refuses_what_it_cannot_put_together() {
    let place = parts();
    place.write("n.parquet", parquet_bytes(&nested(5)));
    for (code, words, arguments) in [
        (2, "equal schemas", &["cat", "a.parquet", "n.parquet"][..]),
        (2, "CSV can't hold nested values: items, pair", &["cat", "n.parquet", "--format", "csv"]),
        (2, "--format is for standard output", &["cat", "a.parquet", "--format", "csv", "-o", "x.csv"]),
        (2, "is an input and the output", &["cat", "a.parquet", "-o", "a.parquet"]),
        (2, "tells no format", &["cat", "a.parquet", "-o", "x"]),
        (2, "compressed text is read, not written", &["cat", "a.parquet", "-o", "x.csv.gz"]),
        (4, "no such file", &["cat", "a.parquet", "none.ent"]),
    ] {
        let run = place.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{run:?}");
        assert!(run.stderr.contains(words), "{run:?}");
    }
    let json = place.good(&["cat", "n.parquet"]);
    assert!(json.starts_with("{\"items\":null,\"pair\":{\"x\":0,\"y\":\"y0\"}}\n{\"items\":[1],"), "{json}");
}

#[test]
fn cat_ends_quietly_when_its_reader_goes_away() {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(60_000)));
    for format in ["ndjson", "csv", "table", "arrow"] {
        let mut child = place
            .command(&["cat", "t.parquet", "--format", format])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""), "{format}");
    }
}

#[test]
fn stats_come_from_zones_alone() {
    let place = Place::new();
    let rows = 200_000;
    let ids = Int64Array::from_iter_values(0..rows);
    let x = Float64Array::from_iter((0..rows).map(|row| match row % 10 {
        0 => None,
        1 => Some(f64::NAN),
        _ => Some((row % 500) as f64 / 4.0),
    }));
    let word = StringArray::from_iter_values((0..rows).map(|row| format!("{} and so on, for long", row % 300)));
    let columns: [(&str, ArrayRef, bool); 3] =
        [("id", Arc::new(ids.clone()), false), ("x", Arc::new(x.clone()), true), ("word", Arc::new(word), false)];
    place.write("t.parquet", parquet_bytes(&RecordBatch::try_from_iter_with_nullable(columns).unwrap()));
    place.good(&["convert", "t.parquet", "t.ent"]);
    // Blocks come first in the file: with their bytes gone, all else is as it was.
    let mut bytes = std::fs::read(place.path("t.ent")).unwrap();
    let value = place.json(&["inspect", "t.ent", "--column", "x"]);
    let block = &value["columns"][0]["row_groups"][0]["blocks"][0];
    let at = block["offset"].as_u64().unwrap() as usize;
    bytes[at..at + block["size_bytes"].as_u64().unwrap() as usize].fill(0);
    place.write("hollow.ent", bytes);
    assert_eq!(place.run(&["verify", "hollow.ent"]).code, 3);
    assert_eq!(place.run(&["inspect", "hollow.ent"]).code, 3);

    let value = place.json(&["stats", "hollow.ent"]);
    assert_eq!((&value["rows"], &value["columns"][0]["rows"]), (&json!(rows), &json!(rows)));
    let [id, x_stats, word] = [0, 1, 2].map(|column| &value["columns"][column]);
    assert_eq!([&id["min"], &id["max"], &id["nulls"]], [&json!("0"), &json!((rows - 1).to_string()), &json!(0)]);
    assert_eq!(x_stats["nulls"], x.null_count());
    assert_eq!([&x_stats["nans"], &x_stats["min"], &x_stats["max"]], [&json!(20_000), &json!("0.5"), &json!("124.75")]);
    assert_eq!(word["distinct"], json!({ "least": 300, "most": 1_200 }));
    assert!(word["size_bytes"].as_u64() > Some(100) && word["blocks"] == 4, "{word}");

    let text = place.good(&["stats", "hollow.ent"]);
    assert!(text.starts_with("hollow.ent: 200,000 rows, 3 columns, ") && text.contains("300–1,200"), "{text}");
    assert!(text.contains("NaN") && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let text = place.good(&["stats", "hollow.ent", "--columns", "id"]);
    assert!(!text.contains("NaN") && !text.contains("word"), "{text}");
    let run = place.run(&["stats", "hollow.ent", "--columns", "nothing"]);
    assert!(run.code == 2 && run.stderr.contains("no column \"nothing\"; there are id, x, word"), "{run:?}");
}
