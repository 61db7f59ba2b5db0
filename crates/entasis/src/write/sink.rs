//! Where a writer's bytes go.

use std::io::{self, BufWriter, Write};

use crate::error::{Error, Result};

const BUFFER_BYTES: usize = 256 * 1024;

/// A sink that knows its position and names itself in errors.
pub struct Sink<W: Write> {
    writer: BufWriter<W>,
    position: u64,
    name: String,
}

impl<W: Write> Sink<W> {
    /// Writes to `writer`, which errors call `name`.
    pub fn new(writer: W, name: String) -> Self {
        Self { writer: BufWriter::with_capacity(BUFFER_BYTES, writer), position: 0, name }
    }

    /// Bytes written so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Writes all of `bytes`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.write_io(bytes).map(drop).map_err(|source| self.error(source))
    }

    /// Writes all of `bytes` and returns where they begin.
    pub fn write_io(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.writer.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(self.position - bytes.len() as u64)
    }

    /// Writes zeros up to a multiple of `alignment`, at most 64.
    pub fn align(&mut self, alignment: usize) -> Result<()> {
        let padding = self.position.next_multiple_of(alignment as u64) - self.position;
        self.write(&[0; 64][..padding as usize])
    }

    /// An error of this sink.
    pub fn error(&self, source: io::Error) -> Error {
        Error::io(self.name.clone(), source)
    }

    /// Flushes and gives the writer back.
    pub fn into_inner(self) -> Result<W> {
        let name = self.name;
        let mut writer = self.writer.into_inner().map_err(|error| Error::io(name.clone(), error.into_error()))?;
        writer.flush().map_err(|source| Error::io(name, source))?;
        Ok(writer)
    }
}
