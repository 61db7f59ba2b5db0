//! Where the CPU time of queries goes: conditions, decoding, and all else (LiquidCache, Figure 12).

use serde_json::{Value, json};

use super::super::Report;
use super::super::queries::answers::Agreement;
use super::super::queries::contender::{Contender, Run};
use super::super::queries::figures::Interval;
use super::{Arguments, Caches, Check, Systems, each_query, transcode};
use crate::exit::{Exit, Failure};
use crate::table::Table;

/// Parts of what a query takes, in seconds, medians.
struct Parts {
    /// Asking the scan's conditions.
    asking: f64,
    /// Decoding and copying values, for conditions and for the output.
    decoding: f64,
    /// All of it.
    total: f64,
}

/// A query.
struct Figures {
    number: usize,
    sql: String,
    agreement: Agreement,
    /// The better way to read it, whose parts nobody tells.
    parquet: f64,
    arrow: Parts,
    entasis: Parts,
}

/// Measures every query behind warm caches.
pub fn run(
    arguments: &Arguments,
    queries: &[String],
    systems: &Systems,
    plain: &[Contender; 2],
    report: &mut Report<'_>,
) -> Result<Exit, Failure> {
    let all = each_query(arguments, queries, |number, sql| measure(arguments, number, sql, systems, plain))?;
    match report.json {
        true => report.json(&json!({ "queries": all.iter().map(Figures::to_json).collect::<Vec<_>>() }))?,
        false => print(report, &all)?,
    }
    let is_wrong = all.iter().any(|one| one.agreement == Agreement::Different);
    Ok(if is_wrong { Exit::Different } else { Exit::Good })
}

fn measure(
    arguments: &Arguments,
    number: usize,
    sql: &str,
    systems: &Systems,
    plain: &[Contender; 2],
) -> Result<Figures, Failure> {
    let expected = plain[0].run(sql)?;
    let mut check = Check::of(sql, &plain[0], &expected);
    let mut firsts = [const { Vec::<f64>::new() }; 4];
    let Caches { arrow, blocks, block_cache, .. } = Caches::first_run(systems, &mut check, &mut firsts)?;
    transcode(&block_cache, usize::MAX);
    for system in [&arrow, &blocks] {
        check.run(system)?;
    }
    let mut runs = [const { Vec::<Run>::new() }; 4];
    for _ in 0..arguments.rounds {
        for (contender, runs) in [&plain[0], &plain[1], &arrow, &blocks].into_iter().zip(&mut runs) {
            runs.push(contender.run(sql)?.without_rows());
        }
    }
    let [parquet, pushdown, arrow, entasis] = runs.map(|runs| Parts::of(&runs));
    let parquet = parquet.total.min(pushdown.total);
    Ok(Figures { number, sql: sql.to_owned(), agreement: check.worst, parquet, arrow, entasis })
}

impl Parts {
    fn of(runs: &[Run]) -> Self {
        let median = |of: fn(&Run) -> f64| Interval::of(runs.iter().map(of)).median;
        Self { asking: median(|run| run.asking), decoding: median(|run| run.decoding), total: median(|run| run.cpu) }
    }

    fn rest(&self) -> f64 {
        (self.total - self.asking - self.decoding).max(0.0)
    }

    fn to_json(&self) -> Value {
        json!({ "asking": self.asking, "decoding": self.decoding, "rest": self.rest(), "total": self.total })
    }
}

impl Figures {
    fn to_json(&self) -> Value {
        json!({
            "query": self.number,
            "sql": self.sql,
            "answer": self.agreement.to_string(),
            "cpu_seconds": {
                "parquet": self.parquet,
                "arrow": self.arrow.to_json(),
                "entasis": self.entasis.to_json(),
            },
        })
    }
}

fn print(report: &mut Report<'_>, all: &[Figures]) -> Result<(), Failure> {
    writeln!(report.out, "Where the CPU time of queries goes behind warm caches, ms\n")?;
    let mut table =
        Table::new(&[">query", "answer", "on", ">asking conditions", ">decoding and copying", ">all else", ">total"]);
    let in_ms = |seconds: f64| format!("{:.1}", seconds * 1e3);
    for one in all {
        let answer = one.agreement.to_string();
        let none = String::new;
        table.row(vec![
            one.number.to_string(),
            answer,
            "Parquet".to_owned(),
            none(),
            none(),
            none(),
            in_ms(one.parquet),
        ]);
        for (name, parts) in [("arrays", &one.arrow), ("blocks", &one.entasis)] {
            let parts = [parts.asking, parts.decoding, parts.rest(), parts.total].map(in_ms);
            table.row([none(), none(), name.to_owned()].into_iter().chain(parts).collect());
        }
    }
    table.print(report.out)?;
    Ok(())
}
