//! `\cache`: what the cache holds, and what it did.

use entasis_cache::read::leaf_name;
use entasis_cache::statistics::ColumnUse;
use entasis_cache::{Cache, RANGES_LEAF, Statistics};
use serde_json::{Value, json};

use super::super::Report;
use crate::exit::Failure;
use crate::table::Table;
use crate::units;

/// Shows it, for people or programs.
pub fn print(cache: &Cache, report: &mut Report<'_>) -> Result<(), Failure> {
    let statistics = cache.statistics();
    let mut columns: Vec<(String, ColumnUse)> =
        cache.columns().into_iter().map(|used| (name(cache, &used), used)).collect();
    columns.sort_by(|(left, _), (right, _)| left.cmp(right));
    if report.json {
        return report.json(&to_json(&statistics, &columns));
    }
    let asked = lookups(&statistics);
    writeln!(
        report.out,
        "{} of {}; {} of {} lookups hit ({}), {} waited for another query",
        units::bytes(statistics.used_bytes),
        units::bytes(statistics.budget_bytes),
        units::grouped(hits(&statistics)),
        units::grouped(asked),
        units::percent(hits(&statistics), asked.max(1)),
        units::grouped(statistics.waits),
    )?;
    writeln!(
        report.out,
        "transcoding: {} waiting, {} done, {} → {} in {}; {} kept as arrays",
        units::grouped(statistics.queued_cells as u64),
        units::grouped(statistics.transcoded),
        units::bytes(statistics.transcoded_from_bytes),
        units::bytes(statistics.transcoded_to_bytes),
        units::seconds(statistics.transcoding_ns as f64 / 1e9),
        units::grouped(statistics.kept_as_arrow),
    )?;
    writeln!(
        report.out,
        "evicted: {}, {}; {} had no room\n",
        units::counted(statistics.evicted, "cell"),
        units::bytes(statistics.evicted_bytes),
        units::grouped(statistics.rejected),
    )?;
    let mut states = Table::new(&["state", ">cells", ">bytes"]);
    let rows = [
        ("encoded", statistics.encoded_cells, statistics.encoded_bytes),
        ("arrow", statistics.arrow_cells, statistics.arrow_bytes),
        ("pages", statistics.pages_cells, statistics.pages_bytes),
        ("on disk", statistics.disk_cells, statistics.disk_file_bytes),
    ];
    let shown = if statistics.disk_limit_bytes > 0 { 4 } else { 3 };
    for (state, cells, size_bytes) in rows.into_iter().take(shown) {
        states.row(vec![state.to_owned(), units::grouped(cells as u64), units::grouped(size_bytes)]);
    }
    states.print(report.out)?;
    if columns.is_empty() {
        return Ok(());
    }
    writeln!(report.out)?;
    let mut table = Table::new(&["column", ">encoded cells", ">arrow cells", ">cells of pages", ">bytes"]);
    for (name, used) in columns {
        let cells = [used.encoded_cells, used.arrow_cells, used.pages_cells].map(|cells| cells as u64);
        let counts = cells.into_iter().chain([used.size_bytes]);
        table.row([name].into_iter().chain(counts.map(units::grouped)).collect());
    }
    Ok(table.print(report.out)?)
}

fn hits(statistics: &Statistics) -> u64 {
    statistics.pages_hits + statistics.arrow_hits + statistics.encoded_hits + statistics.disk_hits
}

fn lookups(statistics: &Statistics) -> u64 {
    hits(statistics) + statistics.misses + statistics.waits
}

/// The file's name and the column's; of a file that is kept as its bytes, all columns together.
fn name(cache: &Cache, used: &ColumnUse) -> String {
    let path = &used.column.version.object().path;
    if used.column.leaf == RANGES_LEAF {
        return format!("{}, all columns", path.filename().unwrap_or_default());
    }
    let column = leaf_name(cache, &used.column).unwrap_or_else(|| format!("leaf {}", used.column.leaf));
    format!("{} {column}", path.filename().unwrap_or_default())
}

fn to_json(statistics: &Statistics, columns: &[(String, ColumnUse)]) -> Value {
    let column = |(name, used): &(String, ColumnUse)| {
        json!({
            "column": name,
            "object": used.column.version.to_string(),
            "encoded_cells": used.encoded_cells,
            "arrow_cells": used.arrow_cells,
            "pages_cells": used.pages_cells,
            "size_bytes": used.size_bytes,
        })
    };
    json!({
        "budget_bytes": statistics.budget_bytes,
        "used_bytes": statistics.used_bytes,
        "hit_rate": hits(statistics) as f64 / lookups(statistics).max(1) as f64,
        "lookups": lookups(statistics),
        "states": {
            "encoded": { "cells": statistics.encoded_cells, "size_bytes": statistics.encoded_bytes },
            "arrow": { "cells": statistics.arrow_cells, "size_bytes": statistics.arrow_bytes },
            "pages": { "cells": statistics.pages_cells, "size_bytes": statistics.pages_bytes },
            "on_disk": { "cells": statistics.disk_cells, "size_bytes": statistics.disk_file_bytes },
        },
        "disk": {
            "limit_bytes": statistics.disk_limit_bytes,
            "hits": statistics.disk_hits,
            "evicted": { "cells": statistics.disk_evicted, "size_bytes": statistics.disk_evicted_bytes },
            "damaged": statistics.disk_damaged,
            "errors": statistics.disk_errors,
        },
        "transcoding": {
            "queued_cells": statistics.queued_cells,
            "transcoded": statistics.transcoded,
            "from_bytes": statistics.transcoded_from_bytes,
            "to_bytes": statistics.transcoded_to_bytes,
            "seconds": statistics.transcoding_ns as f64 / 1e9,
            "kept_as_arrow": statistics.kept_as_arrow,
        },
        "evicted": { "cells": statistics.evicted, "size_bytes": statistics.evicted_bytes },
        "rejected": statistics.rejected,
        "columns": columns.iter().map(column).collect::<Vec<_>>(),
    })
}
