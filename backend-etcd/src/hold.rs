//! What is done with a lock that is held: raising its token, and finding out whether it still is.

use etcd_client::{Compare, CompareOp, Txn, TxnOp};
use lock_core::{Error, FencingToken, Grant, LossReason};

use crate::{
    error::Failure,
    place::Held,
    store::{EtcdBackend, gets, only, put, revision},
};

impl EtcdBackend {
    /// Lifts the token in the place, and the offset, so that whoever waits behind it exceeds it too.
    pub(crate) async fn lift_token(
        &self,
        held: &Held,
        wanted: FencingToken,
    ) -> Result<bool, Error> {
        let offset = wanted.get().cast_signed() - held.created;
        loop {
            let look = [TxnOp::get(held.key(), None), self.get_settings()];
            let answer = self.rpc.read(Txn::new().and_then(look)).await?;
            let got = gets(&answer);
            let [key, found] = &got[..] else { return Ok(false) };
            let seen = only(key)
                .filter(|seen| seen.created == held.created && seen.lease == held.lease.id);
            let Some((seen, mut place)) = seen.and_then(|seen| Some((seen.clone(), seen.place?)))
            else {
                return Ok(false);
            };
            self.note_found(found, revision(&answer))?;
            let settings = self.settings();
            let mut record = settings.record.clone();
            if place.offset >= offset && record.offset >= offset {
                return Ok(true);
            }
            place.offset = place.offset.max(offset);
            record.offset = record.offset.max(offset);
            let same = Compare::mod_revision(held.key(), CompareOp::Equal, seen.modified);
            let txn = Txn::new().when([same, settings.unchanged(&self.layout)]).and_then([
                put(held.key(), place.to_bytes(), seen.lease),
                record.put(&self.layout),
            ]);
            match self.rpc.write(self.history.seen(), txn).await {
                Ok(answer) if answer.succeeded() => {
                    let now = revision(&answer);
                    self.note(Some((record, now)), now);
                    return Ok(true);
                }
                Ok(_) => {}
                Err(Failure::Unseen) => drop(self.pass().await?),
                Err(Failure::LeaseGone) => return Ok(false),
                Err(Failure::Error(error)) => return Err(error),
            }
        }
    }

    /// Whether a grant whose lease lives has its place. It has, unless the cluster was restored since: a
    /// snapshot may have the lease, which was in stock then, and not the place.
    pub(crate) async fn is_there(&self, held: &Held) -> Result<bool, Error> {
        if self.pass().await?.history == held.history {
            return Ok(true);
        }
        let same = Compare::create_revision(held.key(), CompareOp::Equal, held.created);
        Ok(self.rpc.read(Txn::new().when([same])).await?.succeeded())
    }

    /// Why a grant whose lease is gone was lost; a failure to look does not make it less so.
    pub(crate) async fn why_lost(&self, grant: &Grant) -> LossReason {
        match self.look(&grant.name).await {
            Ok((Some(seen), _)) if !seen.is_of(grant.owner) => LossReason::TakenOver,
            _ => LossReason::Gone,
        }
    }
}
