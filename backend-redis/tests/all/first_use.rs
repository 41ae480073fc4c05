//! The first use of a plain Redis, without and after losses of the data, of the script cache and of
//! the server. The server's clock is stepped where it should have been up for longer.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use lock_core::{Backend, Env as _, Grant, Init, Promise, ReleaseOptions, Renewal, SystemEnv};
use servers::{Clock, Data, Redis, RedisOptions, Server as _, wait};

use crate::support::{
    connect, granted, permissions::documented_acl, quarantined, renewed, replica_of, request, url,
};

pub(crate) const LEASE: Duration = Duration::from_secs(20);
pub(crate) const WHOLE: Duration = Duration::from_secs(29);

/// For an event that must come.
const HANG: Duration = Duration::from_secs(60);

/// A server, as if it had been up for this many seconds.
pub(crate) async fn server_up_for(seconds: f64) -> (Redis, Clock) {
    server_with(RedisOptions::new(), seconds).await
}

async fn server_with(options: RedisOptions, seconds: f64) -> (Redis, Clock) {
    let clock = Clock::new().await.unwrap();
    let server = Redis::start(options.clock(&clock)).await.unwrap();
    step(&server, &clock, seconds).await;
    (server, clock)
}

/// Steps the server's clock, and so its uptime, which INFO shows from the next tick on.
pub(crate) async fn step(server: &Redis, clock: &Clock, seconds: f64) {
    clock.step(seconds).unwrap();
    wait::until("the uptime", Duration::from_secs(60), || async {
        let uptime: f64 = server.info("uptime_in_seconds").await?.parse().unwrap();
        Ok((uptime >= seconds - 1.0).then_some(()))
    })
    .await
    .unwrap();
}

/// A store on such a server, whose first lock was granted at once.
pub(crate) async fn held() -> (Redis, Clock, Arc<dyn Backend>, Grant) {
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

/// A new client waits until a longest lease after the server's start, whenever it asks.
async fn waits_from_start(server: &Redis, longest: Duration) {
    let uptime = async || {
        let seconds = server.info("uptime_in_seconds").await.unwrap();
        Duration::from_secs(seconds.parse().unwrap())
    };
    let (store, rounding) = (connect(&url(server)).await, Duration::from_secs(2));
    let before = uptime().await;
    // A look begins no wait, and says how long the next client would wait.
    let looked = store.quarantine().await.unwrap().unwrap();
    let told = quarantined(&*store).await;
    let after = uptime().await;
    for told in [looked, told] {
        assert!(told.why.contains("started less than a longest lease ago"), "{told:?}");
        assert!(told.remaining <= longest + rounding - before, "{told:?}");
        assert!(told.remaining + rounding + after >= longest, "{told:?}");
    }
}

/// Waits until a client has put the witness back.
pub(crate) async fn put_back(server: &Redis) {
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

pub(crate) async fn cli(server: &Redis, command: &str) {
    let words: Vec<_> = command.split(' ').collect();
    let answer = server.cli(&words).await.unwrap();
    assert!(["OK", "1"].contains(&&*answer), "{answer}");
}

pub(crate) const DEL: &str = "DEL leasehold:{0}:epoch";

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
async fn a_first_client_waits_from_the_start_of_the_server_not_from_its_own() {
    let (server, clock) = server_up_for(20.0).await;
    waits_from_start(&server, Duration::from_secs(30)).await;
    // The wait is over when the server has been up for a longest lease.
    clock.step(14.0).unwrap();
    granted(&*connect(&url(&server)).await, &request("a", LEASE)).await;
    // And after a loss of data it is a whole one.
    cli(&server, "FLUSHALL").await;
    waits(&server).await;
}

/// Why the first client of a server waits.
async fn why_it_waits(server: &Redis) -> String {
    let store = connect(&url(server)).await;
    let first_use = store.guarantees().first_use.clone().unwrap();
    assert!(!first_use.holds(), "{first_use}");
    first_use.to_string()
}

#[tokio::test]
async fn a_server_with_a_replica_makes_its_first_client_wait() {
    let (server, clock) = server_up_for(40.0).await;
    let replica = replica_of(&server, RedisOptions::new().clock(&clock)).await;
    waits(&server).await;
    let why = why_it_waits(&server).await;
    assert!(
        why.contains("30s") && why.contains("replicas") && why.contains("--first-use"),
        "{why}"
    );
    drop(replica);
}

/// The replica has gone, and the server keeps a backlog for it: it may come back, or be promoted.
#[tokio::test]
async fn a_server_that_had_a_replica_makes_its_first_client_wait() {
    let (server, clock) = server_up_for(40.0).await;
    drop(replica_of(&server, RedisOptions::new().clock(&clock)).await);
    let gone = async || Ok((server.info("connected_slaves").await? == "0").then_some(()));
    wait::until("the replica to be gone", HANG, gone).await.unwrap();
    assert_eq!(server.info("repl_backlog_active").await.unwrap(), "1");
    let why = why_it_waits(&server).await;
    assert!(why.contains("had one lately"), "{why}");
    waits(&server).await;
}

#[tokio::test]
async fn a_server_that_wants_replicas_grants_nothing_without_and_then_waits() {
    let options = RedisOptions::new().line("min-replicas-to-write 1");
    let (server, _clock) = server_with(options, 40.0).await;
    let why = why_it_waits(&server).await;
    assert!(why.contains("wants some"), "{why}");
    let store = connect(&url(&server)).await;
    let error = store.try_acquire(&request("a", LEASE)).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    store.close().await;
    cli(&server, "CONFIG SET min-replicas-to-write 0").await;
    waits(&server).await;
}

/// A server forgets a replica after `repl-backlog-ttl`, and may have had one within a lease.
#[tokio::test]
async fn a_server_that_forgets_replicas_soon_makes_its_first_client_wait() {
    for (seconds, is_soon) in [(30, true), (31, false), (0, false)] {
        let options = RedisOptions::new().line(format!("repl-backlog-ttl {seconds}"));
        let (server, _clock) = server_with(options, 40.0).await;
        if !is_soon {
            granted(&*connect(&url(&server)).await, &request("a", LEASE)).await;
            continue;
        }
        let why = why_it_waits(&server).await;
        assert!(why.contains("repl-backlog-ttl is 30s; must be 0 or above 30s"), "{why}");
        waits(&server).await;
    }
}

/// A client that asked for the witness before it wrote its candidate would miss one that opens the
/// store in between; one that loaded it after the opening would leave a store without a witness.
#[tokio::test]
async fn a_first_use_takes_its_steps_in_their_order() {
    let (server, _clock) = server_up_for(40.0).await;
    let mut monitor = BufReader::new(TcpStream::connect(server.address()).unwrap());
    monitor.get_mut().write_all(b"MONITOR\r\n").unwrap();
    let mut seen = String::new();
    monitor.read_line(&mut seen).unwrap();
    granted(&*connect(&url(&server)).await, &request("a", LEASE)).await;
    server.cli(&["ECHO", "no more steps"]).await.unwrap();
    while !seen.contains("\"no more steps\"") {
        monitor.read_line(&mut seen).unwrap();
    }
    // Each step comes after the one before it.
    let mut rest = &*seen;
    let set = "lua] \"HSET\" \"leasehold:{0}:epoch\"";
    let (candidate, opens) = (format!("{set} \"candidate\""), format!("{set} \"since\""));
    let [exists, load] = ["EXISTS", "LOAD"].map(|word| format!("\"SCRIPT\" \"{word}\""));
    let grants = "lua] \"SET\" \"leasehold:{0}:lock:a\"".to_owned();
    for step in [&candidate, &exists, &load, &opens, &grants] {
        let (_, later) = rest.split_once(step).unwrap_or_else(|| panic!("{step} is missing"));
        rest = later;
    }
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
    waits_from_start(&server, Duration::from_secs(30)).await;
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
    waits_from_start(&server, LEASE * 3).await;
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
