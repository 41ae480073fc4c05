//! An entry in etcd's own queue: the oldest create revision is served.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, GetResponse, Txn, TxnOp, TxnOpResponse, TxnResponse};
use lock_core::{
    Attempt, Enqueued, Error, ErrorKind, FencingToken, Grant, Mode, Quarantined, Request,
};

use super::{
    claim::claim,
    grant::{AcquireTxn, acquire_txn, busy, busy_untimed, confirm, puts},
};
use crate::{
    keys::{
        entry::{EnqueueAttempt, Held, QueueEntry, Seen},
        seats::Seats,
        settings::Record,
    },
    restore::held_back,
    rpc::{Failure, gets, incomplete, revision},
    store::Store,
    tunables::{CROWDED, TRIES},
    waiting::{EtcdWaiter, RefusedWaiter, WaiterEntry},
};

/// The outcome of an enqueue.
pub(super) enum Queued {
    Granted(Grant),
    /// An entry was made; the entry that stands first comes with it.
    Waiting(EtcdWaiter, Option<Seen>),
    /// The owner was abandoned: no entry was made.
    Refused(Option<Seen>),
    Quarantined(Quarantined),
}

impl Queued {
    /// For a repeat, if an entry was made.
    pub(super) fn attempt(&self) -> Option<EnqueueAttempt> {
        match self {
            Self::Granted(grant) => {
                let held: &Held = grant.state.as_ref()?.downcast_ref()?;
                Some(EnqueueAttempt { lease: held.lease, seat: Arc::clone(&held.seat) })
            }
            Self::Waiting(waiter, _) => Some(waiter.entry.attempt()),
            Self::Refused(_) | Self::Quarantined(_) => None,
        }
    }

    /// Whether this attempt has left its lease unused.
    fn made_nothing(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Quarantined(_))
    }
}

/// Takes the lock if no entry is there, and otherwise makes one, in one transaction.
pub(crate) async fn enqueue(store: &Store, request: &Request) -> Result<Enqueued, Error> {
    Ok(match line_up(store, request).await? {
        Queued::Granted(grant) => Enqueued::Granted(grant),
        Queued::Quarantined(held_back) => Enqueued::Quarantined(held_back),
        Queued::Refused(first) => {
            Enqueued::Waiting(Box::new(RefusedWaiter), busy(store, first).await?)
        }
        // The settings had changed, or an earlier attempt made the entry.
        Queued::Waiting(waiter, first) if may_be_next(request, &waiter, first.as_ref()) => {
            claim_or_wait(store, request, waiter, first).await
        }
        Queued::Waiting(waiter, first) => {
            let busy = busy(store, first.clone()).await;
            Enqueued::Waiting(Box::new(waiter), busy.unwrap_or_else(|_| busy_untimed(first)))
        }
    })
}

/// Whether no other entry stands first, or is known to keep a reader out.
fn may_be_next(request: &Request, waiter: &EtcdWaiter, first: Option<&Seen>) -> bool {
    first.is_none_or(|first| first.created == waiter.entry.created)
        || request.mode == Mode::Shared && !waiter.entry.follows()
}

/// Claims an entry that was just made. If that fails, the entry is there, and waits.
pub(super) async fn claim_or_wait(
    store: &Store,
    request: &Request,
    waiter: EtcdWaiter,
    first: Option<Seen>,
) -> Enqueued {
    match claim(store, request).await {
        Ok(Attempt::Granted(grant)) => Enqueued::Granted(grant),
        Ok(Attempt::Busy(busy)) => Enqueued::Waiting(Box::new(waiter), busy),
        // The core asks again.
        Ok(Attempt::Quarantined(_)) | Err(_) => {
            Enqueued::Waiting(Box::new(waiter), busy_untimed(first))
        }
    }
}

/// Makes an entry; repeats of one request find the entry of the first.
pub(super) async fn line_up(store: &Store, request: &Request) -> Result<Queued, Error> {
    if request.floor > FencingToken::ZERO {
        store.restore.check_token(request.floor)?;
    }
    store.restore.allow(request.lease, Record::longest_lease).await?;
    let is_repeat = store.attempts.get(request.owner).is_some();
    // Keys of entries whose end is not known here.
    let mut occupied = Vec::new();
    for _ in 0..TRIES {
        // An earlier attempt may have made its entry: only with the same key does this one find it.
        let attempt = match store.attempts.get(request.owner) {
            Some(attempt) => attempt,
            None => {
                let take = match request.mode {
                    Mode::Shared if !occupied.is_empty() => Seats::elsewhere,
                    _ => Seats::take,
                };
                let seat = take(&store.seats, &store.layout, &request.name, request.mode);
                EnqueueAttempt { lease: store.leases.take(request.lease).await?, seat }
            }
        };
        store.attempts.note(request.owner, attempt.clone());
        match try_line_up(store, request, &attempt).await {
            // An earlier attempt may have made its entry, or may make it later. The entry lives by this lease:
            // no other may, and a later repeat must find it.
            Ok(Some(lined @ Queued::Quarantined(_))) if is_repeat => return Ok(lined),
            Ok(Some(lined)) => {
                store.attempts.forget(request.owner);
                if lined.made_nothing() && !is_repeat {
                    store.leases.put_back(attempt.lease);
                }
                return Ok(lined);
            }
            Ok(None) | Err(Failure::LeaseGone) => {
                store.attempts.forget(request.owner);
                occupied.push(attempt.seat);
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

/// What is watched for an entry: its name, whose watch serves the next turn, too; or only the entry that it follows. A
/// reader follows the last writer, and the ends of other readers do not concern it. Where many entries stand before a
/// writer's, each end would be told to many clients.
fn range(
    store: &Store,
    request: &Request,
    before: i64,
    predecessor: Option<&(String, i64)>,
) -> String {
    let whole = store.layout.entries(&request.name);
    match predecessor {
        Some((key, _)) if before >= CROWDED || request.mode == Mode::Shared => {
            store.watch.let_go(&whole);
            key.clone()
        }
        _ => whole,
    }
}

/// `None` if it is to be tried anew, with another lease and key.
async fn try_line_up(
    store: &Store,
    request: &Request,
    attempt: &EnqueueAttempt,
) -> Result<Option<Queued>, Failure> {
    let (restore, layout) = (&store.restore, &store.layout);
    let token = restore.history_token().await?;
    let name = &request.name;
    let EnqueueAttempt { mut lease, seat } = attempt.clone();
    let key = seat.key.clone();
    let AcquireTxn { txn, entry: granted, known, record } =
        acquire_txn(store, request, &key, lease)?;
    // With the offset of the settings: a lifted one is not in them, and others read the entry's.
    let entry = QueueEntry::new(request, known, false);
    let own = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
    let mut line_up = puts(store, request, &key, &entry, lease);
    line_up.push(layout.get_newest(name, request.mode, 2));
    let wait = Txn::new()
        .when([own, layout.not_quarantined(), layout.not_abandoned(request.owner)])
        .and_then(line_up)
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
        let held = Held { seat, lease, created: now, entry: granted, history: token.history };
        let grant = confirm(store, request, &token, &answer, held, record).await?;
        return Ok(grant.map(Queued::Granted));
    }
    let got = gets(&answer);
    let (Some(nested), [first, found, quarantine, tombstone]) = (nested(&answer), &got[..]) else {
        return Err(incomplete().into());
    };
    if let Err(error) = restore.note_found(found, now) {
        // The settings are of another version: the entry that was made would be in the way.
        if nested.succeeded() {
            store.rpc.revoke(lease.id).await?;
        }
        return Err(error.into());
    }
    if let Some(held_back) = held_back(&store.rpc, quarantine).await? {
        return Ok(Some(Queued::Quarantined(held_back)));
    }
    let first = Seen::only(first);
    if !tombstone.kvs().is_empty() {
        return Ok(Some(Queued::Refused(first)));
    }
    let read = gets(&nested);
    let (stands, predecessor, before) = if nested.succeeded() {
        // Newest first: ours, unless it is a reader's, and the one before it.
        let mut two = read.iter().flat_map(GetResponse::kvs).map(Seen::read);
        let before = two.find(|seen| seen.created < now);
        let others = read
            .first()
            .map_or(0, |seen| seen.count() - i64::from(request.mode == Mode::Exclusive));
        ((now, entry.offset), before.map(|seen| seen.to_follow()), others)
    } else {
        let ours = read.first().and_then(Seen::only).ok_or_else(incomplete)?;
        if !ours.is_of(request.owner) || ours.is_kept() {
            return Ok(None);
        }
        if ours.lease != lease.id {
            // The lease that it lives by is kept alive, and no other.
            let Some(its) = store.keepalives.extend(ours.lease).await? else { return Ok(None) };
            lease = its;
        }
        ((ours.created, ours.entry.map_or(0, |entry| entry.offset)), None, 0)
    };
    let entries = layout.entries(name);
    let range = range(store, request, before, predecessor.as_ref());
    let entry = WaiterEntry::new(request.owner, entries, seat, stands, lease, predecessor);
    let Store { waiters, keepalives, rpc, watch, .. } = store;
    let waiter = EtcdWaiter::start(entry, waiters, keepalives, rpc, watch);
    // Behind the entry: a watch that begins wakes those that it finds.
    waiter.hear(watch.range(rpc, layout.prefix(), waiters, range));
    Ok(Some(Queued::Waiting(waiter, first)))
}

/// The answer of the transaction within the transaction.
fn nested(answer: &TxnResponse) -> Option<TxnResponse> {
    answer.op_responses().into_iter().find_map(|response| match response {
        TxnOpResponse::Txn(nested) => Some(nested),
        _ => None,
    })
}
