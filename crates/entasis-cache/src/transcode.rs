//! What queries read becomes blocks, in the background.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use crate::cache::Shared;
use crate::ledger::Holdings;
use crate::shelf::{Job, Shelf};
use crate::values::{Encoded, Values};

/// What a thread does that transcodes: one cell after the other, as long as queries leave it a core, until the cache is closed.
pub(crate) fn run(shared: &Arc<Shared>) {
    while let Some(job) = wait_for_job(shared) {
        // Also given back where encoding panics.
        let _working = Working(shared);
        transcode(shared, &job);
    }
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
    let array = match &job.values {
        Values::Arrow(array) => Ok(array.clone()),
        Values::Pages(pages) => pages.decode(),
        Values::Encoded(_) => return,
    };
    // Whatever the reason, an array that has no blocks, or smaller ones, stays what it is, and answers as before. What pages that
    // can't be decoded are about is for the next asker to say.
    let values = array.ok().map(|array| match Encoded::new(&array, &shared.encode) {
        Ok(encoded) if encoded.holdings().size_bytes() < Holdings::of_array(&array).size_bytes() => {
            Values::Encoded(Arc::new(encoded))
        }
        _ => Values::Arrow(array),
    });
    let elapsed = start.elapsed();
    shared.change(|shelf| shelf.finish_job(job, values, elapsed));
}

/// A thread that transcodes.
struct Working<'a>(&'a Shared);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.lock().transcoding -= 1;
        self.0.has_changed.notify_one();
    }
}
