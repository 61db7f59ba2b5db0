//! `entasis bench prices`

use std::hint::black_box;
use std::io::{self, Write};

use clap::Args;
use entasis::encoding::bench::{NodePrice, kernels, node_prices};
use entasis::encoding::simd::Level;
use serde_json::{Value, json};

use super::Report;
use super::clock::{self, Plan, Work};
use crate::exit::{Exit, Failure};
use crate::table::Table;

/// What decoding costs by each encoding: the table from which the chooser takes its prices
///
/// Decodes the blocks of `bench kernels` at the best level of this processor and takes from each what the nodes beneath its root take: the rest
/// is the root's own, in nanoseconds per value. Lists and structs, what is null and what is large aren't chosen and have no price.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Rounds of measurement; the shortest counts
    #[arg(long, value_name = "COUNT", default_value = "15", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Only the table, as the chooser's source holds it
    #[arg(long)]
    source: bool,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench prices
  entasis bench prices --rounds 51 --source

JSON: {\"level\", \"prices\": [{\"encoding\", \"id\", \"node_ns\", \"cascade_ns\", \"recorded_node_ns\",
  \"recorded_cascade_ns\", \"bits\"}]}; nanoseconds per value of the node alone and with its children, and the
bits that the chooser holds a value to cost by the recorded ones under the profile balanced";

/// A sample takes this long: many rounds find an undisturbed one.
const SAMPLE_SECONDS: f64 = 0.003;

/// Measures every encoding.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let kernels = kernels().map_err(entasis::Error::from)?;
    let mut works: Vec<Work<'_>> = Vec::new();
    for kernel in &kernels {
        let mut out = kernel.output();
        works.push(Box::new(move || {
            kernel.decode(&mut out).map_err(entasis::Error::from)?;
            black_box(&out);
            Ok(())
        }));
    }
    let plan = Plan { rounds: usize::from(arguments.rounds), sample_seconds: SAMPLE_SECONDS };
    let seconds: Vec<f64> = clock::interleaved(&mut works, plan)?.iter().map(|times| times.least).collect();
    drop(works);
    let prices = node_prices(&kernels, &seconds);
    let level = format!("{:?}", Level::detect()).to_lowercase();
    if report.json {
        let prices: Vec<Value> = prices.iter().map(to_json).collect();
        report.json(&json!({ "level": level, "prices": prices }))?;
    } else if arguments.source {
        print_source(report.out, &prices)?;
    } else {
        print(report.out, &level, &prices)?;
    }
    Ok(Exit::Good)
}

fn to_json(price: &NodePrice) -> Value {
    json!({
        "encoding": price.encoding,
        "id": price.id,
        "node_ns": price.node_ns,
        "cascade_ns": price.cascade_ns,
        "recorded_node_ns": price.recorded_ns.map(|recorded| recorded.0),
        "recorded_cascade_ns": price.recorded_ns.map(|recorded| recorded.1),
        "bits": price.bits,
    })
}

fn print_source(out: &mut dyn Write, prices: &[NodePrice]) -> io::Result<()> {
    prices.iter().try_for_each(|price| {
        writeln!(
            out,
            "    Price {{ id: {}, node_ns: {:.2}, cascade_ns: {:.2} }}, // {}",
            price.id, price.node_ns, price.cascade_ns, price.encoding
        )
    })
}

fn print(out: &mut dyn Write, level: &str, prices: &[NodePrice]) -> io::Result<()> {
    writeln!(out, "Decoding one value at {level}: by the node alone, and with the children that it usually has\n")?;
    let columns = ["encoding", ">node, ns", ">cascade, ns", ">recorded: node", ">cascade", ">as bits"];
    let mut table = Table::new(&columns);
    let words = |nanoseconds: Option<f64>| nanoseconds.map_or("none".to_owned(), |ns| format!("{ns:.2}"));
    for price in prices {
        table.row(vec![
            price.encoding.to_owned(),
            words(Some(price.node_ns)),
            words(Some(price.cascade_ns)),
            words(price.recorded_ns.map(|recorded| recorded.0)),
            words(price.recorded_ns.map(|recorded| recorded.1)),
            format!("{:.3}", price.bits),
        ]);
    }
    table.print(out)
}
