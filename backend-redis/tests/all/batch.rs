//! Attempts and releases that share a script keep every promise that each keeps alone.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use conformance_tests::kit::{Mode, Proxy, Server as _};
use futures_util::future::join_all;
use lock_core::{ClientOptions, Error, LockClient, OwnerLabel, ReleaseOutcome};

use crate::support::{
    MANY, attempts, calls, connect, free, granted, grants, many_requests, releases, request,
    server, url,
};

const LEASE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn many_acquire_and_release_in_few_scripts() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    granted(&*store, &request("warm", LEASE)).await;
    let before = calls(&server, "evalsha").await;
    let asked = many_requests("job", LEASE);
    let held = grants(attempts(&*store, &asked).await);
    assert_eq!(held.len(), MANY);
    for (grant, request) in held.iter().zip(&asked) {
        let state = store.inspect(&grant.name).await.unwrap().unwrap();
        let holder = state.holder.unwrap();
        assert_eq!((&grant.name, holder.owner), (&request.name, request.owner));
        assert_eq!((state.token, holder.label.as_str()), (grant.token, "test"));
        assert!(holder.remaining > LEASE / 2);
    }
    assert_eq!(held.iter().map(|grant| grant.token).collect::<HashSet<_>>().len(), MANY);
    let looked = MANY as u64;
    assert_eq!(releases(&*store, &held).await, [ReleaseOutcome::Released; MANY]);
    let scripts = calls(&server, "evalsha").await - before - looked;
    assert!(scripts <= 12, "{scripts} scripts for {} operations", 2 * MANY);
    assert_eq!(releases(&*store, &held).await, [ReleaseOutcome::NotHeld; MANY]);
    // Later tokens are higher, also for a single attempt.
    let last = held.iter().map(|grant| grant.token).max().unwrap();
    assert!(granted(&*store, &request("job 0", LEASE)).await.token > last);
}

#[tokio::test]
async fn a_batch_whose_reply_was_lost_is_repeated_with_the_same_grants() {
    let server = server().await;
    let proxy = Proxy::start(server.address()).await.unwrap();
    let store = connect(&format!("redis://{}?timeout=500ms", proxy.address())).await;
    // From here on the server knows every script.
    let warm = grants(attempts(&*store, &many_requests("warm", LEASE)).await);
    releases(&*store, &warm).await;
    let asked = many_requests("job", LEASE);
    proxy.set(Mode::HalfCut).await.unwrap();
    for answer in attempts(&*store, &asked).await {
        assert!(answer.as_ref().is_err_and(Error::is_ambiguous), "{answer:?}");
    }
    assert!(proxy.counters().to_client.swallowed > 0, "no reply was lost");
    proxy.set(Mode::Pass).await.unwrap();
    let direct = connect(&url(&server)).await;
    let mut taken = Vec::new();
    for request in &asked {
        taken.extend(direct.inspect(&request.name).await.unwrap().map(|state| state.token));
    }
    let held = grants(attempts(&*store, &asked).await);
    assert_eq!(held.len(), MANY);
    // An attempt that had arrived, as most had, keeps its token.
    assert!(taken.len() >= MANY / 2, "only {} had arrived", taken.len());
    assert!(taken.iter().all(|token| held.iter().any(|grant| grant.token == *token)));
}

/// Two clients with labels of their own may share one connection.
#[tokio::test]
async fn each_client_of_a_shared_store_keeps_its_label() {
    let server = server().await;
    let store = connect(&url(&server)).await;
    let client = |label: &str| {
        let label = OwnerLabel::new(label).unwrap();
        let options = ClientOptions::new().with_label(label);
        LockClient::with_options(store.clone(), options).unwrap()
    };
    let (one, two) = (client("one"), client("two"));
    let both = (0..MANY).map(|number| {
        let client = if number % 2 == 0 { &one } else { &two };
        client.lock(format!("job {number}")).lease(LEASE).acquire()
    });
    let guards: Vec<_> = join_all(both).await.into_iter().map(Result::unwrap).collect();
    for (number, guard) in guards.into_iter().enumerate() {
        let state = store.inspect(guard.name()).await.unwrap().unwrap();
        let label = state.holder.unwrap().label;
        assert_eq!(label.as_str(), if number % 2 == 0 { "one" } else { "two" });
        guard.release().await.unwrap();
    }
    free(&*store, "job 0").await;
}

/// Each call ends in the time of one. If its caller was told that it was not sent, it never arrives.
#[tokio::test]
async fn ten_thousand_calls_to_a_server_that_hangs_end_in_the_time_of_one() {
    const LIMIT: Duration = Duration::from_secs(3);
    let server = server().await;
    let store = connect(&format!("{}?timeout=3s", url(&server))).await;
    // From here on the server knows all scripts.
    let warm = grants(attempts(&*store, &many_requests("warm", LEASE)).await);
    releases(&*store, &warm).await;
    let asked: Vec<_> = (0..10_000).map(|at| request(&format!("job {at}"), LEASE)).collect();
    server.pause().unwrap();
    let began = Instant::now();
    let answers = attempts(&*store, &asked).await;
    let took = began.elapsed();
    server.resume().unwrap();
    // Twenty-five rounds of four batches would be 75 s.
    assert!(took < 10 * LIMIT, "{took:?}");
    let mut sent = HashSet::new();
    for (request, answer) in asked.iter().zip(answers) {
        if answer.unwrap_err().is_ambiguous() {
            sent.insert(request.name.clone());
        }
    }
    assert!(!sent.is_empty() && sent.len() < 1_000, "{} of 10,000 were sent", sent.len());
    let (direct, mut from) = (connect(&url(&server)).await, None);
    loop {
        let page = direct.list(from).await.unwrap();
        let strange = page.locks.iter().find(|lock| !sent.contains(&lock.name));
        assert!(strange.is_none(), "{strange:?} was not sent, and is held");
        from = page.next;
        if from.is_none() {
            return;
        }
    }
}
