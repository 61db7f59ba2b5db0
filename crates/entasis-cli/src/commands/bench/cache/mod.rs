//! `entasis bench cache`

mod ablation;
mod cold;
mod columns;
mod curve;
mod latency;
mod parts;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use entasis_cache::read::parquet_bytes;
use entasis_cache::{Arrival, Cache, CacheOptions};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::Report;
use super::clock::{cpu_seconds, geometric_mean};
use super::queries::answers::{Agreement, Answers};
use super::queries::contender::{self, Contender, Run};
use super::queries::figures::Interval;
use super::queries::tables_in;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::table::Table;
use crate::units;

/// Queries on Parquet, on a cache of Arrow arrays, and on the cache of blocks
///
/// Each query runs on its Parquet files, with filters pushed down and without, and behind two caches that are empty at first: one that keeps
/// what was decoded as it is, and one that makes blocks of it. It is timed cold, beside the first time on Parquet, when half of what it touched
/// was transcoded, warm, and with less memory than it touches. CPU times count, and transcoding is apart. Every answer is compared with that on Parquet.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Folder with a Parquet file for each table; the file's name is the table's
    #[arg(value_name = "FOLDER")]
    tables: PathBuf,

    /// File with the queries, each ended by a semicolon
    #[arg(value_name = "QUERIES")]
    queries: PathBuf,

    /// Rounds in which all take turns, those that are cold and those that are warm
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Only these queries, counted from 1
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    only: Vec<usize>,

    /// Threads of the engine
    #[arg(long, value_name = "COUNT", default_value = "2", value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,

    /// The memory limit, as a share of what the query's blocks take
    #[arg(long, value_name = "SHARE", default_value = "0.5")]
    limit: f64,

    /// Instead: the warm cache with what makes it fast switched on step by step, from decoding all columns to predicates on encoded
    /// values
    #[arg(long)]
    ablation: bool,

    /// Instead: what is cold alone, beside the first time on Parquet
    #[arg(long, conflicts_with_all = ["ablation", "latency"])]
    cold: bool,

    /// Instead: what each column that the queries touch takes as Parquet, as arrays and as blocks, and to become these; cells that a query
    /// doesn't touch don't count, but for Parquet
    #[arg(long, conflicts_with_all = ["ablation", "latency", "cold"])]
    columns: bool,

    /// Instead: what each query takes of the clock while threads transcode what those before it have touched, beside a cache that keeps arrays
    #[arg(long, conflicts_with = "ablation")]
    latency: bool,

    /// Instead: each query again and again while what it touched is transcoded: its time by the clock, and what is held, over the seconds
    #[arg(long, conflicts_with_all = ["ablation", "latency", "cold", "columns"])]
    curve: bool,

    /// Instead: where the CPU time of each query goes on warm caches: asking conditions, decoding and copying, all else
    #[arg(long, conflicts_with_all = ["ablation", "latency", "cold", "columns", "curve"])]
    parts: bool,
}

const AFTER_HELP: &str = "\
Examples:
  entasis bench cache hits/ clickbench.sql --only 11,20,21,22,23,24,32
  entasis bench cache tpch/ tpch.sql --rounds 3 --limit 0.25
  entasis bench cache hits/ like.sql --ablation
  entasis bench cache hits/ clickbench.sql --cold --rounds 9
  entasis bench cache hits/ clickbench.sql --latency --rounds 4
  entasis bench cache hits/ clickbench.sql --columns --only 22,23
  entasis bench cache hits/ clickbench.sql --curve --only 22
  entasis bench cache hits/ clickbench.sql --parts --only 23

JSON: {\"queries\": [{\"query\", \"sql\", \"rows\", \"answer\", \"cpu_seconds\": {\"parquet\", \"parquet_pushdown\", \"parquet_first\",
  \"parquet_pushdown_first\", \"arrow_cold\", \"arrow\", \"cold\", \"warming\", \"warm\", \"limited\", \"transcoding\"}, \"bytes\": {\"parquet\", \"arrow\", \"blocks\"}, \"warm_ratio\", \"cold_ratio\"}],
  \"warm_geometric_mean\", \"cold_geometric_mean\"}. Ratios are over the better way to read Parquet; what is cold is compared
  with the first time on Parquet, in a session as new.
  With --ablation: {\"queries\": [{\"query\", \"sql\", \"rows\", \"answer\", \"cpu_seconds\": {\"parquet\", \"left\", \"together\", \"decoded\",
  \"encoded\"}, \"gain\"}], \"gain_geometric_mean\"}; the gain is of all steps together.
  With --cold: {\"queries\": [{\"query\", \"sql\", \"rows\", \"answer\", \"cpu_seconds\": {\"parquet_first\", \"parquet_pushdown_first\", \"cold\"},
  \"cold_ratio\"}], \"cold_geometric_mean\"}.
  With --columns: {\"columns\": [{\"table\", \"column\", \"cells\", \"bytes\": {\"parquet\", \"arrow\", \"blocks\"}, \"cpu_seconds\"}]}.
  With --latency: {\"queries\": [{\"query\", \"round\", \"answer\", \"queued_cells\", \"seconds\": {\"arrow\", \"entasis\"}}], \"arrow\": {\"median\", \"p99\",
  \"most\"}, \"entasis\": {the same}, \"p99_ratio\", \"ratio_median\", \"ratio_p99\"}; the last two are of the ratios of single queries.
  With --curve: {\"queries\": [{\"query\", \"sql\", \"answer\", \"arrow\": {\"seconds\", \"bytes\"}, \"steps\": [{\"at\", \"seconds\", \"bytes\", \"queued_cells\"}]}]}.
  With --parts: {\"queries\": [{\"query\", \"sql\", \"answer\", \"cpu_seconds\": {\"parquet\", \"arrow\": {\"asking\", \"decoding\", \"rest\", \"total\"},
  \"entasis\": {the same}}}]}; what is asked and decoded is told by the clock.";

/// Memory that nothing here fills.
const UNLIMITED_BYTES: u64 = 1 << 44;

/// What was measured of a query: CPU time in seconds, medians where there are rounds.
struct Figures {
    number: usize,
    sql: String,
    rows: usize,
    agreement: Agreement,
    parquet: f64,
    pushdown: f64,
    parquet_first: f64,
    pushdown_first: f64,
    arrow_cold: f64,
    arrow: f64,
    cold: f64,
    warming: f64,
    warm: f64,
    limited: f64,
    transcoding: f64,
    parquet_bytes: u64,
    arrow_bytes: u64,
    block_bytes: u64,
}

/// Measures.
pub fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<Exit, Failure> {
    let text = fs::read_to_string(&arguments.queries).map_err(|error| Failure::io(&arguments.queries, &error))?;
    let threads = usize::from(arguments.threads);
    let systems = Systems {
        tables: tables_in(&arguments.tables)?,
        set_up: Vec::new(),
        threads,
        runtime: Arc::new(Builder::new_multi_thread().worker_threads(threads).enable_all().build()?),
    };
    let statements = contender::statements(&text)?;
    let (queries, set_up): (Vec<String>, Vec<String>) =
        statements.into_iter().partition(|statement| contender::is_query(statement));
    let systems = Systems { set_up, ..systems };
    let plain = [systems.make("Parquet", false, None)?, systems.make("Parquet pushdown", true, None)?];
    if arguments.ablation {
        return ablation::run(arguments, &queries, &systems, &plain, report);
    }
    if arguments.columns {
        return columns::run(arguments, &queries, &systems, &plain[0], report);
    }
    if arguments.cold {
        return cold::run(arguments, &queries, &systems, &plain[0], report);
    }
    if arguments.curve {
        return curve::run(arguments, &queries, &systems, &plain[0], report);
    }
    if arguments.parts {
        return parts::run(arguments, &queries, &systems, &plain, report);
    }
    if arguments.latency {
        return latency::run(arguments, &queries, &systems, &plain[0], report);
    }
    let all = each_query(arguments, &queries, |number, sql| measure(arguments, number, sql, &systems, &plain))?;
    match report.json {
        true => report.json(&json!({
            "queries": all.iter().map(Figures::to_json).collect::<Vec<_>>(),
            "warm_geometric_mean": geometric_mean(all.iter().map(Figures::warm_ratio)),
            "cold_geometric_mean": geometric_mean(all.iter().map(Figures::cold_ratio)),
        }))?,
        false => print(report, &all)?,
    }
    let is_wrong = all.iter().any(|one| one.agreement == Agreement::Different);
    Ok(if is_wrong { Exit::Different } else { Exit::Good })
}

/// What is measured of each query that was asked for.
fn each_query<T>(
    arguments: &Arguments,
    queries: &[String],
    mut measure: impl FnMut(usize, &str) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let progress = Progress::new("bench");
    let mut all = Vec::new();
    for (number, sql) in (1..).zip(queries) {
        if arguments.only.is_empty() || arguments.only.contains(&number) {
            progress.set(number as f64 / queries.len() as f64, || format!("query {number}"));
            all.push(measure(number, sql)?);
        }
    }
    Ok(all)
}

/// What all systems have in common.
struct Systems {
    tables: Vec<(String, PathBuf)>,
    set_up: Vec<String>,
    threads: usize,
    runtime: Arc<Runtime>,
}

impl Systems {
    fn make(&self, name: &'static str, pushdown: bool, cache: Option<&Cache>) -> Result<Contender, Failure> {
        let mut made = Contender::new(name, pushdown, self.threads, &self.runtime)?;
        if let Some(cache) = cache {
            made = made.cached(cache);
        }
        self.tables.iter().try_for_each(|(name, path)| made.add(name, path))?;
        self.set_up.iter().try_for_each(|sql| made.set_up(sql))?;
        Ok(made)
    }

    /// A system behind an empty cache, which transcodes when it is told to.
    fn make_cached(
        &self,
        name: &'static str,
        arrival: Arrival,
        memory_bytes: u64,
    ) -> Result<(Contender, Cache), Failure> {
        let cache = new_cache(arrival, memory_bytes)?;
        Ok((self.make(name, false, Some(&cache))?, cache))
    }
}

/// An empty cache, which transcodes when it is told to.
fn new_cache(arrival: Arrival, memory_bytes: u64) -> Result<Cache, Failure> {
    let (transcoders, queue_cells) = (0, usize::MAX);
    Ok(Cache::new(CacheOptions { memory_bytes, arrival, transcoders, queue_cells, ..CacheOptions::default() })?)
}

/// Systems behind caches, which have run the query once.
struct Caches {
    arrow: Contender,
    arrow_cache: Cache,
    blocks: Contender,
    block_cache: Cache,
}

impl Caches {
    /// The query for the first time, in sessions that are new and behind caches that are empty: on Parquet, with pushdown, and behind both
    /// caches, into `times`.
    fn first_run(systems: &Systems, check: &mut Check<'_>, times: &mut [Vec<f64>; 4]) -> Result<Self, Failure> {
        let plain = [systems.make("Parquet", false, None)?, systems.make("Parquet pushdown", true, None)?];
        let (arrow, arrow_cache) = systems.make_cached("Arrow", Arrival::Arrays, UNLIMITED_BYTES)?;
        let (blocks, block_cache) = systems.make_cached("Entasis", Arrival::Pages, UNLIMITED_BYTES)?;
        for (system, times) in [&plain[0], &plain[1], &arrow, &blocks].into_iter().zip(times) {
            times.push(check.run(system)?.cpu);
        }
        Ok(Self { arrow, arrow_cache, blocks, block_cache })
    }
}

fn measure(
    arguments: &Arguments,
    number: usize,
    sql: &str,
    systems: &Systems,
    plain: &[Contender; 2],
) -> Result<Figures, Failure> {
    // The file's bytes are in the system's memory from here on, for everyone.
    let expected = plain[0].run(sql)?;
    let mut check = Check::of(sql, &plain[0], &expected);
    let mut firsts = [const { Vec::<f64>::new() }; 4];
    for _ in 1..arguments.rounds {
        Caches::first_run(systems, &mut check, &mut firsts)?;
    }
    let Caches { arrow, arrow_cache, blocks, block_cache } = Caches::first_run(systems, &mut check, &mut firsts)?;
    let [parquet_first, pushdown_first, arrow_cold, cold] = firsts.map(|runs| Interval::of(runs.into_iter()).median);
    let queued = block_cache.statistics().queued_cells;
    let half = transcode(&block_cache, queued / 2);
    let warming = check.run(&blocks)?.cpu;
    let transcoding = half + transcode(&block_cache, usize::MAX);
    check.run(&blocks)?;
    check.run(&arrow)?;
    let limit_bytes = (block_cache.statistics().used_bytes as f64 * arguments.limit) as u64;
    let (limited_system, limited_cache) = systems.make_cached("limited", Arrival::Pages, limit_bytes)?;
    for _ in 0..2 {
        check.run(&limited_system)?;
        transcode(&limited_cache, usize::MAX);
    }
    let contenders = [&plain[0], &plain[1], &arrow, &blocks, &limited_system];
    let mut runs = [const { Vec::<f64>::new() }; 5];
    for _ in 0..arguments.rounds {
        for (contender, runs) in contenders.iter().zip(&mut runs) {
            runs.push(contender.run(sql)?.cpu);
        }
        transcode(&limited_cache, usize::MAX);
    }
    let [parquet, pushdown, arrow, warm, limited] = runs.map(|runs| Interval::of(runs.into_iter()).median);
    let touched = block_cache.columns();
    Ok(Figures {
        number,
        sql: sql.to_owned(),
        rows: expected.row_count(),
        agreement: check.worst,
        parquet,
        pushdown,
        parquet_first,
        pushdown_first,
        arrow_cold,
        arrow,
        cold,
        warming,
        warm,
        limited,
        transcoding,
        parquet_bytes: touched.iter().filter_map(|used| parquet_bytes(&block_cache, &used.column)).sum(),
        arrow_bytes: arrow_cache.statistics().used_bytes,
        block_bytes: block_cache.statistics().used_bytes,
    })
}

/// Transcodes at most so many cells; the CPU time that it took.
fn transcode(cache: &Cache, most: usize) -> f64 {
    let begin = cpu_seconds();
    for _ in 0..most {
        if !cache.transcode_one() {
            break;
        }
    }
    cpu_seconds() - begin
}

/// Compares every answer with that on Parquet.
struct Check<'a> {
    sql: &'a str,
    plain: &'a Contender,
    expected: Answers,
    worst: Agreement,
}

impl<'a> Check<'a> {
    fn of(sql: &'a str, plain: &'a Contender, expected: &Run) -> Self {
        Self { sql, plain, expected: Answers::of(expected), worst: Agreement::Equal }
    }

    /// Runs the query, and says what time it took.
    fn run(&mut self, system: &Contender) -> Result<Run, Failure> {
        let run = system.run(self.sql)?;
        let agreement = self.expected.agreement(&Answers::of(&run), || {
            let keys = |system: &Contender| -> Result<Option<Answers>, Failure> {
                Ok(system.keys(self.sql)?.map(|run: Run| Answers::of(&run)))
            };
            Ok((keys(self.plain)?, keys(system)?))
        })?;
        if agreement == Agreement::Different || self.worst == Agreement::Equal {
            self.worst = agreement;
        }
        Ok(run.without_rows())
    }
}

impl Figures {
    fn best(&self) -> f64 {
        self.parquet.min(self.pushdown)
    }

    fn warm_ratio(&self) -> f64 {
        self.warm / self.best()
    }

    fn cold_ratio(&self) -> f64 {
        self.cold / self.parquet_first.min(self.pushdown_first)
    }

    fn to_json(&self) -> Value {
        json!({
            "query": self.number,
            "sql": self.sql,
            "rows": self.rows,
            "answer": self.agreement.to_string(),
            "cpu_seconds": {
                "parquet": self.parquet,
                "parquet_pushdown": self.pushdown,
                "parquet_first": self.parquet_first,
                "parquet_pushdown_first": self.pushdown_first,
                "arrow_cold": self.arrow_cold,
                "arrow": self.arrow,
                "cold": self.cold,
                "warming": self.warming,
                "warm": self.warm,
                "limited": self.limited,
                "transcoding": self.transcoding,
            },
            "bytes": { "parquet": self.parquet_bytes, "arrow": self.arrow_bytes, "blocks": self.block_bytes },
            "warm_ratio": self.warm_ratio(),
            "cold_ratio": self.cold_ratio(),
        })
    }
}

fn print(report: &mut Report<'_>, all: &[Figures]) -> Result<(), Failure> {
    writeln!(report.out, "CPU time of queries in DataFusion, ms; ratios over the better way to read Parquet\n")?;
    let mut table = Table::new(&[
        ">query",
        "answer",
        ">Parquet",
        ">pushdown",
        ">Arrow",
        ">first",
        ">cold",
        ">warming",
        ">warm",
        ">limited",
        ">transcoding",
        ">warm ratio",
        ">cold ratio",
        ">of Parquet",
        ">of Arrow",
    ]);
    let share = |part: u64, whole: u64| format!("{:.2}", part as f64 / whole.max(1) as f64);
    for one in all {
        let first = one.parquet_first.min(one.pushdown_first);
        let before = [one.parquet, one.pushdown, one.arrow, first];
        let times = before.into_iter().chain([one.cold, one.warming, one.warm, one.limited, one.transcoding]);
        let mut row = vec![one.number.to_string(), one.agreement.to_string()];
        row.extend(times.map(|seconds| format!("{:.1}", seconds * 1e3)));
        row.extend([format!("{:.2}", one.warm_ratio()), format!("{:.2}", one.cold_ratio())]);
        row.extend([share(one.block_bytes, one.parquet_bytes), share(one.block_bytes, one.arrow_bytes)]);
        table.row(row);
    }
    table.print(report.out)?;
    let sum = |of: fn(&Figures) -> f64| all.iter().map(of).sum::<f64>();
    let bytes = |of: fn(&Figures) -> u64| units::bytes(all.iter().map(of).sum());
    writeln!(
        report.out,
        "\nGeometric means: warm {:.3}, cold {:.3}; CPU in all {:.2} of Parquet's; held {}, as Arrow {}, in Parquet {}",
        geometric_mean(all.iter().map(Figures::warm_ratio)),
        geometric_mean(all.iter().map(Figures::cold_ratio)),
        sum(|one| one.warm) / sum(Figures::best).max(1e-9),
        bytes(|one| one.block_bytes),
        bytes(|one| one.arrow_bytes),
        bytes(|one| one.parquet_bytes),
    )?;
    Ok(())
}
