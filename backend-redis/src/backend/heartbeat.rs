//! Heartbeats of this client's places: those that are due at a time go in one script call.

use std::sync::Arc;

use lock_core::{Busy, Error, OwnerId, Request};
use tokio::sync::oneshot;

use crate::{
    batching::{BatchSink, Batcher, Queued},
    connection::error,
    keys::{Bucket, Keys},
    scripts::{
        HEARTBEAT, heartbeats,
        reply::{self, Answer, Reply},
    },
    store::Store,
    tunables::HEARTBEATS,
};

/// The places of one bucket.
pub(crate) type HeartbeatQueue = Batcher<Heartbeat>;

pub(crate) fn heartbeat_queue() -> HeartbeatQueue {
    Batcher::new(HEARTBEATS)
}

/// A place to be heard of.
pub(crate) struct Heartbeat {
    bucket: Bucket,
    lock: String,
    places: String,
    owner: OwnerId,
    answer: oneshot::Sender<Result<Option<Busy>, Error>>,
}

/// Hears of a place with the others that are due; `None` where it has to ask for itself.
pub(crate) async fn heartbeat(
    store: &Arc<Store>,
    queue: &HeartbeatQueue,
    request: &Request,
) -> Result<Option<Busy>, Error> {
    let keys: &Keys = &store.keys;
    let [_, lock, _, places, _] = keys.of(&request.name, request.owner);
    let (answer, answered) = oneshot::channel();
    let (bucket, owner) = (keys.bucket(&request.name), request.owner);
    let heartbeat = Heartbeat { bucket, lock, places, owner, answer };
    let answer = async { answered.await.ok() };
    let called = queue.call(store, heartbeat, store.settings.timeout, answer).await;
    // It takes nothing, and so leaves nothing in doubt.
    called.and_then(|answer| answer).map_err(error::before_asking)
}

impl BatchSink<Heartbeat> for Store {
    async fn carry(self: Arc<Self>, due: Vec<Queued<Heartbeat>>) {
        let due: Vec<Heartbeat> = due.into_iter().filter_map(Queued::take).collect();
        let Some(bucket) = due.first().map(|heartbeat| heartbeat.bucket) else { return };
        let mut answers = ask(&self, bucket, &due).await.map(Vec::into_iter);
        for heartbeat in due {
            let answer = match &mut answers {
                Ok(answers) => Ok(answers.next().flatten()),
                Err(error) => Err(error.clone()),
            };
            heartbeat.answer.send(answer).ok();
        }
    }
}

async fn ask(store: &Store, bucket: Bucket, due: &[Heartbeat]) -> Result<Vec<Option<Busy>>, Error> {
    let mut keys = Vec::with_capacity(1 + 2 * due.len());
    keys.push(store.keys.epoch(bucket));
    keys.extend(due.iter().map(|heartbeat| heartbeat.lock.clone()));
    keys.extend(due.iter().map(|heartbeat| heartbeat.places.clone()));
    let own = heartbeats(due.iter().map(|heartbeat| heartbeat.owner));
    let read = |value| Ok(Answer { first: None, reply: Some(Reply::Foreign(value)) });
    let answer = store.run_in_epoch(bucket, &HEARTBEAT, &keys, &own, read).await?;
    let Some(Reply::Foreign(value)) = answer.reply else { return Err(reply::not_understood()) };
    let answers = reply::list(value)?;
    if answers.len() != due.len() {
        return Err(reply::not_understood());
    }
    // What is not understood is asked for again, alone.
    let read = |value| match Reply::read(value) {
        Ok(Reply::Busy { busy, .. }) => Some(busy),
        _ => None,
    };
    Ok(answers.into_iter().map(read).collect())
}
