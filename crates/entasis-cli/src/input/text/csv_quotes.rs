//! Watches the quotes of a CSV file as it is read: a quote that is never closed swallows all rows behind it, and the parser
//! takes that for one long field.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the parser stands (RFC 4180).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A field begins.
    FieldStart,
    /// In a field without quotes, or behind a quoted one.
    Unquoted,
    /// Inside quotes.
    Quoted,
    /// Behind a quote inside a quoted field: the end of the field, or half of a doubled quote.
    QuoteInQuoted,
}

impl State {
    /// Behind `byte`.
    pub fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (State::Quoted, b'"') => State::QuoteInQuoted,
            (State::FieldStart | State::QuoteInQuoted, b'"') | (State::Quoted, _) => State::Quoted,
            (_, b',' | b'\n' | b'\r') => State::FieldStart,
            _ => State::Unquoted,
        }
    }
}

/// Passes bytes on and keeps track of quotes.
pub struct Quotes<R> {
    inner: R,
    state: State,
    line: u64,
    /// The line of the last quote that opened a field.
    opened: u64,
    open_since: Arc<AtomicU64>,
}

/// Tells the line (from 1) of the quote that is open, if one is.
#[derive(Clone)]
pub struct OpenQuote(Arc<AtomicU64>);

impl OpenQuote {
    /// Line (from 1) at which a quoted field began that hasn't ended yet.
    pub fn line(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&line| line > 0)
    }
}

impl<R> Quotes<R> {
    /// Watches `inner`, which is at the beginning of its file.
    pub fn new(inner: R) -> (Self, OpenQuote) {
        let open_since = Arc::new(AtomicU64::new(0));
        let quotes = Self { inner, state: State::FieldStart, line: 1, opened: 1, open_since: open_since.clone() };
        (quotes, OpenQuote(open_since))
    }

    fn watch(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.state == State::FieldStart && byte == b'"' {
                self.opened = self.line;
            }
            self.state = self.state.after(byte);
            self.line += u64::from(byte == b'\n');
        }
        let open = if self.state == State::Quoted { self.opened } else { 0 };
        self.open_since.store(open, Ordering::Relaxed);
    }
}

impl<R: Read> Read for Quotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.watch(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_line(text: &str, step: usize) -> Option<u64> {
        let (mut quotes, open) = Quotes::new(text.as_bytes());
        let mut buffer = vec![0; step];
        while quotes.read(&mut buffer).unwrap() > 0 {}
        open.line()
    }

    #[test]
    fn only_quotes_that_stay_open_are_told() {
        for step in [1, 2, 3, 100] {
            assert_eq!(open_line("a,b\n1,x\n2,\"y\n3,z\n", step), Some(3));
            assert_eq!(open_line("a,b\n1,\"x\ny\"\n2,\"say \"\"hi\"\"\"\n", step), None);
            assert_eq!(open_line("size\n5\" pipe\n", step), None);
            assert_eq!(open_line("a\n\"\"\"\n", step), Some(2));
            assert_eq!(open_line("", step), None);
        }
    }
}
