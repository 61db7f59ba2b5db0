//! Text that comes in, compressed or not. Which, its first bytes tell; a name's ending only has to agree.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::exit::Failure;
use crate::format::Compression;
use crate::input::{Counted, Position, open_counted};

/// A file's text from its beginning to its end.
pub type Text = Box<dyn Read>;

/// A longer line of compressed text is taken for an attempt to fill the memory.
const MOST_LINE_BYTES: usize = 256 << 20;

impl Compression {
    /// So many first bytes tell one from all else.
    const MAGIC_BYTES: u64 = 4;

    /// What a file that begins with these bytes is.
    fn of_bytes(first: &[u8]) -> Option<Self> {
        match first {
            [0x1F, 0x8B, ..] => Some(Compression::Gzip),
            [0x28, 0xB5, 0x2F, 0xFD] => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// Opens a file as text; how far it has been read is told in bytes as they lie in the file.
///
/// # Errors
/// A file that says by its name that it is compressed must be. While it is read, a damaged or truncated stream is an error of kind
/// [`io::ErrorKind::InvalidData`].
pub fn open(path: &Path) -> Result<(Text, Position), Failure> {
    let failure = |error| Failure::read(path, error);
    let (mut file, position) = open_counted(path)?;
    let found = Compression::of_bytes(&first_bytes(&mut file).map_err(failure)?);
    if let (Some(named), None) = (Compression::of_name(path), found) {
        return Err(Failure::corrupt(path, format!("not {}, whatever its name says", named.name())));
    }
    Ok((decompressed(file, found).map_err(failure)?, position))
}

/// Opens a file as text, at byte `offset` of the text.
pub fn open_at(path: &Path, offset: u64) -> io::Result<Text> {
    let mut file = File::open(path)?;
    match Compression::of_bytes(&first_bytes(&mut file)?) {
        None => {
            file.seek(SeekFrom::Start(offset))?;
            Ok(Box::new(file))
        }
        found => {
            let mut text = decompressed(Counted { inner: file, at: Default::default() }, found)?;
            io::copy(&mut text.by_ref().take(offset), &mut io::sink())?;
            Ok(text)
        }
    }
}

/// Enough to tell what the file is; it stands at its beginning afterwards.
fn first_bytes(file: &mut (impl Read + Seek)) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    file.by_ref().take(Compression::MAGIC_BYTES).read_to_end(&mut first)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(first)
}

fn decompressed(file: Counted<File>, compression: Option<Compression>) -> io::Result<Text> {
    Ok(match compression {
        None => Box::new(file),
        Some(Compression::Gzip) => Box::new(Checked::new(MultiGzDecoder::new(BufReader::new(file)), Compression::Gzip)),
        Some(Compression::Zstd) => {
            let decoder = zstd::stream::read::Decoder::new(file)?;
            Box::new(Checked::new(decoder, Compression::Zstd))
        }
    })
}

/// Says in words what is wrong with a stream, and ends lines without an end.
struct Checked<R> {
    inner: R,
    compression: Compression,
    line_bytes: usize,
}

impl<R> Checked<R> {
    fn new(inner: R, compression: Compression) -> Self {
        Checked { inner, compression, line_bytes: 0 }
    }

    fn error(&self, error: io::Error) -> io::Error {
        let name = self.compression.name();
        match error.kind() {
            // The operating system's own: the file can't be read.
            _ if error.raw_os_error().is_some() => error,
            io::ErrorKind::Interrupted => error,
            io::ErrorKind::UnexpectedEof => invalid(format!("the {name} stream ends too early")),
            _ => invalid(format!("the {name} stream is damaged: {error}")),
        }
    }
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer).map_err(|error| self.error(error))?;
        self.line_bytes = match buffer[..count].iter().rposition(|byte| *byte == b'\n') {
            Some(end) => count - end - 1,
            None => self.line_bytes + count,
        };
        if self.line_bytes > MOST_LINE_BYTES {
            return Err(invalid(format!("a line of more than {} MiB", MOST_LINE_BYTES >> 20)));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8], name: &str) -> Result<Vec<u8>, Failure> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let (mut text, position) = open(&path)?;
        let mut all = Vec::new();
        text.read_to_end(&mut all).map_err(|error| Failure::read(&path, error))?;
        assert_eq!(position.fraction(), if bytes.is_empty() { 0.0 } else { 1.0 });
        for offset in [0, all.len() / 2, all.len()] {
            let mut rest = Vec::new();
            open_at(&path, offset as u64).unwrap().read_to_end(&mut rest).unwrap();
            assert_eq!(rest, all[offset..], "from {offset}");
        }
        Ok(all)
    }

    #[test]
    fn first_bytes_tell_whether_text_is_compressed() {
        let text = b"a,b\n1,2\n".repeat(2_000);
        let two_members = [gzip(&text[..800]), gzip(&text[800..])].concat();
        let frames = [&text[..800], &text[800..]].map(|part| zstd::encode_all(part, 3).unwrap()).concat();
        for bytes in [&text, &gzip(&text), &two_members, &frames] {
            assert_eq!(read(bytes, "t.csv").unwrap(), text);
        }
        assert_eq!(read(&gzip(&text), "t.csv.zst").unwrap(), text);
        assert_eq!(read(b"", "t.csv").unwrap(), b"");
    }

    #[test]
    fn damaged_and_truncated_streams_are_told() {
        let text: Vec<u8> =
            (0..30_000u32).flat_map(|row| format!("{row},{}\n", row.wrapping_mul(7919)).into_bytes()).collect();
        for whole in [gzip(&text), zstd::encode_all(text.as_slice(), 3).unwrap()] {
            let mut flipped = whole.clone();
            flipped[whole.len() / 2] ^= 0x40;
            let trailing = [whole.as_slice(), b"and more"].concat();
            for bytes in [&whole[..whole.len() / 2], &whole[..whole.len() - 1], &flipped, &trailing] {
                match read(bytes, "t.csv.gz") {
                    Err(failure) => assert_eq!(failure.exit(), crate::exit::Exit::Corrupt, "{failure}"),
                    // Zstandard's command line leaves the checksum to its user: what was flipped may be a value.
                    Ok(read) => assert!(bytes == flipped.as_slice() && read != text),
                }
            }
        }
        for bytes in [&b"a,b\n"[..], b""] {
            assert!(read(bytes, "t.csv.gz").unwrap_err().to_string().contains("not gzip"));
        }
    }
}
