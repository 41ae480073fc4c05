//! Guards of heartbeats.

use std::{sync::Arc, time::Duration};

use lock_core::{Attempt, Backend, Enqueued, ErrorKind, Grant, ReleaseOptions, Request, Waiter};
use servers::Change::{LeaveOut, Replace};
use verification::missing_guards::{
    Verdict,
    cases::{LONG, first_use, granted, name, request, words},
};
use verification::variants;

use super::store::OneRedis;

variants! {
    pub(super) VARIANTS |stage: OneRedis|
    "S1: a heartbeat leaves records of another version alone" LeaveOut("heartbeat_version") => another_version(stage);
    "L3: a heartbeat counts also on a full server" LeaveOut("heartbeat_memory") => a_full_server(stage);
    "L3: the queue lives as long as its entries get heartbeats"
        LeaveOut("heartbeat_queue_life") => a_queue_that_is_about_to_end(stage);
    "L3: an entry with heartbeats lives on"
        Replace("heartbeat_life", "if call('HEXISTS', entries, owner) == 0 then") => an_entry_older_than_its_life(stage);
    "L3: a heartbeat does not make an entry again" LeaveOut("heartbeat_gone") => an_entry_that_is_gone(stage);
    "L1: a heartbeat finds a lock free that was handed over and not claimed"
        Replace("heartbeat_free", "local free = false") => a_handoff_without_claim(stage);
}

struct Waiting {
    store: Arc<dyn Backend>,
    held: Grant,
    waiter: Request,
    _turn: Box<dyn Waiter>,
}

impl Waiting {
    async fn start(setup: &OneRedis) -> Result<Self, String> {
        let store = first_use(setup).await;
        let held = granted(&*store, &request("a", LONG)).await?;
        let waiter = request("a", LONG);
        match store.enqueue(&waiter).await.map_err(words)? {
            Enqueued::Waiting(turn, _) => Ok(Self { store, held, waiter, _turn: turn }),
            other => Err(format!("no queue entry: {other:?}")),
        }
    }

    async fn heartbeat(&mut self) -> Verdict {
        match self.store.try_acquire(&self.waiter).await.map_err(words)? {
            Attempt::Busy(_) => Ok(()),
            other => Err(format!("the lock is held: {other:?}")),
        }
    }

    /// Whether the waiter is the next holder.
    async fn is_served(&mut self) -> Verdict {
        self.store.release(&self.held, ReleaseOptions::default()).await.map_err(words)?;
        let state = self.store.inspect(&name("a")).await.map_err(words)?;
        match state.and_then(|state| state.holder) {
            Some(holder) if holder.owner == self.waiter.owner => Ok(()),
            other => Err(format!("the entry was passed over: {other:?}")),
        }
    }
}

async fn another_version(setup: &mut OneRedis) -> Verdict {
    let waiting = Waiting::start(setup).await?;
    setup.server().cli(&["HSET", "leasehold:{0}:epoch", "version", "2"]).await.map_err(words)?;
    match waiting.store.try_acquire(&waiting.waiter).await {
        Err(error) if error.kind() == ErrorKind::Config => Ok(()),
        other => Err(format!("it was not refused: {other:?}")),
    }
}

async fn a_full_server(setup: &mut OneRedis) -> Verdict {
    let mut waiting = Waiting::start(setup).await?;
    setup.server().cli(&["CONFIG", "SET", "maxmemory", "1"]).await.map_err(words)?;
    waiting.heartbeat().await
}

async fn a_queue_that_is_about_to_end(setup: &mut OneRedis) -> Verdict {
    let mut waiting = Waiting::start(setup).await?;
    let server = setup.server();
    let queue = "leasehold:{0}:queue:a";
    for key in [queue, "leasehold:{0}:entries:a"] {
        server.cli(&["EXPIRE", key, "20"]).await.map_err(words)?;
    }
    waiting.heartbeat().await?;
    let left = server.cli(&["TTL", queue]).await.map_err(words)?;
    match left.parse() {
        Ok(31_i64..) => Ok(()),
        _ => Err(format!("the queue ends in {left} s")),
    }
}

async fn an_entry_older_than_its_life(setup: &mut OneRedis) -> Verdict {
    let mut waiting = Waiting::start(setup).await?;
    let part = Duration::from_millis(1_800).as_secs_f64();
    setup.clock().step(part).map_err(words)?;
    waiting.heartbeat().await?;
    setup.clock().step(part).map_err(words)?;
    waiting.is_served().await
}

async fn an_entry_that_is_gone(setup: &mut OneRedis) -> Verdict {
    let waiting = Waiting::start(setup).await?;
    waiting.store.abandon(&waiting.waiter).await.map_err(words)?;
    waiting.store.try_acquire(&waiting.waiter).await.map_err(words)?;
    let left = setup.server().cli(&["EXISTS", "leasehold:{0}:entries:a"]).await.map_err(words)?;
    match left.as_str() {
        "0" => Ok(()),
        _ => Err("the entry of an abandoned owner is there again".to_owned()),
    }
}

/// The client of the next entry has read a holder with a long lease before the handoff.
async fn a_handoff_without_claim(setup: &mut OneRedis) -> Verdict {
    let waiting = Waiting::start(setup).await?;
    let next = request("a", LONG);
    let _turn = waiting.store.enqueue(&next).await.map_err(words)?;
    waiting.store.try_acquire(&next).await.map_err(words)?;
    waiting.store.release(&waiting.held, ReleaseOptions::default()).await.map_err(words)?;
    setup.clock().step(waiting.store.guarantees().expiry_slack.as_secs_f64()).map_err(words)?;
    match waiting.store.try_acquire(&next).await.map_err(words)? {
        Attempt::Granted(_) => Ok(()),
        other => Err(format!("the lock is free, and the answer was {other:?}")),
    }
}
