//! The quarantine: after a restore nothing is granted until every lease that may have been lost is over.
//!
//! The quarantine is a key that every transaction which grants compares. It lives by a lease as long as the longest
//! that may be held: etcd itself counts it, so that no client's clock shortens it.

use std::time::Duration;

use etcd_client::{Compare, GetResponse, Txn, TxnOp};
use lock_core::{Error, Quarantined};

use crate::{
    keys::layout::KeyLayout,
    rpc::{Rpc, gets, put, revision},
};

/// Puts settings on a condition, and starts a quarantine with them; the revision, if the condition held.
pub(crate) async fn put_settings(
    rpc: &Rpc,
    layout: &KeyLayout,
    condition: Compare,
    settings: TxnOp,
    quarantine: Option<(Duration, &str)>,
) -> Result<Option<i64>, Error> {
    let mut puts = vec![settings];
    let mut lease = None;
    if let Some((span, why)) = quarantine {
        // As leases are: of whole seconds, and not shorter than etcd's shortest.
        let timer = rpc.grant(span).await?;
        lease = Some(timer.id);
        puts.push(put(&layout.quarantine(), why.into(), timer.id));
    }
    let answer = rpc.txn(Txn::new().when([condition]).and_then(puts)).await?;
    if answer.succeeded() {
        return Ok(Some(revision(&answer)));
    }
    if let Some(lease) = lease {
        rpc.revoke(lease).await?;
    }
    Ok(None)
}

/// The quarantine, if it was read.
pub(crate) async fn held_back(rpc: &Rpc, got: &GetResponse) -> Result<Option<Quarantined>, Error> {
    let Some(pair) = got.kvs().first() else { return Ok(None) };
    let remaining = rpc.remaining(pair.lease()).await?;
    let why = pair.value_str().unwrap_or("unknown").to_owned();
    Ok(Some(Quarantined::new(remaining, why)))
}

/// The quarantine, if there is one.
pub(crate) async fn quarantine(
    rpc: &Rpc,
    layout: &KeyLayout,
) -> Result<Option<Quarantined>, Error> {
    let answer = rpc.txn(Txn::new().and_then([layout.get_quarantine()])).await?;
    match gets(&answer).first() {
        Some(got) => held_back(rpc, got).await,
        None => Ok(None),
    }
}
