//! Adds an entry to etcd's own queue, which serves the oldest create revision first.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, GetResponse, Txn, TxnOp, TxnOpResponse, TxnResponse};
use lock_core::{Attempt, Enqueued, Error, ErrorKind, Grant, Mode, Mutex, Quarantined, Request};

use super::{
    claim::claim,
    grant::{AcquireTxn, acquire_txn, busy, busy_untimed, confirm, puts},
};
use crate::{
    keys::{
        entry::{EnqueueAttempt, Held, LeaseUse, QueueEntry, StoredEntry},
        reserved::ReservedKeys,
        settings::Record,
    },
    restore::{HistoryToken, held_back},
    rpc::{Failure, gets, incomplete, revision},
    store::Store,
    tunables::{CROWDED, TRIES},
    waiting::{AbandonedWaiter, EtcdWaiter, WaiterEntry},
};

/// The outcome of an enqueue.
pub(super) enum Queued {
    Granted(Grant),
    /// An entry was made. The second value is the first entry of the queue.
    Waiting(EtcdWaiter, Option<StoredEntry>),
    /// The owner was abandoned: no entry was made.
    Refused(Option<StoredEntry>),
    Quarantined(Quarantined),
}

impl Queued {
    /// What a repeat of the request needs to find the entry, if one was made.
    pub(super) fn attempt(&self) -> Option<EnqueueAttempt> {
        match self {
            Self::Granted(grant) => {
                let held: &Held = grant.state.as_ref()?.downcast_ref()?;
                Some(EnqueueAttempt { lease: held.lease, reserved: Arc::clone(&held.reserved) })
            }
            Self::Waiting(waiter, _) => Some(waiter.entry.attempt()),
            Self::Refused(_) | Self::Quarantined(_) => None,
        }
    }

    /// Whether this attempt did not use its lease.
    fn made_nothing(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Quarantined(_))
    }
}

/// Takes the lock if there is no entry, and otherwise adds one to the queue, in one transaction.
pub(crate) async fn enqueue(store: &Store, request: &Request) -> Result<Enqueued, Error> {
    Ok(match join_queue(store, request).await? {
        Queued::Granted(grant) => Enqueued::Granted(grant),
        Queued::Quarantined(held_back) => Enqueued::Quarantined(held_back),
        Queued::Refused(first) => {
            Enqueued::Waiting(Box::new(AbandonedWaiter), busy(store, first).await?)
        }
        // No other entry may block it: the settings had changed, or an earlier attempt made the
        // entry.
        Queued::Waiting(waiter, first) if may_be_next(request, &waiter, first.as_ref()) => {
            claim_or_wait(store, request, waiter, first).await
        }
        Queued::Waiting(waiter, first) => {
            let busy = busy(store, first.clone()).await;
            Enqueued::Waiting(Box::new(waiter), busy.unwrap_or_else(|_| busy_untimed(first)))
        }
    })
}

/// Whether its entry is the first, or it is a reader that follows no known writer.
fn may_be_next(request: &Request, waiter: &EtcdWaiter, first: Option<&StoredEntry>) -> bool {
    first.is_none_or(|first| first.created == waiter.entry.created)
        || request.mode == Mode::Shared && !waiter.entry.follows()
}

/// Claims an entry that was just made. If that fails, the entry stays in the queue and waits.
pub(super) async fn claim_or_wait(
    store: &Store,
    request: &Request,
    waiter: EtcdWaiter,
    first: Option<StoredEntry>,
) -> Enqueued {
    match claim(store, request).await {
        Ok(Attempt::Granted(grant)) => Enqueued::Granted(grant),
        Ok(Attempt::Busy(busy)) => Enqueued::Waiting(Box::new(waiter), busy),
        // The core tries again.
        Ok(Attempt::Quarantined(_)) | Err(_) => {
            Enqueued::Waiting(Box::new(waiter), busy_untimed(first))
        }
    }
}

/// Makes an entry. A repeat of the same request finds the entry of the first try.
pub(super) async fn join_queue(store: &Store, request: &Request) -> Result<Queued, Error> {
    store.restore.check_request(request, Record::longest_lease).await?;
    let is_repeat = store.attempts.get(request.owner).is_some();
    // Keys that other entries use, or may use. They stay reserved until this request has its entry.
    let mut occupied = Vec::new();
    for _ in 0..TRIES {
        let token = store.restore.history_token().await?;
        // An earlier attempt may have made its entry. This one finds it only with the same key.
        let attempt = match store.attempts.get(request.owner) {
            Some(attempt) => attempt,
            None => {
                let reserve = match request.mode {
                    Mode::Shared if !occupied.is_empty() => ReservedKeys::random,
                    _ => ReservedKeys::next,
                };
                let keys = &store.reserved_keys;
                let reserved = reserve(keys, &store.layout, &request.name, request.mode);
                let lease = store.leases.take(request.lease, token.history).await?;
                EnqueueAttempt { lease, reserved }
            }
        };
        store.attempts.note(request.owner, attempt.clone());
        match try_join_queue(store, request, &attempt, &token).await {
            // An earlier attempt may have made its entry, or may still make it. That entry lives by
            // this lease, so no other entry may use the lease, and a later repeat must find the
            // entry.
            Ok(Some(queued @ Queued::Quarantined(_))) if is_repeat => return Ok(queued),
            Ok(Some(queued)) => {
                store.attempts.forget(request.owner);
                if queued.made_nothing() && !is_repeat {
                    store.leases.put_back(attempt.lease, token.history);
                }
                return Ok(queued);
            }
            Ok(None) | Err(Failure::LeaseGone) => {
                store.attempts.forget(request.owner);
                occupied.push(attempt.reserved);
            }
            Err(Failure::Error(error)) => {
                if !is_repeat && !error.is_ambiguous() {
                    store.attempts.forget(request.owner);
                }
                return Err(error);
            }
        }
    }
    if !is_repeat {
        store.attempts.forget(request.owner);
    }
    Err(Error::new(ErrorKind::Unavailable, "etcd ended the lease again and again"))
}

/// The key range that is watched for an entry: all entries of the name, whose watch also serves the
/// next turn, or only its predecessor. A reader watches only the last writer before it, since other
/// readers do not block it. A writer with many entries before it watches only its predecessor, so
/// that etcd need not report each release to many clients.
fn range(
    store: &Store,
    request: &Request,
    before: i64,
    predecessor: Option<&(String, i64)>,
) -> String {
    let whole = store.layout.entries(&request.name);
    match predecessor {
        Some((key, _)) if before >= CROWDED || request.mode == Mode::Shared => {
            store.watch.drop_if_idle(&whole);
            key.clone()
        }
        _ => whole,
    }
}

/// `None` if it must be tried again with another lease and key.
async fn try_join_queue(
    store: &Store,
    request: &Request,
    attempt: &EnqueueAttempt,
    token: &HistoryToken,
) -> Result<Option<Queued>, Failure> {
    let (restore, layout) = (&store.restore, &store.layout);
    let name = &request.name;
    let EnqueueAttempt { mut lease, reserved } = attempt.clone();
    let key = reserved.key.clone();
    let AcquireTxn { txn, entry: granted, known, record } =
        acquire_txn(store, request, &key, lease)?;
    // A waiting entry has the offset of the settings: a raised one is not in the settings yet, and
    // others read the entry.
    let entry = QueueEntry::new(request, known, false);
    let own = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
    let mut steps = puts(store, request, &key, &entry, lease);
    steps.push(layout.get_newest(name, request.mode, 2));
    let wait = Txn::new()
        .when([own, layout.not_quarantined(), layout.not_abandoned(request.owner)])
        .and_then(steps)
        .or_else([TxnOp::get(key.as_str(), None)]);
    let txn = txn.or_else([
        TxnOp::txn(wait),
        layout.get_first(name),
        layout.get_settings(),
        layout.get_quarantine(),
        layout.get_tombstone(request.owner),
    ]);
    let answer = store.rpc.txn(txn).await?;
    let now = revision(&answer);
    if answer.succeeded() {
        let (created, history) = (now, token.history);
        // An earlier try of this request may arrive late, with the same lease. It must be gone.
        let lease_use = Mutex::new(LeaseUse::Own);
        let held = Held { reserved, lease, created, entry: granted, history, lease_use };
        let grant = confirm(store, request, token, &answer, held, record).await?;
        return Ok(grant.map(Queued::Granted));
    }
    let got = gets(&answer);
    let (Some(nested), [first, found, quarantine, tombstone]) = (nested(&answer), &got[..]) else {
        return Err(incomplete().into());
    };
    if let Err(error) = restore.note_found(found, now) {
        // The settings have another version: the entry that was made must not stay.
        if nested.succeeded() {
            store.rpc.revoke(lease.id).await?;
        }
        return Err(error.into());
    }
    if let Some(held_back) = held_back(&store.rpc, quarantine).await? {
        return Ok(Some(Queued::Quarantined(held_back)));
    }
    let first = StoredEntry::from_get(first);
    if !tombstone.kvs().is_empty() {
        return Ok(Some(Queued::Refused(first)));
    }
    let read = gets(&nested);
    let (created_with, predecessor, before) = if nested.succeeded() {
        // Newest first: the new entry, unless it is a reader's, and then its predecessor.
        let mut two = read.iter().flat_map(GetResponse::kvs).map(StoredEntry::read);
        let before = two.find(|seen| seen.created < now);
        let others = read
            .first()
            .map_or(0, |seen| seen.count() - i64::from(request.mode == Mode::Exclusive));
        ((now, entry.offset), before.map(|seen| seen.to_follow()), others)
    } else {
        let ours = read.first().and_then(StoredEntry::from_get).ok_or_else(incomplete)?;
        if !ours.belongs_to(request.owner) || ours.is_kept() {
            return Ok(None);
        }
        if ours.lease != lease.id {
            // The entry lives by another lease: that one must be kept alive.
            let Some(its) = store.keepalives.extend(ours.lease).await? else { return Ok(None) };
            lease = its;
        }
        ((ours.created, ours.entry.map_or(0, |entry| entry.offset)), None, 0)
    };
    let entries = layout.entries(name);
    let range = range(store, request, before, predecessor.as_ref());
    let entry =
        WaiterEntry::new(request.owner, entries, reserved, created_with, lease, predecessor);
    let Store { waiters, keepalives, rpc, watch, .. } = store;
    let waiter = EtcdWaiter::start(entry, waiters, keepalives, rpc, watch);
    // After the entry was added to the waiters: a watch that begins wakes the waiters that it
    // finds.
    waiter.watch_range(watch.range(range));
    Ok(Some(Queued::Waiting(waiter, first)))
}

/// The answer of the nested transaction.
fn nested(answer: &TxnResponse) -> Option<TxnResponse> {
    answer.op_responses().into_iter().find_map(|response| match response {
        TxnOpResponse::Txn(nested) => Some(nested),
        _ => None,
    })
}
