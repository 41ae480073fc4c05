//! A place in etcd's own queue: the oldest create revision is served.

use std::{sync::Arc, time::Duration};

use etcd_client::{
    Compare, CompareOp, GetOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use lock_core::{
    Attempt, Busy, Enqueued, Error, ErrorKind, FencingToken, Grant, LockName, Quarantined, Request,
};

use crate::{
    acquire::TRIES,
    backend::POLL,
    error::Failure,
    place::{Held, Place, Seen},
    queue::{EtcdTurn, NoTurn, Waiting},
    settings::Record,
    store::{EtcdBackend, Tried, gets, only, put, revision},
};

/// What came of lining up.
pub(crate) enum Lined {
    Granted(Grant),
    /// A place was made; the one that stands first is told, too.
    Waiting(EtcdTurn, Option<Seen>),
    /// The owner was abandoned: no place was made.
    Refused(Option<Seen>),
    HeldBack(Quarantined),
}

impl Lined {
    /// What a repeat is to find, if a place was made.
    pub(crate) fn tried(&self) -> Option<Tried> {
        match self {
            Self::Granted(grant) => {
                let held: &Held = grant.state.as_ref()?.downcast_ref()?;
                Some(Tried { lease: held.lease, seat: Arc::clone(&held.seat) })
            }
            Self::Waiting(turn, _) => Some(turn.tried()),
            Self::Refused(_) | Self::HeldBack(_) => None,
        }
    }

    /// Whether this try has left its lease unused.
    fn made_nothing(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::HeldBack(_))
    }
}

impl EtcdBackend {
    /// Takes the lock if no place is there, and otherwise makes one, in one transaction.
    pub(crate) async fn queue(&self, request: &Request) -> Result<Enqueued, Error> {
        Ok(match self.stand(request).await? {
            Lined::Granted(grant) => Enqueued::Granted(grant),
            Lined::HeldBack(held_back) => Enqueued::Quarantined(held_back),
            Lined::Refused(first) => Enqueued::Waiting(Box::new(NoTurn), self.busy(first).await?),
            // The settings had changed, or an earlier try made the place.
            Lined::Waiting(turn, first) if turn.is_first(first.as_ref()) => {
                self.try_place(request, turn, first).await
            }
            Lined::Waiting(turn, first) => {
                let told = self.busy(first.clone()).await;
                let busy = told.unwrap_or_else(|_| self.untimed(first));
                Enqueued::Waiting(Box::new(turn), busy)
            }
        })
    }

    /// Claims a place that was just made. Whatever fails, the place is there, and waits.
    pub(crate) async fn try_place(
        &self,
        request: &Request,
        turn: EtcdTurn,
        first: Option<Seen>,
    ) -> Enqueued {
        match self.claim(request).await {
            Ok(Attempt::Granted(grant)) => Enqueued::Granted(grant),
            Ok(Attempt::Busy(busy)) => Enqueued::Waiting(Box::new(turn), busy),
            // The core asks again, and is told.
            Ok(Attempt::Quarantined(_)) | Err(_) => {
                Enqueued::Waiting(Box::new(turn), self.untimed(first))
            }
        }
    }

    /// Who stands first, without what is left of its lease.
    pub(crate) fn untimed(&self, first: Option<Seen>) -> Busy {
        let token = first.as_ref().map_or(FencingToken::ZERO, Seen::token);
        let holder = first.and_then(|first| first.holder(Duration::ZERO));
        Busy { holder, token, retry_after: POLL }
    }

    /// Lines up; repeats of one request find the place of the first.
    pub(crate) async fn stand(&self, request: &Request) -> Result<Lined, Error> {
        if request.floor > FencingToken::ZERO {
            self.check_token(request.floor)?;
        }
        self.allow(request.lease, Record::longest_lease).await?;
        self.watch.start(&self.rpc, self.layout.prefix(), &self.places);
        let is_repeat = self.tried(request.owner).is_some();
        // Keys of places whose end is not known here.
        let mut occupied = Vec::new();
        for _ in 0..TRIES {
            // An earlier try may have made its place: only with the same key will this one find it.
            let tried = match self.tried(request.owner) {
                Some(tried) => tried,
                None => Tried {
                    lease: self.lease(request.lease).await?,
                    seat: self.seats.take(&self.layout, &request.name),
                },
            };
            self.note_try(request.owner, tried.clone());
            match self.line_up(request, &tried).await {
                // An earlier try may have made its place, or may yet. It lives by this lease, so that
                // nobody else is to; and a later repeat is to find it.
                Ok(Some(lined @ Lined::HeldBack(_))) if is_repeat => return Ok(lined),
                Ok(Some(lined)) => {
                    self.forget_try(request.owner);
                    if lined.made_nothing() && !is_repeat {
                        self.spare(tried.lease);
                    }
                    return Ok(lined);
                }
                Ok(None) | Err(Failure::LeaseGone) => {
                    self.forget_try(request.owner);
                    occupied.push(tried.seat);
                }
                Err(Failure::Error(error)) => {
                    if !is_repeat && !error.is_ambiguous() {
                        self.forget_try(request.owner);
                    }
                    return Err(error);
                }
            }
        }
        if !is_repeat {
            self.forget_try(request.owner);
        }
        Err(Error::new(ErrorKind::Unavailable, "etcd ended the lease again and again"))
    }

    /// `None` if it is to be tried anew, with another lease and key.
    async fn line_up(&self, request: &Request, tried: &Tried) -> Result<Option<Lined>, Failure> {
        let pass = self.pass().await?;
        let name = &request.name;
        let Tried { mut lease, seat } = tried.clone();
        let key = seat.key.clone();
        let take = self.taking(request, &key, lease)?;
        // Not the one that a grant would have lifted: it is not in the settings, and others are told what is
        // in the place.
        let place = Place::new(request, take.known, false);
        let own = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
        let wait = Txn::new()
            .when([own, self.not_quarantined(), self.not_abandoned(request.owner)])
            .and_then([put(&key, place.to_bytes(), lease.id), self.get_last_two(name)])
            .or_else([TxnOp::get(key.as_str(), None)]);
        let txn = take.txn.or_else([
            TxnOp::txn(wait),
            self.get_first(name),
            self.get_settings(),
            self.get_quarantine(),
            TxnOp::get(self.layout.tombstone(request.owner), None),
        ]);
        let answer = self.rpc.txn(txn).await?;
        let now = revision(&answer);
        if answer.succeeded() {
            let (place, history) = (take.place, pass.history);
            let held = Held { seat, lease, created: now, place, history };
            let grant = self.brought(request, &pass, &answer, held, take.record).await?;
            return Ok(grant.map(Lined::Granted));
        }
        let got = gets(&answer);
        let (Some(nested), [first, found, quarantine, tombstone]) = (nested(&answer), &got[..])
        else {
            return Err(short().into());
        };
        self.note_found(found, now)?;
        if let Some(held_back) = self.held_back(quarantine).await? {
            return Ok(Some(Lined::HeldBack(held_back)));
        }
        let first = only(first);
        if !tombstone.kvs().is_empty() {
            return Ok(Some(Lined::Refused(first)));
        }
        let read = gets(&nested);
        let (stands, predecessor) = if nested.succeeded() {
            // Newest first: ours, and the one before it.
            let before = read.first().and_then(|two| two.kvs().get(1)).map(Seen::read);
            ((now, place.offset), before.map(|seen| seen.to_follow()))
        } else {
            let ours = read.first().and_then(only).ok_or_else(short)?;
            if !ours.is_of(request.owner) || ours.is_kept() {
                return Ok(None);
            }
            if ours.lease != lease.id {
                // The lease that it lives by is to be kept alive, and no other.
                let Some(its) = self.alive(ours.lease).await? else { return Ok(None) };
                lease = its;
            }
            ((ours.created, ours.place.map_or(0, |place| place.offset)), None)
        };
        let places = self.layout.places(name);
        let waiting = Waiting::new(request.owner, places, seat, stands, lease, predecessor);
        let turn = self.places.add(waiting, self.shared()?);
        Ok(Some(Lined::Waiting(turn, first)))
    }

    fn get_last_two(&self, name: &LockName) -> TxnOp {
        let newest = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_limit(2);
        TxnOp::get(self.layout.places(name), Some(newest))
    }
}

/// The answer of the transaction within the transaction.
fn nested(answer: &TxnResponse) -> Option<TxnResponse> {
    answer.op_responses().into_iter().find_map(|response| match response {
        TxnOpResponse::Txn(nested) => Some(nested),
        _ => None,
    })
}

pub(crate) fn short() -> Error {
    Error::new(ErrorKind::Unavailable, "etcd answered less than it was asked")
}
