//! `entasis bench policies`

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow_array::{Array, RecordBatch, UInt64Array};
use clap::Args;
use entasis_cache::policy::{Access, PolicyKind, Replayed, replay};
use entasis_cache::{CellId, ColumnId, ObjectId, Stamp, Version};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};

use super::Report;
use crate::exit::{Exit, Failure};
use crate::paths;
use crate::table::Table;
use crate::units;

/// Eviction policies of the cache on recorded accesses: how many of the bytes that were asked for were there
///
/// A recording is a Parquet file with a row for each access: `entry_id` (16 bits each for file, row group, column and piece, from the
/// highest), `entry_size` in bytes, `time_stamp_nanos`. All files are one recording, in the order of their first accesses. Each policy begins
/// with an empty cache, whose budget is a share of the bytes of all different entries.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Folder with recordings, single files or patterns
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Budgets, as percentages of the bytes of all entries
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_value = "1,2,5,10,20,30,50,70,90",
        value_parser = clap::value_parser!(u64).range(1..=100))]
    budgets: Vec<u64>,

    /// Each file so many times in a row: a query that is asked again
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    times: u16,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench policies traces/
  entasis bench policies traces/ --times 3 --budgets 5,20,50

JSON: {\"accesses\", \"bytes\", \"entries\", \"entry_bytes\", \"default\", \"least_ratio\", \"policies\": [{\"policy\", \"budgets\":
  [{\"percent\", \"budget_bytes\", \"hits\", \"hit_bytes\", \"byte_hit_rate\", \"evictions\"}]}]}; least_ratio is of the default's byte hit
rate to that of the best of fifo, lru, s3-fifo and sieve, at the budget where it is least";

/// What the default is measured against.
const PEERS: [PolicyKind; 4] = [PolicyKind::Fifo, PolicyKind::Lru, PolicyKind::S3Fifo, PolicyKind::Sieve];

/// Replays.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let recording = Recording::read(&arguments.paths, usize::from(arguments.times))?;
    let budgets: Vec<(u64, u64)> = arguments
        .budgets
        .iter()
        .map(|&percent| (percent, (u128::from(recording.entry_bytes) * u128::from(percent) / 100) as u64))
        .collect();
    let results: Vec<(PolicyKind, Vec<Replayed>)> = PolicyKind::ALL
        .into_iter()
        .map(|kind| {
            let at = |&(_, budget): &(u64, u64)| replay(&recording.accesses, &mut *kind.policy(), budget);
            (kind, budgets.iter().map(at).collect())
        })
        .collect();
    let least_ratio = least_ratio(&results);
    if report.json {
        let policies: Vec<Value> = results.iter().map(|(kind, all)| to_json(*kind, all, &budgets)).collect();
        report.json(&json!({
            "accesses": recording.accesses.len(),
            "bytes": recording.bytes,
            "entries": recording.entries,
            "entry_bytes": recording.entry_bytes,
            "default": PolicyKind::default().name(),
            "least_ratio": least_ratio,
            "policies": policies,
        }))?;
    } else {
        print(report.out, &recording, &budgets, &results, least_ratio)?;
    }
    Ok(Exit::Good)
}

/// Accesses in the order in which they were recorded.
struct Recording {
    accesses: Vec<Access>,
    /// Bytes of all accesses.
    bytes: u64,
    /// Different entries.
    entries: usize,
    /// Bytes of those.
    entry_bytes: u64,
}

impl Recording {
    fn read(asked: &[PathBuf], times: usize) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for found in paths::expand(asked)? {
            let (first, accesses) = read_file(&found.path)?;
            if !accesses.is_empty() {
                files.push((first, accesses));
            }
        }
        files.sort_by_key(|(first, _)| *first);
        let accesses: Vec<Access> =
            files.into_iter().flat_map(|(_, file)| std::iter::repeat_n(file, times).flatten()).collect();
        let bytes = accesses.iter().map(|access| access.size_bytes).sum();
        let sizes: HashMap<&CellId, u64> = accesses.iter().map(|access| (&access.cell, access.size_bytes)).collect();
        let (entries, entry_bytes) = (sizes.len(), sizes.values().sum());
        drop(sizes);
        Ok(Self { accesses, bytes, entries, entry_bytes })
    }
}

/// The time of the first access of a file, and all of them.
fn read_file(path: &Path) -> Result<(u64, Vec<Access>), Failure> {
    let file = File::open(path).map_err(|error| Failure::io(path, &error))?;
    let parquet = |error| Failure::parquet(path, error);
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(parquet)?.build().map_err(parquet)?;
    let version = Version::new(ObjectId::new("recording:", "entries".into()), Stamp::ETag(String::new()));
    let (mut first, mut accesses) = (None, Vec::new());
    for batch in reader {
        let batch = batch.map_err(|error| Failure::arrow(path, error))?;
        let numbers = |name| numbers(&batch, name).ok_or_else(|| Failure::unusable(path, format!("no column {name}")));
        let (ids, sizes, times) = (numbers("entry_id")?, numbers("entry_size")?, numbers("time_stamp_nanos")?);
        first = first.or(times.values().first().copied());
        accesses.extend(ids.values().iter().zip(sizes.values()).map(|(&id, &size_bytes)| {
            // The file's number stands before that of the column: those of different files are different columns.
            let part = |place: u32| (id >> place & 0xFFFF) as usize;
            let column = ColumnId { version: version.clone(), leaf: part(48) << 16 | part(16) };
            Access { cell: CellId { column, row_group: part(32), piece: part(0) }, size_bytes }
        }));
    }
    Ok((first.unwrap_or(0), accesses))
}

/// A column of numbers without nulls.
fn numbers<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a UInt64Array> {
    let column = batch.column_by_name(name)?.as_any().downcast_ref::<UInt64Array>()?;
    (column.null_count() == 0).then_some(column)
}

/// The byte hit rate of the default to that of the best of its peers, at the budget where that is least.
fn least_ratio(results: &[(PolicyKind, Vec<Replayed>)]) -> f64 {
    let rates = |kind: PolicyKind| {
        let found = results.iter().find(|(other, _)| *other == kind);
        found.into_iter().flat_map(|(_, all)| all.iter().map(Replayed::byte_hit_rate))
    };
    let ratios = rates(PolicyKind::default()).enumerate().map(|(place, own)| {
        let best = PEERS.into_iter().filter_map(|kind| rates(kind).nth(place)).fold(0.0, f64::max);
        if best > 0.0 { own / best } else { 1.0 }
    });
    ratios.fold(f64::INFINITY, f64::min)
}

fn to_json(kind: PolicyKind, all: &[Replayed], budgets: &[(u64, u64)]) -> Value {
    let at = |(replayed, &(percent, budget_bytes)): (&Replayed, &(u64, u64))| {
        json!({
            "percent": percent,
            "budget_bytes": budget_bytes,
            "hits": replayed.hits,
            "hit_bytes": replayed.hit_bytes,
            "byte_hit_rate": replayed.byte_hit_rate(),
            "evictions": replayed.evictions,
        })
    };
    json!({ "policy": kind.name(), "budgets": all.iter().zip(budgets).map(at).collect::<Vec<_>>() })
}

fn print(
    out: &mut dyn Write,
    recording: &Recording,
    budgets: &[(u64, u64)],
    results: &[(PolicyKind, Vec<Replayed>)],
    least_ratio: f64,
) -> io::Result<()> {
    writeln!(
        out,
        "{} accesses to {} entries, {} together: the share of the bytes asked for that were there, in %, by budget\n",
        units::grouped(recording.accesses.len() as u64),
        units::grouped(recording.entries as u64),
        units::bytes(recording.entry_bytes)
    )?;
    let headings: Vec<String> = budgets.iter().map(|(percent, _)| format!(">{percent} %")).collect();
    let headings: Vec<&str> = ["policy"].into_iter().chain(headings.iter().map(String::as_str)).collect();
    let mut table = Table::new(&headings);
    for (kind, all) in results {
        let rates = all.iter().map(|replayed| format!("{:.2}", 100.0 * replayed.byte_hit_rate()));
        table.row([kind.name().to_owned()].into_iter().chain(rates).collect());
    }
    table.print(out)?;
    let default = PolicyKind::default();
    writeln!(out, "\n{default} is the default: at least {least_ratio:.3} of the best of fifo, lru, s3-fifo and sieve")
}
