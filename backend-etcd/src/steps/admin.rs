//! The operations for operators: inspect, list, force-release, init.

use std::{collections::BTreeMap, future::ready, time::Duration};

use etcd_client::{Compare, CompareOp, GetOptions, GetResponse, Txn, TxnOp};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use lock_core::{
    Cursor, Error, ErrorKind, FencingToken, Init, LockName, LockState, Mode, Page, ReleaseOutcome,
    StoreSettings,
};

use super::release::{outcome, revoke};
use crate::{
    keys::{
        entry::{StoredEntry, holders},
        settings::{Record, check_longest},
    },
    restore::{HistoryToken, put_settings, quarantine},
    rpc::{gets, incomplete, revision},
    store::Store,
    tunables::{LEASES_AT_ONCE, PAGE},
};

/// The quarantine that runs, if any. It is identified by the history and by the revision of its
/// key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningQuarantine {
    history: u64,
    revision: Option<i64>,
}

impl RunningQuarantine {
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

/// The entries that hold a lock, and the number of all entries of its name.
async fn held_by(store: &Store, name: &LockName) -> Result<(Vec<StoredEntry>, usize), Error> {
    let (first, count) = store.first_entry(name).await?;
    if first.as_ref().is_none_or(|first| first.mode() != Mode::Shared) {
        return Ok((first.into_iter().collect(), usize::try_from(count).unwrap_or(0)));
    }
    let answer = store.rpc.txn(Txn::new().and_then([store.layout.get_entries(name)])).await?;
    let all: Vec<_> =
        gets(&answer).iter().flat_map(GetResponse::kvs).map(StoredEntry::read).collect();
    let count = all.len();
    Ok((holders(all), count))
}

/// `None` if no entry holds the lock. Each reader has its own lease, and the last to end counts. A
/// thousand readers would need a thousand calls, so only the leases of the newest readers are
/// queried.
async fn lock_state(
    store: &Store,
    name: LockName,
    held_by: &[StoredEntry],
) -> Result<Option<LockState>, Error> {
    let (Some(last), Some(token)) = (held_by.last(), held_by.iter().map(StoredEntry::token).max())
    else {
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

/// A page of names. The entries of a name are next to each other. The last name of a full page may
/// have more entries, so the next page starts with it.
pub(crate) async fn list(store: &Store, from: Option<Cursor>) -> Result<Page, Error> {
    let prefix = store.layout.prefix();
    let start = from.unwrap_or_else(|| prefix.to_owned());
    let mut limit = PAGE;
    let (names, next) = loop {
        let options = GetOptions::new().with_range(end_of(prefix)).with_limit(limit);
        // etcd treats an empty key as missing. A zero byte is the smallest possible key.
        let key = if start.is_empty() { "\0" } else { &start };
        let reads = [TxnOp::get(key, Some(options)), store.layout.get_settings()];
        let answer = store.rpc.txn(Txn::new().and_then(reads)).await?;
        let got = gets(&answer);
        let [got, found] = &got[..] else { return Err(incomplete()) };
        store.restore.note_found(found, revision(&answer))?;
        let mut names: BTreeMap<String, (LockName, Vec<StoredEntry>)> = BTreeMap::new();
        for seen in got.kvs().iter().map(StoredEntry::read) {
            let Some(name) = name_blocked_by(store, &seen) else { continue };
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
            // The last key is not an entry, so all names before it are complete.
            (None, Some(key)) => break (names, Some(format!("{key}\0"))),
            // One name has more entries than fit on a page, or the last key cannot be a cursor.
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

/// The name in whose queue a key is: any key there blocks the lock, even a key that no client made.
/// Without a prefix most keys are not locks, so only a key that looks like an entry counts.
fn name_blocked_by(store: &Store, seen: &StoredEntry) -> Option<LockName> {
    let name = store.layout.name_of(&seen.key)?;
    let key = std::str::from_utf8(&seen.key);
    let looks_so = seen.lease != 0 && key.is_ok_and(|key| store.layout.read(key).is_some());
    (looks_so || !store.layout.prefix().is_empty()).then_some(name)
}

/// Revokes the leases of the entries that hold the lock. A session of etcd's own tools may hold
/// other locks by the same lease: it loses these too, and etcd notifies its process.
pub(crate) async fn force_release(store: &Store, name: &LockName) -> Result<ReleaseOutcome, Error> {
    let (held_by, _) = held_by(store, name).await?;
    let ends = stream::iter(held_by).map(|seen| end(store, seen)).buffer_unordered(LEASES_AT_ONCE);
    Ok(outcome(ends.try_fold(false, |any, ended| ready(Ok(any | ended))).await?))
}

/// Revokes the lease of the entry with this token. No other entry has that lease.
pub(crate) async fn force_release_if(
    store: &Store,
    name: &LockName,
    token: FencingToken,
) -> Result<ReleaseOutcome, Error> {
    let (held_by, _) = held_by(store, name).await?;
    let Some(seen) = held_by.into_iter().find(|seen| seen.token() == token) else {
        return Ok(ReleaseOutcome::NotHeld);
    };
    Ok(outcome(end(store, seen).await?))
}

/// Deletes an entry, if it still exists.
async fn end(store: &Store, seen: StoredEntry) -> Result<bool, Error> {
    if seen.lease != 0 {
        return revoke(store, &seen).await;
    }
    let same = Compare::create_revision(seen.key.clone(), CompareOp::Equal, seen.created);
    let txn = Txn::new().when([same]).and_then([TxnOp::delete(seen.key, None)]);
    Ok(store.rpc.txn(txn).await?.succeeded())
}

/// The highest token that may have been granted, from the present revision and offset.
pub(crate) async fn highest_token(store: &Store) -> Result<FencingToken, Error> {
    let answer = store.rpc.txn(Txn::new().and_then([store.layout.get_settings()])).await?;
    let got = gets(&answer);
    let Some((record, _)) = got.first().map(Record::found).transpose()?.flatten() else {
        return Ok(FencingToken::ZERO);
    };
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
    // Each try starts with the present settings.
    restore.history.doubt();
    let before = running_quarantine(store, &restore.history_token().await?).await?;
    while !put_init(store, init, before).await? {
        restore.history.doubt();
    }
    if init.restored {
        restore.begin_reported_restore().await?;
        // The operator says of the restore that no record was lost in it.
        let complete = Init::new().with_records_complete(init.records_complete);
        while !put_init(store, &complete, before).await? {
            restore.history.doubt();
        }
    }
    let record = restore.settings().record;
    let mut settings = StoreSettings::new(record.longest_lease(), Some(record.quarantine));
    let quarantine = quarantine(&store.rpc, &store.layout).await?;
    settings.grants_in = quarantine.map_or(Duration::ZERO, |held_back| held_back.remaining);
    Ok(settings)
}

/// Reads which quarantine runs.
pub(crate) async fn running_quarantine(
    store: &Store,
    token: &HistoryToken,
) -> Result<RunningQuarantine, Error> {
    let answer = store.rpc.txn(Txn::new().and_then([store.layout.get_quarantine()])).await?;
    let revision = gets(&answer).first().and_then(|got| Some(got.kvs().first()?.mod_revision()));
    Ok(RunningQuarantine { history: token.history, revision })
}

/// Writes the settings that `init` wants. `before` is the quarantine that a first use may end.
/// `false` if others changed the settings meanwhile.
pub(crate) async fn put_init(
    store: &Store,
    init: &Init,
    before: RunningQuarantine,
) -> Result<bool, Error> {
    let (rpc, layout, restore) = (&store.rpc, &store.layout, &store.restore);
    let token = restore.history_token().await?;
    let settings = restore.settings();
    let now = running_quarantine(store, &token).await?;
    // The operator cannot know about locks that a later quarantine waits for.
    let first_use = init.first_use && now.is_no_later_than(before);
    let mut record = settings.record.clone();
    record.quarantine = init.quarantine.unwrap_or(record.quarantine);
    if init.records_complete {
        record.records_since = 0;
    }
    if let Some(longest) = init.longest_lease {
        record.longest_lease_micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
    }
    if first_use {
        record.longest_held_micros = record.longest_lease_micros;
    } else {
        record.longest_held_micros = record.longest_held_micros.max(record.longest_lease_micros);
    }
    if record != settings.record {
        // etcd reports the remaining time in whole seconds, rounded down.
        let running = quarantine(rpc, layout).await?;
        let running = running.map(|it| (it.remaining + Duration::from_secs(1), it.why));
        let old = settings.record.longest_lease();
        // While the quarantine was off, locks may have been lost without one.
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
        // A longer quarantine, such as after a restore, must not end early. It is written in the
        // same transaction as the settings, so that a quarantine that begins meanwhile is not
        // missed.
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
    // If another quarantine has begun, it stays. If this one has ended by itself, nothing is left
    // to do.
    rpc.txn(Txn::new().when([same]).and_then([open])).await?;
    Ok(true)
}

/// The end of the range of all keys that start with `prefix`. In etcd a zero byte means a range
/// without an end.
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
