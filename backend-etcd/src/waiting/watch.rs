//! One watch stream for all waiters of a client. It watches the names that they wait for, single
//! keys for readers and for writers in a crowded queue, or all keys if these ranges are many.
//!
//! It never requests past events, which etcd serves late. When a watch begins, its waiters are
//! woken and read the queue themselves, and later deletions are pushed. A waiter that is not woken
//! polls. A progress request detects a stream that hangs without an error.

use std::{collections::HashMap, sync::Arc};

use etcd_client::{EventType, WatchFilterType, WatchOptions, WatchResponse};
use lock_core::{Error, Mutex};
use tokio::{task::AbortHandle, time::Instant};

use super::{
    queue::Waiters,
    ranges::{Ranges, WatchedRange, WatchedRanges, is_key},
};
use crate::{
    rpc::{Rpc, failure, late},
    tunables::{SILENT_WATCH, WATCH_PAUSE},
};

/// The watch stream of a client. Its task ends with it.
#[derive(Debug)]
pub(crate) struct Watch {
    rpc: Rpc,
    /// That of all keys of the store.
    prefix: String,
    waiters: Waiters,
    ranges: Arc<WatchedRanges>,
    task: Mutex<Task>,
}

#[derive(Debug, Default)]
enum Task {
    #[default]
    NotStarted,
    Started(AbortHandle),
    /// The client is closed.
    Stopped,
}

impl Watch {
    pub(crate) fn new(rpc: Rpc, prefix: String, waiters: Waiters) -> Self {
        let (ranges, task) = (Arc::default(), Mutex::default());
        Self { rpc, prefix, waiters, ranges, task }
    }

    /// Watches a range: a name, by the prefix of its keys, or a single key.
    pub(crate) fn range(&self, range: String) -> WatchedRange {
        let watched = WatchedRange::new(&self.ranges, range);
        self.run();
        watched
    }

    /// Starts the task on the caller's runtime, unless it runs. It ends with its runtime.
    pub(super) fn run(&self) {
        let mut task = self.task.lock();
        match &*task {
            Task::NotStarted => {}
            Task::Started(started) if started.is_finished() => {}
            Task::Started(_) | Task::Stopped => return,
        }
        let (rpc, prefix, waiters) = (self.rpc.clone(), self.prefix.clone(), self.waiters.clone());
        let watching = tokio::spawn(run(rpc, prefix, Arc::clone(&self.ranges), waiters));
        *task = Task::Started(watching.abort_handle());
    }

    /// Stops watching a name, if no waiter uses its watch.
    pub(crate) fn drop_if_idle(&self, name: &str) {
        self.ranges.drop_if_idle(name);
    }

    pub(crate) fn stop(&self) {
        if let Task::Started(task) = std::mem::replace(&mut *self.task.lock(), Task::Stopped) {
            task.abort();
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn run(rpc: Rpc, prefix: String, ranges: Arc<WatchedRanges>, waiters: Waiters) {
    loop {
        if ranges.current().is_empty() {
            ranges.changed.notified().await;
            continue;
        }
        if let Err(error) = watch(&rpc, &prefix, &ranges, &waiters).await {
            tracing::trace!(target: "leasehold", %error, "the watch ended");
        }
        tokio::time::sleep(WATCH_PAUSE).await;
    }
}

/// The watches that are open on one stream, by their ranges.
struct OpenWatches<'a> {
    /// The prefix of all keys of the store.
    prefix: &'a str,
    ids: HashMap<String, i64>,
    last_id: i64,
}

impl OpenWatches<'_> {
    /// Adds a range, and returns the options for its watch.
    fn add(&mut self, range: &str) -> WatchOptions {
        self.last_id += 1;
        self.ids.insert(range.to_owned(), self.last_id);
        let options = WatchOptions::new().with_filters([WatchFilterType::NoPut]);
        let options = options.with_watch_id(self.last_id);
        match range {
            // etcd treats an empty key as missing.
            "" => options.with_all_keys(),
            range if range != self.prefix && is_key(range) => options,
            _ => options.with_prefix(),
        }
    }

    /// The ranges to add, and the watches to remove.
    fn compare(&self, wanted: Ranges) -> (Vec<String>, Vec<(String, i64)>) {
        let wanted = match wanted {
            Ranges::Few(each) => each,
            Ranges::All => vec![self.prefix.to_owned()],
        };
        let unwanted = self.ids.iter().filter(|(range, _)| !wanted.contains(range));
        let unwanted = unwanted.map(|(range, id)| (range.clone(), *id)).collect();
        (wanted.into_iter().filter(|range| !self.ids.contains_key(range)).collect(), unwanted)
    }

    fn range(&self, id: i64) -> Option<&str> {
        self.ids.iter().find_map(|(range, its)| (*its == id).then_some(range.as_str()))
    }
}

/// Watches until the stream ends.
async fn watch(
    rpc: &Rpc,
    prefix: &str,
    ranges: &WatchedRanges,
    waiters: &Waiters,
) -> Result<(), Error> {
    let position = rpc.members.position();
    let mut open = OpenWatches { prefix, ids: HashMap::new(), last_id: 0 };
    let (new, _) = open.compare(ranges.current());
    let Some(first) = new.first() else { return Ok(()) };
    let (mut requests, mut stream) = rpc.watch(first, open.add(first)).await?.split();
    let (mut progress_requested, mut silent_from) = (false, Instant::now());
    loop {
        let (new, unwanted) = open.compare(ranges.current());
        for range in new {
            requests.watch(range.as_str(), Some(open.add(&range))).await.map_err(failure)?;
        }
        // After the new watches were added, so that each deletion meanwhile is reported by an old
        // or a new watch.
        for (range, id) in unwanted {
            open.ids.remove(&range);
            requests.cancel(id).await.map_err(failure)?;
        }
        tokio::select! {
            // Answers first: if only this task was delayed, it must not give up a watch whose
            // answers this process has read.
            biased;
            answer = stream.message() => {
                let Some(answer) = answer.map_err(failure)? else { return Ok(()) };
                (progress_requested, silent_from) = (false, Instant::now());
                if wake_waiters(&open, &answer, waiters) {
                    return Ok(());
                }
            }
            () = ranges.changed.notified() => {}
            () = tokio::time::sleep_until(silent_from + SILENT_WATCH) => {
                silent_from = Instant::now();
                if waiters.is_empty() {
                    progress_requested = false;
                } else if progress_requested {
                    rpc.members.give_up_silent(position);
                    return Err(late(SILENT_WATCH));
                } else {
                    requests.request_progress().await.map_err(failure)?;
                    progress_requested = true;
                }
            }
        }
    }
}

/// Wakes the waiters that an answer concerns. Returns whether etcd has canceled a watch that is
/// still wanted.
fn wake_waiters(open: &OpenWatches<'_>, answer: &WatchResponse, waiters: &Waiters) -> bool {
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
            waiters.deleted(key, pair.mod_revision());
        }
    }
    answer.canceled() && range.is_some()
}
