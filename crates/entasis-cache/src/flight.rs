//! One asker decodes, the others wait for it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::Cell;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::values::Values;

/// A cell that is being decoded.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    progress: Mutex<Progress>,
    has_ended: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    /// Once it has ended: the values, unless it was given up.
    outcome: Option<Option<Values>>,
    wakers: HashMap<u64, Waker>,
    next_waiter: u64,
}

impl Flight {
    /// Ends it, with values or without, and wakes all who wait. What came first counts.
    pub fn end(&self, values: Option<Values>) {
        let mut progress = self.progress();
        progress.outcome.get_or_insert(values);
        let wakers = std::mem::take(&mut progress.wakers);
        drop(progress);
        self.has_ended.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for whoever decodes a cell: as a future, or by [`Waiter::wait`]. Dropping it ends the waiting and nothing else.
///
/// Both yield the cell, or `None` if the other gave up: then ask again. Who holds a [`Fill`](crate::Fill) must not wait for one of
/// its own cells, nor for any cell of somebody who may wait for its own: complete or drop all fills first.
#[derive(Debug)]
pub struct Waiter {
    flight: Arc<Flight>,
    number: Option<u64>,
}

impl Waiter {
    pub(crate) fn new(flight: Arc<Flight>) -> Self {
        Self { flight, number: None }
    }

    /// Blocks the thread until the other is done.
    pub fn wait(self) -> Option<Cell> {
        let progress = self.flight.progress();
        let progress = self.flight.has_ended.wait_while(progress, |progress| progress.outcome.is_none());
        let outcome = progress.unwrap_or_else(PoisonError::into_inner).outcome.clone();
        outcome.flatten().map(Cell::new)
    }
}

impl Future for Waiter {
    type Output = Option<Cell>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let flight = self.flight.clone();
        let mut progress = flight.progress();
        if let Some(outcome) = &progress.outcome {
            return Poll::Ready(outcome.clone().map(Cell::new));
        }
        let number = *self.number.get_or_insert(progress.next_waiter);
        progress.next_waiter = progress.next_waiter.max(number + 1);
        progress.wakers.insert(number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.flight.progress().wakers.remove(&number);
        }
    }
}
