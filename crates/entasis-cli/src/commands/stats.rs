//! `entasis stats`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use entasis::Reader;
use serde_json::{Value, json};

use super::{ColumnNames, Report, column_names};
use crate::columns;
use crate::exit::{Exit, Failure};
use crate::input;
use crate::stats::{ColumnStats, Distinct};
use crate::table::{Table, shortened};
use crate::units;
use crate::zone::Shown;

/// Show what the columns of an Entasis file hold, without reading their values
///
/// Everything comes from the statistics that lie beside the blocks: no block is read, however large the file. Least and greatest values are
/// exact unless they are marked with … (a long text that was cut). The number of distinct values is an estimate: where blocks may
/// have values in common it is a range, and – where no block has been counted.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Entasis file
    #[arg(value_name = "FILE")]
    path: PathBuf,

    /// Only these columns, with the fields below them
    #[arg(long, value_name = "NAMES", value_parser = column_names)]
    columns: Option<ColumnNames>,
}

const AFTER_HELP: &str = "\
Examples:
  entasis stats trips.ent
  entasis stats trips.ent --columns price,weather
  entasis stats trips.ent --json | jq '.columns[] | select(.nulls > 0) | .path'

JSON: {\"file\", \"rows\", \"size_bytes\", \"columns\": [{\"path\", \"type\", \"rows\", \"nulls\", \"nans\", \"min\", \"max\",
  \"min_is_exact\", \"max_is_exact\", \"distinct\": null or {\"least\", \"most\"}, \"size_bytes\", \"blocks\",
  \"bloom_bytes\"}]}; the bytes of a column are those of its blocks and of what they share, without its
  Bloom filters";

/// Shows the statistics.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let reader = input::open_reader(&arguments.path)?;
    let indices = match &arguments.columns {
        Some(names) => named(&reader, &names.0, arguments)?,
        None => (0..reader.column_count()).collect(),
    };
    let mut all = Vec::new();
    for index in indices {
        let column = reader.column(index)?;
        all.extend(column.tree().into_iter().map(|(path, record)| ColumnStats::of(&path, &record)));
    }
    if report.json {
        report.json(&json!({
            "file": reader.name(),
            "rows": reader.rows(),
            "size_bytes": reader.size_bytes(),
            "columns": all.iter().map(|stats| to_json(stats, reader.rows())).collect::<Vec<_>>(),
        }))?;
    } else {
        print(&reader, &all, report.out)?;
    }
    Ok(Exit::Good)
}

fn named(reader: &Reader, names: &[String], arguments: &Arguments) -> Result<Vec<usize>, Failure> {
    columns::refuse_repeats(names)?;
    let mut indices = Vec::new();
    for name in names {
        let found = reader.columns_named(name)?;
        if found.is_empty() {
            return Err(columns::unknown(&*reader.schema()?, name, &arguments.path));
        }
        indices.extend(found);
    }
    Ok(indices)
}

fn to_json(stats: &ColumnStats, rows: u64) -> Value {
    let text = |bound: &Option<Shown>| bound.as_ref().map(|bound| bound.text.clone());
    let is_exact = |bound: &Option<Shown>| bound.as_ref().map(|bound| bound.is_exact);
    json!({
        "path": stats.path,
        "type": stats.data_type.to_string(),
        "rows": rows,
        "nulls": stats.null_count,
        "nans": stats.nan_count,
        "min": text(&stats.range.min),
        "max": text(&stats.range.max),
        "min_is_exact": is_exact(&stats.range.min),
        "max_is_exact": is_exact(&stats.range.max),
        "distinct": stats.distinct.map(|distinct| json!({ "least": distinct.least, "most": distinct.most })),
        "size_bytes": stats.size_bytes,
        "blocks": stats.blocks,
        "bloom_bytes": stats.bloom_bytes,
    })
}

fn print(reader: &Reader, all: &[ColumnStats], out: &mut dyn Write) -> Result<(), Failure> {
    /// Bounds and types are for orientation: their beginning is enough.
    const BOUND_WIDTH: usize = 20;
    let (rows, columns) = (reader.rows(), reader.column_count() as u64);
    let size = units::bytes(reader.size_bytes());
    writeln!(
        out,
        "{}: {}, {}, {size}\n",
        reader.name(),
        units::counted(rows, "row"),
        units::counted(columns, "column")
    )?;
    let has_nans = all.iter().any(|stats| stats.nan_count > 0);
    let has_blooms = all.iter().any(|stats| stats.bloom_bytes > 0);
    let mut headings = vec!["column", "type", ">nulls", ">NaN", "min", "max", ">distinct", ">bytes", ">Bloom filters"];
    headings.retain(|heading| match *heading {
        ">NaN" => has_nans,
        ">Bloom filters" => has_blooms,
        _ => true,
    });
    let mut table = Table::new(&headings);
    let bound =
        |bound: &Option<Shown>| bound.as_ref().map_or("–".to_owned(), |bound| shortened(&bound.words(), BOUND_WIDTH));
    for stats in all {
        let mut row = vec![
            stats.path.clone(),
            shortened(&super::inspect::type_words(&stats.data_type), BOUND_WIDTH),
            units::grouped(stats.null_count),
        ];
        row.extend(has_nans.then(|| units::grouped(stats.nan_count)));
        row.extend([bound(&stats.range.min), bound(&stats.range.max), distinct_words(stats.distinct)]);
        row.push(units::grouped(stats.size_bytes));
        row.extend(has_blooms.then(|| units::grouped(stats.bloom_bytes)));
        table.row(row);
    }
    Ok(table.print(out)?)
}

fn distinct_words(distinct: Option<Distinct>) -> String {
    match distinct {
        Some(Distinct { least, most }) if least == most => units::grouped(least),
        Some(Distinct { least, most }) => format!("{}–{}", units::grouped(least), units::grouped(most)),
        None => "–".to_owned(),
    }
}
