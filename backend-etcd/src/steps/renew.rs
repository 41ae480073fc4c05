//! Keeping the lease of a grant alive.

use etcd_client::{Compare, CompareOp, Txn};
use lock_core::{Error, Grant, Instant, LossReason, Renewal};

use crate::{keys::entry::Held, store::Store};

pub(crate) async fn renew(
    store: &Store,
    grant: &Grant,
    held: &Held,
    sent: Instant,
) -> Result<Renewal, Error> {
    store.restore.check_known_version().await?;
    match store.keepalives.extend(held.lease.id).await? {
        Some(lease) if is_there(store, held).await? => {
            Ok(Renewal::Renewed { from: lease.from.min(sent), lease: lease.ttl })
        }
        _ => Ok(Renewal::Lost(why_lost(store, grant).await)),
    }
}

/// Whether a grant whose lease lives has its entry. It has, unless the cluster was restored since: a
/// snapshot may have the lease, which was in the pool then, and not the entry.
async fn is_there(store: &Store, held: &Held) -> Result<bool, Error> {
    if store.restore.history_token().await?.history == held.history {
        return Ok(true);
    }
    let same = Compare::create_revision(held.key(), CompareOp::Equal, held.created);
    Ok(store.rpc.txn(Txn::new().when([same])).await?.succeeded())
}

/// Why a grant whose lease is gone was lost. It is lost also where the look fails.
async fn why_lost(store: &Store, grant: &Grant) -> LossReason {
    match store.first(&grant.name).await {
        Ok((Some(seen), _)) if !seen.is_of(grant.owner) => LossReason::TakenOver,
        _ => LossReason::Gone,
    }
}
