//! The confirmed renewals of the command's locks, as an observer of its client sees them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold::{Error, Event, EventKind, Guard, Guards, LockClient, OwnerId};
use tokio::sync::watch;

/// The owners of whose grants a renewal was confirmed, and the lease that the last one has set. It
/// changes with each renewal.
pub(super) type Renewals = watch::Receiver<HashMap<OwnerId, Duration>>;

/// Observes the renewals of a new client.
pub(super) fn observe(client: LockClient) -> Result<(LockClient, Renewals), Error> {
    let (confirmed, renewals) = watch::channel(HashMap::new());
    let note = move |event: &Event<'_>| {
        if let (EventKind::Renewed { lease, .. }, Some((owner, _))) = (event.kind, event.holder) {
            confirmed.send_modify(|leases| {
                leases.insert(owner, lease);
            });
        }
    };
    Ok((client.observed_by(Arc::new(note))?, renewals))
}

/// Waits until each grant that the store pushed is confirmed by a renewal. Before, it is valid for
/// its claim window only, and may be an old one that was read late.
pub(super) async fn until_confirmed(guards: &Guards, renewals: &mut Renewals) {
    let pushed = || guards.iter().filter(|guard| guard.grant().claim.is_some());
    pushed().for_each(Guard::renew_now);
    let all =
        |confirmed: &HashMap<_, _>| pushed().all(|each| confirmed.contains_key(&each.owner()));
    if renewals.wait_for(all).await.is_err() {
        // The client is gone, and confirms nothing any more.
        std::future::pending().await
    }
}
