//! What all clients of a store in PostgreSQL agree on, changed while it is used.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use backend_sql::{Strategy, postgres::connect};
use conformance_tests::kit::{Data, Proxy, Server as _};
use futures_util::future::join_all;
use lock_core::{Attempt, Enqueued, Init, Release};

use self::support::{
    BOTH, SECOND, change_longest_lease, granted, made, open, request, says, start, url,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_lease_changes_while_locks_are_held_and_waited_for() {
    let server = start().await;
    let url = url(&server);
    join_all(BOTH.map(|strategy| {
        let prefix = strategy.to_string().replace('-', "_");
        let url = format!("{url}?strategy={strategy}&table_prefix={prefix}");
        change_longest_lease(async move |longest| {
            let told = longest.map(|longest| format!("&longest_lease={}s", longest.as_secs()));
            connect(&(url.clone() + &told.unwrap_or_default())).await
        })
    }))
    .await;
}

/// A lease of before may be running when the server crashes.
#[tokio::test]
async fn a_quarantine_is_as_long_as_the_longest_lease_ever_was() {
    let mut server = start().await;
    for (first, second) in [(60, 1), (1, 60)] {
        let store = made(&server, Strategy::PrimaryKey, first * SECOND).await;
        granted(&store, &request("job", first * SECOND)).await;
        let init = Init { longest_lease: Some(second * SECOND), ..Init::default() };
        store.init(&init).await.unwrap();
        server.restart(Data::Keep).await.unwrap();
        let store = open(&server, Strategy::PrimaryKey).await;
        assert_eq!(store.guarantees().longest_lease, second * SECOND);
        match store.try_acquire(&request("other", SECOND)).await.unwrap() {
            Attempt::Quarantined(held_back) => {
                assert!(held_back.remaining > 10 * SECOND, "{held_back:?}");
            }
            other => panic!("not held back: {other:?}"),
        }
    }
}

/// Locks that were lost while it was off may still be believed in.
#[tokio::test]
async fn a_quarantine_that_is_turned_on_begins_with_a_whole_wait() {
    let mut server = start().await;
    for strategy in BOTH {
        let turn = |on| Init { quarantine: Some(on), ..Init::default() };
        let store = made(&server, strategy, 20 * SECOND).await;
        assert_eq!(store.init(&turn(false)).await.unwrap().grants_in, Duration::ZERO);
        granted(&store, &request("believed", 20 * SECOND)).await;
        server.restart(Data::Keep).await.unwrap();
        let store = open(&server, strategy).await;
        // What was lost is granted again at once: that is what "off" says.
        let wanted = request("believed", 20 * SECOND);
        let mut again = None;
        // The first attempts after a loss make the marker.
        for _ in 0..100 {
            again = store.try_acquire(&wanted).await.unwrap().granted();
            if again.is_some() {
                break;
            }
        }
        let again = again.unwrap();
        let waiting = request("believed", SECOND);
        let place = store.enqueue(&waiting).await.unwrap();
        assert!(matches!(place, Enqueued::Waiting(..)), "{place:?}");

        let left = store.init(&turn(true)).await.unwrap().grants_in;
        assert!(left > 10 * SECOND, "{strategy}: {left:?}");
        // Neither by an attempt nor by a release that hands over.
        store.release(&again, Release::default()).await.unwrap();
        for asks in [waiting, request("other", SECOND)] {
            let answer = store.try_acquire(&asks).await.unwrap();
            assert!(matches!(answer, Attempt::Quarantined(_)), "{strategy}: {answer:?}");
        }
        // It is on already.
        assert!(store.init(&turn(true)).await.unwrap().grants_in <= left);
    }
}

/// A standby is promoted that has not heard of the last raise of the longest lease: a client that has makes the
/// quarantine long enough for the leases that it may have set. Where no client has, it is shorter, as `Guarantees` names.
#[tokio::test]
async fn a_raise_that_the_promoted_standby_has_not_heard_of_counts_where_a_client_has() {
    for hears in [true, false] {
        let mut server = start().await;
        made(&server, Strategy::PrimaryKey, 2 * SECOND).await;
        let standby = server.replica().await.unwrap();
        let cut = "ALTER SYSTEM SET primary_conninfo = ''";
        standby.sql(cut).await.unwrap();
        standby.sql("SELECT pg_reload_conf()").await.unwrap();
        says(&standby, "SELECT count(*) FROM pg_stat_wal_receiver", "0").await;

        let proxy = Proxy::start(server.address()).await.unwrap();
        let through = format!("postgres://postgres@{}/postgres", proxy.address());
        let operator = open(&server, Strategy::PrimaryKey).await;
        let init = Init { longest_lease: Some(60 * SECOND), ..Init::default() };
        operator.init(&init).await.unwrap();
        let store = connect(&through).await.unwrap();
        granted(&store, &request("job", 60 * SECOND)).await;
        server.kill().unwrap();
        standby.promote().await.unwrap();
        proxy.redirect(standby.address());
        let longest = "SELECT quarantine FROM leasehold_settings";
        assert_eq!(standby.sql(longest).await.unwrap(), "00:00:02", "the fault did not happen");

        let first = if hears { store } else { connect(&through).await.unwrap() };
        let attempt = loop {
            match first.try_acquire(&request("job", SECOND)).await {
                Ok(attempt) => break attempt,
                // A connection that broke with its server.
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        };
        let Attempt::Quarantined(held_back) = attempt else { panic!("granted: {attempt:?}") };
        assert_eq!(held_back.remaining > 30 * SECOND, hears, "{held_back:?}");
        let exclusion = first.guarantees().exclusion.to_string();
        assert!(exclusion.contains("the last raise of the longest lease"), "{exclusion}");
    }
}
