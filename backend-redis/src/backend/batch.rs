//! Simple attempts and releases of many tasks, in one script call.

use std::sync::Arc;

use lock_core::{Error, Grant, Request};
use tokio::sync::oneshot;

use crate::{
    batching::{BatchSink, Batcher, Queued},
    connection::error,
    keys::{Bucket, Keys},
    scripts::{
        BATCH, Batch, Plain, PlainAttempt,
        reply::{self, Answer, Reply},
    },
    store::Store,
    tunables::BATCHES,
};

/// The calls of one bucket that wait for a batch.
pub(crate) type BatchQueue = Batcher<Job>;

pub(crate) fn batch_queue() -> BatchQueue {
    Batcher::new(BATCHES)
}

/// An attempt or a release in its simplest form.
pub(crate) struct Job {
    bucket: Bucket,
    plain: Plain,
    answer: oneshot::Sender<Result<Option<u64>, Error>>,
}

type Answered = oneshot::Receiver<Result<Option<u64>, Error>>;

impl Job {
    pub(crate) fn attempt(keys: &Keys, request: &Request) -> (Self, Answered) {
        let bucket = keys.bucket(&request.name);
        let [_, lock, queue, _, tombstone] = keys.of(&request.name, request.owner);
        let (owner, lease, label) = (request.owner, request.lease, request.label.clone());
        let plain =
            Plain { owner, lock, queue, attempt: Some(PlainAttempt { tombstone, lease, label }) };
        let (answer, answered) = oneshot::channel();
        (Self { bucket, plain, answer }, answered)
    }

    pub(crate) fn release(keys: &Keys, grant: &Grant) -> (Self, Answered) {
        let (lock, queue) = (keys.lock(&grant.name), keys.queue(&grant.name));
        let plain = Plain { owner: grant.owner, lock, queue, attempt: None };
        let (answer, answered) = oneshot::channel();
        (Self { bucket: keys.bucket(&grant.name), plain, answer }, answered)
    }
}

/// Puts a job into the next batch. Returns the number that the script answers, or `None` if the job
/// is not simple and needs its own script.
pub(crate) async fn call_in_batch(
    store: &Arc<Store>,
    queue: &BatchQueue,
    (job, answered): (Job, Answered),
) -> Result<Option<u64>, Error> {
    let answer = async { answered.await.ok() };
    queue.call(store, job, store.settings.timeout, answer).await?
}

impl BatchSink<Job> for Store {
    async fn carry(self: Arc<Self>, jobs: Vec<Queued<Job>>) {
        call(&self, jobs).await;
    }
}

async fn call(store: &Store, batch: Vec<Queued<Job>>) {
    let Some(bucket) = batch.first().map(|queued| queued.job().bucket) else { return };
    let ready = async { store.connection(bucket).await?.handshake().await }.await;
    // Takes the jobs as late as possible: if the server hangs, the client has mostly noticed it by
    // now.
    let batch: Vec<Job> = batch.into_iter().filter_map(Queued::take).collect();
    if let Err(error) = ready.map_err(error::before_asking) {
        for job in batch {
            job.answer.send(Err(error.clone())).ok();
        }
        return;
    }
    // A batch has one label. A call with another label (a second client on the same store) is sent
    // on its own.
    let label = batch.iter().find_map(|job| Some(job.plain.attempt.as_ref()?.label.clone()));
    let fits =
        |job: &Job| job.plain.attempt.as_ref().is_none_or(|own| Some(&own.label) == label.as_ref());
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
    batch.sort_by_key(|job| job.plain.attempt.is_some());
    let asked = Batch::new(batch.iter().map(|job| &job.plain));
    let (keys, own) = (asked.keys(store.keys.epoch(bucket)), asked.arguments());
    let read = |value| Ok(Answer { first: None, reply: Some(Reply::Foreign(value)) });
    match store.run_in_epoch(bucket, &BATCH, &keys, &own, read).await {
        Ok(Answer { reply: Some(Reply::Foreign(value)), .. }) => {
            let answers = reply::list(value)?;
            if answers.len() != batch.len() {
                return Err(reply::not_understood());
            }
            answers.iter().map(reply::known_number).collect()
        }
        Ok(_) => Err(reply::not_understood()),
        Err(error) if error.is_ambiguous() => Err(error),
        // The whole batch was refused. Each call is sent on its own, and so gets its own error.
        Err(_) => Ok(Vec::new()),
    }
}
