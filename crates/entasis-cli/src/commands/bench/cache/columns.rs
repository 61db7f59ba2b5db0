//! What the columns take that queries touch: as Parquet, as arrays and as blocks, and to become these.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use entasis_cache::read::{leaf_name, parquet_bytes};
use entasis_cache::{Arrival, Cache, CacheOptions, ColumnId, Event, Observer};
use serde_json::{Value, json};

use super::super::Report;
use super::super::clock::cpu_seconds;
use super::super::queries::answers::Agreement;
use super::super::queries::contender::Contender;
use super::{Arguments, Check, Systems, UNLIMITED_BYTES, each_query};
use crate::exit::{Exit, Failure};
use crate::table::Table;
use crate::units;

/// A column of a table.
struct Figures {
    table: String,
    column: String,
    taken: Taken,
    /// All of the column.
    parquet_bytes: u64,
}

/// What cells took.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    cells: usize,
    arrow_bytes: u64,
    block_bytes: u64,
    /// CPU time.
    seconds: f64,
}

/// Remembers what the last cells became.
#[derive(Debug, Default)]
struct Last(Mutex<Vec<(ColumnId, u64, u64)>>);

impl Observer for Last {
    fn observe(&self, event: &Event) {
        if let Event::Transcoded { cell, from_bytes, to_bytes, .. } = event {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            last.push((cell.column.clone(), *from_bytes, *to_bytes));
        }
    }
}

/// Each query runs once behind an empty cache that keeps arrays, and what it touched becomes blocks. A column counts where most of it was touched.
pub fn run(
    arguments: &Arguments,
    queries: &[String],
    systems: &Systems,
    plain: &Contender,
    report: &mut Report<'_>,
) -> Result<Exit, Failure> {
    let mut all: BTreeMap<(String, String), Figures> = BTreeMap::new();
    let mut is_wrong = false;
    each_query(arguments, queries, |_, sql| {
        let last = Arc::new(Last::default());
        let cache = Cache::new(CacheOptions {
            memory_bytes: UNLIMITED_BYTES,
            arrival: Arrival::Arrays,
            transcoders: 0,
            queue_cells: usize::MAX,
            observer: Some(last.clone()),
            ..CacheOptions::default()
        })?;
        let mut check = Check::of(sql, plain, &plain.run(sql)?);
        check.run(&systems.make("Arrow", false, Some(&cache))?)?;
        is_wrong |= check.worst == Agreement::Different;
        for (column, taken) in transcode(&cache, &last) {
            let path = &column.version.object().path;
            let table = path.filename().unwrap_or_default().to_owned();
            let name = leaf_name(&cache, &column).unwrap_or_else(|| column.leaf.to_string());
            let parquet_bytes = parquet_bytes(&cache, &column).unwrap_or(0);
            let figures = Figures { table: table.clone(), column: name.clone(), taken, parquet_bytes };
            let known = all.entry((table, name)).or_insert(figures);
            if known.taken.cells < taken.cells {
                known.taken = taken;
            }
        }
        Ok(())
    })?;
    let mut all: Vec<Figures> = all.into_values().collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.taken.arrow_bytes));
    match report.json {
        true => report.json(&json!({ "columns": all.iter().map(Figures::to_json).collect::<Vec<_>>() }))?,
        false => print(report, &all)?,
    }
    Ok(if is_wrong { Exit::Different } else { Exit::Good })
}

/// Makes blocks of all that waits for it.
fn transcode(cache: &Cache, last: &Last) -> HashMap<ColumnId, Taken> {
    let mut all: HashMap<ColumnId, Taken> = HashMap::new();
    loop {
        let start = cpu_seconds();
        if !cache.transcode_one() {
            return all;
        }
        let seconds = cpu_seconds() - start;
        for (column, from_bytes, to_bytes) in mem::take(&mut *last.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            let taken = all.entry(column).or_default();
            taken.cells += 1;
            taken.arrow_bytes += from_bytes;
            taken.block_bytes += to_bytes;
            taken.seconds += seconds;
        }
    }
}

impl Figures {
    fn to_json(&self) -> Value {
        json!({
            "table": self.table,
            "column": self.column,
            "cells": self.taken.cells,
            "bytes": { "parquet": self.parquet_bytes, "arrow": self.taken.arrow_bytes, "blocks": self.taken.block_bytes },
            "cpu_seconds": self.taken.seconds,
        })
    }
}

fn print(report: &mut Report<'_>, all: &[Figures]) -> Result<(), Failure> {
    writeln!(report.out, "Columns that the queries touch, and CPU time of making blocks of their arrays\n")?;
    let headings = [
        "table",
        "column",
        ">cells",
        ">Parquet",
        ">Arrow",
        ">blocks",
        ">of Parquet",
        ">of Arrow",
        ">transcoding, ms",
        ">MB/s",
    ];
    let mut table = Table::new(&headings);
    for one in all {
        let taken = &one.taken;
        let share = |whole: u64| format!("{:.2}", taken.block_bytes as f64 / whole.max(1) as f64);
        table.row(vec![
            one.table.clone(),
            one.column.clone(),
            units::grouped(taken.cells as u64),
            units::bytes(one.parquet_bytes),
            units::bytes(taken.arrow_bytes),
            units::bytes(taken.block_bytes),
            share(one.parquet_bytes),
            share(taken.arrow_bytes),
            format!("{:.1}", taken.seconds * 1e3),
            format!("{:.0}", taken.arrow_bytes as f64 / 1e6 / taken.seconds.max(1e-9)),
        ]);
    }
    table.print(report.out)?;
    Ok(())
}
