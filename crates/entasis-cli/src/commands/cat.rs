//! `entasis cat`

use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::convert::{self, Job, Plan};
use super::{ColumnNames, Report, TextArguments, column_names, threads};
use crate::cells;
use crate::exit::{Exit, Failure};
use crate::format::Format;
use crate::input::{Input, InputOptions};
use crate::output::{self, Encoding, StreamFormat};
use crate::paths;

/// Print tables one after the other, or put them together into one file
///
/// The tables need equal schemas. On standard output they are NDJSON if not told otherwise, which holds every type that JSON has a form
/// for; rows are printed as they are read, and memory doesn't grow with them. With -o they become one file in the format of its
/// extension, as with `entasis convert`: nothing is visible under its name before it is complete.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// What to read: files, folders (every table below them) or patterns like 'data/*.parquet'
    #[arg(required = true, value_name = "FILE")]
    inputs: Vec<PathBuf>,

    /// The file to write; `-` is standard output
    #[arg(short = 'o', long = "output", value_name = "OUT", default_value = "-")]
    output: PathBuf,

    /// How to print on standard output; `arrow` is an IPC stream for other programs
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Shape>,

    /// Format of the inputs, if their extensions don't tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Format>,

    /// Columns to keep, in this order: names with commas between, in double quotes if they have commas themselves; `address.city` reaches
    /// into a struct
    #[arg(long, value_name = "NAMES", value_parser = column_names)]
    columns: Option<ColumnNames>,

    /// Threads to encode and decode with; all cores if not given
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZero<usize>>,

    #[command(flatten)]
    text: TextArguments,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Shape {
    Ndjson,
    Csv,
    Table,
    Arrow,
}

const AFTER_HELP: &str = "\
Examples:
  entasis cat trips.ent | jq .price
  entasis cat days/*.ent -o month.ent
  entasis cat days/ --format csv --columns id,price > month.csv
  entasis cat log.ndjson.gz trips.ent --columns id --format arrow > ids.arrows

JSON: {\"columns\": [{\"name\", \"type\"}], \"rows\": [[value as text, or null]]}; with -o FILE as of `convert`";

/// Prints, or writes one file.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let to_standard = arguments.output == Path::new("-");
    if !to_standard && arguments.format.is_some() {
        return Err(Failure::usage("--format is for standard output; the extension of -o tells the file's"));
    }
    let inputs = paths::expand(&arguments.inputs)?;
    let inputs = inputs.iter().map(|found| found.with_format(arguments.from)).collect::<Result<Vec<_>, _>>()?;
    let input = InputOptions {
        columns: arguments.columns.clone().map(|names| names.0),
        threads: threads(arguments.threads),
        text: arguments.text.options(),
        ..InputOptions::default()
    };
    if to_standard {
        let table = convert::open(&inputs, &input)?;
        print(arguments.format.unwrap_or(Shape::Ndjson), table, report)?;
        return Ok(Exit::Good);
    }
    let format = Format::of_output(&arguments.output, None, "give it one that does")?;
    let plan = Plan { input, row_group_rows: None, makes_folders: false, encoding: Encoding::default() };
    let job = Job { inputs, output: arguments.output.clone(), format };
    convert::report(&[job], &plan, report)?;
    Ok(Exit::Good)
}

/// Prints a table as it is read.
pub(super) fn print(shape: Shape, input: Box<dyn Input>, report: &mut Report<'_>) -> Result<(), Failure> {
    let stream = match shape {
        _ if report.json => return print_json(input, report),
        Shape::Table => return print_table(input, report),
        Shape::Ndjson => StreamFormat::Ndjson,
        Shape::Csv => StreamFormat::Csv,
        Shape::Arrow => StreamFormat::Arrow,
    };
    let mut output = output::create_standard(stream, &input.schema())?;
    for batch in input {
        output.write(&batch?)?;
    }
    output.finish().map(drop)
}

/// Columns are as wide as the first batch asks for, or wider from where a later one does.
fn print_table(input: Box<dyn Input>, report: &mut Report<'_>) -> Result<(), Failure> {
    let columns = input.schema().fields().len();
    let mut table = cells::table(&input.schema()).fitting(report.line_width);
    for batch in input {
        cells::add_rows(&batch?, &mut table).map_err(shown)?;
        table.print(report.out)?;
    }
    table.print(report.out)?;
    if table.left_out() > 0 {
        let shown = columns - table.left_out();
        writeln!(report.out, "{shown} of {columns} columns; select those that you want to see")?;
    }
    Ok(())
}

/// One value, a row to a line.
fn print_json(input: Box<dyn Input>, report: &mut Report<'_>) -> Result<(), Failure> {
    write!(report.out, "{{\"columns\": {},\n \"rows\": [", cells::columns_to_json(&input.schema()))?;
    let mut separator = "\n  ";
    for batch in input {
        let mut written = Ok(());
        cells::for_each_row(&batch?, |cells| {
            if written.is_ok() {
                written = write!(report.out, "{separator}{}", json!(cells));
                separator = ",\n  ";
            }
        })
        .map_err(shown)?;
        written?;
    }
    Ok(writeln!(report.out, "]}}")?)
}

/// A type that has no text.
fn shown(error: arrow_schema::ArrowError) -> Failure {
    Failure::Told { exit: Exit::Corrupt, message: error.to_string() }
}
