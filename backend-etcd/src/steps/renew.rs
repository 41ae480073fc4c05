//! Renews grants: keeps their leases alive.

use etcd_client::{Compare, CompareOp, Txn};
use lock_core::{Error, Grant, Instant, LossReason, Renewal};

use crate::{
    keys::entry::{Held, LeaseUse},
    store::Store,
};

pub(crate) async fn renew(
    store: &Store,
    grant: &Grant,
    held: &Held,
    sent: Instant,
) -> Result<Renewal, Error> {
    // Its lease may serve another lock by now, and this renewal must not extend that one.
    let lease = match held.lease_use() {
        LeaseUse::Returned => None,
        _ => store.keepalives.extend(held.lease.id).await?,
    };
    match lease {
        Some(lease) if has_entry(store, held).await? => {
            Ok(Renewal::Renewed { from: lease.from.min(sent), lease: lease.ttl })
        }
        _ => Ok(Renewal::Lost(why_lost(store, grant).await)),
    }
}

/// Whether a grant whose lease lives still has its entry. It has, unless
/// - its release has begun, and may have deleted the entry without the lease, or
/// - the cluster was restored since: a snapshot may contain the lease, which was in the pool then,
///   but not the entry.
async fn has_entry(store: &Store, held: &Held) -> Result<bool, Error> {
    let history = store.restore.history_token().await?.history;
    let is_held = matches!(held.lease_use(), LeaseUse::Returnable | LeaseUse::Own);
    if history == held.history && is_held {
        return Ok(true);
    }
    let same = Compare::create_revision(held.key(), CompareOp::Equal, held.created);
    Ok(store.rpc.txn(Txn::new().when([same])).await?.succeeded())
}

/// Why a grant was lost. It is lost even if the read fails.
async fn why_lost(store: &Store, grant: &Grant) -> LossReason {
    match store.first_entry(&grant.name).await {
        Ok((Some(seen), _)) if !seen.belongs_to(grant.owner) => LossReason::TakenOver,
        _ => LossReason::Gone,
    }
}
