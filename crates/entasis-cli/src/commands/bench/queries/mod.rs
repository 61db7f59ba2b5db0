//! `entasis bench queries`

pub(super) mod answers;
pub(super) mod contender;
pub(super) mod figures;
mod page;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::Report;
use super::clock::geometric_mean;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::Table;
use crate::units;
use answers::{Agreement, Answers};
use contender::{Contender, Run};
use figures::Figures;

/// Queries on Entasis and on Parquet, in the same engine
///
/// Each table, a Parquet file, is converted with default settings, and every query runs on both, in DataFusion: on Parquet with its
/// filters pushed down into the reader and without. Answers are compared first. Then the contenders take turns, and CPU times count:
/// Entasis over the better of both ways to read Parquet.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Folder with a Parquet file for each table; the file's name is the table's
    #[arg(value_name = "FOLDER")]
    tables: PathBuf,

    /// File with the queries, each ended by a semicolon. What isn't a query, such as CREATE VIEW, is carried out first
    #[arg(value_name = "QUERIES")]
    queries: PathBuf,

    /// Rounds in which the contenders take turns; fewer, but 3, once a query has taken --seconds
    #[arg(long, value_name = "COUNT", default_value = "15", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Seconds for a query, after which no more than 3 rounds are made
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    seconds: f64,

    /// Only these queries, counted from 1
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    only: Vec<usize>,

    /// Threads of the engine
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,

    /// Where the converted tables are kept and found again [default: a folder that is removed]
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,

    /// Also Parquet written anew, with Zstandard 3, pages of 20,000 rows and a page index
    #[arg(long)]
    tuned: bool,

    /// A page with the figures as pictures
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench queries hits/ clickbench.sql --keep /tmp/hits
  entasis bench queries tpch/ tpch.sql --only 1,6,14 --html queries.html

JSON: {\"queries\": [{\"query\", \"sql\", \"rows\", \"answer\", \"rounds\", \"ratio\", \"ratio_low\", \"ratio_high\", \"ratio_without_planning\",
  \"contenders\": {name: {\"cpu_seconds\", \"wall_seconds\", \"planning_cpu_seconds\", \"bytes_read\"}}}],
  \"geometric_mean\", \"geometric_mean_without_planning\", \"slower\"}. Ratios are of CPU times, Entasis over the better of the others,
  with the bounds of the median's 95 % interval.";

/// Measures.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let text = fs::read_to_string(&arguments.queries).map_err(|error| Failure::io(&arguments.queries, &error))?;
    let tables = tables_in(&arguments.tables)?;
    let temporary = tempfile::tempdir()?;
    let kept = arguments.keep.as_deref().unwrap_or(temporary.path());
    let progress = Progress::new("bench");
    let mut contenders = Contender::all(&tables, kept, usize::from(arguments.threads), arguments.tuned, &progress)?;
    let mut queries = Vec::new();
    for sql in contender::statements(&text)? {
        if contender::is_query(&sql) {
            queries.push(sql);
        } else {
            contenders.iter_mut().try_for_each(|contender| contender.set_up(&sql))?;
        }
    }
    let mut all = Vec::new();
    for (number, sql) in (1..).zip(&queries) {
        if arguments.only.is_empty() || arguments.only.contains(&number) {
            progress.set(number as f64 / queries.len() as f64, || format!("query {number}"));
            all.push(measure(arguments, number, sql, &contenders)?);
        }
    }
    drop(progress);
    if let Some(path) = &arguments.html {
        fs::write(path, page::of(&all)).map_err(|error| Failure::io(path, &error))?;
    }
    if report.json {
        report.json(&json!({
            "queries": all.iter().map(Figures::to_json).collect::<Vec<_>>(),
            "geometric_mean": geometric_mean(all.iter().map(|one| one.ratio.median)),
            "geometric_mean_without_planning": geometric_mean(all.iter().map(|one| one.without_planning)),
            "slower": all.iter().filter(|one| one.is_slower()).map(|one| one.number).collect::<Vec<_>>(),
        }))?;
    } else {
        print(report.out, &all)?;
    }
    let differing = all.iter().filter(|one| one.agreement == Agreement::Different).count();
    Ok(if differing == 0 { Exit::Good } else { Exit::Different })
}

/// The Parquet files of a folder, each with its name as a table.
pub(super) fn tables_in(folder: &Path) -> Result<Vec<(String, PathBuf)>, Failure> {
    let mut tables = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| Failure::io(folder, &error))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            tables.push((name, path));
        }
    }
    tables.sort();
    if tables.is_empty() { Err(Failure::usage(format!("{}: no Parquet file", folder.display()))) } else { Ok(tables) }
}

/// Runs a query in every contender, compares the answers, and then lets them take turns.
fn measure(arguments: &Arguments, number: usize, sql: &str, contenders: &[Contender]) -> Result<Figures, Failure> {
    let first: Vec<Run> = contenders.iter().map(|contender| contender.run(sql)).collect::<Result<_, _>>()?;
    let agreement = Answers::of(&first[1]).agreement(&Answers::of(&first[0]), || {
        let keys = |contender: &Contender| contender.keys(sql).map(|run| run.map(|run| Answers::of(&run)));
        Ok((keys(&contenders[1])?, keys(&contenders[0])?))
    })?;
    let begin = std::time::Instant::now();
    let mut runs: Vec<Vec<Run>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..usize::from(arguments.rounds) {
        if round >= 3 && begin.elapsed().as_secs_f64() > arguments.seconds {
            break;
        }
        for (contender, runs) in contenders.iter().zip(&mut runs) {
            runs.push(contender.run(sql)?.without_rows());
        }
    }
    let names = contenders.iter().map(|contender| contender.name);
    Ok(Figures::new(number, sql, first[0].row_count(), agreement, names.zip(runs).collect()))
}

fn print(out: &mut dyn Write, all: &[Figures]) -> Result<(), Failure> {
    writeln!(
        out,
        "CPU time of queries in DataFusion, planning included; Entasis over the better way to read Parquet\n"
    )?;
    let names: Vec<String> = all
        .first()
        .map_or(Vec::new(), |one| one.contenders.iter().map(|contender| format!(">{}, ms", contender.name)).collect());
    let mut headings = vec![">query", "answer", ">rows"];
    headings.extend(names.iter().map(String::as_str));
    headings.extend([">ratio", ">95 %", ">unplanned", ">bytes read"]);
    let mut table = Table::new(&headings);
    for one in all {
        let mut row = vec![one.number.to_string(), one.agreement.to_string(), units::grouped(one.rows as u64)];
        row.extend(one.contenders.iter().map(|contender| format!("{:.1}", contender.cpu * 1e3)));
        let read = one.contenders[0].bytes_read as f64 / one.best().bytes_read.max(1) as f64;
        row.extend([
            format!("{:.2}{}", one.ratio.median, if one.is_slower() { " !" } else { "" }),
            format!("{:.2}–{:.2}", one.ratio.low, one.ratio.high),
            format!("{:.2}", one.without_planning),
            format!("{read:.2}"),
        ]);
        table.row(row);
    }
    table.print(out)?;
    let mean = |ratios: &dyn Fn(&Figures) -> f64| geometric_mean(all.iter().map(ratios));
    writeln!(
        out,
        "\nGeometric mean {:.3}, without planning {:.3}; slower than allowed (!): {} of {}",
        mean(&|one| one.ratio.median),
        mean(&|one| one.without_planning),
        all.iter().filter(|one| one.is_slower()).count(),
        all.len()
    )?;
    Ok(())
}
