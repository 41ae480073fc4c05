//! What a place of this client's does when its turn may have come.

use std::sync::{Arc, atomic::Ordering};

use etcd_client::{Compare, CompareOp, GetOptions, SortOrder, SortTarget, Txn, TxnOp};
use lock_core::{
    Attempt, Busy, Env as _, Error, ErrorKind, FencingToken, LockName, Request, SystemEnv,
    check_lease,
};

use crate::{
    acquire::{TRIES, is_ours},
    backend::FAR,
    enqueue::short,
    error::Failure,
    place::{Held, Place, Seen},
    queue::Waiting,
    settings::Record,
    store::{EtcdBackend, gets, only, put, revision},
};

impl EtcdBackend {
    /// The attempt of an owner that has a place here: the lock is its own if the place stands first.
    pub(crate) async fn claim(&self, request: &Request) -> Result<Attempt, Error> {
        if request.floor > FencingToken::ZERO {
            self.check_token(request.floor)?;
        }
        self.allow(request.lease, Record::longest_held).await?;
        let mut is_first = false;
        for _ in 0..TRIES {
            let Some(waiting) = self.places.get(request.owner) else { break };
            // A look costs etcd no write. Whoever was told that its turn has come needs none, unless it is to
            // write, and may be refused for a raise of the offset: that costs a flush.
            let hinted = waiting.hinted.swap(false, Ordering::AcqRel);
            if !(is_first || hinted && self.is_sure_of(&waiting, request)) {
                let (first, distance) = self.look_from(&waiting, &request.name).await?;
                match first {
                    Some(seen) if seen.created == waiting.created => {
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
                        let mut busy = self.busy_behind(&waiting, first).await?;
                        busy.retry_after *= distance.max(1);
                        return Ok(Attempt::Busy(busy));
                    }
                }
            }
            match self.take_turn(request, &waiting).await {
                Ok(Some(attempt)) => return Ok(attempt),
                Ok(None) => is_first = !waiting.is_lost(),
                Err(Failure::LeaseGone) => {
                    waiting.lose();
                    is_first = false;
                }
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
        // The longest may have been made shorter while it waited: then leases of before are waited out, too.
        check_lease(request.lease, settings.record.longest_held())?;
        let lifted = settings.lift(waiting.created, request.floor);
        let lifted = lifted.inspect_err(|_| self.history.doubt())?;
        let offset = lifted.unwrap_or(settings.record.offset);
        // Credited before the transaction leaves: a later credit proves no more.
        let lease = waiting.lease();
        // Every grant takes the offset of its time, which must then stand in the settings. A place that has
        // it already is only read, which costs etcd no flush.
        let is_written = lifted.is_none() && waiting.offset == offset;
        let place = Place::new(request, offset, !is_written);
        let (mut steps, mut record) = (Vec::new(), None);
        if is_written {
            steps.push(TxnOp::get(waiting.key(), None));
        } else {
            steps.push(put(waiting.key(), place.to_bytes(), lease.id));
            let lift = |offset| Record { offset, ..settings.record.clone() };
            record = lifted.map(|offset| self.history.keep(lift(offset)));
            steps.extend(record.as_ref().map(|record| record.put(&self.layout)));
        }
        let places = self.layout.places(&request.name);
        let txn = Txn::new()
            .when([
                // Not only that it is this place: once it was granted or released, others than this try
                // have written it, and it may live by another lease.
                Compare::mod_revision(waiting.key(), CompareOp::Equal, waiting.created),
                Compare::create_revision(places, CompareOp::Greater, waiting.created - 1)
                    .with_prefix(),
                settings.unchanged(&self.layout),
                self.not_quarantined(),
                self.not_abandoned(request.owner),
            ])
            .and_then(steps)
            .or_else([
                TxnOp::get(waiting.key(), None),
                self.get_first(&request.name),
                self.get_before(&request.name, waiting.created),
                self.get_settings(),
                self.get_quarantine(),
                TxnOp::get(self.layout.tombstone(request.owner), None),
            ]);
        let answer = self.rpc.txn(txn).await?;
        let now = revision(&answer);
        if answer.succeeded() {
            let seat = Arc::clone(&waiting.seat);
            let (created, history) = (waiting.created, pass.history);
            let held = Held { seat, lease, created, place, history };
            let grant = self.brought(request, &pass, &answer, held, record).await?;
            if grant.is_none() {
                waiting.lose();
            }
            return Ok(grant.map(Attempt::Granted));
        }
        let got = gets(&answer);
        let [own, first, before, found, quarantine, tombstone] = &got[..] else {
            return Err(short().into());
        };
        self.note_found(found, now)?;
        let own = only(own).filter(|seen| seen.created == waiting.created);
        let is_repeat = own.as_ref().is_some_and(|seen| is_ours(seen, request));
        let there = is_repeat || own.as_ref().is_some_and(|seen| seen.modified == seen.created);
        if !there {
            waiting.lose();
        }
        if let Some(held_back) = self.held_back(quarantine).await? {
            return Ok(Some(Attempt::Quarantined(held_back)));
        }
        if let Some(seen) = own.filter(|_| is_repeat && tombstone.kvs().is_empty()) {
            // An earlier try has taken it, and its answer was lost.
            return Ok(self.again(request, seen).await?.map(Attempt::Granted));
        }
        let first = only(first);
        let is_first = first.as_ref().is_some_and(|seen| seen.created == waiting.created);
        if there && is_first && tombstone.kvs().is_empty() {
            return Ok(None);
        }
        if let Some(before) = only(before) {
            waiting.follow(Some(before.to_follow()));
        }
        Ok(Some(Attempt::Busy(self.busy(first).await?)))
    }

    /// Whether a transaction that claims the place writes nothing, or by settings that were just seen.
    fn is_sure_of(&self, waiting: &Waiting, request: &Request) -> bool {
        let settings = self.settings();
        let lifted = settings.lift(waiting.created, request.floor);
        matches!(lifted, Ok(None)) && settings.record.offset == waiting.offset || !settings.is_old()
    }

    /// The same as [`busy`](Self::busy) for a place that asks again and again: of one and the same holder
    /// it need not hear each time how long its lease lasts.
    async fn busy_behind(&self, waiting: &Waiting, first: Option<Seen>) -> Result<Busy, Error> {
        let Some(first) = first else { return self.busy(None).await };
        let now = SystemEnv.now();
        let remaining = match waiting.known_life(first.lease, now) {
            Some(remaining) => remaining,
            None => {
                let remaining = self.rpc.remaining(first.lease).await?;
                waiting.note_life(first.lease, now + remaining);
                remaining
            }
        };
        Ok(self.busy_for(&first, remaining))
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
}
