//! `entasis bench tables`

use std::io::{self, Write};

use clap::Args;
use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::measure::{Measured, Ratio, measure};
use super::{Contender, Report, Selected, Source};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::Table;
use crate::units;

/// Sizes and CPU time of whole tables, Entasis beside Parquet
///
/// Each table is read into memory, written and read back by Entasis and by arrow-rs' Parquet (uncompressed, Snappy, Zstandard 3; its
/// default settings), in memory, on one thread. First the values that come back are compared with the table's, bit for bit; then the
/// contenders take turns, and the median of their CPU times counts. Decoding ends with Arrow arrays of the same types for all, every
/// byte of which is read. `copy` is what copying and reading the same arrays costs: the floor for any decoder.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    selected: Selected,

    /// Only columns of this kind
    #[arg(long)]
    kind: Option<Kind>,

    /// Rounds in which the contenders take turns; the median counts
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench tables data/
  entasis bench tables data/ --filter taxi
  entasis bench tables data/ --kind fixed-width
  entasis bench tables data/ --json > bench.json

Columns of a type that one of the contenders can't write are left out for all, and listed.

JSON: {\"tables\": [table], \"total\": table, \"ratios\": {name: {\"total\", \"geometric_mean\",
  \"below_one\"}}}; a table is
  {\"name\", \"rows\", \"columns\", \"arrow_bytes\", \"copy_seconds\", \"left_out\": [{\"column\", \"reason\"}],
   \"entasis\" | \"parquet\" | \"parquet_snappy\" | \"parquet_zstd\": {\"bytes\", \"encode_seconds\",
   \"decode_seconds\"}}
and a ratio is Entasis over the other, so that below 1 is better: bytes_to_parquet_snappy,
bytes_to_parquet_zstd, encode_to_parquet_zstd, decode_to_parquet_zstd, decode_to_copy. Seconds are
of CPU time.";

/// Measures every table.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let files = arguments.selected.files()?;
    let progress = Progress::new("bench");
    let mut tables = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let name = file.relative.display().to_string();
        progress.set(index as f64 / files.len() as f64, || name.clone());
        let source = Source::open(&file.path, &name)?;
        let source = match arguments.kind {
            Some(kind) => source.of_kind(kind)?,
            None => Some(source),
        };
        if let Some(source) = source {
            tables.push(measure(source, usize::from(arguments.rounds))?);
        }
    }
    drop(progress);
    if tables.is_empty() {
        return Err(Failure::usage("no table has a column of this kind"));
    }
    let total = Measured::total(&tables);
    if report.json {
        report.json(&to_json(&tables, &total))?;
        return Ok(Exit::Good);
    }
    print(report.out, &tables, &total)?;
    Ok(Exit::Good)
}

fn to_json(tables: &[Measured], total: &Measured) -> Value {
    let ratios: Map<String, Value> = Ratio::ALL
        .iter()
        .map(|ratio| {
            let value = json!({
                "total": ratio.on(total),
                "geometric_mean": ratio.geometric_mean(tables),
                "below_one": ratio.wins(tables),
            });
            (ratio.name.to_owned(), value)
        })
        .collect();
    let values: Vec<Value> = tables.iter().map(Measured::to_json).collect();
    json!({ "tables": values, "total": total.to_json(), "ratios": ratios })
}

fn print(out: &mut dyn Write, tables: &[Measured], total: &Measured) -> io::Result<()> {
    let with_total = || tables.iter().chain(Some(total).filter(|_| tables.len() > 1));
    writeln!(out, "Sizes")?;
    let mut sizes = Table::new(&[
        "table", ">rows", ">columns", ">Arrow", ">Entasis", ">Parquet", ">+Snappy", ">+Zstd", ">/Snappy", ">/Zstd",
    ]);
    for table in with_total() {
        let mut row = vec![table.name.clone(), units::grouped(table.rows), units::grouped(table.columns)];
        row.push(units::bytes(table.arrow_bytes));
        row.extend(Contender::ALL.iter().map(|contender| units::bytes(table.of(*contender).size_bytes)));
        row.extend(Ratio::ALL[..2].iter().map(|ratio| format!("{:.2}", ratio.on(table))));
        sizes.row(row);
    }
    sizes.print(out)?;
    writeln!(out, "\nSpeed: MB of Arrow buffers per CPU second, one thread")?;
    let mut speeds = Table::new(&[
        "table", ">encode", ">Parquet", ">+Snappy", ">+Zstd", ">decode", ">Parquet", ">+Snappy", ">+Zstd", ">copy",
    ]);
    for table in with_total() {
        let speed = |seconds| format!("{:.0}", table.megabytes_per_second(seconds));
        let mut row = vec![table.name.clone()];
        row.extend(Contender::ALL.iter().map(|contender| speed(table.of(*contender).encode_seconds)));
        row.extend(Contender::ALL.iter().map(|contender| speed(table.of(*contender).decode_seconds)));
        row.push(speed(table.copy_seconds));
        speeds.row(row);
    }
    speeds.print(out)?;
    print_ratios(out, tables, total)?;
    print_left_out(out, tables)
}

fn print_ratios(out: &mut dyn Write, tables: &[Measured], total: &Measured) -> io::Result<()> {
    writeln!(out, "\nEntasis over the other (below 1 is better)")?;
    let mut ratios = Table::new(&["what, the other", ">in total", ">geometric mean", ">tables below 1"]);
    for ratio in Ratio::ALL {
        let mean = ratio.geometric_mean(tables).unwrap_or(f64::NAN);
        ratios.row(vec![
            ratio.words.to_owned(),
            format!("{:.3}", ratio.on(total)),
            format!("{mean:.3}"),
            format!("{} of {}", ratio.wins(tables), tables.len()),
        ]);
    }
    ratios.print(out)
}

fn print_left_out(out: &mut dyn Write, tables: &[Measured]) -> io::Result<()> {
    let left_out = tables.iter().flat_map(|table| table.left_out.iter().map(move |left| (&table.name, left)));
    for (index, (table, left)) in left_out.enumerate() {
        if index == 0 {
            writeln!(out, "\nLeft out for all")?;
        }
        writeln!(out, "  {table}, column {:?}: {}", left.column, left.reason)?;
    }
    Ok(())
}
