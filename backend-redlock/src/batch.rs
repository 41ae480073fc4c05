//! Plain attempts and releases of many tasks, gathered into one script call per node.
//!
//! A script costs a node several times what is done in it, and a round costs this process five calls.
//! So while one task's calls are on their way, others wait for the next batch instead of asking all nodes
//! each. A task alone waits for nobody. What is not plain (a lock that is held, votes that split, nodes
//! that do not answer) goes on by itself.

mod jobs;
mod round;

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use lock_core::{Error, ErrorKind, Grant, Outcome, Request};
use tokio::sync::{mpsc, oneshot};

use self::jobs::{Attempt, Job, Release};
use crate::{acquire::Held, quorum::Quorum};

/// Calls that go by themselves at a time.
const ALONE: usize = 1;
/// Batches on their way at a time: more than one, so that a distant node is not waited for twice.
const BATCHES: usize = 2;
/// A script holds the whole server up.
const MOST: usize = 100;

/// The calls that may go together.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    alone: AtomicUsize,
    jobs: Mutex<Option<mpsc::UnboundedSender<Job>>>,
}

/// The right to make calls of one's own.
#[derive(Debug)]
pub(crate) struct Alone<'a>(&'a AtomicUsize);

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gathering {
    /// The right to go alone, while few do.
    pub(crate) fn alone(&self) -> Option<Alone<'_>> {
        let alone = Alone(&self.alone);
        (self.alone.fetch_add(1, Ordering::Relaxed) < ALONE).then_some(alone)
    }

    fn join(&self, quorum: &Arc<Quorum>, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let job = match &*jobs {
            Some(sender) => match sender.send(job) {
                Ok(()) => return,
                // The runtime of the last task has ended.
                Err(unsent) => unsent.0,
            },
            None => job,
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        // The receiver is here: it cannot fail.
        sender.send(job).ok();
        tokio::spawn(run(Arc::downgrade(quorum), receiver));
        *jobs = Some(sender);
    }
}

fn ended<T>(_: T) -> Error {
    Error::new(ErrorKind::OutcomeUnknown, "the runtime of the call has ended")
}

impl Quorum {
    /// Makes an attempt without a place in the next batch; `None` where it is not plain and nothing is
    /// left of it, or soon will be.
    pub(crate) async fn gather_attempt(
        self: &Arc<Self>,
        request: &Request,
    ) -> Result<Option<Grant>, Error> {
        let (answer, answered) = oneshot::channel();
        let job = Job::Attempt(Attempt { request: request.clone(), answer });
        self.gathering.join(self, job);
        answered.await.map_err(ended)
    }

    /// Gives back in the next batch, and there makes an attempt of this process for the same lock right
    /// behind it, unless others wait: then it comes to nothing, as for a lock that is held.
    pub(crate) async fn gather_release(
        self: &Arc<Self>,
        grant: &Grant,
        held: Arc<Held>,
        next: Option<&Request>,
    ) -> Result<(Outcome, Option<Grant>), Error> {
        let (answer, answered) = oneshot::channel();
        let release = Release { grant: grant.clone(), held, answer };
        let (answer, granted) = oneshot::channel();
        let next = next.map(|next| Attempt { request: next.clone(), answer });
        let carries = next.is_some();
        self.gathering.join(self, Job::Release(release, next));
        let outcome = answered.await.map_err(ended)?;
        let granted = if carries { granted.await.map_err(ended)? } else { None };
        match (outcome, granted) {
            (Ok(outcome), granted) => Ok((outcome, granted)),
            (Err(error), Some(granted)) => {
                // The caller repeats both.
                for at in 0..self.peers.len() {
                    self.free_later(at, &granted);
                }
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }
}

/// Sends batches until the client is gone.
async fn run(quorum: Weak<Quorum>, mut jobs: mpsc::UnboundedReceiver<Job>) {
    let mut calls = FuturesUnordered::new();
    loop {
        let mut batch = Vec::new();
        tokio::select! {
            count = jobs.recv_many(&mut batch, MOST), if calls.len() < BATCHES => {
                let Some(quorum) = quorum.upgrade().filter(|_| count > 0) else { return };
                calls.push(async move { quorum.carry_out(batch).await });
            }
            Some(()) = calls.next() => {}
        }
    }
}
