//! `entasis bench ablation`

use std::hint::black_box;
use std::io::{self, Write};

use clap::Args;
use entasis::encoding::{encoding_names, is_for_size_alone};
use entasis::{EncodeOptions, Profile};
use serde_json::{Value, json};

use super::clock::{self, Plan, Work};
use super::contenders::{Contender, encode_entasis};
use super::touch::Touch;
use super::{Report, Selected, Source};
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::Table;
use crate::units;

/// Encodings allowed one after the other: what each adds in bytes, and costs in CPU time
///
/// The first step has none but those without which values could not be written at all: lanes, bits and strings as they are, nulls and
/// nesting. Each further step allows one encoding more (BtrBlocks §6.2), and all tables are written and read back by it, in memory, on one
/// thread; values are compared before anything is timed. What an encoding saves depends on those before it. Encodings that only the
/// profile `size` proposes come last, and under that profile.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    selected: Selected,

    /// Rounds of measurement; the median counts
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench ablation data/
  entasis bench ablation data/ --filter taxi --rounds 1
  entasis bench ablation data/ --json > ablation.json

JSON: {\"tables\", \"arrow_bytes\", \"steps\": [{\"added\": name or null, \"bytes\", \"encode_seconds\",
  \"decode_seconds\", \"tables\": [{\"name\", \"bytes\", \"encode_seconds\", \"decode_seconds\"}]}]}; seconds are of
CPU time";

/// Without these, values of some types could not be written.
const BASE: [&str; 9] = ["Plain", "Validity", "Bitmap", "Strings", "Large", "List", "FixedList", "Struct", "Null"];
/// What is added first, in this order; all others follow by their numbers.
const FIRST: [&str; 10] =
    ["Constant", "BitPacking", "Narrow", "Dictionary", "Run", "Delta", "Alp", "Fsst", "Phrases", "Serial"];
/// A sample of one table takes at least this long.
const SAMPLE_SECONDS: f64 = 0.01;

/// Measures every step.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let files = arguments.selected.files()?;
    let mut steps = steps();
    let progress = Progress::new("bench");
    let (mut arrow_bytes, mut total) = (0, 0);
    for file in &files {
        let name = file.relative.display().to_string();
        let source = Source::open(&file.path, &name)?;
        arrow_bytes += source.arrow_bytes;
        let count = steps.len();
        for (place, step) in steps.iter_mut().enumerate() {
            progress.set((total as f64 + place as f64 / count as f64) / files.len() as f64, || name.clone());
            step.tables.push(measure(&source, &step.allowed, usize::from(arguments.rounds))?);
        }
        total += 1;
    }
    drop(progress);
    if report.json {
        let steps: Vec<Value> = steps.iter().map(Step::to_json).collect();
        report.json(&json!({ "tables": files.len(), "arrow_bytes": arrow_bytes, "steps": steps }))?;
        return Ok(Exit::Good);
    }
    print(report.out, files.len(), arrow_bytes, &steps)?;
    Ok(Exit::Good)
}

/// One encoding more than the step before.
struct Step {
    /// `None` for the first step.
    added: Option<&'static str>,
    allowed: Vec<u8>,
    tables: Vec<Figures>,
}

/// What a table takes.
struct Figures {
    name: String,
    size_bytes: u64,
    encode_seconds: f64,
    decode_seconds: f64,
}

fn steps() -> Vec<Step> {
    let names = encoding_names();
    let is_base = |name: &&str| BASE.contains(name);
    let (base, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|(_, name)| is_base(name));
    let first = FIRST.iter().filter_map(|name| others.iter().find(|(_, other)| other == name));
    let rest = others.iter().filter(|(_, name)| !FIRST.contains(name));
    let mut allowed: Vec<u8> = base.into_iter().map(|(id, _)| id).collect();
    let mut steps = vec![Step { added: None, allowed: allowed.clone(), tables: Vec::new() }];
    for (id, name) in first.chain(rest) {
        allowed.push(*id);
        steps.push(Step { added: Some(name), allowed: allowed.clone(), tables: Vec::new() });
    }
    steps
}

fn measure(source: &Source, allowed: &[u8], rounds: usize) -> Result<Figures, Failure> {
    let is_heavy = allowed.iter().any(|&id| is_for_size_alone(id));
    let profile = if is_heavy { Profile::Size } else { Profile::default() };
    let options = || EncodeOptions { allowed: Some(allowed.to_vec()), ..EncodeOptions::of(profile) };
    let encode = || encode_entasis(&source.schema, &source.batches, options());
    let encoded = encode()?;
    if let Some(difference) = source.difference(Contender::Entasis, &encoded)? {
        let message = format!("{}: other values come back: {difference}", source.name);
        return Err(Failure::Told { exit: Exit::Different, message });
    }
    let mut works: Vec<Work<'_>> = vec![
        Box::new(|| encode().map(|encoded| drop(black_box(encoded)))),
        Box::new(|| {
            let mut touch = Touch::default();
            Contender::Entasis.decode(encoded.clone(), &mut |batch| touch.batch(batch))?;
            black_box(touch.sum());
            Ok(())
        }),
    ];
    let times = clock::interleaved(&mut works, Plan { rounds, sample_seconds: SAMPLE_SECONDS })?;
    drop(works);
    Ok(Figures {
        name: source.name.clone(),
        size_bytes: encoded.len() as u64,
        encode_seconds: times[0].median,
        decode_seconds: times[1].median,
    })
}

impl Step {
    fn size_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.size_bytes).sum()
    }

    fn encode_seconds(&self) -> f64 {
        self.tables.iter().map(|table| table.encode_seconds).sum()
    }

    fn decode_seconds(&self) -> f64 {
        self.tables.iter().map(|table| table.decode_seconds).sum()
    }

    fn to_json(&self) -> Value {
        let tables: Vec<Value> = self
            .tables
            .iter()
            .map(|table| {
                json!({
                    "name": table.name,
                    "bytes": table.size_bytes,
                    "encode_seconds": table.encode_seconds,
                    "decode_seconds": table.decode_seconds,
                })
            })
            .collect();
        json!({
            "added": self.added,
            "bytes": self.size_bytes(),
            "encode_seconds": self.encode_seconds(),
            "decode_seconds": self.decode_seconds(),
            "tables": tables,
        })
    }
}

fn print(out: &mut dyn Write, tables: usize, arrow_bytes: u64, steps: &[Step]) -> io::Result<()> {
    let (tables, size) = (units::counted(tables as u64, "table"), units::bytes(arrow_bytes));
    writeln!(out, "{tables}, {size} of Arrow buffers; each step keeps the encodings before it\n")?;
    let mut table = Table::new(&[
        "encoding added",
        ">bytes",
        ">step",
        ">Arrow/file",
        ">encode CPU",
        ">MB/s",
        ">decode CPU",
        ">MB/s",
    ]);
    let mut before = None;
    for step in steps {
        let size_bytes = step.size_bytes();
        let speed = |seconds: f64| format!("{:.0}", arrow_bytes as f64 / 1e6 / seconds.max(1e-12));
        let change = |before: u64| match (size_bytes as f64 / before.max(1) as f64 - 1.0) * 100.0 {
            none if none.abs() < 0.05 => "–".to_owned(),
            percent => format!("{percent:+.1} %"),
        };
        table.row(vec![
            step.added.map_or("(none)".to_owned(), |name| format!("+ {name}")),
            units::bytes(size_bytes),
            before.map_or(String::new(), change),
            units::significant(arrow_bytes as f64 / size_bytes.max(1) as f64),
            units::seconds(step.encode_seconds()),
            speed(step.encode_seconds()),
            units::seconds(step.decode_seconds()),
            speed(step.decode_seconds()),
        ]);
        before = Some(size_bytes);
    }
    table.print(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_allows_every_encoding() {
        let steps = steps();
        let mut allowed = steps[steps.len() - 1].allowed.clone();
        allowed.sort_unstable();
        assert_eq!(allowed, encoding_names().into_iter().map(|(id, _)| id).collect::<Vec<_>>());
        assert!(steps[0].added.is_none() && steps[1].added == Some("Constant"));
        assert!(steps.windows(2).all(|pair| pair[1].allowed.len() == pair[0].allowed.len() + 1));
    }
}
