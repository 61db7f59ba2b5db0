//! What the cache counts, as a snapshot and as events.

use std::fmt::Debug;
use std::time::Duration;

use crate::{CellId, ColumnId, State};

/// A look at the cache at one moment. Counters count from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// The most bytes that it may hold.
    pub budget_bytes: u64,
    /// Bytes that it holds, what is shared counted once.
    pub used_bytes: u64,
    /// Cells as pages of Parquet.
    pub pages_cells: usize,
    /// Bytes of those, each by itself: what cells of a column share counts for each.
    pub pages_bytes: u64,
    /// Cells as Arrow arrays.
    pub arrow_cells: usize,
    /// Bytes of those, each by itself.
    pub arrow_bytes: u64,
    /// Cells as blocks.
    pub encoded_cells: usize,
    /// Bytes of those.
    pub encoded_bytes: u64,
    /// Bytes of cells that are pinned.
    pub pinned_bytes: u64,
    /// Cells that wait to be transcoded.
    pub queued_cells: usize,
    /// Cells that somebody is decoding.
    pub filling_cells: usize,
    /// Askers that found their cell as pages, and decoded them.
    pub pages_hits: u64,
    /// Askers that found their cell as an array.
    pub arrow_hits: u64,
    /// Askers that found their cell as blocks.
    pub encoded_hits: u64,
    /// Askers that had to fetch or decode.
    pub misses: u64,
    /// Askers that waited for another one that did.
    pub waits: u64,
    /// Cells that were fetched or decoded.
    pub filled: u64,
    /// Cells that their askers gave up, by an error or by being cancelled.
    pub abandoned: u64,
    /// Of those, cells for which there was no room.
    pub rejected: u64,
    /// Cells that were transcoded.
    pub transcoded: u64,
    /// Bytes of those before.
    pub transcoded_from_bytes: u64,
    /// Bytes of those as blocks.
    pub transcoded_to_bytes: u64,
    /// Time that threads spent on that, in nanoseconds.
    pub transcoding_ns: u64,
    /// Cells that are arrays for good: their blocks would be larger, or there are none for their type.
    pub kept_as_arrow: u64,
    /// Cells that were dropped because their pages couldn't be decoded.
    pub undecodable: u64,
    /// Cells that weren't queued for transcoding because too many were.
    pub not_queued: u64,
    /// Cells that had to go.
    pub evicted: u64,
    /// Bytes of those.
    pub evicted_bytes: u64,
    /// Cells that were dropped with their version or object.
    pub invalidated: u64,
    /// Cells that had to go and wait to be written to disk.
    pub staged_cells: usize,
    /// Bytes of those, which are among those that the cache holds.
    pub staged_bytes: u64,
    /// The most bytes that files on disk may have; 0 without a disk.
    pub disk_limit_bytes: u64,
    /// Cells on disk; some of them are in memory as well.
    pub disk_cells: usize,
    /// Bytes that their names take in memory, which are among those that the cache holds.
    pub disk_names_bytes: u64,
    /// Bytes of the pages that cells have on disk.
    pub disk_used_bytes: u64,
    /// Bytes of the files, which have room for others and an index.
    pub disk_file_bytes: u64,
    /// Bytes of the index.
    pub disk_index_bytes: u64,
    /// Askers whose cell was read from disk.
    pub disk_hits: u64,
    /// Cells that were written to disk.
    pub written: u64,
    /// Bytes of the pages of those.
    pub written_bytes: u64,
    /// Cells that had to go as blocks and weren't written: too many waited, there was no room, or the system refused.
    pub not_written: u64,
    /// Cells that had to go from disk.
    pub disk_evicted: u64,
    /// Bytes of the pages of those.
    pub disk_evicted_bytes: u64,
    /// Cells that were damaged on disk, or gone, and were dropped.
    pub disk_damaged: u64,
    /// Files that the system didn't let be written, and files that were removed under the cache.
    pub disk_errors: u64,
}

/// What the cache holds of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnUse {
    /// The column.
    pub column: ColumnId,
    /// Cells as pages of Parquet.
    pub pages_cells: usize,
    /// Cells as Arrow arrays.
    pub arrow_cells: usize,
    /// Cells as blocks.
    pub encoded_cells: usize,
    /// Bytes in memory, each cell by itself.
    pub size_bytes: u64,
    /// Cells on disk.
    pub disk_cells: usize,
    /// Bytes of their pages.
    pub disk_bytes: u64,
}

impl ColumnUse {
    pub(crate) fn nothing_of(column: &ColumnId) -> Self {
        let column = column.clone();
        Self { column, pages_cells: 0, arrow_cells: 0, encoded_cells: 0, size_bytes: 0, disk_cells: 0, disk_bytes: 0 }
    }
}

/// Something that happened to a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It was asked for, and was there.
    Hit {
        /// The cell.
        cell: CellId,
        /// In this state.
        state: State,
    },
    /// It was asked for, and its asker is to fetch or decode it.
    Miss {
        /// The cell.
        cell: CellId,
    },
    /// It was asked for while somebody else does that.
    Wait {
        /// The cell.
        cell: CellId,
    },
    /// It was fetched or decoded, and came in.
    Filled {
        /// The cell.
        cell: CellId,
        /// Its bytes.
        size_bytes: u64,
    },
    /// It was fetched or decoded, and there was no room for it.
    Rejected {
        /// The cell.
        cell: CellId,
        /// Its bytes.
        size_bytes: u64,
    },
    /// Who was to decode it gave up.
    Abandoned {
        /// The cell.
        cell: CellId,
    },
    /// It became blocks.
    Transcoded {
        /// The cell.
        cell: CellId,
        /// Bytes before.
        from_bytes: u64,
        /// Bytes as blocks.
        to_bytes: u64,
        /// How long that took.
        elapsed: Duration,
    },
    /// It was encoded, and is an array for good: its blocks would be larger, or it has none.
    KeptAsArrow {
        /// The cell.
        cell: CellId,
    },
    /// It had to go.
    Evicted {
        /// The cell.
        cell: CellId,
        /// Its bytes.
        size_bytes: u64,
        /// The state that it was in.
        state: State,
    },
    /// It was dropped with its version or object.
    Invalidated {
        /// The cell.
        cell: CellId,
    },
    /// It was asked for and came back from disk, or was on its way there.
    Recalled {
        /// The cell.
        cell: CellId,
        /// Its bytes in memory.
        size_bytes: u64,
    },
    /// It was written to disk.
    Written {
        /// The cell.
        cell: CellId,
        /// Bytes of its pages.
        size_bytes: u64,
    },
    /// It had to go from disk.
    EvictedFromDisk {
        /// The cell.
        cell: CellId,
        /// Bytes of its pages.
        size_bytes: u64,
    },
    /// It was damaged on disk, or gone, and is forgotten there.
    DamagedOnDisk {
        /// The cell.
        cell: CellId,
    },
}

/// Is told what happens, after it happened, by the thread that did it and without any lock: it may ask the cache. Events of one cell may
/// come out of order where several threads are at it.
pub trait Observer: Debug + Send + Sync {
    /// Called for every event.
    fn observe(&self, event: &Event);
}
