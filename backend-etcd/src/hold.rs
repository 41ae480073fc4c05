//! What is done with a lock that is held: raising its token, and finding out whether it still is.

use etcd_client::{Compare, CompareOp, GetResponse, Txn, TxnOp};
use lock_core::{Error, FencingToken, Grant, LossReason};

use crate::{
    enqueue::short,
    error::Failure,
    place::{Held, Place},
    settings::Record,
    store::{EtcdBackend, gets, only, put, revision},
};

impl Held {
    /// Its place as it was granted, and the conditions that it is there and still so. Nobody else changes a
    /// place that is held: most often it is.
    pub(crate) fn as_granted(&self) -> (Place, Vec<Compare>) {
        let place = self.place.clone();
        let same = vec![
            Compare::create_revision(self.key(), CompareOp::Equal, self.created),
            Compare::lease(self.key(), CompareOp::Equal, self.lease.id),
            Compare::value(self.key(), CompareOp::Equal, place.to_bytes()),
        ];
        (place, same)
    }

    /// The same as it was found, such as with the token that it was raised to; `None` if it is held no more.
    pub(crate) fn as_found(&self, found: &GetResponse) -> Option<(Place, Vec<Compare>)> {
        let seen = only(found)?;
        if seen.created != self.created || seen.lease != self.lease.id {
            return None;
        }
        let same = Compare::mod_revision(self.key(), CompareOp::Equal, seen.modified);
        Some((seen.place?, vec![same]))
    }
}

impl EtcdBackend {
    /// Lifts the token in the place, and the offset, so that whoever waits behind it exceeds it too.
    pub(crate) async fn lift_token(
        &self,
        held: &Held,
        wanted: FencingToken,
    ) -> Result<bool, Error> {
        let offset = wanted.get().cast_signed() - held.created;
        let (mut place, mut same) = held.as_granted();
        loop {
            let settings = self.settings();
            let (mut puts, mut record) = (Vec::new(), None);
            if place.offset < offset {
                let place = Place { offset, ..place.clone() };
                puts.push(put(held.key(), place.to_bytes(), held.lease.id));
            }
            if settings.record.offset < offset {
                let lifted = Record { offset, ..settings.record.clone() };
                let lifted = record.insert(self.history.keep(lifted));
                puts.push(lifted.put(&self.layout));
            }
            same.push(settings.unchanged(&self.layout));
            let txn = Txn::new()
                .when(std::mem::take(&mut same))
                .and_then(puts)
                .or_else([TxnOp::get(held.key(), None), self.get_settings()]);
            let answer = match self.rpc.txn(txn).await {
                Ok(answer) => answer,
                Err(Failure::LeaseGone) => return Ok(false),
                Err(failure) => return Err(failure.into()),
            };
            let now = revision(&answer);
            if answer.succeeded() {
                self.note(record.map(|record| (record, now)), now);
                return Ok(true);
            }
            let got = gets(&answer);
            let [key, found] = &got[..] else { return Err(short()) };
            self.note_found(found, now)?;
            let Some(found) = held.as_found(key) else { return Ok(false) };
            (place, same) = found;
        }
    }

    /// Whether a grant whose lease lives has its place. It has, unless the cluster was restored since: a
    /// snapshot may have the lease, which was in stock then, and not the place.
    pub(crate) async fn is_there(&self, held: &Held) -> Result<bool, Error> {
        if self.pass().await?.history == held.history {
            return Ok(true);
        }
        let same = Compare::create_revision(held.key(), CompareOp::Equal, held.created);
        Ok(self.rpc.txn(Txn::new().when([same])).await?.succeeded())
    }

    /// Why a grant whose lease is gone was lost; a failure to look does not make it less so.
    pub(crate) async fn why_lost(&self, grant: &Grant) -> LossReason {
        match self.look(&grant.name).await {
            Ok((Some(seen), _)) if !seen.is_of(grant.owner) => LossReason::TakenOver,
            _ => LossReason::Gone,
        }
    }
}
