//! Every command on small tables: what it prints, its JSON, its exit code.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{Place, nested, parquet_bytes, table, vectors};

fn with_table(rows: i64) -> Place {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(rows)));
    place.good(&["convert", "t.parquet", "t.ent"]);
    place
}

#[test]
fn help_of_every_command_has_examples_and_says_what_json_holds() {
    let place = Place::new();
    assert!(place.good(&["--help"]).contains("Exit codes"));
    let commands: [&[&str]; 20] = [
        &["convert"],
        &["inspect"],
        &["head"],
        &["cat"],
        &["stats"],
        &["schema"],
        &["verify"],
        &["bench", "tables"],
        &["bench", "columns"],
        &["bench", "embeddings"],
        &["bench", "access"],
        &["bench", "lookups"],
        &["bench", "kernels"],
        &["bench", "filters"],
        &["bench", "prices"],
        &["bench", "queries"],
        &["bench", "ablation"],
        &["bench", "chooser"],
        &["bench", "policies"],
        &["demo"],
    ];
    for command in commands {
        let help = place.good(&[command, &["--help"]].concat());
        assert!(help.contains("Examples:\n  entasis ") && help.contains("JSON: {"), "{command:?}: {help}");
    }
}

#[test]
fn head_shows_the_same_rows_of_every_format() {
    let place = with_table(30);
    for out in ["t.arrow", "t.arrows", "copy.ent"] {
        place.good(&["convert", "t.ent", out]);
    }
    let expected = place.good(&["head", "t.parquet", "-n", "3"]);
    assert!(expected.contains("Zü\"rich") && expected.contains("∅"), "{expected}");
    assert_eq!(expected.lines().count(), 5);
    for file in ["t.ent", "t.arrow", "t.arrows", "copy.ent"] {
        assert_eq!(place.good(&["head", file, "-n", "3"]), expected, "{file}");
    }
    let csv = place.good(&["head", "t.ent", "-n", "2", "--columns", "city,id", "--format", "csv"]);
    assert_eq!(csv, "city,id\n,-7\n\"Ulm, old\",-4\n");
    let value = place.json(&["head", "t.ent", "-n", "2", "--columns", "id,price"]);
    assert_eq!(value["columns"][1]["name"], "price");
    assert_eq!(value["rows"][0], serde_json::json!(["-7", null]));
    assert_eq!(place.good(&["head", "t.ent", "-n", "0", "--columns", "id", "--format", "csv"]), "id\n");
}

#[test]
fn head_writes_an_arrow_stream() {
    let place = with_table(5);
    let output = place.command(&["head", "t.ent", "-n", "4", "--format", "arrow"]).output().unwrap();
    let reader = arrow_ipc::reader::StreamReader::try_new(output.stdout.as_slice(), None).unwrap();
    let batches: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 4);
    assert_eq!(batches[0].columns()[..2], table(4).columns()[..2]);
}

#[test]
fn schema_shows_types_and_what_is_below() {
    let place = Place::new();
    place.write("n.parquet", parquet_bytes(&nested(4)));
    place.good(&["convert", "n.parquet", "n.ent"]);
    for file in ["n.parquet", "n.ent"] {
        let text = place.good(&["schema", file]);
        assert!(text.contains("items: list\n  item: Int32\npair: struct, not null\n  x: Int64, not null\n"), "{text}");
        let value = place.json(&["schema", file]);
        assert_eq!(value["columns"][1]["children"][1]["type"], "Utf8");
    }
}

#[test]
fn inspect_shows_columns_bytes_and_nodes() {
    let place = with_table(3000);
    let text = place.good(&["inspect", "t.ent"]);
    assert!(text.contains("3,000 rows, 9 columns, 1 row group"), "{text}");
    assert!(text.contains("2022-01-08") && text.contains("metadata page"), "{text}");
    let value = place.json(&["inspect", "t.ent"]);
    assert_eq!(value["columns"][0]["min"], "-7");
    assert_eq!(value["columns"][0]["max"], "8990");
    assert_eq!(value["columns"][1]["nulls"], 600);
    assert!(value["columns"][0]["cascades"][0]["blocks"].as_u64() == Some(1));
    let sum: u64 = value["map"].as_array().unwrap().iter().map(|part| part["size_bytes"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), value["size_bytes"].as_u64(), "the map covers the file");
}

#[test]
fn inspect_bytes_lists_all_bytes_in_order() {
    let place = with_table(100);
    let value = place.json(&["inspect", "t.ent", "--bytes"]);
    let mut sections = BTreeSet::new();
    let end = end_of(&value["parts"], 0, &mut sections);
    assert_eq!(end, std::fs::metadata(place.path("t.ent")).unwrap().len());
    for section in &sections {
        let (page, heading) = section.split_once(", ").unwrap();
        let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec").join(page);
        let text = std::fs::read_to_string(&spec).unwrap_or_else(|error| panic!("{section}: {error}"));
        let is_there = text.lines().any(|line| line.starts_with('#') && line.trim_start_matches(['#', ' ']) == heading);
        assert!(is_there, "{section:?} is no section");
    }
    for section in ["file.md, Trailer", "file.md, Column record", "block.md, Checksum runs", "encodings.md, BitPacking"]
    {
        assert!(sections.contains(section), "{section}: {sections:?}");
    }
    let text = place.good(&["inspect", "t.ent", "--bytes"]);
    assert!(text.contains("  record of column \"price\"") && text.contains("    node "), "{text}");
}

/// Where `parts` end, which begin at `start`; every part's children cover it.
fn end_of(parts: &serde_json::Value, start: u64, sections: &mut BTreeSet<String>) -> u64 {
    parts.as_array().unwrap().iter().fold(start, |end, part| {
        assert_eq!(part["offset"].as_u64(), Some(end), "{part}");
        sections.insert(part["section"].as_str().unwrap().to_owned());
        let next = end + part["size_bytes"].as_u64().unwrap();
        if part["children"].as_array().is_some_and(|children| !children.is_empty()) {
            assert_eq!(end_of(&part["children"], end, sections), next, "{part}");
        }
        next
    })
}

#[test]
fn inspect_column_goes_down_to_nodes() {
    let place = Place::new();
    place.write("n.parquet", parquet_bytes(&nested(500)));
    place.good(&["convert", "n.parquet", "n.ent"]);
    let text = place.good(&["inspect", "n.ent", "--column", "pair.x"]);
    assert!(
        text.contains("pair.x: Int64") && text.contains("block 0: 500 rows") && text.contains("from 0 to 499"),
        "{text}"
    );
    let value = place.json(&["inspect", "n.ent", "--column", "items"]);
    let node = &value["columns"][0]["row_groups"][0]["blocks"][0]["cascade"];
    assert!(node["encoding"].is_string() && node["children"].is_array(), "{node}");
    let run = place.run(&["inspect", "n.ent", "--column", "nothing"]);
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn verify_finds_files_whole_equal_and_different() {
    let place = with_table(2000);
    assert!(place.good(&["verify", "t.ent"]).contains("whole (2,000 rows"));
    assert!(place.good(&["verify", "t.ent", "--against", "t.parquet"]).contains("equal values"));
    place.good(&["convert", "t.ent", "t.arrow"]);
    place.good(&["verify", "t.arrow", "--against", "t.ent"]);

    place.write("longer.parquet", parquet_bytes(&table(2001)));
    let run = place.run(&["verify", "t.ent", "--against", "longer.parquet"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.contains("row 2000, the end in the one, a row in the other"), "{run:?}");

    let value = place.json(&["verify", "t.ent", "--against", "longer.parquet"]);
    assert_eq!(value["difference"]["row"], 2000);
    assert_eq!(value["damages"], serde_json::json!([]));
}

#[test]
fn verify_names_the_first_difference_by_column_and_row() {
    let place = Place::new();
    let rows = |other: &str| {
        (0..900).map(|row| format!("{row},{}\n", if row == 777 { other } else { "0.0" })).collect::<String>()
    };
    place.write("a.csv", format!("id,x\n{}", rows("0.0")));
    place.write("b.csv", format!("id,x\n{}", rows("-0.0")));
    place.good(&["convert", "a.csv", "a.ent"]);
    let run = place.run(&["verify", "a.ent", "--against", "b.csv"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.contains("column \"x\", row 777, 0.0"), "{run:?}");
    place.good(&["verify", "a.ent", "--against", "b.csv", "--columns", "id"]);
}

#[test]
fn bench_tables_compares_with_parquet() {
    let place = Place::new();
    place.write("data/a.parquet", parquet_bytes(&table(500)));
    place.write("data/b.parquet", parquet_bytes(&nested(500)));
    let value = place.json(&["bench", "tables", "data", "--rounds", "1"]);
    assert_eq!(value["tables"][0]["rows"], 500);
    assert_eq!(value["total"]["columns"], 11);
    for contender in ["entasis", "parquet", "parquet_snappy", "parquet_zstd"] {
        let figures = &value["tables"][1][contender];
        assert!(figures["bytes"].as_u64() > Some(100) && figures["decode_seconds"].as_f64() > Some(0.0), "{figures}");
    }
    assert!(value["ratios"]["bytes_to_parquet_zstd"]["geometric_mean"].as_f64() > Some(0.0));
    let text = place.good(&["bench", "tables", "data", "--rounds", "1", "--filter", "b.par"]);
    assert!(text.contains("b.parquet") && !text.contains("a.parquet"), "{text}");
    assert_eq!(place.run(&["bench", "tables", "data", "--filter", "zzz"]).code, 2);
    let value = place.json(&["bench", "tables", "data", "--rounds", "1", "--kind", "strings"]);
    assert_eq!((value["tables"].as_array().unwrap().len(), value["total"]["columns"].as_u64()), (1, Some(1)));
}

#[test]
fn bench_columns_describes_every_column() {
    let place = Place::new();
    place.write("a.parquet", parquet_bytes(&table(600)));
    let value = place.json(&["bench", "columns", "a.parquet", "--rounds", "1"]);
    let id = &value["columns"][0];
    assert_eq!((id["distinct_ratio"].as_f64(), id["sorted_ratio"].as_f64()), (Some(1.0), Some(1.0)));
    assert_eq!(value["columns"][1]["nulls"], 120);
    let seconds = |name: &str| id[name].as_f64().unwrap();
    let (least, median) = (seconds("decode_seconds_least"), seconds("decode_seconds"));
    assert!(0.0 < least && least <= median && median <= seconds("decode_seconds_most"), "{id}");
    assert!(id["bits_per_value"].as_f64() > Some(0.0) && id["cascades"][0].is_string());
    let fixed = &value["kinds"]["fixed_width"];
    assert_eq!((fixed["columns"].as_u64(), value["kinds"]["strings"]["columns"].as_u64()), (Some(7), Some(1)));
    assert!(
        fixed["decode_to_copy"]["total"].as_f64() > Some(0.0) && fixed["mean_factor"].as_f64() > Some(0.5),
        "{fixed}"
    );
    let text = place.good(&["bench", "columns", "a.parquet", "--rounds", "1"]);
    assert!(text.contains("encoded as") && text.contains("mean factor"), "{text}");
}

#[test]
fn bench_embeddings_compares_with_numpy() {
    let place = Place::new();
    place.write("vectors.parquet", parquet_bytes(&vectors(2_000)));
    let value = place.json(&["bench", "embeddings", "vectors.parquet", "--rounds", "1"]);
    let column = &value["columns"][0];
    assert_eq!((column["rows"].as_u64(), column["numpy_bytes"].as_u64()), (Some(2_000), Some(128 + 2_000 * 8 * 4)));
    for name in ["numpy_seconds", "mapped_seconds", "read_seconds"] {
        assert!(column[name].as_f64() > Some(0.0), "{column}");
    }
    let text = place.good(&["bench", "embeddings", "vectors.parquet", "--rounds", "1", "--profile", "size"]);
    assert!(text.contains("geometric means: bytes ") && text.contains("FixedList("), "{text}");
    place.write("t.parquet", parquet_bytes(&table(10)));
    assert_eq!(place.run(&["bench", "embeddings", "t.parquet"]).code, 2);
}

#[test]
fn bench_access_counts_what_is_read() {
    let place = with_table(3_000);
    let value = place.json(&["bench", "access", "t.ent", "--rounds", "2", "--latency", "50", "--widths", "10,300"]);
    assert_eq!(value["rows"], 3_000);
    let accesses = value["accesses"].as_array().unwrap();
    assert_eq!(accesses.len(), 3 * (4 * 2 + 1) + 2 * 2);
    assert_eq!(accesses[accesses.len() - 1]["question"], "open, one column of 300");
    for access in accesses {
        let (requests, median) = (access["requests"].as_u64().unwrap(), access["seconds"]["median"].as_f64().unwrap());
        assert!(median > 0.0 && access["seconds"]["least"].as_f64() <= access["seconds"]["most"].as_f64(), "{access}");
        assert!(access["store"] != "remote" || requests == 0 || median >= 0.05, "{access}");
        assert!(access["reader"] == "warm" || requests > 0, "{access}");
    }
    let text = place.good(&["bench", "access", "t.ent", "--rounds", "1", "--widths", "10"]);
    assert!(text.contains("1,000 scattered rows") && text.contains("requests"), "{text}");
    assert_eq!(place.run(&["bench", "access", "nowhere.ent"]).code, 4);
}

#[test]
fn bench_ablation_adds_one_encoding_after_the_other() {
    let place = Place::new();
    place.write("data/a.parquet", parquet_bytes(&table(3_000)));
    place.write("data/b.parquet", parquet_bytes(&nested(500)));
    let value = place.json(&["bench", "ablation", "data", "--rounds", "1"]);
    let steps = value["steps"].as_array().unwrap();
    let bytes: Vec<u64> = steps.iter().map(|step| step["bytes"].as_u64().unwrap()).collect();
    assert!(steps[0]["added"].is_null() && steps[1]["added"] == "Constant");
    assert!(bytes[0] > 2 * bytes[bytes.len() - 1], "{bytes:?}");
    for step in steps {
        let sum: u64 = step["tables"].as_array().unwrap().iter().map(|table| table["bytes"].as_u64().unwrap()).sum();
        assert_eq!(step["bytes"], sum);
        assert!(step["encode_seconds"].as_f64() > Some(0.0) && step["decode_seconds"].as_f64() > Some(0.0), "{step}");
    }
    let text = place.good(&["bench", "ablation", "data", "--rounds", "1", "--filter", "b.par"]);
    assert!(text.starts_with("1 table, ") && text.contains("+ Dictionary"), "{text}");
}

#[test]
fn bench_filters_asks_the_strings_of_files() {
    let place = with_table(3_000);
    let value = place.json(&["bench", "filters", "t.ent", "--rounds", "1"]);
    let columns = value["columns"].as_array().unwrap();
    let city = columns.iter().find(|column| column["column"] == "city").unwrap();
    assert_eq!(city["rows"], 3_000);
    let asked = city["asked"].as_array().unwrap();
    assert_eq!(asked.len(), 6);
    let passing = |predicate: usize| asked[predicate]["passing"].as_u64().unwrap();
    assert!(passing(0) > 0 && passing(1) == 0 && passing(2) >= passing(0), "{city}");
    assert!(asked.iter().all(|one| one["encoded_seconds"].as_f64().unwrap() > 0.0), "{city}");
    let text = place.good(&["bench", "filters", "t.ent", "--rounds", "1"]);
    assert!(text.contains("city") && text.contains("all together") && !text.contains("price"), "{text}");
    assert_eq!(place.run(&["bench", "filters", "nowhere.ent"]).code, 4);
}

#[test]
fn bench_kernels_measures_every_level() {
    let place = Place::new();
    let value = place.json(&["bench", "kernels", "--rounds", "1", "--filter", "Pack"]);
    let levels = value["levels"].as_array().unwrap();
    assert_eq!(levels[0]["level"], "scalar");
    for level in levels {
        assert!(level["cycles_per_second"].as_f64() > Some(1e8), "{level}");
        let kernels = level["kernels"].as_array().unwrap();
        assert_eq!(
            kernels.iter().map(|kernel| &kernel["encoding"]).collect::<Vec<_>>(),
            ["copy", "BitPacking", "BitPacking"]
        );
        for kernel in kernels {
            assert!(kernel["ns_per_value"].as_f64() > Some(0.0) && kernel["bytes_per_cycle"].as_f64() > Some(0.0));
        }
    }
    let text = place.good(&["bench", "kernels", "--rounds", "1", "--filter", "Const"]);
    assert!(text.contains("scalar, ns") && text.lines().any(|line| line.starts_with("Constant  ")), "{text}");
}

#[test]
fn demo_ends_with_what_to_try_next_and_that_works() {
    let place = Place::new();
    let text = place.good(&["demo", "--folder", "."]);
    assert!(text.contains("68,000 rows") && text.contains("Parquet + Zstd 3"), "{text}");
    let commands: Vec<&str> = text.lines().skip_while(|line| *line != "Try next:").skip(1).collect();
    let existing = commands.iter().filter(|command| command.contains("./trips.ent"));
    let mut tried = 0;
    for command in existing {
        let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
        place.good(&arguments);
        tried += 1;
    }
    assert_eq!(tried, 3);
    let value = place.json(&["demo", "--folder", "."]);
    assert_eq!(value["equal"], true);
    assert_eq!(place.names(), ["trips.ent", "trips.parquet"]);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = with_table(20_000);
    let mut child = place
        .command(&["head", "t.ent", "-n", "20000"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
