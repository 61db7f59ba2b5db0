//! Ctrl-C, while a statement is planned, carried out and printed.

use std::future::{Future, pending, poll_fn};
use std::panic::resume_unwind;
use std::task::Poll;

use datafusion::common::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::task::JoinError;

use super::errors::{failure, stopped};
use super::workers::Workers;
use crate::exit::Failure;

/// Whether somebody has pressed Ctrl-C since this was made.
#[derive(Clone)]
pub struct Interrupt(Shared<BoxFuture<'static, ()>>);

impl Interrupt {
    /// Listens from now on.
    pub fn listen(workers: &Workers) -> Self {
        let pressed = async {
            if tokio::signal::ctrl_c().await.is_err() {
                // Nobody will ever tell.
                pending::<()>().await;
            }
        };
        let pressed = pressed.boxed().shared();
        let mut listening = pressed.clone();
        // Once it was polled, it hears what is pressed while nobody polls.
        workers.wait(poll_fn(|context| {
            let _ = listening.poll_unpin(context);
            Poll::Ready(())
        }));
        Self(pressed)
    }

    /// What a future yields that only waits, or that it was given up.
    pub fn unless_pressed<T>(&self, workers: &Workers, future: impl Future<Output = T>) -> Result<T, Failure> {
        workers.wait(async {
            tokio::select! {
                biased;
                () = self.0.clone() => Err(stopped()),
                found = future => Ok(found),
            }
        })
    }

    /// What a future yields that computes, as a task of its own, or that it was given up: at once, whatever it is just doing. It ends where it next
    /// lets others run.
    pub fn unless_stopped<T: Send + 'static>(
        &self,
        workers: &Workers,
        future: impl Future<Output = Result<T, DataFusionError>> + Send + 'static,
    ) -> Result<T, Failure> {
        let mut task = workers.spawn(future);
        match self.unless_pressed(workers, &mut task) {
            Ok(done) => done.map_err(broken)?.map_err(|error| failure(&error)),
            Err(stopped) => {
                task.abort();
                Err(stopped)
            }
        }
    }
}

/// A task that wasn't given up and yields nothing has panicked: so does who waits for it.
pub fn broken(error: JoinError) -> Failure {
    match error.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => stopped(),
    }
}
