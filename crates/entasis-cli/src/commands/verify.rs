//! stub
use super::Report;
use crate::exit::{Exit, Failure};
use clap::Args;
/// stub
#[derive(Args)]
pub struct Arguments {}
pub fn run(_arguments: &Arguments, _report: &mut Report<'_>) -> Result<Exit, Failure> {
    Ok(Exit::Good)
}
