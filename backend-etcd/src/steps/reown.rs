//! Gives a held lock to a new owner.

use etcd_client::{Compare, CompareOp, Txn};
use lock_core::{Error, ErrorKind, Grant, Mode, Mutex, Request};

use super::grant::{confirm, repeat};
use crate::{
    keys::{
        entry::{Held, LeaseUse, QueueEntry, StoredEntry},
        settings::Record,
    },
    restore::{HistoryToken, held_back},
    rpc::{Failure, Lease, gets, incomplete, put, revision},
    store::Store,
    tunables::TRIES,
};

/// What became of a transaction.
enum Outcome {
    Given(Grant),
    /// The former owner does not hold the lock, or the new owner was abandoned.
    NotHeld,
    /// The settings or the entry have changed meanwhile.
    Changed,
}

/// The key stays, and with it the create revision and the token. The entry gets the new owner, and
/// a lease that only the new owner renews. `None` if the grant does not hold the lock alone.
pub(crate) async fn reown(
    store: &Store,
    grant: &Grant,
    request: &Request,
) -> Result<Option<Grant>, Error> {
    store.restore.check_request(request, Record::longest_lease).await?;
    for _ in 0..TRIES {
        let (first, _) = store.first_entry(&grant.name).await?;
        let held = first.filter(|seen| {
            seen.mode() != Mode::Shared && seen.token() == grant.token && !seen.is_kept()
        });
        let Some(seen) = held else { return Ok(None) };
        if seen.belongs_to(request.owner) {
            return repeat(store, request, seen).await;
        }
        if !seen.belongs_to(grant.owner) {
            return Ok(None);
        }
        let token = store.restore.history_token().await?;
        let lease = store.leases.take(request.lease, token.history).await?;
        let former = seen.lease;
        match give(store, request, seen, lease, &token).await {
            Ok(Outcome::Given(grant)) => {
                // No key uses the old lease any more. A late renewal finds it gone. If this fails,
                // a late renewal prolongs a lease without a key.
                if let Err(failure) = store.rpc.revoke(former).await {
                    let error = Error::from(failure);
                    tracing::trace!(target: "leasehold", %error, "the lease of a former owner is left behind");
                }
                return Ok(Some(grant));
            }
            Ok(Outcome::NotHeld) => {
                store.leases.put_back(lease, token.history);
                return Ok(None);
            }
            Ok(Outcome::Changed) => store.leases.put_back(lease, token.history),
            Err(Failure::LeaseGone) => {}
            Err(Failure::Error(error)) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
}

async fn give(
    store: &Store,
    request: &Request,
    seen: StoredEntry,
    lease: Lease,
    token: &HistoryToken,
) -> Result<Outcome, Failure> {
    let (layout, restore) = (&store.layout, &store.restore);
    let (Some(entry), Ok(key)) = (seen.entry, String::from_utf8(seen.key)) else {
        return Ok(Outcome::NotHeld);
    };
    let entry = QueueEntry::new(request, entry.offset, true);
    let conditions = [
        Compare::mod_revision(key.as_str(), CompareOp::Equal, seen.modified),
        restore.settings().unchanged(layout),
        layout.not_quarantined(),
        layout.not_abandoned(request.owner),
    ];
    let reads =
        [layout.get_settings(), layout.get_quarantine(), layout.get_tombstone(request.owner)];
    let txn = Txn::new()
        .when(conditions)
        .and_then([put(&key, entry.to_bytes(), lease.id)])
        .or_else(reads);
    let answer = store.rpc.txn(txn).await?;
    if !answer.succeeded() {
        let got = gets(&answer);
        let [settings, quarantine, tombstone] = &got[..] else { return Err(incomplete().into()) };
        restore.note_found(settings, revision(&answer))?;
        if let Some(held_back) = held_back(&store.rpc, quarantine).await? {
            return Err(Error::from(held_back).into());
        }
        return Ok(match tombstone.kvs().is_empty() {
            true => Outcome::Changed,
            false => Outcome::NotHeld,
        });
    }
    let reserved = store.reserved_keys.existing(key);
    let (created, history) = (seen.created, token.history);
    // Its entry was written since it was granted.
    let lease_use = Mutex::new(LeaseUse::Own);
    let held = Held { reserved, lease, created, entry, history, lease_use };
    let grant = confirm(store, request, token, &answer, held, None).await?;
    Ok(grant.map_or(Outcome::NotHeld, Outcome::Given))
}
