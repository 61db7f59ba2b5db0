//! Cells go to disk, in the background.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::record::Record;
use super::{Folder, Reserved};
use crate::CellId;
use crate::cache::Shared;
use crate::shelf::Written;
use crate::values::Encoded;

/// If nothing is to be written for so long, the index is.
const QUIET: Duration = Duration::from_secs(2);

/// A cell to write.
pub(crate) struct Job {
    pub cell: CellId,
    pub values: Arc<Encoded>,
    pub serial: u64,
}

enum Task {
    Cell(Job),
    Index,
}

/// What the thread does that writes, until the cache is closed.
pub(crate) fn run(shared: &Shared, folder: &Folder) {
    while let Some(task) = wait_for_task(shared) {
        match task {
            Task::Cell(job) => write(shared, folder, &job),
            Task::Index => save(shared, folder),
        }
    }
}

/// `None` once the cache is closed.
fn wait_for_task(shared: &Shared) -> Option<Task> {
    let mut shelf = shared.lock();
    let mut is_quiet = false;
    loop {
        if shelf.is_closed {
            return None;
        }
        if shelf.index_is_due(is_quiet) {
            return Some(Task::Index);
        }
        if let Some(job) = shelf.next_write() {
            return Some(Task::Cell(job));
        }
        if shelf.index_is_due(true) {
            let waited = shared.has_writes.wait_timeout(shelf, QUIET).unwrap_or_else(PoisonError::into_inner);
            (shelf, is_quiet) = (waited.0, waited.1.timed_out());
        } else {
            shelf = shared.has_writes.wait(shelf).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Writes one cell that waits, on the calling thread; false if none does.
pub(crate) fn one(shared: &Shared, folder: &Folder) -> bool {
    let job = shared.change(|shelf| shelf.next_write());
    let is_there = job.is_some();
    if let Some(job) = job {
        write(shared, folder, &job);
    }
    is_there
}

/// Writes a cell, if it is to be there.
pub(crate) fn write(shared: &Shared, folder: &Folder, job: &Job) {
    // Whatever goes wrong, the query that made it necessary has its answer already, and the cell is decoded again.
    let written = try_write(shared, folder, job);
    shared.change(|shelf| shelf.finish_write(job, written));
}

fn try_write(shared: &Shared, folder: &Folder, job: &Job) -> Written {
    if folder.is_gone() {
        shared.change(|shelf| shelf.disk_is_gone());
        if folder.open_anew().is_err() {
            return Written::Failed(None);
        }
    }
    let Ok(record) = Record::new(&job.cell, &job.values) else { return Written::Refused };
    let reserved: Option<Reserved> = shared.change(|shelf| shelf.reserve_on_disk(&job.cell, record.size_bytes));
    let Some(reserved) = reserved else { return Written::Refused };
    match folder.write(&record, &reserved) {
        Ok(place) => Written::Done(reserved, place),
        Err(_) => Written::Failed(Some(reserved)),
    }
}

/// Writes the index, if it says something else than what is there. One thread at a time: none replaces a newer one, nor writes into
/// another's.
pub(crate) fn save(shared: &Shared, folder: &Folder) {
    let _saving = shared.saving.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(cells) = shared.change(|shelf| shelf.index()) else { return };
    let written = folder.write_index(&cells);
    shared.change(|shelf| shelf.finish_index(written.ok()));
}
