//! Adds an entry to the queue, in which the lowest number is served first.

use lock_core::{Attempt, Busy, Enqueued, Error, Request};

use super::{
    acquire::{Placed, place},
    claim::claim,
};
use crate::{
    keys::entry::Entry,
    store::{Held, Store},
    waiting::{RefusedWaiter, WaiterEntry, ZooKeeperWaiter},
};

/// Makes an entry, which is a grant if nothing blocks it.
pub(crate) async fn enqueue(store: &Store, request: &Request) -> Result<Enqueued, Error> {
    store.check_request(request)?;
    enqueued(store, request, place(store, request).await?).await
}

pub(super) async fn enqueued(
    store: &Store,
    request: &Request,
    placed: Placed,
) -> Result<Enqueued, Error> {
    Ok(match placed {
        Placed::Granted(grant) => Enqueued::Granted(grant),
        Placed::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
        Placed::Refused(busy) => Enqueued::Waiting(Box::new(RefusedWaiter), busy),
        Placed::Waiting(held, ahead, busy) => wait(store, request, held, ahead, busy).await,
    })
}

/// Waits in an entry. The entry before it may have gone already.
async fn wait(
    store: &Store,
    request: &Request,
    held: Held,
    ahead: Vec<Entry>,
    busy: Busy,
) -> Enqueued {
    let is_next = ahead.is_empty();
    let entry = WaiterEntry::new(request.owner, request.name.clone(), held, ahead);
    let waiter = ZooKeeperWaiter::start(entry, &store.waiters, &store.layout);
    if is_next && let Ok(Attempt::Granted(grant)) = claim(store, request).await {
        return Enqueued::Granted(grant);
    }
    Enqueued::Waiting(Box::new(waiter), busy)
}
