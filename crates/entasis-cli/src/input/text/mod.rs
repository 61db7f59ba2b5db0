//! Tables of text.

pub mod csv;
mod csv_blank;
mod csv_error;
mod csv_quotes;
mod csv_range;
mod csv_types;
mod decompress;
pub mod ndjson;
mod ndjson_lines;
mod ndjson_shape;

use arrow_schema::DataType;

/// How CSV and NDJSON are read, since their text doesn't tell.
#[derive(Clone, Debug, Default)]
pub struct TextOptions {
    /// Rows that are looked at to tell the columns' types.
    pub infer_rows: InferRows,
    /// Types that are stated instead of inferred, by column.
    pub types: Vec<(String, DataType)>,
}

/// How many rows are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InferRows {
    /// What suits the format: 10,000 of CSV, all of NDJSON, whose rare fields are often far in.
    #[default]
    Usual,
    /// So many.
    First(u64),
    /// Every row.
    All,
}

impl InferRows {
    /// What looking at the first rows means.
    const FIRST: u64 = 10_000;

    /// The number of rows, or `None` for all; `usual` is what suits the format.
    fn limit(self, usual: Option<u64>) -> Option<u64> {
        match self {
            InferRows::Usual => usual,
            InferRows::First(rows) => Some(rows),
            InferRows::All => None,
        }
    }
}
