//! What queries read becomes blocks, in the background.

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::cache::Shared;
use crate::ledger::Holdings;
use crate::shelf::{Job, Shelf};
use crate::values::{Encoded, Values};

/// What a thread does that transcodes: one cell after the other, as long as queries leave it a core, until the cache is closed.
pub(crate) fn run(shared: &Arc<Shared>) {
    stand_back();
    while let Some(job) = wait_for_job(shared) {
        // Also given back where encoding panics.
        let _working = Working(shared);
        transcode(shared, &job);
    }
}

/// Lets every other thread that can run go first, also those that the cache doesn't see: an engine's aggregates, other programs. Elsewhere
/// than on Linux that would be about all threads of the process; a thread that may not stays as it is.
fn stand_back() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Transcodes one cell on the calling thread; false if none waits.
pub(crate) fn one(shared: &Arc<Shared>) -> bool {
    let job = shared.lock().next_job();
    let is_there = job.is_some();
    if let Some(job) = job {
        transcode(shared, &job);
    }
    is_there
}

/// `None` once the cache is closed.
fn wait_for_job(shared: &Shared) -> Option<Job> {
    let mut shelf = shared.lock();
    loop {
        if shelf.is_closed {
            return None;
        }
        if may_work(&shelf, shared.cores)
            && let Some(job) = shelf.next_job()
        {
            shelf.transcoding += 1;
            return Some(job);
        }
        shelf = shared.has_changed.wait(shelf).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Whether queries leave a core.
fn may_work(shelf: &Shelf, cores: usize) -> bool {
    shelf.inside + shelf.transcoding < cores
}

fn transcode(shared: &Shared, job: &Job) {
    let start = Instant::now();
    let values = unless_it_panics(|| made_of(shared, &job.values));
    let elapsed = start.elapsed();
    shared.change(|shelf| shelf.finish_job(job, values, elapsed));
}

/// What a cell becomes; `None` if it can't be decoded, which is for the next asker to say.
fn made_of(shared: &Shared, values: &Values) -> Option<Values> {
    let array = match values {
        Values::Arrow(array) => array.clone(),
        Values::Pages(pages) => pages.decode().ok()?,
        Values::Encoded(_) => return Some(values.clone()),
    };
    // Whatever the reason, an array that has no blocks, or smaller ones, stays what it is, and answers as before.
    Some(match Encoded::new(&array, &shared.encode) {
        Ok(encoded) if encoded.holdings().size_bytes() < Holdings::of_array(&array).size_bytes() => {
            Values::Encoded(Arc::new(encoded))
        }
        _ => Values::Arrow(array),
    })
}

/// What `work` yields; `None` if it panics, as decoders do over bytes that nobody thought of. The thread has other cells to see to.
fn unless_it_panics<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    panic::catch_unwind(AssertUnwindSafe(work)).ok().flatten()
}

/// A thread that transcodes.
struct Working<'a>(&'a Shared);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.lock().transcoding -= 1;
        self.0.has_changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_cell_that_cannot_be_decoded() {
        assert_eq!(unless_it_panics(|| Some(1)), Some(1));
        assert_eq!(unless_it_panics(|| None::<i32>), None);
        assert_eq!(unless_it_panics(|| -> Option<i32> { panic!("bytes that nobody thought of") }), None);
    }
}
