//! The quarantine: after a restore, nothing is granted until every lease that may have been lost
//! has expired.
//!
//! The quarantine is a key, and every transaction that grants compares it. It lives by a lease as
//! long as the longest lease that may be held. So etcd itself counts the time, and no client's
//! clock can shorten it.

use std::time::Duration;

use etcd_client::{Compare, GetResponse, Txn, TxnOp};
use lock_core::{Error, Quarantined};

use crate::{
    keys::layout::KeyLayout,
    rpc::{Rpc, gets, put, revision},
};

/// Writes settings under a condition, and starts a quarantine in the same transaction. Returns the
/// revision; `None` if the condition failed.
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
        // Like all leases in etcd, it has whole seconds, and at least etcd's shortest lease.
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

/// The quarantine in the answer to a read of its key, if there is one.
pub(crate) async fn held_back(rpc: &Rpc, got: &GetResponse) -> Result<Option<Quarantined>, Error> {
    let Some(pair) = got.kvs().first() else { return Ok(None) };
    let remaining = rpc.remaining(pair.lease()).await?;
    let why = pair.value_str().unwrap_or("unknown").to_owned();
    Ok(Some(Quarantined::new(remaining, why)))
}

/// Reads the quarantine, if there is one.
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
