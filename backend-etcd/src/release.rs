//! Giving a lock back, and leaving nothing of an attempt whose outcome is not known.

use std::time::Duration;

use etcd_client::{GetOptions, Txn, TxnOp};
use futures_util::future::join;
use lock_core::{Enqueued, Error, ErrorKind, Outcome, Released, Request};

use crate::{
    enqueue::Lined,
    error::Failure,
    place::{Held, Place, Seen},
    rpc::Lease,
    store::{EtcdBackend, gets, put},
};

impl EtcdBackend {
    /// Ends the lease, and the place with it; or ties the place to another lease for a last while.
    pub(crate) async fn give_back(
        &self,
        held: &Held,
        keep: Option<Duration>,
    ) -> Result<Outcome, Error> {
        let Some(keep) = keep.filter(|keep| !keep.is_zero()) else {
            return Ok(outcome(self.rpc.revoke(held.lease.id).await?));
        };
        let last = self.last_lease(keep).await?;
        let kept = self.tie(held, last).await?;
        if !kept {
            self.spare(last);
        }
        // Nothing is tied to it any more; a late renewal finds it gone.
        self.rpc.revoke(held.lease.id).await?;
        Ok(outcome(kept))
    }

    /// Ties a place that is held to its last lease; `false` if it is held no more.
    async fn tie(&self, held: &Held, last: Lease) -> Result<bool, Error> {
        let (mut place, mut same) = held.as_granted();
        loop {
            let kept = Place { kept: true, ..place };
            let txn = Txn::new()
                .when(same)
                .and_then([put(held.key(), kept.to_bytes(), last.id)])
                .or_else([TxnOp::get(held.key(), None)]);
            let answer = self.rpc.txn(txn).await?;
            if answer.succeeded() {
                return Ok(true);
            }
            let found = gets(&answer).first().and_then(|found| held.as_found(found));
            let Some(found) = found else { return Ok(false) };
            (place, same) = found;
        }
    }

    /// The same, and a place for the next request of this process, side by side: whichever etcd carries
    /// out first, others that wait come before it.
    pub(crate) async fn hand_on(&self, held: &Held, next: &Request) -> Result<Released, Error> {
        let (outcome, lined) = join(self.give_back(held, None), self.stand(next)).await;
        let (outcome, lined) = match (outcome, lined) {
            (Ok(outcome), Ok(lined)) => (outcome, lined),
            // A repeat is to find what the other has got: to give it up would be one more call that may fail,
            // and a second place would stand behind it.
            (Err(error), lined) => {
                if let Some(tried) = lined.ok().and_then(|lined| lined.tried()) {
                    self.note_try(next.owner, tried);
                }
                return Err(error);
            }
            // It may stand in the queue: the core repeats all. What a repeat then finds gone was given back.
            (Ok(Outcome::Released), Err(error)) if error.is_ambiguous() => return Err(error),
            (Ok(Outcome::NotHeld), Err(error)) if error.is_ambiguous() => {
                let message =
                    "the lock was lost, and the request that went with it may have a place";
                return Err(Error::new(ErrorKind::Unavailable, message).with_source(error));
            }
            (Ok(outcome), Err(_)) => return Ok(Released::plain(outcome)),
        };
        let next = match lined {
            Lined::Granted(grant) => Some(Enqueued::Granted(grant)),
            Lined::HeldBack(held_back) => Some(Enqueued::Quarantined(held_back)),
            Lined::Refused(_) => None,
            // Its own release is the end that it waited for.
            Lined::Waiting(turn, first) if turn.is_behind(held.created) => {
                self.places.ended(held.key(), held.created + 1);
                Some(
                    self.try_place(next, turn, first.filter(|first| first.created != held.created))
                        .await,
                )
            }
            Lined::Waiting(turn, first) => {
                let busy = self.untimed(first);
                Some(Enqueued::Waiting(Box::new(turn), busy))
            }
        };
        Ok(Released { outcome, next })
    }

    /// Leaves a tombstone first: no transaction of this owner makes a place after it. Those that were
    /// made before are then there to be found.
    pub(crate) async fn bury(&self, request: &Request) -> Result<(), Error> {
        self.forget_try(request.owner);
        let tombstone = self.layout.tombstone(request.owner);
        let places = self.layout.places(&request.name);
        let look = TxnOp::get(places.as_str(), Some(GetOptions::new().with_prefix()));
        let mut refused = None;
        let answer = loop {
            let left = match self.grave(request.lease).await {
                Ok(grave) => {
                    let leave = put(&tombstone, Vec::new(), grave.id);
                    self.rpc.txn(Txn::new().and_then([leave, look.clone()])).await
                }
                Err(error) => Err(error.into()),
            };
            match left {
                Ok(answer) => break answer,
                Err(Failure::LeaseGone) => self.forget_grave(),
                // There is no room for a tombstone, nor for what it is against: what is there can go.
                Err(Failure::Error(error)) if error.kind() == ErrorKind::Config => {
                    refused = Some(error);
                    break self.rpc.txn(Txn::new().and_then([look])).await?;
                }
                Err(failure) => return Err(failure.into()),
            }
        };
        for got in gets(&answer) {
            for seen in got.kvs().iter().map(Seen::read) {
                if seen.is_of(request.owner) && !seen.is_kept() {
                    self.rpc.revoke(seen.lease).await?;
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

pub(crate) fn outcome(done: bool) -> Outcome {
    if done { Outcome::Released } else { Outcome::NotHeld }
}
