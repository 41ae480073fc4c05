//! One waiting task in the local queue of a name.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::worker::QueueWorker;
use crate::{
    Blocked, Error, ErrorKind, LockName,
    client::{
        calls::release_in_background,
        state::{ClientState, FirstAttempt, Handle, Held, LocalQueue, Wanted},
    },
};

/// A waiting task. If this is dropped, it leaves the queue, and releases a lock that it was given but has not received.
pub(crate) struct LocalWaiter<'a> {
    state: &'a Arc<ClientState>,
    queue: Arc<LocalQueue>,
    id: u64,
    pub(crate) reply: oneshot::Receiver<Result<Arc<Held>, Error>>,
}

impl<'a> LocalWaiter<'a> {
    /// Joins the queue of `name`, and starts its worker if there is none. Until the store answers the worker, `blocked` is what
    /// blocks the lock.
    ///
    /// # Errors
    /// `Config` if the client is closed, or if there is no runtime.
    pub(crate) fn join(
        handle: &'a Arc<Handle>,
        name: &LockName,
        wanted: Wanted,
        blocked: Option<Blocked>,
        first: Option<FirstAttempt<'_>>,
    ) -> Result<Self, Error> {
        let joined = handle
            .queues(wanted.mode)
            .join(name, wanted, blocked, first, || handle.check_open())?;
        let queue = Arc::clone(&joined.queue);
        let waiter = Self { state: handle, queue, id: joined.id, reply: joined.reply };
        if joined.needs_worker {
            let worker = QueueWorker::new(Arc::clone(handle), joined.queue, wanted.mode);
            handle.env.spawn(Box::pin(worker.run())).map_err(|error| {
                Error::new(ErrorKind::Config, "waiting needs a tokio runtime").with_source(error)
            })?;
        }
        Ok(waiter)
    }

    /// What blocks the lock, as last reported by the store.
    pub(crate) fn blocked(&self) -> Option<Blocked> {
        self.queue.blocked()
    }
}

impl Drop for LocalWaiter<'_> {
    fn drop(&mut self) {
        self.queue.leave(self.id);
        // From here on, the worker cannot send a reply any more.
        self.reply.close();
        if let Ok(Ok(held)) = self.reply.try_recv() {
            held.set_unused();
            release_in_background(self.state, &held);
        }
    }
}
