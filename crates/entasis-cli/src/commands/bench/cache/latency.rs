//! What queries take of the clock while the cache transcodes.

use entasis_cache::{Arrival, Cache, CacheOptions};
use serde_json::{Value, json};

use super::super::Report;
use super::super::queries::answers::Agreement;
use super::super::queries::contender::Contender;
use super::{Arguments, Check, Systems, UNLIMITED_BYTES, each_query, new_cache};
use crate::exit::{Exit, Failure};
use crate::table::Table;

/// A query that ran behind both caches while there was something to transcode.
struct Sample {
    query: usize,
    round: u16,
    agreement: Agreement,
    /// What waited when the query began.
    queued_cells: usize,
    arrow_seconds: f64,
    entasis_seconds: f64,
}

/// Each round begins with empty caches; its queries follow one another, first behind the one, then behind the other.
pub fn run(
    arguments: &Arguments,
    queries: &[String],
    systems: &Systems,
    plain: &Contender,
    report: &mut Report<'_>,
) -> Result<Exit, Failure> {
    let mut samples = Vec::new();
    let mut expected = Vec::new();
    each_query(arguments, queries, |number, sql| {
        expected.push((number, plain.run(sql)?));
        Ok(())
    })?;
    for round in 1..=arguments.rounds {
        let order = shuffled(expected.len(), u64::from(round));
        let arrays = new_cache(Arrival::Arrays, UNLIMITED_BYTES)?;
        let arrow = pass(systems, "Arrow", &arrays, queries, &order, &expected, plain)?;
        drop(arrays);
        let blocks = Cache::new(CacheOptions { memory_bytes: UNLIMITED_BYTES, ..CacheOptions::default() })?;
        let entasis = pass(systems, "Entasis", &blocks, queries, &order, &expected, plain)?;
        for ((&index, arrow), entasis) in order.iter().zip(arrow).zip(entasis) {
            // What comes first finds nothing to transcode, nor does what comes when all is done.
            if entasis.was_busy {
                samples.push(Sample {
                    query: expected[index].0,
                    round,
                    agreement: if arrow.agreement == Agreement::Different {
                        arrow.agreement
                    } else {
                        entasis.agreement
                    },
                    queued_cells: entasis.queued_cells,
                    arrow_seconds: arrow.seconds,
                    entasis_seconds: entasis.seconds,
                });
            }
        }
    }
    match report.json {
        true => report.json(&to_json(&samples))?,
        false => print(report, &samples)?,
    }
    let is_wrong = samples.iter().any(|one| one.agreement == Agreement::Different);
    Ok(if is_wrong { Exit::Different } else { Exit::Good })
}

/// A query behind one of the caches.
struct Timed {
    agreement: Agreement,
    seconds: f64,
    queued_cells: usize,
    /// True if cells waited before or after.
    was_busy: bool,
}

/// All queries in this order, one after the other, in a session that is new.
fn pass(
    systems: &Systems,
    name: &'static str,
    cache: &Cache,
    queries: &[String],
    order: &[usize],
    expected: &[(usize, super::Run)],
    plain: &Contender,
) -> Result<Vec<Timed>, Failure> {
    let system = systems.make(name, false, Some(cache))?;
    let mut all = Vec::with_capacity(order.len());
    for &index in order {
        let (number, expected) = &expected[index];
        let queued_cells = cache.statistics().queued_cells;
        let mut check = Check::of(&queries[number - 1], plain, expected);
        let seconds = check.run(&system)?.wall;
        let was_busy = queued_cells + cache.statistics().queued_cells > 0;
        all.push(Timed { agreement: check.worst, seconds, queued_cells, was_busy });
    }
    Ok(all)
}

/// The numbers below `count` in an order that hangs on the seed alone (Fisher and Yates, with Knuth's multiplier).
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = seed;
    for last in (1..count).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    order
}

/// The value that so large a share of them doesn't exceed; 0 of none.
fn quantile(values: impl Iterator<Item = f64>, share: f64) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

const SHARES: [(&str, f64); 3] = [("median", 0.5), ("p99", 0.99), ("most", 1.0)];

fn ratios(samples: &[Sample]) -> impl Iterator<Item = f64> {
    samples.iter().map(|one| one.entasis_seconds / one.arrow_seconds)
}

fn to_json(samples: &[Sample]) -> Value {
    let of = |seconds: fn(&Sample) -> f64| -> Value {
        SHARES.iter().map(|(name, share)| (*name, quantile(samples.iter().map(seconds), *share))).collect()
    };
    let (arrow, entasis) = (of(|one| one.arrow_seconds), of(|one| one.entasis_seconds));
    let p99 = |seconds: fn(&Sample) -> f64| quantile(samples.iter().map(seconds), 0.99);
    json!({
        "queries": samples.iter().map(|one| json!({
            "query": one.query,
            "round": one.round,
            "answer": one.agreement.to_string(),
            "queued_cells": one.queued_cells,
            "seconds": { "arrow": one.arrow_seconds, "entasis": one.entasis_seconds },
        })).collect::<Vec<_>>(),
        "arrow": arrow,
        "entasis": entasis,
        "p99_ratio": p99(|one| one.entasis_seconds) / p99(|one| one.arrow_seconds),
        "ratio_median": quantile(ratios(samples), 0.5),
        "ratio_p99": quantile(ratios(samples), 0.99),
    })
}

fn print(report: &mut Report<'_>, samples: &[Sample]) -> Result<(), Failure> {
    let count = samples.len();
    writeln!(
        report.out,
        "Time of queries while the cache transcodes, ms: {count} that found something to transcode\n"
    )?;
    let mut table = Table::new(&["what", ">median", ">p99", ">most"]);
    let mut row = |name: &str, scale: f64, digits: usize, values: Vec<f64>| {
        let cells = SHARES.map(|(_, share)| format!("{:.digits$}", quantile(values.iter().copied(), share) * scale));
        table.row([name.to_owned()].into_iter().chain(cells).collect());
    };
    row("a cache of arrays", 1e3, 1, samples.iter().map(|one| one.arrow_seconds).collect());
    row("Entasis", 1e3, 1, samples.iter().map(|one| one.entasis_seconds).collect());
    row("ratios of single queries", 1.0, 2, ratios(samples).collect());
    table.print(report.out)?;
    Ok(())
}
