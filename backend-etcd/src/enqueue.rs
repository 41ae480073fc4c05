//! A place in etcd's own queue: the oldest create revision is served.

use std::sync::atomic::Ordering;

use etcd_client::{
    Compare, CompareOp, GetOptions, GetResponse, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse,
    TxnResponse,
};
use lock_core::{Attempt, Enqueued, Error, ErrorKind, FencingToken, LockName, Request};

use crate::{
    acquire::{TRIES, granted, is_ours},
    backend::FAR,
    error::Failure,
    place::{Held, Place, Seen},
    queue::{NoTurn, Waiting},
    rpc::Lease,
    settings::Record,
    store::{EtcdBackend, gets, only, put, read_settings, revision},
};

impl EtcdBackend {
    /// Takes the lock if no place is there, and otherwise makes one, in one transaction.
    pub(crate) async fn queue(&self, request: &Request) -> Result<Enqueued, Error> {
        if request.floor > FencingToken::ZERO {
            self.check_token(request.floor)?;
        }
        self.watch.start(&self.rpc, self.layout.prefix(), &self.places);
        let is_repeat = self.tried(request.owner).is_some();
        for _ in 0..TRIES {
            // An earlier try may have made its place: only with the same lease will this one find it.
            let lease = match self.tried(request.owner) {
                Some(lease) => lease,
                None => self.lease(request.lease).await?,
            };
            self.note_try(request.owner, lease);
            match self.line_up(request, lease).await {
                Ok(Some(enqueued)) => {
                    self.forget_try(request.owner);
                    return Ok(enqueued);
                }
                Ok(None) | Err(Failure::LeaseGone) => self.forget_try(request.owner),
                Err(Failure::Error(error)) => {
                    if !is_repeat && !error.is_ambiguous() {
                        self.forget_try(request.owner);
                    }
                    return Err(error);
                }
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "etcd ended the lease again and again"))
    }

    /// `None` if it is to be tried anew, with another lease.
    async fn line_up(&self, request: &Request, lease: Lease) -> Result<Option<Enqueued>, Failure> {
        let pass = self.pass().await?;
        let name = &request.name;
        let key = self.layout.place(name, lease.id);
        let take = self.taking(request, &key, lease);
        let place = Place::new(request, take.place.offset, false);
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
            if !self.stands(&pass, &answer, lease.id).await? {
                return Ok(None);
            }
            self.note(take.record.map(|record| (record, now)), now);
            let held = Held { key, lease, created: now, place: take.place, history: pass.history };
            return Ok(Some(Enqueued::Granted(granted(request, held))));
        }
        let got = gets(&answer);
        let (Some(nested), [first, found, quarantine, tombstone]) = (nested(&answer), &got[..])
        else {
            return Err(short().into());
        };
        self.note_found(found, now)?;
        if let Some(held_back) = self.held_back(quarantine).await? {
            self.spare(lease);
            return Ok(Some(Enqueued::Quarantined(held_back)));
        }
        let first = only(first);
        if !tombstone.kvs().is_empty() {
            self.spare(lease);
            let busy = self.busy(first).await?;
            return Ok(Some(Enqueued::Waiting(Box::new(NoTurn), busy)));
        }
        let read = gets(&nested);
        let (stands, predecessor) = if nested.succeeded() {
            // Newest first: ours, and the one before it.
            let before = read.first().and_then(|two| two.kvs().get(1)).and_then(Seen::read);
            ((now, place.offset), before.map(|seen| seen.key))
        } else {
            let ours = read.first().and_then(only).ok_or_else(short)?;
            ((ours.created, ours.place.map_or(0, |place| place.offset)), None)
        };
        let places = self.layout.places(name);
        let stands_first = first.as_ref().is_none_or(|first| first.key == key);
        let waiting = Waiting::new(request.owner, places, key, stands, lease, predecessor);
        let turn = self.places.add(waiting, &self.keepalives, &self.rpc);
        if !stands_first {
            let busy = self.busy(first).await?;
            return Ok(Some(Enqueued::Waiting(Box::new(turn), busy)));
        }
        // The settings had changed, or an earlier try made the place.
        Ok(Some(match self.claim(request).await? {
            Attempt::Granted(grant) => Enqueued::Granted(grant),
            Attempt::Busy(busy) => Enqueued::Waiting(Box::new(turn), busy),
            Attempt::Quarantined(quarantined) => Enqueued::Quarantined(quarantined),
        }))
    }

    /// The attempt of an owner that has a place here: the lock is its own if the place stands first.
    pub(crate) async fn claim(&self, request: &Request) -> Result<Attempt, Error> {
        if request.floor > FencingToken::ZERO {
            self.check_token(request.floor)?;
        }
        for _ in 0..TRIES {
            let Some(waiting) = self.places.get(request.owner) else { break };
            // A look costs etcd no write; whoever was told that its turn has come needs none.
            if !waiting.hinted.swap(false, Ordering::AcqRel) {
                let (first, distance) = self.look_from(&waiting, &request.name).await?;
                match first {
                    Some(seen) if seen.key == waiting.key => {
                        if is_ours(&seen, request)
                            && let Some(grant) = self.again(request, seen).await?
                        {
                            return Ok(Attempt::Granted(grant));
                        }
                    }
                    first => {
                        if first.is_none() {
                            waiting.lose();
                        }
                        let mut busy = self.busy(first).await?;
                        busy.retry_after *= distance.max(1);
                        return Ok(Attempt::Busy(busy));
                    }
                }
            }
            match self.take_turn(request, &waiting).await {
                Ok(Some(attempt)) => return Ok(attempt),
                Ok(None) => {}
                Err(Failure::LeaseGone) => waiting.lose(),
                Err(Failure::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Unavailable, "the place was lost or others changed the settings"))
    }

    /// `None` if it is worth another look.
    async fn take_turn(
        &self,
        request: &Request,
        waiting: &Waiting,
    ) -> Result<Option<Attempt>, Failure> {
        let pass = self.pass().await?;
        // Until it is known whom it follows, any end of the name wakes it.
        waiting.follow(None);
        let settings = self.settings();
        let lifted = settings.lift(waiting.created, request.floor);
        let offset = lifted.unwrap_or(settings.record.offset);
        // Credited before the transaction leaves: a later credit proves no more.
        let lease = waiting.lease();
        // Every grant takes the offset of its time. A place that has it already is only read, which costs
        // etcd no flush.
        let is_written = waiting.offset == offset;
        let place = Place::new(request, offset, !is_written);
        let (mut steps, mut record) = (Vec::new(), None);
        if is_written {
            steps.push(TxnOp::get(waiting.key.as_str(), None));
        } else {
            steps.push(put(&waiting.key, place.to_bytes(), lease.id));
            record = lifted.map(|offset| Record { offset, ..settings.record.clone() });
            steps.extend(record.as_ref().map(|record| record.put(&self.layout)));
        }
        let places = self.layout.places(&request.name);
        let txn = Txn::new()
            .when([
                Compare::create_revision(waiting.key.as_str(), CompareOp::Equal, waiting.created),
                Compare::create_revision(places, CompareOp::Greater, waiting.created - 1)
                    .with_prefix(),
                settings.unchanged(&self.layout),
                self.not_quarantined(),
                self.not_abandoned(request.owner),
            ])
            .and_then(steps)
            .or_else([
                TxnOp::get(waiting.key.as_str(), None),
                self.get_first(&request.name),
                self.get_before(&request.name, waiting.created),
                self.get_settings(),
                self.get_quarantine(),
                TxnOp::get(self.layout.tombstone(request.owner), None),
            ]);
        let answer = self.rpc.txn(txn).await?;
        let now = revision(&answer);
        if answer.succeeded() {
            if !self.stands(&pass, &answer, lease.id).await? {
                waiting.lose();
                return Ok(None);
            }
            self.note(record.map(|record| (record, now)), now);
            let key = waiting.key.clone();
            let held = Held { key, lease, created: waiting.created, place, history: pass.history };
            return Ok(Some(Attempt::Granted(granted(request, held))));
        }
        let got = gets(&answer);
        let [own, first, before, found, quarantine, tombstone] = &got[..] else {
            return Err(short().into());
        };
        self.note_found(found, now)?;
        let there = only(own).is_some_and(|seen| seen.created == waiting.created);
        if !there {
            waiting.lose();
        }
        if let Some(held_back) = self.held_back(quarantine).await? {
            return Ok(Some(Attempt::Quarantined(held_back)));
        }
        let first = only(first);
        let is_first = first.as_ref().is_some_and(|seen| seen.key == waiting.key);
        if there && is_first && tombstone.kvs().is_empty() {
            return Ok(None);
        }
        if let Some(before) = only(before) {
            waiting.follow(Some(before.key));
        }
        Ok(Some(Attempt::Busy(self.busy(first).await?)))
    }

    pub(crate) fn note_found(&self, found: &GetResponse, now: i64) -> Result<(), Error> {
        match read_settings(found)? {
            Some(seen) => self.note(Some(seen), now),
            None => self.lost_settings(),
        }
        Ok(())
    }

    /// The place that stands first, and how many stand before this one, counted up to [`FAR`].
    async fn look_from(
        &self,
        waiting: &Waiting,
        name: &LockName,
    ) -> Result<(Option<Seen>, u32), Error> {
        let before = GetOptions::new()
            .with_prefix()
            .with_keys_only()
            .with_max_create_revision(waiting.created - 1)
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_limit(FAR.into());
        let before = TxnOp::get(self.layout.places(name), Some(before));
        // Whoever looks is to know the settings when its turn comes: they are compared.
        let look = [self.get_first(name), self.get_settings(), before];
        let answer = self.rpc.txn(Txn::new().and_then(look)).await?;
        let got = gets(&answer);
        let [first, found, before] = &got[..] else { return Err(short()) };
        self.note_found(found, revision(&answer))?;
        Ok((only(first), u32::try_from(before.kvs().len()).unwrap_or(FAR)))
    }

    /// The place before the one created at `created`.
    fn get_before(&self, name: &LockName, created: i64) -> TxnOp {
        let before = GetOptions::new()
            .with_prefix()
            .with_max_create_revision(created - 1)
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_limit(1);
        TxnOp::get(self.layout.places(name), Some(before))
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
