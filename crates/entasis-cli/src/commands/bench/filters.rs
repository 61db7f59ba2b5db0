//! `entasis bench filters`

use std::hint::black_box;
use std::io::{self, Write};

use clap::Args;
use entasis::encoding::bench::{Asked, Kernel, kernels};
use entasis::encoding::{BitBuffer, FilterWork};
use serde_json::{Value, json};

use super::Report;
use super::clock::{self, Plan, Work};
use crate::exit::{Exit, Failure};
use crate::table::Table;
use crate::units;

/// Predicates on encoded values, beside decoding them first
///
/// The blocks are those of `bench kernels`: a few vectors for each encoding, in the first cache. Each is asked some predicates, as it is
/// encoded and by decoding all of it and asking the decoded values, with the same comparisons; the answers are compared before anything is
/// timed. One thread; the shortest round counts.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Rounds of measurement
    #[arg(long, value_name = "COUNT", default_value = "7", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Only encodings whose name contains this
    #[arg(long, value_name = "SUBSTRING", default_value = "")]
    filter: String,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench filters
  entasis bench filters --filter Dictionary --rounds 31

JSON: {\"filters\": [{\"encoding\", \"cascade\", \"values\", \"predicate\", \"rows\", \"passing\", \"decoded_values\",
  \"encoded_ns_per_value\", \"decoded_ns_per_value\"}]}";

/// A sample takes this long: many rounds find an undisturbed one.
const SAMPLE_SECONDS: f64 = 0.002;

/// Measures.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let mut kernels = kernels().map_err(entasis::Error::from)?;
    kernels.retain(|kernel| kernel.encoding.contains(&arguments.filter));
    let asked = kernels.iter().map(Kernel::asked).collect::<Result<Vec<_>, _>>().map_err(entasis::Error::from)?;
    let asked: Vec<Asked<'_>> = asked.into_iter().flatten().collect();
    let mut works: Vec<Work<'_>> = Vec::new();
    for asked in &asked {
        let mut work = FilterWork::default();
        works.push(Box::new(move || {
            black_box(asked.of_encoded(&mut work).map_err(entasis::Error::from)?);
            Ok(())
        }));
        let (mut out, mut bits) = (asked.kernel.output(), BitBuffer::default());
        works.push(Box::new(move || {
            black_box(asked.of_decoded(&mut out, &mut bits).map_err(entasis::Error::from)?);
            Ok(())
        }));
    }
    let plan = Plan { rounds: usize::from(arguments.rounds), sample_seconds: SAMPLE_SECONDS };
    let seconds: Vec<f64> = clock::interleaved(&mut works, plan)?.iter().map(|times| times.least).collect();
    drop(works);
    let figures: Vec<Figures<'_>> = asked
        .iter()
        .zip(seconds.chunks_exact(2))
        .map(|(asked, seconds)| {
            let per_value = |seconds: f64| seconds * 1e9 / asked.kernel.rows as f64;
            Figures { asked, encoded_ns: per_value(seconds[0]), decoded_ns: per_value(seconds[1]) }
        })
        .collect();
    if report.json {
        report.json(&json!({ "filters": figures.iter().map(Figures::to_json).collect::<Vec<_>>() }))?;
    } else {
        print(report.out, &figures)?;
    }
    Ok(Exit::Good)
}

/// One predicate on one block: nanoseconds per value.
struct Figures<'a> {
    asked: &'a Asked<'a>,
    encoded_ns: f64,
    decoded_ns: f64,
}

impl Figures<'_> {
    fn to_json(&self) -> Value {
        let Asked { kernel, predicate, passing, decoded_values, .. } = self.asked;
        json!({
            "encoding": kernel.encoding,
            "cascade": kernel.cascade,
            "values": kernel.values,
            "predicate": predicate,
            "rows": kernel.rows,
            "passing": passing,
            "decoded_values": decoded_values,
            "encoded_ns_per_value": self.encoded_ns,
            "decoded_ns_per_value": self.decoded_ns,
        })
    }
}

fn print(out: &mut dyn Write, figures: &[Figures<'_>]) -> io::Result<()> {
    writeln!(out, "Predicates in the first cache, one thread: ns per value, encoded and by decoding first\n")?;
    let mut table =
        Table::new(&["encoding", "values", "predicate", ">pass", ">decoded", ">encoded, ns", ">decoded, ns", ">ratio"]);
    for figures in figures {
        let Asked { kernel, predicate, passing, decoded_values, .. } = figures.asked;
        table.row(vec![
            kernel.encoding.to_owned(),
            kernel.values.to_owned(),
            (*predicate).to_owned(),
            units::percent(*passing as u64, kernel.rows as u64),
            units::percent(*decoded_values, kernel.rows as u64),
            format!("{:.3}", figures.encoded_ns),
            format!("{:.3}", figures.decoded_ns),
            format!("{:.2}", figures.encoded_ns / figures.decoded_ns),
        ]);
    }
    table.print(out)
}
