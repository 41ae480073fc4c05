//! One waiting task in the local queue of a name.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::worker::QueueWorker;
use crate::{
    Blocked, Error, ErrorKind, LockName,
    client::{
        calls::release_in_background,
        state::{FirstAttempt, Handle, Held, Joined, LocalQueue, Place, Wanted},
    },
};

/// A waiting task. If this is dropped, it leaves the queue, and releases a lock that it was given
/// but has not received.
pub(crate) struct LocalWaiter<'a> {
    handle: &'a Arc<Handle>,
    wanted: Wanted,
    queue: Arc<LocalQueue>,
    id: u64,
    /// Whether the worker was started by this task, and runs on its runtime.
    started_worker: bool,
    pub(crate) reply: oneshot::Receiver<Result<Arc<Held>, Error>>,
}

impl<'a> LocalWaiter<'a> {
    /// Joins the queue of `name`, and starts its worker if there is none. Until the store answers
    /// the worker, `blocked` is what blocks the lock.
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
        let place = first.map_or(Place::Last, Place::First);
        let joined = handle
            .queues(wanted.mode)
            .join(name, wanted, blocked, place, || handle.check_open())?;
        let Joined { queue, id, reply, needs_worker } = joined;
        let waiter = Self { handle, wanted, queue, id, started_worker: needs_worker, reply };
        waiter.start_worker()?;
        Ok(waiter)
    }

    /// Joins the queue again, at the old position, after the end of its worker; `false` if the
    /// worker ran on this task's own runtime, which then has ended.
    ///
    /// # Errors
    /// As [`join`](Self::join).
    pub(crate) fn join_again(&mut self) -> Result<bool, Error> {
        if self.started_worker {
            return Ok(false);
        }
        let (handle, place) = (self.handle, Place::Again(self.id));
        let joined = handle.queues(self.wanted.mode).join(
            &self.queue.name,
            self.wanted,
            self.queue.blocked(),
            place,
            || handle.check_open(),
        )?;
        (self.queue, self.reply) = (joined.queue, joined.reply);
        self.started_worker = joined.needs_worker;
        self.start_worker()?;
        Ok(true)
    }

    fn start_worker(&self) -> Result<(), Error> {
        if !self.started_worker {
            return Ok(());
        }
        let queue = Arc::clone(&self.queue);
        let worker = QueueWorker::new(Arc::clone(self.handle), queue, self.wanted.mode);
        self.handle.env.spawn(Box::pin(worker.run())).map_err(|error| {
            Error::new(ErrorKind::Config, "waiting needs a tokio runtime").with_source(error)
        })
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
            release_in_background(self.handle, &held);
        }
    }
}
