//! `entasis bench`

mod ablation;
mod access;
mod accounted;
#[cfg(all(feature = "cache", feature = "sql"))]
mod cache;
mod chooser;
mod clock;
#[cfg(feature = "text")]
mod columns;
mod contenders;
mod embeddings;
mod filters;
mod kernels;
mod kinds;
mod lookups;
mod measure;
#[cfg(feature = "cache")]
mod policies;
mod prices;
#[cfg(feature = "sql")]
mod queries;
#[cfg(feature = "text")]
mod shares;
mod source;
mod tables;
mod touch;
mod wide;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Report;
use crate::exit::{Exit, Failure};
use crate::paths::{self, Found};

#[cfg(all(feature = "cache", feature = "sql"))]
pub use clock::cpu_seconds;
pub use contenders::Contender;
pub use measure::{Measured, measure};
pub use source::Source;

/// Measure Entasis on tables of your own, beside Parquet
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench tables data/
  entasis bench columns data/taxi.parquet
  entasis bench embeddings vectors.parquet
  entasis bench access taxi.ent
  entasis bench lookups id plain.ent bloom.ent
  entasis bench kernels
  entasis bench filters
  entasis bench prices
  entasis bench ablation data/
  entasis bench chooser data/
  entasis bench policies traces/
  entasis bench cache tables/ queries.sql
  entasis bench queries tables/ queries.sql";

#[derive(Subcommand)]
enum Command {
    Tables(tables::Arguments),
    #[cfg(feature = "text")]
    Columns(columns::Arguments),
    Embeddings(embeddings::Arguments),
    Access(access::Arguments),
    Lookups(lookups::Arguments),
    Kernels(kernels::Arguments),
    Filters(filters::Arguments),
    Prices(prices::Arguments),
    Ablation(ablation::Arguments),
    Chooser(chooser::Arguments),
    #[cfg(feature = "cache")]
    Policies(policies::Arguments),
    #[cfg(feature = "sql")]
    Queries(queries::Arguments),
    #[cfg(all(feature = "cache", feature = "sql"))]
    Cache(cache::Arguments),
}

/// Runs the bench that was asked for.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Tables(arguments) => tables::run(arguments, report),
        #[cfg(feature = "text")]
        Command::Columns(arguments) => columns::run(arguments, report),
        Command::Embeddings(arguments) => embeddings::run(arguments, report),
        Command::Access(arguments) => access::run(arguments, report),
        Command::Lookups(arguments) => lookups::run(arguments, report),
        Command::Kernels(arguments) => kernels::run(arguments, report),
        Command::Filters(arguments) => filters::run(arguments, report),
        Command::Prices(arguments) => prices::run(arguments, report),
        Command::Ablation(arguments) => ablation::run(arguments, report),
        Command::Chooser(arguments) => chooser::run(arguments, report),
        #[cfg(feature = "cache")]
        Command::Policies(arguments) => policies::run(arguments, report),
        #[cfg(feature = "sql")]
        Command::Queries(arguments) => queries::run(arguments, report),
        #[cfg(all(feature = "cache", feature = "sql"))]
        Command::Cache(arguments) => cache::run(arguments, report),
    }
}

/// Which tables to measure.
#[derive(Args)]
struct Selected {
    /// Folder with tables (Parquet, CSV, NDJSON, ORC, Arrow IPC, Entasis), single files or patterns
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Only files whose path contains this
    #[arg(long, value_name = "SUBSTRING")]
    filter: Option<String>,
}

impl Selected {
    fn files(&self) -> Result<Vec<Found>, Failure> {
        let mut files = paths::expand(&self.paths)?;
        if let Some(part) = &self.filter {
            files.retain(|found| found.path.to_string_lossy().contains(part.as_str()));
        }
        if files.is_empty() { Err(Failure::usage("no table's path contains the --filter")) } else { Ok(files) }
    }
}
