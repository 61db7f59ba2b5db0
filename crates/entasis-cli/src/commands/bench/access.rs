//! `entasis bench access`

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{RecordBatch, UInt64Array};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use clap::Args;
use entasis::compare::first_difference;
use entasis::generate::Generator;
use entasis::source::{BytesSource, FileSource, Source};
use entasis::{Projection, ReadLimits, ReadRequest, Reader, Strings};
use serde_json::{Value, json};

use super::Report;
use super::accounted::{Account, Accounted, Network};
use super::wide;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::Table;
use crate::units;

/// Single rows, short ranges, the first rows of one column, and one column of many: time, requests and bytes
///
/// Every question is put to a file read by position, to the same file mapped into memory, and to a store far away: that is the file
/// again, with a latency for each request and a bandwidth for all, which are added to the time and not slept. Ten requests are under way
/// at a time. A `cold` reader has just been opened, which isn't counted but where it is the question; a `warm` one has answered the same
/// kind of question before, for other rows. The operating system has the file in memory in any case. Times are of the clock, on one
/// thread. Before anything is timed, the rows are read by reading the whole columns, and every answer is compared with them.
///
/// Then tables of ten rows and many columns, made for the purpose, are opened in memory and in the store far away, each time to read
/// another of their columns.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Entasis file to read
    #[arg(value_name = "FILE")]
    path: PathBuf,

    /// Rounds of measurement, each with other rows; the median counts
    #[arg(long, value_name = "COUNT", default_value = "15", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Columns of the tables that are made and opened
    #[arg(long, value_name = "COUNTS", default_value = "10,100,1000,10000,100000", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    widths: Vec<u32>,

    /// Milliseconds that the store far away takes to answer
    #[arg(long, value_name = "MS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..))]
    latency: u32,

    /// Megabytes that it sends per second
    #[arg(long, value_name = "MB", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    bandwidth: u32,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench access trips.ent
  entasis bench access trips.ent --latency 100 --bandwidth 20 --json

JSON: {\"file\", \"rows\", \"columns\": [name], \"latency_seconds\", \"bytes_per_second\",
  \"accesses\": [{\"store\": \"file\" | \"mapped\" | \"memory\" | \"remote\", \"question\", \"reader\": \"cold\" | \"warm\",
  \"seconds\": {\"median\", \"least\", \"most\"}, \"requests\", \"bytes\"}]}; requests and bytes are medians, and
  the seconds of `remote` hold those of the network";

/// Columns that rows are taken of.
const COLUMNS: usize = 8;
/// Rows of a range, and of the column that is read after opening.
const RANGE_ROWS: u64 = 1_000;

/// Measures every question on every store.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let reader = Reader::open(&arguments.path)?;
    if reader.rows() == 0 || reader.column_count() == 0 {
        return Err(Failure::usage(format!("{} has no rows to take", arguments.path.display())));
    }
    let rounds = usize::from(arguments.rounds);
    let bench = Bench::new(&reader, rounds)?;
    let network = Network {
        latency_seconds: f64::from(arguments.latency) / 1e3,
        bytes_per_second: f64::from(arguments.bandwidth) * 1e6,
    };
    let file: Arc<dyn Source> = Arc::new(FileSource::open(&arguments.path)?);
    let mapped: Arc<dyn Source> = Arc::new(BytesSource::map(&arguments.path)?);
    let stores =
        [("file", file.clone(), None), ("mapped", mapped.clone(), None), ("remote", file.clone(), Some(network))];
    let progress = Progress::new("bench");
    let mut accesses = Vec::new();
    for (place, (store, source, network)) in stores.into_iter().enumerate() {
        progress.set(place as f64 / 4.0, || store.to_owned());
        let source = Accounted::new(source, network);
        for question in Question::ALL {
            for is_warm in [false, true].into_iter().filter(|is_warm| !(question == Question::Open && *is_warm)) {
                accesses.push(bench.measure(store, &source, question, is_warm)?);
            }
        }
    }
    for (place, columns) in arguments.widths.iter().enumerate() {
        let fraction = 0.75 + 0.25 * place as f64 / arguments.widths.len() as f64;
        progress.set(fraction, || units::counted(u64::from(*columns), "column"));
        accesses.extend(wide::measure(*columns as usize, network, rounds)?);
    }
    drop(progress);
    if report.json {
        let values: Vec<Value> = accesses.iter().map(Access::to_json).collect();
        report.json(&json!({
            "file": arguments.path.display().to_string(),
            "rows": reader.rows(),
            "columns": bench.names,
            "latency_seconds": network.latency_seconds,
            "bytes_per_second": network.bytes_per_second,
            "accesses": values,
        }))?;
        return Ok(Exit::Good);
    }
    print(report.out, &bench, &accesses)?;
    Ok(Exit::Good)
}

/// What is asked of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// So many scattered rows.
    Take(usize),
    /// Rows that follow each other.
    Range,
    /// The first rows of one column, opening included.
    Open,
}

impl Question {
    const ALL: [Question; 5] =
        [Question::Take(1), Question::Take(10), Question::Take(1_000), Question::Range, Question::Open];

    fn words(self) -> String {
        match self {
            Question::Take(1) => "1 row".to_owned(),
            Question::Take(rows) => format!("{} scattered rows", units::grouped(rows as u64)),
            Question::Range => format!("{} rows in a range", units::grouped(RANGE_ROWS)),
            Question::Open => format!("open, {} rows of one column", units::grouped(RANGE_ROWS)),
        }
    }
}

/// A question with its rows, by number.
struct Asked {
    question: Question,
    rows: Vec<u64>,
}

impl Asked {
    fn range(&self) -> Range<u64> {
        let first = self.rows.first().copied().unwrap_or(0);
        first..first + self.rows.len() as u64
    }
}

/// The questions, and the right answers.
struct Bench {
    names: Vec<String>,
    projection: Projection,
    /// By round, for each of [`Question::ALL`].
    rounds: Vec<Vec<Asked>>,
    /// All rows that are asked for, ascending, and what they hold.
    rows: Vec<u64>,
    values: RecordBatch,
}

impl Bench {
    fn new(reader: &Reader, rounds: usize) -> Result<Self, Failure> {
        let count = reader.column_count().min(COLUMNS);
        let columns: Vec<usize> = (0..count).map(|place| place * reader.column_count() / count).collect();
        let names = columns.iter().map(|&column| Ok(reader.column(column)?.field.name().clone()));
        let names = names.collect::<entasis::Result<Vec<_>>>()?;
        let projection = Projection::of_columns(columns);
        let (rows, mut generator) = (reader.rows(), Generator::new(1));
        let mut ask = |question| {
            let rows = match question {
                Question::Take(count) => (0..count).map(|_| generator.below(rows as usize) as u64).collect(),
                Question::Range => {
                    let count = RANGE_ROWS.min(rows);
                    let first = generator.below((rows - count + 1) as usize) as u64;
                    (first..first + count).collect()
                }
                Question::Open => (0..RANGE_ROWS.min(rows)).collect(),
            };
            Asked { question, rows }
        };
        // One more than is measured warms readers up.
        let rounds: Vec<Vec<_>> = (0..=rounds).map(|_| Question::ALL.map(&mut ask).into()).collect();
        let wanted: BTreeSet<u64> = rounds.iter().flatten().flat_map(|asked| asked.rows.iter().copied()).collect();
        let rows: Vec<u64> = wanted.into_iter().collect();
        let values = picked_from_all(reader, &projection, &rows)?;
        Ok(Self { names, projection, rounds, rows, values })
    }

    /// Times one question in all rounds.
    fn measure(
        &self,
        store: &'static str,
        source: &Arc<Accounted>,
        question: Question,
        is_warm: bool,
    ) -> Result<Access, Failure> {
        let open = || Reader::from_source(source.clone(), ReadLimits::default());
        let mut asked = self.rounds.iter().flatten().filter(|asked| asked.question == question);
        let mut reader = open()?;
        if let (true, Some(first)) = (is_warm, asked.next()) {
            self.answer(&reader, first)?;
        }
        let (mut seconds, mut accounts) = (Vec::new(), Vec::new());
        for asked in asked {
            if !is_warm && question != Question::Open {
                reader = open()?;
            }
            source.take();
            let begin = Instant::now();
            if question == Question::Open {
                reader = open()?;
            }
            let answer = self.answer(&reader, asked)?;
            let clock = begin.elapsed().as_secs_f64();
            let account = source.take();
            seconds.push(clock + account.network_seconds);
            accounts.push(account);
            self.check(asked, &answer)?;
        }
        Ok(Access::new(store, question.words(), is_warm, seconds, accounts))
    }

    fn answer(&self, reader: &Reader, asked: &Asked) -> Result<RecordBatch, Failure> {
        let request = |projection| ReadRequest { projection, rows: Some(asked.range()), ..ReadRequest::default() };
        let request = match asked.question {
            Question::Take(_) => return Ok(reader.take(&asked.rows, &self.projection, Strings::AsStored)?),
            Question::Range => request(self.projection.clone()),
            Question::Open => {
                let column = reader.columns_named(&self.names[0])?.first().copied().unwrap_or(0);
                request(Projection::of_columns([column]))
            }
        };
        let batches = reader.read(request)?;
        let schema = batches.schema().clone();
        let batches = batches.collect::<entasis::Result<Vec<_>>>()?;
        Ok(concat_batches(&schema, &batches).map_err(entasis::Error::from)?)
    }

    /// Fails unless an answer holds what reading everything gave.
    fn check(&self, asked: &Asked, answer: &RecordBatch) -> Result<(), Failure> {
        let place = |row: &u64| self.rows.partition_point(|known| known < row) as u64;
        let places = UInt64Array::from_iter_values(asked.rows.iter().map(place));
        let columns: Vec<usize> = (0..answer.num_columns()).collect();
        let values = self.values.project(&columns).and_then(|values| take_record_batch(&values, &places));
        match first_difference(answer, &values.map_err(entasis::Error::from)?)? {
            None => Ok(()),
            Some(difference) => {
                let message = format!("{}: {difference} (reading everything)", asked.question.words());
                Err(Failure::Told { exit: Exit::Different, message })
            }
        }
    }
}

/// The values of `rows`, ascending, found by reading all rows.
fn picked_from_all(reader: &Reader, projection: &Projection, rows: &[u64]) -> Result<RecordBatch, Failure> {
    let batches = reader.read(ReadRequest { projection: projection.clone(), ..ReadRequest::default() })?;
    let schema = batches.schema().clone();
    let (mut first, mut rest, mut picked) = (0, rows, Vec::new());
    for batch in batches {
        let batch = batch?;
        let end = first + batch.num_rows() as u64;
        let (here, after) = rest.split_at(rest.partition_point(|&row| row < end));
        let places = UInt64Array::from_iter_values(here.iter().map(|row| row - first));
        picked.push(take_record_batch(&batch, &places).map_err(entasis::Error::from)?);
        (first, rest) = (end, after);
    }
    Ok(concat_batches(&schema, &picked).map_err(entasis::Error::from)?)
}

/// What one question took.
pub struct Access {
    store: &'static str,
    question: String,
    is_warm: bool,
    /// Ascending.
    seconds: Vec<f64>,
    /// The median of all rounds.
    pub requests: u64,
    size_bytes: u64,
}

impl Access {
    /// Of rounds with their seconds, of which there is at least one, and what was read in each.
    pub fn new(
        store: &'static str,
        question: String,
        is_warm: bool,
        mut seconds: Vec<f64>,
        accounts: Vec<Account>,
    ) -> Self {
        seconds.sort_by(f64::total_cmp);
        let median = |of: fn(&Account) -> u64| {
            let mut all: Vec<u64> = accounts.iter().map(of).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        let (requests, size_bytes) = (median(|account| account.requests), median(|account| account.size_bytes));
        Self { store, question, is_warm, seconds, requests, size_bytes }
    }

    fn reader(&self) -> &'static str {
        if self.is_warm { "warm" } else { "cold" }
    }

    /// Median, least and most.
    fn times(&self) -> [f64; 3] {
        [self.seconds.len() / 2, 0, self.seconds.len() - 1].map(|place| self.seconds[place])
    }

    /// The round in the middle.
    #[cfg(test)]
    pub fn median_seconds(&self) -> f64 {
        self.times()[0]
    }

    fn to_json(&self) -> Value {
        let [median, least, most] = self.times();
        json!({
            "store": self.store,
            "question": self.question,
            "reader": self.reader(),
            "seconds": { "median": median, "least": least, "most": most },
            "requests": self.requests,
            "bytes": self.size_bytes,
        })
    }
}

fn print(out: &mut dyn Write, bench: &Bench, accesses: &[Access]) -> io::Result<()> {
    writeln!(out, "Columns: {}", bench.names.join(", "))?;
    let mut table = Table::new(&["store", "question", "reader", ">time", ">least", ">most", ">requests", ">bytes"]);
    for access in accesses {
        let mut row = vec![access.store.to_owned(), access.question.clone(), access.reader().to_owned()];
        row.extend(access.times().map(units::seconds));
        row.extend([units::grouped(access.requests), units::bytes(access.size_bytes)]);
        table.row(row);
    }
    table.print(out)
}
