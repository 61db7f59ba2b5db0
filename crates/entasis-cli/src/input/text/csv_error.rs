//! Where in a CSV file something is wrong: the line as an editor counts it, and the column by number and name.

use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::str;
use std::sync::Arc;

use arrow_csv::ReaderBuilder;
use arrow_schema::{ArrowError, Field, Schema};
use csv::ByteRecord;

use super::csv_blank::BlankLines;
use super::decompress::{self, Text};
use crate::exit::Failure;
use crate::table::printable;

/// Reads records of any number of fields, and knows where they are.
pub struct Scanner {
    path: PathBuf,
    reader: csv::Reader<BlankLines<Text>>,
    names: Vec<String>,
}

impl Scanner {
    /// Opens the file and reads the names on its first line.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let (text, _) = decompress::open(path)?;
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(BlankLines::new(text));
        let header = reader.byte_headers().map_err(|error| failure(path, error))?.clone();
        let mut scanner = Scanner { path: path.to_owned(), reader, names: Vec::new() };
        if header.is_empty() {
            return Err(Failure::corrupt(path, "line 1: no names of columns"));
        }
        scanner.names = header.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        scanner.check_encoding(&header)?;
        Ok(scanner)
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the next record; false at the end.
    pub fn next(&mut self, record: &mut ByteRecord) -> Result<bool, Failure> {
        self.reader.read_byte_record(record).map_err(|error| failure(&self.path, error))
    }

    /// The line on which field `column` of `record` begins, from 1.
    fn line(&self, record: &ByteRecord, column: usize) -> u64 {
        let Some(position) = record.position() else { return 1 };
        let within: usize = record.iter().take(column).map(newlines).sum();
        // Blank lines of a single column are records: none stand between two of them.
        let skips_lines = self.names.len() != 1 || position.byte() == 0;
        let before = if skips_lines { leading_newlines(&self.path, position.byte()) } else { 0 };
        position.line() + before + within as u64
    }

    /// "line 7, column 3 (price)": where an editor finds the field.
    pub fn place(&self, record: &ByteRecord, column: usize) -> String {
        let name = self.names.get(column).map_or(String::new(), |name| format!(" ({})", printable(name)));
        format!("line {}, column {}{name}", self.line(record, column), column + 1)
    }

    fn check_encoding(&self, record: &ByteRecord) -> Result<(), Failure> {
        for (column, value) in record.iter().enumerate() {
            if let Err(error) = str::from_utf8(value) {
                let byte = value[error.valid_up_to()];
                let place = self.place(record, column);
                return Err(Failure::corrupt(&self.path, format!("{place}: byte 0x{byte:02X} is not UTF-8")));
            }
        }
        Ok(())
    }
}

fn newlines(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// A record's position is the end of the one before: line ends and blank lines may stand between.
fn leading_newlines(path: &Path, offset: u64) -> u64 {
    let count = || -> std::io::Result<u64> {
        let mut lines = 0;
        for byte in BufReader::new(decompress::open_at(path, offset)?).bytes() {
            match byte? {
                b'\n' => lines += 1,
                b'\r' => (),
                _ => break,
            }
        }
        Ok(lines)
    };
    // The file was readable a moment ago; a line that is off by one is better than another error over this one.
    count().unwrap_or(0)
}

fn failure(path: &Path, error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Failure::read(path, error),
        other => Failure::corrupt(path, format!("{other:?}")),
    }
}

/// Fails where a record has more or fewer fields than there are names.
pub fn check_shape(scanner: &Scanner, record: &ByteRecord) -> Result<(), Failure> {
    let (found, expected) = (record.len(), scanner.names.len());
    if found == expected {
        return Ok(());
    }
    let place = scanner.place(record, found.min(expected));
    let (fields, names) = (counted(found, "field"), counted(expected, "name"));
    Err(Failure::corrupt(&scanner.path, format!("{place}: the row has {fields}, the first line {names}")))
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The place and nature of what made the reader fail with `error`, somewhere after `rows_done` rows.
pub fn locate(path: &Path, schema: &Schema, rows_done: u64, error: ArrowError) -> Failure {
    match find(path, schema, rows_done) {
        Err(found) => found,
        // The file changed meanwhile, or the reader knows more than we do.
        Ok(()) => Failure::arrow(path, error),
    }
}

fn find(path: &Path, schema: &Schema, rows_done: u64) -> Result<(), Failure> {
    let mut scanner = Scanner::open(path)?;
    let mut record = ByteRecord::new();
    let mut row = 0;
    while scanner.next(&mut record)? {
        row += 1;
        if row <= rows_done {
            continue;
        }
        check_shape(&scanner, &record)?;
        scanner.check_encoding(&record)?;
        for (column, (field, value)) in schema.fields().iter().zip(&record).enumerate() {
            if let Err(error) = parse(field, value) {
                let place = scanner.place(&record, column);
                let text = String::from_utf8_lossy(value);
                let message = unreadable(field, &text, &error);
                return Err(Failure::corrupt(path, format!("{place}: {message}")));
            }
        }
    }
    Ok(())
}

fn unreadable(field: &Field, text: &str, error: &ArrowError) -> String {
    match error {
        ArrowError::ParseError(_) | ArrowError::CastError(_) | ArrowError::InvalidArgumentError(_) => format!(
            "{text:?} is not {}; to read the column as text: --types {}=string",
            field.data_type(),
            field.name()
        ),
        other => format!("{text:?}: {other}"),
    }
}

/// Asks the very reader that failed about a single value, so that both agree on what is readable.
fn parse(field: &Arc<Field>, value: &[u8]) -> Result<(), ArrowError> {
    let mut line = Vec::with_capacity(value.len() + 3);
    line.push(b'"');
    for byte in value {
        line.write_all(if *byte == b'"' { b"\"\"" } else { std::slice::from_ref(byte) })?;
    }
    line.extend_from_slice(b"\"\n");
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    ReaderBuilder::new(schema).build(line.as_slice())?.try_for_each(|batch| batch.map(drop))
}
