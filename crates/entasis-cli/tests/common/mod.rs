//! Running the built binary in a folder of its own.

#![allow(dead_code, reason = "every test file uses some of it")]
#![allow(clippy::unwrap_used, reason = "a test that can't be set up should fail")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, FixedSizeListArray, Float32Array, Float64Array, Int64Array,
    RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, UInt8Array,
};
use arrow_schema::{DataType, Field, Fields};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use tempfile::TempDir;

/// A folder for one test, and the program in it.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Names in the folder, hidden ones too.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_entasis"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        Run::from(self.command(arguments).output().unwrap(), arguments)
    }

    /// Runs, expects success, and gives what was printed.
    pub fn good(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, 0, "{run:?}");
        run.stdout
    }

    /// Runs with `--json` and expects one JSON value.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let run = self.run(&[arguments, &["--json"]].concat());
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Run {
    pub arguments: Vec<String>,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    fn from(output: Output, arguments: &[&str]) -> Self {
        Run {
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A table with many types, nulls and special values.
pub fn table(rows: i64) -> RecordBatch {
    let some = |row: i64, every: i64| row % every != 0;
    let ids = Int64Array::from_iter_values((0..rows).map(|row| row * 3 - 7));
    let city = StringArray::from_iter(
        (0..rows).map(|row| some(row, 5).then(|| ["Bern", "Ulm, old", "Zü\"rich"][row as usize % 3])),
    );
    let price = Float64Array::from_iter((0..rows).map(|row| match row % 11 {
        0 => None,
        1 => Some(-0.0),
        2 => Some(f64::INFINITY),
        _ => Some(row as f64 / 100.0),
    }));
    let ratio = Float32Array::from_iter_values((0..rows).map(|row| row as f32 * 0.25));
    let flag = BooleanArray::from_iter((0..rows).map(|row| some(row, 7).then_some(row % 2 == 0)));
    let day = Date32Array::from_iter_values((0..rows).map(|row| 19_000 + row as i32));
    let at = TimestampMicrosecondArray::from_iter_values((0..rows).map(|row| 1_700_000_000_000_000 + row * 1_234_567))
        .with_timezone("UTC");
    let money = Decimal128Array::from_iter_values((0..rows).map(|row| i128::from(row) * 101))
        .with_precision_and_scale(12, 2)
        .unwrap();
    let level = UInt8Array::from_iter_values((0..rows).map(|row| (row % 200) as u8));
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(ids) as ArrayRef, false),
        ("city", Arc::new(city), true),
        ("price", Arc::new(price), true),
        ("ratio", Arc::new(ratio), false),
        ("flag", Arc::new(flag), true),
        ("day", Arc::new(day), false),
        ("at", Arc::new(at), false),
        ("money", Arc::new(money), false),
        ("level", Arc::new(level), false),
    ])
    .unwrap()
}

/// A table with a list and a struct.
pub fn nested(rows: i64) -> RecordBatch {
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in 0..rows {
        match row % 4 {
            0 => lists.append_null(),
            length => lists.append_value((0..length).map(|item| Some((row + item) as i32))),
        }
    }
    let x = Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef;
    let y = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("y{row}")))) as ArrayRef;
    let fields = Fields::from(vec![Field::new("x", DataType::Int64, false), Field::new("y", DataType::Utf8, false)]);
    let pair = StructArray::new(fields, vec![x, y], None);
    RecordBatch::try_from_iter_with_nullable([
        ("items", Arc::new(lists.finish()) as ArrayRef, true),
        ("pair", Arc::new(pair), false),
    ])
    .unwrap()
}

/// Vectors of eight floats that have no pattern but that of their signs and exponents.
pub fn vectors(rows: u32) -> RecordBatch {
    let scattered = |number: u32| (number.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0;
    let floats = Float32Array::from_iter_values((0..rows * 8).map(scattered));
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    let lists = FixedSizeListArray::new(item, 8, Arc::new(floats), None);
    RecordBatch::try_from_iter_with_nullable([("vector", Arc::new(lists) as ArrayRef, false)]).unwrap()
}

pub fn parquet_bytes(batch: &RecordBatch) -> Vec<u8> {
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

pub fn read_parquet(path: &Path) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path).unwrap()).unwrap();
    let schema = builder.schema().clone();
    let batches = builder.build().unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    arrow_select::concat::concat_batches(
        &schema,
        batches.iter().map(|batch| batch.clone().with_schema(schema.clone()).unwrap()).collect::<Vec<_>>().iter(),
    )
    .unwrap()
}
