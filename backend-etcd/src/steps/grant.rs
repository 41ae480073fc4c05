//! The common part of a grant at once and a grant after a wait.

use std::{sync::Arc, time::Duration};

use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnResponse};
use lock_core::{Busy, Error, FencingToken, Grant, Mode, Request, check_lease};

use crate::{
    keys::{
        entry::{Held, QueueEntry, Seen, token},
        settings::Record,
    },
    restore::HistoryToken,
    rpc::{Lease, put, revision},
    store::Store,
    tunables::{POLL, SHORTEST_POLL},
};

/// A transaction that acquires a lock, still without its steps for a refusal.
pub(super) struct AcquireTxn {
    pub(super) txn: Txn,
    pub(super) entry: QueueEntry,
    /// The offset as it stands in the settings.
    pub(super) known: i64,
    /// The settings that it writes, if it does.
    pub(super) record: Option<Record>,
}

/// The transaction that makes an entry where none is, with the offset that its token needs.
pub(super) fn acquire_txn(
    store: &Store,
    request: &Request,
    key: &str,
    lease: Lease,
) -> Result<AcquireTxn, Error> {
    let (restore, layout) = (&store.restore, &store.layout);
    let settings = restore.settings();
    // The caller may know other settings; the transaction compares these.
    check_lease(request.lease, settings.record.longest_lease())?;
    let lifted = settings.lift(settings.now + 1, request.floor);
    // An operator may have started the tokens anew: the next attempt looks.
    let lifted = lifted.inspect_err(|_| restore.history.doubt())?;
    let offset = lifted.unwrap_or(settings.record.offset);
    let entry = QueueEntry::new(request, offset, true);
    let mut puts = puts(store, request, key, &entry, lease);
    let record =
        lifted.map(|offset| restore.history.keep(Record { offset, ..settings.record.clone() }));
    puts.extend(record.as_ref().map(|record| record.put(layout)));
    let mut may = vec![
        layout.no_obstacle(&request.name, request.mode),
        settings.unchanged(layout),
        layout.not_quarantined(),
        layout.not_abandoned(request.owner),
    ];
    if request.mode == Mode::Shared {
        may.push(layout.is_no_reader(request.owner));
        // Another reader may be there by the same key: one whose release failed.
        may.push(Compare::create_revision(key, CompareOp::Equal, 0));
    }
    let txn = Txn::new().when(may).and_then(puts);
    Ok(AcquireTxn { txn, entry, known: settings.record.offset, record })
}

/// Makes the entry of a request. A writer that repeats a request finds its entry in its way. A reader does not, and has
/// another key for it.
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

/// The grant of a transaction that succeeded; `None` if the cluster was restored meanwhile, and the grant was given
/// back.
pub(super) async fn confirm(
    store: &Store,
    request: &Request,
    token: &HistoryToken,
    answer: &TxnResponse,
    held: Held,
    record: Option<Record>,
) -> Result<Option<Grant>, Error> {
    if !store.restore.stands(token, answer, held.lease.id).await? {
        return Ok(None);
    }
    let now = revision(answer);
    store.restore.note(record.map(|record| (record, now)), now);
    Ok(Some(granted(request, held)))
}

/// A repeat of an attempt that was granted: the lease is extended, and the token is the same. `None` if the grant is
/// gone, its owner was abandoned, or a quarantine runs.
pub(super) async fn repeat(
    store: &Store,
    request: &Request,
    seen: Seen,
) -> Result<Option<Grant>, Error> {
    let (Some(entry), Ok(key)) = (seen.entry, String::from_utf8(seen.key)) else {
        return Ok(None);
    };
    let (restore, layout) = (&store.restore, &store.layout);
    let token = restore.history_token().await?;
    let same = Compare::create_revision(key.as_str(), CompareOp::Equal, seen.created);
    let may = [same, layout.not_quarantined(), layout.not_abandoned(request.owner)];
    let answer = store.rpc.txn(Txn::new().when(may)).await?;
    if !answer.succeeded() || !restore.history.is_same(&store.rpc, &token, &answer) {
        return Ok(None);
    }
    let Some(lease) = store.keepalives.extend(seen.lease).await? else { return Ok(None) };
    let (seat, created) = (store.seats.found(key), seen.created);
    let held = Held { seat, lease, created, entry, history: token.history };
    Ok(Some(granted(request, held)))
}

fn granted(request: &Request, held: Held) -> Grant {
    let mut grant = Grant::new(request, token(held.entry.offset, held.created));
    (grant.lease, grant.from) = (held.lease.ttl, held.lease.from);
    grant.with_mode(request.mode).with_state(Arc::new(held))
}

pub(super) fn is_ours(seen: &Seen, request: &Request) -> bool {
    let entry = seen.entry.as_ref();
    entry.is_some_and(|entry| entry.owner == request.owner && entry.granted && !entry.kept)
}

/// The entry that stands first, with the remaining TTL of its lease.
pub(super) async fn busy(store: &Store, seen: Option<Seen>) -> Result<Busy, Error> {
    match seen {
        Some(seen) => Ok(busy_for(&seen, store.rpc.remaining(seen.lease).await?)),
        None => Ok(busy_untimed(None)),
    }
}

pub(super) fn busy_for(seen: &Seen, remaining: Duration) -> Busy {
    // An entry without a lease does not end by itself.
    let retry_after = if seen.lease == 0 { POLL } else { remaining.clamp(SHORTEST_POLL, POLL) };
    Busy::new(seen.holder(remaining), seen.token(), retry_after)
}

/// The same without the remaining TTL.
pub(super) fn busy_untimed(first: Option<Seen>) -> Busy {
    let token = first.as_ref().map_or(FencingToken::ZERO, Seen::token);
    let holder = first.and_then(|first| first.holder(Duration::ZERO));
    Busy::new(holder, token, POLL)
}
