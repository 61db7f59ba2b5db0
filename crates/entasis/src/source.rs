//! Sources: where the bytes of a file come from.
//!
//! A [`Reader`](crate::Reader) asks for byte ranges and is given bytes. Local files answer by positional reads or from
//! a mapping, [`Bytes`] from memory. [`Fetched`] holds what somebody fetched already and names what is missing, so that
//! asynchronous drivers run the same code as everybody else.

use std::{
    fs::File,
    ops::Range,
    path::Path,
    sync::{Arc, RwLock},
};

use bytes::Bytes;

use crate::error::{Error, Result};

/// Bytes that a local file yields in about the time of a request.
pub const REQUEST_BYTES: u64 = 16 * 1024;

/// Bytes that an object store sends in about the time that it takes to answer.
pub const STORE_REQUEST_BYTES: u64 = 1024 * 1024;

/// Bytes that can be read at any place, by several threads at once.
pub trait Source: Send + Sync {
    /// Length of the file.
    fn size_bytes(&self) -> u64;

    /// What errors call the file.
    fn name(&self) -> &str;

    /// The bytes of `range`; [`Error::Truncated`] if the file doesn't have them.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;

    /// What a request costs by itself, however little it asks for, told as the bytes that would come in that time:
    /// [`REQUEST_BYTES`] unless a source says otherwise. Smaller gaps between ranges are read along, and of blocks that
    /// are large in this measure single rows are read alone.
    fn request_bytes(&self) -> u64 {
        REQUEST_BYTES
    }

    /// The bytes of each of `ranges`, in their order. Ranges with gaps of up to [`Self::request_bytes`] are read together.
    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let runs = coalesce(ranges, self.request_bytes());
        let read = self.read_runs(&runs)?;
        Ok(ranges.iter().map(|range| cut(&runs, &read, range)).collect())
    }

    /// The bytes of each of `runs`, which ascend, aren't empty and lie apart: one after the other, unless a source can
    /// have several requests under way.
    fn read_runs(&self, runs: &[Range<u64>]) -> Result<Vec<Bytes>> {
        runs.iter().map(|run| self.read(run.clone())).collect()
    }
}

/// The fewest ranges that cover `ranges`, ascending, where gaps of up to `gap_bytes` are covered too.
pub fn coalesce(ranges: &[Range<u64>], gap_bytes: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_by_key(|range| range.start);
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match runs.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap_bytes) => last.end = last.end.max(range.end),
            _ => runs.push(range),
        }
    }
    runs
}

/// `range` out of the run that covers it; `read` holds the bytes of `runs`.
fn cut(runs: &[Range<u64>], read: &[Bytes], range: &Range<u64>) -> Bytes {
    if range.is_empty() {
        return Bytes::new();
    }
    let index = runs.partition_point(|run| run.end < range.end);
    let start = (range.start - runs[index].start) as usize;
    read[index].slice(start..start + (range.end - range.start) as usize)
}

/// Fails unless `range` lies within a file of `size_bytes`.
fn check(name: &str, range: &Range<u64>, size_bytes: u64) -> Result<()> {
    if range.start <= range.end && range.end <= size_bytes {
        return Ok(());
    }
    let what = format!("bytes {}..{} of a file of {size_bytes} bytes", range.start, range.end);
    Err(Error::Truncated { file: name.to_owned(), what })
}

/// A local file, read by position.
pub struct FileSource {
    #[cfg(unix)]
    file: File,
    #[cfg(not(unix))]
    file: std::sync::Mutex<File>,
    size_bytes: u64,
    name: String,
}

impl FileSource {
    /// Opens the file at `path`; its length is taken now.
    pub fn open(path: &Path) -> Result<Self> {
        let (file, size_bytes, name) = open(path)?;
        Ok(Self::of_file(file, size_bytes, name))
    }

    /// A file that is open already and has `size_bytes`; errors call it `name`.
    pub fn of_file(file: File, size_bytes: u64, name: String) -> Self {
        #[cfg(not(unix))]
        let file = std::sync::Mutex::new(file);
        Self { file, size_bytes, name }
    }

    /// Reads into memory that nobody zeroed first: blocks are large, and most of what reading them costs is memory.
    #[cfg(unix)]
    fn read_at(&self, offset: u64, size_bytes: usize) -> std::io::Result<Vec<u8>> {
        use rustix::{buffer::spare_capacity, io::Errno};
        let mut bytes = Vec::with_capacity(size_bytes);
        while bytes.len() < size_bytes {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // There may have been room for more.
        bytes.truncate(size_bytes);
        Ok(bytes)
    }

    #[cfg(not(unix))]
    fn read_at(&self, offset: u64, size_bytes: usize) -> std::io::Result<Vec<u8>> {
        use std::io::{Read, Seek, SeekFrom};
        let mut bytes = vec![0; size_bytes];
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

fn open(path: &Path) -> Result<(File, u64, String)> {
    let name = path.display().to_string();
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.map_err(|source| Error::io(name.clone(), source))?;
    if metadata.is_dir() {
        return Err(Error::InvalidArgument(format!("{name} is a folder")));
    }
    Ok((file, metadata.len(), name))
}

impl Source for FileSource {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        check(&self.name, &range, self.size_bytes)?;
        match self.read_at(range.start, (range.end - range.start) as usize) {
            Ok(bytes) => Ok(bytes.into()),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(Error::Truncated { file: self.name.clone(), what: "the file shrank while it was read".to_owned() })
            }
            Err(error) => Err(Error::io(self.name.clone(), error)),
        }
    }
}

/// Bytes in memory: a whole file, or a mapping of one.
pub struct BytesSource {
    bytes: Bytes,
    name: String,
}

impl BytesSource {
    /// A file that is already in memory; errors call it `name`.
    pub fn new(bytes: Bytes, name: impl Into<String>) -> Self {
        Self { bytes, name: name.into() }
    }

    /// Maps the file at `path`. Nothing is copied: blocks lend their bytes out of the mapping. A mapped file must not
    /// shrink while it is open, or the process is killed: for files of your own only, never for a server.
    pub fn map(path: &Path) -> Result<Self> {
        let (file, size_bytes, name) = open(path)?;
        if size_bytes == 0 {
            return Ok(Self::new(Bytes::new(), name));
        }
        // SAFETY: the mapping is read-only and private to `Bytes`. That nobody truncates or writes the file meanwhile
        // is the caller's promise, as the documentation says: finished files are replaced by rename, never written.
        #[allow(unsafe_code, reason = "mapping a file is unsafe by nature")]
        let mapped = unsafe { memmap2::Mmap::map(&file) };
        let mapped = mapped.map_err(|source| Error::io(name.clone(), source))?;
        Ok(Self::new(Bytes::from_owner(mapped), name))
    }
}

impl Source for BytesSource {
    fn size_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        check(&self.name, &range, self.size_bytes())?;
        Ok(self.bytes.slice(range.start as usize..range.end as usize))
    }

    /// Bytes that lie in memory are lent: there is nothing to be gained by asking for less.
    fn request_bytes(&self) -> u64 {
        u64::MAX
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        ranges.iter().map(|range| self.read(range.clone())).collect()
    }
}

/// The part of a file that somebody has fetched so far. Reading what isn't there fails with [`Error::Missing`], which
/// names every range that the call lacked; whoever drives the reader fetches them, adds them and calls again.
pub struct Fetched {
    size_bytes: u64,
    name: String,
    request_bytes: u64,
    /// Ascending, disjoint, by offset.
    runs: RwLock<std::collections::BTreeMap<u64, Bytes>>,
}

impl Fetched {
    /// Nothing yet of a file of `size_bytes` that errors call `name`, and from which fetching takes, by itself, as long as
    /// fetching `request_bytes` more: see [`Source::request_bytes`].
    pub fn new(size_bytes: u64, name: impl Into<String>, request_bytes: u64) -> Arc<Self> {
        Arc::new(Self { size_bytes, name: name.into(), request_bytes, runs: RwLock::default() })
    }

    /// Adds the bytes at `offset`.
    pub fn insert(&self, offset: u64, bytes: Bytes) {
        let mut runs = self.runs.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        match runs.get(&offset) {
            Some(present) if present.len() >= bytes.len() => {}
            _ => drop(runs.insert(offset, bytes)),
        }
    }

    /// Forgets everything. Bytes that were read stay with whoever read them.
    pub fn clear(&self) {
        self.runs.write().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    }

    fn find(&self, range: &Range<u64>) -> Option<Bytes> {
        let runs = self.runs.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Runs may overlap where ranges were fetched twice: look at a few that begin before.
        runs.range(..=range.start).rev().take(8).find_map(|(&offset, bytes)| {
            let start = (range.start - offset) as usize;
            let end = start + (range.end - range.start) as usize;
            (end <= bytes.len()).then(|| bytes.slice(start..end))
        })
    }
}

impl Source for Fetched {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        Ok(self.read_many(&[range])?.remove(0))
    }

    fn read_many(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let mut found = Vec::with_capacity(ranges.len());
        let mut missing = Vec::new();
        for range in ranges {
            check(&self.name, range, self.size_bytes)?;
            match self.find(range) {
                _ if range.is_empty() => found.push(Bytes::new()),
                Some(bytes) => found.push(bytes),
                None => missing.push(range.clone()),
            }
        }
        if missing.is_empty() { Ok(found) } else { Err(Error::Missing(missing)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Bytes {
        (0..300_000u32).map(|index| index as u8).collect::<Vec<_>>().into()
    }

    fn ranges() -> Vec<Range<u64>> {
        vec![200_000..200_010, 0..0, 5..9, 7..100, 60_000..60_001, 299_999..300_000, 5..9]
    }

    fn check_source(source: &dyn Source) {
        let expected = bytes();
        assert_eq!(source.size_bytes(), 300_000);
        let read = source.read_many(&ranges()).unwrap();
        for (range, read) in ranges().iter().zip(read) {
            assert_eq!(read, expected[range.start as usize..range.end as usize]);
            assert_eq!(source.read(range.clone()).unwrap(), read);
        }
        assert!(matches!(source.read(299_999..300_001), Err(Error::Truncated { .. })));
        assert!(matches!(source.read(u64::MAX - 1..u64::MAX), Err(Error::Truncated { .. })));
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = source.read(9..5);
        assert!(reversed.is_err());
    }

    #[test]
    fn every_source_gives_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, bytes()).unwrap();
        check_source(&FileSource::open(&path).unwrap());
        check_source(&BytesSource::map(&path).unwrap());
        check_source(&BytesSource::new(bytes(), "memory"));
        let fetched = Fetched::new(300_000, "fetched", 1);
        fetched.insert(0, bytes());
        check_source(&*fetched);
        assert!(matches!(FileSource::open(folder.path()), Err(Error::InvalidArgument(_))));
        assert!(matches!(FileSource::open(&folder.path().join("b")), Err(Error::Io { .. })));
    }

    #[test]
    fn near_ranges_become_one() {
        assert_eq!(coalesce(&ranges(), 0), [5..100, 60_000..60_001, 200_000..200_010, 299_999..300_000]);
        assert_eq!(coalesce(&ranges(), 65_536), [5..60_001, 200_000..200_010, 299_999..300_000]);
        assert_eq!(coalesce(&[], 1), []);
    }

    #[test]
    fn what_is_missing_is_named_all_at_once() {
        let fetched = Fetched::new(300_000, "fetched", 1);
        fetched.insert(50, bytes().slice(50..150));
        let Err(Error::Missing(missing)) = fetched.read_many(&[60..70, 10..20, 140..160]) else {
            panic!("these were never fetched");
        };
        assert_eq!(missing, [10..20, 140..160]);
        fetched.insert(10, bytes().slice(10..20));
        fetched.insert(140, bytes().slice(140..160));
        assert_eq!(fetched.read(140..160).unwrap(), bytes().slice(140..160));
        fetched.clear();
        assert!(fetched.read(10..20).is_err());
    }
}
