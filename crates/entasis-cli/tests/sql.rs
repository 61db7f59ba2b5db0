//! `entasis sql`: tables by their files' names, answers in every format, errors that say where.

#![cfg(feature = "sql")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use common::{Place, parquet_bytes, table};

fn with_tables() -> Place {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(1_000)));
    place.good(&["convert", "t.parquet", "t.ent"]);
    place
}

#[test]
fn files_of_every_kind_are_tables() {
    let place = with_tables();
    place.good(&["convert", "t.ent", "t.csv"]);
    place.good(&["convert", "t.ent", "t.ndjson"]);
    place.good(&["convert", "t.ent", "t.arrow"]);
    let zipped = std::fs::read(place.path("t.csv")).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&zipped).unwrap();
    place.write("z.csv.gz", encoder.finish().unwrap());
    for name in ["t.ent", "t.parquet", "t.csv", "t.ndjson", "t.arrow", "z.csv.gz", "./t.ent", "*.parquet"] {
        let query = format!("select count(*) n, sum(id) s, min(city) c from '{name}' where level < 50");
        assert_eq!(place.good(&["sql", &query, "--format", "csv"]), "n,s,c\n250,316625,Bern\n", "{name}");
    }
    let joined = "select count(*) from 't.ent' e join \"t.parquet\" p on e.id = p.id where p.id > 500";
    assert_eq!(place.good(&["sql", joined, "--format", "ndjson"]), "{\"count(*)\":830}\n");
}

#[test]
fn folders_and_patterns_are_tables() {
    let place = with_tables();
    place.good(&[
        "sql",
        "copy (select id, city, level % 2 as odd from 't.ent') to 'parts/' stored as ent partitioned by (odd)",
    ]);
    let found =
        place.good(&["sql", "select odd, count(*) n from 'parts' group by odd order by odd", "--format", "csv"]);
    assert_eq!(found, "odd,n\n0,500\n1,500\n");
    std::fs::create_dir(place.path("days")).unwrap();
    place.good(&["sql", "select id, city from 't.ent' limit 10", "-o", "days/1.ent"]);
    place.good(&["sql", "select 7.5 as price, 5 as id", "-o", "days/2.ent"]);
    let found = place.good(&["sql", "select count(*) n, count(price) p from 'days/*.ent'", "--format", "csv"]);
    assert_eq!(found, "n,p\n11,1\n");
}

#[test]
fn answers_come_in_every_format() {
    let place = with_tables();
    let query = "select id, city, price from 't.ent' where id between 0 and 9 order by id";
    let shown = place.good(&["sql", query]);
    assert!(shown.starts_with("id  city"), "{shown}");
    assert_eq!(place.good(&["sql", query, "--format", "csv"]).lines().count(), 4);
    let json = place.json(&["sql", query]);
    assert_eq!(json["rows"].as_array().unwrap().len(), 3);
    for name in ["a.ent", "a.parquet", "a.csv", "a.ndjson", "a.arrow"] {
        assert_eq!(place.good(&["sql", query, "-o", name]), "");
        place.good(&["verify", "a.ent", "--against", name]);
    }
    let types = place.good(&["schema", "a.ent"]);
    assert!(types.contains("city: Utf8"), "{types}");
    place.good(&["sql", query, "-o", "plain", "--format", "parquet"]);
    assert_eq!(place.run(&["sql", query, "--format", "ent"]).code, 2);
}

#[test]
fn errors_say_where_and_what_kind_they_are() {
    let place = with_tables();
    for (query, code, words) in [
        ("select\n  pric from 't.ent'", 2, "line 2, column 3: "),
        ("selec 1", 2, "line 1, column 1: "),
        ("select * from nowhere", 2, "nowhere"),
        ("select * from 'no.ent'", 4, "no.ent: no such file or folder"),
        ("select id + city from 't.ent'", 2, ""),
        ("select 1 / (id - id) from 't.ent'", 2, "zero"),
    ] {
        let run = place.run(&["sql", query]);
        assert_eq!(run.code, code, "{run:?}");
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains(words), "{run:?}");
        assert_eq!(run.stderr.lines().count(), 1, "{run:?}");
    }
    let mut bytes = std::fs::read(place.path("t.ent")).unwrap();
    bytes[200] ^= 1;
    place.write("bad.ent", bytes);
    let run = place.run(&["sql", "select * from 'bad.ent'", "-o", "copy.ent"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.stderr.contains("bad.ent") && run.stderr.contains("at byte"), "{run:?}");
    assert!(!place.names().contains(&"copy.ent".to_owned()));
}

#[test]
fn memory_is_bounded_and_sorts_go_to_disk() {
    let place = with_tables();
    let query = "select repeat(city, 400) c, id from 't.ent' order by c, id desc";
    let found = place.good(&["sql", query, "--format", "csv", "--memory", "20MB", "--threads", "1"]);
    assert_eq!(found, place.good(&["sql", query, "--format", "csv", "--threads", "4"]));
    let run = place.run(&["sql", query, "--memory", "1kB"]);
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn plans_are_shown_with_what_they_measured() {
    let place = with_tables();
    let plan = place.good(&["sql", "--explain", "select city from 't.ent' where price > 3 and length(city) > id"]);
    assert!(plan.contains("DataSourceExec") && plan.contains("output_rows="), "{plan}");
    assert!(plan.contains("no encoded answer for character_length()") && plan.contains("fell encoded"), "{plan}");
    assert!(place.json(&["sql", "--explain", "select 1"])["plan"].is_array());
}

#[test]
fn statements_are_answered_as_they_arrive() {
    let place = with_tables();
    let mut command = place.command(&["sql", "--format", "csv"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    input.write_all(b"create external table t stored as entasis location 't.ent'; select 1\n  as a;\n").unwrap();
    assert_eq!(answers.next().unwrap().unwrap(), "a");
    assert_eq!(answers.next().unwrap().unwrap(), "1");
    input.write_all(b"select count(*) as n from t -- all; of them\n;").unwrap();
    input.write_all(b"select 'a;b' as text").unwrap();
    drop(input);
    let rest: Vec<String> = answers.map(Result::unwrap).collect();
    assert_eq!(rest, ["n", "1000", "text", "a;b"]);
    assert!(child.wait().unwrap().success());
}

#[cfg(feature = "cache")]
#[test]
fn parquet_stays_in_the_cache_between_statements() {
    let place = with_tables();
    let statements = "select count(*) n from 't.parquet' where level < 50;\n".repeat(2) + "\\cache\n";
    let run = |arguments: &[&str]| {
        let mut child = place.command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(statements.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let shown = run(&["sql", "--cache", "64MiB", "--format", "csv"]);
    assert!(shown.starts_with("n\n250\nn\n250\n"), "{shown}");
    assert!(shown.contains("of 67.1 MB; 1 of 2 lookups hit (50.0 %)"), "{shown}");
    assert!(shown.contains("t.parquet level"), "{shown}");
    let shown = run(&["sql", "--cache", "64MiB", "--json"]);
    let report = &shown[shown.rfind("{\n  \"budget_bytes\"").unwrap()..];
    let report: serde_json::Value = serde_json::from_str(report).unwrap();
    assert_eq!((&report["lookups"], &report["hit_rate"]), (&2.into(), &0.5.into()), "{shown}");
    assert_eq!(report["columns"][0]["column"], "t.parquet level");
    // The next session finds on disk what this one had.
    let disk = format!("{}:10MB", place.path("columns").display());
    for hits in [1, 2] {
        let shown = run(&["sql", "--cache", "64MiB", "--cache-disk", &disk, "--json"]);
        let report = &shown[shown.rfind("{\n  \"budget_bytes\"").unwrap()..];
        let report: serde_json::Value = serde_json::from_str(report).unwrap();
        assert_eq!(report["disk"]["hits"], hits - 1, "{shown}");
        assert_eq!(report["hit_rate"], f64::from(hits) / 2.0, "{shown}");
    }
    for wrong in ["columns", ":10MB", "columns:", "columns:many"] {
        assert_eq!(place.run(&["sql", "--cache", "64MiB", "--cache-disk", wrong, "select 1"]).code, 2, "{wrong}");
    }
    assert_eq!(place.run(&["sql", "--cache-disk", &disk, "select 1"]).code, 2, "a disk without a cache");
    assert_eq!(place.run(&["sql", "--cache", "0"]).code, 2);
    assert_eq!(place.run(&["sql", "\\cache"]).code, 2, "there is no cache");
}
