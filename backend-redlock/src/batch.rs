//! Plain attempts and releases of many tasks, gathered into one script call per node.
//!
//! What is not plain (a lock that is held, votes that split, nodes
//! that do not answer) goes on by itself.

mod jobs;
pub(crate) mod round;

use std::sync::Arc;

use backend_redis::room::{Carrier, Habit, Room};
use lock_core::{Error, ErrorKind, Grant, Outcome, Request};
use tokio::sync::oneshot;

use self::jobs::{Attempt, Job, Release};
use crate::{held::Held, quorum::Quorum};

/// Each call is one to every node, so that only who finds nobody about goes alone.
pub(crate) const HABIT: Habit =
    Habit { batches: 2, alone_beside_batches: false, lets_others_in: true };

/// The calls that may go together.
pub(crate) type Gathering = Room<Job>;

impl Carrier<Job> for Quorum {
    async fn carry(self: Arc<Self>, jobs: Vec<Job>) {
        self.carry_out(jobs).await;
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
                // The caller repeats both, by the same owner: what it is given then is not meant.
                self.take_back(&granted);
                Err(error)
            }
            (Err(error), None) => Err(error),
        }
    }
}
