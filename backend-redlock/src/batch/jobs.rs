//! What goes into a batch, and its script's keys and arguments.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, Grant, Outcome, Request};
use tokio::sync::oneshot;

use crate::{
    acquire::{Held, millis, watermark},
    quorum::{Call, Quorum},
    scripts,
};

pub(super) struct Attempt {
    pub(super) request: Request,
    /// `None`: it is to go by itself.
    pub(super) answer: oneshot::Sender<Option<Grant>>,
}

pub(super) struct Release {
    pub(super) grant: Grant,
    pub(super) held: Arc<Held>,
    pub(super) answer: oneshot::Sender<Result<Outcome, Error>>,
}

pub(super) enum Job {
    Attempt(Attempt),
    /// With the next attempt of this process for the same lock, which is made right behind it.
    Release(Release, Option<Attempt>),
}

/// Releases and attempts, in the order of the script's answers.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) releases: Vec<Release>,
    pub(super) attempts: Vec<Attempt>,
}

impl Jobs {
    pub(super) fn sort(jobs: Vec<Job>) -> Self {
        let mut sorted = Self::default();
        for job in jobs {
            match job {
                Job::Release(release, next) => {
                    sorted.releases.push(release);
                    sorted.attempts.extend(next);
                }
                Job::Attempt(attempt) => sorted.attempts.push(attempt),
            }
        }
        // One label for all: who has another, as by a second client on the same store, goes by itself.
        if let Some(first) = sorted.attempts.first() {
            let label = first.request.label.clone();
            let fits = |attempt: &Attempt| attempt.request.label == label;
            let (fitting, others) = sorted.attempts.into_iter().partition(fits);
            sorted.attempts = fitting;
            others.into_iter().for_each(decline);
        }
        sorted
    }

    pub(super) fn len(&self) -> usize {
        self.releases.len() + self.attempts.len()
    }

    pub(super) fn longest_lease(&self) -> Duration {
        let released = self.releases.iter().map(|release| release.grant.lease);
        let wanted = self.attempts.iter().map(|attempt| attempt.request.lease);
        released.chain(wanted).max().unwrap_or_default()
    }
}

/// Sends an attempt its own way; whoever has gone wants nothing.
pub(super) fn decline(attempt: Attempt) {
    attempt.answer.send(None).ok();
}

impl Quorum {
    /// The call of a batch whose attempts have this number, at this clock of the nodes.
    pub(super) fn batch_call(
        &self,
        jobs: &Jobs,
        number: u64,
        clock: u64,
        limit: Duration,
    ) -> Arc<Call> {
        let node = &self.peers[0].node;
        let (releases, attempts) = (jobs.releases.len(), jobs.attempts.len());
        let mut keys = Vec::with_capacity(1 + 2 * releases + 4 * attempts);
        keys.push(node.epoch_key());
        let mut queues = Vec::with_capacity(releases);
        for release in &jobs.releases {
            let [lock, queue] = node.lock_and_queue(&release.grant.name);
            keys.push(lock);
            queues.push(queue);
        }
        keys.append(&mut queues);
        let (mut places, mut tombstones) = (Vec::new(), Vec::new());
        for Attempt { request, .. } in &jobs.attempts {
            let [_, lock, queue, place, tombstone] = node.keys(&request.name, request.owner);
            keys.push(lock);
            queues.push(queue);
            places.push(place);
            tombstones.push(tombstone);
        }
        keys.append(&mut queues);
        keys.append(&mut places);
        keys.append(&mut tombstones);

        let label = jobs.attempts.first().map(|attempt| attempt.request.label.to_string());
        let mut arguments = Vec::with_capacity(7 + releases + 3 * attempts);
        arguments.extend([
            self.options.bound_micros().to_string(),
            self.late(clock, limit).to_string(),
            clock.to_string(),
            number.to_string(),
            self.propose_many(clock, attempts as u64).to_string(),
            label.unwrap_or_default(),
            releases.to_string(),
        ]);
        arguments.extend(jobs.releases.iter().map(|release| release.grant.owner.to_string()));
        for Attempt { request, .. } in &jobs.attempts {
            let (owner, lease) = (request.owner.to_string(), millis(request.lease));
            arguments.extend([owner, lease, watermark(&request.name)]);
        }
        Arc::new(Call { script: &scripts::BATCH, in_epoch: true, keys, arguments })
    }
}
