//! `entasis bench kernels`

use std::hint::black_box;
use std::io::{self, Write};
use std::process::Command;

use clap::Args;
use entasis::encoding::bench::{Kernel, kernels};
use entasis::encoding::simd::{LEVEL_VARIABLE, Level};
use serde_json::{Value, json};

use super::Report;
use super::clock::{self, Plan, Work};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::Table;
use crate::units;

/// Decoding of each encoding in the first cache, at every level of instructions that this processor has
///
/// For each encoding a block of a few vectors is made of values that suit it, decoded, compared with them, and then decoded again and
/// again: what is read and written stays in the first cache, but for some strings. `copy` copies 16 KiB. Each level runs in a process of its
/// own, one thread; the shortest round counts. Cycles are calibrated beside the kernels, not read from the processor: a chain of
/// shifts and exclusive ors, each of which needs the one before and takes a cycle.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Rounds of measurement
    #[arg(long, value_name = "COUNT", default_value = "7", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Only encodings whose name contains this
    #[arg(long, value_name = "SUBSTRING", default_value = "")]
    filter: String,

    /// Only one level: `scalar`, `avx2`, …; measured in this process
    #[arg(long, value_name = "LEVEL", hide = true)]
    level: Option<String>,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench kernels
  entasis bench kernels --filter Pack --rounds 31
  entasis bench kernels --json > kernels.json

JSON: {\"levels\": [{\"level\", \"cycles_per_second\", \"kernels\": [{\"encoding\", \"cascade\", \"values\", \"rows\",
  \"encoded_bytes\", \"decoded_bytes\", \"ns_per_value\", \"bytes_per_cycle\"}]}]}; bytes per cycle are those
of the decoded buffers, and the first kernel is `copy`, whose values are of 8 bytes";

/// A sample takes this long: many rounds find an undisturbed one.
const SAMPLE_SECONDS: f64 = 0.003;
/// What `copy` copies.
const COPY_BYTES: usize = 16 << 10;

/// Measures every level.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    if let Some(level) = &arguments.level {
        let measured = measure(arguments, level)?;
        report.json(&measured)?;
        return Ok(Exit::Good);
    }
    let levels = Level::available();
    let progress = Progress::new("bench");
    let mut measured = Vec::new();
    for (place, level) in levels.iter().enumerate() {
        progress.set(place as f64 / levels.len() as f64, || name(*level));
        measured.push(elsewhere(arguments, *level)?);
    }
    drop(progress);
    if report.json {
        report.json(&json!({ "levels": measured }))?;
        return Ok(Exit::Good);
    }
    print(report.out, &measured)?;
    Ok(Exit::Good)
}

fn name(level: Level) -> String {
    format!("{level:?}").to_lowercase()
}

/// Measures in a process that runs at `level`: a process determines its level once.
fn elsewhere(arguments: &Arguments, level: Level) -> Result<Value, Failure> {
    let failed =
        |what: String| Failure::Told { exit: Exit::Io, message: format!("bench kernels at {}: {what}", name(level)) };
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .args(["bench", "kernels", "--json", "--level", &name(level), "--filter", &arguments.filter])
        .args(["--rounds", &arguments.rounds.to_string()])
        .env(LEVEL_VARIABLE, name(level))
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// Measures at the level of this process, which has to be the one that is asked for.
fn measure(arguments: &Arguments, level: &str) -> Result<Value, Failure> {
    if name(Level::detect()) != level {
        return Err(Failure::usage(format!(
            "this process doesn't run at {level}; {LEVEL_VARIABLE} says at which it does"
        )));
    }
    let mut kernels = kernels().map_err(entasis::Error::from)?;
    kernels.retain(|kernel| kernel.encoding.contains(&arguments.filter) && kernel.decoded_bytes > 0);
    let source = vec![7u8; COPY_BYTES];
    let mut target = Vec::with_capacity(COPY_BYTES);
    let mut works: Vec<Work<'_>> = vec![
        Box::new(|| {
            black_box(spend_cycles(black_box(1)));
            Ok(())
        }),
        Box::new(move || {
            target.clear();
            target.extend_from_slice(black_box(&source));
            black_box(&target);
            Ok(())
        }),
    ];
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
    let cycles_per_second = CYCLES as f64 / seconds[0];
    let copy = json!({
        "encoding": "copy",
        "cascade": "",
        "values": "64 bits each",
        "rows": COPY_BYTES / 8,
        "encoded_bytes": COPY_BYTES,
        "decoded_bytes": COPY_BYTES,
        "ns_per_value": seconds[1] * 1e9 / (COPY_BYTES / 8) as f64,
        "bytes_per_cycle": COPY_BYTES as f64 / (seconds[1] * cycles_per_second),
    });
    let figures =
        kernels.iter().zip(&seconds[2..]).map(|(kernel, seconds)| to_json(kernel, *seconds, cycles_per_second));
    let figures: Vec<Value> = [copy].into_iter().chain(figures).collect();
    Ok(json!({ "level": level, "cycles_per_second": cycles_per_second, "kernels": figures }))
}

/// Steps of [`spend_cycles`].
const STEPS: u64 = 20_000;
/// Cycles of all steps: in each, three times a shift and an exclusive or.
const CYCLES: u64 = 6 * STEPS;

/// A chain of operations that wait for each other (Marsaglia's xorshift): on current processors [`CYCLES`] cycles, whatever their speed.
fn spend_cycles(seed: u64) -> u64 {
    (0..STEPS).fold(seed, |mut x, _| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^ x << 17
    })
}

fn to_json(kernel: &Kernel, seconds: f64, cycles_per_second: f64) -> Value {
    json!({
        "encoding": kernel.encoding,
        "cascade": kernel.cascade,
        "values": kernel.values,
        "rows": kernel.rows,
        "encoded_bytes": kernel.encoded_bytes,
        "decoded_bytes": kernel.decoded_bytes,
        "ns_per_value": seconds * 1e9 / kernel.rows as f64,
        "bytes_per_cycle": kernel.decoded_bytes as f64 / (seconds * cycles_per_second),
    })
}

fn print(out: &mut dyn Write, levels: &[Value]) -> io::Result<()> {
    let words = |level: &Value| level["level"].as_str().unwrap_or_default().to_owned();
    let speeds: Vec<String> = levels
        .iter()
        .map(|level| {
            let gigahertz = level["cycles_per_second"].as_f64().unwrap_or(f64::NAN) / 1e9;
            format!("{} at {gigahertz:.2} GHz", words(level))
        })
        .collect();
    writeln!(out, "Decoding in the first cache, one thread: ns per value, and bytes decoded per cycle")?;
    writeln!(out, "Cycles: {}\n", speeds.join(", "))?;
    let mut headings = vec!["encoding".to_owned(), "values".to_owned(), ">bits".to_owned()];
    for level in levels {
        headings.extend([format!(">{}, ns", words(level)), ">B/cycle".to_owned()]);
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    let count = levels.first().and_then(|level| level["kernels"].as_array()).map_or(0, Vec::len);
    for place in 0..count {
        let first = &levels[0]["kernels"][place];
        let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
        let bits = number(&first["encoded_bytes"]) * 8.0 / number(&first["rows"]);
        let text = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
        let mut row = vec![text("encoding"), text("values"), units::significant(bits)];
        for level in levels {
            let figures = &level["kernels"][place];
            row.push(format!("{:.3}", number(&figures["ns_per_value"])));
            row.push(format!("{:.1}", number(&figures["bytes_per_cycle"])));
        }
        table.row(row);
    }
    table.print(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_of_the_chain_needs_the_one_before() {
        // Xorshift's period is 2^64 − 1: it doesn't come back, and is never zero.
        let after: Vec<u64> = (1..100).map(spend_cycles).collect();
        assert!(after.iter().all(|state| *state != 0) && after.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
