//! Long work, and Ctrl-C while it lasts.

use std::{
    any::Any,
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    process,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, ThreadId},
    time::{Duration, Instant},
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
pub struct Stop {
    has_gone: AtomicBool,
    /// Where the work is on the caller's own thread, and has to look for signals itself.
    lookout: Option<Lookout>,
}

/// What the caller's thread needs to look for signals in the midst of its work.
struct Lookout {
    thread: ThreadId,
    begin: Instant,
    /// Milliseconds after the beginning from which on Python is to be asked again.
    next: AtomicU64,
    raised: OnceLock<PyErr>,
}

impl Stop {
    fn looking_out() -> Self {
        let (thread, begin) = (thread::current().id(), Instant::now());
        let lookout = Lookout { thread, begin, next: AtomicU64::new(POLL.as_millis() as u64), raised: OnceLock::new() };
        Self { lookout: Some(lookout), ..Self::default() }
    }

    /// Fails if the caller has gone: to be asked between steps.
    pub fn check(&self) -> Result<()> {
        if let Some(lookout) = &self.lookout
            && lookout.sees_signal()
        {
            self.has_gone.store(true, Ordering::Relaxed);
        }
        if self.has_gone.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { Ok(()) }
    }
}

impl Lookout {
    /// Asks Python once a poll, and only on the caller's thread, whether a signal raises.
    fn sees_signal(&self) -> bool {
        let now = self.begin.elapsed().as_millis() as u64;
        if now < self.next.load(Ordering::Relaxed) || thread::current().id() != self.thread {
            return false;
        }
        self.next.store(now + POLL.as_millis() as u64, Ordering::Relaxed);
        match Python::try_attach(|py| py.check_signals()) {
            Some(Err(error)) => self.raised.set(error).is_ok(),
            Some(Ok(())) | None => false,
        }
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

/// Runs `work` without the interpreter's lock, on this thread: it finds code and memory in its caches, and whoever frees what it made is
/// who made it. Where it is more than [`FEW_VALUES`], [`Stop::check`] looks for signals, so that one that raises (Ctrl-C does) ends the call
/// after a poll and a step: steps have to be short and to wait for nothing.
pub fn run_in_steps<T: Send>(
    py: Python<'_>,
    values: u64,
    work: impl FnOnce(&Arc<Stop>) -> Result<T> + Send,
) -> PyResult<T> {
    if values <= FEW_VALUES {
        return py.detach(|| work(&Arc::default())).map_err(PyErr::from);
    }
    let stop = Arc::new(Stop::looking_out());
    let result = py.detach(|| work(&stop));
    match stop.lookout.as_ref().and_then(|lookout| lookout.raised.get()) {
        Some(error) => Err(error.clone_ref(py)),
        None => result.map_err(PyErr::from),
    }
}

/// Runs `work` without the interpreter's lock. Where it is more than [`FEW_VALUES`], it runs on a thread of its own while
/// this one looks for signals: one that raises (Ctrl-C does) ends the call within a poll, and the work after its step.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    values: u64,
    work: impl FnOnce(&Arc<Stop>) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    if values <= FEW_VALUES {
        return py.detach(|| work(&Arc::default())).map_err(PyErr::from);
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
                py.check_signals().inspect_err(|_| stop.has_gone.store(true, Ordering::Relaxed))?
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
