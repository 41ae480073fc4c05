//! Guards that are tested on the whole store.

use std::{sync::Arc, time::Duration};

use backend_redis::{Fence, FenceError};
use lock_core::{
    Attempt, Backend, Enqueued, Env as _, Error, FencingToken, Grant, ReleaseOptions, Request,
    SystemEnv, Waiter,
};
use servers::{
    Change::{self, LeaveOut, Replace},
    Clock, Data, Proxy, Redis, RedisOptions, Server as _,
};
use verification::missing_guards::{
    Clients, Setup, Verdict,
    cases::{LONG, a_renewal_by_another, first_use, granted, name, request},
};
use verification::variants;

pub(super) struct OneRedis {
    server: Redis,
    proxy: Proxy,
    clock: Clock,
}

impl OneRedis {
    pub(super) fn server(&self) -> &Redis {
        &self.server
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    fn url(&self) -> String {
        format!("redis://{}", self.proxy.address())
    }

    pub(super) async fn restart(&mut self) {
        let before = self.server.info("run_id").await.unwrap();
        self.server.restart(Data::Keep).await.unwrap();
        assert_ne!(self.server.info("run_id").await.unwrap(), before);
    }
}

#[async_trait::async_trait]
impl Setup for OneRedis {
    async fn start(changes: &[Change<'_>]) -> Self {
        let clock = Clock::new().await.unwrap();
        let options = RedisOptions::new().aof().line("appendfsync always").clock(&clock);
        let server = Redis::start(options).await.unwrap();
        let proxy = Proxy::changing(server.address(), changes).await.unwrap();
        Self { server, proxy, clock }
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

#[async_trait::async_trait]
impl Clients for OneRedis {
    async fn open(&self) -> Arc<dyn Backend> {
        backend_redis::connect(&self.url()).await.unwrap()
    }
}

// Guards of every script that may grant, and of those that must not touch another owner's lock.
variants! {
    pub(super) VARIANTS |stage: OneRedis|
    "S1: a release with handoff checks the epoch"
        Replace("release_epoch", "local mark = 1") => a_handover_after_a_restart(stage, End::Release);
    "S1: a clean-up with handoff checks the epoch"
        Replace("abandon_epoch", "local mark = redis.call('EXISTS', KEYS[3])") => a_handover_after_a_restart(stage, End::Abandon);
    "S1: a release by force with handoff checks the epoch"
        Replace("force_epoch", "local mark = redis.call('EXISTS', KEYS[3])") => a_handover_after_a_restart(stage, End::Force);
    "S4: only the owner renews" LeaveOut("renew_owner") => a_renewal_by_another(stage);
    "L3: a clean-up passes over dead entries" LeaveOut("dead_entry") => dead_entries(stage);
    "L3: a waiter that does not claim its handoff loses it soon"
        Replace("claim", "redis.call('SET', KEYS[2], record, 'PX', lease)") => an_unclaimed_handover(stage);
    "S2: the fence refuses a lower token" LeaveOut("fence") => a_stale_write(stage);
}

async fn entry(store: &Arc<dyn Backend>, request: &Request) -> Result<Box<dyn Waiter>, String> {
    match store.enqueue(request).await {
        Ok(Enqueued::Waiting(turn, _)) => Ok(turn),
        other => Err(format!("no queue entry: {other:?}")),
    }
}

enum End {
    Release,
    Abandon,
    Force,
}

async fn end_of(
    store: &dyn Backend,
    grant: &Grant,
    holder: &Request,
    end: End,
) -> Result<(), Error> {
    match end {
        End::Release => store.release(grant, ReleaseOptions::default()).await.map(drop),
        End::Abandon => store.abandon(holder).await,
        End::Force => store.force_release(&grant.name).await.map(drop),
    }
}

async fn a_handover_after_a_restart(setup: &mut OneRedis, end: End) -> Verdict {
    let store = first_use(setup).await;
    let (holder, waiter) = (request("a", LONG), request("a", LONG));
    let grant = granted(&*store, &holder).await?;
    let turn = entry(&store, &waiter).await?;
    let began = SystemEnv.now();
    setup.restart().await;
    let store = setup.open().await;
    // However long the restart took, the entry is alive by the server's clock.
    setup.clock.step(-SystemEnv.now().since(began).as_secs_f64()).unwrap();
    // It grants nothing, and may answer with an error.
    end_of(&*store, &grant, &holder, end).await.ok();
    let state = store.inspect(&name("a")).await.map_err(|error| error.to_string())?;
    drop(turn);
    match state.and_then(|state| state.holder) {
        Some(holder) if holder.owner == waiter.owner => {
            Err("the waiter was granted the lock in the quarantine".to_owned())
        }
        _ => Ok(()),
    }
}

/// A lock that ends with this many dead entries in its queue, and a live one behind them.
async fn behind_dead_entries(
    setup: &mut OneRedis,
    dead: usize,
    dead_for: Duration,
) -> Result<(Arc<dyn Backend>, Request, Box<dyn Waiter>), String> {
    let store = first_use(setup).await;
    let holder = request("a", LONG);
    granted(&*store, &holder).await?;
    for _ in 0..dead {
        // Without heartbeats, without a claim, and not withdrawn.
        std::mem::forget(entry(&store, &request("a", LONG)).await?);
    }
    tokio::time::sleep(dead_for).await;
    let waiter = request("a", LONG);
    let turn = entry(&store, &waiter).await?;
    store.abandon(&holder).await.map_err(|error| error.to_string())?;
    Ok((store, waiter, turn))
}

async fn dead_entries(setup: &mut OneRedis) -> Verdict {
    let (store, waiter, _turn) = behind_dead_entries(setup, 4, Duration::from_secs(4)).await?;
    let state = store.inspect(&name("a")).await.map_err(|error| error.to_string())?;
    match state.and_then(|state| state.holder) {
        Some(holder) if holder.owner == waiter.owner => Ok(()),
        other => Err(format!("a dead entry has the lock: {other:?}")),
    }
}

async fn an_unclaimed_handover(setup: &mut OneRedis) -> Verdict {
    let (store, waiter, _turn) = behind_dead_entries(setup, 1, Duration::ZERO).await?;
    let (began, limit) = (SystemEnv.now(), Duration::from_secs(8));
    while SystemEnv.now().since(began) < limit {
        let mut again = waiter.clone();
        again.sent = SystemEnv.now();
        if let Ok(Attempt::Granted(_)) = store.try_acquire(&again).await {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(format!("a free lock was not had for {limit:?}"))
}

async fn a_stale_write(setup: &mut OneRedis) -> Verdict {
    let fence = Fence::connect(&setup.url()).await.unwrap();
    let [one, two] = [1, 2].map(|token| FencingToken::new(token).unwrap());
    fence.set("data", "new", two).await.map_err(|error| error.to_string())?;
    match fence.set("data", "late", one).await {
        Err(FenceError::Stale(_)) => Ok(()),
        other => Err(format!("a stale write: {other:?}")),
    }
}
