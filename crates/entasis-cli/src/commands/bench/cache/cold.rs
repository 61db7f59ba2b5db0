//! What the first time costs, alone: new sessions and an empty cache for every run.

use entasis_cache::Arrival;
use serde_json::{Value, json};

use super::super::Report;
use super::super::clock::geometric_mean;
use super::super::queries::answers::Agreement;
use super::super::queries::contender::Contender;
use super::super::queries::figures::Interval;
use super::{Arguments, Check, Systems, UNLIMITED_BYTES, each_query};
use crate::exit::{Exit, Failure};
use crate::table::Table;

/// What the first time may cost over Parquet.
const MOST: f64 = 1.15;

/// CPU time of a query in seconds, medians.
struct Figures {
    number: usize,
    sql: String,
    rows: usize,
    agreement: Agreement,
    parquet: f64,
    pushdown: f64,
    cold: f64,
}

/// Measures every query the first time: on Parquet, with pushdown, and behind the cache, which take turns.
pub fn run(
    arguments: &Arguments,
    queries: &[String],
    systems: &Systems,
    plain: &Contender,
    report: &mut Report<'_>,
) -> Result<Exit, Failure> {
    let all = each_query(arguments, queries, |number, sql| measure(arguments, number, sql, systems, plain))?;
    match report.json {
        true => report.json(&json!({
            "queries": all.iter().map(Figures::to_json).collect::<Vec<_>>(),
            "cold_geometric_mean": geometric_mean(all.iter().map(Figures::ratio)),
        }))?,
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
    plain: &Contender,
) -> Result<Figures, Failure> {
    // The file's bytes are in the system's memory from here on, for everyone.
    let expected = plain.run(sql)?;
    let mut check = Check::of(sql, plain, &expected);
    let mut runs = [const { Vec::<f64>::new() }; 3];
    for round in 0..usize::from(arguments.rounds) {
        // Each comes after each of the others as often.
        for turn in 0..runs.len() {
            let which = (round + turn) % runs.len();
            let system = match which {
                0 => systems.make("Parquet", false, None)?,
                1 => systems.make("Parquet pushdown", true, None)?,
                _ => systems.make_cached("Entasis", Arrival::Pages, UNLIMITED_BYTES)?.0,
            };
            runs[which].push(check.run(&system)?.cpu);
        }
    }
    let [parquet, pushdown, cold] = runs.map(|runs| Interval::of(runs.into_iter()).median);
    let (rows, agreement) = (expected.row_count(), check.worst);
    Ok(Figures { number, sql: sql.to_owned(), rows, agreement, parquet, pushdown, cold })
}

impl Figures {
    fn ratio(&self) -> f64 {
        self.cold / self.parquet.min(self.pushdown)
    }

    fn to_json(&self) -> Value {
        json!({
            "query": self.number,
            "sql": self.sql,
            "rows": self.rows,
            "answer": self.agreement.to_string(),
            "cpu_seconds": { "parquet_first": self.parquet, "parquet_pushdown_first": self.pushdown, "cold": self.cold },
            "cold_ratio": self.ratio(),
        })
    }
}

fn print(report: &mut Report<'_>, all: &[Figures]) -> Result<(), Failure> {
    writeln!(
        report.out,
        "CPU time of queries in DataFusion the first time, ms; ratios over the better way to read Parquet\n"
    )?;
    let mut table = Table::new(&[">query", "answer", ">Parquet", ">pushdown", ">cold", ">ratio"]);
    for one in all {
        let times = [one.parquet, one.pushdown, one.cold].map(|seconds| format!("{:.1}", seconds * 1e3));
        let mut row = vec![one.number.to_string(), one.agreement.to_string()];
        row.extend(times);
        row.push(format!("{:.2}", one.ratio()));
        table.row(row);
    }
    table.print(report.out)?;
    let sum = |of: fn(&Figures) -> f64| all.iter().map(of).sum::<f64>();
    let dear = all.iter().filter(|one| one.ratio() > MOST).count();
    writeln!(
        report.out,
        "\nGeometric mean {:.3}; CPU in all {:.2} of Parquet's; {dear} of {} over {MOST}",
        geometric_mean(all.iter().map(Figures::ratio)),
        sum(|one| one.cold) / sum(|one| one.parquet.min(one.pushdown)).max(1e-9),
        all.len(),
    )?;
    Ok(())
}
