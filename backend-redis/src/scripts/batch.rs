//! The keys and arguments of `batch.lua`: simple releases and attempts of many tasks.

use std::time::Duration;

use lock_core::{OwnerId, OwnerLabel, whole_millis as millis};

use super::arguments::{Arguments, declared};

/// A release or an attempt in its simplest form.
pub(crate) struct Plain {
    pub(crate) owner: OwnerId,
    pub(crate) lock: String,
    pub(crate) queue: String,
    /// What an attempt needs besides; `None` for a release.
    pub(crate) attempt: Option<PlainAttempt>,
}

pub(crate) struct PlainAttempt {
    pub(crate) tombstone: String,
    pub(crate) lease: Duration,
    pub(crate) label: OwnerLabel,
}

/// The keys and arguments of `batch.lua`. The script answers the releases first, and then the
/// attempts. All attempts have one label.
pub(crate) struct Batch<'a> {
    releases: Vec<&'a Plain>,
    attempts: Vec<(&'a Plain, &'a PlainAttempt)>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(jobs: impl Iterator<Item = &'a Plain>) -> Self {
        let (mut releases, mut attempts) = (Vec::new(), Vec::new());
        for job in jobs {
            match &job.attempt {
                Some(wanted) => attempts.push((job, wanted)),
                None => releases.push(job),
            }
        }
        Self { releases, attempts }
    }

    pub(crate) fn keys(&self, epoch: String) -> Vec<String> {
        let attempts = || self.attempts.iter().map(|(job, _)| job);
        let mut keys = Vec::with_capacity(1 + 2 * self.releases.len() + 3 * self.attempts.len());
        keys.push(epoch);
        keys.extend(self.releases.iter().map(|job| job.lock.clone()));
        keys.extend(self.releases.iter().map(|job| job.queue.clone()));
        keys.extend(attempts().map(|job| job.lock.clone()));
        keys.extend(attempts().map(|job| job.queue.clone()));
        keys.extend(self.attempts.iter().map(|(_, wanted)| wanted.tombstone.clone()));
        keys
    }

    pub(crate) fn arguments(&self) -> Arguments {
        declared!("batch.lua": releases label; owners);
        let count = 2 + self.releases.len() + 2 * self.attempts.len();
        let mut arguments = Arguments::with_room(count, 32 * count + 64);
        arguments.add(self.releases.len());
        arguments.add(self.attempts.first().map_or("", |(_, wanted)| wanted.label.as_str()));
        for job in &self.releases {
            arguments.add(job.owner);
        }
        for (job, wanted) in &self.attempts {
            arguments.add(job.owner).add(millis(wanted.lease));
        }
        arguments
    }
}
