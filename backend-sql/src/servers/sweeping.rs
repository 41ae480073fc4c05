//! The sweep: deletes rows that are needed no more, in the background, so that no call waits for
//! it.

use std::time::Duration;

use lock_core::{Error, Mutex};
use tokio::{task::JoinHandle, time::timeout};

/// The sweep of a client, of which one runs at a time.
#[derive(Debug, Default)]
pub(crate) struct Sweeping(Mutex<Option<JoinHandle<()>>>);

impl Sweeping {
    /// Starts a sweep, unless one is still running.
    pub(crate) fn begin(&self, sweep: impl Future<Output = Result<(), Error>> + Send + 'static) {
        let mut running = self.0.lock();
        if running.as_ref().is_some_and(|sweep| !sweep.is_finished()) {
            return;
        }
        *running = Some(tokio::spawn(async move {
            if let Err(error) = sweep.await {
                tracing::trace!(target: "leasehold", %error, "sweep failed; a later one will do its work");
            }
        }));
    }

    /// Waits for the sweep that is running. A process that releases one lock and ends may have
    /// begun one.
    pub(crate) async fn end(&self, limit: Duration) {
        let running = self.0.lock().take();
        if let Some(sweep) = running {
            let abort = sweep.abort_handle();
            if timeout(limit, sweep).await.is_err() {
                abort.abort();
            }
        }
    }
}
