//! `entasis bench embeddings`

use std::fs;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema};
use bytes::Bytes;
use clap::Args;
use entasis::source::{BytesSource, Source as _};
use entasis::{EncodeOptions, Profile, ReadRequest, Reader};
use serde_json::{Value, json};

use super::clock::{self, Plan, Work};
use super::contenders::encode_entasis;
use super::touch::{self, Touch};
use super::{Report, Selected, Source};
use crate::describe::describe;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::Table;
use crate::units;

/// Embeddings beside NumPy: bytes, and what loading takes
///
/// Every column of fixed-size lists of numbers without nulls is written by itself, as an Entasis file and as NumPy's `.npy`. Loading
/// opens a file and reads every byte of its values once; both files lie in the system's cache. NumPy's file is mapped into memory, as by
/// `numpy.load(…, mmap_mode="r")`: nothing is checked and nothing copied, so that only the pages and the reading cost. Entasis verifies
/// all checksums as it goes: from a mapped file, and from one that is read by position.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    selected: Selected,

    /// What a byte is worth against the time that decoding takes: size, balanced or scan
    #[arg(long, default_value = "balanced")]
    profile: Profile,

    /// Rounds in which the files take turns; the median counts
    #[arg(long, value_name = "COUNT", default_value = "7", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench embeddings data/
  entasis bench embeddings vectors.parquet --profile scan --json

JSON: {\"columns\": [{\"table\", \"column\", \"rows\", \"type\", \"cascades\", \"entasis_bytes\", \"numpy_bytes\",
  \"numpy_seconds\", \"mapped_seconds\", \"read_seconds\"}]}; seconds are of CPU time";

/// A round of each file takes at least this long.
const SAMPLE_SECONDS: f64 = 0.02;

/// Measures every column of embeddings.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let files = arguments.selected.files()?;
    let folder = Folder::new()?;
    let progress = Progress::new("bench");
    let mut columns = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let name = file.relative.display().to_string();
        progress.set(index as f64 / files.len() as f64, || name.clone());
        let source = Source::open(&file.path, &name)?;
        for column in 0..source.schema.fields().len() {
            columns.extend(measure(&source, column, arguments, &folder.0)?);
        }
    }
    drop(progress);
    if columns.is_empty() {
        return Err(Failure::usage("no column holds fixed-size lists of numbers without nulls"));
    }
    if report.json {
        let columns: Vec<Value> = columns.iter().map(Measured::to_json).collect();
        report.json(&json!({ "columns": columns }))?;
        return Ok(Exit::Good);
    }
    print(report.out, &columns)?;
    Ok(Exit::Good)
}

/// A folder for the files, which goes with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("entasis-bench-{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| Failure::io(&path, &error))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Whoever cleans up temporary folders finds what couldn't be removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Measured {
    table: String,
    column: String,
    data_type: DataType,
    rows: u64,
    cascades: Vec<String>,
    entasis_bytes: u64,
    numpy_bytes: u64,
    numpy_seconds: f64,
    mapped_seconds: f64,
    read_seconds: f64,
}

/// Measures a column, if it holds embeddings.
fn measure(source: &Source, column: usize, arguments: &Arguments, folder: &Path) -> Result<Option<Measured>, Failure> {
    let field = source.schema.field(column);
    let Some((descriptor, shape)) = numpy_type(field.data_type()) else { return Ok(None) };
    let arrays: Vec<ArrayRef> = source.batches.iter().map(|batch| batch.column(column).clone()).collect();
    let Some(values) = arrays.iter().map(values_of).collect::<Option<Vec<_>>>().map(|parts| parts.concat()) else {
        return Ok(None);
    };
    let (numpy_path, path) = (folder.join("values.npy"), folder.join("values.ent"));
    let header = numpy_header(descriptor, source.rows(), &shape);
    let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes).map_err(|error| Failure::io(path, &error));
    write(&numpy_path, &[header.as_slice(), &values].concat())?;
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let failure = |error| Failure::arrow(Path::new(&source.name), error);
    let batches = source.batches.iter().map(|batch| batch.project(&[column])).collect::<Result<Vec<_>, _>>();
    write(&path, &encode_entasis(&schema, &batches.map_err(failure)?, EncodeOptions::of(arguments.profile))?)?;
    for reader in [Reader::open_mapped(&path)?, Reader::open(&path)?] {
        let mut found = Vec::new();
        for batch in reader.read(ReadRequest::default())? {
            found.extend(values_of(batch?.column(0)).unwrap_or_default());
        }
        if found != values {
            let message = format!("{}: column {:?} comes back with other values", source.name, field.name());
            return Err(Failure::Told { exit: Exit::Different, message });
        }
    }
    let mut works: Vec<Work<'_>> = vec![
        Box::new(|| {
            let mapped = BytesSource::map(&numpy_path)?;
            black_box(touch::fold(&mapped.read(header.len() as u64..mapped.size_bytes())?));
            Ok(())
        }),
        Box::new(|| load(&Reader::open_mapped(&path)?)),
        Box::new(|| load(&Reader::open(&path)?)),
    ];
    let plan = Plan { rounds: usize::from(arguments.rounds), sample_seconds: SAMPLE_SECONDS };
    let times = clock::interleaved(&mut works, plan)?;
    drop(works);
    let reader = Reader::open(&path)?;
    Ok(Some(Measured {
        table: source.name.clone(),
        column: field.name().clone(),
        data_type: field.data_type().clone(),
        rows: source.rows(),
        cascades: vec![describe(&reader, field.name(), &*reader.column(0)?)?.cascade_words()],
        entasis_bytes: reader.size_bytes(),
        numpy_bytes: (header.len() + values.len()) as u64,
        numpy_seconds: times[0].median,
        mapped_seconds: times[1].median,
        read_seconds: times[2].median,
    }))
}

/// Reads every value of a file.
fn load(reader: &Reader) -> Result<(), Failure> {
    let mut touch = Touch::default();
    for batch in reader.read(ReadRequest::default())? {
        touch.batch(batch?);
    }
    black_box(touch.sum());
    Ok(())
}

/// NumPy's name for the numbers of fixed-size lists, and how many a row has in each dimension; `None` for other types.
fn numpy_type(data_type: &DataType) -> Option<(&'static str, Vec<i32>)> {
    let DataType::FixedSizeList(item, size) = data_type else { return None };
    let descriptor = match item.data_type() {
        DataType::Int8 => "|i1",
        DataType::UInt8 => "|u1",
        DataType::Int16 => "<i2",
        DataType::UInt16 => "<u2",
        DataType::Int32 => "<i4",
        DataType::UInt32 => "<u4",
        DataType::Int64 => "<i8",
        DataType::UInt64 => "<u8",
        DataType::Float16 => "<f2",
        DataType::Float32 => "<f4",
        DataType::Float64 => "<f8",
        nested => {
            let (descriptor, inner) = numpy_type(nested)?;
            return Some((descriptor, [vec![*size], inner].concat()));
        }
    };
    Some((descriptor, vec![*size]))
}

/// What a `.npy` file of version 1.0 has before its values: magic, length and a dictionary, padded to a multiple of 64 bytes.
fn numpy_header(descriptor: &str, rows: u64, shape: &[i32]) -> Vec<u8> {
    let shape: String = shape.iter().map(|size| format!(", {size}")).collect();
    let mut words = format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({rows}{shape}), }}");
    let length = (10 + words.len() + 1).next_multiple_of(64) - 10;
    words.extend(std::iter::repeat_n(' ', length - words.len() - 1));
    [b"\x93NUMPY\x01\x00", (length as u16).to_le_bytes().as_slice(), words.as_bytes(), b"\n"].concat()
}

/// The bytes of the numbers in fixed-size lists of any depth, in order; `None` if something is null.
fn values_of(array: &ArrayRef) -> Option<Bytes> {
    if array.null_count() > 0 {
        return None;
    }
    if let Some(list) = array.as_fixed_size_list_opt() {
        return values_of(list.values());
    }
    let (data, size_bytes) = (array.to_data(), array.data_type().primitive_width()?);
    let start = data.offset() * size_bytes;
    Some(Bytes::copy_from_slice(&data.buffers()[0][start..start + data.len() * size_bytes]))
}

impl Measured {
    fn size_ratio(&self) -> f64 {
        self.entasis_bytes as f64 / self.numpy_bytes as f64
    }

    fn mapped_ratio(&self) -> f64 {
        self.mapped_seconds / self.numpy_seconds.max(1e-12)
    }

    fn read_ratio(&self) -> f64 {
        self.read_seconds / self.numpy_seconds.max(1e-12)
    }

    fn to_json(&self) -> Value {
        json!({
            "table": self.table,
            "column": self.column,
            "rows": self.rows,
            "type": self.data_type.to_string(),
            "cascades": self.cascades,
            "entasis_bytes": self.entasis_bytes,
            "numpy_bytes": self.numpy_bytes,
            "numpy_seconds": self.numpy_seconds,
            "mapped_seconds": self.mapped_seconds,
            "read_seconds": self.read_seconds,
        })
    }
}

fn print(out: &mut dyn Write, columns: &[Measured]) -> io::Result<()> {
    let mut table = Table::new(&[
        "table",
        "column",
        ">rows",
        ">NumPy",
        ">Entasis",
        ">/NumPy",
        ">NumPy",
        ">mapped",
        ">/NumPy",
        ">read",
        ">/NumPy",
        "encoded as",
    ]);
    for column in columns {
        let mut row = vec![column.table.clone(), column.column.clone(), units::grouped(column.rows)];
        row.extend([units::bytes(column.numpy_bytes), units::bytes(column.entasis_bytes)]);
        row.extend([format!("{:.3}", column.size_ratio()), units::seconds(column.numpy_seconds)]);
        row.extend([units::seconds(column.mapped_seconds), format!("{:.2}", column.mapped_ratio())]);
        row.extend([units::seconds(column.read_seconds), format!("{:.2}", column.read_ratio())]);
        row.push(column.cascades.join("; "));
        table.row(row);
    }
    table.print(out)?;
    let mean = |ratio: fn(&Measured) -> f64| {
        (columns.iter().map(|column| ratio(column).ln()).sum::<f64>() / columns.len() as f64).exp()
    };
    let (size, mapped, read) = (mean(Measured::size_ratio), mean(Measured::mapped_ratio), mean(Measured::read_ratio));
    writeln!(out, "\nEntasis over NumPy, geometric means: bytes {size:.3}, load mapped {mapped:.2}, read {read:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_that_numpy_writes() {
        let header = numpy_header("<f4", 7, &[2, 3]);
        assert_eq!(header.len(), 128);
        assert!(
            header.starts_with(
                b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (7, 2, 3), }"
            )
        );
        assert!(header.ends_with(b"  \n"));
    }
}
