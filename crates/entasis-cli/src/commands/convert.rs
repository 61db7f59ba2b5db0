//! `entasis convert`

use std::collections::HashSet;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow_schema::Schema;
use clap::Args;
use entasis::{BloomColumn, Profile};
use serde_json::{Value, json};

use super::{ColumnNames, Report, TextArguments, column_encoding, column_names, threads};
use crate::exit::{Exit, Failure};
use crate::format::{Format, without_compression};
use crate::input::{self, Chained, Input, InputOptions};
use crate::output::{self, Encoding, OutputOptions};
use crate::paths::{self, Found};
use crate::progress::Progress;
use crate::units;

/// Convert tables between Entasis, Parquet, CSV, NDJSON, ORC and Arrow IPC
///
/// Formats are told by the extensions: .ent · .parquet .pq · .csv · .ndjson .jsonl .json · .orc (in) · .arrow .ipc .feather (file) ·
/// .arrows (stream); CSV and NDJSON are also read compressed (.gz, .zst).
/// Several inputs become one table if OUT is a file, or a file each if OUT is a folder. Nothing is visible under the output's name
/// before it is complete; an existing file is replaced then.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// What to read: files, folders (every table below them) or patterns like 'data/*.parquet'
    #[arg(required = true, value_name = "IN")]
    inputs: Vec<PathBuf>,

    /// The file to write, or a folder for a file each: one that exists, or a name that ends with /
    #[arg(required = true, value_name = "OUT")]
    output: PathBuf,

    /// Format of the inputs, if their extensions don't tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Format>,

    /// Format to write, if OUT's extension doesn't tell; for folders, ent if not given
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Format>,

    /// Columns to keep, in this order: names with commas between, in double quotes if they have commas themselves; `address.city` reaches
    /// into a struct
    #[arg(long, value_name = "NAMES", value_parser = column_names)]
    columns: Option<ColumnNames>,

    /// Rows of a row group (Entasis, Parquet)
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    row_group_rows: Option<u32>,

    /// Threads to encode and decode with; all cores if not given. The bytes written don't depend on it
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZero<usize>>,

    /// Entasis: what counts. `size`: few bytes, whatever they cost to decode; `balanced`, if not given: few bytes, unless decoding costs
    /// much more than they save; `scan`: quick decoding before few bytes
    #[arg(long, value_name = "PROFILE")]
    profile: Option<Profile>,

    /// Entasis: the encoding that a column's values must have, nulls and values of 16 KiB and more aside; what is beneath it is chosen.
    /// `address.city` reaches into a struct. May be given several times
    #[arg(long = "encoding", value_name = "COLUMN=ENCODING", value_parser = column_encoding)]
    encodings: Vec<(String, String)>,

    /// Entasis: a column that gets Bloom filters, by which lookups of single values (=, IN) read few blocks, and the share of other blocks
    /// that may be read nevertheless, if not 0.01. `address.city` reaches into a struct. May be given several times
    #[arg(long = "bloom", value_name = "COLUMN[=RATE]")]
    bloom: Vec<BloomColumn>,

    #[command(flatten)]
    text: TextArguments,
}

const AFTER_HELP: &str = "\
Examples:
  entasis convert trips.parquet trips.ent
  entasis convert trips.ent trips.csv --columns id,city,price
  entasis convert 'days/*.parquet' all.ent       many files, one table
  entasis convert days/ out/                     a file each
  entasis convert days/ out/ --to parquet
  entasis convert zip.csv zip.ent --types zip=string
  entasis convert log.ndjson.gz log.ent          nested objects and lists are kept
  entasis convert log.parquet log.ent --profile size
  entasis convert a.csv a.ent --encoding id=Delta --encoding address.city=Dictionary
  entasis convert a.csv a.ent --bloom id --bloom address.street=0.001

CSV: the first line holds the names; empty fields are nulls. Blank lines are skipped, but in a file
of one column each is a row with a null, as DuckDB reads it. Ragged rows, values that aren't of
their column's type or beyond its range (1e400) and text that isn't UTF-8 are errors that name line
and column; nothing is written then.

NDJSON: an object per line; a field that lacks is null. A field whose values are of several kinds
(text and numbers) is an error that names line and field, unless its type is stated. \"NaN\",
\"Infinity\" and \"-Infinity\" among numbers are numbers, and so they are written.

Encodings: `entasis inspect FILE --why COLUMN` shows what each would take. One that can't hold a
column's values is an error; nothing is written then.

Bloom filters: some 10 bits for each distinct value of 65,536 rows at a rate of 0.01, 17 at 0.001. They are left out of row
groups whose values take no more bytes than they would. Booleans, lists and structs have none.

JSON: {\"files\": [{\"inputs\": [path], \"output\": path, \"rows\", \"input_bytes\", \"output_bytes\",
  \"seconds\"}]}";

/// Converts.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let inputs = paths::expand(&arguments.inputs)?;
    let plan = Plan {
        input: InputOptions {
            columns: arguments.columns.clone().map(|names| names.0),
            threads: threads(arguments.threads),
            text: arguments.text.options(),
            ..InputOptions::default()
        },
        row_group_rows: arguments.row_group_rows.map(u64::from),
        makes_folders: is_folder(&arguments.output),
        encoding: Encoding {
            profile: arguments.profile.unwrap_or_default(),
            columns: arguments.encodings.clone(),
            bloom: arguments.bloom.clone(),
        },
    };
    let jobs = jobs(arguments, inputs, &arguments.output)?;
    check_encodings(arguments, &jobs)?;
    self::report(&jobs, &plan, report)?;
    Ok(Exit::Good)
}

/// Does all jobs, and says so.
pub fn report(jobs: &[Job], plan: &Plan, report: &mut Report<'_>) -> Result<(), Failure> {
    let mut done = Vec::new();
    for job in jobs {
        let converted = convert(job, plan)?;
        if !report.json {
            writeln!(report.out, "{converted}")?;
        }
        done.push(converted.to_json());
    }
    if report.json {
        report.json(&json!({ "files": done }))?;
    }
    Ok(())
}

/// Tables that become one file.
pub struct Job {
    /// What is read, in this order.
    pub inputs: Vec<(PathBuf, Format)>,
    /// What is written.
    pub output: PathBuf,
    /// Its format.
    pub format: Format,
}

/// How jobs are done.
pub struct Plan {
    /// How inputs are read.
    pub input: InputOptions,
    /// Rows of a row group, for the formats that have them; `None` for the default.
    pub row_group_rows: Option<u64>,
    /// Folders that outputs lack are made.
    pub makes_folders: bool,
    /// How Entasis files are encoded.
    pub encoding: Encoding,
}

/// Refuses what is asked of Entasis files that other formats don't have, or asked twice.
fn check_encodings(arguments: &Arguments, jobs: &[Job]) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    if let Some((column, _)) = arguments.encodings.iter().find(|(column, _)| !seen.insert(column)) {
        return Err(Failure::usage(format!("--encoding names {column:?} twice")));
    }
    seen.clear();
    if let Some(BloomColumn { column, .. }) = arguments.bloom.iter().find(|bloom| !seen.insert(&bloom.column)) {
        return Err(Failure::usage(format!("--bloom names {column:?} twice")));
    }
    let option = match (arguments.profile, arguments.encodings.as_slice(), arguments.bloom.as_slice()) {
        (None, [], []) => return Ok(()),
        (Some(_), ..) => "--profile",
        (None, [_, ..], _) => "--encoding",
        (None, [], _) => "--bloom",
    };
    match jobs.iter().find(|job| job.format != Format::Ent) {
        Some(job) => Err(Failure::usage(format!("{}: {option} is for .ent files only", job.output.display()))),
        None => Ok(()),
    }
}

fn jobs(arguments: &Arguments, inputs: Vec<Found>, out: &Path) -> Result<Vec<Job>, Failure> {
    if !is_folder(out) {
        let format = Format::of_output(out, arguments.to, "say which with --to, or end a folder's name with /")?;
        let inputs = inputs.iter().map(|found| found.with_format(arguments.from)).collect::<Result<_, Failure>>()?;
        return Ok(vec![Job { inputs, output: out.to_owned(), format }]);
    }
    let format = arguments.to.unwrap_or(Format::Ent);
    let mut jobs: Vec<Job> = Vec::new();
    for found in &inputs {
        let output = out.join(without_compression(&found.relative)).with_extension(format.extension());
        if let Some(other) = jobs.iter().find(|job| job.output == output) {
            return Err(Failure::usage(format!(
                "{} and {} would both become {}",
                other.inputs[0].0.display(),
                found.path.display(),
                output.display()
            )));
        }
        jobs.push(Job { inputs: vec![found.with_format(arguments.from)?], output, format });
    }
    Ok(jobs)
}

fn is_folder(out: &Path) -> bool {
    out.is_dir() || out.as_os_str().to_string_lossy().ends_with(['/', std::path::MAIN_SEPARATOR])
}

/// What was written.
struct Converted<'a> {
    job: &'a Job,
    rows: u64,
    input_bytes: u64,
    output_bytes: u64,
    seconds: f64,
}

fn convert<'a>(job: &'a Job, plan: &Plan) -> Result<Converted<'a>, Failure> {
    let started = Instant::now();
    let mut input_bytes = 0;
    for (path, _) in &job.inputs {
        refuse_same(path, &job.output)?;
        input_bytes += fs::metadata(path).map_err(|error| Failure::io(path, &error))?.len();
    }
    let input = open(&job.inputs, &plan.input)?;
    let whole_days = job.format == Format::Parquet && has_whole_days(job, &input.schema(), &plan.input)?;
    let (row_group_rows, threads) = (plan.row_group_rows, plan.input.threads);
    if let Some(folder) = job.output.parent().filter(|_| plan.makes_folders) {
        fs::create_dir_all(folder).map_err(|error| Failure::io(folder, &error))?;
    }
    let options = OutputOptions { row_group_rows, threads, whole_days, encoding: plan.encoding.clone() };
    let (rows, output_bytes) = write(job, input, &options)?;
    Ok(Converted { job, rows, input_bytes, output_bytes, seconds: started.elapsed().as_secs_f64() })
}

/// Opens tables of one schema as one.
pub fn open(inputs: &[(PathBuf, Format)], options: &InputOptions) -> Result<Box<dyn Input>, Failure> {
    Ok(match inputs {
        [(path, format)] => input::open(path, *format, options)?,
        several => Box::new(Chained::new(several.to_vec(), options.clone())?),
    })
}

/// Looks at all values of date64 columns, which are rare: their Parquet type is decided before the first row is written.
fn has_whole_days(job: &Job, schema: &Schema, options: &InputOptions) -> Result<bool, Failure> {
    let names = output::names_with_date64(schema);
    if names.is_empty() {
        return Ok(false);
    }
    let options = InputOptions { columns: Some(names), ..options.clone() };
    for batch in open(&job.inputs, &options)? {
        if !output::are_whole_days(&batch?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn write(job: &Job, mut input: Box<dyn Input>, options: &OutputOptions) -> Result<(u64, u64), Failure> {
    let mut output = output::create(&job.output, job.format, &input.schema(), options)?;
    let progress = Progress::new(&job.output.display().to_string());
    let of_rows = input.rows().map_or(String::new(), |rows| format!(" of {}", units::grouped(rows)));
    let mut rows = 0;
    while let Some(batch) = input.next() {
        let batch = batch?;
        output.write(&batch)?;
        rows += batch.num_rows() as u64;
        progress.set(input.fraction_done(), || format!("{}{of_rows} rows", units::grouped(rows)));
    }
    Ok((rows, output.finish()?))
}

/// Replacing a file by a form of itself loses the original when the command line was mistyped.
fn refuse_same(input: &Path, output: &Path) -> Result<(), Failure> {
    match (fs::canonicalize(input), fs::canonicalize(output)) {
        (Ok(one), Ok(two)) if one == two => {
            Err(Failure::usage(format!("{} is an input and the output as well", output.display())))
        }
        _ => Ok(()),
    }
}

impl Converted<'_> {
    fn to_json(&self) -> Value {
        let inputs: Vec<String> = self.job.inputs.iter().map(|(path, _)| path.display().to_string()).collect();
        json!({
            "inputs": inputs,
            "output": self.job.output.display().to_string(),
            "rows": self.rows,
            "input_bytes": self.input_bytes,
            "output_bytes": self.output_bytes,
            "seconds": self.seconds,
        })
    }
}

impl std::fmt::Display for Converted<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let input = match self.job.inputs.as_slice() {
            [(path, _)] => path.display().to_string(),
            several => format!("{} files", several.len()),
        };
        write!(
            formatter,
            "{input} → {}: {}, {} → {} ({}), {}",
            self.job.output.display(),
            units::counted(self.rows, "row"),
            units::bytes(self.input_bytes),
            units::bytes(self.output_bytes),
            units::percent(self.output_bytes, self.input_bytes),
            units::seconds(self.seconds)
        )
    }
}
