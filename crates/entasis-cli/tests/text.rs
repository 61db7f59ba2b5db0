//! NDJSON in and out, and text that is compressed.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::io::Write;
use std::sync::Arc;

use arrow_array::builder::{MapBuilder, StringBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, Date32Array, DictionaryArray, Float32Array, Float64Array, Int32Array, RecordBatch, StringArray,
};
use common::{Place, nested, parquet_bytes, table};

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

const EVENTS: &str = r#"{"id":1,"user":{"name":"Ann","tags":["a","b"]},"at":"2024-02-29T10:00:00","x":1.5}
{"id":-2,"user":{"name":null,"tags":[]},"at":null,"x":"NaN"}
{"id":9007199254740993,"user":null,"at":"x \"q\" ü","x":-0.0}
"#;

#[test]
fn ndjson_goes_both_ways_with_objects_and_lists() {
    let place = Place::new();
    place.write("e.ndjson", EVENTS);
    place.good(&["convert", "e.ndjson", "e.ent"]);
    let schema = place.good(&["schema", "e.ent"]);
    assert_eq!(schema, "id: Int64\nuser: struct\n  name: Utf8\n  tags: list\n    item: Utf8\nat: Utf8\nx: Float64\n");
    place.good(&["verify", "e.ent", "--against", "e.ndjson"]);
    place.good(&["convert", "e.ent", "back.jsonl"]);
    assert_eq!(std::fs::read_to_string(place.path("back.jsonl")).unwrap(), EVENTS);
    assert_eq!(place.good(&["head", "e.ent", "--format", "ndjson"]), EVENTS);
    let picked = place.good(&["head", "e.ndjson", "-n", "1", "--format", "ndjson", "--columns", "x,user.name"]);
    assert_eq!(picked, "{\"x\":1.5,\"user\":{\"name\":\"Ann\"}}\n");
    place.good(&["convert", "e.ndjson", "typed.ent", "--types", "id=string,user.name=LargeUtf8"]);
    assert!(place.good(&["schema", "typed.ent"]).starts_with("id: Utf8\nuser: struct\n  name: LargeUtf8\n"));
}

#[test]
fn tables_of_many_types_come_back_from_ndjson() {
    let place = Place::new();
    let types = "id=int64,ratio=float32,day=date,at=Timestamp(µs, \"UTC\"),money=Decimal128(12, 2),level=uint8";
    for (name, batch) in [("flat", table(70_000)), ("nested", nested(3_000))] {
        place.write("t.parquet", parquet_bytes(&batch));
        let json = format!("{name}.ndjson");
        place.good(&["convert", "t.parquet", &json]);
        let types = if name == "flat" { &["--types", types][..] } else { &["--types", "items=List(Int32)"] };
        place.good(&[&["convert", &json, "b.ent"], types].concat());
        place.good(&["convert", "b.ent", "again.ndjson"]);
        let texts = [json.as_str(), "again.ndjson"].map(|file| std::fs::read_to_string(place.path(file)).unwrap());
        let [one, again] = [&texts[0], &texts[1]].map(|text| text.lines());
        for (line, other) in one.zip(again) {
            assert_eq!(line, other, "{name}");
        }
        assert_eq!(texts[0].len(), texts[1].len());
    }
}

#[test]
fn what_json_has_no_numbers_for_is_kept() {
    let place = Place::new();
    let floats = Float64Array::from(vec![Some(f64::NAN), Some(f64::INFINITY), Some(-0.0), Some(5e-324), None]);
    let singles = Float32Array::from(vec![f32::NEG_INFINITY, 0.1, f32::MAX, f32::MIN_POSITIVE, 16_777_216.0]);
    let words = StringArray::from(vec![Some("a"), None]);
    let keyed = DictionaryArray::<Int32Type>::new(
        Int32Array::from(vec![Some(0), Some(1), None, Some(1), Some(0)]),
        Arc::new(words),
    );
    let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..5 {
        maps.keys().append_value(format!("k{row}"));
        maps.values().append_option((row != 3).then_some("v"));
        maps.append(row != 1).unwrap();
    }
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("f", Arc::new(floats) as ArrayRef, true),
        ("s", Arc::new(singles), true),
        ("w", Arc::new(keyed), true),
        ("m", Arc::new(maps.finish()), true),
    ])
    .unwrap();
    place.write("t.parquet", parquet_bytes(&batch));
    let text = place.good(&["head", "t.parquet", "--format", "ndjson"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], r#"{"f":"NaN","s":"-Infinity","w":"a","m":{"k0":"v"}}"#);
    assert_eq!(lines[1], r#"{"f":"Infinity","s":0.1,"w":null,"m":null}"#);
    assert_eq!(lines[3], r#"{"f":5e-324,"s":1.1754944e-38,"w":null,"m":{"k3":null}}"#);
    place.good(&["convert", "t.parquet", "t.ndjson", "--columns", "f,s"]);
    place.good(&["verify", "t.parquet", "--against", "t.ndjson", "--columns", "f,s", "--types", "s=float32"]);
}

#[test]
fn what_ndjson_has_no_form_for_is_refused() {
    let place = Place::new();
    let days = Date32Array::from(vec![1, i32::MAX]);
    let batch = RecordBatch::try_from_iter([("day", Arc::new(days) as ArrayRef)]).unwrap();
    place.write("d.parquet", parquet_bytes(&batch));
    for arguments in [&["convert", "d.parquet", "d.ndjson"][..], &["head", "d.parquet", "--format", "ndjson"]] {
        let run = place.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{run:?}");
        assert!(run.stderr.contains("\"day\", row 1: no calendar has 2147483647 days"), "{run:?}");
    }
    place.write("twice.csv", "a,a\n1,2\n");
    let run = place.run(&["convert", "twice.csv", "d.ndjson"]);
    assert!(run.code == 2 && run.stderr.contains("two columns of the name \"a\""), "{run:?}");
    assert_eq!(place.names(), ["d.parquet", "twice.csv"]);
}

#[test]
fn what_is_wrong_in_ndjson_is_told_with_line_and_field() {
    let many = (0..12_000).map(|row| format!("{{\"a\": {row}}}\n")).collect::<String>();
    let cases: [(&str, String, &[&str], &[&str]); 14] = [
        ("kinds", "{\"a\":1}\n\n{\"a\":\"x\"}\n".into(), &[], &["line 3, field a: text", "number", "--types a=string"]),
        (
            "inner",
            "{\"a\":{\"b\":[1]}}\n{\"a\":{\"b\":[[]]}}\n".into(),
            &[],
            &["line 2, field a.b: a list", "a number"],
        ),
        ("syntax", "{\"a\":1}\n{\"a\":}\n".into(), &[], &["line 2, column 6: expected value"]),
        ("cut", "{\"a\":1}\n{\"a\":2".into(), &[], &["line 2, column", "EOF"]),
        ("array", "[{\"a\":1}]\n".into(), &[], &["line 1, column 1: each line of NDJSON is one JSON object"]),
        ("pretty", "{\n  \"a\": 1\n}\n".into(), &[], &["line 1, column 1: EOF", "a whole object"]),
        ("two", "{\"a\":1}{\"a\":2}\n".into(), &[], &["line 1, column 8: trailing characters"]),
        ("twice", "{\"a\":1,\"a\":2}\n".into(), &[], &["line 1, field a: stands twice"]),
        ("empty", "\n \n".into(), &[], &["no line"]),
        ("range", "{\"a\":1.5}\n{\"a\":1e400}\n".into(), &[], &["line 2, column"]),
        (
            "late",
            format!("{many}{{\"b\": 1}}\n"),
            &["--infer-rows", "10"],
            &["line 12001, field b", "--infer-rows all"],
        ),
        ("later", format!("{many}{{\"a\": 1.5}}\n"), &["--infer-rows", "10"], &["line 12001, field a: a number with"]),
        (
            "stated",
            format!("{many}{{\"a\": 1.5}}\n"),
            &["--types", "a=int32"],
            &["line 12001, field a: 1.5 is not Int32"],
        ),
        ("date", "{\"a\":\"2024-01-01\"}\n{\"a\":\"soon\"}\n".into(), &["--types", "a=date"], &["line 2, ", "soon"]),
    ];
    for (name, content, options, expected) in cases {
        let place = Place::new();
        place.write("t.ndjson", &content);
        for out in ["t.ent", "t.csv"] {
            let run = place.run(&[&["convert", "t.ndjson", out], options].concat());
            assert_eq!(run.code, 3, "{name}: {run:?}");
            for part in expected {
                assert!(run.stderr.contains(part), "{name}: {part} in {run:?}");
            }
            assert_eq!(run.stderr.lines().count(), 1, "{name}: {run:?}");
        }
        assert_eq!(place.names(), ["t.ndjson"], "{name}");
    }
}

#[test]
fn bad_utf8_and_stated_fields_that_lack_are_told() {
    let place = Place::new();
    place.write("t.ndjson", b"\xEF\xBB\xBF{\"a\":\"x\"}\n{\"a\":\"caf\xE9\"}\n");
    let run = place.run(&["convert", "t.ndjson", "t.ent"]);
    assert!(run.code == 3 && run.stderr.contains("line 2, column"), "{run:?}");
    place.write("t.ndjson", b"\xEF\xBB\xBF{\"a\":\"x\"}\r\n");
    place.good(&["convert", "t.ndjson", "t.ent"]);
    let run = place.run(&["convert", "t.ndjson", "t.ent", "--types", "b=int8"]);
    assert!(run.code == 2 && run.stderr.contains("\"b\""), "{run:?}");
    let run = place.run(&["convert", "t.ndjson", "t.ent", "--types", "a=Dictionary(Int32, Utf8)"]);
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn compressed_text_reads_as_plain_text_does() {
    let place = Place::new();
    let rows = (0..30_000).map(|row| format!("{row},{}.5,name {}\n", row * 7, row % 100)).collect::<String>();
    let csv = format!("id,x,name\n{rows}");
    place.write("t.csv", &csv);
    place.good(&["convert", "t.csv", "t.ndjson"]);
    let json = std::fs::read(place.path("t.ndjson")).unwrap();
    for (name, bytes) in [
        ("in/a.csv.gz", gzip(csv.as_bytes())),
        ("in/b.csv.zst", zstd(csv.as_bytes())),
        ("in/c.ndjson.gz", gzip(&json)),
        ("in/d.json.zst", zstd(&json)),
        ("in/e.jsonl", gzip(&json)),
    ] {
        place.write(name, bytes);
        place.good(&["verify", "t.csv", "--against", name]);
    }
    place.good(&["convert", "in", "out/"]);
    place.good(&["verify", "out/c.ent", "--against", "t.csv"]);
    let bad = csv.replace("\n20000,", "\n20000x,");
    place.write("bad.csv.gz", gzip(bad.as_bytes()));
    let run = place.run(&["convert", "bad.csv.gz", "bad.ent"]);
    assert!(run.code == 3 && run.stderr.contains("line 20002, column 1 (id): \"20000x\" is not Int64"), "{run:?}");
}

#[test]
fn damaged_streams_are_corrupt_files_and_nothing_is_written() {
    let place = Place::new();
    let rows: String = (0..40_000u32).map(|row| format!("{{\"a\":{}}}\n", row.wrapping_mul(2_654_435_761))).collect();
    for (kind, whole) in [("gz", gzip(rows.as_bytes())), ("zst", zstd(rows.as_bytes()))] {
        let name = format!("t.ndjson.{kind}");
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 0x40;
        for (what, bytes) in
            [("early", &whole[..whole.len() / 2]), ("early", &whole[..whole.len() - 1]), ("", &flipped), ("not ", b"x")]
        {
            place.write(&name, bytes);
            let run = place.run(&["convert", &name, "t.ent"]);
            assert_eq!(run.code, 3, "{run:?}");
            assert!(run.stderr.starts_with(&format!("error: {name}: ")) && run.stderr.contains(what), "{run:?}");
            assert_eq!(place.names(), [name.as_str()]);
        }
        std::fs::remove_file(place.path(&name)).unwrap();
    }
    place.write("t.csv", "a\n1\n");
    assert_eq!(place.run(&["convert", "t.csv", "out.csv.gz"]).code, 2);
    assert_eq!(place.run(&["convert", "t.csv", "out.ndjson.zst", "--to", "ndjson"]).code, 2);
    assert_eq!(place.run(&["head", "nothing.parquet.gz"]).code, 4);
}
