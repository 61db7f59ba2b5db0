//! The whole file: its columns and its map.

use std::borrow::Cow;
use std::io::{self, Write};

use arrow_schema::DataType;
use entasis::{Part, Reader};
use serde_json::{Map, Value, json};

use super::Report;
use crate::describe::{Described, describe_all};
use crate::exit::Failure;
use crate::table::{Table, printable, shortened};
use crate::units;
use crate::zone::Shown;

/// Shows a file.
pub fn show(reader: &Reader, report: &mut Report<'_>) -> Result<(), Failure> {
    let columns = describe_all(reader)?;
    let map = stretches(reader.layout()?);
    if report.json {
        return report.json(&to_json(reader, &columns, &map)?);
    }
    print_head(reader, report.out)?;
    print_columns(report.out, &columns, reader.size_bytes())?;
    writeln!(report.out)?;
    let mut table = Table::new(&[">offset", ">bytes", "map of the file"]);
    for stretch in &map {
        table.row(vec![units::grouped(stretch.offset), units::grouped(stretch.size_bytes), stretch.words()]);
    }
    Ok(table.print(report.out)?)
}

fn print_head(reader: &Reader, out: &mut dyn Write) -> Result<(), Failure> {
    let groups = units::counted(reader.row_group_rows()?.len() as u64, "row group");
    let (name, size) = (reader.name(), units::bytes(reader.size_bytes()));
    writeln!(out, "{name}: {size}, written by {}", printable(reader.written_by()?))?;
    let columns = units::counted(reader.column_count() as u64, "column");
    writeln!(out, "{}, {columns}, {groups}", units::counted(reader.rows(), "row"))?;
    for (key, value) in reader.user_metadata()? {
        writeln!(out, "{} = {}", printable(key), printable(&String::from_utf8_lossy(value)))?;
    }
    let order: Vec<String> = reader
        .sort_order()?
        .iter()
        .map(|key| format!("{}{}", key.column, if key.descending { " descending" } else { "" }))
        .collect();
    if !order.is_empty() {
        writeln!(out, "sorted by {}", printable(&order.join(", ")))?;
    }
    Ok(writeln!(out)?)
}

/// Prints a table of columns; `demo` shows the same.
pub fn print_columns(out: &mut dyn Write, columns: &[Described], file_bytes: u64) -> io::Result<()> {
    /// A bound is for orientation: its beginning is enough.
    const BOUND_WIDTH: usize = 24;
    let has_blooms = columns.iter().any(|column| column.stats.bloom_bytes > 0);
    let mut headings = vec!["column", "type", ">bytes", ">share", ">ratio", ">nulls", "min", "max"];
    headings.extend(has_blooms.then_some(">Bloom filters"));
    headings.push("encoded as");
    let mut table = Table::new(&headings);
    for column in columns {
        let bound = |bound: &Option<Shown>| {
            bound.as_ref().map_or(String::new(), |bound| shortened(&bound.words(), BOUND_WIDTH))
        };
        let stats = &column.stats;
        let ratio = column.decoded_bytes as f64 / stats.size_bytes.max(1) as f64;
        let mut row = vec![
            stats.path.clone(),
            type_words(&stats.data_type),
            units::grouped(stats.size_bytes),
            units::percent(stats.size_bytes, file_bytes),
            if stats.size_bytes == 0 { "–".to_owned() } else { units::significant(ratio) },
            units::grouped(stats.null_count),
            bound(&stats.range.min),
            bound(&stats.range.max),
        ];
        row.extend(has_blooms.then(|| units::grouped(stats.bloom_bytes)));
        row.push(column.cascade_words());
        table.row(row);
    }
    table.print(out)
}

/// Fields of structs have lines of their own.
pub fn type_words(data_type: &DataType) -> String {
    match data_type {
        DataType::Struct(_) => "struct".to_owned(),
        other => other.to_string(),
    }
}

/// Neighbouring parts of the same kind.
struct Stretch {
    offset: u64,
    size_bytes: u64,
    section: Cow<'static, str>,
    first: String,
    last: String,
    parts: usize,
}

impl Stretch {
    fn words(&self) -> String {
        match self.parts {
            1 => self.first.clone(),
            parts => format!("{parts} parts, from {} to {}", self.first, self.last),
        }
    }
}

/// The map, with padding added to what it follows.
fn stretches(parts: Vec<Part>) -> Vec<Stretch> {
    let mut map: Vec<Stretch> = Vec::new();
    for part in parts {
        match map.last_mut() {
            Some(last) if part.what == "padding" => last.size_bytes += part.size_bytes,
            Some(last) if last.section == part.section => {
                last.size_bytes += part.size_bytes;
                last.last = part.what;
                last.parts += 1;
            }
            _ => map.push(Stretch {
                offset: part.offset,
                size_bytes: part.size_bytes,
                section: part.section,
                first: part.what.clone(),
                last: part.what,
                parts: 1,
            }),
        }
    }
    map
}

fn to_json(reader: &Reader, columns: &[Described], map: &[Stretch]) -> Result<Value, Failure> {
    let user_metadata: Map<String, Value> = reader
        .user_metadata()?
        .iter()
        .map(|(key, value)| (key.clone(), json!(String::from_utf8_lossy(value))))
        .collect();
    let sort_order: Vec<Value> = reader
        .sort_order()?
        .iter()
        .map(|key| json!({ "column": key.column, "descending": key.descending, "nulls_first": key.nulls_first }))
        .collect();
    let map: Vec<Value> = map
        .iter()
        .map(|stretch| {
            let (offset, size_bytes) = (stretch.offset, stretch.size_bytes);
            json!({ "offset": offset, "size_bytes": size_bytes, "what": stretch.words(), "parts": stretch.parts })
        })
        .collect();
    Ok(json!({
        "file": reader.name(),
        "size_bytes": reader.size_bytes(),
        "rows": reader.rows(),
        "row_groups": reader.row_group_rows()?,
        "written_by": reader.written_by()?,
        "user_metadata": user_metadata,
        "sort_order": sort_order,
        "columns": columns.iter().map(Described::to_json).collect::<Vec<_>>(),
        "map": map,
    }))
}
