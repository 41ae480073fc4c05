//! The attempt of a waiter whose turn may have come.

use std::sync::{Arc, atomic::Ordering};

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use lock_core::{
    Attempt, Busy, Env as _, Error, ErrorKind, Mode, Mutex, Request, SystemEnv, check_lease,
};

use super::grant::{busy, busy_for, confirm, is_ours, repeat};
use crate::{
    keys::{
        entry::{Held, LeaseUse, QueueEntry, StoredEntry},
        settings::Record,
    },
    restore::held_back,
    rpc::{Failure, gets, incomplete, put, revision},
    store::Store,
    tunables::{FAR, TRIES},
    waiting::WaiterEntry,
};

/// The state of the queue, as a waiter's entry finds it.
struct TurnCheck {
    /// The first entry of the queue.
    first: Option<StoredEntry>,
    /// The entry itself, if its turn has come.
    turn: Option<StoredEntry>,
    /// Whether the entry is gone.
    gone: bool,
    /// How many entries block it, counted up to [`FAR`].
    distance: u32,
    /// The condition that its turn has come. The transaction that claims it compares this.
    condition: Compare,
}

/// The attempt of an owner whose entry this client made: the lock is granted if no earlier entry
/// blocks it.
pub(crate) async fn claim(store: &Store, request: &Request) -> Result<Attempt, Error> {
    store.restore.check_request(request, Record::longest_held).await?;
    let is_reader = request.mode == Mode::Shared;
    let mut is_first = false;
    for _ in 0..TRIES {
        let Some(waiting) = store.waiters.get(request.owner) else { break };
        // A check costs etcd no write. A writer whose predecessor is gone needs no check, unless
        // its transaction would write and may be refused because the offset was raised: a refused
        // write costs a flush. The condition of a reader depends on the writers behind it, so a
        // reader always checks.
        let is_next = waiting.predecessor_gone.swap(false, Ordering::AcqRel) && !is_reader;
        let condition = if is_first || is_next && can_skip_check(store, &waiting, request) {
            store.layout.no_earlier_obstacle(&request.name, request.mode, waiting.created)
        } else {
            let found = check_turn(store, &waiting, request).await?;
            let Some(seen) = found.turn else {
                if found.gone {
                    waiting.lose();
                }
                let mut busy = busy_behind(store, &waiting, found.first).await?;
                busy.retry_after *= found.distance.max(1);
                return Ok(Attempt::Busy(busy));
            };
            if is_ours(&seen, request)
                && let Some(grant) = repeat(store, request, seen).await?
            {
                return Ok(Attempt::Granted(grant));
            }
            found.condition
        };
        match try_claim(store, request, &waiting, condition).await {
            Ok(Some(attempt)) => return Ok(attempt),
            Ok(None) => is_first = !is_reader && !waiting.is_lost(),
            Err(Failure::LeaseGone) => {
                waiting.lose();
                is_first = false;
            }
            Err(Failure::Error(error)) => return Err(error),
        }
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        "the queue entry was lost, or others changed the settings",
    ))
}

/// Claims the lock for a waiter's entry. `None` if another check and claim may succeed.
async fn try_claim(
    store: &Store,
    request: &Request,
    waiting: &WaiterEntry,
    condition: Compare,
) -> Result<Option<Attempt>, Failure> {
    let (restore, layout) = (&store.restore, &store.layout);
    let token = restore.history_token().await?;
    // Until its predecessor is known again, the deletion of any entry of its name wakes it.
    waiting.follow_none();
    let settings = restore.settings();
    // The longest lease may have been shortened while this entry waited. Earlier leases are waited
    // out, so they count.
    check_lease(request.lease, settings.record.longest_held())?;
    let raised = settings.raised_offset(waiting.created, request.floor);
    let raised = raised.inspect_err(|_| restore.history.doubt())?;
    let offset = raised.unwrap_or(settings.record.offset);
    // Read before the transaction is sent: a keepalive that is confirmed later proves nothing about
    // the grant.
    let lease = waiting.lease();
    // A grant uses the current offset, which must be in the settings. If the entry already has this
    // offset, it is only read, which costs etcd no flush.
    let is_written = raised.is_none() && waiting.offset == offset;
    let entry = QueueEntry::new(request, offset, !is_written);
    let (mut steps, mut record) = (Vec::new(), None);
    if is_written {
        steps.push(TxnOp::get(waiting.key(), None));
    } else {
        steps.push(put(waiting.key(), entry.to_bytes(), lease.id));
        record = raised.map(|offset| restore.history.with_offset(&settings.record, offset));
        steps.extend(record.as_ref().map(|record| record.put(layout)));
    }
    let txn = Txn::new()
        .when([
            // The mod revision, not only the create revision: after a grant or a release, another
            // attempt has written the entry, and it may live by another lease.
            Compare::mod_revision(waiting.key(), CompareOp::Equal, waiting.created),
            condition,
            settings.unchanged(layout),
            layout.not_quarantined(),
            layout.not_abandoned(request.owner),
        ])
        .and_then(steps)
        .or_else([
            TxnOp::get(waiting.key(), None),
            layout.get_first(&request.name),
            layout.get_before(&request.name, request.mode, waiting.created),
            layout.get_settings(),
            layout.get_quarantine(),
            layout.get_tombstone(request.owner),
        ]);
    let answer = store.rpc.txn(txn).await?;
    let now = revision(&answer);
    if answer.succeeded() {
        let reserved = Arc::clone(&waiting.reserved);
        let (created, history) = (waiting.created, token.history);
        let lease_use = Mutex::new(LeaseUse::Own);
        let held = Held { reserved, lease, created, entry, history, lease_use };
        let grant = confirm(store, request, &token, &answer, held, record).await?;
        if grant.is_none() {
            waiting.lose();
        }
        return Ok(grant.map(Attempt::Granted));
    }
    let got = gets(&answer);
    let [own, first, before, found, quarantine, tombstone] = &got[..] else {
        return Err(incomplete().into());
    };
    restore.note_found(found, now)?;
    let own = StoredEntry::from_get(own).filter(|seen| seen.created == waiting.created);
    let is_repeat = own.as_ref().is_some_and(|seen| is_ours(seen, request));
    let there = is_repeat || own.as_ref().is_some_and(|seen| seen.modified == seen.created);
    if !there {
        waiting.lose();
    }
    if let Some(held_back) = held_back(&store.rpc, quarantine).await? {
        return Ok(Some(Attempt::Quarantined(held_back)));
    }
    if let Some(seen) = own.filter(|_| is_repeat && tombstone.kvs().is_empty()) {
        // An earlier attempt was granted, but its answer was lost.
        return Ok(repeat(store, request, seen).await?.map(Attempt::Granted));
    }
    let before = StoredEntry::from_get(before);
    if there && before.is_none() && tombstone.kvs().is_empty() {
        return Ok(None);
    }
    if let Some(before) = before {
        store.waiters.follow(waiting, before.to_follow());
    }
    Ok(Some(Attempt::Busy(busy(store, StoredEntry::from_get(first)).await?)))
}

/// Whether a claim without a check is cheap: it writes nothing, or the settings were confirmed a
/// moment ago.
fn can_skip_check(store: &Store, waiting: &WaiterEntry, request: &Request) -> bool {
    let settings = store.restore.settings();
    let raised = settings.raised_offset(waiting.created, request.floor);
    matches!(raised, Ok(None)) && settings.record.offset == waiting.offset || !settings.is_old()
}

/// Like [`busy`], for a waiter that polls: while the holder is the same, it does not query the
/// holder's lease each time.
async fn busy_behind(
    store: &Store,
    waiting: &WaiterEntry,
    first: Option<StoredEntry>,
) -> Result<Busy, Error> {
    let Some(first) = first else { return busy(store, None).await };
    let now = SystemEnv.now();
    let remaining = match waiting.known_ttl(first.lease, now) {
        Some(remaining) => remaining,
        None => {
            let remaining = store.rpc.remaining(first.lease).await?;
            waiting.note_ttl(first.lease, now + remaining);
            remaining
        }
    };
    Ok(busy_for(&first, remaining))
}

/// Reads whether the turn of an entry has come.
async fn check_turn(
    store: &Store,
    waiting: &WaiterEntry,
    request: &Request,
) -> Result<TurnCheck, Error> {
    let (layout, name, mode) = (&store.layout, &request.name, request.mode);
    let created = waiting.created;
    // The settings too: the transaction that claims compares them.
    let reads = [
        layout.get_first(name),
        layout.get_settings(),
        layout.keys_before(name, mode, created, FAR),
        TxnOp::get(waiting.key(), None),
        layout.get_newest(name, mode, 1),
    ];
    let answer = store.rpc.txn(Txn::new().and_then(reads)).await?;
    let got = gets(&answer);
    let [first, found, before, own, newest] = &got[..] else { return Err(incomplete()) };
    store.restore.note_found(found, revision(&answer))?;
    if let Some(before) = StoredEntry::from_get(before) {
        store.waiters.follow(waiting, before.to_follow());
    }
    let own = StoredEntry::from_get(own).filter(|seen| seen.created == created);
    let condition = match newest.kvs().is_empty() {
        true => layout.no_obstacle(name, mode),
        false => layout.no_earlier_obstacle(name, mode, created),
    };
    Ok(TurnCheck {
        first: StoredEntry::from_get(first),
        gone: own.is_none(),
        turn: own.filter(|_| before.kvs().is_empty()),
        distance: u32::try_from(before.kvs().len()).unwrap_or(FAR),
        condition,
    })
}
