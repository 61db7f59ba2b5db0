//! The lines of an NDJSON file that aren't blank, by number.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::decompress::{self, Text};
use crate::exit::Failure;
use crate::input::Position;

/// Reads line after line.
pub struct Lines {
    path: PathBuf,
    text: BufReader<Text>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    /// Opens the file before its first line; how far it is read, the position tells.
    pub fn open(path: &Path) -> Result<(Self, Position), Failure> {
        const BUFFER_BYTES: usize = 256 << 10;
        let (text, position) = decompress::open(path)?;
        let text = BufReader::with_capacity(BUFFER_BYTES, text);
        Ok((Lines { path: path.to_owned(), text, line: Vec::new(), number: 0 }, position))
    }

    /// The next line that has something on it, and its number, from 1; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(&[u8], u64)>, Failure> {
        const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
        loop {
            self.line.clear();
            let count = self.text.read_until(b'\n', &mut self.line);
            if count.map_err(|error| Failure::read(&self.path, error))? == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
            }
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some((&self.line, self.number)));
            }
        }
    }
}
