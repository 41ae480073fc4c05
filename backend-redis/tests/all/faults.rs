//! Faults on real servers. Each test asserts that its fault happened.

use std::{future::Future, time::Duration};

use backend_redis::Fence;
use lock_core::{
    Env as _, FenceError, FencingToken, LockClient, LossReason, ReleaseOptions, ReleaseOutcome,
    Renewal, SystemEnv,
};
use servers::{Counters, Data, Mode, Proxy, RedisOptions, Server as _};

use crate::support::{
    calls, connect, connect_soon, enqueued, first_use, granted, name, quarantined, queued, request,
    server, server_with, url,
};

const LEASE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_empty_restart_while_held_admits_no_second_holder() {
    let mut server = server().await;
    let store = connect(&url(&server)).await;
    let grant = granted(&*store, &request("a", LEASE)).await;
    let before = server.info("run_id").await.unwrap();
    server.restart(Data::Lose).await.unwrap();
    assert_ne!(server.info("run_id").await.unwrap(), before);

    let other = connect(&url(&server)).await;
    let told = quarantined(&*other).await;
    assert!(told.remaining > LEASE && told.remaining <= Duration::from_secs(30), "{told:?}");
    assert!(told.why.contains("lost"), "{told:?}");
    let answer = store.renew(&[&grant], SystemEnv.now()).await.pop();
    // The first try may find the broken connection.
    let answer = match answer {
        Some(Renewal::Unknown(_)) => store.renew(&[&grant], SystemEnv.now()).await.pop(),
        other => other,
    };
    assert!(matches!(answer, Some(Renewal::Lost(LossReason::Gone))), "{answer:?}");
    first_use(&*other).await;
    assert!(granted(&*other, &request("a", LEASE)).await.token > grant.token);
}

#[tokio::test]
async fn with_the_quarantine_off_there_is_a_second_holder_and_its_token_is_larger() {
    let mut server = servers::Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("{}?quarantine=off", url(&server));
    let first = connect(&url).await;
    assert!(!first.guarantees().exclusion.holds(), "a promise that cannot be kept");
    let grant = granted(&*first, &request("a", LEASE)).await;
    let before = server.info("run_id").await.unwrap();
    server.restart(Data::Lose).await.unwrap();
    assert_ne!(server.info("run_id").await.unwrap(), before);
    let second = granted(&*connect(&url).await, &request("a", LEASE)).await;
    assert!(SystemEnv.now() < grant.from + grant.lease, "too slow to show anything");
    assert!(second.token > grant.token);
}

#[tokio::test]
async fn a_restart_with_data_is_a_quarantine_and_holders_go_on() {
    let mut server = server_with(RedisOptions::new().aof().line("appendfsync always")).await;
    let store = connect(&url(&server)).await;
    let grant = granted(&*store, &request("a", LEASE)).await;
    server.restart(Data::Keep).await.unwrap();
    let other = connect(&url(&server)).await;
    assert!(quarantined(&*other).await.why.contains("restarted"));
    let answer = other.renew(&[&grant], SystemEnv.now()).await.pop();
    assert!(matches!(answer, Some(Renewal::Renewed { .. })), "{answer:?}");
}

#[tokio::test]
async fn a_fence_is_as_durable_as_its_server() {
    for data in [Data::Keep, Data::Lose] {
        let mut server = server_with(RedisOptions::new().aof().line("appendfsync always")).await;
        let [one, two] = [1, 2].map(|token| FencingToken::new(token).unwrap());
        Fence::connect(&url(&server)).await.unwrap().set("data", "new", two).await.unwrap();
        let before = server.info("run_id").await.unwrap();
        server.restart(data).await.unwrap();
        assert_ne!(server.info("run_id").await.unwrap(), before);
        let fence = Fence::connect(&url(&server)).await.unwrap();
        let late = fence.set("data", "late", one).await;
        let kept = server.cli(&["GET", "data"]).await.unwrap();
        match data {
            Data::Keep => {
                assert!(matches!(late, Err(FenceError::Stale(stale)) if stale.admitted == two));
                assert_eq!(kept, "new");
            }
            // The documentation warns of this.
            Data::Lose => assert_eq!((late.is_ok(), kept.as_str()), (true, "late")),
        }
    }
}

#[tokio::test]
async fn flushall_while_held_is_a_quarantine() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let grant = granted(&*store, &request("a", LEASE)).await;
    assert_eq!(server.cli(&["FLUSHALL"]).await.unwrap(), "OK");
    assert!(quarantined(&*store).await.why.contains("lost"));
    let answer = store.renew(&[&grant], SystemEnv.now()).await.pop();
    assert!(matches!(answer, Some(Renewal::Lost(LossReason::Gone))), "{answer:?}");
}

#[tokio::test]
async fn a_paused_server_hides_no_loss_and_blocks_no_close() {
    let server = server().await;
    let client = LockClient::new(connect_soon(&format!("{}?timeout=1s", url(&server))).await);
    let guard =
        client.lock(name("a")).lease(Duration::from_secs(2)).wait(SOON).acquire().await.unwrap();
    server.pause().unwrap();
    let reason = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert!(matches!(reason, LossReason::Unreachable | LossReason::Expired), "{reason:?}");
    tokio::time::timeout(SOON, client.close()).await.unwrap();
    server.resume().unwrap();
}

/// The outcome of a call whose reply is lost with its connection.
async fn without_a_reply<T>(proxy: &Proxy, call: impl Future<Output = T>) -> T {
    let before = proxy.counters().to_client.swallowed;
    proxy.set(Mode::HalfCut).await.unwrap();
    let fault = async {
        let lost = |now: &Counters| now.to_client.swallowed > before;
        proxy.until("a lost reply", SOON, lost).await.unwrap();
        proxy.set(Mode::Reset).await.unwrap();
    };
    let (outcome, ()) = tokio::join!(call, fault);
    proxy.set(Mode::Pass).await.unwrap();
    outcome
}

#[tokio::test]
async fn lost_replies_change_nothing_but_what_was_asked() {
    let server = server().await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let direct = connect(&url(&server)).await;
    let store = connect(&format!("redis://{}", proxy.address())).await;

    // From here on the server knows the scripts.
    let warm = granted(&*direct, &request("warm", LEASE)).await;
    direct.renew(&[&warm], SystemEnv.now()).await;
    direct.release(&warm, ReleaseOptions::default()).await.unwrap();

    // Acquire: the server gave the lock, but the client does not know. The repeat is the same
    // grant.
    let asked = request("a", LEASE);
    let error = without_a_reply(&proxy, store.try_acquire(&asked)).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    let taken = direct.inspect(&asked.name).await.unwrap().unwrap();
    let grant = granted(&*store, &asked).await;
    assert_eq!(grant.token, taken.token);

    // Renew: unknown, not lost.
    let held = [&grant];
    let renewing = store.renew(&held, SystemEnv.now());
    let answer = without_a_reply(&proxy, renewing).await.pop();
    assert!(matches!(answer, Some(Renewal::Unknown(_))), "{answer:?}");
    let answer = store.renew(&[&grant], SystemEnv.now()).await.pop();
    assert!(matches!(answer, Some(Renewal::Renewed { .. })), "{answer:?}");

    // Release: done, and a repeat is harmless.
    let releasing = store.release(&grant, ReleaseOptions::default());
    let error = without_a_reply(&proxy, releasing).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    assert_eq!(direct.inspect(&asked.name).await.unwrap(), None);
    let again = store.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(again.outcome, ReleaseOutcome::NotHeld);
}

/// Tombstones live for a minute. A request that arrives later is stopped by its own deadline.
#[tokio::test]
async fn a_late_request_that_outlived_its_tombstone_takes_nothing() {
    tokio::join!(requests_arrive(true), requests_arrive(false));
}

/// Requests arrive after their deadline, or before it.
async fn requests_arrive(late: bool) {
    const LATE: Duration = Duration::from_secs(10);
    let server = server().await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let direct = connect(&url(&server)).await;
    let through = format!("redis://{}?timeout=3s&late_after=10s", proxy.address());
    let store = connect(&through).await;
    let holder = granted(&*direct, &request("held", LEASE + LATE)).await;
    let warm: Vec<_> = (0..9).map(|number| request(&format!("warm {number}"), LEASE)).collect();
    let warm = warm.iter().map(|request| store.try_acquire(request));
    futures_util::future::join_all(warm).await; // the scripts are known from here on

    // One waiter is there already, so the subscription exists.
    let (_turn, _) = enqueued(&*store, &request("held", LEASE)).await;

    // One attempt alone, others in a batch, and one with a queue entry.
    let asked: Vec<_> = (0..9).map(|number| request(&format!("job {number}"), LEASE)).collect();
    let queues = request("held", LEASE);
    proxy.set(Mode::Hold).await.unwrap();
    let attempts = asked.iter().map(|request| store.try_acquire(request));
    let attempts = futures_util::future::join_all(attempts);
    let (attempts, entry) = tokio::join!(attempts, store.enqueue(&queues));
    assert!(attempts.iter().all(|answer| answer.as_ref().is_err_and(|e| e.is_ambiguous())));
    assert!(entry.unwrap_err().is_ambiguous());
    let mut tombstones = Vec::new();
    for request in asked.iter().chain([&queues]) {
        direct.abandon(request).await.unwrap();
        tombstones.push(format!("leasehold:{{0}}:gone:{}", request.owner));
    }
    // As if a minute had passed.
    let remove: Vec<_> = ["DEL"].into_iter().chain(tombstones.iter().map(String::as_str)).collect();
    assert_eq!(server.cli(&remove).await.unwrap(), tombstones.len().to_string());
    if late {
        tokio::time::sleep(LATE).await;
    }
    let before = calls(&server, "evalsha").await;
    proxy.set(Mode::Pass).await.unwrap();
    let arrived = async {
        // The attempt alone, a batch, and the one with an entry.
        while calls(&server, "evalsha").await < before + 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(SOON, arrived).await.expect("the late requests did not come");
    let mut taken = 0;
    for request in &asked {
        taken += usize::from(direct.inspect(&request.name).await.unwrap().is_some());
    }
    let waiting = direct.inspect(&holder.name).await.unwrap().unwrap().waiting;
    if late {
        assert_eq!((taken, waiting), (0, Some(1)));
    } else {
        // Before the deadline only a tombstone would stop them. So it was the deadline that
        // stopped the others.
        assert_eq!((taken, waiting), (asked.len(), Some(2)), "no late request was tried");
    }
}

#[tokio::test]
async fn a_waiter_whose_subscription_is_killed_is_served() {
    let server = server().await;
    let holder = connect(&url(&server)).await;
    let grant = granted(&*holder, &request("a", LEASE)).await;
    let client = LockClient::new(connect(&url(&server)).await);
    let waiting = {
        let client = client.clone();
        tokio::spawn(async move { client.lock(name("a")).wait(SOON).acquire().await })
    };
    queued(&*holder, "a", 1).await;
    let killed = server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    assert_eq!(killed, "1");
    holder.release(&grant, ReleaseOptions::default()).await.unwrap();
    let guard = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
    assert!(guard.token() > grant.token);
}

/// A copy by `redis-cli --rdb` counts as a replica: the server's first, and soon its last.
#[tokio::test]
async fn a_copy_of_the_data_is_a_quarantine_whose_reason_names_it() {
    let options = RedisOptions::new().line("repl-diskless-sync-delay 0");
    let server = server_with(options).await;
    let run = server.info("run_id").await.unwrap();
    let copy = tempfile::tempdir().unwrap();
    let file = copy.path().join("copy.rdb");
    server.cli(&["--rdb", file.to_str().unwrap()]).await.unwrap();
    assert!(std::fs::metadata(&file).unwrap().len() > 0);
    assert_eq!(server.info("run_id").await.unwrap(), run);
    let told = quarantined(&*connect(&url(&server)).await).await;
    assert!(told.why.contains("redis-cli --rdb") && !told.why.contains("restarted"), "{told:?}");
}
