//! `entasis inspect`

mod bytes;
mod column;
mod summary;

use std::path::PathBuf;

use clap::Args;

use super::Report;
use crate::exit::{Exit, Failure};
use crate::input;

pub use summary::{print_columns, type_words};

/// Show what an Entasis file holds: its columns, how large each is and how it is encoded
///
/// Of each column: its bytes, their share of the file, how many times larger it is decoded (ratio), nulls, least and greatest value
/// (… marks a bound that was cut), and the cascades of its blocks, as `Dictionary(BitPacking, Fsst)`. Then a map of the file.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Entasis file
    #[arg(value_name = "FILE")]
    path: PathBuf,

    /// List every byte range: offset, length, what it is, and the section of the specification that says so
    #[arg(long, conflicts_with = "column")]
    bytes: bool,

    /// One column down to its blocks and nodes; `address.city` is a field of a struct
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  entasis inspect trips.ent
  entasis inspect trips.ent --column price
  entasis inspect trips.ent --bytes | less

JSON: {\"file\", \"size_bytes\", \"rows\", \"row_groups\": [rows], \"written_by\",
  \"user_metadata\": {key: text},
  \"sort_order\": [{\"column\", \"descending\", \"nulls_first\"}],
  \"columns\": [{\"path\", \"type\", \"rows\", \"size_bytes\", \"decoded_bytes\", \"blocks\", \"shared_parts\",
    \"nulls\", \"min\", \"max\", \"min_is_exact\", \"max_is_exact\", \"cascades\": [{\"cascade\", \"blocks\"}]}],
  \"map\": [{\"offset\", \"size_bytes\", \"what\", \"parts\"}]}
With --bytes: {\"file\", \"parts\": [part]}; a part is
  {\"offset\", \"size_bytes\", \"what\", \"section\", \"children\": [part]}, and children cover their part
With --column: {\"file\", \"columns\": [{\"path\", \"type\", \"row_groups\": [{
    \"shared_parts\": [{\"offset\", \"size_bytes\", \"digest\"}],
    \"blocks\": [{\"offset\", \"size_bytes\", \"rows\", \"nulls\", \"distinct\", \"min\", \"max\",
      \"cascade\": node}]}]}]};
  a node is {\"encoding\", \"id\", \"rows\", \"size_bytes\", \"parameters\", \"children\": [node]}";

/// Shows the file.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let reader = input::open_reader(&arguments.path)?;
    match &arguments.column {
        Some(name) => column::show(&reader, name, report)?,
        None if arguments.bytes => bytes::show(&reader, report)?,
        None => summary::show(&reader, report)?,
    }
    Ok(Exit::Good)
}
