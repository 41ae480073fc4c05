//! An attempt to acquire a lock without waiting.

use std::sync::Arc;

use etcd_client::{GetResponse, KeyValue, Txn, TxnOp};
use lock_core::{Attempt, Error, ErrorKind, Grant, Mode, Mutex, Quarantined, Request};

use super::grant::{AcquireTxn, acquire_txn, busy, confirm, is_ours, repeat};
use crate::{
    keys::{
        entry::{Held, LeaseUse, StoredEntry},
        reserved::ReservedKey,
        settings::Record,
    },
    restore::{HistoryToken, held_back},
    rpc::{Failure, Lease, gets, incomplete, revision},
    store::Store,
    tunables::TRIES,
};

/// What became of a transaction.
enum Outcome {
    Granted(Grant),
    /// The request already has an entry, and it was granted.
    Ours(StoredEntry),
    /// Somebody else holds the lock or waits for it.
    Others(Option<StoredEntry>),
    Quarantine(Quarantined),
    /// Nothing blocks the request any more.
    Unblocked,
    /// Another reader uses the same key.
    Occupied,
    /// The cluster was restored meanwhile. The grant was released, and its lease with it.
    Restored,
}

/// The lock is free if no entry blocks the request. Then one transaction makes the entry of the
/// request, and the token is computed from its revision.
pub(crate) async fn try_acquire(store: &Store, request: &Request) -> Result<Attempt, Error> {
    store.restore.check_request(request, Record::longest_lease).await?;
    let (reserved_keys, layout, name) = (&store.reserved_keys, &store.layout, &request.name);
    let mut reserved = reserved_keys.next(layout, name, request.mode);
    for _ in 0..TRIES {
        let token = store.restore.history_token().await?;
        let lease = store.leases.take(request.lease, token.history).await?;
        let put_back = || store.leases.put_back(lease, token.history);
        match acquire(store, request, lease, Arc::clone(&reserved), &token).await {
            Ok(Outcome::Granted(grant)) => return Ok(Attempt::Granted(grant)),
            Ok(Outcome::Ours(seen)) => {
                put_back();
                if let Some(grant) = repeat(store, request, seen).await? {
                    return Ok(Attempt::Granted(grant));
                }
            }
            Ok(Outcome::Others(seen)) => {
                put_back();
                return Ok(Attempt::Busy(busy(store, seen).await?));
            }
            Ok(Outcome::Quarantine(held_back)) => {
                put_back();
                return Ok(Attempt::Quarantined(held_back));
            }
            Ok(Outcome::Unblocked) => put_back(),
            Ok(Outcome::Occupied) => {
                put_back();
                reserved = reserved_keys.random(layout, name, request.mode);
            }
            Ok(Outcome::Restored) | Err(Failure::LeaseGone) => {}
            Err(Failure::Error(error)) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
}

async fn acquire(
    store: &Store,
    request: &Request,
    lease: Lease,
    reserved: Arc<ReservedKey>,
    token: &HistoryToken,
) -> Result<Outcome, Failure> {
    let AcquireTxn { txn, entry, record, .. } = acquire_txn(store, request, &reserved.key, lease)?;
    let key = reserved.key.clone();
    let answer = store.rpc.txn(txn).await?;
    if answer.succeeded() {
        let created = revision(&answer);
        let lease_use = Mutex::new(match request.mode {
            Mode::Shared => LeaseUse::Own,
            _ => LeaseUse::Returnable,
        });
        let held = Held { reserved, lease, created, entry, history: token.history, lease_use };
        let grant = confirm(store, request, token, &answer, held, record).await?;
        return Ok(grant.map_or(Outcome::Restored, Outcome::Granted));
    }
    Ok(Box::pin(find_obstacle(store, request, key)).await?)
}

/// Why a transaction was refused, as far as that can still be read. The transaction itself does not
/// read: most are not refused, and each read makes the entry in etcd's log longer, even if it is
/// not carried out.
async fn find_obstacle(store: &Store, request: &Request, key: String) -> Result<Outcome, Error> {
    let layout = &store.layout;
    let reads = [
        layout.get_first(&request.name),
        layout.get_newest(&request.name, request.mode, 1),
        layout.get_settings(),
        layout.get_quarantine(),
        layout.get_tombstone(request.owner),
        layout.get_reader(request.owner),
        TxnOp::get(key, None),
    ];
    let answer = store.rpc.txn(Txn::new().and_then(reads)).await?;
    let got = gets(&answer);
    let [first, newest, settings, quarantine, tombstone, reader, reserved] = &got[..] else {
        return Err(incomplete());
    };
    store.restore.note_found(settings, revision(&answer))?;
    if let Some(held_back) = held_back(&store.rpc, quarantine).await? {
        return Ok(Outcome::Quarantine(held_back));
    }
    let abandoned = !tombstone.kvs().is_empty();
    let (first, newest) = (StoredEntry::from_get(first), StoredEntry::from_get(newest));
    let own = match request.mode {
        Mode::Shared => entry_of(store, reader).await?,
        _ => first.clone(),
    };
    if let Some(own) = own.filter(|own| !abandoned && own.belongs_to(request.owner)) {
        return Ok(if is_ours(&own, request) {
            Outcome::Ours(own)
        } else {
            Outcome::Others(Some(own))
        });
    }
    Ok(match newest {
        None if !abandoned && reserved.kvs().is_empty() => Outcome::Unblocked,
        None if !abandoned => Outcome::Occupied,
        // Several readers share the lock: the newest has the highest token.
        Some(newest) if newest.is_granted_reader() => Outcome::Others(Some(newest)),
        _ => Outcome::Others(first),
    })
}

/// The entry of a reader, found by the key that names it.
async fn entry_of(store: &Store, reader: &GetResponse) -> Result<Option<StoredEntry>, Error> {
    let Some(key) = reader.kvs().first().map(KeyValue::value) else { return Ok(None) };
    let answer = store.rpc.txn(Txn::new().and_then([TxnOp::get(key, None)])).await?;
    Ok(gets(&answer).first().and_then(StoredEntry::from_get))
}
