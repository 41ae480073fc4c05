//! What an immediate grant and a grant after a wait have in common.

use std::{sync::Arc, time::Duration};

use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnResponse};
use lock_core::{Busy, Error, FencingToken, Grant, Mode, Mutex, Request, check_lease};

use crate::{
    keys::{
        entry::{Held, LeaseUse, QueueEntry, StoredEntry, token},
        settings::Record,
    },
    restore::HistoryToken,
    rpc::{Failure, Lease, put, revision},
    store::Store,
    tunables::{POLL, SHORTEST_POLL},
};

/// A transaction that acquires a lock, without the steps for a refusal.
pub(super) struct AcquireTxn {
    pub(super) txn: Txn,
    pub(super) entry: QueueEntry,
    /// The offset in the settings.
    pub(super) known: i64,
    /// The settings that the transaction writes, if it raises the offset.
    pub(super) record: Option<Record>,
}

/// The transaction that makes an entry if no other entry blocks it, with the offset that its token
/// needs.
pub(super) fn acquire_txn(
    store: &Store,
    request: &Request,
    key: &str,
    lease: Lease,
) -> Result<AcquireTxn, Error> {
    let (restore, layout) = (&store.restore, &store.layout);
    let settings = restore.settings();
    // The settings may have changed since the caller checked the lease. The transaction compares
    // these settings.
    check_lease(request.lease, settings.record.longest_lease())?;
    let raised = settings.raised_offset(settings.now + 1, request.floor);
    // An operator may have reset the tokens since: the next attempt reads the settings again.
    let raised = raised.inspect_err(|_| restore.history.doubt())?;
    let offset = raised.unwrap_or(settings.record.offset);
    let entry = QueueEntry::new(request, offset, true);
    let mut puts = puts(store, request, key, &entry, lease);
    let record = raised.map(|offset| restore.history.with_offset(&settings.record, offset));
    puts.extend(record.as_ref().map(|record| record.put(layout)));
    let mut conditions = vec![
        layout.no_obstacle(&request.name, request.mode),
        settings.unchanged(layout),
        layout.not_quarantined(),
        layout.not_abandoned(request.owner),
    ];
    if request.mode == Mode::Shared {
        conditions.push(layout.has_no_reader_key(request.owner));
        // Another reader, whose release failed, may still use the same key.
        conditions.push(Compare::create_revision(key, CompareOp::Equal, 0));
    }
    let txn = Txn::new().when(conditions).and_then(puts);
    Ok(AcquireTxn { txn, entry, known: settings.record.offset, record })
}

/// The steps that make the entry of a request. A writer that repeats a request is blocked by its
/// own entry, and so finds it. A reader is not, so a second key names its entry.
pub(super) fn puts(
    store: &Store,
    request: &Request,
    key: &str,
    entry: &QueueEntry,
    lease: Lease,
) -> Vec<TxnOp> {
    let mut puts = vec![put(key, entry.to_bytes(), lease.id)];
    if request.mode == Mode::Shared {
        puts.push(put(&store.layout.reader(request.owner), key.into(), lease.id));
    }
    puts
}

/// The grant of a transaction that succeeded. `None` if the cluster was restored meanwhile: then
/// the grant was released.
pub(super) async fn confirm(
    store: &Store,
    request: &Request,
    token: &HistoryToken,
    answer: &TxnResponse,
    held: Held,
    record: Option<Record>,
) -> Result<Option<Grant>, Error> {
    if !store.restore.confirm_history(token, answer, held.lease.id).await? {
        return Ok(None);
    }
    let now = revision(answer);
    store.restore.note(record.map(|record| (record, now)), now);
    Ok(Some(granted(request, held)))
}

/// Repeats an attempt that was granted: extends the lease and keeps the token. `None` if the grant
/// is gone, its owner was abandoned, or a quarantine runs. Writes the entry again, so that neither
/// this grant nor that of the first try returns the lease which both use.
pub(super) async fn repeat(
    store: &Store,
    request: &Request,
    seen: StoredEntry,
) -> Result<Option<Grant>, Error> {
    let is_returnable = seen.returnable().is_some();
    let (Some(entry), Ok(key)) = (seen.entry, String::from_utf8(seen.key)) else {
        return Ok(None);
    };
    let (restore, layout) = (&store.restore, &store.layout);
    let token = restore.history_token().await?;
    let same = Compare::create_revision(key.as_str(), CompareOp::Equal, seen.created);
    let conditions = [same, layout.not_quarantined(), layout.not_abandoned(request.owner)];
    let again = is_returnable.then(|| put(&key, entry.to_bytes(), seen.lease));
    let txn = Txn::new().when(conditions).and_then(again.into_iter().collect::<Vec<_>>());
    let answer = match store.rpc.txn(txn).await {
        Err(Failure::LeaseGone) => return Ok(None),
        answer => answer?,
    };
    if !answer.succeeded() || !restore.history.is_same(&store.rpc, &token, &answer) {
        return Ok(None);
    }
    let Some(lease) = store.keepalives.extend(seen.lease).await? else { return Ok(None) };
    let (reserved, created) = (store.reserved_keys.existing(key), seen.created);
    let (history, lease_use) = (token.history, Mutex::new(LeaseUse::Own));
    let held = Held { reserved, lease, created, entry, history, lease_use };
    Ok(Some(granted(request, held)))
}

fn granted(request: &Request, held: Held) -> Grant {
    let mut grant = Grant::new(request, token(held.entry.offset, held.created));
    (grant.lease, grant.from) = (held.lease.ttl, held.lease.from);
    grant.with_mode(request.mode).with_state(Arc::new(held))
}

pub(super) fn is_ours(seen: &StoredEntry, request: &Request) -> bool {
    let entry = seen.entry.as_ref();
    entry.is_some_and(|entry| entry.owner == request.owner && entry.granted && !entry.kept)
}

/// The answer `Busy` because of this entry, with the remaining TTL of its lease.
pub(super) async fn busy(store: &Store, seen: Option<StoredEntry>) -> Result<Busy, Error> {
    match seen {
        Some(seen) => Ok(busy_for(&seen, store.rpc.remaining(seen.lease).await?)),
        None => Ok(busy_untimed(None)),
    }
}

pub(super) fn busy_for(seen: &StoredEntry, remaining: Duration) -> Busy {
    // An entry without a lease does not expire.
    let retry_after = if seen.lease == 0 { POLL } else { remaining.clamp(SHORTEST_POLL, POLL) };
    Busy::new(seen.holder(remaining), seen.token(), retry_after)
}

/// The same without a query of the remaining TTL.
pub(super) fn busy_untimed(first: Option<StoredEntry>) -> Busy {
    let token = first.as_ref().map_or(FencingToken::ZERO, StoredEntry::token);
    let holder = first.and_then(|first| first.holder(Duration::ZERO));
    Busy::new(holder, token, POLL)
}
