//! `entasis bench lookups`

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use clap::Args;
use entasis::compare::first_difference;
use entasis::encoding::{Comparison, FloatOrder, Predicate, Scalar};
use entasis::generate::Generator;
use entasis::scan::scalar_of;
use entasis::source::{BytesSource, FileSource, Source};
use entasis::{Condition, Projection, ReadLimits, Reader, ScanRequest, Strings};
use serde_json::{Value, json};

use super::Report;
use super::accounted::{Account, Accounted, Network};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::stats::ColumnStats;
use crate::table::Table;
use crate::units;

/// Lookups of single values: time, requests and bytes, for files of the same rows, such as one with Bloom filters and one without
///
/// Every lookup is put to each file read by position, to the same file mapped into memory, and to a store far away: that is the file
/// again, with a latency for each request and a bandwidth for all, which are added to the time and not slept. Ten requests are under way at
/// a time. Values that are there are drawn from the first file, those that aren't lie beside such. The whole row comes out, or the columns
/// that are named. Opening isn't counted. Times are of the clock, on one thread; the operating system has the files in memory. All files
/// must give the same rows, in the same order.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The column to look in
    #[arg(value_name = "COLUMN")]
    column: String,

    /// Entasis files of the same rows
    #[arg(required = true, value_name = "FILE")]
    paths: Vec<PathBuf>,

    /// Columns that come out; all if not given
    #[arg(long, value_name = "NAMES", value_parser = super::super::column_names)]
    columns: Option<super::super::ColumnNames>,

    /// Lookups of each kind, each of another value; the median counts
    #[arg(long, value_name = "COUNT", default_value = "25", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Milliseconds that the store far away takes to answer
    #[arg(long, value_name = "MS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..))]
    latency: u32,

    /// Megabytes that it sends per second
    #[arg(long, value_name = "MB", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    bandwidth: u32,
}

const AFTER_HELP: &str = "\
Examples:
  entasis convert hits.parquet plain.ent
  entasis convert hits.parquet bloom.ent --bloom UserID
  entasis bench lookups UserID plain.ent bloom.ent --columns UserID,URL

JSON: {\"column\", \"latency_seconds\", \"bytes_per_second\", \"files\": [{\"file\", \"size_bytes\", \"column_bytes\",
  \"bloom_bytes\"}], \"lookups\": [{\"file\", \"store\": \"file\" | \"mapped\" | \"remote\", \"value\": \"there\" |
  \"not there\", \"seconds\": {\"median\", \"least\", \"most\"}, \"requests\", \"bytes\", \"rows_fallen_by_blooms\"}]};
  requests, bytes and rows are medians, and the seconds of `remote` hold those of the network";

/// Measures every lookup in every file.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let network = Network {
        latency_seconds: f64::from(arguments.latency) / 1e3,
        bytes_per_second: f64::from(arguments.bandwidth) * 1e6,
    };
    let files =
        arguments.paths.iter().map(|path| File::open(path, &arguments.column)).collect::<Result<Vec<_>, _>>()?;
    let first = Reader::open(&arguments.paths[0])?;
    let asked = Asked::of(&first, files[0].column, usize::from(arguments.rounds))?;
    let progress = Progress::new("bench");
    let mut lookups = Vec::new();
    for (number, (file, path)) in files.iter().zip(&arguments.paths).enumerate() {
        progress.set(number as f64 / files.len() as f64, || file.name.clone());
        let by_position: Arc<dyn Source> = Arc::new(FileSource::open(path)?);
        let mapped: Arc<dyn Source> = Arc::new(BytesSource::map(path)?);
        let stores =
            [("file", by_position.clone(), None), ("mapped", mapped, None), ("remote", by_position, Some(network))];
        for (store, source, network) in stores {
            let source = Accounted::new(source, network);
            for (value, predicates) in [("there", &asked.there), ("not there", &asked.not_there)] {
                let bench = Bench { file, first: &first, first_column: files[0].column, arguments };
                lookups.push(bench.measure(store, &source, value, predicates)?);
            }
        }
    }
    drop(progress);
    if report.json {
        report.json(&json!({
            "column": arguments.column,
            "latency_seconds": network.latency_seconds,
            "bytes_per_second": network.bytes_per_second,
            "files": files.iter().map(File::to_json).collect::<Vec<_>>(),
            "lookups": lookups.iter().map(Lookup::to_json).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Good);
    }
    print(report.out, &files, &lookups)?;
    Ok(Exit::Good)
}

/// A file, and how much of it the column takes.
struct File {
    name: String,
    size_bytes: u64,
    column: usize,
    stats: ColumnStats,
}

impl File {
    fn open(path: &Path, column: &str) -> Result<Self, Failure> {
        let reader = Reader::open(path)?;
        let found = reader.columns_named(column)?;
        let Some(&index) = found.first() else {
            return Err(crate::columns::unknown(&*reader.schema()?, column, path));
        };
        let stats = ColumnStats::of(column, &*reader.column(index)?);
        Ok(Self { name: path.display().to_string(), size_bytes: reader.size_bytes(), column: index, stats })
    }

    fn to_json(&self) -> Value {
        json!({
            "file": self.name,
            "size_bytes": self.size_bytes,
            "column_bytes": self.stats.size_bytes,
            "bloom_bytes": self.stats.bloom_bytes,
        })
    }
}

/// What is looked for.
struct Asked {
    there: Vec<Predicate>,
    not_there: Vec<Predicate>,
}

impl Asked {
    /// Draws values from rows; those that aren't there are beside them.
    fn of(reader: &Reader, column: usize, rounds: usize) -> Result<Self, Failure> {
        let mut generator = Generator::new(1);
        let projection = Projection::of_columns([column]);
        let equal = |scalar| Predicate::Compare(Comparison::Equal, scalar, FloatOrder::Total);
        let mut asked = Self { there: Vec::new(), not_there: Vec::new() };
        for _ in 0..100 * rounds {
            if asked.there.len() == rounds && asked.not_there.len() == rounds {
                return Ok(asked);
            }
            let row = generator.below(reader.rows().max(1) as usize) as u64;
            if row >= reader.rows() {
                break;
            }
            let found = reader.take(&[row], &projection, Strings::AsStored)?;
            let Some(scalar) = scalar_of(found.column(0)) else { continue };
            if asked.not_there.len() < rounds
                && let Some(beside) = beside(&scalar).map(equal)
                && count(reader, column, &beside)? == 0
            {
                asked.not_there.push(beside);
            }
            if asked.there.len() < rounds {
                asked.there.push(equal(scalar));
            }
        }
        let name = reader.name();
        Err(Failure::usage(format!(
            "{name}: the column has too few values to look for, or too many of all that there can be"
        )))
    }
}

/// The next value of its type, more or less.
fn beside(scalar: &Scalar) -> Option<Scalar> {
    match scalar {
        Scalar::Int(value) => value.checked_add(1).map(Scalar::Int),
        Scalar::Float(value) => Some(Scalar::Float(f64::from_bits(value.to_bits().wrapping_add(1)))),
        Scalar::Bytes(bytes) => Some(Scalar::Bytes([bytes.as_slice(), b"~"].concat())),
        Scalar::Bool(_) | Scalar::Int256(_) => None,
    }
}

/// Rows that pass.
fn count(reader: &Reader, column: usize, predicate: &Predicate) -> Result<usize, Failure> {
    let (condition, projection) = (Condition::column(column, predicate.clone()), Projection::of_columns([]));
    let request = ScanRequest { condition, projection, ..ScanRequest::default() };
    let mut rows = 0;
    for batch in reader.scan(request)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

/// Lookups in one file, held against those in the first.
struct Bench<'a> {
    file: &'a File,
    first: &'a Reader,
    first_column: usize,
    arguments: &'a Arguments,
}

impl Bench<'_> {
    fn measure(
        &self,
        store: &'static str,
        source: &Arc<Accounted>,
        value: &'static str,
        predicates: &[Predicate],
    ) -> Result<Lookup, Failure> {
        let reader = Reader::from_source(source.clone(), ReadLimits::default())?;
        reader.schema()?;
        let (mut seconds, mut accounts, mut fallen) = (Vec::new(), Vec::new(), Vec::new());
        for predicate in predicates {
            source.take();
            let begin = Instant::now();
            let (found, rows_fallen) = self.look_up(&reader, self.file.column, predicate)?;
            let clock = begin.elapsed().as_secs_f64();
            let account = source.take();
            seconds.push(clock + account.network_seconds);
            accounts.push(account);
            fallen.push(rows_fallen);
            let (expected, _) = self.look_up(self.first, self.first_column, predicate)?;
            let is_there = found.num_rows() > 0;
            let difference = first_difference(&found, &expected)?.map(|difference| difference.to_string());
            if difference.is_some() || is_there != (value == "there") {
                let what =
                    difference.unwrap_or_else(|| format!("{} rows of a value that is {value}", found.num_rows()));
                let message = format!("{}: {what}", self.file.name);
                return Err(Failure::Told { exit: Exit::Different, message });
            }
        }
        seconds.sort_by(f64::total_cmp);
        let of_accounts = |of: fn(&Account) -> u64| median(accounts.iter().map(of).collect());
        Ok(Lookup {
            file: self.file.name.clone(),
            store,
            value,
            requests: of_accounts(|account| account.requests),
            size_bytes: of_accounts(|account| account.size_bytes),
            rows_fallen: median(fallen),
            seconds,
        })
    }

    /// The rows of a value, and how many fell by Bloom filters.
    fn look_up(&self, reader: &Reader, column: usize, predicate: &Predicate) -> Result<(RecordBatch, u64), Failure> {
        let projection = match &self.arguments.columns {
            Some(names) => reader.projection(&names.0)?,
            None => Projection::all(),
        };
        let condition = Condition::column(column, predicate.clone());
        let mut scan = reader.scan(ScanRequest { condition, projection, ..ScanRequest::default() })?;
        let batches = scan.by_ref().collect::<entasis::Result<Vec<_>>>()?;
        let found = concat_batches(scan.schema(), &batches).map_err(entasis::Error::from)?;
        Ok((found, scan.metrics().rows_fallen_by_blooms))
    }
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[all.len() / 2]
}

/// What one kind of lookup took.
struct Lookup {
    file: String,
    store: &'static str,
    value: &'static str,
    /// Ascending.
    seconds: Vec<f64>,
    requests: u64,
    size_bytes: u64,
    rows_fallen: u64,
}

impl Lookup {
    /// Median, least and most.
    fn times(&self) -> [f64; 3] {
        [self.seconds.len() / 2, 0, self.seconds.len() - 1].map(|place| self.seconds[place])
    }

    fn to_json(&self) -> Value {
        let [median, least, most] = self.times();
        json!({
            "file": self.file,
            "store": self.store,
            "value": self.value,
            "seconds": { "median": median, "least": least, "most": most },
            "requests": self.requests,
            "bytes": self.size_bytes,
            "rows_fallen_by_blooms": self.rows_fallen,
        })
    }
}

fn print(out: &mut dyn Write, files: &[File], lookups: &[Lookup]) -> io::Result<()> {
    let mut table = Table::new(&["file", ">bytes", ">of the column", ">Bloom filters"]);
    for file in files {
        let bytes = [file.size_bytes, file.stats.size_bytes, file.stats.bloom_bytes].map(units::grouped);
        table.row([vec![file.name.clone()], bytes.to_vec()].concat());
    }
    table.print(out)?;
    writeln!(out)?;
    let headings =
        ["file", "store", "value", ">time", ">least", ">most", ">requests", ">bytes", ">fell by Bloom filters"];
    let mut table = Table::new(&headings);
    for lookup in lookups {
        let mut row = vec![lookup.file.clone(), lookup.store.to_owned(), lookup.value.to_owned()];
        row.extend(lookup.times().map(units::seconds));
        row.extend([
            units::grouped(lookup.requests),
            units::bytes(lookup.size_bytes),
            units::grouped(lookup.rows_fallen),
        ]);
        table.row(row);
    }
    table.print(out)
}
