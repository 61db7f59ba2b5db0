//! Blank lines of a CSV file of one column: each is a row whose only field is empty. Parsers of CSV skip blank lines, which is right
//! where rows have several fields.

use std::io::{self, Read};

use super::csv_quotes::State;

const CHUNK_BYTES: usize = 64 * 1024;

/// Passes bytes on. If the line of names has but one, blank lines become `""`, and every line ends with `\n`, so that lines can still
/// be counted.
pub struct BlankLines<R> {
    inner: R,
    state: State,
    shape: Shape,
    at_line_start: bool,
    /// The last byte was `\r`: a `\n` that follows belongs to it.
    after_return: bool,
    ready: Vec<u8>,
    taken: usize,
}

/// What the line of names has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// It hasn't ended.
    Unknown,
    OneColumn,
    SeveralColumns,
}

impl<R> BlankLines<R> {
    /// Watches `inner`, which is at the beginning of its file.
    pub fn new(inner: R) -> Self {
        let (state, shape) = (State::FieldStart, Shape::Unknown);
        BlankLines { inner, state, shape, at_line_start: true, after_return: false, ready: Vec::new(), taken: 0 }
    }

    fn push(&mut self, byte: u8) {
        let is_line_end = matches!(byte, b'\r' | b'\n') && self.state != State::Quoted;
        self.state = self.state.after(byte);
        match self.shape {
            Shape::SeveralColumns => self.ready.push(byte),
            Shape::Unknown if self.at_line_start && is_line_end => self.ready.push(byte),
            Shape::Unknown if is_line_end => {
                self.shape = Shape::OneColumn;
                self.end_line(byte);
            }
            Shape::Unknown => {
                // A comma outside quotes: the next field begins.
                if byte == b',' && self.state == State::FieldStart {
                    self.shape = Shape::SeveralColumns;
                }
                self.push_text(byte);
            }
            Shape::OneColumn if !is_line_end => self.push_text(byte),
            Shape::OneColumn if byte == b'\n' && self.after_return => self.after_return = false,
            Shape::OneColumn => {
                if self.at_line_start {
                    self.ready.extend_from_slice(b"\"\"");
                }
                self.end_line(byte);
            }
        }
    }

    fn push_text(&mut self, byte: u8) {
        self.ready.push(byte);
        (self.at_line_start, self.after_return) = (false, false);
    }

    fn end_line(&mut self, byte: u8) {
        self.ready.push(b'\n');
        (self.at_line_start, self.after_return) = (true, byte == b'\r');
    }
}

impl<R: Read> Read for BlankLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.ready.len() {
            if self.shape == Shape::SeveralColumns {
                return self.inner.read(buffer);
            }
            let mut chunk = [0; CHUNK_BYTES];
            let count = self.inner.read(&mut chunk)?;
            if count == 0 {
                return Ok(0);
            }
            self.ready.clear();
            self.taken = 0;
            chunk[..count].iter().for_each(|byte| self.push(*byte));
        }
        let count = buffer.len().min(self.ready.len() - self.taken);
        buffer[..count].copy_from_slice(&self.ready[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives at most `step` bytes at once.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(buffer.len());
            self.0.read(&mut buffer[..count])
        }
    }

    #[test]
    fn blank_lines_are_rows_of_one_column_and_of_no_other() {
        for (text, expected) in [
            ("a\n1\n\n3\n", "a\n1\n\"\"\n3\n"),
            ("\n\na\n1\n\n", "\n\na\n1\n\"\"\n"),
            ("a\r\n\r\n1\r\n", "a\n\"\"\n1\n"),
            ("\"a,b\"\n\"x\n\n\r\ny\"\n\n", "\"a,b\"\n\"x\n\n\r\ny\"\n\"\"\n"),
            ("a,b\n1,2\n\n3,4\r\n", "a,b\n1,2\n\n3,4\r\n"),
            ("a\r1\r\r2", "a\n1\n\"\"\n2"),
            ("a", "a"),
            ("", ""),
        ] {
            for step in [1, 2, 3, 100] {
                let mut out = String::new();
                BlankLines::new(Slow(text.as_bytes(), step)).read_to_string(&mut out).unwrap();
                assert_eq!(out, expected, "{text:?} by {step}");
            }
        }
    }
}
