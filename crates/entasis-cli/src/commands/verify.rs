//! `entasis verify`

use std::path::{Path, PathBuf};

use clap::Args;
use entasis::{Damage, Reader};
use serde_json::{Value, json};

use super::{ColumnNames, Report, TextArguments, column_names, threads};
use crate::compare::{self, Stream};
use crate::exit::{Exit, Failure};
use crate::format::Format;
use crate::input::{self, Input, InputOptions};
use crate::paths;
use crate::progress::Progress;
use crate::units;

/// Check that a file is whole, and compare its values with those of another
///
/// Of an Entasis file every checksum is computed, all padding looked at, and every value decoded as a whole, selectively and row by
/// row. All damaged parts are listed with their offsets. With --against, the values are then compared one by one, bit for bit, with
/// those of another file of any format; the first difference is named.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// File to check; with --against, of any format
    #[arg(value_name = "FILE")]
    path: PathBuf,

    /// Format of FILE, if its extension doesn't tell
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Format>,

    /// File that should hold the same values, of any format
    #[arg(long, value_name = "OTHER")]
    against: Option<PathBuf>,

    /// Format of OTHER, if its extension doesn't tell
    #[arg(long, value_enum, value_name = "FORMAT", requires = "against")]
    against_from: Option<Format>,

    /// Compare only these columns
    #[arg(long, value_name = "NAMES", requires = "against", value_parser = column_names)]
    columns: Option<ColumnNames>,

    #[command(flatten)]
    text: TextArguments,
}

const AFTER_HELP: &str = "\
Examples:
  entasis verify trips.ent
  entasis verify trips.ent --against trips.parquet
  entasis verify old.parquet --against new.parquet --columns id,price

Exit codes: 0 whole (and equal) · 1 values differ · 3 damaged

JSON: {\"file\", \"rows\", \"size_bytes\", \"damages\": [{\"part\", \"offset\", \"what\"}], \"against\": path,
  \"difference\": null or {\"column\", \"row\", \"left\", \"right\"}}; rows count from 0. Files that aren't
  Entasis have no rows, size_bytes and damages; without a comparison (a damaged file isn't
  compared) there are no against and difference.";

/// Verifies, and compares if asked to.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let format = format(&arguments.path, arguments.from, "--from")?;
    if format != Format::Ent && arguments.against.is_none() {
        return Err(Failure::usage(format!(
            "{}: only Entasis files carry what verify checks; compare others with --against",
            arguments.path.display()
        )));
    }
    let other = match &arguments.against {
        Some(path) => Some((path, self::format(path, arguments.against_from, "--against-from")?)),
        None => None,
    };
    let mut value = json!({ "file": arguments.path.display().to_string() });
    let mut exit = Exit::Good;
    if format == Format::Ent {
        exit = check(arguments, report, &mut value)?;
    }
    // Values of a damaged file say nothing about its source.
    if let Some((other, other_format)) = other.filter(|_| exit == Exit::Good) {
        let difference = differ(arguments, [(&arguments.path, format), (other, other_format)])?;
        value["against"] = json!(other.display().to_string());
        value["difference"] = difference.as_ref().map_or(Value::Null, compare::Difference::to_json);
        if let Some(difference) = &difference {
            exit = Exit::Different;
            if !report.json {
                writeln!(report.out, "{} and {}: {difference}", arguments.path.display(), other.display())?;
            }
        } else if !report.json {
            writeln!(report.out, "{} and {}: equal values", arguments.path.display(), other.display())?;
        }
    }
    if report.json {
        report.json(&value)?;
    }
    Ok(exit)
}

/// The format of a file that is there.
fn format(path: &Path, asked: Option<Format>, flag: &str) -> Result<Format, Failure> {
    paths::require_file(path)?;
    Format::of(path, asked, &format!("say which with {flag}"))
}

fn check(arguments: &Arguments, report: &mut Report<'_>, value: &mut Value) -> Result<Exit, Failure> {
    let reader = input::open_reader(&arguments.path)?;
    let damages = damages(&reader)?;
    value["rows"] = json!(reader.rows());
    value["size_bytes"] = json!(reader.size_bytes());
    let to_json = |damage: &Damage| json!({ "part": damage.part, "offset": damage.offset, "what": damage.what });
    value["damages"] = damages.iter().map(to_json).collect();
    let file = arguments.path.display();
    if !report.json {
        for Damage { part, offset, what } in &damages {
            writeln!(report.out, "{file}: corrupt {part} at byte {offset}: {what}")?;
        }
        if damages.is_empty() {
            let (rows, size) = (units::counted(reader.rows(), "row"), units::bytes(reader.size_bytes()));
            writeln!(report.out, "{file}: whole ({rows}, {size})")?;
        }
    }
    Ok(if damages.is_empty() { Exit::Good } else { Exit::Corrupt })
}

/// Every damaged part of a file.
pub fn damages(reader: &Reader) -> Result<Vec<Damage>, Failure> {
    let progress = Progress::new("verify");
    let size_bytes = reader.size_bytes();
    Ok(reader.verify(&mut |done| {
        progress.set(done as f64 / size_bytes.max(1) as f64, || units::bytes(done));
    })?)
}

fn differ(arguments: &Arguments, files: [(&PathBuf, Format); 2]) -> Result<Option<compare::Difference>, Failure> {
    let options = InputOptions {
        columns: arguments.columns.clone().map(|names| names.0),
        text: arguments.text.options(),
        threads: threads(None),
        ..InputOptions::default()
    };
    let open = |(path, format): (&PathBuf, Format)| -> Result<Stream<Box<dyn Input>>, Failure> {
        let batches = input::open(path, format, &options)?;
        Ok(Stream { schema: batches.schema(), batches })
    };
    let [left, right] = files;
    let (left, right) = (open(left)?, open(right)?);
    let progress = Progress::new("compare");
    let rows = left.batches.rows().or(right.batches.rows());
    compare::first(left, right, |done| {
        let fraction = rows.map_or(0.0, |rows| done as f64 / rows.max(1) as f64);
        progress.set(fraction, || format!("{} rows", units::grouped(done)));
    })
}
