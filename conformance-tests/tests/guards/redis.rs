//! Redis: guards in its Lua.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Clock, Data, Proxy, Redis, RedisOptions, Server as _, wait::until};
use futures_util::future::join_all;
use leasehold::redis::{FenceError, RedisFence};
use lock_core::{
    Attempt, Backend, Enqueued, Env as _, Error, FencingToken, Grant, Release, Request, SystemEnv,
    Turn,
};

use super::{
    cases::{a_release_by_another, a_renewal_by_another, an_abandoned_owner},
    wire::{
        Guard, LONG, Stage, Verdict, above, first_use, granted, name, not_granted, open, request,
        try_all,
    },
};

struct OneRedis {
    server: Redis,
    proxy: Proxy,
    clock: Clock,
}

impl OneRedis {
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
impl Stage for OneRedis {
    async fn start(texts: &[(&str, &str)]) -> Self {
        let clock = Clock::new().await.unwrap();
        let options = RedisOptions::new().aof().line("appendfsync always").clock(&clock);
        let server = Redis::start(options).await.unwrap();
        let proxy = Proxy::altering(server.address(), texts).await.unwrap();
        Self { server, proxy, clock }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

/// Guards of every script that may grant, and of those that must touch nothing of another's.
const GUARDS: &[Guard<OneRedis>] = &[
    Guard {
        what: "section 4: the attempt of a free lock reads the epoch",
        texts: &[("if known ~= ARGV[1] and (string.sub", "if false and (string.sub")],
        case: |stage| Box::pin(an_attempt_after_a_restart(stage)),
    },
    Guard {
        what: "section 4: the attempt of a free lock waits for the quarantine",
        texts: &[("or e[5] + 0 > now or", "or")],
        case: |stage| Box::pin(an_attempt_in_quarantine(stage)),
    },
    Guard {
        what: "section 4: the long way of an attempt reads the epoch",
        texts: &[(
            "local mark, refusal = gate(now)\nif not mark then return refusal end\nif tonumber",
            "local mark, refusal = 1\nif not mark then return refusal end\nif tonumber",
        )],
        case: |stage| Box::pin(an_attempt_after_a_restart(stage)),
    },
    Guard {
        what: "section 4: the attempts of a batch wait for the quarantine",
        texts: &[("open = e[5] + 0 <= now and now <=", "open = now <=")],
        case: |stage| Box::pin(attempts_in_quarantine(stage)),
    },
    Guard {
        what: "section 4: a release that hands over reads the epoch",
        texts: &[(
            "local mark, refusal = gate(now)\nif not mark then return next_",
            "local mark, refusal = 1\nif not mark then return next_",
        )],
        case: |stage| Box::pin(a_handover_after_a_restart(stage, End::Release)),
    },
    Guard {
        what: "section 4: a clean-up that hands over reads the epoch",
        texts: &[(
            "if not mine then return 0 end\nlocal now = clock()\nlocal mark = redis.call('EXISTS', KEYS[3]) == 1 and gate(now)",
            "if not mine then return 0 end\nlocal now = clock()\nlocal mark = redis.call('EXISTS', KEYS[3])",
        )],
        case: |stage| Box::pin(a_handover_after_a_restart(stage, End::Abandon)),
    },
    Guard {
        what: "section 4: a release by force that hands over reads the epoch",
        texts: &[(
            "== 0 then return 0 end\nlocal now = clock()\nlocal mark = redis.call('EXISTS', KEYS[3]) == 1 and gate(now)",
            "== 0 then return 0 end\nlocal now = clock()\nlocal mark = redis.call('EXISTS', KEYS[3])",
        )],
        case: |stage| Box::pin(a_handover_after_a_restart(stage, End::Force)),
    },
    Guard {
        what: "section 5: where a replica may be promoted, the attempt of a free lock asks who the server is",
        texts: &[(
            "or not string.find(call('INFO', 'replication'), 'master_replid:' .. e[2], 1, true)) then",
            ") then",
        )],
        case: |stage| Box::pin(a_master_that_was_replaced_for_a_moment(stage)),
    },
    Guard {
        what: "S2: the token of a free lock is above the watermark",
        texts: &[("or (tonumber(e[6] or 0) or now) >= now then", "then")],
        case: |stage| Box::pin(a_clock_that_goes_back(stage)),
    },
    Guard {
        what: "S2: the token of a handover is above the watermark",
        texts: &[("math.max(now, mark + 1, floor + 1)", "math.max(now, floor + 1)")],
        case: |stage| Box::pin(a_handover_when_the_clock_went_back(stage)),
    },
    Guard {
        what: "S1: a batch grants a name once",
        texts: &[(".. ARGV[6], 'PX', lease, 'NX')", ".. ARGV[6], 'PX', lease)")],
        case: |stage| Box::pin(attempts_of_one_batch(stage)),
    },
    Guard {
        what: "S4: only the owner releases",
        texts: &[(
            "local mine = type(record) == 'string' and string.sub(record, 1, 32) == ARGV[3]",
            "local mine = type(record) == 'string'",
        )],
        case: |stage| Box::pin(a_release_by_another(stage.url())),
    },
    Guard {
        what: "S4: only the owner renews",
        texts: &[("if string.sub(record, 1, 32) ~= owner then", "if record == '' then")],
        case: |stage| Box::pin(a_renewal_by_another(stage.url())),
    },
    Guard {
        what: "S6: an abandoned owner finds its tombstone",
        texts: &[("KEYS[2], KEYS[3], KEYS[5]) == 0 then", "KEYS[2], KEYS[3]) == 0 then")],
        case: |stage| Box::pin(an_abandoned_owner(stage.url())),
    },
    Guard {
        what: "L3: nobody barges past a place",
        texts: &[("KEYS[2], KEYS[3], KEYS[5]) == 0 then", "KEYS[2], KEYS[5]) == 0 then")],
        case: |stage| Box::pin(an_attempt_past_a_place(stage)),
    },
    Guard {
        what: "L3: a release passes dead places over",
        texts: &[(
            "if until_ and until_ + 0 > now and until_ + 0 <=",
            "if until_ and until_ + 0 <=",
        )],
        case: |stage| Box::pin(dead_places(stage, End::Release)),
    },
    Guard {
        what: "L3: a clean-up passes dead places over",
        texts: &[("if until_ and until_ > now and until_ <= now + LIFE_US then", "if until_ then")],
        case: |stage| Box::pin(dead_places(stage, End::Abandon)),
    },
    Guard {
        what: "L3: who does not claim what a release handed over loses it soon",
        texts: &[("'PX', own and lease or CLAIM_MS)", "'PX', lease)")],
        case: |stage| Box::pin(an_unclaimed_handover(stage, End::Release)),
    },
    Guard {
        what: "L3: who does not claim what a clean-up handed over loses it soon",
        texts: &[(
            "hold(owner, token, '2', label, CLAIM_MS)",
            "hold(owner, token, '2', label, lease)",
        )],
        case: |stage| Box::pin(an_unclaimed_handover(stage, End::Abandon)),
    },
    Guard {
        what: "section 2: the fence refuses a lower token",
        texts: &[(
            "if admitted and tonumber(admitted) > tonumber(ARGV[1])",
            "if admitted and false",
        )],
        case: |stage| Box::pin(a_stale_write(stage)),
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_redis_is_missed_when_it_is_left_out() {
    try_all(GUARDS).await;
}

async fn an_attempt_after_a_restart(stage: &mut OneRedis) -> Verdict {
    let store = first_use(&stage.url()).await;
    granted(&*store, &request("a", LONG)).await?;
    stage.restart().await;
    not_granted(&*open(&stage.url()).await, &request("b", LONG)).await
}

async fn an_attempt_in_quarantine(stage: &mut OneRedis) -> Verdict {
    an_attempt_after_a_restart(stage).await?;
    // The record names this run by now, and a time.
    not_granted(&*open(&stage.url()).await, &request("b", LONG)).await
}

/// A master that was a replica in between, before its client has asked again who it is.
async fn a_master_that_was_replaced_for_a_moment(stage: &mut OneRedis) -> Verdict {
    let at_once = ["CONFIG", "SET", "repl-diskless-sync-delay", "0"];
    assert_eq!(stage.server.cli(&at_once).await.unwrap(), "OK");
    // In some of the rounds the client may ask just then, and know without the guard.
    for _ in 0..3 {
        let follow = format!("replicaof 127.0.0.1 {}", stage.server.address().port());
        let _replica = Redis::start(RedisOptions::new().line(follow)).await.unwrap();
        until("a replica in step", LONG, || async {
            let known = stage.server.cli(&["INFO", "replication"]).await?;
            Ok(known.contains("state=online").then_some(()))
        })
        .await
        .unwrap();
        let store = first_use(&stage.url()).await;
        granted(&*store, &request("warm", Duration::from_millis(10))).await?;
        for [host, port] in [["127.0.0.1", "1"], ["NO", "ONE"]] {
            assert_eq!(stage.server.cli(&["REPLICAOF", host, port]).await.unwrap(), "OK");
        }
        not_granted(&*store, &request("a", LONG)).await?;
    }
    Ok(())
}

/// Which of many attempts at once are granted. The first goes by itself, the others in batches.
async fn several(store: &dyn Backend, names: impl Fn(usize) -> String) -> Vec<Request> {
    let asked: Vec<_> = (0..33).map(|number| request(&names(number), LONG)).collect();
    let answers = join_all(asked.iter().map(|request| store.try_acquire(request))).await;
    let granted = asked.into_iter().zip(answers);
    granted
        .filter(|(_, answer)| matches!(answer, Ok(Attempt::Granted(_))))
        .map(|(request, _)| request)
        .collect()
}

async fn attempts_in_quarantine(stage: &mut OneRedis) -> Verdict {
    an_attempt_after_a_restart(stage).await?;
    let store = open(&stage.url()).await;
    match several(&*store, |number| format!("batch {number}")).await.len() {
        0 => Ok(()),
        count => Err(format!("{count} of 33 were granted")),
    }
}

async fn attempts_of_one_batch(stage: &mut OneRedis) -> Verdict {
    let store = first_use(&stage.url()).await;
    // On a busy machine the first batch may have one of them only, and those after it find the lock held.
    for round in 0..50 {
        let same = format!("same {round}");
        let name = |number| if number == 0 { "alone".to_owned() } else { same.clone() };
        let granted = several(&*store, name).await;
        let count = granted.iter().filter(|request| request.name.as_str() == same).count();
        if count != 1 {
            return Err(format!("{count} of 32 hold one name"));
        }
    }
    Ok(())
}

async fn place(store: &Arc<dyn Backend>, request: &Request) -> Result<Box<dyn Turn>, String> {
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
        End::Release => store.release(grant, Release::default()).await.map(drop),
        End::Abandon => store.abandon(holder).await,
        End::Force => store.force_release(&grant.name).await.map(drop),
    }
}

async fn a_handover_after_a_restart(stage: &mut OneRedis, end: End) -> Verdict {
    let store = first_use(&stage.url()).await;
    let (holder, waiter) = (request("a", LONG), request("a", LONG));
    let grant = granted(&*store, &holder).await?;
    let turn = place(&store, &waiter).await?;
    stage.restart().await;
    let store = open(&stage.url()).await;
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

async fn a_clock_that_goes_back(stage: &mut OneRedis) -> Verdict {
    let store = first_use(&stage.url()).await;
    let first = granted(&*store, &request("a", LONG)).await?;
    store.release(&first, Release::default()).await.map_err(|error| error.to_string())?;
    stage.clock.step(-3_600.0).unwrap();
    above(&first, &granted(&*store, &request("a", LONG)).await?)
}

async fn a_handover_when_the_clock_went_back(stage: &mut OneRedis) -> Verdict {
    let store = first_use(&stage.url()).await;
    let first = granted(&*store, &request("a", LONG)).await?;
    stage.clock.step(-3_600.0).unwrap();
    let waiter = request("a", LONG);
    let _turn = place(&store, &waiter).await?;
    store.release(&first, Release::default()).await.map_err(|error| error.to_string())?;
    above(&first, &granted(&*store, &waiter).await?)
}

async fn an_attempt_past_a_place(stage: &mut OneRedis) -> Verdict {
    let store = first_use(&stage.url()).await;
    granted(&*store, &request("a", Duration::from_millis(300))).await?;
    let _turn = place(&store, &request("a", LONG)).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    not_granted(&*store, &request("a", LONG)).await
}

/// A lock that ends with so many dead places in its queue, and a live one behind them.
async fn behind_dead_places(
    stage: &mut OneRedis,
    end: End,
    dead: usize,
    dead_for: Duration,
) -> Result<(Arc<dyn Backend>, Request, Box<dyn Turn>), String> {
    let store = first_use(&stage.url()).await;
    let holder = request("a", LONG);
    let grant = granted(&*store, &holder).await?;
    for _ in 0..dead {
        // Nobody hears of it, claims it or withdraws it.
        std::mem::forget(place(&store, &request("a", LONG)).await?);
    }
    tokio::time::sleep(dead_for).await;
    let waiter = request("a", LONG);
    let turn = place(&store, &waiter).await?;
    end_of(&*store, &grant, &holder, end).await.map_err(|error| error.to_string())?;
    Ok((store, waiter, turn))
}

async fn dead_places(stage: &mut OneRedis, end: End) -> Verdict {
    let (store, waiter, _turn) = behind_dead_places(stage, end, 4, Duration::from_secs(4)).await?;
    let state = store.inspect(&name("a")).await.map_err(|error| error.to_string())?;
    match state.and_then(|state| state.holder) {
        Some(holder) if holder.owner == waiter.owner => Ok(()),
        other => Err(format!("a dead place has the lock: {other:?}")),
    }
}

async fn an_unclaimed_handover(stage: &mut OneRedis, end: End) -> Verdict {
    let (store, waiter, _turn) = behind_dead_places(stage, end, 1, Duration::ZERO).await?;
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

async fn a_stale_write(stage: &mut OneRedis) -> Verdict {
    let fence = RedisFence::connect(&stage.url()).await.unwrap();
    let [one, two] = [1, 2].map(|token| FencingToken::new(token).unwrap());
    fence.set("data", "new", two).await.map_err(|error| error.to_string())?;
    match fence.set("data", "late", one).await {
        Err(FenceError::Stale(_)) => Ok(()),
        other => Err(format!("a stale write: {other:?}")),
    }
}
