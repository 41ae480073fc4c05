//! The calls in a batch.

use std::{sync::Arc, time::Duration};

use lock_core::{Error, Grant, ReleaseOutcome, Request};
use tokio::sync::oneshot;

use crate::protocol::grant_votes::GrantVotes;

pub(crate) struct AttemptJob {
    pub(crate) request: Request,
    /// `None` tells the caller to make the attempt alone.
    pub(crate) answer: oneshot::Sender<Option<Grant>>,
}

pub(crate) struct ReleaseJob {
    pub(super) grant: Grant,
    pub(super) held: Arc<GrantVotes>,
    pub(super) answer: oneshot::Sender<Result<ReleaseOutcome, Error>>,
}

pub(crate) enum Job {
    Attempt(AttemptJob),
    /// The next attempt of this process for the same lock, which the script makes right after the
    /// release.
    Release(ReleaseJob, Option<AttemptJob>),
}

/// Releases and attempts, in the order of the script's answers.
#[derive(Default)]
pub(super) struct Jobs {
    pub(super) releases: Vec<ReleaseJob>,
    pub(super) attempts: Vec<AttemptJob>,
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
        // A batch has one label. An attempt with another label (a second client on the same store)
        // is made alone.
        if let Some(first) = sorted.attempts.first() {
            let label = first.request.label.clone();
            let fits = |attempt: &AttemptJob| attempt.request.label == label;
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

/// Lets an attempt be made alone, unless its caller has gone.
pub(super) fn decline(attempt: AttemptJob) {
    attempt.answer.send(None).ok();
}
