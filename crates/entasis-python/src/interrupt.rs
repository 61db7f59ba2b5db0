//! Long work, and Ctrl-C while it lasts.

use std::{
    any::Any,
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use pyo3::{PyErr, PyResult, Python};

use crate::error::{Failure, Result};

/// How often Python is asked whether somebody wants to stop.
const POLL: Duration = Duration::from_millis(50);

/// Values that are decoded or looked for in less than a poll, unless they are very long: on the caller's own thread, for another would
/// find neither code nor memory in its caches.
const FEW_VALUES: u64 = 1 << 20;

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
    let job = {
        let stop = stop.clone();
        move || -> Box<dyn FnOnce()> {
            CURRENT.set(Some(stop.clone()));
            let result: std::result::Result<_, Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(|| work(&stop)));
            CURRENT.set(None);
            // A caller that has gone takes no result.
            Box::new(move || drop(sender.send(result)))
        }
    };
    hand_over(Box::new(job))?;
    loop {
        let received;
        (received, receiver) = py.detach(move || (receiver.recv_timeout(POLL), receiver));
        match received {
            Ok(Ok(result)) => return result.map_err(PyErr::from),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals().inspect_err(|_| stop.0.store(true, Ordering::Relaxed))?
            }
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::Stopped.into()),
        }
    }
}

/// Work for a thread, and what hands out its result.
type Job = Box<dyn FnOnce() -> Box<dyn FnOnce()> + Send>;

/// Threads that wait for work: memory that results had and that came back stays theirs, so that the next result finds it mapped.
static IDLE: Mutex<Idle> = Mutex::new(Idle { process: 0, threads: Vec::new() });

/// More threads don't wait.
const MOST_IDLE: usize = 4;

struct Idle {
    /// Whose threads they are: a process that was forked off has none of them.
    process: u32,
    threads: Vec<Sender<Job>>,
}

impl Idle {
    /// Calls `visit` with the threads of this process; not at all where that would have to wait, as it might for ever in a process that
    /// was forked off meanwhile.
    fn visit<R>(visit: impl FnOnce(&mut Vec<Sender<Job>>) -> Option<R>) -> Option<R> {
        let mut idle = IDLE.try_lock().ok()?;
        if idle.process != process::id() {
            *idle = Idle { process: process::id(), threads: Vec::new() };
        }
        visit(&mut idle.threads)
    }
}

/// Gives the job to a thread that waits for one, or to a new one.
fn hand_over(mut job: Job) -> std::io::Result<()> {
    while let Some(thread) = Idle::visit(Vec::pop) {
        match thread.send(job) {
            Ok(()) => return Ok(()),
            Err(unsent) => job = unsent.0,
        }
    }
    thread::Builder::new().name("entasis".to_owned()).spawn(move || work_from(job)).map(drop)
}

/// Works on the job, and on those that come while there is room among the threads that wait.
fn work_from(mut job: Job) {
    loop {
        let hand_out = job();
        let (sender, receiver) = mpsc::channel();
        // It waits before its caller can have more work.
        let waits = Idle::visit(|threads| (threads.len() < MOST_IDLE).then(|| threads.push(sender)));
        hand_out();
        match waits.and_then(|()| receiver.recv().ok()) {
            Some(next) => job = next,
            None => return,
        }
    }
}
