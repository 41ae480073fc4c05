//! Operators' calls: inspect, list, release by force, set up.

use std::{collections::BTreeMap, future::ready, time::Duration};

use etcd_client::{Compare, CompareOp, GetOptions, GetResponse, Txn, TxnOp};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lock_core::{
    Cursor, Error, ErrorKind, FencingToken, Init, LockName, LockState, Mode, Page, ReleaseOutcome,
    StoreSettings,
};

use super::release::outcome;
use crate::{
    keys::{
        entry::{Seen, holders},
        settings::{RECORD_VERSION, Record, check_longest},
    },
    restore::{HistoryToken, put_settings, quarantine},
    rpc::{gets, incomplete, revision},
    store::Store,
    tunables::{LEASES_AT_ONCE, PAGE},
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

pub(crate) async fn inspect(store: &Store, name: &LockName) -> Result<Option<LockState>, Error> {
    let (held_by, count) = held_by(store, name).await?;
    let Some(state) = lock_state(store, name.clone(), &held_by).await? else { return Ok(None) };
    Ok(Some(state.with_waiting(count.saturating_sub(held_by.len()) as u64)))
}

/// The entries that hold a lock, and how many there are of its name.
async fn held_by(store: &Store, name: &LockName) -> Result<(Vec<Seen>, usize), Error> {
    let (first, count) = store.first(name).await?;
    if first.as_ref().is_none_or(|first| first.mode() != Mode::Shared) {
        return Ok((first.into_iter().collect(), usize::try_from(count).unwrap_or(0)));
    }
    let answer = store.rpc.txn(Txn::new().and_then([store.layout.get_entries(name)])).await?;
    let all: Vec<_> = gets(&answer).iter().flat_map(GetResponse::kvs).map(Seen::read).collect();
    let count = all.len();
    Ok((holders(all), count))
}

/// `None` if no entry holds it. Each of the readers has a lease of its own, and the last to end counts. A call for each of a
/// thousand would be too many, so only the newest are asked for.
async fn lock_state(
    store: &Store,
    name: LockName,
    held_by: &[Seen],
) -> Result<Option<LockState>, Error> {
    let (Some(last), Some(token)) = (held_by.last(), held_by.iter().map(Seen::token).max()) else {
        return Ok(None);
    };
    let newest = held_by.iter().rev().take(LEASES_AT_ONCE);
    let leases: Vec<_> = newest.map(|seen| seen.lease).collect();
    let asked = stream::iter(leases)
        .map(|lease| store.rpc.remaining(lease))
        .buffer_unordered(LEASES_AT_ONCE);
    let remaining = asked.try_fold(Duration::ZERO, |most, its| ready(Ok(most.max(its)))).await?;
    let readers = (last.mode() == Mode::Shared).then_some(held_by.len() as u64);
    let state = LockState::new(name, last.holder(remaining), token);
    Ok(Some(state.with_kept(last.is_kept()).with_readers(readers)))
}

/// A page of names. The entries of a name stand together, and the last name of a full page may
/// have more: the next page starts with it.
pub(crate) async fn list(store: &Store, from: Option<Cursor>) -> Result<Page, Error> {
    let prefix = store.layout.prefix();
    let start = from.unwrap_or_else(|| prefix.to_owned());
    let mut limit = PAGE;
    let (names, next) = loop {
        let options = GetOptions::new().with_range(end_of(prefix)).with_limit(limit);
        // etcd takes an empty key for a missing one; a zero byte is the first there can be.
        let key = if start.is_empty() { "\0" } else { &start };
        let look = TxnOp::get(key, Some(options));
        let look = [look, store.layout.get_settings()];
        let answer = store.rpc.txn(Txn::new().and_then(look)).await?;
        let got = gets(&answer);
        let [got, found] = &got[..] else { return Err(incomplete()) };
        store.restore.note_found(found, revision(&answer))?;
        let mut names: BTreeMap<String, (LockName, Vec<Seen>)> = BTreeMap::new();
        for seen in got.kvs().iter().map(Seen::read) {
            let Some(name) = in_the_way_of(store, &seen) else { continue };
            let entries = store.layout.entries(&name);
            names.entry(entries).or_insert_with(|| (name, Vec::new())).1.push(seen);
        }
        if !got.more() {
            break (names, None);
        }
        let last = got.kvs().last();
        let cut = last.and_then(|pair| store.layout.name_of(pair.key()));
        let cut = cut.map(|name| store.layout.entries(&name));
        match (cut, last.and_then(|pair| pair.key_str().ok())) {
            (Some(entries), _) if names.len() > 1 || entries != start => {
                names.remove(&entries);
                break (names, Some(entries));
            }
            // A key that is no entry: all names before it are complete.
            (None, Some(key)) => break (names, Some(format!("{key}\0"))),
            // More entries of one name than a page holds, or a key that no cursor can name.
            _ => limit *= 2,
        }
    };
    let states = stream::iter(names.into_values())
        .map(|(name, all)| async move { lock_state(store, name, &holders(all)).await })
        .buffer_unordered(LEASES_AT_ONCE);
    let states: Vec<_> = states.collect().await;
    let states: Vec<_> = states.into_iter().collect::<Result<_, _>>()?;
    Ok(Page::new(states.into_iter().flatten().collect(), next))
}

/// The name whose queue a key is a part of: any key there is in the way, also a key that no client made. Without a
/// prefix most keys are no locks, and only a key that looks like one is shown.
fn in_the_way_of(store: &Store, seen: &Seen) -> Option<LockName> {
    let name = store.layout.name_of(&seen.key)?;
    let key = std::str::from_utf8(&seen.key);
    let looks_so = seen.lease != 0 && key.is_ok_and(|key| store.layout.read(key).is_some());
    (looks_so || !store.layout.prefix().is_empty()).then_some(name)
}

/// Ends the leases of the entries that hold the lock. A session of etcd's own tools may have other locks by the same
/// lease: these end too, and etcd tells its process.
pub(crate) async fn force_release(store: &Store, name: &LockName) -> Result<ReleaseOutcome, Error> {
    let (held_by, _) = held_by(store, name).await?;
    let ends = stream::iter(held_by).map(|seen| end(store, seen)).buffer_unordered(LEASES_AT_ONCE);
    Ok(outcome(ends.try_fold(false, |any, ended| ready(Ok(any | ended))).await?))
}

/// Ends an entry, if it is there.
async fn end(store: &Store, seen: Seen) -> Result<bool, Error> {
    if seen.lease != 0 {
        return Ok(store.rpc.revoke(seen.lease).await?);
    }
    let same = Compare::create_revision(seen.key.clone(), CompareOp::Equal, seen.created);
    let txn = Txn::new().when([same]).and_then([TxnOp::delete(seen.key, None)]);
    Ok(store.rpc.txn(txn).await?.succeeded())
}

/// The highest token that etcd may have granted: tokens are revisions and an offset.
pub(crate) async fn highest_token(store: &Store) -> Result<FencingToken, Error> {
    let answer = store.rpc.txn(Txn::new().and_then([store.layout.get_settings()])).await?;
    let got = gets(&answer);
    let Some((record, _)) = got.first().map(Record::found).transpose()?.flatten() else {
        return Ok(FencingToken::ZERO);
    };
    record.check_version()?;
    Ok(record.highest_token(revision(&answer)))
}

pub(crate) async fn init(store: &Store, init: &Init) -> Result<StoreSettings, Error> {
    if init.restored && init.first_use {
        let message = "`restored` says that locks may be held, and `first_use` that none is; give \
                       one of the two";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    if let Some(longest) = init.longest_lease {
        check_longest(longest)?;
    }
    let restore = &store.restore;
    // Each attempt begins with the present settings.
    restore.history.doubt();
    let before = begun(store, &restore.history_of_any_version().await?).await?;
    while !put_init(store, init, before).await? {
        restore.history.doubt();
    }
    if init.restored {
        restore.begin_as_told().await?;
    }
    let record = restore.settings().record;
    let mut settings = StoreSettings::new(record.longest_lease(), Some(record.quarantine));
    let quarantine = quarantine(&store.rpc, &store.layout).await?;
    settings.grants_in = quarantine.map_or(Duration::ZERO, |held_back| held_back.remaining);
    Ok(settings)
}

/// Which quarantine runs.
pub(crate) async fn begun(store: &Store, token: &HistoryToken) -> Result<Begun, Error> {
    let answer = store.rpc.txn(Txn::new().and_then([store.layout.get_quarantine()])).await?;
    let revision = gets(&answer).first().and_then(|got| Some(got.kvs().first()?.mod_revision()));
    Ok(Begun { history: token.history, revision })
}

/// `before` is the quarantine that a first use may end. `false` if others changed the settings meanwhile.
pub(crate) async fn put_init(store: &Store, init: &Init, before: Begun) -> Result<bool, Error> {
    let (rpc, layout, restore) = (&store.rpc, &store.layout, &store.restore);
    let token = restore.history_of_any_version().await?;
    let settings = restore.settings();
    let now = begun(store, &token).await?;
    // The operator knows of no locks that a later quarantine waits for.
    let first_use = init.first_use && now.is_no_later_than(before);
    let mut record = settings.record.clone();
    // From version 0 to 1 the settings have the number, and nothing else is new.
    record.version = RECORD_VERSION;
    record.quarantine = init.quarantine.unwrap_or(record.quarantine);
    if let Some(longest) = init.longest_lease {
        record.longest_lease_micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    }
    if first_use {
        record.longest_held_micros = record.longest_lease_micros;
    } else {
        record.longest_held_micros = record.longest_held_micros.max(record.longest_lease_micros);
    }
    if record != settings.record {
        // etcd tells the rest of it in whole seconds, rounded down.
        let running = quarantine(rpc, layout).await?;
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
            changed.then_some((old, "the longest lease was changed, and the old one is waited out"))
        };
        let (same, put) = (settings.unchanged(layout), record.put(layout));
        // A longer quarantine, such as after a restore, must not end early. It is written together with settings,
        // so that none begins unseen.
        let held_back = wait.map(|(span, why)| match running {
            Some(running) if running.0 > span => running,
            _ => (span, why.to_owned()),
        });
        let held_back = held_back.as_ref().map(|(span, why)| (*span, why.as_str()));
        let Some(now) = put_settings(rpc, layout, same, put, held_back).await? else {
            return Ok(false);
        };
        restore.note(Some((record, now)), now);
    }
    let Some(revision) = now.revision.filter(|_| first_use) else { return Ok(true) };
    let same = Compare::mod_revision(layout.quarantine(), CompareOp::Equal, revision);
    let open = TxnOp::delete(layout.quarantine(), None);
    // Another one may have begun, or it has ended by itself.
    rpc.txn(Txn::new().when([same]).and_then([open])).await?;
    Ok(true)
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
