//! Releases a lock, and cleans up after an attempt whose outcome is unknown.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
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

/// Deletes the entry: without its lease if that can serve another lock, and otherwise by revoking
/// the lease. For a minimum hold, moves the entry to another lease instead.
pub(crate) async fn release(
    store: &Store,
    held: &Held,
    keep: Option<Duration>,
) -> Result<ReleaseOutcome, Error> {
    let (keep, pool) = (keep.filter(|keep| !keep.is_zero()), &store.leases.pool);
    if keep.is_none()
        && pool.may_return(held.lease)
        && held.begin_return()
        && delete(store, held).await?
    {
        // Whatever else hangs on the lease of a lock ends with the lock. If this fails, it ends
        // with the lease: the lock is free all the same.
        let is_unused = store.rpc.is_unused(held.lease.id).await.unwrap_or(false);
        if !(is_unused && held.end_return() && pool.put(held.lease, held.history))
            && let Err(failure) = store.rpc.revoke(held.lease.id).await
        {
            let error = Error::from(failure);
            tracing::trace!(target: "leasehold", %error, "the lease of a released lock is left behind");
        }
        return Ok(ReleaseOutcome::Released);
    }
    if !held.begin_revoke() {
        return Ok(ReleaseOutcome::NotHeld);
    }
    let Some(keep) = keep else {
        return Ok(outcome(store.rpc.revoke(held.lease.id).await?));
    };
    let last = store.leases.take_full(keep, held.history).await?;
    let kept = move_to_lease(store, held, last).await?;
    if !kept {
        store.leases.put_back(last, held.history);
    }
    // No key uses the old lease any more. A late renewal finds it gone.
    store.rpc.revoke(held.lease.id).await?;
    Ok(outcome(kept))
}

/// Deletes the entry of a holder without its lease. `false` if the entry is gone, or was written
/// since its grant. The writer may still use the lease, or revoke it.
async fn delete(store: &Store, held: &Held) -> Result<bool, Failure> {
    let same = [held.is_unwritten(), Compare::lease(held.key(), CompareOp::Equal, held.lease.id)];
    let txn = Txn::new().when(same).and_then([TxnOp::delete(held.key(), None)]);
    match store.rpc.txn(txn).await {
        // etcd has no room for a transaction, but it carries a revoke out.
        Err(Failure::Error(error)) if error.kind() == ErrorKind::Config => Ok(false),
        answer => Ok(answer?.succeeded()),
    }
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
                revoke(store, &seen).await?;
            }
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Revokes the lease of an entry that was read. `false` if the entry is gone. Its client may delete
/// the entry and use the lease for another lock meanwhile. So the entry is written again first:
/// then its client does not return the lease.
pub(crate) async fn revoke(store: &Store, seen: &StoredEntry) -> Result<bool, Error> {
    if let (Some(entry), Ok(key)) = (seen.returnable(), std::str::from_utf8(&seen.key)) {
        let same = Compare::mod_revision(key, CompareOp::Equal, seen.modified);
        let txn = Txn::new()
            .when([same])
            .and_then([put(key, entry.to_bytes(), seen.lease)])
            .or_else([TxnOp::get(key, None)]);
        let answer = match store.rpc.txn(txn).await {
            Err(Failure::LeaseGone) => return Ok(false),
            // etcd has no room for the write, and so none for a grant that would use the lease.
            Err(Failure::Error(error)) if error.kind() == ErrorKind::Config => {
                store.rpc.txn(Txn::new().and_then([TxnOp::get(key, None)])).await?
            }
            answer => answer?,
        };
        // Nothing is read if it was written.
        let is_gone =
            |got| StoredEntry::from_get(got).is_none_or(|found| found.created != seen.created);
        if gets(&answer).first().is_some_and(is_gone) {
            return Ok(false);
        }
    }
    Ok(store.rpc.revoke(seen.lease).await?)
}

pub(super) fn outcome(done: bool) -> ReleaseOutcome {
    if done { ReleaseOutcome::Released } else { ReleaseOutcome::NotHeld }
}
