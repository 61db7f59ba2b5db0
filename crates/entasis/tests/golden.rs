//! Files of the past. Each file in `golden/` is named by the version of the format and by what it shows, and lies beside
//! its values as an Arrow IPC file. Every reader reads every one of them; and today's writer still makes today's bytes.
//!
//! Until 1.0 the bytes may change, but on purpose: say in the changelog what changed, and make the files anew with
//! `ENTASIS_GOLDEN=write cargo test -p entasis --test golden`. From 1.0 on they are immutable, and a change of the
//! writer's choices gets new files beside the old.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;
mod golden_values;

use std::{collections::BTreeSet, fs, path::PathBuf};

use arrow_array::{Array, RecordBatch};
use arrow_ipc::{reader::FileReader, writer::FileWriter as IpcWriter};
use common::{assert_same, concat, read_all, write};
use entasis::{
    BloomColumn, EncodeOptions, Profile, Projection, Reader, SortColumn, Strings, WriteOptions,
    encoding::encoding_names,
};

/// A file by its name, and how it was written.
struct Golden {
    name: &'static str,
    values: fn() -> RecordBatch,
    options: WriteOptions,
}

fn goldens() -> Vec<Golden> {
    let golden = |name, values| Golden { name, values, options: WriteOptions::default() };
    let mut groups = golden("v0-row-groups", golden_values::groups);
    groups.options = WriteOptions {
        row_group_rows: 1_024,
        user_metadata: vec![("made by".to_owned(), b"golden.rs".to_vec()), (String::new(), vec![0, 255])],
        sort_order: vec![SortColumn { column: "number".to_owned(), descending: false, nulls_first: false }],
        ..WriteOptions::default()
    };
    let mut bloom = golden("v0-bloom-filters", golden_values::identifiers);
    bloom.options.row_group_rows = 2_048;
    bloom.options.bloom = ["float", "nested.number", "row"].map(BloomColumn::new).into();
    bloom.options.bloom.push(BloomColumn { column: "key".to_owned(), rate: 0.001 });
    let mut size = golden("v0-profile-size", golden_values::size);
    let named = |(column, encoding): (&str, &str)| (column.to_owned(), encoding.to_owned());
    size.options.encode = EncodeOptions::of(Profile::Size);
    size.options.encodings =
        [("walk", "Pco"), ("prices", "Pco"), ("bytes", "Pco"), ("notes", "Zstd")].map(named).into();
    let mut recurring = golden("v0-recurring", golden_values::recurring);
    recurring.options.encodings = vec![("rounds".to_owned(), "Serial".to_owned())];
    vec![
        golden("v0-types", golden_values::types),
        golden("v0-layouts", golden_values::layouts),
        golden("v0-categories", golden_values::categories),
        golden("v0-cascades", golden_values::cascades),
        recurring,
        golden("v0-shared-parts", golden_values::shared),
        golden("v0-large-values", golden_values::large),
        golden("v0-no-rows", golden_values::no_rows),
        golden("v0-no-columns", golden_values::no_columns),
        groups,
        bloom,
        size,
    ]
}

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden"].iter().collect()
}

fn path(name: &str, extension: &str) -> PathBuf {
    folder().join(format!("{name}.{extension}"))
}

/// The values as they were recorded.
fn recorded(name: &str) -> RecordBatch {
    let file = fs::File::open(path(name, "arrow")).unwrap();
    let reader = FileReader::try_new(file, None).unwrap();
    let schema = reader.schema();
    concat(&schema, &reader.collect::<Result<Vec<_>, _>>().unwrap())
}

/// Writes the files anew, if that was asked for.
fn regenerate() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        if std::env::var("ENTASIS_GOLDEN").as_deref() != Ok("write") {
            return;
        }
        fs::create_dir_all(folder()).unwrap();
        for Golden { name, values, options } in goldens() {
            let batch = values();
            let mut writer = IpcWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
            writer.write(&batch).unwrap();
            fs::write(path(name, "arrow"), writer.into_inner().unwrap()).unwrap();
            fs::write(path(name, "ent"), write(&batch.schema(), &[batch], options)).unwrap();
        }
    });
}

#[test]
fn every_file_still_reads_to_its_values() {
    regenerate();
    let names: BTreeSet<_> = goldens().iter().map(|golden| format!("{}.ent", golden.name)).collect();
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<_> =
        files.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".ent")).collect();
    assert_eq!(files, names, "every file has a test and every test a file");
    for Golden { name, options, .. } in goldens() {
        let batch = recorded(name);
        let reader = Reader::open(&path(name, "ent")).unwrap();
        assert_eq!(reader.schema().unwrap(), batch.schema(), "{name}");
        let read = read_all(&reader).unwrap();
        assert_same(&read, &batch, name);
        for (field, (read, array)) in batch.schema().fields().iter().zip(read.columns().iter().zip(batch.columns())) {
            if field.dict_is_ordered() == Some(true) {
                assert_eq!(read.to_data(), array.to_data(), "{name}: keys and values, not only rows");
            }
        }
        assert_eq!(reader.verify(&mut |_| {}).unwrap(), [], "{name}");
        assert_eq!(reader.user_metadata().unwrap(), options.user_metadata, "{name}");
        assert_eq!(reader.sort_order().unwrap(), options.sort_order, "{name}");
        if let Some(last) = reader.rows().checked_sub(1) {
            let taken = reader.take(&[last], &Projection::all(), Strings::AsStored).unwrap();
            assert_same(&taken, &batch.slice(last as usize, 1), name);
        }
    }
}

#[test]
fn today_s_writer_makes_the_same_bytes() {
    regenerate();
    for Golden { name, options, .. } in goldens() {
        let batch = recorded(name);
        let made = write(&batch.schema(), &[batch], options);
        let golden = fs::read(path(name, "ent")).unwrap();
        let first = made.iter().zip(&golden).position(|(made, golden)| made != golden);
        assert!(
            made == golden,
            "{name}: {} bytes instead of {}, the first other byte at {first:?}. If that is meant, say so in the changelog, \
             and make the files anew with ENTASIS_GOLDEN=write cargo test -p entasis --test golden",
            made.len(),
            golden.len()
        );
    }
}

#[test]
fn every_encoding_and_every_part_of_the_format_is_in_some_file() {
    regenerate();
    let mut encodings = BTreeSet::new();
    let (mut parts, mut groups, mut structs, mut indexed, mut blooms) = (0, 0, 0, 0, 0);
    for Golden { name, .. } in goldens() {
        let reader = Reader::open(&path(name, "ent")).unwrap();
        groups = groups.max(reader.row_group_count());
        indexed = indexed.max(reader.column_count());
        for column in 0..reader.column_count() {
            for (_, record) in reader.column(column).unwrap().tree() {
                encodings.extend(record.encodings.iter().copied());
                parts += record.chunks.iter().map(|chunk| chunk.parts.len()).sum::<usize>();
                blooms += record.chunks.iter().filter(|chunk| chunk.bloom.is_some()).count();
                structs += usize::from(record.children.is_some());
            }
        }
    }
    let registry: BTreeSet<_> = encoding_names().into_iter().map(|(id, _)| id).collect();
    assert_eq!(encodings, registry);
    assert!(parts > 0 && groups > 1 && structs > 0 && indexed > 16, "{parts} {groups} {structs} {indexed}");
    assert_eq!(blooms, 6, "of three columns in two row groups; those of ascending rows are left out");
}
