//! `entasis demo`

#[cfg(all(feature = "cache", feature = "sql"))]
mod cache;
#[cfg(all(feature = "cache", feature = "sql"))]
mod slow;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use entasis::Reader;
use serde_json::json;

use super::bench::{Contender, Measured, Source, measure};
use super::inspect::print_columns;
use super::{Report, verify};
use crate::compare::{self, Stream};
use crate::describe::{Described, describe_all};
use crate::exit::{Exit, Failure};
use crate::format::Format;
use crate::input::{self, InputOptions};
use crate::output::{self, Encoding, OutputOptions};
use crate::table::Table;
use crate::units;

/// A month of made-up bike trips; `examples/make_sample` makes it.
const TRIPS: &[u8] = include_bytes!("../../../../../samples/trips.parquet");

/// Rounds of measurement: the demo should be over soon.
const ROUNDS: usize = 5;

/// See it work: convert a sample table, compare sizes and times with Parquet's, show what was chosen
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Folder for trips.parquet and trips.ent; a temporary one if not given
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    #[cfg(all(feature = "cache", feature = "sql"))]
    #[command(subcommand)]
    part: Option<Part>,
}

#[cfg(all(feature = "cache", feature = "sql"))]
#[derive(clap::Subcommand)]
enum Part {
    /// See the cache work: one query on Parquet in a store far away, cold and warm, beside plain Parquet; and on an .ent file
    Cache,
}

const AFTER_HELP: &str = "\
Examples:
  entasis demo
  entasis demo --folder .
  entasis demo cache

JSON: {\"parquet\": path, \"ent\": path, \"equal\", \"measured\": table as in `bench tables`,
  \"columns\": as in `inspect`}; of `demo cache` {\"query\", \"latency_seconds\", \"bytes_per_second\",
  \"runs\": [{\"run\", \"seconds\", \"cpu_seconds\", \"requests\", \"bytes\"}]}";

/// Runs the demo.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    #[cfg(all(feature = "cache", feature = "sql"))]
    if let Some(Part::Cache) = arguments.part {
        return cache::run(report);
    }
    // One folder per user: what one has written there another can't replace.
    let own = || std::env::temp_dir().join(format!("entasis-demo-{}", rustix::process::getuid().as_raw()));
    let folder = arguments.folder.clone().unwrap_or_else(own);
    fs::create_dir_all(&folder).map_err(|error| Failure::io(&folder, &error))?;
    let (parquet, ent) = (folder.join("trips.parquet"), folder.join("trips.ent"));
    output::write_file(&parquet, TRIPS)?;
    convert(&parquet, &ent)?;
    let reader = Reader::open(&ent)?;
    if let Some(damage) = verify::damages(&reader)?.first() {
        return Err(Failure::corrupt(
            &ent,
            format!("corrupt {} at byte {}: {}", damage.part, damage.offset, damage.what),
        ));
    }
    if let Some(difference) = compare::first(open(&ent)?, open(&parquet)?, |_| ())? {
        let message = format!("{} and {} differ: {difference}", ent.display(), parquet.display());
        return Err(Failure::Told { exit: Exit::Different, message });
    }
    let measured = measure(Source::open(&parquet, "trips")?, ROUNDS)?;
    let columns = describe_all(&reader)?;
    if report.json {
        report.json(&json!({
            "parquet": parquet.display().to_string(),
            "ent": ent.display().to_string(),
            "equal": true,
            "measured": measured.to_json(),
            "columns": columns.iter().map(Described::to_json).collect::<Vec<_>>(),
        }))?;
        return Ok(Exit::Good);
    }
    print_measured(report.out, &measured)?;
    writeln!(
        report.out,
        "\nEvery value was compared, bit for bit, and every checksum verified.\n\nWhat was chosen:\n"
    )?;
    print_columns(report.out, &columns, reader.size_bytes())?;
    print_next(report.out, &parquet, &ent)?;
    Ok(Exit::Good)
}

fn open(path: &Path) -> Result<Stream<Box<dyn input::Input>>, Failure> {
    let batches = input::open(path, Format::of(path, None, "rename it")?, &InputOptions::default())?;
    Ok(Stream { schema: batches.schema(), batches })
}

fn convert(parquet: &Path, ent: &Path) -> Result<(), Failure> {
    let table = open(parquet)?;
    let encoding = Encoding::default();
    let options = OutputOptions { row_group_rows: None, threads: 1, whole_days: false, encoding };
    let mut output = output::create(ent, Format::Ent, &table.schema, &options)?;
    for batch in table.batches {
        output.write(&batch?)?;
    }
    output.finish().map(drop)
}

fn print_measured(out: &mut dyn Write, measured: &Measured) -> Result<(), Failure> {
    let (rows, columns) = (units::grouped(measured.rows), measured.columns);
    let arrow = units::bytes(measured.arrow_bytes);
    writeln!(out, "A month of bike trips in a made-up city: {rows} rows, {columns} columns, {arrow} in memory.\n")?;
    let mut table = Table::new(&["one CPU core", ">bytes", ">", ">write", ">", ">read", ">"]);
    let entasis = measured.of(Contender::Entasis);
    for contender in Contender::ALL {
        let figures = measured.of(contender);
        let times = |other: f64, own: f64| match contender {
            Contender::Entasis => String::new(),
            _ => format!("{:.1} ×", other / own.max(1e-12)),
        };
        table.row(vec![
            contender.words().to_owned(),
            units::grouped(figures.size_bytes),
            times(figures.size_bytes as f64, entasis.size_bytes as f64),
            units::seconds(figures.encode_seconds),
            times(figures.encode_seconds, entasis.encode_seconds),
            units::seconds(figures.decode_seconds),
            times(figures.decode_seconds, entasis.decode_seconds),
        ]);
    }
    Ok(table.print(out)?)
}

fn print_next(out: &mut dyn Write, parquet: &Path, ent: &Path) -> Result<(), Failure> {
    let (parquet, ent) = (parquet.display(), ent.display());
    writeln!(out, "\nTry next:")?;
    writeln!(out, "  entasis head {ent} --columns start_station,price,weather.celsius")?;
    writeln!(out, "  entasis inspect {ent} --column price")?;
    writeln!(out, "  entasis verify {ent} --against {parquet}")?;
    writeln!(out, "  entasis convert YOUR.parquet your.ent")?;
    Ok(writeln!(out, "  entasis bench tables FOLDER_OF_YOUR_TABLES")?)
}
