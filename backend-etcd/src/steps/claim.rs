//! The attempt of a waiter whose turn may have come.

use std::sync::{Arc, atomic::Ordering};

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use lock_core::{
    Attempt, Busy, Env as _, Error, ErrorKind, FencingToken, Mode, Request, SystemEnv, check_lease,
};

use super::grant::{busy, busy_for, confirm, is_ours, repeat};
use crate::{
    keys::{
        entry::{Held, QueueEntry, Seen},
        settings::Record,
    },
    restore::held_back,
    rpc::{Failure, gets, incomplete, put, revision},
    store::Store,
    tunables::{FAR, TRIES},
    waiting::WaiterEntry,
};

/// What a look from an entry found.
struct Look {
    /// The entry that stands first.
    first: Option<Seen>,
    /// The entry itself, if its turn has come.
    turn: Option<Seen>,
    /// Whether the entry is gone.
    gone: bool,
    /// How many keep it out, counted up to [`FAR`].
    distance: u32,
    /// The condition that its turn has come, and that it is still so.
    still: Compare,
}

/// The attempt of an owner that has an entry here: the lock is granted if no entry before it keeps it out.
pub(crate) async fn claim(store: &Store, request: &Request) -> Result<Attempt, Error> {
    if request.floor > FencingToken::ZERO {
        store.restore.check_token(request.floor)?;
    }
    store.restore.allow(request.lease, Record::longest_held).await?;
    let is_reader = request.mode == Mode::Shared;
    let mut is_first = false;
    for _ in 0..TRIES {
        let Some(waiting) = store.waiters.get(request.owner) else { break };
        // A look costs etcd no write. A writer whose predecessor is gone needs none, unless it must write and
        // may be refused after a raise of the offset: a refusal costs a flush. A reader's condition depends on
        // the writers behind it, so that it looks.
        let hinted = waiting.hinted.swap(false, Ordering::AcqRel);
        let still = if is_first || !is_reader && hinted && is_sure_of(store, &waiting, request) {
            store.layout.no_earlier_obstacle(&request.name, request.mode, waiting.created)
        } else {
            let look = look_from(store, &waiting, request).await?;
            let Some(seen) = look.turn else {
                if look.gone {
                    waiting.lose();
                }
                let mut busy = busy_behind(store, &waiting, look.first).await?;
                busy.retry_after *= look.distance.max(1);
                return Ok(Attempt::Busy(busy));
            };
            if is_ours(&seen, request)
                && let Some(grant) = repeat(store, request, seen).await?
            {
                return Ok(Attempt::Granted(grant));
            }
            look.still
        };
        match try_claim(store, request, &waiting, still).await {
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

/// `None` if it is worth another look.
async fn try_claim(
    store: &Store,
    request: &Request,
    waiting: &WaiterEntry,
    still: Compare,
) -> Result<Option<Attempt>, Failure> {
    let (restore, layout) = (&store.restore, &store.layout);
    let token = restore.history_token().await?;
    // Until its predecessor is known, any end that it is told of wakes it.
    waiting.follow_none();
    let settings = restore.settings();
    // The longest may have been made shorter while it waited: then leases of before are waited out, too.
    check_lease(request.lease, settings.record.longest_held())?;
    let lifted = settings.lift(waiting.created, request.floor);
    let lifted = lifted.inspect_err(|_| restore.history.doubt())?;
    let offset = lifted.unwrap_or(settings.record.offset);
    // Confirmed before the transaction leaves: a later confirmation proves no more.
    let lease = waiting.lease();
    // Every grant takes the offset of its time, which must then stand in the settings. An entry that has
    // it already is only read, which costs etcd no flush.
    let is_written = lifted.is_none() && waiting.offset == offset;
    let entry = QueueEntry::new(request, offset, !is_written);
    let (mut steps, mut record) = (Vec::new(), None);
    if is_written {
        steps.push(TxnOp::get(waiting.key(), None));
    } else {
        steps.push(put(waiting.key(), entry.to_bytes(), lease.id));
        let lift = |offset| Record { offset, ..settings.record.clone() };
        record = lifted.map(|offset| restore.history.keep(lift(offset)));
        steps.extend(record.as_ref().map(|record| record.put(layout)));
    }
    let txn = Txn::new()
        .when([
            // Not only that it is this entry: once it was granted or released, another attempt has written
            // it, and it may live by another lease.
            Compare::mod_revision(waiting.key(), CompareOp::Equal, waiting.created),
            still,
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
        let seat = Arc::clone(&waiting.seat);
        let (created, history) = (waiting.created, token.history);
        let held = Held { seat, lease, created, entry, history };
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
    let own = Seen::only(own).filter(|seen| seen.created == waiting.created);
    let is_repeat = own.as_ref().is_some_and(|seen| is_ours(seen, request));
    let there = is_repeat || own.as_ref().is_some_and(|seen| seen.modified == seen.created);
    if !there {
        waiting.lose();
    }
    if let Some(held_back) = held_back(&store.rpc, quarantine).await? {
        return Ok(Some(Attempt::Quarantined(held_back)));
    }
    if let Some(seen) = own.filter(|_| is_repeat && tombstone.kvs().is_empty()) {
        // An earlier attempt was granted, and its answer was lost.
        return Ok(repeat(store, request, seen).await?.map(Attempt::Granted));
    }
    let before = Seen::only(before);
    if there && before.is_none() && tombstone.kvs().is_empty() {
        return Ok(None);
    }
    if let Some(before) = before {
        store.waiters.follow(waiting, before.to_follow());
    }
    Ok(Some(Attempt::Busy(busy(store, Seen::only(first)).await?)))
}

/// Whether a transaction that claims the entry writes nothing, or by settings that were just seen.
fn is_sure_of(store: &Store, waiting: &WaiterEntry, request: &Request) -> bool {
    let settings = store.restore.settings();
    let lifted = settings.lift(waiting.created, request.floor);
    matches!(lifted, Ok(None)) && settings.record.offset == waiting.offset || !settings.is_old()
}

/// The same as [`busy`] for a waiter that asks again and again: while the holder is the same, it does not ask each time
/// how long the lease lasts.
async fn busy_behind(
    store: &Store,
    waiting: &WaiterEntry,
    first: Option<Seen>,
) -> Result<Busy, Error> {
    let Some(first) = first else { return busy(store, None).await };
    let now = SystemEnv.now();
    let remaining = match waiting.known_life(first.lease, now) {
        Some(remaining) => remaining,
        None => {
            let remaining = store.rpc.remaining(first.lease).await?;
            waiting.note_life(first.lease, now + remaining);
            remaining
        }
    };
    Ok(busy_for(&first, remaining))
}

/// Looks whether the turn of an entry has come.
async fn look_from(store: &Store, waiting: &WaiterEntry, request: &Request) -> Result<Look, Error> {
    let (layout, name, mode) = (&store.layout, &request.name, request.mode);
    let created = waiting.created;
    // A waiter must know the settings when its turn comes: they are compared.
    let look = [
        layout.get_first(name),
        layout.get_settings(),
        layout.keys_before(name, mode, created, FAR),
        TxnOp::get(waiting.key(), None),
        layout.get_newest(name, mode, 1),
    ];
    let answer = store.rpc.txn(Txn::new().and_then(look)).await?;
    let got = gets(&answer);
    let [first, found, before, own, newest] = &got[..] else { return Err(incomplete()) };
    store.restore.note_found(found, revision(&answer))?;
    if let Some(before) = Seen::only(before) {
        store.waiters.follow(waiting, before.to_follow());
    }
    let own = Seen::only(own).filter(|seen| seen.created == created);
    let still = match newest.kvs().is_empty() {
        true => layout.no_obstacle(name, mode),
        false => layout.no_earlier_obstacle(name, mode, created),
    };
    Ok(Look {
        first: Seen::only(first),
        gone: own.is_none(),
        turn: own.filter(|_| before.kvs().is_empty()),
        distance: u32::try_from(before.kvs().len()).unwrap_or(FAR),
        still,
    })
}
