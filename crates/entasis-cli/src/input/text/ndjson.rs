//! NDJSON in: types from all lines (or some, or stated), then arrow-rs' reader. What doesn't fit is told with line and field.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_json::ReaderBuilder;
use arrow_json::reader::Decoder;
use arrow_schema::{ArrowError, Schema, SchemaRef};

use super::InferRows;
use super::ndjson_lines::Lines;
use super::ndjson_shape::Table;
use crate::columns::Picks;
use crate::exit::Failure;
use crate::input::{Input, InputOptions, Position};

/// A batch of fewer rows ends here, so that long texts don't fill the memory.
const BATCH_TEXT_BYTES: usize = 64 << 20;

struct NdjsonInput {
    path: PathBuf,
    lines: Lines,
    position: Position,
    table: Table,
    /// The lines that `table` knows already.
    known_lines: u64,
    /// Of the columns that are read, before they are put in order.
    decoder_schema: SchemaRef,
    decoder: Decoder,
    schema: SchemaRef,
    picks: Option<Picks>,
    batch_rows: usize,
    rows_done: u64,
}

/// Opens an NDJSON file.
pub fn open(path: &Path, options: &InputOptions) -> Result<Box<dyn Input>, Failure> {
    // Whoever wants the first rows needn't wait for the last.
    let usual = options.row_limit.map(|rows| rows.max(InferRows::FIRST));
    let (table, known_lines) = tell(path, options, options.text.infer_rows.limit(usual))?;
    let file_schema = Arc::new(Schema::new(table.fields()));
    let picks = options.columns.as_ref().map(|names| Picks::new(&file_schema, names, path)).transpose()?;
    let schema = picks.as_ref().map_or(file_schema.clone(), Picks::schema);
    let decoder_schema = match &picks {
        Some(picks) => Arc::new(file_schema.project(&picks.roots()).map_err(|error| Failure::arrow(path, error))?),
        None => file_schema,
    };
    let (lines, position) = Lines::open(path)?;
    Ok(Box::new(NdjsonInput {
        path: path.to_owned(),
        lines,
        position,
        table,
        known_lines,
        decoder: decoder(&decoder_schema, options.batch_rows)?,
        decoder_schema,
        schema,
        picks: picks.as_ref().map(Picks::among_roots),
        batch_rows: options.batch_rows,
        rows_done: 0,
    }))
}

/// The types of the first `limit` lines, and how many lines those are.
fn tell(path: &Path, options: &InputOptions, limit: Option<u64>) -> Result<(Table, u64), Failure> {
    let mut table = Table::new(&options.text.types);
    let (mut lines, _) = Lines::open(path)?;
    let mut known_lines = 0;
    while limit.is_none_or(|limit| known_lines < limit) {
        let Some((line, number)) = lines.next()? else { break };
        table.line(line).map_err(|problem| wrong(path, number, &problem))?;
        known_lines += 1;
    }
    if lines.next()?.is_none() && known_lines == 0 {
        return Err(Failure::corrupt(path, "there is no line that could tell the columns"));
    }
    if let Some(name) = table.unused() {
        let what = format!("--types names a field {name:?} that isn't there");
        return Err(Failure::usage(format!("{}: {what}", path.display())));
    }
    table.settle();
    Ok((table, known_lines))
}

fn wrong(path: &Path, line: u64, problem: &str) -> Failure {
    Failure::corrupt(path, format!("line {line}, {problem}"))
}

/// A decoder that takes numbers and booleans for text where text is stated.
fn decoder(schema: &SchemaRef, batch_rows: usize) -> Result<Decoder, Failure> {
    let builder = ReaderBuilder::new(schema.clone()).with_batch_size(batch_rows).with_coerce_primitive(true);
    builder.build_decoder().map_err(|error| Failure::usage(format!("JSON can't be read as a stated type: {error}")))
}

impl NdjsonInput {
    /// The next rows; `None` at the end.
    fn read(&mut self) -> Result<Option<RecordBatch>, Failure> {
        let (mut rows, mut text_bytes, mut first_line) = (0, 0, 0);
        while rows < self.batch_rows && text_bytes < BATCH_TEXT_BYTES {
            let Some((line, number)) = self.lines.next()? else { break };
            if self.rows_done + rows as u64 >= self.known_lines {
                self.table.line(line).map_err(|problem| wrong(&self.path, number, &problem))?;
            }
            self.decoder.decode(line).map_err(|error| wrong(&self.path, number, &words(&error)))?;
            first_line = if rows == 0 { number } else { first_line };
            (rows, text_bytes) = (rows + 1, text_bytes + line.len());
        }
        self.rows_done += rows as u64;
        let batch = self.decoder.flush().map_err(|error| self.locate(first_line, error))?;
        batch
            .map(|batch| match &self.picks {
                Some(picks) => picks.apply(&batch).map_err(|error| Failure::arrow(&self.path, error)),
                None => Ok(batch),
            })
            .transpose()
    }

    /// The line on which the decoder failed, at `first_line` or further on: asks it line by line.
    fn locate(&self, first_line: u64, error: ArrowError) -> Failure {
        let find = || -> Result<(), Failure> {
            let (mut lines, _) = Lines::open(&self.path)?;
            let mut decoder = decoder(&self.decoder_schema, 1)?;
            while let Some((line, number)) = lines.next()? {
                if number >= first_line {
                    let decoded = decoder.decode(line).and_then(|_| decoder.flush());
                    decoded.map_err(|error| wrong(&self.path, number, &words(&error)))?;
                }
            }
            Ok(())
        };
        find().err().unwrap_or_else(|| Failure::arrow(&self.path, error))
    }
}

/// What arrow-rs says, without its word for the kind of error.
fn words(error: &ArrowError) -> String {
    let words = error.to_string();
    words.trim_start_matches("Json error: ").trim_start_matches("Parser error: ").to_owned()
}

impl Iterator for NdjsonInput {
    type Item = Result<RecordBatch, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

impl Input for NdjsonInput {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn rows(&self) -> Option<u64> {
        None
    }

    fn fraction_done(&self) -> f64 {
        self.position.fraction()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines that are told types of, but can't be decoded as these, would fail without a word of where.
    #[test]
    fn every_line_whose_types_can_be_told_is_decoded() {
        let line = r#"{"a":-1.5e3,"b":"x\n\u00e9 ü","c":[[1],null,[]],"d":{"e":true,"f":[{"g":18446744073709551615}]},"h":null}"#;
        let mut decoded = 0;
        for at in 0..line.len() {
            for byte in
                [0, b' ', b'"', b',', b'0', b'9', b'-', b'.', b'e', b'[', b'}', b'\\', 0xC3, line.as_bytes()[at] ^ 1]
            {
                let mut line = line.as_bytes().to_vec();
                line[at] = byte;
                let mut table = Table::new(&[]);
                if table.line(&line).is_ok() {
                    let schema = Arc::new(Schema::new(table.fields()));
                    let mut decoder = decoder(&schema, 1).unwrap();
                    decoder.decode(&line).unwrap();
                    assert_eq!(decoder.flush().unwrap().unwrap().num_rows(), 1, "{}", String::from_utf8_lossy(&line));
                    decoded += 1;
                }
            }
        }
        assert!(decoded > 200, "{decoded} lines are right");
    }
}
