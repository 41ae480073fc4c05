//! Heartbeats of this client's queue entries. Those that are due at the same time share one script
//! call.

use std::sync::Arc;

use lock_core::{Busy, Error, OwnerId, Request};
use redis::Value;
use tokio::sync::oneshot;

use crate::{
    batching::{BatchSink, Batcher, Queued},
    connection::error,
    keys::{Bucket, Keys},
    scripts::{
        HEARTBEAT, entry_of, heartbeats,
        reply::{self, Answer, Reply},
    },
    store::Store,
    tunables::HEARTBEATS,
};

/// The heartbeats of one bucket.
pub(crate) type HeartbeatQueue = Batcher<Heartbeat>;

pub(crate) fn heartbeat_queue() -> HeartbeatQueue {
    Batcher::new(HEARTBEATS)
}

/// What the server answers about a queue entry.
pub(crate) enum HeartbeatAnswer {
    /// The entry exists, and others hold the lock.
    Exists,
    /// The entry exists, and this is the state of the lock.
    Busy(Busy),
    /// The entry needs an attempt of its own.
    NeedsAttempt,
}

/// A heartbeat that is due.
pub(crate) struct Heartbeat {
    bucket: Bucket,
    entries: String,
    owner: OwnerId,
    /// The text of the entry behind its time.
    entry: String,
    lock: String,
    /// Whether the state of the lock is wanted too.
    with_lock: bool,
    answer: oneshot::Sender<Result<HeartbeatAnswer, Error>>,
}

/// Sends a heartbeat together with the others that are due. `with_lock` asks for the state of the
/// lock too.
pub(crate) async fn heartbeat(
    store: &Arc<Store>,
    queue: &HeartbeatQueue,
    request: &Request,
    channel: &str,
    with_lock: bool,
) -> Result<HeartbeatAnswer, Error> {
    let keys: &Keys = &store.keys;
    let (bucket, owner) = (keys.bucket(&request.name), request.owner);
    let [_, lock, _, entries, _] = keys.of(&request.name, owner);
    let (answer, answered) = oneshot::channel();
    let entry = entry_of(request, channel);
    let heartbeat = Heartbeat { bucket, entries, owner, entry, lock, with_lock, answer };
    let answer = async { answered.await.ok() };
    let called = queue.call(store, heartbeat, store.settings.timeout, answer).await;
    // A heartbeat takes nothing, so after an error nothing is in doubt.
    called.and_then(|answer| answer).map_err(error::before_asking)
}

impl BatchSink<Heartbeat> for Store {
    async fn carry(self: Arc<Self>, due: Vec<Queued<Heartbeat>>) {
        let due: Vec<Heartbeat> = due.into_iter().filter_map(Queued::take).collect();
        let Some((bucket, entry)) = due.first().map(|first| (first.bucket, first.entry.clone()))
        else {
            return;
        };
        // Entries that differ from the first one in more than their owner get an attempt of their
        // own.
        let (mut due, others): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|heartbeat| heartbeat.entry == entry);
        for heartbeat in others {
            heartbeat.answer.send(Ok(HeartbeatAnswer::NeedsAttempt)).ok();
        }
        due.sort_by_key(|heartbeat| heartbeat.with_lock);
        let mut answers = ask(&self, bucket, &due, &entry).await.map(Vec::into_iter);
        for heartbeat in due {
            let answer = match &mut answers {
                Ok(answers) => Ok(answers.next().unwrap_or(HeartbeatAnswer::NeedsAttempt)),
                Err(error) => Err(error.clone()),
            };
            heartbeat.answer.send(answer).ok();
        }
    }
}

async fn ask(
    store: &Store,
    bucket: Bucket,
    due: &[Heartbeat],
    entry: &str,
) -> Result<Vec<HeartbeatAnswer>, Error> {
    let mut keys = Vec::with_capacity(1 + 2 * due.len());
    keys.push(store.keys.epoch(bucket));
    keys.extend(due.iter().map(|heartbeat| heartbeat.entries.clone()));
    keys.extend(due.iter().map(|heartbeat| heartbeat.lock.clone()));
    let read = due.iter().filter(|heartbeat| heartbeat.with_lock).count();
    let own = heartbeats(due.iter().map(|heartbeat| heartbeat.owner), entry, read);
    let read = |value| Ok(Answer { first: None, reply: Some(Reply::Foreign(value)) });
    let answer = store.run_in_epoch(bucket, &HEARTBEAT, &keys, &own, read).await?;
    let Some(Reply::Foreign(value)) = answer.reply else { return Err(reply::not_understood()) };
    // If an answer is not understood, the entry gets an attempt of its own.
    let read = |value| match value {
        Value::Int(0) => HeartbeatAnswer::Exists,
        value => match Reply::read(value) {
            Ok(Reply::Busy { busy, .. }) => HeartbeatAnswer::Busy(busy),
            _ => HeartbeatAnswer::NeedsAttempt,
        },
    };
    Ok(reply::list(value)?.into_iter().map(read).collect())
}
