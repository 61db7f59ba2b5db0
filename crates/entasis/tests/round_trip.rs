//! What is written comes back: whole, by rows, row groups and columns, row by row, from every source, and the bytes of
//! a file depend on its rows and options alone.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use std::{collections::HashMap, sync::Arc};

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray, StructArray, UInt64Array, cast::AsArray};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef};
use common::{assert_read, assert_same, collect, read_all, write};
use entasis::{
    Error, FileWriter, Projection, ReadRequest, Reader, SortColumn, Strings, WriteOptions, Writer,
    generate::{Generator, flat_types, nested_types},
};

/// A schema of some columns of every type, flat and nested.
fn every_type() -> SchemaRef {
    let mut generator = Generator::new(17);
    let mut fields: Vec<Arc<Field>> = flat_types()
        .into_iter()
        .chain(nested_types())
        .enumerate()
        .map(|(index, data_type)| Arc::new(Field::new(format!("type_{index}"), data_type, true)))
        .collect();
    fields.extend(generator.schema(20).fields().iter().cloned());
    let metadata = HashMap::from([("pandas".to_owned(), "{}".to_owned()), ("a".to_owned(), "б".to_owned())]);
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

fn small_groups() -> WriteOptions {
    WriteOptions { row_group_rows: 3_000, ..WriteOptions::default() }
}

#[test]
fn every_type_comes_back_with_its_schema() {
    let schema = every_type();
    for (seed, rows) in [(1, 0), (2, 1), (3, 2), (4, 1_023), (5, 1_024), (6, 1_025), (7, 9_000)] {
        let batch = Generator::new(seed).batch(&schema, rows);
        for options in [WriteOptions::default(), small_groups()] {
            let reader = Reader::from_bytes(write(&schema, std::slice::from_ref(&batch), options)).unwrap();
            assert_eq!(reader.schema().unwrap(), schema);
            assert_eq!(reader.rows(), rows as u64);
            assert_read(reader.read(ReadRequest::default()).unwrap(), &batch, &format!("{rows} rows"));
        }
    }
}

#[test]
fn random_schemas_come_back_from_every_source() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..40 {
        let mut generator = Generator::new(seed);
        let columns = generator.below(30);
        let schema = generator.schema(columns);
        let rows = generator.below(4_000);
        let batch = generator.batch(&schema, rows);
        let path = folder.path().join(format!("{seed}.ent"));
        let mut writer = FileWriter::create(&path, schema.clone(), small_groups()).unwrap();
        writer.write(&batch).unwrap();
        let summary = writer.finish().unwrap();
        assert_eq!((summary.rows, summary.row_groups), (rows as u64, rows.div_ceil(3_000)));
        let readers = [
            Reader::open(&path).unwrap(),
            Reader::open_mapped(&path).unwrap(),
            Reader::from_bytes(std::fs::read(&path).unwrap().into()).unwrap(),
        ];
        for reader in readers {
            assert_eq!(reader.size_bytes(), summary.size_bytes);
            assert_read(reader.read(ReadRequest::default()).unwrap(), &batch, &format!("seed {seed}"));
            let damages = reader.verify(&mut |_| {}).unwrap();
            assert_eq!(damages, [], "seed {seed}");
        }
    }
}

#[test]
fn bytes_do_not_depend_on_batches_or_threads() {
    for seed in 100..110 {
        let mut generator = Generator::new(seed);
        let schema = generator.schema(12);
        let batch = generator.batch(&schema, 5_000);
        let options = || WriteOptions { row_group_rows: 4_100, row_group_bytes: 1 << 18, ..WriteOptions::default() };
        let expected = write(&schema, std::slice::from_ref(&batch), options());
        let threaded = write(&schema, std::slice::from_ref(&batch), WriteOptions { threads: 2, ..options() });
        assert_eq!(threaded, expected, "seed {seed}, two threads");
        for longest in [3_000, 1_024, 700, 64] {
            let mut cuts = Vec::new();
            let mut start = 0;
            while start < batch.num_rows() {
                let rows = (1 + generator.below(longest)).min(batch.num_rows() - start);
                cuts.push(batch.slice(start, rows));
                start += rows;
            }
            let threads = 1 + longest % 2;
            let cut = write(&schema, &cuts, WriteOptions { threads, ..options() });
            assert!(cut == expected, "seed {seed}, batches of up to {longest} rows");
        }
    }
}

#[test]
fn rows_and_row_groups_can_be_asked_for() {
    let schema = every_type();
    let batch = Generator::new(8).batch(&schema, 7_500);
    let reader = Reader::from_bytes(write(&schema, std::slice::from_ref(&batch), small_groups())).unwrap();
    assert_eq!(reader.row_group_rows().unwrap(), [3_000, 3_000, 1_500]);
    for (start, end) in
        [(0, 1), (0, 7_500), (2_999, 3_001), (1_024, 2_048), (7_499, 7_500), (3_000, 3_000), (7_000, 9_999)]
    {
        for batch_rows in [500, 65_536] {
            let request = ReadRequest { rows: Some(start..end), batch_rows, threads: 2, ..ReadRequest::default() };
            let rows = end.min(7_500) - start;
            let expected = batch.slice(start as usize, rows as usize);
            assert_read(reader.read(request).unwrap(), &expected, &format!("{start}..{end}"));
        }
    }
    let request = ReadRequest { row_groups: Some(vec![2, 0]), batch_rows: 1_000, ..ReadRequest::default() };
    let mut first_rows = [6_000, 7_000, 0, 1_000, 2_000].into_iter();
    for read in reader.read(request).unwrap() {
        let (read, first) = (read.unwrap(), first_rows.next().unwrap());
        assert_same(&read, &batch.slice(first, read.num_rows()), "row groups 2 and 0");
    }
    assert_eq!(first_rows.next(), None);
    let missing = reader.read(ReadRequest { row_groups: Some(vec![3]), ..ReadRequest::default() });
    assert!(matches!(missing, Err(Error::InvalidArgument(_))));
}

#[test]
fn single_rows_can_be_taken() {
    let schema = every_type();
    let batch = Generator::new(9).batch(&schema, 7_500);
    let reader = Reader::from_bytes(write(&schema, std::slice::from_ref(&batch), small_groups())).unwrap();
    let mut generator = Generator::new(10);
    let random: Vec<u64> = (0..500).map(|_| generator.below(7_500) as u64).collect();
    for rows in [vec![], vec![0], vec![7_499, 0, 7_499, 3_000, 2_999], (100..200).collect(), random] {
        let taken = reader.take(&rows, &Projection::all(), Strings::AsStored).unwrap();
        assert_eq!((taken.num_rows(), taken.schema()), (rows.len(), schema.clone()));
        // Row by row: Arrow's own `take` loses the rows of values of no width.
        for (index, &row) in rows.iter().enumerate() {
            assert_same(&taken.slice(index, 1), &batch.slice(row as usize, 1), &format!("row {row}"));
        }
    }
    let beyond = reader.take(&[7_500], &Projection::all(), Strings::AsStored);
    assert!(matches!(beyond, Err(Error::InvalidArgument(_))));
}

#[test]
fn projections_reach_fields_of_structs() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..2_000).map(|row| (row % 7 != 0).then_some(row))));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..2_000).map(|row| format!("text {row}"))));
    let inner_fields =
        Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("y.z", DataType::Utf8, false)]);
    let inner: ArrayRef = Arc::new(StructArray::new(inner_fields.clone(), vec![numbers.clone(), texts.clone()], None));
    let validity = (0..2_000).map(|row| row % 5 != 0).collect::<Vec<_>>();
    let outer_fields = Fields::from(vec![
        Field::new("inner", DataType::Struct(inner_fields), false),
        Field::new("n", DataType::Int64, true),
    ]);
    let outer: ArrayRef =
        Arc::new(StructArray::new(outer_fields.clone(), vec![inner, numbers.clone()], Some(validity.into())));
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, true),
        Field::new("s", DataType::Struct(outer_fields), true),
        Field::new("a", DataType::Utf8, false),
        Field::new("s.n", DataType::Utf8, false),
        Field::new("", DataType::Utf8, false),
    ]));
    let columns = vec![numbers, outer.clone(), texts.clone(), texts.clone(), texts];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let reader = Reader::from_bytes(write(&schema, &[batch], small_groups())).unwrap();
    let read = |paths: &[&str]| {
        let paths: Vec<_> = paths.iter().map(|&path| path.to_owned()).collect();
        let projection = reader.projection(&paths).unwrap();
        let taken = reader.take(&[3, 5], &projection, Strings::AsStored).unwrap();
        let read = collect(reader.read(ReadRequest { projection, ..ReadRequest::default() }).unwrap()).unwrap();
        if read.num_columns() > 0 {
            let expected = arrow_select::take::take_record_batch(&read, &UInt64Array::from(vec![3, 5])).unwrap();
            assert_same(&taken, &expected, "taken");
        }
        read
    };
    assert_eq!(read(&["a"]).num_columns(), 2, "both columns of the name");
    assert_eq!(read(&["s.n"]).column(0).data_type(), &DataType::Utf8, "the literal name comes first");
    assert_eq!(read(&[""]).num_columns(), 1);
    assert_eq!(read(&[]).num_columns(), 0);
    let narrow = read(&["s.inner.y.z"]);
    let (narrow, whole) = (narrow.column(0).as_struct(), outer.as_struct());
    assert_eq!(narrow.nulls(), whole.nulls());
    assert_eq!(narrow.column_names(), ["inner"]);
    let (narrow, whole) = (narrow.column(0).as_struct(), whole.column(0).as_struct());
    assert_eq!(narrow.column_names(), ["y.z"]);
    assert_eq!(narrow.column(0), whole.column(1));
    let merged = read(&["s.inner.x", "a", "s.inner"]);
    assert_eq!(merged.schema().fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["s", "a", "a"]);
    assert_eq!(merged.column(0).as_struct().column(0).as_struct().num_columns(), 2);
    for path in ["b", "s.m", "a.x", "s.inner.x.x", "."] {
        assert!(matches!(reader.projection(&[path.to_owned()]), Err(Error::InvalidArgument(_))), "{path}");
    }
}

#[test]
fn strings_come_as_they_are_wanted() {
    let mut generator = Generator::new(12);
    let fields: Vec<_> =
        [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, DataType::BinaryView, DataType::Binary]
            .into_iter()
            .enumerate()
            .map(|(index, data_type)| Field::new(index.to_string(), data_type, true))
            .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = generator.batch(&schema, 4_000);
    let reader = Reader::from_bytes(write(&schema, std::slice::from_ref(&batch), small_groups())).unwrap();
    for (strings, expected) in [
        (
            Strings::AsStored,
            [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View, DataType::BinaryView, DataType::Binary],
        ),
        (
            Strings::Views,
            [DataType::Utf8View, DataType::Utf8View, DataType::Utf8View, DataType::BinaryView, DataType::BinaryView],
        ),
        (Strings::Offsets, [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8, DataType::Binary, DataType::Binary]),
    ] {
        let read = collect(reader.read(ReadRequest { strings, ..ReadRequest::default() }).unwrap()).unwrap();
        let types: Vec<_> = read.columns().iter().map(|column| column.data_type().clone()).collect();
        assert_eq!(types, expected);
        assert_same(&read, &batch, &format!("{strings:?}"));
    }
}

#[test]
fn large_values_come_back_and_lie_outside_blocks() {
    let long = |row: usize| format!("{row:>5}").repeat(4_000 + row);
    let texts: ArrayRef = Arc::new(StringArray::from_iter((0..50).map(|row| match row % 3 {
        0 => Some(long(row)),
        1 => Some("short".to_owned()),
        _ => None,
    })));
    let more: ArrayRef = Arc::new(StringArray::from_iter_values((0..50).map(|row| long(row + 1_000))));
    let schema =
        Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Utf8, false)]));
    let batch = RecordBatch::try_new(schema.clone(), vec![texts, more]).unwrap();
    let options = || WriteOptions { row_group_rows: 20, ..WriteOptions::default() };
    let bytes = write(&schema, std::slice::from_ref(&batch), options());
    let cuts: Vec<_> = (0..50).step_by(7).map(|start| batch.slice(start, 7.min(50 - start))).collect();
    assert_eq!(write(&schema, &cuts, WriteOptions { threads: 2, ..options() }), bytes);
    let reader = Reader::from_bytes(bytes).unwrap();
    for strings in [Strings::AsStored, Strings::Views] {
        let read = collect(reader.read(ReadRequest { strings, ..ReadRequest::default() }).unwrap()).unwrap();
        assert_same(&read, &batch, "large values");
    }
    let record = reader.column(1).unwrap();
    assert!(record.chunks.iter().flat_map(|chunk| &chunk.blocks).all(|block| block.size_bytes < 2_000));
    let layout = reader.layout().unwrap();
    assert_eq!(layout.iter().filter(|part| part.what.contains("large values")).count(), 3);
    assert_eq!(reader.verify(&mut |_| {}).unwrap(), []);
}

#[test]
fn the_layout_covers_every_byte_once() {
    for seed in 200..210 {
        let mut generator = Generator::new(seed);
        let schema = generator.schema(9);
        let rows = generator.below(7_000);
        let batch = generator.batch(&schema, rows);
        let reader = Reader::from_bytes(write(&schema, &[batch], small_groups())).unwrap();
        assert_eq!(end_of(&reader.layout().unwrap(), 0), reader.size_bytes());
    }
}

/// Where `parts` end, which begin at `start` and leave no gap, their own parts neither.
fn end_of(parts: &[entasis::Part], start: u64) -> u64 {
    parts.iter().fold(start, |end, part| {
        assert_eq!(part.offset, end, "{part:?}");
        assert!(part.children.is_empty() || end_of(&part.children, end) == end + part.size_bytes, "{part:?}");
        end + part.size_bytes
    })
}

#[test]
fn metadata_pages_are_taken_apart() {
    let fields: Vec<_> = (0..200).map(|index| Field::new(format!("column {index}"), DataType::Int64, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = Generator::new(7).batch(&schema, 10);
    let layout = Reader::from_bytes(write(&schema, &[batch], small_groups())).unwrap().layout().unwrap();
    let pages: Vec<_> = layout.iter().filter(|part| part.what.starts_with("metadata page")).collect();
    assert!(pages.len() > 1, "some record lies in two pages");
    assert!(pages.iter().all(|page| page.children.last().unwrap().what == "checksum of the page"));
    let pieces: Vec<&str> = pages.iter().flat_map(|page| &page.children).map(|piece| piece.what.as_str()).collect();
    for index in 0..200 {
        assert!(pieces.contains(&format!("record of column \"column {index}\"").as_str()));
    }
    for piece in ["record table", "hash index", "file record"] {
        assert!(pieces.contains(&piece), "{piece}");
    }
}

#[test]
fn files_without_columns_keep_their_rows() {
    let schema = Arc::new(Schema::empty());
    for rows in [0, 1, 5_000] {
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
        let reader = Reader::from_bytes(write(&schema, &[batch], small_groups())).unwrap();
        assert_eq!(reader.rows(), rows as u64);
        assert_eq!(read_all(&reader).unwrap().num_rows(), rows);
        assert_eq!(
            reader.take(&vec![0; rows.min(3)], &Projection::all(), Strings::AsStored).unwrap().num_rows(),
            rows.min(3)
        );
    }
}

#[test]
fn what_is_said_about_a_file_comes_back() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("s", DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into()), true),
        Field::new("a", DataType::Int64, true),
    ]));
    let sort = |column: &str, descending| SortColumn { column: column.to_owned(), descending, nulls_first: true };
    let options = WriteOptions {
        user_metadata: vec![("k".to_owned(), vec![0, 1, 255]), ("k".to_owned(), vec![])],
        sort_order: vec![sort("a", false), sort("s.x", true)],
        ..WriteOptions::default()
    };
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), Some(1)]));
    let struct_fields = vec![Field::new("x", DataType::Int64, true)];
    let descending: ArrayRef = Arc::new(Int64Array::from(vec![1, 3, 2]));
    let s: ArrayRef = Arc::new(StructArray::new(struct_fields.into(), vec![descending], None));
    let batch = RecordBatch::try_new(schema.clone(), vec![s, numbers]).unwrap();
    let reader = Reader::from_bytes(write(&schema, std::slice::from_ref(&batch), options.clone())).unwrap();
    assert_eq!(reader.user_metadata().unwrap(), options.user_metadata);
    assert_eq!(reader.sort_order().unwrap(), options.sort_order);
    assert!(reader.written_by().unwrap().starts_with("entasis "));
    let mut ids = Vec::new();
    for column in 0..reader.column_count() {
        ids.extend(reader.column(column).unwrap().tree().iter().map(|(path, record)| (path.clone(), record.field_id)));
    }
    assert_eq!(ids, [("s".to_owned(), 0), ("s.x".to_owned(), 1), ("a".to_owned(), 2)]);
    let mut writer = Writer::new(Vec::new(), schema, options).unwrap();
    writer.write(&batch).unwrap();
    let error = writer.write(&batch).unwrap_err();
    assert!(error.to_string().contains("row 3 comes before row 2"), "{error}");
    assert_eq!(writer.finish().unwrap().1.rows, 3, "the batch that failed isn't in the file");
}

#[test]
fn batches_of_other_schemas_are_refused() {
    let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
    let other = Arc::new(Schema::new(vec![Field::new("b", DataType::Int64, true)]));
    let batch = |schema: SchemaRef| {
        RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1])) as ArrayRef]).unwrap()
    };
    let mut writer = Writer::new(Vec::new(), schema.clone(), WriteOptions::default()).unwrap();
    assert!(matches!(writer.write(&batch(other)), Err(Error::InvalidArgument(_))));
    writer.write(&batch(schema.clone())).unwrap();
    let reader = Reader::from_bytes(writer.finish().unwrap().0.into()).unwrap();
    assert_same(&read_all(&reader).unwrap(), &batch(schema), "the right batch");
}

#[test]
fn dictionaries_that_outgrow_their_keys_can_be_written() {
    let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    let schema = Arc::new(Schema::new(vec![Field::new("d", data_type, true)]));
    let batch = |first: usize| {
        let texts: Vec<_> = (0..100).map(|value| format!("{}", first + value)).collect();
        let array: arrow_array::DictionaryArray<arrow_array::types::Int8Type> =
            texts.iter().map(String::as_str).collect();
        RecordBatch::try_new(schema.clone(), vec![Arc::new(array) as ArrayRef]).unwrap()
    };
    let batches = [batch(0), batch(100), batch(200)];
    let reader = Reader::from_bytes(write(&schema, &batches, WriteOptions::default())).unwrap();
    for (number, expected) in batches.iter().enumerate() {
        let rows = Some(number as u64 * 100..number as u64 * 100 + 100);
        let read = collect(reader.read(ReadRequest { rows, ..ReadRequest::default() }).unwrap()).unwrap();
        assert_same(&read, expected, "a batch");
    }
}

#[test]
fn columns_have_the_encodings_that_were_asked_for() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("s", DataType::Struct(Fields::from(vec![Field::new("t", DataType::Utf8, true)])), true),
    ]));
    let strings = StringArray::from_iter((0..5_000).map(|row| (row % 7 > 0).then(|| format!("row {row}"))));
    let Some(DataType::Struct(fields)) = schema.fields().last().map(|field| field.data_type().clone()) else {
        panic!()
    };
    let structs = StructArray::new(fields, vec![Arc::new(strings) as ArrayRef], None);
    let numbers = Int64Array::from_iter((0..5_000).map(|row| (row % 5 > 0).then_some(row % 100)));
    let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(numbers), Arc::new(structs)]).unwrap();
    let options = |encodings: &[(&str, &str)]| WriteOptions {
        encodings: encodings.iter().map(|(path, name)| (path.to_string(), name.to_string())).collect(),
        ..WriteOptions::default()
    };
    let bytes = write(&schema, std::slice::from_ref(&batch), options(&[("n", "dictionary"), ("s.t", "Strings")]));
    let reader = Reader::from_bytes(bytes).unwrap();
    assert_read(reader.read(ReadRequest::default()).unwrap(), &batch, "encodings that were asked for");
    for (column, path, name) in [(0, "n", "Dictionary"), (1, "s.t", "Strings")] {
        let tree = reader.column(column).unwrap().tree();
        let (_, record) = tree.iter().find(|(found, _)| found == path).unwrap();
        let words = reader.block(record, 0, 0).unwrap().cascade().words();
        assert!(words.contains(name), "{path}: {words}");
    }
    for wrong in [("n", "Gzip"), ("none", "Plain"), ("s", "Plain"), ("n", "Constant")] {
        let error = Writer::new(Vec::new(), schema.clone(), options(&[wrong]))
            .and_then(|mut writer| {
                writer.write(&batch)?;
                writer.finish().map(drop)
            })
            .unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        assert!(error.to_string().contains(if wrong.1 == "Gzip" { "Gzip" } else { wrong.0 }), "{error}");
    }
}
