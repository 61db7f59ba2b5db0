//! One query again and again while a cache transcodes what it touched (LiquidCache, Figure 14).

use std::time::Instant;

use entasis_cache::{Arrival, Cache, CacheOptions};
use serde_json::{Value, json};

use super::super::Report;
use super::super::queries::answers::Agreement;
use super::super::queries::contender::Contender;
use super::super::queries::figures::Interval;
use super::{Arguments, Check, Systems, UNLIMITED_BYTES, each_query};
use crate::exit::{Exit, Failure};
use crate::table::Table;
use crate::units;

/// After so many seconds a query isn't asked again, though cells may wait.
const MOST_SECONDS: f64 = 120.0;

/// Lines of a curve that people get to see.
const LINES: usize = 16;

/// A query over time.
struct Curve {
    number: usize,
    sql: String,
    agreement: Agreement,
    /// Its time behind a cache that keeps arrays, once they are there, and what they take.
    arrow_seconds: f64,
    arrow_bytes: u64,
    steps: Vec<Step>,
}

/// A time that the query ran.
struct Step {
    /// When it ended, in seconds from the end of the first.
    at: f64,
    seconds: f64,
    held_bytes: u64,
    queued_cells: usize,
}

/// Measures every query from an empty cache until nothing waits to be transcoded, and as often as there are rounds from then on.
pub fn run(
    arguments: &Arguments,
    queries: &[String],
    systems: &Systems,
    plain: &Contender,
    report: &mut Report<'_>,
) -> Result<Exit, Failure> {
    let all = each_query(arguments, queries, |number, sql| measure(arguments, number, sql, systems, plain))?;
    match report.json {
        true => report.json(&json!({ "queries": all.iter().map(Curve::to_json).collect::<Vec<_>>() }))?,
        false => all.iter().try_for_each(|curve| print(report, curve))?,
    }
    let is_wrong = all.iter().any(|one| one.agreement == Agreement::Different);
    Ok(if is_wrong { Exit::Different } else { Exit::Good })
}

fn measure(
    arguments: &Arguments,
    number: usize,
    sql: &str,
    systems: &Systems,
    plain: &Contender,
) -> Result<Curve, Failure> {
    let expected = plain.run(sql)?;
    let mut check = Check::of(sql, plain, &expected);
    let (arrow, arrays) = systems.make_cached("Arrow", Arrival::Arrays, UNLIMITED_BYTES)?;
    check.run(&arrow)?;
    let mut warm = Vec::new();
    for _ in 0..arguments.rounds {
        warm.push(check.run(&arrow)?.wall);
    }
    let arrow_bytes = arrays.statistics().used_bytes;
    drop((arrow, arrays));
    let cache = Cache::new(CacheOptions { memory_bytes: UNLIMITED_BYTES, ..CacheOptions::default() })?;
    let system = systems.make("Entasis", false, Some(&cache))?;
    let (mut steps, mut begin, mut left): (Vec<Step>, _, _) = (Vec::new(), Instant::now(), arguments.rounds);
    while left > 0 {
        let seconds = check.run(&system)?.wall;
        if steps.is_empty() {
            begin = Instant::now();
        }
        let (at, statistics) = (begin.elapsed().as_secs_f64(), cache.statistics());
        steps.push(Step { at, seconds, held_bytes: statistics.used_bytes, queued_cells: statistics.queued_cells });
        if statistics.queued_cells == 0 || at > MOST_SECONDS {
            left -= 1;
        }
    }
    let arrow_seconds = Interval::of(warm.into_iter()).median;
    Ok(Curve { number, sql: sql.to_owned(), agreement: check.worst, arrow_seconds, arrow_bytes, steps })
}

impl Curve {
    fn to_json(&self) -> Value {
        let step = |step: &Step| {
            json!({
                "at": step.at,
                "seconds": step.seconds,
                "bytes": step.held_bytes,
                "queued_cells": step.queued_cells,
            })
        };
        json!({
            "query": self.number,
            "sql": self.sql,
            "answer": self.agreement.to_string(),
            "arrow": { "seconds": self.arrow_seconds, "bytes": self.arrow_bytes },
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
        })
    }
}

fn print(report: &mut Report<'_>, curve: &Curve) -> Result<(), Failure> {
    writeln!(
        report.out,
        "Query {}, {}; behind a cache of arrays, which hold {}, it takes {:.1} ms\n",
        curve.number,
        curve.agreement,
        units::bytes(curve.arrow_bytes),
        curve.arrow_seconds * 1e3,
    )?;
    let mut table = Table::new(&[">second", ">held", ">cells waiting", ">ms", ">of arrays' time"]);
    let (count, last) = (curve.steps.len().min(LINES), curve.steps.len() - 1);
    for line in 0..count {
        let step = &curve.steps[line * last / (count - 1).max(1)];
        table.row(vec![
            format!("{:.2}", step.at),
            units::bytes(step.held_bytes),
            step.queued_cells.to_string(),
            format!("{:.1}", step.seconds * 1e3),
            format!("{:.2}", step.seconds / curve.arrow_seconds),
        ]);
    }
    table.print(report.out)?;
    writeln!(report.out)?;
    Ok(())
}
