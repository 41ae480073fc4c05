//! One stream of watches for all waiters of a client. It watches the names that they wait for; the keys that readers
//! follow, and writers in a crowded queue; or all keys, where these are many.
//!
//! It never asks for the past, which etcd serves late: after each watch is made its waiters look for themselves, and
//! later ends are pushed. A waiter that is not woken polls. A request for progress finds a stream that hangs without
//! an error.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use etcd_client::{EventType, WatchFilterType, WatchOptions, WatchResponse};
use lock_core::Error;
use tokio::{task::AbortHandle, time::Instant};

use super::{
    names::{Names, Ranges, Watched, is_key},
    queue::Waiters,
};
use crate::{
    rpc::{Rpc, failure, late},
    tunables::{SILENT_WATCH, WATCH_PAUSE},
};

/// The watch's task, which ends with it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    task: OnceLock<AbortHandle>,
    names: Arc<Names>,
}

impl Watch {
    /// Watches a name, by the beginning of its keys, or one of them; `prefix` is that of all keys. Starts the task when this
    /// is first asked for.
    pub(crate) fn range(
        &self,
        rpc: &Rpc,
        prefix: &str,
        waiters: &Waiters,
        range: String,
    ) -> Watched {
        let watched = Watched::new(&self.names, range);
        self.task.get_or_init(|| {
            let (rpc, prefix, waiters) = (rpc.clone(), prefix.to_owned(), waiters.clone());
            let names = Arc::clone(&self.names);
            tokio::spawn(run(rpc, prefix, names, waiters)).abort_handle()
        });
        watched
    }

    /// Watches a whole name no more, if nobody wants it.
    pub(crate) fn let_go(&self, name: &str) {
        self.names.let_go(name);
    }

    pub(crate) fn stop(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn run(rpc: Rpc, prefix: String, names: Arc<Names>, waiters: Waiters) {
    loop {
        if names.ranges().is_empty() {
            names.changed.notified().await;
            continue;
        }
        if let Err(error) = watch(&rpc, &prefix, &names, &waiters).await {
            tracing::debug!(%error, "the watch ended");
        }
        tokio::time::sleep(WATCH_PAUSE).await;
    }
}

/// The watches of one stream, by the beginnings of the keys that they watch.
struct Open<'a> {
    /// That of all keys.
    prefix: &'a str,
    watches: HashMap<String, i64>,
    last: i64,
}

impl Open<'_> {
    /// How to watch another range.
    fn add(&mut self, range: &str) -> WatchOptions {
        self.last += 1;
        self.watches.insert(range.to_owned(), self.last);
        let options = WatchOptions::new().with_filters([WatchFilterType::NoPut]);
        let options = options.with_watch_id(self.last);
        match range {
            // etcd takes an empty key for a missing one.
            "" => options.with_all_keys(),
            range if range != self.prefix && is_key(range) => options,
            _ => options.with_prefix(),
        }
    }

    /// What is wanted and not watched, and what is watched and not wanted.
    fn compare(&self, wanted: Ranges) -> (Vec<String>, Vec<(String, i64)>) {
        let wanted = match wanted {
            Ranges::Few(each) => each,
            Ranges::All => vec![self.prefix.to_owned()],
        };
        let other = self.watches.iter().filter(|(range, _)| !wanted.contains(range));
        let other = other.map(|(range, id)| (range.clone(), *id)).collect();
        (wanted.into_iter().filter(|range| !self.watches.contains_key(range)).collect(), other)
    }

    fn range(&self, id: i64) -> Option<&str> {
        self.watches.iter().find_map(|(range, its)| (*its == id).then_some(range.as_str()))
    }
}

/// Watches until the stream ends.
async fn watch(rpc: &Rpc, prefix: &str, names: &Names, waiters: &Waiters) -> Result<(), Error> {
    let position = rpc.members.position();
    let mut open = Open { prefix, watches: HashMap::new(), last: 0 };
    let (new, _) = open.compare(names.ranges());
    let Some(first) = new.first() else { return Ok(()) };
    let (mut asks, mut stream) = rpc.watch(first, open.add(first)).await?.split();
    let (mut is_asked, mut silent_from) = (false, Instant::now());
    loop {
        let (new, other) = open.compare(names.ranges());
        for range in new {
            asks.watch(range.as_str(), Some(open.add(&range))).await.map_err(failure)?;
        }
        // Behind the new ones: what ends meanwhile is told by one or the other.
        for (range, id) in other {
            open.watches.remove(&range);
            asks.cancel(id).await.map_err(failure)?;
        }
        tokio::select! {
            answer = stream.message() => {
                let Some(answer) = answer.map_err(failure)? else { return Ok(()) };
                (is_asked, silent_from) = (false, Instant::now());
                if tell(&open, &answer, waiters) {
                    return Ok(());
                }
            }
            () = names.changed.notified() => {}
            () = tokio::time::sleep_until(silent_from + SILENT_WATCH) => {
                silent_from = Instant::now();
                if waiters.is_empty() {
                    is_asked = false;
                } else if is_asked {
                    rpc.members.give_up(position);
                    return Err(late(SILENT_WATCH));
                } else {
                    asks.request_progress().await.map_err(failure)?;
                    is_asked = true;
                }
            }
        }
    }
}

/// Tells the waiters; returns whether etcd has ended a watch that is wanted.
fn tell(open: &Open<'_>, answer: &WatchResponse, waiters: &Waiters) -> bool {
    let range = open.range(answer.watch_id());
    if answer.created()
        && let Some(range) = range
    {
        match range {
            all if all == open.prefix => waiters.wake_all(),
            key if is_key(key) => waiters.wake_behind(key),
            name => waiters.wake_of(name),
        }
    }
    for event in answer.events() {
        let Some(pair) = event.kv().filter(|_| event.event_type() == EventType::Delete) else {
            continue;
        };
        if let Ok(key) = pair.key_str() {
            waiters.ended(key, pair.mod_revision());
        }
    }
    answer.canceled() && range.is_some()
}
