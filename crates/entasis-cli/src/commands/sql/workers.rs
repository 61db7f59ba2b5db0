//! The threads that answer, and the one that waits for them.

use std::future::Future;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::task::JoinHandle;

use crate::exit::Failure;

/// As on the main thread: SQL may be deep.
const STACK_BYTES: usize = 8 << 20;

/// Threads that compute. Who waits for them, and hears Ctrl-C meanwhile, does so on a thread of its own, for they may all be busy; and doesn't wait for
/// them at the end, for they may still compute what was given up.
pub struct Workers {
    /// Nothing once they are dropped.
    computing: Option<Runtime>,
    waiting: Runtime,
}

impl Workers {
    /// So many threads.
    pub fn new(threads: usize) -> Result<Self, Failure> {
        let mut computing = Builder::new_multi_thread();
        let computing = computing.worker_threads(threads).thread_stack_size(STACK_BYTES).enable_all().build()?;
        let waiting = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { computing: Some(computing), waiting })
    }

    /// Has a future computed.
    pub fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.computing().spawn(future)
    }

    /// What is called as long as the guard lives may have futures computed.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.computing().enter()
    }

    /// Waits, on this thread, for what others compute.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.waiting.block_on(future)
    }

    fn computing(&self) -> &Runtime {
        self.computing.as_ref().unwrap_or_else(|| unreachable!("it is there until it is dropped"))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(computing) = self.computing.take() {
            computing.shutdown_background();
        }
    }
}
