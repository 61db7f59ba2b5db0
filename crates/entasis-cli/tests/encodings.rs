//! What can be asked of encodings, what is said of them, and how the chooser is measured.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{Place, nested, parquet_bytes, table};
use serde_json::Value;

fn with_tables() -> Place {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(70_000)));
    place.write("n.parquet", parquet_bytes(&nested(3_000)));
    place
}

/// The encoding at the root of a column's first block.
fn root(place: &Place, file: &str, column: &str) -> Value {
    let value = place.json(&["inspect", file, "--column", column]);
    value["columns"][0]["row_groups"][0]["blocks"][0]["cascade"].clone()
}

#[test]
fn profiles_give_equal_values_and_other_bytes() {
    let place = with_tables();
    let mut sizes = Vec::new();
    for profile in ["size", "balanced", "scan"] {
        place.good(&["convert", "t.parquet", "t.ent", "--profile", profile]);
        place.good(&["verify", "t.ent", "--against", "t.parquet"]);
        sizes.push(std::fs::metadata(place.path("t.ent")).unwrap().len());
    }
    assert!(sizes[0] <= sizes[1] && sizes[1] < sizes[2], "{sizes:?}");
    place.good(&["convert", "t.parquet", "u.ent"]);
    assert_eq!(std::fs::metadata(place.path("u.ent")).unwrap().len(), sizes[1]);
    let run = place.run(&["convert", "t.parquet", "u.ent", "--profile", "fast"]);
    assert!(run.code == 2 && run.stderr.contains("there are size, balanced and scan"), "{run:?}");
}

#[test]
fn columns_get_the_encodings_that_are_asked_for() {
    let place = with_tables();
    place.good(&["convert", "t.parquet", "t.ent", "--encoding", "id=Plain", "--encoding", "city=dictionary"]);
    assert_eq!(root(&place, "t.ent", "id")["encoding"], "Plain");
    let city = root(&place, "t.ent", "city");
    assert_eq!((&city["encoding"], &city["children"][1]["encoding"]), (&"Validity".into(), &"Dictionary".into()));
    place.good(&["verify", "t.ent", "--against", "t.parquet"]);
    place.good(&["convert", "n.parquet", "n.ent", "--encoding", "pair.x=BitPacking"]);
    assert_eq!(root(&place, "n.ent", "pair.x")["encoding"], "BitPacking");
    place.good(&["verify", "n.ent", "--against", "n.parquet"]);
}

#[test]
fn what_cannot_be_asked_of_encodings_is_told_and_nothing_is_written() {
    let place = with_tables();
    let before = place.names();
    for (out, options, expected) in [
        ("t.ent", &["--encoding", "id=Zip"][..], "\"Zip\" is no encoding; there are Plain, "),
        ("t.ent", &["--encoding", "id"], "not COLUMN=ENCODING"),
        ("t.ent", &["--encoding", "nothing=Delta"], "\"nothing\", which Delta was asked for, names no column"),
        ("t.ent", &["--encoding", "id=Delta", "--encoding", "id=Run"], "--encoding names \"id\" twice"),
        ("t.ent", &["--encoding", "id=Constant"], "column \"id\", for which Constant was asked: Constant can't hold"),
        ("t.csv", &["--encoding", "id=Delta"], "t.csv: --encoding is for .ent files only"),
        ("t.arrow", &["--profile", "size"], "t.arrow: --profile is for .ent files only"),
    ] {
        let run = place.run(&[&["convert", "t.parquet", out], options].concat());
        assert!(run.code == 2 && run.stderr.contains(expected), "{run:?}");
        assert_eq!(place.names(), before, "{run:?}");
    }
    let run = place.run(&["convert", "n.parquet", "n.ent", "--encoding", "pair=Bitmap"]);
    assert!(run.code == 2 && run.stderr.contains("\"pair\""), "{run:?}");
}

#[test]
fn why_tells_every_decision_of_a_block() {
    let place = with_tables();
    place.good(&["convert", "t.parquet", "t.ent", "--row-group-rows", "66000"]);
    let text = place.good(&["inspect", "t.ent", "--why", "city", "--block", "2"]);
    assert!(text.starts_with("city: Utf8, row group 1, block 0: 4,000 rows\nIn the file: Validity("), "{text}");
    assert!(text.contains("\n  Validity › 4,000 values of boolean\n  encoding"), "{text}");
    assert!(text.contains("  chosen\n") && text.contains("  can't hold these values: "), "{text}");
    let value = place.json(&["inspect", "t.ent", "--why", "id", "--profile", "scan"]);
    assert_eq!((&value["profile"], &value["columns"][0]["path"]), (&"scan".into(), &"id".into()));
    let column = &value["columns"][0];
    assert_eq!((column["rows"].as_u64(), column["row_group"].as_u64()), (Some(65_536), Some(0)));
    let decisions = column["decisions"].as_array().unwrap();
    assert_eq!((&decisions[0]["type"], &decisions[0]["above"]), (&"i64".into(), &serde_json::json!([])));
    for decision in decisions {
        let candidates = decision["candidates"].as_array().unwrap();
        let chosen: Vec<_> = candidates.iter().filter(|candidate| candidate["chosen"] == true).collect();
        assert_eq!((chosen.len(), &chosen[0]["encoding"]), (1, &candidates[0]["encoding"]));
        assert!(chosen[0]["real_bytes"].is_u64() && chosen[0]["why"].as_str().unwrap().starts_with("chosen"));
        assert!(candidates.iter().all(|one| one["real_bytes"].is_u64() != (one["why"] == "can't hold these values")));
    }
}

#[test]
fn why_reaches_into_structs_and_lists() {
    let place = with_tables();
    place.good(&["convert", "n.parquet", "n.ent"]);
    let value = place.json(&["inspect", "n.ent", "--why", "pair"]);
    let paths: Vec<&Value> = value["columns"].as_array().unwrap().iter().map(|column| &column["path"]).collect();
    assert_eq!(paths, ["pair.x", "pair.y"]);
    let value = place.json(&["inspect", "n.ent", "--why", "pair.y"]);
    assert_eq!(value["columns"][0]["decisions"][0]["type"], "bytes");
    assert_eq!(value["columns"][0]["decisions"][0]["rows"], 3_000);
    let value = place.json(&["inspect", "n.ent", "--why", "items"]);
    let decisions = value["columns"][0]["decisions"].as_array().unwrap();
    let list = decisions.iter().find(|decision| decision["candidates"][0]["encoding"] == "List").unwrap();
    assert_eq!(list["candidates"][0]["why"], "chosen: nothing else holds them");
    assert!(decisions.iter().any(|decision| decision["above"] == serde_json::json!(["Validity", "List"])));
    let text = place.good(&["inspect", "n.ent", "--why", "pair"]);
    assert!(text.starts_with("pair.x: Int64") && text.contains("\n\npair.y: Utf8"), "{text}");
}

#[test]
fn why_refuses_what_is_not_there() {
    let place = with_tables();
    place.good(&["convert", "n.parquet", "n.ent"]);
    for (options, expected) in [
        (&["--why", "nothing"][..], "no column \"nothing\""),
        (&["--why", "items", "--block", "1"], "\"items\" has 1 block: there is none of number 1"),
        (&["--why", "items", "--column", "items"], "cannot be used with"),
        (&["--block", "0"], "--why"),
        (&["--why", "items", "--profile", "fast"], "is no profile"),
    ] {
        let run = place.run(&[&["inspect", "n.ent"], options].concat());
        assert!(run.code == 2 && run.stderr.contains(expected), "{run:?}");
    }
}

#[test]
fn bench_chooser_searches_and_times_every_column() {
    let place = Place::new();
    place.write("data/t.parquet", parquet_bytes(&table(2_000)));
    place.write("data/n.parquet", parquet_bytes(&nested(500)));
    place.write("data/none.parquet", parquet_bytes(&table(0)));
    let rounds = ["--rounds", "1", "--rows", "1000"];
    let value = place.json(&[&["bench", "chooser", "data"], &rounds[..]].concat());
    let columns = value["columns"].as_array().unwrap();
    let names: Vec<&str> = columns.iter().map(|column| column["column"].as_str().unwrap()).collect();
    assert_eq!(names[..4], ["items", "pair.x", "pair.y", "id"]);
    assert_eq!((value["tables"].as_u64(), value["total"]["columns"].as_u64()), (Some(3), Some(12)));
    for column in columns {
        let bytes = |name: &str| column[name].as_f64().unwrap();
        assert!(0.0 < bytes("best_bytes") && bytes("best_bytes") <= bytes("chosen_bytes"), "{column}");
        assert!(column["chosen"].is_string() && column["encode_seconds"]["known"].as_f64() > Some(0.0), "{column}");
        assert!(column["rows"].as_u64() <= Some(1_000));
    }
    let total = &value["total"];
    assert!((0.0..=1.0).contains(&total["within_2_percent"].as_f64().unwrap()) && total["loss"].as_f64() >= Some(0.0));
    let one = [&["bench", "chooser", "data", "--columns-at-most", "1", "--filter", "n.par"], &rounds[..]].concat();
    let text = place.good(&one);
    assert!(text.starts_with("1 table, 1 column\n") && text.contains("the chooser's share"), "{text}");
}
