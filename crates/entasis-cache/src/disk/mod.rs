//! Cells on disk: what had to leave memory as blocks, under a limit of its own, and there again after a restart. Reading them back decodes
//! nothing. See *On disk* in `docs/cache.md`; the bytes are fixed by `spec/cache.md`.

mod folder;
mod index;
mod record;
mod space;
mod tier;
mod write;

use std::io;
use std::path::PathBuf;

pub(crate) use folder::Folder;
pub use tier::DISK_CELL_OVERHEAD_BYTES;
pub(crate) use tier::{Place, Reserved, Tier};
pub(crate) use write::{Job, one, run, save, write};

use crate::policy::PolicyKind;

/// Of the memory that the cache may hold, names of cells on disk take up to one part in so many, and cells that wait to be written another.
const MEMORY_SHARE: u64 = 16;

/// Where cells go that have to leave memory, and how many.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// A folder of its own, on a local disk; it is created if need be. One cache uses it at a time.
    pub folder: PathBuf,
    /// The most bytes that files in it may have, together and at any moment; at least 64 KiB.
    pub limit_bytes: u64,
    /// Who goes when there is no room: [`PolicyKind::ColumnPrefix`].
    pub policy: PolicyKind,
}

impl DiskOptions {
    /// A folder and a limit, and the default policy.
    pub fn new(folder: impl Into<PathBuf>, limit_bytes: u64) -> Self {
        Self { folder: folder.into(), limit_bytes, policy: PolicyKind::default() }
    }
}

/// Opens what is there. Names take no more than their part of `memory_bytes`.
pub(crate) fn open(options: &DiskOptions, memory_bytes: u64) -> io::Result<(Folder, Tier)> {
    let bounds = folder::Bounds::new(options.limit_bytes)?;
    let (folder, found) = Folder::open(&options.folder, bounds)?;
    let most_cells = usize::try_from(memory_bytes / MEMORY_SHARE / DISK_CELL_OVERHEAD_BYTES).unwrap_or(usize::MAX);
    Ok((folder, Tier::new(bounds, most_cells, options.policy.policy(), found)))
}

/// The most bytes of cells that may wait to be written.
pub(crate) fn most_waiting_bytes(memory_bytes: u64) -> u64 {
    memory_bytes / MEMORY_SHARE
}
