//! Plain attempts and releases of many tasks, gathered into one script call.

use std::sync::Arc;

use lock_core::{Error, Grant, OwnerId, OwnerLabel, Request};
use tokio::sync::oneshot;

use crate::{
    backend::millis,
    error,
    keys::{Bucket, Keys},
    reply::{self, Reply},
    room::{Carrier, Habit, Queued, Room},
    scripts,
    store::{Answer, Store},
};

/// A call of its own costs no more than a small batch.
const HABIT: Habit = Habit { batches: 4, alone_beside_batches: true, lets_others_in: false };

/// The calls of one bucket.
pub(crate) type Gathering = Room<Job>;

pub(crate) fn gathering() -> Gathering {
    Room::new(HABIT)
}

/// An attempt or a release in its plainest form.
pub(crate) struct Job {
    bucket: Bucket,
    owner: OwnerId,
    lock: String,
    queue: String,
    /// What an attempt has besides.
    attempt: Option<Wanted>,
    answer: oneshot::Sender<Result<Option<u64>, Error>>,
}

struct Wanted {
    tombstone: String,
    lease: String,
    label: OwnerLabel,
}

type Answered = oneshot::Receiver<Result<Option<u64>, Error>>;

impl Job {
    pub(crate) fn attempt(keys: &Keys, request: &Request) -> (Self, Answered) {
        let bucket = keys.bucket(&request.name);
        let [_, lock, queue, _, tombstone] = keys.of(&request.name, request.owner);
        let (lease, label) = (millis(request.lease), request.label.clone());
        let attempt = Some(Wanted { tombstone, lease, label });
        let (answer, answered) = oneshot::channel();
        (Self { bucket, owner: request.owner, lock, queue, attempt, answer }, answered)
    }

    pub(crate) fn release(keys: &Keys, grant: &Grant) -> (Self, Answered) {
        let (bucket, lock, queue) =
            (keys.bucket(&grant.name), keys.lock(&grant.name), keys.queue(&grant.name));
        let (answer, answered) = oneshot::channel();
        (Self { bucket, owner: grant.owner, lock, queue, attempt: None, answer }, answered)
    }
}

impl Store {
    /// Puts a job into the next batch: the number that the script answers, or `None` where it is not
    /// plain and needs its own script.
    pub(crate) async fn gather(
        self: &Arc<Self>,
        bucket: Bucket,
        (job, answered): (Job, Answered),
    ) -> Result<Option<u64>, Error> {
        let answer = async { answered.await.ok() };
        self.gathering(bucket).call(self, job, self.settings.timeout, answer).await?
    }
}

impl Carrier<Job> for Store {
    async fn carry(self: Arc<Self>, jobs: Vec<Queued<Job>>) {
        call(&self, jobs).await;
    }
}

async fn call(store: &Store, batch: Vec<Queued<Job>>) {
    let Some(bucket) = batch.first().map(|queued| queued.job().bucket) else { return };
    let ready = async { store.link(bucket).await?.handshake().await }.await;
    // As late as can be: a server that hangs is mostly noticed before this.
    let batch: Vec<Job> = batch.into_iter().filter_map(Queued::take).collect();
    if let Err(error) = ready.map_err(error::before_asking) {
        for job in batch {
            job.answer.send(Err(error.clone())).ok();
        }
        return;
    }
    // One label for all; who has another, as by a second client on the same store, asks for itself.
    let label = batch.iter().find_map(|job| Some(job.attempt.as_ref()?.label.clone()));
    let fits =
        |job: &Job| job.attempt.as_ref().is_none_or(|own| Some(&own.label) == label.as_ref());
    let (mut batch, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(fits);
    for job in others {
        job.answer.send(Ok(None)).ok();
    }
    if batch.is_empty() {
        return;
    }
    let mut answers = ask(store, bucket, &mut batch).await.map(Vec::into_iter);
    for job in batch {
        let answer = match &mut answers {
            Ok(answers) => Ok(answers.next().flatten()),
            Err(error) => Err(error.clone()),
        };
        job.answer.send(answer).ok();
    }
}

async fn ask(store: &Store, bucket: Bucket, batch: &mut [Job]) -> Result<Vec<Option<u64>>, Error> {
    batch.sort_by_key(|job| job.attempt.is_some());
    let owners: Vec<_> = batch.iter().map(|job| job.owner.to_string()).collect();
    let (releases, attempts) = batch.split_at(batch.partition_point(|job| job.attempt.is_none()));
    let mut keys = vec![store.keys.epoch(bucket)];
    for jobs in [releases, attempts] {
        keys.extend(jobs.iter().map(|job| job.lock.clone()));
        keys.extend(jobs.iter().map(|job| job.queue.clone()));
    }
    let wanted = attempts.iter().filter_map(|job| job.attempt.as_ref());
    keys.extend(wanted.clone().map(|attempt| attempt.tombstone.clone()));
    let count = releases.len().to_string();
    let label = attempts.first().and_then(|job| job.attempt.as_ref());
    let label = label.map_or("", |attempt| attempt.label.as_str());
    let mut own = vec![count.as_bytes(), label.as_bytes()];
    let (free, take) = owners.split_at(releases.len());
    own.extend(free.iter().map(String::as_bytes));
    for (owner, attempt) in take.iter().zip(wanted) {
        own.extend([owner.as_bytes(), attempt.lease.as_bytes()]);
    }
    let read = |value| Ok(Answer { first: None, reply: Some(Reply::Foreign(value)) });
    match store.run_in_epoch(bucket, &scripts::BATCH, &keys, &own, read).await {
        Ok(Answer { reply: Some(Reply::Foreign(value)), .. }) => {
            let answers = reply::list(value)?;
            if answers.len() != batch.len() {
                return Err(reply::not_understood());
            }
            answers.iter().map(reply::known_number).collect()
        }
        Ok(_) => Err(reply::not_understood()),
        Err(error) if error.is_ambiguous() => Err(error),
        // Refused: each asks for itself, and is told what concerns it.
        Err(_) => Ok(Vec::new()),
    }
}
