//! `entasis schema`

use std::collections::HashMap;
use std::io::Write;

use arrow_schema::{DataType, Field, FieldRef};
use clap::Args;
use serde_json::{Value, json};

use super::{OneInput, Report};
use crate::exit::{Exit, Failure};
use crate::input::InputOptions;
use crate::table::printable;

/// Show the columns of a table and their types
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    input: OneInput,
}

const AFTER_HELP: &str = "\
Examples:
  entasis schema trips.ent
  entasis schema trips.parquet --json

JSON: {\"metadata\": {key: value}, \"columns\": [column]}; a column is
  {\"name\", \"type\", \"nullable\", \"metadata\", \"children\": [column]}";

/// Shows the schema.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let schema = arguments.input.open(InputOptions::default())?.schema();
    if report.json {
        let columns: Vec<Value> = schema.fields().iter().map(to_json).collect();
        report.json(&json!({ "metadata": schema.metadata(), "columns": columns }))?;
        return Ok(Exit::Good);
    }
    schema.fields().iter().try_for_each(|field| print(report.out, field, 0))?;
    print_metadata(report.out, schema.metadata(), 0)?;
    Ok(Exit::Good)
}

fn to_json(field: &FieldRef) -> Value {
    let children: Vec<Value> = children(field).into_iter().map(to_json).collect();
    json!({
        "name": field.name(),
        "type": field.data_type().to_string(),
        "nullable": field.is_nullable(),
        "metadata": field.metadata(),
        "children": children,
    })
}

fn children(field: &Field) -> Vec<&FieldRef> {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::List(child)
        | DataType::LargeList(child)
        | DataType::FixedSizeList(child, _)
        | DataType::ListView(child)
        | DataType::LargeListView(child)
        | DataType::Map(child, _) => vec![child],
        DataType::RunEndEncoded(run_ends, values) => vec![run_ends, values],
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field).collect(),
        _ => Vec::new(),
    }
}

fn print(out: &mut dyn Write, field: &Field, depth: usize) -> std::io::Result<()> {
    let children = children(field);
    let type_words = match field.data_type() {
        DataType::Struct(_) => "struct".to_owned(),
        DataType::List(_) => "list".to_owned(),
        DataType::LargeList(_) => "large list".to_owned(),
        DataType::FixedSizeList(_, size) => format!("list of {size}"),
        DataType::Map(..) => "map".to_owned(),
        other => other.to_string(),
    };
    let indent = "  ".repeat(depth);
    let required = if field.is_nullable() { "" } else { ", not null" };
    writeln!(out, "{indent}{}: {type_words}{required}", printable(field.name()))?;
    print_metadata(out, field.metadata(), depth + 1)?;
    children.into_iter().try_for_each(|child| print(out, child, depth + 1))
}

fn print_metadata(out: &mut dyn Write, metadata: &HashMap<String, String>, depth: usize) -> std::io::Result<()> {
    let mut pairs: Vec<_> = metadata.iter().collect();
    pairs.sort();
    let indent = "  ".repeat(depth);
    pairs.into_iter().try_for_each(|(key, value)| writeln!(out, "{indent}[{} = {}]", printable(key), printable(value)))
}
