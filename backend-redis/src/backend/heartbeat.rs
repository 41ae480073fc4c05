//! Heartbeats of this client's queue entries. Those that are due at the same time share one script call.

use std::sync::Arc;

use lock_core::{Busy, Error, OwnerId, Request};
use redis::Value;
use tokio::sync::oneshot;

use crate::{
    batching::{BatchSink, Batcher, Queued},
    connection::error,
    keys::{Bucket, Keys},
    scripts::{
        HEARTBEAT, heartbeats, place_of,
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
pub(crate) enum Heard {
    /// The entry exists.
    There,
    /// The entry exists, and this is the state of the lock.
    Busy(Busy),
    /// The entry needs an attempt of its own.
    Unsure,
}

/// A heartbeat that is due.
pub(crate) struct Heartbeat {
    bucket: Bucket,
    places: String,
    owner: OwnerId,
    /// The text of the entry behind its time.
    place: String,
    /// The key of the lock, if its state is wanted too.
    lock: Option<String>,
    answer: oneshot::Sender<Result<Heard, Error>>,
}

/// Sends a heartbeat together with the others that are due. `looks` asks for the state of the lock too.
pub(crate) async fn heartbeat(
    store: &Arc<Store>,
    queue: &HeartbeatQueue,
    request: &Request,
    channel: &str,
    looks: bool,
) -> Result<Heard, Error> {
    let keys: &Keys = &store.keys;
    let (bucket, owner) = (keys.bucket(&request.name), request.owner);
    let [_, lock, _, places, _] = keys.of(&request.name, owner);
    let (answer, answered) = oneshot::channel();
    let (place, lock) = (place_of(request, channel), looks.then_some(lock));
    let heartbeat = Heartbeat { bucket, places, owner, place, lock, answer };
    let answer = async { answered.await.ok() };
    let called = queue.call(store, heartbeat, store.settings.timeout, answer).await;
    // A heartbeat takes nothing, so after an error nothing is in doubt.
    called.and_then(|answer| answer).map_err(error::before_asking)
}

impl BatchSink<Heartbeat> for Store {
    async fn carry(self: Arc<Self>, due: Vec<Queued<Heartbeat>>) {
        let due: Vec<Heartbeat> = due.into_iter().filter_map(Queued::take).collect();
        let Some((bucket, place)) = due.first().map(|first| (first.bucket, first.place.clone()))
        else {
            return;
        };
        // Entries that differ from the first one in more than their owner get an attempt of their own.
        let (mut due, others): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|heartbeat| heartbeat.place == place);
        for heartbeat in others {
            heartbeat.answer.send(Ok(Heard::Unsure)).ok();
        }
        due.sort_by_key(|heartbeat| heartbeat.lock.is_some());
        let mut answers = ask(&self, bucket, &due, &place).await.map(Vec::into_iter);
        for heartbeat in due {
            let answer = match &mut answers {
                Ok(answers) => Ok(answers.next().unwrap_or(Heard::Unsure)),
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
    place: &str,
) -> Result<Vec<Heard>, Error> {
    let mut keys = Vec::with_capacity(1 + 2 * due.len());
    keys.push(store.keys.epoch(bucket));
    keys.extend(due.iter().map(|heartbeat| heartbeat.places.clone()));
    keys.extend(due.iter().filter_map(|heartbeat| heartbeat.lock.clone()));
    let own = heartbeats(due.iter().map(|heartbeat| heartbeat.owner), place);
    let read = |value| Ok(Answer { first: None, reply: Some(Reply::Foreign(value)) });
    let answer = store.run_in_epoch(bucket, &HEARTBEAT, &keys, &own, read).await?;
    let Some(Reply::Foreign(value)) = answer.reply else { return Err(reply::not_understood()) };
    // If an answer is not understood, the entry gets an attempt of its own.
    let read = |value| match value {
        Value::Int(0) => Heard::There,
        value => match Reply::read(value) {
            Ok(Reply::Busy { busy, .. }) => Heard::Busy(busy),
            _ => Heard::Unsure,
        },
    };
    Ok(reply::list(value)?.into_iter().map(read).collect())
}
