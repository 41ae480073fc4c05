//! What is done with a lock that is there: releasing, raising, abandoning, looking.

use std::{collections::BTreeMap, time::Duration};

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};
use futures_util::{StreamExt as _, future::join, stream};
use lock_core::{
    Cursor, Enqueued, Error, ErrorKind, FencingToken, Grant, Init, LockName, LockState, LossReason,
    Outcome, Page, Released, Request, StoreSettings,
};

use crate::{
    config::check_longest,
    error::Failure,
    place::{Held, Place, Seen},
    store::{EtcdBackend, gets, only, put, revision},
};

const PAGE: i64 = 200;
/// How many leases are asked about at once for a page.
const AT_ONCE: usize = 16;

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
        let last = self.lease(keep).await?;
        let place = Place { kept: true, ..held.place.clone() };
        let txn = Txn::new()
            .when([
                Compare::create_revision(held.key.as_str(), CompareOp::Equal, held.created),
                Compare::lease(held.key.as_str(), CompareOp::Equal, held.lease.id),
            ])
            .and_then([put(&held.key, place.to_bytes(), last.id)]);
        let kept = self.rpc.txn(txn).await?.succeeded();
        if !kept {
            self.spare(last);
        }
        // Nothing is tied to it any more; a late renewal finds it gone.
        self.rpc.revoke(held.lease.id).await?;
        Ok(outcome(kept))
    }

    /// The same, and a place for the next request of this process, side by side: whichever etcd carries
    /// out first, others that wait come before it.
    pub(crate) async fn hand_on(&self, held: &Held, next: &Request) -> Result<Released, Error> {
        let (outcome, queued) = join(self.give_back(held, None), self.queue(next)).await;
        match (outcome, queued) {
            (Ok(outcome), Ok(enqueued)) => {
                // Its own release is the end that it may wait for.
                self.places.ended(&held.key);
                Ok(Released { outcome, next: Some(enqueued) })
            }
            // It may stand in the queue: the core repeats all.
            (_, Err(error)) if error.is_ambiguous() => Err(error),
            (Ok(outcome), Err(_)) => Ok(Released::plain(outcome)),
            (Err(error), Ok(enqueued)) => {
                self.take_back(next, enqueued).await?;
                Err(error)
            }
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Gives up what was asked for beside a release that failed: the release is repeated with it.
    async fn take_back(&self, request: &Request, enqueued: Enqueued) -> Result<(), Error> {
        match enqueued {
            Enqueued::Granted(grant) => {
                let held = grant.state.as_ref().and_then(|state| state.downcast_ref::<Held>());
                match held {
                    Some(held) => self.give_back(held, None).await.map(drop),
                    None => Ok(()),
                }
            }
            Enqueued::Waiting(turn, _) => turn.leave().await,
            Enqueued::Quarantined(_) => {
                self.forget_try(request.owner);
                Ok(())
            }
        }
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
            let left = match self.grave().await {
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
                Err(Failure::Error(error)) => return Err(error),
            }
        };
        for got in gets(&answer) {
            for seen in got.kvs().iter().filter_map(Seen::read) {
                let kept = seen.place.as_ref().is_some_and(|place| place.kept);
                if seen.is_of(request.owner) && !kept {
                    self.rpc.revoke(seen.lease).await?;
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Lifts the token in the place, and the offset, so that whoever waits behind it exceeds it too.
    pub(crate) async fn lift_token(
        &self,
        held: &Held,
        wanted: FencingToken,
    ) -> Result<bool, Error> {
        let offset = wanted.get().cast_signed() - held.created;
        loop {
            let look = [TxnOp::get(held.key.as_str(), None), self.get_settings()];
            let answer = self.rpc.txn(Txn::new().and_then(look)).await?;
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
            let same = Compare::mod_revision(held.key.as_str(), CompareOp::Equal, seen.modified);
            let txn = Txn::new()
                .when([same, settings.unchanged(&self.layout)])
                .and_then([put(&held.key, place.to_bytes(), seen.lease), record.put(&self.layout)]);
            match self.rpc.txn(txn).await {
                Ok(answer) if answer.succeeded() => {
                    let now = revision(&answer);
                    self.note(Some((record, now)), now);
                    return Ok(true);
                }
                Ok(_) => {}
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
        let same = Compare::create_revision(held.key.as_str(), CompareOp::Equal, held.created);
        Ok(self.rpc.txn(Txn::new().when([same])).await?.succeeded())
    }

    /// Why a grant whose lease is gone was lost; a failure to look does not make it less so.
    pub(crate) async fn why_lost(&self, grant: &Grant) -> LossReason {
        match self.look(&grant.name).await {
            Ok((Some(seen), _)) if !seen.is_of(grant.owner) => LossReason::TakenOver,
            _ => LossReason::Gone,
        }
    }

    pub(crate) async fn state(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let (seen, count) = self.look(name).await?;
        let Some(seen) = seen else { return Ok(None) };
        let state = self.told(name.clone(), &seen).await?;
        Ok(Some(state.with_waiting(u64::try_from(count - 1).unwrap_or(0))))
    }

    async fn told(&self, name: LockName, seen: &Seen) -> Result<LockState, Error> {
        let remaining = self.rpc.remaining(seen.lease).await?;
        Ok(LockState::new(name, seen.holder(&self.layout, remaining), seen.token()))
    }

    /// A page of names. The places of a name stand together, and the last name of a full page may
    /// have more: the next page starts with it.
    pub(crate) async fn page(&self, from: Option<Cursor>) -> Result<Page, Error> {
        let prefix = self.layout.prefix();
        let start = from.unwrap_or_else(|| prefix.to_owned());
        let mut limit = PAGE;
        let (names, next) = loop {
            let options = GetOptions::new().with_range(end_of(prefix)).with_limit(limit);
            // etcd takes an empty key for a missing one; a zero byte is the first there can be.
            let key = if start.is_empty() { "\0" } else { &start };
            let look = TxnOp::get(key, Some(options));
            let answer = self.rpc.txn(Txn::new().and_then([look])).await?;
            let got = gets(&answer);
            let Some(got) = got.first() else { return Ok(Page::default()) };
            let mut names: BTreeMap<String, (LockName, Seen)> = BTreeMap::new();
            for seen in got.kvs().iter().filter_map(Seen::read).filter(|seen| seen.lease != 0) {
                let Some(place) = self.layout.read(&seen.key) else { continue };
                let places = self.layout.places(&place.name);
                let first = names.entry(places).or_insert_with(|| (place.name, seen.clone()));
                if seen.created < first.1.created {
                    first.1 = seen;
                }
            }
            if !got.more() {
                break (names, None);
            }
            let last = got.kvs().last().and_then(|pair| pair.key_str().ok());
            let cut = last.and_then(|key| self.layout.read(key));
            match cut {
                // A key that is no place: all names before it are complete.
                None => break (names, last.map(|key| format!("{key}\0"))),
                Some(place) => {
                    let places = self.layout.places(&place.name);
                    if names.len() > 1 || places != start {
                        names.remove(&places);
                        break (names, Some(places));
                    }
                    // More places of one name than a page holds.
                    limit *= 2;
                }
            }
        };
        let states = stream::iter(names.into_values())
            .map(|(name, seen)| async move { self.told(name, &seen).await })
            .buffer_unordered(AT_ONCE);
        let states: Vec<_> = states.collect().await;
        Ok(Page { locks: states.into_iter().collect::<Result<_, _>>()?, next })
    }

    /// Ends the lease of whoever stands first.
    pub(crate) async fn force(&self, name: &LockName) -> Result<Outcome, Error> {
        let (Some(first), _) = self.look(name).await? else { return Ok(Outcome::NotHeld) };
        if first.lease != 0 {
            return Ok(outcome(self.rpc.revoke(first.lease).await?));
        }
        let same = Compare::create_revision(first.key.as_str(), CompareOp::Equal, first.created);
        let txn = Txn::new().when([same]).and_then([TxnOp::delete(first.key, None)]);
        Ok(outcome(self.rpc.txn(txn).await?.succeeded()))
    }

    pub(crate) async fn set_up(&self, init: &Init) -> Result<StoreSettings, Error> {
        if let Some(longest) = init.longest_lease {
            check_longest(longest)?;
        }
        // Each turn begins with the settings as others may have left them.
        self.history.doubt();
        while !self.put_set_up(init).await? {
            self.history.doubt();
        }
        let record = self.settings().record;
        let mut settings = StoreSettings::new(record.longest_lease(), Some(record.quarantine));
        settings.grants_in =
            self.quarantine().await?.map_or(Duration::ZERO, |held_back| held_back.remaining);
        Ok(settings)
    }

    /// `false` if others changed the settings meanwhile.
    async fn put_set_up(&self, init: &Init) -> Result<bool, Error> {
        self.pass().await?;
        let settings = self.settings();
        let mut record = settings.record.clone();
        record.quarantine = init.quarantine.unwrap_or(record.quarantine);
        if let Some(longest) = init.longest_lease {
            record.longest_lease_micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        }
        if init.first_use {
            record.longest_held_micros = record.longest_lease_micros;
        } else {
            record.longest_held_micros =
                record.longest_held_micros.max(record.longest_lease_micros);
        }
        if record != settings.record {
            let old = settings.record.longest_lease();
            let changed = record.longest_lease() != old && !init.first_use;
            let why = "the longest lease was changed, and the old one is waited out";
            let (same, put) = (settings.unchanged(&self.layout), record.put(&self.layout));
            let written = self.put_settings(same, put, changed.then_some((old, why))).await?;
            let Some(now) = written else { return Ok(false) };
            self.note(Some((record, now)), now);
        }
        if init.first_use {
            let open = TxnOp::delete(self.layout.quarantine(), None);
            self.rpc.txn(Txn::new().and_then([open])).await?;
        }
        Ok(true)
    }
}

fn outcome(done: bool) -> Outcome {
    if done { Outcome::Released } else { Outcome::NotHeld }
}

/// The first key after all that start with `prefix`, as etcd writes ranges; a zero byte has no end.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}
