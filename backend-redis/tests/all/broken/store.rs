//! Guards that the whole store misses.

use std::{sync::Arc, time::Duration};

use backend_redis::{Fence, FenceError};
use conformance_tests::{
    broken::{
        Broken, Clients, Setup, Verdict,
        cases::{
            LONG, a_renewal_by_another, above, an_abandoned_owner, first_use, granted, name,
            not_granted, request,
        },
    },
    kit::{
        Change::{self, LeaveOut, Replace},
        Clock, Data, Proxy, Redis, RedisOptions, Server as _,
        wait::until,
    },
};
use lock_core::{
    Attempt, Backend, Enqueued, Env as _, Error, FencingToken, Grant, ReleaseOptions, Request,
    SystemEnv, Waiter,
};

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

    async fn restart(&mut self) {
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

/// Guards of every script that may grant, and of those that must touch nothing of another's.
pub(super) const VARIANTS: &[Broken<OneRedis>] = &[
    Broken {
        what: "S1: the attempt of a free lock reads the epoch",
        changes: &[LeaveOut("short_epoch"), LeaveOut("short_failover")],
        case: |setup| Box::pin(an_attempt_after_a_restart(setup)),
    },
    Broken {
        what: "S1: a release that hands over reads the epoch",
        changes: &[Replace("release_epoch", "local mark, refusal = 1")],
        case: |setup| Box::pin(a_handover_after_a_restart(setup, End::Release)),
    },
    Broken {
        what: "S1: a clean-up that hands over reads the epoch",
        changes: &[Replace("abandon_epoch", "local mark = redis.call('EXISTS', KEYS[3])")],
        case: |setup| Box::pin(a_handover_after_a_restart(setup, End::Abandon)),
    },
    Broken {
        what: "S1: a release by force that hands over reads the epoch",
        changes: &[Replace("force_epoch", "local mark = redis.call('EXISTS', KEYS[3])")],
        case: |setup| Box::pin(a_handover_after_a_restart(setup, End::Force)),
    },
    Broken {
        what: "S1: where a replica may be promoted, the attempt of a free lock asks who the server is",
        changes: &[LeaveOut("short_failover")],
        case: |setup| Box::pin(a_master_that_was_replaced_for_a_moment(setup)),
    },
    Broken {
        what: "S2: the token of a handover is above the watermark",
        changes: &[Replace("mint", "local token = math.max(now, floor + 1)")],
        case: |setup| Box::pin(a_handover_when_the_clock_went_back(setup)),
    },
    Broken {
        what: "S4: only the owner renews",
        changes: &[Replace("renew_owner", "if record == '' then")],
        case: |setup| Box::pin(a_renewal_by_another(setup)),
    },
    Broken {
        what: "S6: an abandoned owner leaves a tombstone",
        changes: &[LeaveOut("abandon_tombstone")],
        case: |setup| Box::pin(an_abandoned_owner(setup)),
    },
    Broken {
        what: "L3: nobody barges past a place",
        changes: &[Replace("short_free", "if redis.call('EXISTS', KEYS[2], KEYS[5]) == 0 then")],
        case: |setup| Box::pin(an_attempt_past_a_place(setup)),
    },
    Broken {
        what: "L3: a clean-up passes dead places over",
        changes: &[LeaveOut("dead_entry")],
        case: |setup| Box::pin(dead_places(setup)),
    },
    Broken {
        what: "L3: a waiter that does not claim what a clean-up handed over loses it soon",
        changes: &[Replace(
            "claim",
            "record = hold(owner, token, mine and '0' or '2', label, lease)",
        )],
        case: |setup| Box::pin(an_unclaimed_handover(setup)),
    },
    Broken {
        what: "S2: the fence refuses a lower token",
        changes: &[LeaveOut("fence")],
        case: |setup| Box::pin(a_stale_write(setup)),
    },
];

async fn an_attempt_after_a_restart(setup: &mut OneRedis) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &request("a", LONG)).await?;
    setup.restart().await;
    not_granted(&*setup.open().await, &request("b", LONG)).await
}

/// A master that was a replica in between, before its client has asked again who it is.
async fn a_master_that_was_replaced_for_a_moment(setup: &mut OneRedis) -> Verdict {
    let at_once = ["CONFIG", "SET", "repl-diskless-sync-delay", "0"];
    assert_eq!(setup.server.cli(&at_once).await.unwrap(), "OK");
    // In some of the rounds the client may ask just then, and know without the guard.
    for _ in 0..3 {
        let follow = format!("replicaof 127.0.0.1 {}", setup.server.address().port());
        let _replica = Redis::start(RedisOptions::new().line(follow)).await.unwrap();
        until("a replica in step", LONG, || async {
            let known = setup.server.cli(&["INFO", "replication"]).await?;
            Ok(known.contains("state=online").then_some(()))
        })
        .await
        .unwrap();
        let store = first_use(setup).await;
        granted(&*store, &request("warm", Duration::from_millis(10))).await?;
        for [host, port] in [["127.0.0.1", "1"], ["NO", "ONE"]] {
            assert_eq!(setup.server.cli(&["REPLICAOF", host, port]).await.unwrap(), "OK");
        }
        not_granted(&*store, &request("a", LONG)).await?;
    }
    Ok(())
}

async fn place(store: &Arc<dyn Backend>, request: &Request) -> Result<Box<dyn Waiter>, String> {
    match store.enqueue(request).await {
        Ok(Enqueued::Waiting(turn, _)) => Ok(turn),
        other => Err(format!("no place: {other:?}")),
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
    let turn = place(&store, &waiter).await?;
    let began = SystemEnv.now();
    setup.restart().await;
    let store = setup.open().await;
    // However long that took, the place is alive for the server.
    setup.clock.step(-SystemEnv.now().since(began).as_secs_f64()).unwrap();
    // One that grants nothing may say so.
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

async fn a_handover_when_the_clock_went_back(setup: &mut OneRedis) -> Verdict {
    let store = first_use(setup).await;
    let first = granted(&*store, &request("a", LONG)).await?;
    setup.clock.step(-3_600.0).unwrap();
    let waiter = request("a", LONG);
    let _turn = place(&store, &waiter).await?;
    store.release(&first, ReleaseOptions::default()).await.map_err(|error| error.to_string())?;
    above(&first, &granted(&*store, &waiter).await?)
}

async fn an_attempt_past_a_place(setup: &mut OneRedis) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &request("a", Duration::from_secs(2))).await?;
    let _turn = place(&store, &request("a", LONG)).await?;
    // The lock ends, and the place lives on.
    setup.clock.step(2.1).unwrap();
    not_granted(&*store, &request("a", LONG)).await
}

/// A lock that ends with so many dead places in its queue, and a live one behind them.
async fn behind_dead_places(
    setup: &mut OneRedis,
    dead: usize,
    dead_for: Duration,
) -> Result<(Arc<dyn Backend>, Request, Box<dyn Waiter>), String> {
    let store = first_use(setup).await;
    let holder = request("a", LONG);
    granted(&*store, &holder).await?;
    for _ in 0..dead {
        // Nobody hears of it, claims it or withdraws it.
        std::mem::forget(place(&store, &request("a", LONG)).await?);
    }
    tokio::time::sleep(dead_for).await;
    let waiter = request("a", LONG);
    let turn = place(&store, &waiter).await?;
    store.abandon(&holder).await.map_err(|error| error.to_string())?;
    Ok((store, waiter, turn))
}

async fn dead_places(setup: &mut OneRedis) -> Verdict {
    let (store, waiter, _turn) = behind_dead_places(setup, 4, Duration::from_secs(4)).await?;
    let state = store.inspect(&name("a")).await.map_err(|error| error.to_string())?;
    match state.and_then(|state| state.holder) {
        Some(holder) if holder.owner == waiter.owner => Ok(()),
        other => Err(format!("a dead place has the lock: {other:?}")),
    }
}

async fn an_unclaimed_handover(setup: &mut OneRedis) -> Verdict {
    let (store, waiter, _turn) = behind_dead_places(setup, 1, Duration::ZERO).await?;
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
