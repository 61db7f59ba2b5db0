//! The commands, one file each.

mod bench;
#[cfg(feature = "text")]
mod cat;
mod convert;
mod demo;
#[cfg(feature = "text")]
mod head;
mod inspect;
mod schema;
#[cfg(feature = "sql")]
mod sql;
mod stats;
#[cfg(feature = "text")]
mod text_arguments;
mod verify;

use std::io::Write;
use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use entasis::encoding::encoding_names;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::format::Format;
use crate::input::{self, Input, InputOptions};
use crate::paths;

#[cfg(feature = "text")]
use text_arguments::TextArguments;

/// Entasis: columnar files (.ent) that are small, fast to decode, and open at once.
#[derive(Parser)]
#[command(name = "entasis", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Print one JSON value instead of text; each command's help lists the fields
    #[arg(long, global = true)]
    pub json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  entasis demo                               see it work on a sample table
  entasis convert trips.parquet trips.ent    Parquet to Entasis
  entasis inspect trips.ent                  what was chosen, column by column
  entasis verify trips.ent --against trips.parquet

Exit codes: 0 good · 1 comparison failed · 2 usage · 3 corrupt or unsupported file · 4 I/O

Errors are one line on standard error; with --json one line of JSON:
  {\"error\": {\"kind\": \"different\" | \"usage\" | \"corrupt\" | \"io\", \"message\", \"exit_code\"}}";

#[derive(Subcommand)]
enum Command {
    Convert(convert::Arguments),
    Inspect(inspect::Arguments),
    #[cfg(feature = "text")]
    Head(head::Arguments),
    #[cfg(feature = "text")]
    Cat(cat::Arguments),
    Schema(schema::Arguments),
    Stats(stats::Arguments),
    Verify(verify::Arguments),
    #[cfg(feature = "sql")]
    Sql(sql::Arguments),
    Bench(bench::Arguments),
    Demo(demo::Arguments),
}

/// Runs the command that was asked for. Results go to `out`, progress and errors to standard error.
pub fn run(arguments: Arguments, out: &mut dyn Write) -> Result<Exit, Failure> {
    let mut report = Report {
        out,
        json: arguments.json,
        #[cfg(feature = "text")]
        line_width: usize::MAX,
    };
    match arguments.command {
        Command::Convert(arguments) => convert::run(&arguments, &mut report),
        Command::Inspect(arguments) => inspect::run(&arguments, &mut report),
        #[cfg(feature = "text")]
        Command::Head(arguments) => head::run(&arguments, &mut report),
        #[cfg(feature = "text")]
        Command::Cat(arguments) => cat::run(&arguments, &mut report),
        Command::Stats(arguments) => stats::run(&arguments, &mut report),
        Command::Schema(arguments) => schema::run(&arguments, &mut report),
        Command::Verify(arguments) => verify::run(&arguments, &mut report),
        #[cfg(feature = "sql")]
        Command::Sql(arguments) => sql::run(&arguments, &mut report),
        Command::Bench(arguments) => bench::run(&arguments, &mut report),
        Command::Demo(arguments) => demo::run(&arguments, &mut report),
    }
}

/// Where a command's results go, and in which shape.
pub struct Report<'a> {
    /// Standard output.
    pub out: &'a mut dyn Write,
    /// One JSON value instead of text.
    pub json: bool,
    /// Columns of the terminal that tables are to fit into.
    #[cfg(feature = "text")]
    pub line_width: usize,
}

impl Report<'_> {
    /// Prints a JSON value, indented, with its line end.
    pub fn json(&mut self, value: &Value) -> Result<(), Failure> {
        serde_json::to_writer_pretty(&mut self.out, value).map_err(std::io::Error::from)?;
        Ok(writeln!(self.out)?)
    }
}

/// A file to read, and which columns of it.
#[derive(Args)]
struct OneInput {
    /// File to read: .ent, .parquet, .csv, .ndjson, .orc or .arrow
    #[arg(value_name = "FILE")]
    path: PathBuf,

    /// Columns to keep, in this order: names with commas between, in double quotes if they have commas themselves; `address.city` reaches
    /// into a struct
    #[arg(long, value_name = "NAMES", value_parser = column_names)]
    columns: Option<ColumnNames>,

    /// Format of FILE, if its extension doesn't tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Format>,

    #[command(flatten)]
    text: TextArguments,
}

impl OneInput {
    fn open(&self, options: InputOptions) -> Result<Box<dyn Input>, Failure> {
        paths::require_file(&self.path)?;
        let format = Format::of(&self.path, self.from, "say which with --from")?;
        let options =
            InputOptions { columns: self.columns.clone().map(|names| names.0), text: self.text.options(), ..options };
        input::open(&self.path, format, &options)
    }
}

/// How text is read: it isn't.
#[cfg(not(feature = "text"))]
#[derive(Args)]
struct TextArguments {}

#[cfg(not(feature = "text"))]
impl TextArguments {
    fn options(&self) -> input::TextOptions {
        input::TextOptions {}
    }
}

/// Names of columns.
#[derive(Clone, Debug)]
struct ColumnNames(Vec<String>);

/// Reads names as a line of CSV, without which a name with a comma could not be said.
fn column_names(text: &str) -> Result<ColumnNames, String> {
    let mut line = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let mut record = csv::StringRecord::new();
    let is_there = line.read_record(&mut record).map_err(|error| error.to_string())?;
    // Nothing is the name of nothing, which a column may have.
    Ok(ColumnNames(if is_there { record.iter().map(str::to_owned).collect() } else { vec![String::new()] }))
}

/// A column and the encoding that is asked for it. Columns may have `=` in their names, encodings don't.
fn column_encoding(text: &str) -> Result<(String, String), String> {
    let (column, asked) = text.rsplit_once('=').ok_or("not COLUMN=ENCODING")?;
    let names: Vec<_> = encoding_names().into_iter().map(|(_, name)| name).collect();
    match names.iter().find(|name| name.eq_ignore_ascii_case(asked)) {
        Some(name) => Ok((column.to_owned(), (*name).to_owned())),
        None => Err(format!("{asked:?} is no encoding; there are {}", names.join(", "))),
    }
}

/// All cores, unless told otherwise.
fn threads(asked: Option<NonZero<usize>>) -> usize {
    asked.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZero::get)
}
