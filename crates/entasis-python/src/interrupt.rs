//! Long work, and Ctrl-C while it lasts.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use pyo3::{PyErr, PyResult, Python};

use crate::error::{Failure, Result};

/// How often Python is asked whether somebody wants to stop.
const POLL: Duration = Duration::from_millis(50);

/// Values that are decoded or looked for in less than a few polls, whatever they are.
const FEW_VALUES: u64 = 65_536;

/// Whether the caller has gone.
#[derive(Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Fails if the caller has gone: to be asked between steps.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { Ok(()) }
    }
}

thread_local! {
    /// Of the work that this thread does.
    static CURRENT: RefCell<Option<Arc<Stop>>> = const { RefCell::new(None) };
}

/// Whether the caller of the work that this thread does has gone: what belongs to it should be left alone then.
pub fn is_stopped() -> bool {
    CURRENT.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.check().is_err()))
}

/// Runs `work` without the interpreter's lock. Where it is more than [`FEW_VALUES`], it runs on a thread of its own while
/// this one looks for signals: one that raises (Ctrl-C does) ends the call within a poll, and the work after its step.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    values: u64,
    work: impl FnOnce(&Stop) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    if values <= FEW_VALUES {
        return py.detach(|| work(&Stop::default())).map_err(PyErr::from);
    }
    let stop = Arc::new(Stop::default());
    let (sender, mut receiver) = mpsc::sync_channel(1);
    let worker = {
        let stop = stop.clone();
        move || {
            CURRENT.set(Some(stop.clone()));
            // A caller that has gone takes no result.
            drop(sender.send(work(&stop)));
        }
    };
    let worker = thread::Builder::new().name("entasis".to_owned()).spawn(worker)?;
    loop {
        let received;
        (received, receiver) = py.detach(move || (receiver.recv_timeout(POLL), receiver));
        match received {
            Ok(result) => return result.map_err(PyErr::from),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals().inspect_err(|_| stop.0.store(true, Ordering::Relaxed))?
            }
            // It is gone without a result: it panicked.
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => return Err(Failure::Stopped.into()),
            },
        }
    }
}
