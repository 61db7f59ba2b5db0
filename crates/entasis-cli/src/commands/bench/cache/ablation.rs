//! What the techniques of the warm cache are worth, one after the other (LiquidCache, Table 2).

use entasis_cache::Arrival;
use serde_json::{Value, json};

use super::super::Report;
use super::super::clock::geometric_mean;
use super::super::queries::answers::Agreement;
use super::super::queries::contender::Contender;
use super::super::queries::figures::Interval;
use super::{Arguments, Check, Systems, UNLIMITED_BYTES, each_query, new_cache, transcode};
use crate::exit::{Exit, Failure};
use crate::table::Table;

/// The steps, as the session's option `entasis.predicates` names them, and for people.
const STEPS: [(&str, &str); 4] = [
    ("left", "full decode"),
    ("together", "+ selective decode"),
    ("decoded", "+ late materialisation"),
    ("encoded", "+ on encoded values"),
];

/// CPU time of a query in seconds, medians.
struct Figures {
    number: usize,
    sql: String,
    rows: usize,
    agreement: Agreement,
    /// The better way to read it.
    parquet: f64,
    steps: [f64; STEPS.len()],
}

/// Measures every query on Parquet and with each step, all behind one cache whose cells are blocks.
pub fn run(
    arguments: &Arguments,
    queries: &[String],
    systems: &Systems,
    plain: &[Contender; 2],
    report: &mut Report<'_>,
) -> Result<Exit, Failure> {
    let all = each_query(arguments, queries, |number, sql| measure(arguments, number, sql, systems, plain))?;
    match report.json {
        true => report.json(&json!({
            "queries": all.iter().map(Figures::to_json).collect::<Vec<_>>(),
            "gain_geometric_mean": geometric_mean(all.iter().map(Figures::gain)),
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
    plain: &[Contender; 2],
) -> Result<Figures, Failure> {
    let expected = plain[0].run(sql)?;
    let mut check = Check::of(sql, &plain[0], &expected);
    let cache = new_cache(Arrival::Pages, UNLIMITED_BYTES)?;
    let mut steps = Vec::with_capacity(STEPS.len());
    for (way, _) in STEPS {
        let mut step = systems.make(way, false, Some(&cache))?;
        step.set_up(&format!("SET entasis.predicates = '{way}'"))?;
        // Each touches what it needs, and finds it as blocks from then on.
        check.run(&step)?;
        transcode(&cache, usize::MAX);
        check.run(&step)?;
        steps.push(step);
    }
    let mut runs = [const { Vec::<f64>::new() }; 2 + STEPS.len()];
    for _ in 0..arguments.rounds {
        for (contender, runs) in plain.iter().chain(&steps).zip(&mut runs) {
            runs.push(contender.run(sql)?.cpu);
        }
    }
    let [parquet, pushdown, steps @ ..] = runs.map(|runs| Interval::of(runs.into_iter()).median);
    let (rows, parquet) = (expected.row_count(), parquet.min(pushdown));
    Ok(Figures { number, sql: sql.to_owned(), rows, agreement: check.worst, parquet, steps })
}

impl Figures {
    /// How much less time the last step takes than the first.
    fn gain(&self) -> f64 {
        self.steps[0] / self.steps[STEPS.len() - 1]
    }

    fn to_json(&self) -> Value {
        let mut seconds = json!({ "parquet": self.parquet });
        for ((way, _), step) in STEPS.iter().zip(self.steps) {
            seconds[*way] = json!(step);
        }
        json!({
            "query": self.number,
            "sql": self.sql,
            "rows": self.rows,
            "answer": self.agreement.to_string(),
            "cpu_seconds": seconds,
            "gain": self.gain(),
        })
    }
}

fn print(report: &mut Report<'_>, all: &[Figures]) -> Result<(), Failure> {
    writeln!(report.out, "CPU time of queries in DataFusion on a warm cache, ms; each step keeps those before it\n")?;
    let steps = STEPS.map(|(_, name)| format!(">{name}"));
    let mut columns = vec![">query", "answer", ">Parquet"];
    columns.extend(steps.iter().map(String::as_str));
    columns.push(">gain");
    let mut table = Table::new(&columns);
    for one in all {
        let mut row = vec![one.number.to_string(), one.agreement.to_string(), format!("{:.1}", one.parquet * 1e3)];
        row.extend(one.steps.iter().map(|seconds| format!("{:.1}", seconds * 1e3)));
        row.push(format!("{:.1}", one.gain()));
        table.row(row);
    }
    table.print(report.out)?;
    writeln!(report.out, "\nGeometric mean of the gain: {:.2}", geometric_mean(all.iter().map(Figures::gain)))?;
    Ok(())
}
