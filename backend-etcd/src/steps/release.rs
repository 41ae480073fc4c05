//! Releases a lock, and cleans up after an attempt whose outcome is unknown.

use std::time::Duration;

use etcd_client::{Txn, TxnOp};
use futures_util::future::join;
use lock_core::{Enqueued, Error, ErrorKind, Mode, ReleaseOutcome, Released, Request};

use super::{
    enqueue::{Queued, claim_or_wait, join_queue},
    grant::busy_untimed,
};
use crate::{
    keys::entry::{Held, QueueEntry, StoredEntry},
    rpc::{Failure, Lease, gets, put},
    store::Store,
};

/// Revokes the lease, which deletes the entry. For a minimum hold, moves the entry to another lease
/// instead.
pub(crate) async fn release(
    store: &Store,
    held: &Held,
    keep: Option<Duration>,
) -> Result<ReleaseOutcome, Error> {
    let Some(keep) = keep.filter(|keep| !keep.is_zero()) else {
        return Ok(outcome(store.rpc.revoke(held.lease.id).await?));
    };
    let last = store.leases.take_full(keep).await?;
    let kept = move_to_lease(store, held, last).await?;
    if !kept {
        store.leases.put_back(last);
    }
    // No key uses the old lease any more. A late renewal finds it gone.
    store.rpc.revoke(held.lease.id).await?;
    Ok(outcome(kept))
}

/// Moves the entry of a holder to its last lease. `false` if the lock is no longer held.
async fn move_to_lease(store: &Store, held: &Held, last: Lease) -> Result<bool, Error> {
    let (mut entry, mut same) = held.as_granted();
    loop {
        let kept = QueueEntry { kept: true, ..entry };
        let txn = Txn::new()
            .when(same)
            .and_then([put(held.key(), kept.to_bytes(), last.id)])
            .or_else([TxnOp::get(held.key(), None)]);
        let answer = store.rpc.txn(txn).await?;
        if answer.succeeded() {
            return Ok(true);
        }
        let found = gets(&answer).first().and_then(|found| held.as_found(found));
        let Some(found) = found else { return Ok(false) };
        (entry, same) = found;
    }
}

/// Releases, and at the same time makes an entry for the next request of this process. In whichever
/// order etcd carries out the two, other waiters come first.
pub(crate) async fn release_and_enqueue(
    store: &Store,
    held: &Held,
    next: &Request,
) -> Result<Released, Error> {
    let (outcome, queued) = join(release(store, held, None), join_queue(store, next)).await;
    let (outcome, queued) = match (outcome, queued) {
        (Ok(outcome), Ok(queued)) => (outcome, queued),
        // A repeat must find the entry. To delete it would need another call, which may also fail,
        // and then the repeat would make a second entry behind it.
        (Err(error), queued) => {
            if let Some(attempt) = queued.ok().and_then(|queued| queued.attempt()) {
                store.attempts.note(next.owner, attempt);
            }
            return Err(error);
        }
        // The next request may have an entry, so the core repeats both calls. If the repeat finds
        // the lock gone, it was released.
        (Ok(ReleaseOutcome::Released), Err(error)) if error.is_ambiguous() => {
            return Err(error);
        }
        (Ok(ReleaseOutcome::NotHeld), Err(error)) if error.is_ambiguous() => {
            let message =
                "the lock was lost, and the request that went with it may have a queue entry";
            return Err(Error::new(ErrorKind::Unavailable, message).with_source(error));
        }
        (Ok(outcome), Err(_)) => return Ok(Released::plain(outcome)),
    };
    let next = match queued {
        Queued::Granted(grant) => Some(Enqueued::Granted(grant)),
        Queued::Quarantined(held_back) => Some(Enqueued::Quarantined(held_back)),
        Queued::Refused(_) => None,
        // The new entry waited for this release.
        Queued::Waiting(waiter, first) if waiter.entry.is_behind(held.created) => {
            store.waiters.deleted(held.key(), held.created + 1);
            let first = first.filter(|first| first.created != held.created);
            Some(claim_or_wait(store, next, waiter, first).await)
        }
        Queued::Waiting(waiter, first) => {
            Some(Enqueued::Waiting(Box::new(waiter), busy_untimed(first)))
        }
    };
    Ok(Released::new(outcome, next))
}

/// Writes a tombstone first: after that no late request of this owner makes an entry. Then deletes
/// the entries made before.
pub(crate) async fn abandon(store: &Store, request: &Request) -> Result<(), Error> {
    store.attempts.forget(request.owner);
    let tombstone = store.layout.tombstone(request.owner);
    let read = match request.mode {
        Mode::Shared => store.layout.get_reader(request.owner),
        _ => store.layout.get_entries(&request.name),
    };
    let mut refused = None;
    let answer = loop {
        let written = match store.leases.for_tombstone(request.lease).await {
            Ok(lease) => {
                let mark = put(&tombstone, Vec::new(), lease.id);
                store.rpc.txn(Txn::new().and_then([mark, read.clone()])).await
            }
            Err(error) => Err(error.into()),
        };
        match written {
            Ok(answer) => break answer,
            Err(Failure::LeaseGone) => store.leases.forget_tombstones(),
            // etcd has no room for a tombstone, and so none for a late request: only the entries
            // must be deleted.
            Err(Failure::Error(error)) if error.kind() == ErrorKind::Config => {
                refused = Some(error);
                break store.rpc.txn(Txn::new().and_then([read])).await?;
            }
            Err(failure) => return Err(failure.into()),
        }
    };
    for got in gets(&answer) {
        for seen in got.kvs().iter().map(StoredEntry::read) {
            // The key that names the entry of a reader lives by the same lease.
            let is_own = request.mode == Mode::Shared || seen.belongs_to(request.owner);
            if is_own && !seen.is_kept() {
                store.rpc.revoke(seen.lease).await?;
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

pub(super) fn outcome(done: bool) -> ReleaseOutcome {
    if done { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld }
}
