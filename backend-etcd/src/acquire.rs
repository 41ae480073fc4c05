//! An attempt to take a lock.

use std::{sync::Arc, time::Duration};

use etcd_client::{Compare, CompareOp, Txn, TxnOp, TxnResponse};
use lock_core::{
    Attempt, Busy, Error, ErrorKind, FencingToken, Grant, Quarantined, Request, check_lease,
};

use crate::{
    backend::POLL,
    enqueue::short,
    error::Failure,
    history::Pass,
    place::{Held, Place, Seen, token},
    rpc::Lease,
    seats::Seat,
    settings::Record,
    store::{EtcdBackend, gets, only, put, revision},
};

/// How often an attempt starts anew because the settings changed or its lease ended meanwhile.
pub(crate) const TRIES: usize = 32;
/// No waiter asks more often, even of a lock that is about to expire.
const SHORTEST_POLL: Duration = Duration::from_millis(20);

/// What stood in the way of a transaction.
enum Found {
    Ours(Seen),
    Others(Option<Seen>),
    /// Nothing is granted for now.
    HeldBack(Quarantined),
    /// Nothing stands in the way any more.
    Nothing,
    /// What was granted was given back, and the lease with it: the cluster was restored meanwhile.
    Restored,
}

/// A transaction to take a lock, still without what it does if it cannot.
pub(crate) struct Taking {
    pub(crate) txn: Txn,
    pub(crate) place: Place,
    /// The offset as it stands in the settings.
    pub(crate) known: i64,
    /// The settings that it writes, if it does.
    pub(crate) record: Option<Record>,
}

impl EtcdBackend {
    /// The lock is free if no place is there: then one transaction makes ours, and its revision is
    /// the token's.
    pub(crate) async fn attempt(&self, request: &Request) -> Result<Attempt, Error> {
        if request.floor > FencingToken::ZERO {
            self.check_token(request.floor)?;
        }
        if self.places.get(request.owner).is_some() {
            return self.claim(request).await;
        }
        self.allow(request.lease, Record::longest_lease).await?;
        let mut lease = None;
        for _ in 0..TRIES {
            let used = match lease.take() {
                Some(lease) => lease,
                None => self.lease(request.lease).await?,
            };
            let found = match self.take(request, used).await {
                Ok(Ok(grant)) => return Ok(Attempt::Granted(grant)),
                Ok(Err(found)) => found,
                Err(Failure::LeaseGone) => continue,
                Err(Failure::Error(error)) => return Err(error),
            };
            match found {
                Found::Ours(seen) => {
                    self.spare(used);
                    if let Some(grant) = self.again(request, seen).await? {
                        return Ok(Attempt::Granted(grant));
                    }
                }
                Found::Others(seen) => {
                    self.spare(used);
                    return Ok(Attempt::Busy(self.busy(seen).await?));
                }
                Found::HeldBack(held_back) => {
                    self.spare(used);
                    return Ok(Attempt::Quarantined(held_back));
                }
                Found::Nothing => lease = Some(used),
                Found::Restored => {}
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "others changed the settings again and again"))
    }

    async fn take(&self, request: &Request, lease: Lease) -> Result<Result<Grant, Found>, Failure> {
        let pass = self.pass().await?;
        let seat = self.seats.take(&self.layout, &request.name);
        let Taking { txn, place, record, .. } = self.taking(request, &seat.key, lease)?;
        let answer = self.rpc.txn(txn).await?;
        let now = revision(&answer);
        if answer.succeeded() {
            let held = Held { seat, lease, created: now, place, history: pass.history };
            let grant = self.brought(request, &pass, &answer, held, record).await?;
            return Ok(grant.ok_or(Found::Restored));
        }
        Ok(Err(Box::pin(self.in_the_way(request)).await?))
    }

    /// Why a transaction was refused, as far as it can still be seen. The reads are not in the transaction:
    /// most are not refused, and each read makes an entry of the log longer, carried out or not.
    async fn in_the_way(&self, request: &Request) -> Result<Found, Error> {
        let look = [
            self.get_first(&request.name),
            self.get_settings(),
            self.get_quarantine(),
            TxnOp::get(self.layout.tombstone(request.owner), None),
        ];
        let answer = self.rpc.txn(Txn::new().and_then(look)).await?;
        let got = gets(&answer);
        let [first, found, quarantine, tombstone] = &got[..] else { return Err(short()) };
        self.note_found(found, revision(&answer))?;
        if let Some(held_back) = self.held_back(quarantine).await? {
            return Ok(Found::HeldBack(held_back));
        }
        let abandoned = !tombstone.kvs().is_empty();
        Ok(match only(first) {
            Some(seen) if !abandoned && is_ours(&seen, request) => Found::Ours(seen),
            Some(seen) => Found::Others(Some(seen)),
            None if abandoned => Found::Others(None),
            None => Found::Nothing,
        })
    }

    /// What a transaction that granted has brought; `None` if the cluster was restored meanwhile, and it was
    /// given back.
    pub(crate) async fn brought(
        &self,
        request: &Request,
        pass: &Pass,
        answer: &TxnResponse,
        held: Held,
        record: Option<Record>,
    ) -> Result<Option<Grant>, Error> {
        if !self.stands(pass, answer, held.lease.id).await? {
            return Ok(None);
        }
        let now = revision(answer);
        self.note(record.map(|record| (record, now)), now);
        Ok(Some(granted(request, held)))
    }

    /// The transaction that makes a place where none is, with the offset that its token needs.
    pub(crate) fn taking(
        &self,
        request: &Request,
        key: &str,
        lease: Lease,
    ) -> Result<Taking, Error> {
        let settings = self.settings();
        // Whoever asks may know others; the transaction compares these.
        check_lease(request.lease, settings.record.longest_lease())?;
        let lifted = settings.lift(settings.now + 1, request.floor);
        // An operator may have started the tokens anew: the next attempt is to know.
        let lifted = lifted.inspect_err(|_| self.history.doubt())?;
        let offset = lifted.unwrap_or(settings.record.offset);
        let place = Place::new(request, offset, true);
        let mut puts = vec![put(key, place.to_bytes(), lease.id)];
        let record =
            lifted.map(|offset| self.history.keep(Record { offset, ..settings.record.clone() }));
        puts.extend(record.as_ref().map(|record| record.put(&self.layout)));
        let places = self.layout.places(&request.name);
        let none = Compare::create_revision(places, CompareOp::Equal, 0).with_prefix();
        let txn = Txn::new()
            .when([
                none,
                settings.unchanged(&self.layout),
                self.not_quarantined(),
                self.not_abandoned(request.owner),
            ])
            .and_then(puts);
        Ok(Taking { txn, place, known: settings.record.offset, record })
    }

    /// A repeat of an attempt that was granted: the lease anew, and the same token. `None` if it is gone,
    /// its owner was abandoned, or nothing is granted for now.
    pub(crate) async fn again(
        &self,
        request: &Request,
        seen: Seen,
    ) -> Result<Option<Grant>, Error> {
        let (Some(place), Ok(key)) = (seen.place, String::from_utf8(seen.key)) else {
            return Ok(None);
        };
        let pass = self.pass().await?;
        let same = Compare::create_revision(key.as_str(), CompareOp::Equal, seen.created);
        let may = [same, self.not_quarantined(), self.not_abandoned(request.owner)];
        let answer = self.rpc.txn(Txn::new().when(may)).await?;
        if !answer.succeeded() || !self.history.is_same(&self.rpc, &pass, &answer) {
            return Ok(None);
        }
        let Some(lease) = self.alive(seen.lease).await? else { return Ok(None) };
        let (seat, created) = (Seat::found(key), seen.created);
        let held = Held { seat, lease, created, place, history: pass.history };
        Ok(Some(granted(request, held)))
    }

    pub(crate) async fn busy(&self, seen: Option<Seen>) -> Result<Busy, Error> {
        let Some(seen) = seen else {
            let token = FencingToken::ZERO;
            return Ok(Busy { holder: None, token, retry_after: POLL });
        };
        let remaining = self.rpc.remaining(seen.lease).await?;
        Ok(self.busy_for(&seen, remaining))
    }

    /// Who stands first, with what is left of its lease.
    pub(crate) fn busy_for(&self, seen: &Seen, remaining: Duration) -> Busy {
        Busy {
            holder: seen.holder(remaining),
            token: seen.token(),
            // What has no lease does not end by itself.
            retry_after: if seen.lease == 0 { POLL } else { remaining.clamp(SHORTEST_POLL, POLL) },
        }
    }
}

pub(crate) fn is_ours(seen: &Seen, request: &Request) -> bool {
    let place = seen.place.as_ref();
    place.is_some_and(|place| place.owner == request.owner && place.granted && !place.kept)
}

fn granted(request: &Request, held: Held) -> Grant {
    let mut grant = Grant::new(request, token(held.place.offset, held.created));
    (grant.lease, grant.from) = (held.lease.ttl, held.lease.from);
    grant.with_state(Arc::new(held))
}
