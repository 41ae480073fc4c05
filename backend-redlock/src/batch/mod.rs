//! Attempts and releases of many tasks, gathered into one script call per node.
//!
//! If a task finds no other task, it asks the nodes alone. A call that is not simple is also sent
//! alone: for a held lock, after split votes, or if nodes do not answer.

mod jobs;
mod reply;
mod round;

use std::{sync::Arc, time::Duration};

use backend_redis::batching::{BatchSink, Batcher, Queued};
use lock_core::{Attempt, Error, FencingToken, Grant, Mode, ReleaseOutcome, Request};
use tokio::sync::oneshot;

use self::jobs::ReleaseJob;
#[cfg(test)]
pub(crate) use self::reply::read;
pub(crate) use self::{
    jobs::{AttemptJob, Job},
    round::carry_out,
};
use crate::{
    protocol::grant_votes::GrantVotes,
    quorum::{nodes::Quorum, pushes::QueueEntry},
    steps::{acquire, free::take_back, release},
};

/// The calls that may share a batch.
pub(crate) type BatchQueue = Batcher<Job>;

impl BatchSink<Job> for Quorum {
    async fn carry(self: Arc<Self>, jobs: Vec<Queued<Job>>) {
        carry_out(&self, jobs.into_iter().filter_map(Queued::take).collect()).await;
    }
}

/// Whether `batch.lua` can make the attempt: a writer's without a floor.
fn is_plain(request: &Request) -> bool {
    request.floor == FencingToken::ZERO && request.mode == Mode::Exclusive
}

/// Makes an attempt. If `entry` is given, the attempt may join the queues.
pub(crate) async fn attempt(
    queue: &BatchQueue,
    quorum: &Arc<Quorum>,
    request: &Request,
    entry: Option<&QueueEntry>,
) -> Result<Attempt, Error> {
    let plain = entry.is_none() && is_plain(request);
    let alone = if plain { queue.alone() } else { None };
    if plain
        && alone.is_none()
        && let Some(grant) = gather_attempt(queue, quorum, request).await?
    {
        return Ok(Attempt::Granted(grant));
    }
    // No batch has made an attempt for a reader before.
    let first = alone.is_some() || request.mode == Mode::Shared && entry.is_none();
    acquire::attempt(quorum, request, entry, first).await
}

/// Releases a grant, or keeps it for a last while. Also returns the result of this process's next
/// attempt, which the script makes right after the release.
pub(crate) async fn release(
    queue: &BatchQueue,
    quorum: &Arc<Quorum>,
    grant: &Grant,
    keep: Option<Duration>,
    next: Option<&Request>,
) -> Result<(ReleaseOutcome, Option<Grant>), Error> {
    let held = GrantVotes::of(grant);
    let certain = held.as_ref().is_none_or(|held| held.release());
    let plain = certain && keep.is_none() && grant.mode == Mode::Exclusive;
    let next = next.filter(|next| is_plain(next));
    let alone = if plain && next.is_none() { queue.alone() } else { None };
    if plain
        && alone.is_none()
        && let Some(held) = held
    {
        return gather_release(queue, quorum, grant, held, next).await;
    }
    Ok((release::release(quorum, grant, keep).await?, None))
}

/// Makes an attempt in the next batch, without a queue entry. `None` if the attempt is not simple.
/// Then nothing is left of it, or soon nothing will be.
pub(crate) async fn gather_attempt(
    queue: &BatchQueue,
    quorum: &Arc<Quorum>,
    request: &Request,
) -> Result<Option<Grant>, Error> {
    let (answer, answered) = oneshot::channel();
    let job = Job::Attempt(AttemptJob { request: request.clone(), answer });
    let answer = async { answered.await.ok() };
    queue.call(quorum, job, quorum.options.timeout, answer).await
}

/// Releases in the next batch. The script then makes this process's next attempt for the same lock.
/// If others wait, that attempt fails as for a held lock.
pub(crate) async fn gather_release(
    queue: &BatchQueue,
    quorum: &Arc<Quorum>,
    grant: &Grant,
    held: Arc<GrantVotes>,
    next: Option<&Request>,
) -> Result<(ReleaseOutcome, Option<Grant>), Error> {
    let (answer, answered) = oneshot::channel();
    let release = ReleaseJob { grant: grant.clone(), held, answer };
    let (answer, mut granted) = oneshot::channel();
    let next = next.map(|next| AttemptJob { request: next.clone(), answer });
    let carries = next.is_some();
    let answers = async {
        let outcome = answered.await.ok()?;
        let granted = if carries { (&mut granted).await.ok()? } else { None };
        Some((outcome, granted))
    };
    let job = Job::Release(release, next);
    let (error, granted) = match queue.call(quorum, job, quorum.options.timeout, answers).await {
        Ok((Ok(outcome), granted)) => return Ok((outcome, granted)),
        Ok((Err(error), granted)) => (error, granted),
        Err(error) => {
            // From here on the batch itself takes back what it is granted.
            granted.close();
            (error, granted.try_recv().ok().flatten())
        }
    };
    // The caller repeats both calls with the same owner. This takes back only what the first try
    // got, not what the repeat gets.
    if let Some(granted) = granted {
        take_back(quorum, &granted);
    }
    Err(error)
}
