//! Raises the token of a grant.

use etcd_client::{Txn, TxnOp};
use lock_core::{Error, FencingToken};

use crate::{
    keys::entry::{Held, QueueEntry},
    rpc::{Failure, gets, incomplete, put, revision},
    store::Store,
};

/// Raises the token in the entry, and the offset in the settings, so that the tokens of all waiters
/// exceed it too. `false` if the grant is gone.
pub(crate) async fn raise(store: &Store, held: &Held, wanted: FencingToken) -> Result<bool, Error> {
    let offset = wanted.get().cast_signed() - held.created;
    let (mut entry, mut same) = held.as_granted();
    loop {
        let settings = store.restore.settings();
        let (mut puts, mut record) = (Vec::new(), None);
        if entry.offset < offset {
            let raised = QueueEntry { offset, ..entry.clone() };
            puts.push(put(held.key(), raised.to_bytes(), held.lease.id));
        }
        if settings.record.offset < offset {
            let raised = store.restore.history.with_offset(&settings.record, offset);
            puts.push(record.insert(raised).put(&store.layout));
        }
        same.push(settings.unchanged(&store.layout));
        let txn = Txn::new()
            .when(std::mem::take(&mut same))
            .and_then(puts)
            .or_else([TxnOp::get(held.key(), None), store.layout.get_settings()]);
        let answer = match store.rpc.txn(txn).await {
            Ok(answer) => answer,
            Err(Failure::LeaseGone) => return Ok(false),
            Err(failure) => return Err(failure.into()),
        };
        let now = revision(&answer);
        if answer.succeeded() {
            store.restore.note(record.map(|record| (record, now)), now);
            return Ok(true);
        }
        let got = gets(&answer);
        let [key, found] = &got[..] else { return Err(incomplete()) };
        store.restore.note_found(found, now)?;
        let Some(found) = held.as_found(key) else { return Ok(false) };
        (entry, same) = found;
    }
}
