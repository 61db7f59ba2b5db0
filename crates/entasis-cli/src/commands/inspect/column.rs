//! One column, down to its blocks and nodes.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use entasis::encoding::Cascade;
use entasis::{BlockRef, BloomRef, ColumnRecord, Reader};
use serde_json::{Value, json};

use super::Report;
use crate::columns;
use crate::exit::Failure;
use crate::table::printable;
use crate::units;
use crate::zone::{self, Shown};

/// Shows the columns of this name, and those below them.
pub fn show(reader: &Reader, name: &str, report: &mut Report<'_>) -> Result<(), Failure> {
    let found = named(reader, name)?;
    if found.is_empty() {
        return Err(columns::unknown(&*reader.schema()?, name, Path::new(reader.name())));
    }
    if report.json {
        let columns = found.iter().map(|(path, record)| to_json(reader, path, record));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        return report.json(&json!({ "file": reader.name(), "columns": columns }));
    }
    found.iter().try_for_each(|(path, record)| print(reader, path, record, report.out))
}

/// The name as it stands, else as the way to a field of a struct.
fn named(reader: &Reader, name: &str) -> Result<Vec<(String, Arc<ColumnRecord>)>, Failure> {
    let roots = [name].into_iter().chain(name.match_indices('.').map(|(dot, _)| &name[..dot]));
    for root in roots {
        let mut found = Vec::new();
        for index in reader.columns_named(root)? {
            found.extend(reader.column(index)?.tree());
        }
        let below = format!("{name}.");
        found.retain(|(path, _)| path == name || path.starts_with(&below));
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Ok(Vec::new())
}

fn print(reader: &Reader, path: &str, record: &ColumnRecord, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{}: {}", printable(path), record.field.data_type())?;
    for (row_group, chunk) in record.chunks.iter().enumerate() {
        for (number, part) in chunk.parts.iter().enumerate() {
            let (offset, size) = (units::grouped(part.offset), units::grouped(part.size_bytes));
            writeln!(out, "  row group {row_group}, shared part {number}: {size} bytes at {offset}")?;
        }
        for (number, stored) in chunk.blocks.iter().enumerate() {
            let (offset, size) = (units::grouped(stored.offset), units::grouped(stored.size_bytes));
            let rows = units::counted(u64::from(stored.rows), "row");
            write!(out, "  row group {row_group}, block {number}: {rows}, {size} bytes at {offset}")?;
            writeln!(out, "{}", zone_words(record, stored))?;
            print_node(out, &reader.block(record, row_group, number)?.cascade(), 2)?;
        }
        if let Some(BloomRef { offset, layout }) = chunk.bloom {
            let (size, offset) = (units::grouped(layout.size_bytes()), units::grouped(offset));
            let buckets = units::counted(layout.buckets().into(), "bucket");
            writeln!(out, "  row group {row_group}, Bloom filters: {buckets} a block, {size} bytes at {offset}")?;
        }
    }
    Ok(())
}

fn zone_words(record: &ColumnRecord, stored: &BlockRef) -> String {
    let range = zone::range_of(&stored.zone, record.field.data_type());
    let mut words = format!(", {}", units::counted(stored.zone.null_count, "null"));
    if let Some(distinct) = stored.zone.distinct {
        words.push_str(&format!(", about {} distinct values", units::grouped(distinct)));
    }
    if let Some(min) = range.min {
        words.push_str(&format!(", from {}", printable(&min.words())));
    }
    if let Some(max) = range.max {
        words.push_str(&format!(" to {}", printable(&max.words())));
    }
    words
}

fn print_node(out: &mut dyn Write, node: &Cascade, depth: usize) -> io::Result<()> {
    let indent = "  ".repeat(depth);
    let (values, size) = (units::counted(node.rows as u64, "value"), units::grouped(node.size_bytes));
    let parameters = if node.parameters.is_empty() { String::new() } else { format!(", {}", node.parameters) };
    writeln!(out, "{indent}{} ({}): {values}, {size} bytes{parameters}", node.encoding, node.id)?;
    node.children.iter().try_for_each(|child| print_node(out, child, depth + 1))
}

fn to_json(reader: &Reader, path: &str, record: &ColumnRecord) -> Result<Value, Failure> {
    let mut row_groups = Vec::new();
    for (row_group, chunk) in record.chunks.iter().enumerate() {
        let mut blocks = Vec::new();
        for (number, stored) in chunk.blocks.iter().enumerate() {
            let range = zone::range_of(&stored.zone, record.field.data_type());
            let text = |bound: &Option<Shown>| bound.as_ref().map(|bound| bound.text.clone());
            blocks.push(json!({
                "offset": stored.offset,
                "size_bytes": stored.size_bytes,
                "rows": stored.rows,
                "nulls": stored.zone.null_count,
                "distinct": stored.zone.distinct,
                "min": text(&range.min),
                "max": text(&range.max),
                "cascade": node_to_json(&reader.block(record, row_group, number)?.cascade()),
            }));
        }
        let parts: Vec<Value> = chunk
            .parts
            .iter()
            .map(|part| {
                let digest = format!("{:016x}", part.digest);
                json!({ "offset": part.offset, "size_bytes": part.size_bytes, "digest": digest })
            })
            .collect();
        let bloom = chunk.bloom.map(|BloomRef { offset, layout }| {
            json!({ "offset": offset, "size_bytes": layout.size_bytes(), "buckets": layout.buckets() })
        });
        row_groups.push(json!({ "shared_parts": parts, "blocks": blocks, "bloom": bloom }));
    }
    Ok(json!({ "path": path, "type": record.field.data_type().to_string(), "row_groups": row_groups }))
}

fn node_to_json(node: &Cascade) -> Value {
    json!({
        "encoding": node.encoding,
        "id": node.id,
        "rows": node.rows,
        "size_bytes": node.size_bytes,
        "parameters": node.parameters,
        "children": node.children.iter().map(node_to_json).collect::<Vec<_>>(),
    })
}
