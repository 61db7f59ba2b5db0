//! Why a column is encoded as it is: what every encoding promised for a block, and what it takes.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_select::concat::concat;
use entasis::arrow::{plain_array, with_column};
use entasis::encoding::{Candidate, Choice, explain};
use entasis::{ColumnRecord, EncodeOptions, Profile, ReadRequest, Reader, Selected};
use serde_json::{Value, json};

use super::Report;
use crate::exit::Failure;
use crate::table::{Table, printable};
use crate::units;

/// What is to be explained.
pub struct Question<'a> {
    /// Path of a column; a struct stands for all that is in it.
    pub column: &'a str,
    /// Number of the block, through all row groups.
    pub block: usize,
    /// By which the encodings are weighed.
    pub profile: Profile,
}

/// Explains the block of each column that is meant.
pub fn show(reader: &Reader, question: &Question<'_>, report: &mut Report<'_>) -> Result<(), Failure> {
    let leaves = leaves(reader, question.column)?;
    if leaves.is_empty() {
        return Err(Failure::usage(format!("{:?} is a struct without values", question.column)));
    }
    let mut explained = Vec::new();
    for (place, leaf) in leaves.iter().enumerate() {
        let explanation = Explanation::of(reader, question, leaf, place)?;
        if !report.json {
            write!(report.out, "{}", if place > 0 { "\n" } else { "" })?;
            explanation.print(leaf, question, report.out)?;
        }
        explained.push(explanation.to_json(leaf, question));
    }
    if report.json {
        report.json(&json!({ "file": reader.name(), "profile": question.profile.name(), "columns": explained }))?;
    }
    Ok(())
}

/// A column that has values.
struct Leaf {
    path: String,
    record: Arc<ColumnRecord>,
}

/// The leaves that a path means, in the order in which reading its projection gives them.
fn leaves(reader: &Reader, path: &str) -> Result<Vec<Leaf>, Failure> {
    let projection = reader.projection(&[path.to_owned()])?;
    let mut leaves = Vec::new();
    for selected in projection.selected().unwrap_or_default() {
        let record = reader.column(selected.column)?;
        add_leaves(&record, record.field.name().clone(), selected.fields.as_deref(), &mut leaves);
    }
    Ok(leaves)
}

fn add_leaves(record: &Arc<ColumnRecord>, path: String, fields: Option<&[Selected]>, leaves: &mut Vec<Leaf>) {
    let Some(children) = &record.children else {
        leaves.push(Leaf { path, record: record.clone() });
        return;
    };
    let below = |child: &Arc<ColumnRecord>| format!("{path}.{}", child.field.name());
    match fields {
        None => children.iter().for_each(|child| add_leaves(child, below(child), None, leaves)),
        Some(fields) => fields.iter().for_each(|field| {
            let child = &children[field.column];
            add_leaves(child, below(child), field.fields.as_deref(), leaves);
        }),
    }
}

/// The arrays of leaves, in the order of [`leaves`].
fn leaf_arrays<'a>(array: &'a ArrayRef, arrays: &mut Vec<&'a ArrayRef>) {
    match array.as_struct_opt() {
        Some(parent) => parent.columns().iter().for_each(|child| leaf_arrays(child, arrays)),
        None => arrays.push(array),
    }
}

/// What the chooser makes of a block.
struct Explanation {
    row_group: usize,
    block: usize,
    rows: u32,
    /// What the file has.
    stored: String,
    stored_bytes: u64,
    choices: Vec<Choice>,
    notes: Vec<&'static str>,
}

impl Explanation {
    fn of(reader: &Reader, question: &Question<'_>, leaf: &Leaf, place: usize) -> Result<Self, Failure> {
        let chunks = leaf.record.chunks.iter().enumerate();
        let mut blocks = chunks.flat_map(|(group, chunk)| (0..chunk.blocks.len()).map(move |block| (group, block)));
        let count = leaf.record.chunks.iter().map(|chunk| chunk.blocks.len()).sum::<usize>();
        let Some((row_group, block)) = blocks.nth(question.block) else {
            let (path, count) = (&leaf.path, units::counted(count as u64, "block"));
            return Err(Failure::usage(format!("{path:?} has {count}: there is none of number {}", question.block)));
        };
        let chunk = &leaf.record.chunks[row_group];
        let stored = reader.block(&leaf.record, row_group, block)?.cascade().words();
        let mut notes = Vec::new();
        if !chunk.parts.is_empty() {
            notes.push("The file's blocks share a dictionary; here the block has to do by itself.");
        }
        if stored.contains("Large(") {
            notes.push("Values of 16 KiB and more lie apart in the file; here they are in the block.");
        }
        let array = rows_of(reader, question, leaf, place)?;
        let choices = with_column(&array, |column| explain(column, &EncodeOptions::of(question.profile)))?
            .map_err(entasis::Error::from)?;
        let (rows, stored_bytes) = (chunk.blocks[block].rows, chunk.blocks[block].size_bytes);
        Ok(Explanation { row_group, block, rows, stored, stored_bytes, choices, notes })
    }

    fn print(&self, leaf: &Leaf, question: &Question<'_>, out: &mut dyn Write) -> Result<(), Failure> {
        let (path, data_type) = (printable(&leaf.path), leaf.record.field.data_type());
        let (row_group, block, rows) = (self.row_group, self.block, units::counted(self.rows.into(), "row"));
        writeln!(out, "{path}: {data_type}, row group {row_group}, block {block}: {rows}")?;
        writeln!(out, "In the file: {}, {} bytes", self.stored, units::grouped(self.stored_bytes))?;
        writeln!(out, "Chosen anew for this block, profile {}, prices in bytes:", question.profile)?;
        self.notes.iter().try_for_each(|note| writeln!(out, "{note}"))?;
        self.choices.iter().try_for_each(|choice| print_choice(choice, out))
    }

    fn to_json(&self, leaf: &Leaf, question: &Question<'_>) -> Value {
        let decisions = self.choices.iter().map(|choice| {
            let candidates = choice.candidates.iter().map(|candidate| {
                json!({
                    "encoding": candidate.encoding,
                    "promised_bytes": candidate.predicted_bytes,
                    "price_bytes": candidate.price_bytes,
                    "real_bytes": candidate.real_bytes,
                    "chosen": candidate.is_chosen,
                    "why": why(candidate, choice),
                })
            });
            json!({
                "above": choice.above,
                "type": choice.physical.to_string(),
                "rows": choice.rows,
                "candidates": candidates.collect::<Vec<_>>(),
            })
        });
        json!({
            "path": leaf.path,
            "type": leaf.record.field.data_type().to_string(),
            "block": question.block,
            "row_group": self.row_group,
            "rows": self.rows,
            "cascade": self.stored,
            "size_bytes": self.stored_bytes,
            "notes": self.notes,
            "decisions": decisions.collect::<Vec<_>>(),
        })
    }
}

/// The values of the block that is asked for; of a leaf whose place among those of the projection is given.
fn rows_of(reader: &Reader, question: &Question<'_>, leaf: &Leaf, place: usize) -> Result<ArrayRef, Failure> {
    let blocks = leaf.record.chunks.iter().flat_map(|chunk| &chunk.blocks).map(|block| u64::from(block.rows));
    let begin = blocks.clone().take(question.block).sum::<u64>();
    let end = blocks.take(question.block + 1).sum::<u64>();
    let projection = reader.projection(&[question.column.to_owned()])?;
    let mut found = Vec::new();
    // One batch, unless run ends are too narrow for all rows.
    for batch in reader.read(ReadRequest { projection, rows: Some(begin..end), ..ReadRequest::default() })? {
        let batch = batch?;
        let mut arrays = Vec::new();
        batch.columns().iter().for_each(|array| leaf_arrays(array, &mut arrays));
        found.push(plain_array(arrays[place])?);
    }
    let lent: Vec<&dyn Array> = found.iter().map(AsRef::as_ref).collect();
    Ok(concat(&lent).map_err(entasis::Error::from)?)
}

fn print_choice(choice: &Choice, out: &mut dyn Write) -> Result<(), Failure> {
    let indent = "  ".repeat(choice.above.len());
    let mut table = Table::new(&["encoding", ">promised", ">price", ">real", "why"]);
    let (able, unable): (Vec<_>, Vec<_>) = choice.candidates.iter().partition(|one| one.real_bytes.is_some());
    for candidate in able {
        let number = |bytes: f64| units::grouped(bytes.round() as u64);
        table.row(vec![
            candidate.encoding.to_owned(),
            candidate.predicted_bytes.map_or_else(|| "–".to_owned(), number),
            number(candidate.price_bytes),
            candidate.real_bytes.map_or_else(String::new, |bytes| units::grouped(bytes as u64)),
            why(candidate, choice),
        ]);
    }
    let mut text = Vec::new();
    table.print(&mut text)?;
    let above = choice.above.iter().map(|name| format!("{name} › ")).collect::<String>();
    writeln!(out, "\n{indent}{above}{} of {}", units::counted(choice.rows as u64, "value"), choice.physical)?;
    for line in String::from_utf8_lossy(&text).lines() {
        writeln!(out, "{indent}{line}")?;
    }
    let names: Vec<&str> = unable.iter().map(|candidate| candidate.encoding).collect();
    if !names.is_empty() {
        writeln!(out, "{indent}can't hold these values: {}", names.join(", "))?;
    }
    Ok(())
}

/// Why an encoding was chosen, or not.
fn why(candidate: &Candidate, choice: &Choice) -> String {
    let Some(real) = candidate.real_bytes else { return "can't hold these values".to_owned() };
    if candidate.is_chosen {
        let others = choice.candidates.iter().filter(|other| other.real_bytes.is_some()).count() - 1;
        return if others == 0 { "chosen: nothing else holds them" } else { "chosen" }.to_owned();
    }
    let chosen = choice.candidates.iter().find(|other| other.is_chosen);
    let promised = chosen.and_then(|chosen| chosen.predicted_bytes).unwrap_or(0.0);
    let taken = chosen.and_then(|chosen| chosen.real_bytes).unwrap_or(0);
    match candidate.predicted_bytes {
        None if !candidate.is_proposed => {
            format!("excluded: for the profile size alone (would take {})", units::grouped(real as u64))
        }
        None => format!("excluded: looked hopeless (would take {})", units::grouped(real as u64)),
        Some(bytes) if bytes < promised && real > taken => "fewer bytes promised, though more taken".to_owned(),
        Some(bytes) if bytes < promised => "costs more to decode than it saves".to_owned(),
        Some(_) if real < taken => "more bytes promised, though fewer taken".to_owned(),
        Some(_) => "more bytes".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use entasis::encoding::{Fixed, Physical};

    #[test]
    fn reasons_are_told_from_promises_and_bytes() {
        let candidate = |encoding, predicted_bytes, price_bytes, real_bytes| Candidate {
            encoding,
            predicted_bytes,
            price_bytes,
            real_bytes,
            is_proposed: encoding != "g",
            is_chosen: encoding == "a",
        };
        let candidates = vec![
            candidate("a", Some(100.0), 10.0, Some(110)),
            candidate("b", Some(90.0), 50.0, Some(95)),
            candidate("c", Some(120.0), 0.0, Some(130)),
            candidate("d", Some(120.0), 0.0, Some(105)),
            candidate("e", None, 0.0, Some(1_200)),
            candidate("f", None, 0.0, None),
            candidate("g", None, 0.0, Some(80)),
            candidate("h", Some(90.0), 0.0, Some(130)),
        ];
        let mut choice = Choice { above: Vec::new(), physical: Physical::Fixed(Fixed::I64), rows: 9, candidates };
        let words: Vec<String> = choice.candidates.iter().map(|candidate| why(candidate, &choice)).collect();
        let expected = [
            "chosen",
            "costs more to decode than it saves",
            "more bytes",
            "more bytes promised, though fewer taken",
            "excluded: looked hopeless (would take 1,200)",
            "can't hold these values",
            "excluded: for the profile size alone (would take 80)",
            "fewer bytes promised, though more taken",
        ];
        assert_eq!(words, expected);
        choice.candidates.truncate(1);
        assert_eq!(why(&choice.candidates[0], &choice), "chosen: nothing else holds them");
    }
}
