//! `entasis sql`

mod answer;
#[cfg(feature = "cache")]
mod cache;
mod errors;
mod explain;
mod interrupt;
mod session;
mod shell;
mod statements;
mod tables;
mod workers;

use std::io::IsTerminal;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::{Report, cat, threads};
use crate::exit::{Exit, Failure};
use crate::format::Format;
use crate::output::{self, Encoding, OutputOptions};

pub use self::errors::failure;

use self::answer::Answer;
use self::interrupt::Interrupt;
use self::session::Session;

/// Answer a question about tables, in SQL
///
/// A table is a file's name in quotes, 'trips.ent': .ent, .parquet, .csv, .ndjson or .arrow, text also behind .gz or .zst; a pattern
/// ('days/*.ent') or a folder of them is one table, folders like `year=2024` are columns. SQL is that of Apache DataFusion, which answers;
/// CREATE EXTERNAL TABLE … STORED AS ENTASIS, COPY … TO 'x.ent' and INSERT INTO work, too.
///
/// Without a query, statements are read from standard input, each up to its semicolon and answered as it arrives; at a terminal, by a
/// shell with history and completion.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// The question, or several statements with `;` between
    #[arg(value_name = "QUERY")]
    query: Option<String>,

    /// Run the query, and show how instead of its answer: the plan with rows, times and what fell where, and why predicates weren't pushed
    #[arg(long)]
    explain: bool,

    /// How to print the answer (`arrow` is an IPC stream), or which format to write with -o, if the extension doesn't tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Shape>,

    /// Write the answer to a file, in the format of its extension: .ent, .parquet, .csv, .ndjson, .arrow; nothing is visible under its
    /// name before it is complete
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    output: Option<PathBuf>,

    /// Most memory that sorts, joins and aggregates may take, as 500MB or 4GB; they go to disk then, or fail
    #[arg(long, value_name = "SIZE", value_parser = size_bytes)]
    memory: Option<usize>,

    /// Memory in which columns of Parquet files stay between statements, as 2GiB: as they were fetched at first, as blocks before long; `\cache`
    /// shows what is there. `.ent` files of this machine are read directly
    #[cfg(feature = "cache")]
    #[arg(long, value_name = "SIZE", value_parser = size_bytes)]
    cache: Option<usize>,

    /// Where columns go that have to leave the cache's memory, and most bytes of it, as DIR:20GiB: a folder of its own, where the next
    /// session finds them
    #[cfg(feature = "cache")]
    #[arg(long, value_name = "DIR:SIZE", requires = "cache", value_parser = cache_disk)]
    cache_disk: Option<entasis_cache::DiskOptions>,

    /// Threads; all cores if not given
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZero<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    Table,
    Csv,
    Ndjson,
    Arrow,
    Parquet,
    Ent,
}

const AFTER_HELP: &str = "\
Examples:
  entasis sql \"select city, avg(price) from 'trips.ent' group by city order by 2 desc limit 5\"
  entasis sql \"select * from 'days/*.parquet' where price > 10\" -o dear.ent
  entasis sql --explain \"select count(*) from 'trips.ent' where price > 10\"
  entasis sql \"copy (select * from 'trips.csv') to 'trips.ent'\"
  entasis sql --cache 2GiB < statements.sql
  entasis sql --cache 2GiB --cache-disk /var/tmp/columns:20GiB < statements.sql

JSON: {\"columns\": [{\"name\", \"type\"}], \"rows\": [[value as text, or null]]} for each answer;
  with --explain {\"plan\": [line], \"scans\": [{\"file\", \"counts\"}]}";

/// Answers what is asked: by the arguments, by standard input, or at the terminal.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let session = Session::new(threads(arguments.threads), arguments.memory)?;
    #[cfg(feature = "cache")]
    let session = match arguments.cache {
        Some(size_bytes) => session.with_cache(size_bytes as u64, arguments.cache_disk.clone())?,
        None => session,
    };
    match &arguments.query {
        Some(query) => answer_all(&session, query, &session.listen(), arguments, report)?,
        None if arguments.output.is_some() => return Err(Failure::usage("-o FILE is for the answer to a QUERY")),
        None if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() => {
            shell::run(&session, arguments, report)?
        }
        None => statements::from_standard(|text| {
            answer_all(&session, text, &session.listen(), arguments, report)?;
            Ok(report.out.flush()?)
        })?,
    }
    session.flush_cache();
    Ok(Exit::Good)
}

/// Answers the statements of a text, one after the other.
fn answer_all(
    session: &Session,
    text: &str,
    interrupt: &Interrupt,
    arguments: &Arguments,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    if statements::is_command(text) {
        return command(session, text.trim(), report);
    }
    let statements = session.parse(text)?;
    if arguments.output.is_some() && statements.len() != 1 {
        return Err(Failure::usage("-o FILE is for the answer to one statement"));
    }
    for statement in statements {
        let query = session.plan(statement, interrupt)?;
        if arguments.explain {
            explain::print(&query, report)?;
            continue;
        }
        let Some(answer) = query.answer()? else { continue };
        match &arguments.output {
            Some(path) => save(path, answer, arguments)?,
            None => print(answer, arguments.format, report)?,
        }
    }
    Ok(())
}

/// Carries out what isn't SQL.
fn command(session: &Session, text: &str, report: &mut Report<'_>) -> Result<(), Failure> {
    match (text, session.cache()) {
        #[cfg(feature = "cache")]
        ("\\cache", Some(cache)) => cache::print(cache, report),
        ("\\cache", _) => Err(Failure::usage("there is no cache: --cache 2GiB makes one")),
        ("\\?", _) => Ok(writeln!(report.out, "{}", shell::HELP)?),
        _ => Err(Failure::usage(format!("no command {text}; \\? says which there are"))),
    }
}

/// A folder and how much of it a cache may fill.
#[cfg(feature = "cache")]
fn cache_disk(text: &str) -> Result<entasis_cache::DiskOptions, String> {
    let (folder, size) = text.rsplit_once(':').ok_or("a folder and a size, as DIR:20GiB")?;
    if folder.is_empty() {
        return Err("the folder is missing, as in DIR:20GiB".to_owned());
    }
    Ok(entasis_cache::DiskOptions::new(folder, size_bytes(size)? as u64))
}

fn print(answer: Answer, shape: Option<Shape>, report: &mut Report<'_>) -> Result<(), Failure> {
    let shape = match shape.unwrap_or(Shape::Table) {
        Shape::Table => cat::Shape::Table,
        Shape::Csv => cat::Shape::Csv,
        Shape::Ndjson => cat::Shape::Ndjson,
        Shape::Arrow => cat::Shape::Arrow,
        Shape::Parquet | Shape::Ent => {
            return Err(Failure::usage("this format needs a file to be written to: -o FILE"));
        }
    };
    cat::print(shape, Box::new(answer), report)
}

fn save(path: &Path, answer: Answer, arguments: &Arguments) -> Result<(), Failure> {
    let asked = match arguments.format {
        None => None,
        Some(Shape::Csv) => Some(Format::Csv),
        Some(Shape::Ndjson) => Some(Format::Ndjson),
        Some(Shape::Arrow) => Some(Format::Arrow),
        Some(Shape::Parquet) => Some(Format::Parquet),
        Some(Shape::Ent) => Some(Format::Ent),
        Some(Shape::Table) => return Err(Failure::usage("a table is for people to look at, not for a file")),
    };
    let format = Format::of_output(path, asked, "say which with --format")?;
    let options = OutputOptions {
        row_group_rows: None,
        threads: threads(arguments.threads),
        whole_days: false,
        encoding: Encoding::default(),
    };
    let mut output = output::create(path, format, &crate::input::Input::schema(&answer), &options)?;
    for batch in answer {
        output.write(&batch?)?;
    }
    output.finish().map(drop)
}

/// A size as people write it: `500MB`, `4 GB`, `2GiB`, `1000000`.
fn size_bytes(text: &str) -> Result<usize, String> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "kib" => 1 << 10,
        "m" | "mb" => 1_000_000,
        "mib" => 1 << 20,
        "g" | "gb" => 1_000_000_000,
        "gib" => 1 << 30,
        other => return Err(format!("no unit of bytes: {other:?}; 500MB and 4GB are sizes")),
    };
    let number: usize = number.parse().map_err(|_| "not a size, as 500MB or 4GB are".to_owned())?;
    number.checked_mul(unit).filter(|&size| size > 0).ok_or_else(|| "no size that memory can have".to_owned())
}

#[cfg(test)]
mod tests {
    use super::size_bytes;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(size_bytes("500MB"), Ok(500_000_000));
        assert_eq!(size_bytes("2 GiB"), Ok(2 << 30));
        assert_eq!(size_bytes("77"), Ok(77));
        assert!(["", "MB", "0", "5 parsecs", "99999999999999999999"].iter().all(|text| size_bytes(text).is_err()));
    }
}
