//! Plain attempts and releases of many tasks, gathered into one script call per node.
//!
//! What is not plain (a lock that is held, votes that split, nodes
//! that do not answer) goes on by itself.

pub(crate) mod jobs;
pub(crate) mod round;

use std::sync::Arc;

use backend_redis::room::{Carrier, Habit, Queued, Room};
use lock_core::{Error, Grant, Outcome, Request};
use tokio::sync::oneshot;

use self::jobs::{Attempt, Job, Release};
use crate::{held::Held, quorum::Quorum};

/// Each call is one to every node, so that only who finds nobody about goes alone.
pub(crate) const HABIT: Habit =
    Habit { batches: 2, alone_beside_batches: false, lets_others_in: true };

/// The calls that may go together.
pub(crate) type Gathering = Room<Job>;

impl Carrier<Job> for Quorum {
    async fn carry(self: Arc<Self>, jobs: Vec<Queued<Job>>) {
        self.carry_out(jobs.into_iter().filter_map(Queued::take).collect()).await;
    }
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
        let answer = async { answered.await.ok() };
        self.gathering.call(self, job, self.options.timeout, answer).await
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
        let (answer, mut granted) = oneshot::channel();
        let next = next.map(|next| Attempt { request: next.clone(), answer });
        let carries = next.is_some();
        let heard = async {
            let outcome = answered.await.ok()?;
            let granted = if carries { (&mut granted).await.ok()? } else { None };
            Some((outcome, granted))
        };
        let job = Job::Release(release, next);
        let (error, granted) =
            match self.gathering.call(self, job, self.options.timeout, heard).await {
                Ok((Ok(outcome), granted)) => return Ok((outcome, granted)),
                Ok((Err(error), granted)) => (error, granted),
                Err(error) => {
                    // From here on the batch takes back itself what it is granted.
                    granted.close();
                    (error, granted.try_recv().ok().flatten())
                }
            };
        // The caller repeats both, by the same owner: what it is given then is not meant.
        if let Some(granted) = granted {
            self.take_back(&granted);
        }
        Err(error)
    }
}
