//! Guards of the queue: heartbeats, and handoffs.

use std::{sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Env as _, ErrorKind, FencingToken, Grant, ReleaseOptions, Request, SystemEnv,
    Waiter,
};
use servers::{Data, Server as _};
use verification::missing_guards::{
    Clients as _, Verdict,
    cases::{LONG, check, enqueue, first_use, granted, held_by, refused, request, words},
};

use super::server::Server;

struct Waiting {
    store: Arc<dyn Backend>,
    holder: Request,
    held: Grant,
    waiter: Request,
    _turn: Box<dyn Waiter>,
}

impl Waiting {
    async fn start(server: &Server) -> Result<Self, String> {
        let store = first_use(server).await;
        let (holder, waiter) = (request("a", LONG), request("a", LONG));
        let held = granted(&*store, &holder).await?;
        let turn = enqueue(&*store, &waiter).await?;
        Ok(Self { store, holder, held, waiter, _turn: turn })
    }

    async fn heartbeat(&mut self) -> Verdict {
        let answer = self.store.try_acquire(&self.waiter).await.map_err(words)?;
        check(matches!(answer, Attempt::Busy(_)), || format!("the lock is held: {answer:?}"))
    }

    async fn release(&mut self) -> Verdict {
        self.store.release(&self.held, ReleaseOptions::default()).await.map(drop).map_err(words)
    }
}

pub(super) async fn a_heartbeat_in_another_version(server: &mut Server) -> Verdict {
    let waiting = Waiting::start(server).await?;
    server.note("version", "2").await;
    refused(ErrorKind::Config, waiting.store.try_acquire(&waiting.waiter).await)
}

pub(super) async fn a_full_server(server: &Server) -> Verdict {
    let mut waiting = Waiting::start(server).await?;
    server.server.cli(&["CONFIG", "SET", "maxmemory", "1"]).await.map_err(words)?;
    waiting.heartbeat().await
}

pub(super) async fn a_queue_that_is_about_to_end(server: &mut Server) -> Verdict {
    let mut waiting = Waiting::start(server).await?;
    let keys = ["queue", "entries"].map(|word| server.key(word, "a"));
    for key in &keys {
        server.say(&["EXPIRE", key, "20"]).await;
    }
    waiting.heartbeat().await?;
    let left = server.server.cli(&["TTL", &keys[0]]).await.map_err(words)?;
    check(matches!(left.parse(), Ok(31_i64..)), || format!("the queue ends in {left} s"))
}

pub(super) async fn an_entry_older_than_its_life(server: &Server) -> Verdict {
    let mut waiting = Waiting::start(server).await?;
    server.clock.step(1.8).map_err(words)?;
    waiting.heartbeat().await?;
    server.clock.step(1.8).map_err(words)?;
    waiting.release().await?;
    held_by(&*waiting.store, waiting.waiter.owner).await
}

pub(super) async fn an_entry_that_is_gone(server: &Server) -> Verdict {
    let mut waiting = Waiting::start(server).await?;
    waiting.store.abandon(&waiting.waiter).await.map_err(words)?;
    waiting.heartbeat().await?;
    let there = server.server.cli(&["EXISTS", &server.key("entries", "a")]).await;
    check(there.map_err(words)? == "0", || "the entry of an abandoned owner is back".to_owned())
}

/// The client of the next entry has read a holder with a long lease before the handoff.
pub(super) async fn a_handoff_without_claim(server: &Server) -> Verdict {
    let mut waiting = Waiting::start(server).await?;
    let next = request("a", LONG);
    let _turn = enqueue(&*waiting.store, &next).await?;
    waiting.store.try_acquire(&next).await.map_err(words)?;
    waiting.release().await?;
    let slack = waiting.store.guarantees().expiry_slack;
    server.clock.step(slack.as_secs_f64()).map_err(words)?;
    granted(&*waiting.store, &next).await.map(drop)
}

pub(super) async fn an_entry_with_a_floor(server: &Server) -> Verdict {
    let store = first_use(server).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let mut waiter = request("a", LONG);
    waiter.floor = FencingToken::new(held.token.get() + 20_000_000).unwrap();
    let _turn = enqueue(&*store, &waiter).await?;
    store.release(&held, ReleaseOptions::default()).await.map_err(words)?;
    let token = granted(&*store, &waiter).await?.token;
    check(token > waiter.floor, || format!("{token} is not above {}", waiter.floor))
}

pub(super) async fn a_handoff_after_a_restart(server: &mut Server, end: &str) -> Verdict {
    let waiting = Waiting::start(server).await?;
    let began = SystemEnv.now();
    server.server.restart(Data::Keep).await.map_err(words)?;
    let store = server.open().await;
    // However long the restart took, the entry is alive by the server's clock.
    server.clock.step(-SystemEnv.now().since(began).as_secs_f64()).map_err(words)?;
    // It grants nothing, and may answer with an error.
    match end {
        "release" => store.release(&waiting.held, ReleaseOptions::default()).await.map(drop),
        "abandon" => store.abandon(&waiting.holder).await,
        _ => store.force_release(&waiting.held.name).await.map(drop),
    }
    .ok();
    let served = held_by(&*store, waiting.waiter.owner).await.is_ok();
    check(!served, || "the waiter was granted the lock in the quarantine".to_owned())
}

/// The server may have lost a call that gave the lock to another owner before.
pub(super) async fn a_hand_over_after_a_restart(server: &mut Server) -> Verdict {
    let store = first_use(server).await;
    let held = granted(&*store, &request("a", LONG)).await?;
    let began = SystemEnv.now();
    server.server.restart(Data::Keep).await.map_err(words)?;
    let store = server.open().await;
    // However long the restart took, the lock is held by the server's clock.
    server.clock.step(-SystemEnv.now().since(began).as_secs_f64()).map_err(words)?;
    let answer = store.reown(&held, &request("a", LONG)).await;
    held_by(&*store, held.owner).await?;
    check(answer.is_err(), || format!("in the quarantine it was handed over: {answer:?}"))
}

/// A lock that ends with this many dead entries in its queue, and a live one behind them.
async fn behind_dead_entries(
    server: &Server,
    dead: usize,
    dead_for: Duration,
) -> Result<(Arc<dyn Backend>, Request, Box<dyn Waiter>), String> {
    let store = first_use(server).await;
    let holder = request("a", LONG);
    granted(&*store, &holder).await?;
    for _ in 0..dead {
        // Without heartbeats, without a claim, and not withdrawn.
        std::mem::forget(enqueue(&*store, &request("a", LONG)).await?);
    }
    server.clock.step(dead_for.as_secs_f64()).map_err(words)?;
    let store = server.open().await;
    let waiter = request("a", LONG);
    let turn = enqueue(&*store, &waiter).await?;
    store.abandon(&holder).await.map_err(words)?;
    Ok((store, waiter, turn))
}

pub(super) async fn dead_entries(server: &Server) -> Verdict {
    let (store, waiter, _turn) = behind_dead_entries(server, 4, Duration::from_secs(4)).await?;
    held_by(&*store, waiter.owner).await
}

pub(super) async fn an_unclaimed_handoff(server: &Server) -> Verdict {
    let (_store, mut waiter, _turn) = behind_dead_entries(server, 1, Duration::ZERO).await?;
    server.clock.step(8.0).map_err(words)?;
    waiter.sent = SystemEnv.now();
    granted(&*server.open().await, &waiter).await.map(drop)
}
