//! The confirmed renewals of the command's locks, as an observer of its client sees them.

use std::collections::HashSet;
use std::sync::Arc;

use leasehold::{Error, Event, EventKind, Guard, Guards, LockClient, OwnerId};
use tokio::sync::watch;

/// The owners of whose grants a renewal was confirmed. It changes with each renewal.
pub(super) type Renewals = watch::Receiver<HashSet<OwnerId>>;

/// Observes the renewals of a new client.
pub(super) fn observe(client: LockClient) -> Result<(LockClient, Renewals), Error> {
    let (confirmed, renewals) = watch::channel(HashSet::new());
    let note = move |event: &Event<'_>| {
        if let (EventKind::Renewed { .. }, Some((owner, _))) = (event.kind, event.holder) {
            confirmed.send_modify(|owners| {
                owners.insert(owner);
            });
        }
    };
    Ok((client.observed_by(Arc::new(note))?, renewals))
}

/// Waits until each grant that the store pushed is confirmed by a renewal. Before, it is valid for its
/// claim window only, and may be an old one that was read late.
pub(super) async fn until_confirmed(guards: &Guards, renewals: &mut Renewals) {
    let pushed = || guards.iter().filter(|guard| guard.grant().claim.is_some());
    pushed().for_each(Guard::renew_now);
    let all = |confirmed: &HashSet<OwnerId>| pushed().all(|each| confirmed.contains(&each.owner()));
    if renewals.wait_for(all).await.is_err() {
        // The client is gone, and confirms nothing any more.
        std::future::pending().await
    }
}
