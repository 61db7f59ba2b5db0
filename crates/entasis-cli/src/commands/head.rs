//! `entasis head`

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, SchemaRef};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{OneInput, Report};
use crate::cells;
use crate::exit::{Exit, Failure};
use crate::input::InputOptions;
use crate::output::{self, Csv, Ndjson, Text};
use crate::table::Table;

/// Show the first rows of a table
///
/// In the table that is shown, ∅ stands for null and … for the rest of a value that is too long. Dates and times that no calendar has are
/// shown as numbers with their unit. --format csv, ndjson and --json have every value in full.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    input: OneInput,

    /// How many rows
    #[arg(short = 'n', long = "rows", value_name = "ROWS", default_value_t = 10, value_parser = rows, allow_negative_numbers = true)]
    rows: u32,

    /// How to show them; `arrow` is an IPC stream for other programs
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "table")]
    format: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Shape {
    Table,
    Csv,
    Ndjson,
    Arrow,
}

const AFTER_HELP: &str = "\
Examples:
  entasis head trips.ent
  entasis head trips.parquet -n 3 --columns city,price
  entasis head trips.ent --format csv > first.csv
  entasis head trips.ent --format ndjson | jq .price
  entasis head trips.ent -n 1000 --format arrow > first.arrows

JSON: {\"columns\": [{\"name\", \"type\"}], \"rows\": [[value as text, or null]]}";

fn rows(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("not a number of rows from 0 to {}", u32::MAX))
}

/// Shows the first rows.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let rows = arguments.rows as usize;
    let options = InputOptions {
        row_limit: Some(rows as u64),
        batch_rows: rows.clamp(1, InputOptions::default().batch_rows),
        ..InputOptions::default()
    };
    let input = arguments.input.open(options)?;
    let schema = input.schema();
    // What a format of text can't hold is told before anything is read.
    let path = &arguments.input.path;
    let text: Option<Box<dyn Text>> = match arguments.format {
        Shape::Csv if !report.json => Some(Box::new(Csv::new(path, &schema)?)),
        Shape::Ndjson if !report.json => Some(Box::new(Ndjson::new(path, &schema)?)),
        _ => None,
    };
    let batches = input.collect::<Result<Vec<_>, Failure>>()?;
    let failure = |error| Failure::arrow(path, error);
    match text {
        Some(text) => report.out.write_all(&output::whole_text(&*text, &batches)?)?,
        None if report.json => report.json(&to_json(&schema, &batches).map_err(failure)?)?,
        None if arguments.format == Shape::Arrow => to_arrow(report, &schema, &batches).map_err(to_output)?,
        None => to_table(&schema, &batches).map_err(failure)?.print(report.out)?,
    }
    Ok(Exit::Good)
}

/// An error while writing to standard output: that it was closed isn't one.
fn to_output(error: ArrowError) -> Failure {
    match error {
        ArrowError::IoError(_, source) => Failure::from(source),
        other => Failure::Told { exit: Exit::Corrupt, message: other.to_string() },
    }
}

fn to_table(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Table, ArrowError> {
    let mut table = cells::table(schema);
    batches.iter().try_for_each(|batch| cells::add_rows(batch, &mut table))?;
    Ok(table)
}

fn to_json(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Value, ArrowError> {
    let mut rows = Vec::new();
    batches.iter().try_for_each(|batch| cells::for_each_row(batch, |cells| rows.push(json!(cells))))?;
    Ok(json!({ "columns": cells::columns_to_json(schema), "rows": rows }))
}

fn to_arrow(report: &mut Report<'_>, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<(), ArrowError> {
    let mut writer = StreamWriter::try_new(&mut report.out, schema)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()
}
