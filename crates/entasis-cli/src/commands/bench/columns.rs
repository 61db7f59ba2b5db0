//! `entasis bench columns`
use super::{Report, Selected};
use crate::exit::{Exit, Failure};
use clap::Args;
/// Per column
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    selected: Selected,
}
pub fn run(arguments: &Arguments, _report: &mut Report<'_>) -> Result<Exit, Failure> {
    let _ = arguments.selected.files()?;
    Ok(Exit::Good)
}
