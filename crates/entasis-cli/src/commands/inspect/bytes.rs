//! Every byte range of the file.

use std::collections::HashMap;

use entasis::{Part, Reader};
use serde_json::{Value, json};

use super::Report;
use crate::exit::Failure;
use crate::table::Table;
use crate::units;

/// Lists every byte range.
pub fn show(reader: &Reader, report: &mut Report<'_>) -> Result<(), Failure> {
    let mut parts = reader.layout()?;
    let mut blocks = blocks(reader)?;
    for part in &mut parts {
        part.children.extend(blocks.remove(&part.offset).unwrap_or_default());
    }
    if report.json {
        let parts: Vec<Value> = parts.iter().map(to_json).collect();
        return report.json(&json!({ "file": reader.name(), "parts": parts }));
    }
    let mut table = Table::new(&[">offset", ">bytes", "what", "specification"]);
    add_rows(&parts, 0, &mut table);
    Ok(table.print(report.out)?)
}

fn to_json(part: &Part) -> Value {
    json!({
        "offset": part.offset,
        "size_bytes": part.size_bytes,
        "what": part.what,
        "section": part.section,
        "children": part.children.iter().map(to_json).collect::<Vec<_>>(),
    })
}

fn add_rows(parts: &[Part], depth: usize, table: &mut Table) {
    for part in parts {
        let numbers = [units::grouped(part.offset), units::grouped(part.size_bytes)];
        let what = format!("{}{}", "  ".repeat(depth), part.what);
        table.row([numbers.to_vec(), vec![what, part.section.to_string()]].concat());
        add_rows(&part.children, depth + 1, table);
    }
}

/// The insides of every block, by its offset.
fn blocks(reader: &Reader) -> Result<HashMap<u64, Vec<Part>>, Failure> {
    let mut inner = HashMap::new();
    for index in 0..reader.column_count() {
        for (_, record) in reader.column(index)?.tree() {
            for (row_group, chunk) in record.chunks.iter().enumerate() {
                for (number, stored) in chunk.blocks.iter().enumerate() {
                    let items = reader.block(&record, row_group, number)?.layout();
                    let parts = items.into_iter().map(|item| Part::inside(item, stored.offset));
                    inner.insert(stored.offset, parts.collect());
                }
            }
        }
    }
    Ok(inner)
}
