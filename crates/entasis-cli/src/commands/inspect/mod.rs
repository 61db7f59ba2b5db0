//! `entasis inspect`

mod bytes;
mod column;
mod summary;
mod why;

use std::path::PathBuf;

use clap::Args;
use entasis::Profile;

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

    /// Why a column is encoded as it is: what each encoding promised for one of its blocks, what it really takes, and why it wasn't
    /// chosen, from the whole column down the cascade. `address.city` is a field of a struct, `address` all of its fields
    #[arg(long, value_name = "NAME", conflicts_with_all = ["column", "bytes"])]
    why: Option<String>,

    /// With --why: number of the block, counted from 0 through all row groups
    #[arg(long, value_name = "NUMBER", default_value = "0", requires = "why")]
    block: usize,

    /// With --why: choose by this profile: size, balanced or scan
    #[arg(long, value_name = "PROFILE", default_value = "balanced", requires = "why")]
    profile: Profile,
}

const AFTER_HELP: &str = "\
Examples:
  entasis inspect trips.ent
  entasis inspect trips.ent --column price
  entasis inspect trips.ent --bytes | less
  entasis inspect trips.ent --why price --block 1 --profile size

With --why the block's values are encoded again by every encoding, children as the chooser encodes
them: `promised` is what the chooser expected, `price` what decoding is held to cost under the
profile, both in bytes, `real` what it takes. The choice is the least promise with its price. It is
made without what the file's writer knew of other blocks (hints, a shared dictionary), so the file
may have another. Validity is no choice: a column has nulls or it hasn't; nor are lists, whose
lengths and items are choices.

JSON: {\"file\", \"size_bytes\", \"rows\", \"row_groups\": [rows], \"written_by\",
  \"user_metadata\": {key: text},
  \"sort_order\": [{\"column\", \"descending\", \"nulls_first\"}],
  \"columns\": [{\"path\", \"type\", \"rows\", \"size_bytes\", \"decoded_bytes\", \"blocks\", \"shared_parts\",
    \"bloom_bytes\", \"nulls\", \"min\", \"max\", \"min_is_exact\", \"max_is_exact\", \"cascades\": [{\"cascade\", \"blocks\"}]}],
  \"map\": [{\"offset\", \"size_bytes\", \"what\", \"parts\"}]}
With --bytes: {\"file\", \"parts\": [part]}; a part is
  {\"offset\", \"size_bytes\", \"what\", \"section\", \"children\": [part]}, and children cover their part
With --column: {\"file\", \"columns\": [{\"path\", \"type\", \"row_groups\": [{
    \"shared_parts\": [{\"offset\", \"size_bytes\", \"digest\"}],
    \"blocks\": [{\"offset\", \"size_bytes\", \"rows\", \"nulls\", \"distinct\", \"min\", \"max\",
      \"cascade\": node}],
    \"bloom\": null or {\"offset\", \"size_bytes\", \"buckets\"}}]}]};
  a node is {\"encoding\", \"id\", \"rows\", \"size_bytes\", \"parameters\", \"children\": [node]}
With --why: {\"file\", \"profile\", \"columns\": [{\"path\", \"type\", \"block\", \"row_group\", \"rows\",
    \"cascade\", \"size_bytes\", \"notes\": [text], \"decisions\": [{\"above\": [encoding], \"type\", \"rows\",
    \"candidates\": [{\"encoding\", \"promised_bytes\" or null, \"price_bytes\", \"real_bytes\" or null,
      \"chosen\", \"why\"}]}]}]}";

/// Shows the file.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let reader = input::open_reader(&arguments.path)?;
    if let Some(column) = &arguments.why {
        let question = why::Question { column, block: arguments.block, profile: arguments.profile };
        why::show(&reader, &question, report)?;
        return Ok(Exit::Good);
    }
    match &arguments.column {
        Some(name) => column::show(&reader, name, report)?,
        None if arguments.bytes => bytes::show(&reader, report)?,
        None => summary::show(&reader, report)?,
    }
    Ok(Exit::Good)
}
