//! Conversions between all formats, many inputs, and what is left when they fail.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::sync::Arc;

use arrow_array::types::UInt8Type;
use arrow_array::{Array, ArrayRef, Date64Array, ListArray, RecordBatch, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use common::{Place, nested, parquet_bytes, read_parquet, table};
use parquet::basic::LogicalType;
use parquet::file::reader::{FileReader, SerializedFileReader};

#[test]
fn parquet_comes_back_through_every_format() {
    let place = Place::new();
    for (name, batch) in [("flat", table(70_000)), ("nested", nested(3_000)), ("empty", table(0))] {
        let path = |extension: &str| format!("{name}.{extension}");
        place.write(&path("parquet"), parquet_bytes(&batch));
        let (ent, arrow, arrows, back) = (path("ent"), path("arrow"), path("arrows"), format!("{name}-back.parquet"));
        for pair in [[&path("parquet"), &ent], [&ent, &arrow], [&arrow, &arrows], [&arrows, &path("pq")]] {
            place.good(&["convert", pair[0], pair[1]]);
            place.good(&["verify", pair[1], "--against", &path("parquet")]);
        }
        place.good(&["convert", &ent, &back]);
        assert_eq!(read_parquet(&place.path(&back)), batch, "{name}");
    }
}

#[test]
fn csv_goes_both_ways() {
    let place = Place::new();
    let text = "id,name,price,day,ok,code\n1,\"a, \"\"b\"\"\",1.5,2024-02-29,true,007\n2,,-0.25,2024-03-01,false,010\n";
    place.write("a.csv", text);
    place.good(&["convert", "a.csv", "a.ent"]);
    let schema = place.good(&["schema", "a.ent"]);
    assert_eq!(schema, "id: Int64\nname: Utf8\nprice: Float64\nday: Date32\nok: Boolean\ncode: Utf8\n");
    place.good(&["convert", "a.ent", "b.csv"]);
    assert_eq!(std::fs::read_to_string(place.path("b.csv")).unwrap(), text);
    place.good(&["convert", "a.csv", "c.ent", "--types", "id=int16,price=string"]);
    assert!(place.good(&["schema", "c.ent"]).starts_with("id: Int16\nname: Utf8\nprice: Utf8\n"));
    place.good(&["convert", "a.csv", "d.ent", "--types", "*=string"]);
    assert!(place.good(&["head", "d.ent", "-n", "1"]).contains("007"));
}

#[test]
fn blank_lines_of_a_single_column_are_nulls_and_infinity_has_a_name() {
    let place = Place::new();
    for (text, expected) in [
        ("x\n1.5\n\ninf\n-Infinity\n\n", "x\n1.5\n\"\"\ninf\n-inf\n\"\"\n"),
        ("x\r\na\r\n\r\nb", "x\na\n\"\"\nb\n"),
        ("x,y\n1,2\n\n3,4\n", "x,y\n1,2\n3,4\n"),
    ] {
        place.write("a.csv", text);
        place.good(&["convert", "a.csv", "a.ent"]);
        place.good(&["verify", "a.ent", "--against", "a.csv"]);
        place.good(&["convert", "a.ent", "b.csv"]);
        assert_eq!(std::fs::read_to_string(place.path("b.csv")).unwrap(), expected, "{text:?}");
    }
    let run = place.run(&["convert", "a.csv", "b.ent", "--types", "x=float32"]);
    assert_eq!(run.code, 0, "{run:?}");
    place.write("a.csv", "x\n1e39\n");
    assert_eq!(place.run(&["convert", "a.csv", "c.ent", "--types", "x=float32"]).code, 3);
    assert_eq!(place.run(&["head", "a.csv", "--types", "x=float32"]).code, 3);
    place.good(&["head", "a.csv"]);
}

#[test]
fn dictionaries_that_change_from_batch_to_batch_fit_every_format() {
    let place = Place::new();
    let rows = (0..150_000).map(|row| format!("{row},w{}\n", row / 1000)).collect::<String>();
    place.write("a.csv", format!("id,word\n{rows}"));
    place.good(&["convert", "a.csv", "a.parquet", "--types", "word=Dictionary(Int32, Utf8),id=int32"]);
    place.good(&["convert", "a.parquet", "a.ent"]);
    assert_eq!(place.good(&["schema", "a.ent"]), "id: Int32\nword: Dictionary(Int32, Utf8)\n");
    for (from, to) in [("a.ent", "a.arrow"), ("a.parquet", "b.arrow"), ("a.arrow", "a.arrows"), ("b.arrow", "b.ent")] {
        place.good(&["convert", from, to]);
        place.good(&["verify", to, "--against", "a.parquet"]);
    }
}

#[test]
fn dictionaries_below_structs_and_lists_fit_arrow_files() {
    let place = Place::new();
    let batches: Vec<RecordBatch> = (0..3).map(|part| worded(part * 70_000, 70_000)).collect();
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    place.write("w.arrows", writer.into_inner().unwrap());
    for (from, to) in [("w.arrows", "w.ent"), ("w.ent", "w.arrow"), ("w.arrows", "direct.arrow"), ("w.arrow", "b.ent")]
    {
        place.good(&["convert", from, to]);
        place.good(&["verify", to, "--against", "w.arrows"]);
    }
    let schema = place.good(&["schema", "w.arrow"]);
    assert_eq!(schema, place.good(&["schema", "w.arrows"]));
    assert!(schema.contains("word: Dictionary(UInt8, Utf8)"), "{schema}");
}

/// Rows with dictionaries at the top, in a struct and in a list of structs; the words shift from row to row.
fn worded(start: usize, rows: usize) -> RecordBatch {
    let words = |items: usize, shift: usize| -> ArrayRef {
        let word =
            |item: usize| (!item.is_multiple_of(7)).then(|| format!("w{}", (start + item + shift) / 1_000 % 250));
        let words: Vec<Option<String>> = (0..items).map(word).collect();
        let keyed = words.iter().map(Option::as_deref).collect::<arrow_array::DictionaryArray<UInt8Type>>();
        Arc::new(keyed)
    };
    let parent = |items: usize, shift: usize| -> ArrayRef {
        let words = words(items, shift);
        Arc::new(StructArray::from(vec![(Arc::new(Field::new("word", words.data_type().clone(), true)), words)]))
    };
    let items = parent(rows * 2, 3);
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    let lists = ListArray::new(item, OffsetBuffer::from_repeated_length(2, rows), items, None);
    RecordBatch::try_from_iter_with_nullable([
        ("word", words(rows, 0), true),
        ("pair", parent(rows, 1), true),
        ("list", Arc::new(lists) as ArrayRef, true),
    ])
    .unwrap()
}

#[test]
fn date64_is_a_parquet_date_where_it_holds_whole_days() {
    const DAY_MS: i64 = 86_400_000;
    let place = Place::new();
    for (name, odd_ms, logical_type) in [("whole", 0, Some(LogicalType::Date)), ("odd", 1, None)] {
        let days = || Date64Array::from(vec![Some(19_000 * DAY_MS), None, Some(-DAY_MS + odd_ms)]);
        let inner = (Arc::new(Field::new("d", DataType::Date64, true)), Arc::new(days()) as ArrayRef);
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("day", Arc::new(days()) as ArrayRef, true),
            ("s", Arc::new(StructArray::from(vec![inner])) as ArrayRef, false),
        ])
        .unwrap();
        place.write(&format!("{name}.parquet"), parquet_bytes(&batch));
        let (ent, back) = (format!("{name}.ent"), format!("{name}-back.parquet"));
        place.good(&["convert", &format!("{name}.parquet"), &ent]);
        place.good(&["convert", &ent, &back]);
        assert_eq!(read_parquet(&place.path(&back)), batch, "{name}");
        let file = SerializedFileReader::new(std::fs::File::open(place.path(&back)).unwrap()).unwrap();
        for column in file.metadata().file_metadata().schema_descr().columns() {
            assert_eq!(column.logical_type_ref(), logical_type.as_ref(), "{name}");
        }
    }
}

#[test]
fn an_empty_table_still_names_its_columns_in_csv() {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(0)));
    place.good(&["convert", "t.parquet", "t.csv"]);
    assert!(std::fs::read_to_string(place.path("t.csv")).unwrap().starts_with("id,city,price,"));
}

#[test]
fn any_name_can_be_asked_for() {
    let place = Place::new();
    place.write("a.csv", "\"x, y\",\"\",\"say \"\"hi\"\"\",z\n1,2,3,4\n");
    for (names, expected) in [
        ("z,\"x, y\"", "z,\"x, y\"\n4,1\n"),
        ("", "\"\"\n2\n"),
        ("z,", "z,\n4,2\n"),
        ("\"say \"\"hi\"\"\"", "\"say \"\"hi\"\"\"\n3\n"),
        ("say \"hi\"", "\"say \"\"hi\"\"\"\n3\n"),
    ] {
        assert_eq!(place.good(&["head", "a.csv", "--format", "csv", "--columns", names]), expected, "{names}");
    }
}

#[test]
fn columns_are_kept_in_the_order_asked_for() {
    let place = Place::new();
    place.write("n.parquet", parquet_bytes(&nested(10)));
    place.write("t.parquet", parquet_bytes(&table(10)));
    place.good(&["convert", "n.parquet", "n.ent"]);
    for source in ["n.parquet", "n.ent"] {
        place.good(&["convert", source, "out.ent", "--columns", "pair.y,items"]);
        let schema = place.good(&["schema", "out.ent"]);
        assert!(schema.starts_with("pair: struct, not null\n  y: Utf8, not null\nitems: list\n"), "{source}: {schema}");
    }
    let run = place.run(&["convert", "t.parquet", "out2.ent", "--columns", "id,nothing"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("nothing"), "{run:?}");
    assert!(!place.path("out2.ent").exists());
}

#[test]
fn row_groups_and_threads_are_as_asked_for() {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(10_000)));
    place.good(&["convert", "t.parquet", "one.ent", "--row-group-rows", "4096", "--threads", "1"]);
    place.good(&["convert", "t.parquet", "two.ent", "--row-group-rows", "4096", "--threads", "3"]);
    let bytes = |name: &str| std::fs::read(place.path(name)).unwrap();
    assert_eq!(bytes("one.ent"), bytes("two.ent"));
    let value = place.json(&["inspect", "one.ent"]);
    assert_eq!(value["row_groups"], serde_json::json!([4096, 4096, 1808]));
    assert_eq!(place.run(&["convert", "t.parquet", "x.ent", "--row-group-rows", "0"]).code, 2);
}

#[test]
fn many_inputs_become_one_table_or_a_file_each() {
    let place = Place::new();
    let whole = table(3_000);
    for (index, start) in [0, 1000, 2000].into_iter().enumerate() {
        place.write(&format!("in/part-{index}.parquet"), parquet_bytes(&whole.slice(start, 1000)));
    }
    place.write("in/_SUCCESS", "");
    place.write("t.parquet", parquet_bytes(&whole));
    place.good(&["convert", "in/*.parquet", "globbed.ent"]);
    place.good(&["convert", "in", "folder.ent"]);
    place.good(&["convert", "in/part-0.parquet", "in/part-1.parquet", "in/part-2.parquet", "named.parquet"]);
    for one in ["globbed.ent", "folder.ent", "named.parquet"] {
        place.good(&["verify", one, "--against", "t.parquet"]);
    }
    let value = place.json(&["convert", "in", "out/"]);
    assert_eq!(value["files"].as_array().unwrap().len(), 3);
    assert!(place.path("out/part-2.ent").exists());
    place.good(&["convert", "in", "out/", "--to", "arrow"]);
    place.good(&["verify", "out/part-1.arrow", "--against", "in/part-1.parquet"]);
}

#[test]
fn tables_of_other_schemas_are_refused_by_name() {
    let place = Place::new();
    place.write("a.parquet", parquet_bytes(&table(5)));
    place.write("b.parquet", parquet_bytes(&nested(5)));
    let run = place.run(&["convert", "a.parquet", "b.parquet", "c.ent"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stderr.contains("b.parquet") && run.stderr.contains("equal schemas"), "{run:?}");
    assert_eq!(place.names(), ["a.parquet", "b.parquet"]);
}

#[test]
fn the_input_is_never_the_output() {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(5)));
    let run = place.run(&["convert", "t.parquet", "./t.parquet"]);
    assert_eq!(run.code, 2, "{run:?}");
    place.good(&["convert", "t.parquet", "t.ent"]);
    place.good(&["convert", "t.parquet", "t.ent"]);
}

#[test]
fn usage_and_missing_files_have_their_codes() {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(5)));
    place.write("t.txt", "x");
    for (code, arguments) in [
        (2, &["convert", "t.parquet"][..]),
        (2, &["convert", "t.parquet", "t.xyz"]),
        (2, &["convert", "t.txt", "t.ent"]),
        (2, &["nonsense"]),
        (2, &["verify", "t.parquet"]),
        (4, &["convert", "none.parquet", "t.ent"]),
        (4, &["convert", "none-*.parquet", "t.ent"]),
        (4, &["convert", "t.parquet", "no/folder/t.ent"]),
        (4, &["inspect", "none.ent"]),
        (2, &["convert", "t.parquet", "t.ent", "--columns", "id,id"]),
        (2, &["head", "t.parquet", "--columns", "id,city,id"]),
        (2, &["schema", "."]),
        (2, &["head", "."]),
        (4, &["head", "none"]),
        (4, &["verify", "t.parquet", "--against", "none"]),
        (4, &["demo", "--folder", "t.txt"]),
        (2, &["head", "t.parquet", "-n", "-1"]),
        (2, &["verify", "t.txt"]),
        (3, &["inspect", "t.parquet"]),
        (3, &["convert", "t.txt", "t.ent", "--from", "parquet"]),
        (3, &["convert", "t.txt", "t.ent", "--from", "arrow"]),
    ] {
        let run = place.run(arguments);
        assert_eq!(run.code, code, "{run:?}");
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{run:?}");
        assert!(!place.path("t.ent").exists());
    }
}

#[test]
fn what_is_missing_is_told_in_one_form() {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(5)));
    place.good(&["convert", "t.parquet", "t.ent"]);
    for name in ["none.ent", "none.parquet", "none.csv", "none.arrow"] {
        let mut commands = vec![
            vec!["convert", name, "out.ent"],
            vec!["head", name],
            vec!["schema", name],
            vec!["verify", name, "--against", "t.ent"],
            vec!["verify", "t.ent", "--against", name],
            vec!["bench", "tables", name],
            vec!["bench", "columns", name],
        ];
        if name == "none.ent" {
            commands.extend([vec!["inspect", name], vec!["verify", name]]);
        }
        for arguments in commands {
            let run = place.run(&arguments);
            assert_eq!(
                (run.code, run.stderr),
                (4, format!("error: {name}: no such file or folder\n")),
                "{arguments:?}"
            );
        }
    }
    for arguments in [&["head", "t.ent", "--columns", "x"][..], &["inspect", "t.ent", "--column", "x"]] {
        let run = place.run(arguments);
        assert_eq!(run.code, 2);
        assert!(run.stderr.starts_with("error: t.ent: no column \"x\"; there are id, city, "), "{run:?}");
    }
}

#[test]
fn messages_cannot_steer_the_terminal() {
    let place = Place::new();
    place.write("a.csv", "\u{1b}[31mred,b\n1,2,3\n");
    let run = place.run(&["head", "a.csv"]);
    assert_eq!(run.code, 3);
    place.write("b.csv", "\u{1b}[31mred\nx\n7\n8\n");
    let late = place.run(&["head", "b.csv"]);
    assert!(late.stderr.contains("�[31mred"), "{late:?}");
    assert!(!run.stderr.contains('\u{1b}') && !late.stderr.contains('\u{1b}'), "{run:?} {late:?}");
}

#[test]
fn numbers_agree_with_their_nouns() {
    let place = Place::new();
    place.write("a.csv", "a\n1\n");
    assert!(place.good(&["convert", "a.csv", "a.ent"]).contains(": 1 row, "));
    assert!(place.good(&["verify", "a.ent"]).contains("whole (1 row, "));
    assert!(place.good(&["inspect", "a.ent"]).contains("1 row, 1 column, 1 row group"));
}

#[test]
fn a_column_asked_for_twice_is_told() {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(5)));
    place.good(&["convert", "t.parquet", "t.ent"]);
    for file in ["t.ent", "t.parquet"] {
        for arguments in [&["head", file][..], &["convert", file, "o.ent"], &["verify", file, "--against", "t.ent"]] {
            let run = place.run(&[arguments, &["--columns", "price,price"]].concat());
            assert_eq!(run.stderr, "error: --columns names \"price\" twice\n", "{run:?}");
            assert_eq!(run.code, 2, "{run:?}");
        }
    }
}

#[test]
fn errors_are_json_where_results_are() {
    let place = Place::new();
    place.write("t.txt", "x");
    for (code, kind, arguments) in [
        (4, "io", &["head", "none.ent"][..]),
        (2, "usage", &["convert", "t.txt", "t.ent"]),
        (2, "usage", &["nonsense"]),
        (2, "usage", &["head"]),
        (3, "corrupt", &["head", "t.txt", "--from", "parquet"]),
    ] {
        let run = place.run(&[arguments, &["--json"]].concat());
        assert_eq!(run.code, code, "{run:?}");
        let value: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
        assert_eq!((&value["error"]["kind"], &value["error"]["exit_code"]), (&kind.into(), &code.into()), "{run:?}");
        let message = value["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.starts_with("error"), "{run:?}");
    }
}

#[test]
fn verify_reads_files_whose_names_tell_no_format() {
    let place = Place::new();
    place.write("t.data", parquet_bytes(&table(50)));
    place.good(&["convert", "t.data", "t.bin", "--from", "parquet", "--to", "ent"]);
    place.good(&["verify", "t.bin", "--from", "ent", "--against", "t.data", "--against-from", "parquet"]);
}

#[test]
fn lists_have_no_place_in_csv() {
    let place = Place::new();
    place.write("n.parquet", parquet_bytes(&nested(5)));
    for arguments in [&["convert", "n.parquet", "n.csv"][..], &["head", "n.parquet", "--format", "csv"]] {
        let run = place.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
        assert!(run.stderr.contains("items, pair"), "{run:?}");
    }
    assert_eq!(place.names(), ["n.parquet"]);
}

#[test]
fn dates_of_no_calendar_are_shown_as_numbers_and_have_no_place_in_csv() {
    let place = Place::new();
    let days = arrow_array::Date32Array::from(vec![1, i32::MAX]);
    let batch = RecordBatch::try_from_iter([("day", Arc::new(days) as ArrayRef)]).unwrap();
    place.write("d.parquet", parquet_bytes(&batch));
    place.good(&["convert", "d.parquet", "d.ent"]);
    for file in ["d.parquet", "d.ent"] {
        let text = place.good(&["head", file]);
        assert!(text.contains("1970-01-02\n2147483647 days"), "{text}");
        for arguments in [&["convert", file, "d.csv"][..], &["head", file, "--format", "csv"]] {
            let run = place.run(arguments);
            assert_eq!((run.code, run.stdout.as_str()), (3, ""), "{run:?}");
            assert!(run.stderr.contains("\"day\", row 1: no calendar has 2147483647 days"), "{run:?}");
        }
    }
    assert!(place.good(&["inspect", "d.ent"]).contains("2147483647 days"));
    assert!(!place.path("d.csv").exists());
}

#[test]
fn what_is_wrong_in_csv_is_told_with_line_and_column() {
    let many = (0..20_000).map(|row| format!("{row},{row}.5,a\n")).collect::<String>();
    let cases: [(&str, Vec<u8>, &[&str]); 15] = [
        ("short", b"a,b,c\n1,2,3\n4,5\n".to_vec(), &["line 3, column 3 (c)", "2 fields"]),
        ("long", b"a,b\n1,2\n\n1,2,3\n".to_vec(), &["line 4, column 3", "3 fields"]),
        ("number", b"a,b\n1,2\n3,4\n5,x6\n".to_vec(), &["line 4, column 2 (b)", "\"x6\"", "Int64", "--types b=string"]),
        (
            "range",
            b"a,b\n1,inf\n2,-Infinity\n3,1e400\n".to_vec(),
            &["line 4, column 2 (b)", "\"1e400\"", "--types b=string"],
        ),
        ("late-range", format!("a,b,c\n{many}1,-2e308,a\n").into_bytes(), &["line 20002, column 2 (b)", "-2e308"]),
        ("single", b"\na\n1\n\n\n2\nx\n".to_vec(), &["line 7, column 1 (a)", "\"x\""]),
        ("single-crlf", b"a\r\n1.5\r\n\r\n-1e999\r\n".to_vec(), &["line 4, column 1 (a)", "-1e999"]),
        ("crlf", b"a,b\r\n1,2\r\n3,4\r\n5,x6\r\n".to_vec(), &["line 4, column 2 (b)"]),
        ("multiline", b"a,b\n\"x\ny\",2\n\"x\n\ny\",z\n\"u\",3\n,4\n".to_vec(), &["line 6, column 2 (b)", "\"z\""]),
        ("encoding", b"a,b\n1,caf\xe9\n".to_vec(), &["line 2, column 2 (b)", "0xE9", "UTF-8"]),
        ("header", b"a,caf\xe9\n1,2\n".to_vec(), &["line 1, column 2", "UTF-8"]),
        ("utf16", b"\xff\xfea\0,\0b\0\n\0".to_vec(), &["line 1, column 1", "UTF-8"]),
        ("empty", Vec::new(), &["line 1", "no names"]),
        ("late", format!("a,b,c\n{many}1,none,a\n").into_bytes(), &["line 20002, column 2 (b)", "\"none\"", "Float64"]),
        ("late-shape", format!("a,b,c\n{many}1\n").into_bytes(), &["line 20002, column 2 (b)", "1 field"]),
    ];
    for (name, content, expected) in cases {
        let place = Place::new();
        place.write("t.csv", &content);
        for out in ["t.ent", "t.parquet", "t.arrow"] {
            let run = place.run(&["convert", "t.csv", out]);
            assert_eq!(run.code, 3, "{name}: {run:?}");
            for part in expected {
                assert!(run.stderr.contains(part), "{name}: {part} in {run:?}");
            }
            assert_eq!(run.stderr.lines().count(), 1, "{name}: {run:?}");
        }
        assert_eq!(place.names(), ["t.csv"], "{name}");
    }
}

#[test]
fn bad_utf8_far_in_is_found_too() {
    let place = Place::new();
    let mut content = b"a,b\n".to_vec();
    (0..15_000).for_each(|row| content.extend(format!("{row},x\n").bytes()));
    content.extend(b"1,\xc3\x28\n");
    place.write("t.csv", content);
    let run = place.run(&["convert", "t.csv", "t.ent"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.stderr.contains("line 15002, column 2 (b)"), "{run:?}");
}

#[test]
fn damaged_files_are_told_apart_from_foreign_ones() {
    let place = Place::new();
    place.write("t.parquet", parquet_bytes(&table(2_000)));
    place.good(&["convert", "t.parquet", "t.ent"]);
    let whole = std::fs::read(place.path("t.ent")).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 4] ^= 0x10;
    place.write("cut.ent", &whole[..whole.len() / 2]);
    place.write("flipped.ent", &flipped);
    place.write("foreign.ent", b"PAR1, not an Entasis file, but something else of some length, to be sure....");
    place.write("empty.ent", b"");
    for file in ["cut.ent", "flipped.ent", "foreign.ent", "empty.ent"] {
        for arguments in [&["verify", file][..], &["convert", file, "out.parquet"]] {
            let run = place.run(arguments);
            assert_eq!(run.code, 3, "{run:?}");
            let told = format!("{}{}", run.stdout, run.stderr);
            assert!(told.contains(file) && told.lines().count() == 1, "{run:?}");
        }
    }
    let told = place.run(&["verify", "flipped.ent"]).stdout;
    assert!(told.contains("column \"") && told.contains("at byte "), "{told}");
    let value = place.json(&["verify", "flipped.ent"]);
    assert!(value["damages"][0]["offset"].as_u64() > Some(0));
    assert!(!place.path("out.parquet").exists());
}

#[test]
fn a_quote_that_is_never_closed_is_told_and_nothing_is_written() {
    let place = Place::new();
    place.write("a.csv", "a,b\n1,x\n2,\"y\n3,z\n4,w\n");
    let run = place.run(&["convert", "a.csv", "a.ent"]);
    assert_eq!(run.code, 3);
    let message = run.stderr;
    assert!(message.contains("a.csv: line 3: ") && message.contains("never closed"), "{message}");
    assert!(!place.path("a.ent").exists());
}
