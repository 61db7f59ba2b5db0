//! What has to be finished though nobody asks for it at the moment.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

use datafusion::common::{DataFusionError, Result, runtime::SpawnedTask};

/// What a future yields, which goes on as a task of its own where it has to wait, for the store or for somebody else's cells: others may wait for
/// cells that are to come from here, and whoever asked for this needn't ask again before they have them. Giving it up ends the task.
pub(super) async fn on_its_own<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let mut future = Box::pin(future);
    match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
        Poll::Ready(done) => Ok(done),
        Poll::Pending => {
            SpawnedTask::spawn(future).await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))
        }
    }
}
