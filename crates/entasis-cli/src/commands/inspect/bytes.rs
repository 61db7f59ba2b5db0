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
    let mut parts = Vec::new();
    let mut blocks = blocks(reader)?;
    for part in reader.layout()? {
        let inner = blocks.remove(&part.offset);
        parts.push(part);
        parts.extend(inner.into_iter().flatten());
    }
    if report.json {
        let to_json = |part: &Part| {
            let (offset, size_bytes) = (part.offset, part.size_bytes);
            json!({ "offset": offset, "size_bytes": size_bytes, "what": part.what, "section": part.section })
        };
        let parts: Vec<Value> = parts.iter().map(to_json).collect();
        return report.json(&json!({ "file": reader.name(), "parts": parts }));
    }
    let mut table = Table::new(&[">offset", ">bytes", "what", "specification"]);
    for part in parts {
        let numbers = [units::grouped(part.offset), units::grouped(part.size_bytes)];
        table.row([numbers.to_vec(), vec![part.what, part.section.to_owned()]].concat());
    }
    Ok(table.print(report.out)?)
}

/// The insides of every block, by its offset.
fn blocks(reader: &Reader) -> Result<HashMap<u64, Vec<Part>>, Failure> {
    let mut inner = HashMap::new();
    for index in 0..reader.column_count() {
        for (_, record) in reader.column(index)?.tree() {
            for (row_group, chunk) in record.chunks.iter().enumerate() {
                for (number, stored) in chunk.blocks.iter().enumerate() {
                    let items = reader.block(&record, row_group, number)?.layout();
                    let parts = items.into_iter().map(|item| Part {
                        offset: stored.offset + item.range.start,
                        size_bytes: item.range.end - item.range.start,
                        what: format!("  {}", item.part),
                        section: item.section,
                    });
                    inner.insert(stored.offset, parts.collect());
                }
            }
        }
    }
    Ok(inner)
}
