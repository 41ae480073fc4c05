//! An attempt to acquire a lock without waiting.

use std::sync::Arc;

use etcd_client::{GetResponse, KeyValue, Txn, TxnOp};
use lock_core::{Attempt, Error, ErrorKind, FencingToken, Grant, Mode, Quarantined, Request};

use super::grant::{AcquireTxn, acquire_txn, busy, confirm, is_ours, repeat};
use crate::{
    keys::{
        entry::{Held, Seen},
        seats::Seat,
        settings::Record,
    },
    restore::held_back,
    rpc::{Failure, Lease, gets, incomplete, revision},
    store::Store,
    tunables::TRIES,
};

/// Why a transaction was refused.
enum Obstacle {
    Ours(Seen),
    Others(Option<Seen>),
    Quarantine(Quarantined),
    /// Nothing stands in the way any more.
    Gone,
    /// Another reader is there by the same key.
    Occupied,
    /// The cluster was restored meanwhile: the grant was given back, and the lease with it.
    Restored,
}

/// The lock is free if no entry is in the way: then one transaction makes ours, and its revision is the token's.
pub(crate) async fn try_acquire(store: &Store, request: &Request) -> Result<Attempt, Error> {
    if request.floor > FencingToken::ZERO {
        store.restore.check_token(request.floor)?;
    }
    store.restore.allow(request.lease, Record::longest_lease).await?;
    let (seats, layout, name) = (&store.seats, &store.layout, &request.name);
    let (mut lease, mut seat) = (None, seats.take(layout, name, request.mode));
    for _ in 0..TRIES {
        let used = match lease.take() {
            Some(lease) => lease,
            None => store.leases.take(request.lease).await?,
        };
        let obstacle = match acquire(store, request, used, Arc::clone(&seat)).await {
            Ok(Ok(grant)) => return Ok(Attempt::Granted(grant)),
            Ok(Err(obstacle)) => obstacle,
            Err(Failure::LeaseGone) => continue,
            Err(Failure::Error(error)) => return Err(error),
        };
        match obstacle {
            Obstacle::Ours(seen) => {
                store.leases.put_back(used);
                if let Some(grant) = repeat(store, request, seen).await? {
                    return Ok(Attempt::Granted(grant));
                }
            }
            Obstacle::Others(seen) => {
                store.leases.put_back(used);
                return Ok(Attempt::Busy(busy(store, seen).await?));
            }
            Obstacle::Quarantine(held_back) => {
                store.leases.put_back(used);
                return Ok(Attempt::Quarantined(held_back));
            }
            Obstacle::Gone => lease = Some(used),
            Obstacle::Occupied => {
                (lease, seat) = (Some(used), seats.elsewhere(layout, name, request.mode));
            }
            Obstacle::Restored => {}
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
}

async fn acquire(
    store: &Store,
    request: &Request,
    lease: Lease,
    seat: Arc<Seat>,
) -> Result<Result<Grant, Obstacle>, Failure> {
    let token = store.restore.history_token().await?;
    let AcquireTxn { txn, entry, record, .. } = acquire_txn(store, request, &seat.key, lease)?;
    let key = seat.key.clone();
    let answer = store.rpc.txn(txn).await?;
    if answer.succeeded() {
        let created = revision(&answer);
        let held = Held { seat, lease, created, entry, history: token.history };
        let grant = confirm(store, request, &token, &answer, held, record).await?;
        return Ok(grant.ok_or(Obstacle::Restored));
    }
    Ok(Err(Box::pin(in_the_way(store, request, key)).await?))
}

/// Why a transaction was refused, as far as it can still be seen. The reads are not in the transaction: most are not
/// refused, and each read makes an entry of the log longer, carried out or not.
async fn in_the_way(store: &Store, request: &Request, key: String) -> Result<Obstacle, Error> {
    let layout = &store.layout;
    let look = [
        layout.get_first(&request.name),
        layout.get_newest(&request.name, request.mode, 1),
        layout.get_settings(),
        layout.get_quarantine(),
        layout.get_tombstone(request.owner),
        layout.get_reader(request.owner),
        TxnOp::get(key, None),
    ];
    let answer = store.rpc.txn(Txn::new().and_then(look)).await?;
    let got = gets(&answer);
    let [first, newest, settings, quarantine, tombstone, reader, seat] = &got[..] else {
        return Err(incomplete());
    };
    store.restore.note_found(settings, revision(&answer))?;
    if let Some(held_back) = held_back(&store.rpc, quarantine).await? {
        return Ok(Obstacle::Quarantine(held_back));
    }
    let abandoned = !tombstone.kvs().is_empty();
    let (first, newest) = (Seen::only(first), Seen::only(newest));
    let own = match request.mode {
        Mode::Shared => entry_of(store, reader).await?,
        _ => first.clone(),
    };
    if let Some(own) = own.filter(|own| !abandoned && own.is_of(request.owner)) {
        return Ok(if is_ours(&own, request) {
            Obstacle::Ours(own)
        } else {
            Obstacle::Others(Some(own))
        });
    }
    Ok(match newest {
        None if !abandoned && seat.kvs().is_empty() => Obstacle::Gone,
        None if !abandoned => Obstacle::Occupied,
        // Readers that are inside together: the last that came in has the highest token.
        Some(newest) if newest.is_inside() => Obstacle::Others(Some(newest)),
        _ => Obstacle::Others(first),
    })
}

/// The entry of a reader, by the key that names it.
async fn entry_of(store: &Store, reader: &GetResponse) -> Result<Option<Seen>, Error> {
    let Some(key) = reader.kvs().first().map(KeyValue::value) else { return Ok(None) };
    let answer = store.rpc.txn(Txn::new().and_then([TxnOp::get(key, None)])).await?;
    Ok(gets(&answer).first().and_then(Seen::only))
}
