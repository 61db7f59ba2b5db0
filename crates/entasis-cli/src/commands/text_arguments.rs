//! What can be said of text that is read.

use arrow_schema::DataType;
use clap::Args;

use crate::input::text::{InferRows, TextOptions, csv};

/// How CSV and NDJSON are read.
#[derive(Args)]
pub struct TextArguments {
    /// CSV, NDJSON: rows to look at for the columns' types, or `all`; 10,000 of CSV and all of NDJSON (of which `head` looks at
    /// the first 10,000, too) if not given. A value of another kind, there or further on, is an error that names line and column
    #[arg(long, value_name = "ROWS", value_parser = infer_rows)]
    infer_rows: Option<InferRows>,

    /// CSV, NDJSON: types that are stated instead, as `zip=string,price=float64`; `*` is every column, `address.zip` a field of
    /// NDJSON's objects. Types: string, bool, int8 to int64, uint8 to uint64, float32, float64, date, time, timestamp, or as
    /// Arrow writes them
    #[arg(long, value_name = "NAME=TYPE", value_parser = stated_types)]
    types: Vec<StatedTypes>,
}

impl TextArguments {
    /// As readers take it.
    pub fn options(&self) -> TextOptions {
        TextOptions {
            infer_rows: self.infer_rows.unwrap_or_default(),
            types: self.types.iter().flat_map(|types| types.0.clone()).collect(),
        }
    }
}

fn infer_rows(text: &str) -> Result<InferRows, String> {
    match text {
        "all" => Ok(InferRows::All),
        rows => rows.parse().map(InferRows::First).map_err(|_| "not a number of rows, nor `all`".to_owned()),
    }
}

/// Types of columns, by name.
#[derive(Clone, Debug)]
struct StatedTypes(Vec<(String, DataType)>);

fn stated_types(text: &str) -> Result<StatedTypes, String> {
    // Commas also stand in types: `Dictionary(Int32, Utf8)`.
    let mut depth = 0;
    let parts = text.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => (),
        }
        character == ',' && depth == 0
    });
    parts.map(stated_type).collect::<Result<_, _>>().map(StatedTypes)
}

fn stated_type(text: &str) -> Result<(String, DataType), String> {
    let (name, word) = text.split_once('=').ok_or("not NAME=TYPE")?;
    let data_type = csv::type_named(word).ok_or_else(|| format!("no type {word:?}"))?;
    Ok((name.to_owned(), data_type))
}
