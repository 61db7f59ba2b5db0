//! The files: one of cells, one that says where they lie. Bytes are written and read by position, never mapped: a mapped file that shrinks
//! kills the process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use entasis::source::{FileSource, Source};
use entasis_encoding::digest;

use super::index::{Cells, read_index, write_index};
use super::record::{Record, read_cell};
use super::space::PAGE_BYTES;
use super::tier::{Place, Reserved};
use crate::CellId;
use crate::values::Encoded;

const CELLS: &str = "entasis-cache.cells";
const INDEX: &str = "entasis-cache.index";
/// An index that isn't complete.
const INDEX_BESIDE: &str = "entasis-cache.index.tmp";

/// What the file of cells begins with; the last byte is the version of the format.
const MAGIC: &[u8; 8] = b"ENTCELL\0";

/// The least limit: less holds nothing worth it.
const LEAST_BYTES: u64 = 64 * 1024;

/// What the files may be, so that together they never exceed a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Bytes of all files.
    pub limit_bytes: u64,
    /// The page after the last of the file of cells.
    pub end_page: u32,
    /// Bytes of an index. There are two while one is replaced.
    pub index_bytes: u64,
}

impl Bounds {
    pub fn new(limit_bytes: u64) -> io::Result<Self> {
        if limit_bytes < LEAST_BYTES {
            let what = format!("a cache on disk has at least {LEAST_BYTES} bytes, not {limit_bytes}");
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        let index_bytes = (limit_bytes / 64).max(PAGE_BYTES);
        let pages = (limit_bytes - 2 * index_bytes) / PAGE_BYTES;
        Ok(Self { limit_bytes, end_page: u32::try_from(pages).unwrap_or(u32::MAX), index_bytes })
    }

    fn cells_bytes(self) -> u64 {
        u64::from(self.end_page) * PAGE_BYTES
    }
}

/// A folder with the files, locked for this process.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    bounds: Bounds,
    files: Mutex<Arc<Files>>,
}

/// The file of cells, open.
#[derive(Debug)]
struct Files {
    file: File,
    reading: Reading,
    /// Tells it from every other, so that no index of another one is taken for its own.
    identity: [u8; 16],
}

struct Reading(FileSource);

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl Folder {
    /// Opens the folder, which is created if need be, and yields what its index says.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if another process, or another cache of this one, uses it; what the system says.
    pub fn open(path: &Path, bounds: Bounds) -> io::Result<(Self, Cells)> {
        let files = Files::open(path, bounds)?;
        let mut cells = read_small(&path.join(INDEX), bounds.index_bytes)
            .and_then(|bytes| read_index(&bytes, &files.identity))
            .unwrap_or_default();
        let file_bytes = files.file.metadata()?.len();
        cells.retain(|(_, place)| place.ends_before(file_bytes));
        let files = Mutex::new(Arc::new(files));
        Ok((Self { path: path.to_owned(), bounds, files }, cells))
    }

    fn files(&self) -> Arc<Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether somebody removed the file of cells.
    pub fn is_gone(&self) -> bool {
        self.files().is_gone()
    }

    /// Makes a new file of cells in the place of one that is gone.
    pub fn open_anew(&self) -> io::Result<()> {
        let files = Arc::new(Files::open(&self.path, self.bounds)?);
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = files;
        Ok(())
    }

    /// The cell at a place; `None` if it isn't there, or is damaged.
    pub fn read(&self, cell: &CellId, place: &Place) -> Option<Encoded> {
        let files = self.files();
        let read = |range: Range<u64>| files.read(place, range);
        let head = read(0..u64::from(place.head_bytes)).filter(|head| digest(head) == place.head_digest)?;
        read_cell(cell, &head, place.size_bytes, read)
    }

    /// Writes a cell to the pages that are reserved for it.
    pub(super) fn write(&self, record: &Record, reserved: &Reserved) -> io::Result<Place> {
        let place = Place {
            runs: reserved.runs.clone(),
            size_bytes: record.size_bytes,
            head_bytes: record.head.len() as u32,
            head_digest: digest(&record.head),
        };
        let files = self.files();
        let head = (0, record.head.as_slice());
        for (start, bytes) in [head].into_iter().chain(record.parts.iter().map(|(start, part)| (*start, &part[..]))) {
            let mut rest = bytes;
            for piece in place.pieces(start..start + bytes.len() as u64) {
                let (now, later) = rest.split_at((piece.end - piece.start) as usize);
                write_at(&files.file, now, piece.start)?;
                rest = later;
            }
        }
        Ok(place)
    }

    /// Replaces the index. Returns its bytes. Nothing is synced: what a crash of the system damages is found to be damaged.
    pub fn write_index(&self, cells: &[(CellId, Arc<Place>)]) -> io::Result<u64> {
        let files = self.files();
        if files.is_gone() {
            return Err(ErrorKind::NotFound.into());
        }
        let bytes = write_index(&files.identity, cells, self.bounds.index_bytes);
        let beside = self.path.join(INDEX_BESIDE);
        let written = write_private(&beside, &bytes).and_then(|()| fs::rename(&beside, self.path.join(INDEX)));
        if written.is_err() {
            // There is nobody to tell: the error that led here is more important.
            let _ = fs::remove_file(&beside);
        }
        written.map(|()| bytes.len() as u64)
    }
}

impl Files {
    /// Opens or makes the file of cells, locks it, cuts it to what it may be, and cleans the folder up.
    fn open(path: &Path, bounds: Bounds) -> io::Result<Self> {
        create_folder(path)?;
        let cells = path.join(CELLS);
        let (mut file, mut attempts) = (private().read(true).write(true).create(true).open(&cells)?, 0);
        loop {
            file.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => {
                    let what = format!("the cache on disk in {} is in use by another process", path.display());
                    io::Error::new(ErrorKind::WouldBlock, what)
                }
                TryLockError::Error(error) => error,
            })?;
            // Removed between being opened and being locked: what is locked is nobody's.
            if link_count(&file)? > 0 {
                break;
            }
            attempts += 1;
            if attempts > 10 {
                return Err(ErrorKind::NotFound.into());
            }
            file = private().read(true).write(true).create(true).open(&cells)?;
        }
        // What a process left that was killed.
        remove(&path.join(INDEX_BESIDE))?;
        if fs::metadata(path.join(INDEX)).is_ok_and(|index| index.len() > bounds.index_bytes) {
            remove(&path.join(INDEX))?;
        }
        if file.metadata()?.len() > bounds.cells_bytes() {
            file.set_len(bounds.cells_bytes())?;
        }
        let source = FileSource::of_file(file.try_clone()?, bounds.cells_bytes(), cells.display().to_string());
        let known = source.read(0..24).ok().and_then(|head| {
            let identity = head.strip_prefix(MAGIC)?.first_chunk::<16>().copied()?;
            (head.len() == 24).then_some(identity)
        });
        let identity = match known {
            Some(identity) => identity,
            None => {
                let identity = random_identity();
                file.set_len(0)?;
                write_at(&file, &[MAGIC.as_slice(), &identity].concat(), 0)?;
                identity
            }
        };
        Ok(Self { file, reading: Reading(source), identity })
    }

    /// Whether somebody removed it.
    fn is_gone(&self) -> bool {
        !link_count(&self.file).is_ok_and(|count| count > 0)
    }

    /// Bytes of a cell.
    fn read(&self, place: &Place, range: Range<u64>) -> Option<Bytes> {
        let size_bytes = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
        let pieces = place.pieces(range);
        if let [piece] = &pieces[..] {
            return self.reading.0.read(piece.clone()).ok();
        }
        let mut bytes = Vec::new();
        // As much as is written there, if it is: not what damaged bytes say.
        for piece in pieces {
            let read = self.reading.0.read(piece).ok()?;
            bytes.reserve_exact(read.len());
            bytes.extend_from_slice(&read);
        }
        (bytes.len() == size_bytes).then(|| bytes.into_boxed_slice().into())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // Closing isn't enough: a process that is just being started may have the file for a moment.
        let _ = self.file.unlock();
    }
}

/// A small file; `None` if it isn't there or is larger than it may be.
fn read_small(path: &Path, most_bytes: u64) -> Option<Vec<u8>> {
    let is_small = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= most_bytes);
    if is_small { fs::read(path).ok() } else { None }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = private().write(true).create(true).truncate(true).open(path)?;
    write_at(&file, bytes, 0)
}

fn random_identity() -> [u8; 16] {
    // The standard library's hashers are seeded at random.
    let numbers = [0, 1].map(|number| RandomState::new().hash_one((number, std::process::id())).to_le_bytes());
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&numbers[0]);
    identity[8..].copy_from_slice(&numbers[1]);
    identity
}

/// What was read with somebody's rights is for nobody else to read.
#[cfg(unix)]
fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(unix)]
fn create_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(unix)]
fn link_count(file: &File) -> io::Result<u64> {
    Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?))
}

#[cfg(not(unix))]
fn private() -> OpenOptions {
    OpenOptions::new()
}

/// Elsewhere there is no cache on disk yet.
#[cfg(not(unix))]
fn create_folder(_path: &Path) -> io::Result<()> {
    Err(io::Error::new(ErrorKind::Unsupported, "a cache on disk needs a Unix system"))
}

#[cfg(not(unix))]
fn write_at(_file: &File, _bytes: &[u8], _offset: u64) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn link_count(_file: &File) -> io::Result<u64> {
    Err(ErrorKind::Unsupported.into())
}
