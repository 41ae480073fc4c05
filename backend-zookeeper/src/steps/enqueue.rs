//! Adds an entry to the queue, in which the lowest number is served first.

use lock_core::{Enqueued, Error, Request};

use super::acquire::{Placement, place};
use crate::{
    store::Store,
    waiting::{RefusedWaiter, WaiterEntry, ZooKeeperWaiter},
};

/// Makes an entry, which is a grant if nothing blocks it.
pub(crate) async fn enqueue(store: &Store, request: &Request) -> Result<Enqueued, Error> {
    store.check_request(request)?;
    Ok(enqueued(store, request, place(store, request).await?))
}

/// The answer to a request that may wait.
pub(super) fn enqueued(store: &Store, request: &Request, placed: Placement) -> Enqueued {
    match placed {
        Placement::Granted(grant) => Enqueued::Granted(grant),
        Placement::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
        Placement::Refused(busy) => Enqueued::Waiting(Box::new(RefusedWaiter), busy),
        Placement::Waiting { own, predecessor, busy } => {
            let entry = WaiterEntry::new(request.owner, own, predecessor);
            Enqueued::Waiting(Box::new(ZooKeeperWaiter::start(entry, &store.waiters)), busy)
        }
    }
}
