//! Locks and threads. Those of the tests inside of this crate are shuttle's, whose scheduler tries out interleavings: they exist in its
//! executions only, so those tests of the bookkeeping are in `interleavings.rs`, and those that need real threads in `tests/`.

#[cfg(not(test))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};

#[cfg(test)]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard},
    thread,
};
