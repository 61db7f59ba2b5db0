//! `entasis bench filters`

mod files;

use std::hint::black_box;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use entasis::encoding::bench::{Asked, Kernel, Reduced, kernels};
use entasis::encoding::{AggregateWork, BitBuffer, FilterWork};
use serde_json::{Value, json};

use super::Report;
use super::clock::{self, Plan, Work};
use crate::exit::{Exit, Failure};
use crate::table::Table;
use crate::units;

/// Predicates and aggregates on encoded values, beside decoding them first
///
/// The blocks are those of `bench kernels`: a few vectors for each encoding, in the first cache. Each is asked some predicates, and for its
/// least and greatest value and its sum, as it is encoded and by decoding all of it and asking the decoded values, with the same
/// comparisons and additions; the answers are compared before anything is timed. One thread; the shortest round counts.
///
/// Where files are given it is their columns of strings that are asked: all blocks of the first row group, opened anew each time, and
/// decoded 8,192 rows at a time where that comes first; medians count.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Entasis files whose strings are asked
    #[arg(value_name = "FILE")]
    paths: Vec<PathBuf>,

    /// Rounds of measurement
    #[arg(long, value_name = "COUNT", default_value = "7", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Only encodings whose name contains this; of files, columns whose cascade does
    #[arg(long, value_name = "SUBSTRING", default_value = "")]
    filter: String,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench filters
  entasis bench filters --filter Dictionary --rounds 31
  entasis bench filters hits.ent

JSON: {\"filters\": [{\"encoding\", \"cascade\", \"values\", \"predicate\", \"rows\", \"passing\", \"decoded_values\",
  \"encoded_ns_per_value\", \"decoded_ns_per_value\"}],
  \"aggregates\": [{\"encoding\", \"cascade\", \"values\", \"aggregate\", \"rows\", \"decoded_values\",
  \"encoded_ns_per_value\", \"decoded_ns_per_value\"}]};
  of files {\"columns\": [{\"file\", \"column\", \"cascade\", \"rows\", \"decoded_bytes\", \"decode_seconds\",
  \"asked\": [{\"predicate\", \"passing\", \"decoded_values\", \"encoded_seconds\", \"decoded_seconds\"}]}]}";

/// A sample takes this long: many rounds find an undisturbed one.
const SAMPLE_SECONDS: f64 = 0.002;

/// Measures.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    if !arguments.paths.is_empty() {
        return files::run(&arguments.paths, &arguments.filter, usize::from(arguments.rounds), report);
    }
    let mut kernels = kernels().map_err(entasis::Error::from)?;
    kernels.retain(|kernel| kernel.encoding.contains(&arguments.filter));
    let asked = kernels.iter().map(Kernel::asked).collect::<Result<Vec<_>, _>>().map_err(entasis::Error::from)?;
    let reduced = kernels.iter().map(Kernel::reduced).collect::<Result<Vec<_>, _>>().map_err(entasis::Error::from)?;
    let (asked, reduced) = (asked.into_iter().flatten(), reduced.into_iter().flatten());
    let mut figures: Vec<Figures<'_>> =
        asked.map(Question::Asked).chain(reduced.map(Question::Reduced)).map(Figures::of).collect();
    let mut works: Vec<Work<'_>> = figures.iter().flat_map(|figures| figures.question.works()).collect();
    let plan = Plan { rounds: usize::from(arguments.rounds), sample_seconds: SAMPLE_SECONDS };
    let seconds: Vec<f64> = clock::interleaved(&mut works, plan)?.iter().map(|times| times.least).collect();
    drop(works);
    for (figures, seconds) in figures.iter_mut().zip(seconds.chunks_exact(2)) {
        let per_value = |seconds: f64| seconds * 1e9 / figures.question.kernel().rows as f64;
        (figures.encoded_ns, figures.decoded_ns) = (per_value(seconds[0]), per_value(seconds[1]));
    }
    if report.json {
        let of = |is_filter: bool| -> Vec<Value> {
            let of_kind = figures.iter().filter(|figures| matches!(figures.question, Question::Asked(_)) == is_filter);
            of_kind.map(Figures::to_json).collect()
        };
        report.json(&json!({ "filters": of(true), "aggregates": of(false) }))?;
    } else {
        print(report.out, &figures)?;
    }
    Ok(Exit::Good)
}

/// What is asked of one block.
enum Question<'a> {
    Asked(Asked<'a>),
    Reduced(Reduced<'a>),
}

impl<'a> Question<'a> {
    fn kernel(&self) -> &'a Kernel {
        match self {
            Question::Asked(asked) => asked.kernel,
            Question::Reduced(reduced) => reduced.kernel,
        }
    }

    /// Answering it of encoded values, and of decoded ones.
    fn works(&self) -> [Work<'_>; 2] {
        let mut out = self.kernel().output();
        match self {
            Question::Asked(asked) => {
                let (mut work, mut bits) = (FilterWork::default(), BitBuffer::default());
                [timed(move || asked.of_encoded(&mut work)), timed(move || asked.of_decoded(&mut out, &mut bits))]
            }
            Question::Reduced(reduced) => {
                let (mut work, mut other) = (AggregateWork::default(), AggregateWork::default());
                [timed(move || reduced.of_encoded(&mut work)), timed(move || reduced.of_decoded(&mut out, &mut other))]
            }
        }
    }
}

/// Work whose answer nobody needs.
fn timed<'a, T>(mut work: impl FnMut() -> entasis::encoding::Result<T> + 'a) -> Work<'a> {
    Box::new(move || {
        black_box(work().map_err(entasis::Error::from)?);
        Ok(())
    })
}

/// One question to one block: nanoseconds per value.
struct Figures<'a> {
    question: Question<'a>,
    encoded_ns: f64,
    decoded_ns: f64,
}

impl<'a> Figures<'a> {
    fn of(question: Question<'a>) -> Self {
        Self { question, encoded_ns: 0.0, decoded_ns: 0.0 }
    }

    fn to_json(&self) -> Value {
        let kernel = self.question.kernel();
        let mut json = json!({
            "encoding": kernel.encoding,
            "cascade": kernel.cascade,
            "values": kernel.values,
            "rows": kernel.rows,
            "encoded_ns_per_value": self.encoded_ns,
            "decoded_ns_per_value": self.decoded_ns,
        });
        match &self.question {
            Question::Asked(asked) => {
                json["predicate"] = json!(asked.predicate);
                json["passing"] = json!(asked.passing);
                json["decoded_values"] = json!(asked.decoded_values);
            }
            Question::Reduced(reduced) => {
                json["aggregate"] = json!(reduced.words);
                json["decoded_values"] = json!(reduced.decoded_values);
            }
        }
        json
    }
}

fn print(out: &mut dyn Write, figures: &[Figures<'_>]) -> io::Result<()> {
    writeln!(
        out,
        "Predicates and aggregates in the first cache, one thread: ns per value, encoded and by decoding first\n"
    )?;
    let mut table =
        Table::new(&["encoding", "values", "asked for", ">pass", ">decoded", ">encoded, ns", ">decoded, ns", ">ratio"]);
    for figures in figures {
        let kernel = figures.question.kernel();
        let share = |count: u64| units::percent(count, kernel.rows as u64);
        let (words, passing, decoded_values) = match &figures.question {
            Question::Asked(asked) => (asked.predicate, share(asked.passing as u64), asked.decoded_values),
            Question::Reduced(reduced) => (reduced.words, String::new(), reduced.decoded_values),
        };
        table.row(vec![
            kernel.encoding.to_owned(),
            kernel.values.to_owned(),
            words.to_owned(),
            passing,
            share(decoded_values),
            format!("{:.3}", figures.encoded_ns),
            format!("{:.3}", figures.decoded_ns),
            format!("{:.2}", figures.encoded_ns / figures.decoded_ns),
        ]);
    }
    table.print(out)
}
