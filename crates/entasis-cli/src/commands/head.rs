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
use crate::output;
use crate::table::Table;

/// Show the first rows of a table
///
/// In the table that is shown, ∅ stands for null and … for the rest of a value that is too long. Dates and times that no calendar has are
/// shown as numbers with their unit. --format csv and --json have every value in full.
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
    Arrow,
}

const AFTER_HELP: &str = "\
Examples:
  entasis head trips.ent
  entasis head trips.parquet -n 3 --columns city,price
  entasis head trips.ent --format csv > first.csv
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
    if arguments.format == Shape::Csv && !report.json {
        output::check_csv(&arguments.input.path, &schema)?;
    }
    let batches = input.collect::<Result<Vec<_>, Failure>>()?;
    let failure = |error| Failure::arrow(&arguments.input.path, error);
    match (report.json, arguments.format) {
        (true, _) => {
            let value = to_json(&schema, &batches).map_err(failure)?;
            report.json(&value)?;
        }
        (false, Shape::Table) => to_table(&schema, &batches).map_err(failure)?.print(report.out)?,
        (false, Shape::Csv) => report.out.write_all(&output::csv_text(&arguments.input.path, &schema, &batches)?)?,
        (false, Shape::Arrow) => to_arrow(report, &schema, &batches).map_err(to_output)?,
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

/// Calls `cell` with every value as text, row by row; nulls are `None`.
fn for_each_row(batches: &[RecordBatch], mut row: impl FnMut(Vec<Option<String>>)) -> Result<(), ArrowError> {
    for batch in batches {
        let columns = batch.columns();
        let formatters = columns.iter().map(|column| cells::formatter(column)).collect::<Result<Vec<_>, _>>()?;
        let nulls: Vec<_> = columns.iter().map(|column| column.logical_nulls()).collect();
        for index in 0..batch.num_rows() {
            let cells = formatters.iter().zip(&nulls).map(|(formatter, nulls)| {
                let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(index));
                valid.then(|| formatter.value(index).to_string())
            });
            row(cells.collect());
        }
    }
    Ok(())
}

fn to_table(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Table, ArrowError> {
    let columns = schema.fields().iter().map(|field| (field.name().clone(), field.data_type().is_numeric()));
    let mut table = Table::with_columns(columns);
    for_each_row(batches, |cells| {
        table.row(cells.into_iter().map(|cell| cell.unwrap_or_else(|| "∅".to_owned())).collect());
    })?;
    Ok(table)
}

fn to_json(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Value, ArrowError> {
    let columns: Vec<Value> = schema
        .fields()
        .iter()
        .map(|field| json!({ "name": field.name(), "type": field.data_type().to_string() }))
        .collect();
    let mut rows = Vec::new();
    for_each_row(batches, |cells| rows.push(json!(cells)))?;
    Ok(json!({ "columns": columns, "rows": rows }))
}

fn to_arrow(report: &mut Report<'_>, schema: &SchemaRef, batches: &[RecordBatch]) -> Result<(), ArrowError> {
    let mut writer = StreamWriter::try_new(&mut report.out, schema)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.finish()
}
