//! What operators do: looking, listing, ending by force, setting up.

use std::{collections::BTreeMap, time::Duration};

use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};
use futures_util::{StreamExt as _, stream};
use lock_core::{
    Cursor, Error, ErrorKind, Init, LockName, LockState, Outcome, Page, StoreSettings,
};

use crate::{
    config::check_longest,
    history::Pass,
    place::Seen,
    release::outcome,
    store::{EtcdBackend, gets},
};

/// A quarantine, if there is one: by its key's revision in a history of the cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    history: u64,
    revision: Option<i64>,
}

impl Begun {
    fn is_no_later_than(self, before: Self) -> bool {
        let is_same = self.revision.is_none() || self.revision == before.revision;
        self.history == before.history && is_same
    }
}

const PAGE: i64 = 200;
/// How many leases are asked about at once for a page.
const AT_ONCE: usize = 16;

impl EtcdBackend {
    pub(crate) async fn state(&self, name: &LockName) -> Result<Option<LockState>, Error> {
        let (seen, count) = self.look(name).await?;
        let Some(seen) = seen else { return Ok(None) };
        let state = self.told(name.clone(), &seen).await?;
        Ok(Some(state.with_waiting(u64::try_from(count - 1).unwrap_or(0))))
    }

    async fn told(&self, name: LockName, seen: &Seen) -> Result<LockState, Error> {
        let remaining = self.rpc.remaining(seen.lease).await?;
        let state = LockState::new(name, seen.holder(remaining), seen.token());
        Ok(state.with_kept(seen.is_kept()))
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
            for seen in got.kvs().iter().map(Seen::read) {
                let Some(name) = self.in_the_way_of(&seen) else { continue };
                let places = self.layout.places(&name);
                let first = names.entry(places).or_insert_with(|| (name, seen.clone()));
                if seen.created < first.1.created {
                    first.1 = seen;
                }
            }
            if !got.more() {
                break (names, None);
            }
            let last = got.kvs().last();
            let cut = last.and_then(|pair| self.layout.name_of(pair.key()));
            let cut = cut.map(|name| self.layout.places(&name));
            match (cut, last.and_then(|pair| pair.key_str().ok())) {
                (Some(places), _) if names.len() > 1 || places != start => {
                    names.remove(&places);
                    break (names, Some(places));
                }
                // A key that is no place: all names before it are complete.
                (None, Some(key)) => break (names, Some(format!("{key}\0"))),
                // More places of one name than a page holds, or a key that no cursor can name.
                _ => limit *= 2,
            }
        };
        let states = stream::iter(names.into_values())
            .map(|(name, seen)| async move { self.told(name, &seen).await })
            .buffer_unordered(AT_ONCE);
        let states: Vec<_> = states.collect().await;
        Ok(Page { locks: states.into_iter().collect::<Result<_, _>>()?, next })
    }

    /// The name of whose queue a key is a part: whatever stands there is in the way, also what no client made. Without
    /// a prefix most keys are no locks, and only what looks like one is shown.
    fn in_the_way_of(&self, seen: &Seen) -> Option<LockName> {
        let name = self.layout.name_of(&seen.key)?;
        let key = std::str::from_utf8(&seen.key);
        let looks_so = seen.lease != 0 && key.is_ok_and(|key| self.layout.read(key).is_some());
        (looks_so || !self.layout.prefix().is_empty()).then_some(name)
    }

    /// Ends the lease of whoever stands first. A session of etcd's own tools may have other locks by the same
    /// lease: these end too, and its process is told so.
    pub(crate) async fn force(&self, name: &LockName) -> Result<Outcome, Error> {
        let (Some(first), _) = self.look(name).await? else { return Ok(Outcome::NotHeld) };
        if first.lease != 0 {
            return Ok(outcome(self.rpc.revoke(first.lease).await?));
        }
        let same = Compare::create_revision(first.key.clone(), CompareOp::Equal, first.created);
        let txn = Txn::new().when([same]).and_then([TxnOp::delete(first.key, None)]);
        Ok(outcome(self.rpc.txn(txn).await?.succeeded()))
    }

    pub(crate) async fn set_up(&self, init: &Init) -> Result<StoreSettings, Error> {
        if init.restored && init.first_use {
            let message = "`restored` says that locks may be held, and `first_use` that none is; allowed is \
                           one of the two";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
        if let Some(longest) = init.longest_lease {
            check_longest(longest)?;
        }
        // Each turn begins with the settings as others may have left them.
        self.history.doubt();
        let before = self.begun(&self.pass().await?).await?;
        while !self.put_set_up(init, before).await? {
            self.history.doubt();
        }
        if init.restored {
            self.begin_as_told().await?;
        }
        let record = self.settings().record;
        let mut settings = StoreSettings::new(record.longest_lease(), Some(record.quarantine));
        settings.grants_in =
            self.quarantine().await?.map_or(Duration::ZERO, |held_back| held_back.remaining);
        Ok(settings)
    }

    /// Which quarantine runs.
    pub(crate) async fn begun(&self, pass: &Pass) -> Result<Begun, Error> {
        let answer = self.rpc.txn(Txn::new().and_then([self.get_quarantine()])).await?;
        let revision =
            gets(&answer).first().and_then(|got| Some(got.kvs().first()?.mod_revision()));
        Ok(Begun { history: pass.history, revision })
    }

    /// `before` is what a first use may end. `false` if others changed the settings meanwhile.
    pub(crate) async fn put_set_up(&self, init: &Init, before: Begun) -> Result<bool, Error> {
        let pass = self.pass().await?;
        let settings = self.settings();
        let now = self.begun(&pass).await?;
        // What is known of locks is known of those before a quarantine that began since.
        let first_use = init.first_use && now.is_no_later_than(before);
        let mut record = settings.record.clone();
        record.quarantine = init.quarantine.unwrap_or(record.quarantine);
        if let Some(longest) = init.longest_lease {
            record.longest_lease_micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        }
        if first_use {
            record.longest_held_micros = record.longest_lease_micros;
        } else {
            record.longest_held_micros =
                record.longest_held_micros.max(record.longest_lease_micros);
        }
        if record != settings.record {
            // What is left of it is told in whole seconds, rounded down.
            let running = self.quarantine().await?;
            let running = running.map(|it| (it.remaining + Duration::from_secs(1), it.why));
            let old = settings.record.longest_lease();
            // Locks may have been lost while nothing would have held grants back.
            let turned_on = record.quarantine && !settings.record.quarantine;
            let wait = if first_use {
                None
            } else if turned_on {
                Some((record.longest_held(), "the quarantine was turned on"))
            } else {
                let changed = record.longest_lease() != old;
                changed.then_some((
                    old,
                    "the longest lease was changed, and the old one is waited out",
                ))
            };
            let (same, put) = (settings.unchanged(&self.layout), record.put(&self.layout));
            // One that is longer, such as that after a restore, is not to end before its time. It comes with
            // settings of its own, so that none begins unseen.
            let held_back = wait.map(|(span, why)| match running {
                Some(running) if running.0 > span => running,
                _ => (span, why.to_owned()),
            });
            let held_back = held_back.as_ref().map(|(span, why)| (*span, why.as_str()));
            let Some(now) = self.put_settings(same, put, held_back).await? else {
                return Ok(false);
            };
            self.note(Some((record, now)), now);
        }
        let Some(revision) = now.revision.filter(|_| first_use) else { return Ok(true) };
        let same = Compare::mod_revision(self.layout.quarantine(), CompareOp::Equal, revision);
        let open = TxnOp::delete(self.layout.quarantine(), None);
        // Another one may have begun, or it has ended by itself.
        self.rpc.txn(Txn::new().when([same]).and_then([open])).await?;
        Ok(true)
    }
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
