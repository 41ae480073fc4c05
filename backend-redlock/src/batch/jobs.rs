//! What goes into a batch, and its script's keys and arguments.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, Grant, Outcome, Request};
use tokio::sync::oneshot;

use crate::{
    acquire::{millis, watermark},
    held::Held,
    quorum::{Call, Quorum},
    scripts,
};

pub(crate) struct Attempt {
    pub(crate) request: Request,
    /// `None`: it is to go by itself.
    pub(crate) answer: oneshot::Sender<Option<Grant>>,
}

pub(crate) struct Release {
    pub(super) grant: Grant,
    pub(super) held: Arc<Held>,
    pub(super) answer: oneshot::Sender<Result<Outcome, Error>>,
}

pub(crate) enum Job {
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
        let released = jobs.releases.iter().map(|release| &release.grant.name);
        let wanted = jobs.attempts.iter().map(|attempt| &attempt.request.name);
        let mut keys = Vec::with_capacity(1 + releases + attempts);
        keys.push(node.epoch_key());
        keys.extend(released.chain(wanted).map(|name| node.lock_key(name)));

        let first = jobs.attempts.first().map(|attempt| &attempt.request);
        let lease = first.map(|request| request.lease);
        let differs = |attempt: &Attempt| Some(attempt.request.lease) != lease;
        let one_lease = !jobs.attempts.iter().any(differs);
        let mut arguments = Vec::with_capacity(8 + releases + 3 * attempts);
        arguments.extend([
            self.options.bound_micros().to_string(),
            self.late(clock, limit).to_string(),
            clock.to_string(),
            number.to_string(),
            self.propose(clock).to_string(),
            first.map(|request| request.label.to_string()).unwrap_or_default(),
            releases.to_string(),
            lease.filter(|_| one_lease).map(millis).unwrap_or_default(),
        ]);
        arguments.extend(jobs.releases.iter().map(|release| release.grant.owner.to_string()));
        for Attempt { request, .. } in &jobs.attempts {
            arguments.extend([request.owner.to_string(), watermark(&request.name)]);
            if !one_lease {
                arguments.push(millis(request.lease));
            }
        }
        Arc::new(Call { script: &scripts::BATCH, in_epoch: true, keys, arguments })
    }
}
