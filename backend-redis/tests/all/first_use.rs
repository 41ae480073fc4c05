//! The first use of a plain Redis, without and after losses of the data, of the script cache and of
//! the server. The server's clock is stepped where it should have been up for longer.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::{Backend, Env as _, Grant, Init, Promise, ReleaseOptions, Renewal, SystemEnv};
use servers::{Clock, Data, Redis, RedisOptions, Server as _, wait};

use crate::support::{
    connect, granted, permissions::documented_acl, quarantined, renewed, replica_of, request, url,
};

const LEASE: Duration = Duration::from_secs(20);
const WHOLE: Duration = Duration::from_secs(29);

/// A server, as if it had been up for this many seconds.
async fn server_up_for(seconds: f64) -> (Redis, Clock) {
    let clock = Clock::new().await.unwrap();
    let server = Redis::start(RedisOptions::new().clock(&clock)).await.unwrap();
    step(&server, &clock, seconds).await;
    (server, clock)
}

/// Steps the server's clock, and so its uptime, which INFO shows from the next tick on.
async fn step(server: &Redis, clock: &Clock, seconds: f64) {
    clock.step(seconds).unwrap();
    wait::until("the uptime", Duration::from_secs(60), || async {
        let uptime: f64 = server.info("uptime_in_seconds").await?.parse().unwrap();
        Ok((uptime >= seconds - 1.0).then_some(()))
    })
    .await
    .unwrap();
}

/// A store on such a server, whose first lock was granted at once.
async fn held() -> (Redis, Clock, Arc<dyn Backend>, Grant) {
    let (server, clock) = server_up_for(40.0).await;
    let store = connect(&url(&server)).await;
    let grant = granted(&*store, &request("a", LEASE)).await;
    (server, clock, store, grant)
}

/// A new client waits for a whole longest lease.
async fn waits(server: &Redis) {
    let told = quarantined(&*connect(&url(server)).await).await;
    assert!(told.remaining > WHOLE, "{told:?}");
}

/// Waits until a client has put the witness back.
async fn put_back(server: &Redis) {
    let file = include_str!("../../src/scripts/server.lua");
    let (_, text) = file.split_once("-- part: witness\n").unwrap();
    let (text, _) = text.split_once("\n-- part: ").unwrap();
    let text = text.replace("PREFIX", "leasehold").replace("DATABASE", "0");
    let script = redis::Script::new(&text);
    wait::until("the witness", Duration::from_secs(60), || async {
        let there = server.cli(&["SCRIPT", "EXISTS", script.get_hash()]).await?;
        Ok((there == "1").then_some(()))
    })
    .await
    .unwrap();
}

async fn cli(server: &Redis, command: &str) {
    let words: Vec<_> = command.split(' ').collect();
    let answer = server.cli(&words).await.unwrap();
    assert!(["OK", "1"].contains(&&*answer), "{answer}");
}

const DEL: &str = "DEL leasehold:{0}:epoch";

#[tokio::test]
async fn a_server_that_has_been_up_for_a_lease_grants_its_first_locks_at_once() {
    let (server, _clock) = server_up_for(40.0).await;
    // Many clients at the same time, and then other stores on the same server.
    let clients =
        (0..8).map(|at| {
            let address = url(&server);
            async move {
                granted(&*connect(&address).await, &request(&format!("job {at}"), LEASE)).await
            }
        });
    join_all(clients).await;
    for other in ["?prefix=other", "/1"] {
        let store = connect(&format!("{}{other}", url(&server))).await;
        granted(&*store, &request("a", LEASE)).await;
        assert!(store.guarantees().first_use.as_ref().is_some_and(Promise::holds));
        let exclusion = store.guarantees().exclusion.to_string();
        for part in ["SCRIPT FLUSH", "another running server", "in the first longest lease"] {
            assert!(exclusion.contains(part), "{exclusion}");
        }
    }
}

#[tokio::test]
async fn init_opens_such_a_store_too_and_its_longest_lease_is_that_of_the_url() {
    let (server, _clock) = server_up_for(40.0).await;
    let store = connect(&format!("{}?longest_lease=10s", url(&server))).await;
    let settings = store.init(&Init::new()).await.unwrap();
    assert_eq!((settings.grants_in, settings.longest_lease), (Duration::ZERO, LEASE / 2));
}

#[tokio::test]
async fn a_server_that_has_not_been_up_for_a_lease_makes_its_first_client_wait() {
    // For less than the longest lease.
    let (server, _clock) = server_up_for(40.0).await;
    let store = connect(&format!("{}?longest_lease=1h", url(&server))).await;
    assert!(quarantined(&*store).await.remaining > WHOLE * 100);
}

#[tokio::test]
async fn a_server_with_a_replica_makes_its_first_client_wait() {
    let (server, clock) = server_up_for(40.0).await;
    let _replica = replica_of(&server, RedisOptions::new().clock(&clock)).await;
    waits(&server).await;
    let store = connect(&url(&server)).await;
    let why = store.guarantees().first_use.clone().unwrap().to_string();
    assert!(
        why.contains("30s") && why.contains("replicas") && why.contains("--first-use"),
        "{why}"
    );
}

#[tokio::test]
async fn after_a_loss_of_data_the_next_client_waits_whether_a_lock_is_held_or_not() {
    for loss in ["FLUSHALL", DEL] {
        for hold in [true, false] {
            let (server, _clock, store, grant) = held().await;
            if !hold {
                store.release(&grant, ReleaseOptions::default()).await.unwrap();
            }
            store.close().await;
            cli(&server, loss).await;
            waits(&server).await;
        }
    }
}

#[tokio::test]
async fn a_lost_script_cache_alone_changes_nothing_and_the_witness_comes_back() {
    for hold in [true, false] {
        let (server, _clock, store, grant) = held().await;
        if !hold {
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
        }
        cli(&server, "SCRIPT FLUSH").await;
        // By each second's look, and by the handshake of a client that comes.
        put_back(&server).await;
        store.close().await;
        cli(&server, "SCRIPT FLUSH").await;
        let other = connect(&url(&server)).await;
        put_back(&server).await;
        granted(&*other, &request("b", LEASE)).await;
        other.close().await;
        cli(&server, "FLUSHALL").await;
        waits(&server).await;
    }
}

/// What the assumption `witness-is-kept` is for.
#[tokio::test]
async fn a_store_that_lost_both_while_nobody_was_connected_looks_new() {
    let (server, _clock, store, _grant) = held().await;
    store.close().await;
    cli(&server, "SCRIPT FLUSH").await;
    cli(&server, "FLUSHALL").await;
    granted(&*connect(&url(&server)).await, &request("a", LEASE)).await;
}

#[tokio::test]
async fn a_restarted_empty_server_makes_the_next_client_wait_only_at_first() {
    let (mut server, clock, store, grant) = held().await;
    server.restart(Data::Lose).await.unwrap();
    // The client of the holder comes back, and finds nothing.
    let answer = store.renew(&[&grant], SystemEnv.now()).await;
    assert!(!matches!(answer[..], [Renewal::Renewed { .. }]), "{answer:?}");
    store.close().await;
    step(&server, &clock, 40.0).await;
    let store = connect(&url(&server)).await;
    granted(&*store, &request("a", LEASE)).await;
    store.close().await;
    server.restart(Data::Lose).await.unwrap();
    waits(&server).await;
}

#[tokio::test]
async fn a_record_of_an_earlier_run_counts_as_none_and_its_settings_stay() {
    let (mut server, clock, store, first) = held().await;
    store.init(&Init::new().with_longest_lease(LEASE * 3)).await.unwrap();
    cli(&server, "SAVE").await;
    store.close().await;
    server.restart(Data::Keep).await.unwrap();
    // Less than the longest lease in the record.
    step(&server, &clock, 40.0).await;
    waits(&server).await;
    server.restart(Data::Keep).await.unwrap();
    step(&server, &clock, 70.0).await;
    let store = connect(&url(&server)).await;
    let next = granted(&*store, &request("a", LEASE)).await;
    assert!(next.token > first.token);
    assert_eq!(store.guarantees().longest_lease, LEASE * 3);
}

#[tokio::test]
async fn who_renews_after_a_restart_with_an_old_copy_is_a_witness() {
    for by_repeat in [false, true] {
        let (server, clock) = server_up_for(40.0).await;
        let mut server = server;
        let store = connect(&url(&server)).await;
        let asked = request("a", LEASE);
        let grant = granted(&*store, &asked).await;
        cli(&server, "SAVE").await;
        server.restart(Data::Keep).await.unwrap();
        if by_repeat {
            again(&*store, &asked).await;
        } else {
            wait_renewed(&*store, &grant).await;
        }
        store.close().await;
        step(&server, &clock, 40.0).await;
        cli(&server, "FLUSHALL").await;
        waits(&server).await;
    }
}

/// Repeats an attempt until the client has found the restarted server.
async fn again(store: &dyn Backend, asked: &lock_core::Request) {
    loop {
        match store.try_acquire(asked).await {
            Ok(answer) => return assert!(answer.granted().is_some()),
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    }
}

async fn wait_renewed(store: &dyn Backend, grant: &Grant) {
    loop {
        match &store.renew(&[grant], SystemEnv.now()).await[..] {
            [Renewal::Renewed { .. }] => return,
            [Renewal::Unknown(error)] => assert!(error.is_retryable(), "{error}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_holder_whose_record_was_deleted_stays_a_witness() {
    let (server, _clock, store, grant) = held().await;
    cli(&server, DEL).await;
    cli(&server, "SCRIPT FLUSH").await;
    // No look puts the witness back, since there is no record; the renewal does.
    let looks = async || -> u64 {
        let stats = server.cli(&["INFO", "commandstats"]).await.unwrap();
        let calls =
            stats.lines().find_map(|line| line.strip_prefix("cmdstat_script|exists:calls="));
        calls.and_then(|calls| calls.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    let before = looks().await;
    wait::until("two looks", Duration::from_secs(60), || async {
        Ok((looks().await >= before + 2).then_some(()))
    })
    .await
    .unwrap();
    renewed(&*store, &[&grant]).await;
    store.close().await;
    cli(&server, "FLUSHALL").await;
    waits(&server).await;
}

#[tokio::test]
async fn without_the_permissions_the_first_client_waits_and_says_why() {
    let page = include_str!("../../../docs/backends/redis.md");
    let acl = documented_acl(page, "## Permissions", "leasehold");
    for missing in ["+script|exists", "+script|load", "+config|get"] {
        assert!(acl.contains(missing), "{acl}");
        let clock = Clock::new().await.unwrap();
        let options = RedisOptions::new().line(acl.replace(missing, "")).clock(&clock);
        let server = Redis::start(options).await.unwrap();
        step(&server, &clock, 40.0).await;
        let store = connect(&format!("redis://app:hunter2@{}", server.address())).await;
        let told = quarantined(&*store).await;
        assert!(told.remaining > WHOLE, "{told:?}");
        let why = store.guarantees().first_use.clone().unwrap().to_string();
        assert!(why.contains("SCRIPT LOAD and CONFIG GET"), "{why}");
        assert!(store.guarantees().exclusion.holds());
    }
}
