//! Changes of the settings of a store in PostgreSQL while it is in use.

use std::{sync::Arc, time::Duration};

use backend_sql::{
    Strategy,
    postgres::{connect, schema},
};
use lock_core::{Attempt, Enqueued, ErrorKind, Init, QuarantineUse, ReleaseOptions};
use servers::{Data, Server as _};
use sqlx::{Connection as _, PgConnection};

use crate::support::{
    postgres::{BLOCKED, BOTH, SECOND, granted, made, open, request, says, start, url},
    settings::{change_settings, init_makes_missing_tables},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_lease_changes_while_locks_are_held_and_waited_for() {
    let server = start().await;
    change_settings(&url(&server), async |url| connect(&url).await).await;
}

#[tokio::test]
async fn init_makes_whichever_table_is_missing() {
    let server = start().await;
    let url = url(&server);
    let drop = async |table: &str| {
        server.sql(&format!("DROP TABLE leasehold_{table}")).await.unwrap();
    };
    init_makes_missing_tables(&["locks", "marker"], async || connect(&url).await, drop, true).await;
}

/// The same with the printed SQL, and also if the settings are gone.
#[tokio::test]
async fn lost_locks_are_waited_for_however_the_tables_are_made_again() {
    let server = start().await;
    for (lost, printed) in [
        ("leasehold_locks", true),
        ("leasehold_locks, leasehold_settings", true),
        ("leasehold_locks, leasehold_settings", false),
    ] {
        let store = made(&server, Strategy::PrimaryKey, 30 * SECOND).await;
        granted(&store, &request("job", SECOND)).await;
        server.sql(&format!("DROP TABLE {lost}")).await.unwrap();
        if printed {
            server.sql(&schema(&url(&server)).unwrap()).await.unwrap();
        }
        let store = open(&server, Strategy::PrimaryKey).await;
        if !printed {
            store.init(&Init::new()).await.unwrap();
        }
        let answer = store.try_acquire(&request("other", SECOND)).await.unwrap();
        assert!(matches!(answer, Attempt::Quarantined(_)), "{lost}, {printed}: {answer:?}");
    }
}

/// An attempt that has read the old settings waits for a row while the quarantine is turned on.
/// `init` does not answer before the attempt has ended, and a grant of that attempt proves nothing.
#[tokio::test]
async fn a_quarantine_that_is_on_binds_attempts_that_waited_for_it() {
    let server = start().await;
    let turn = |on| Init::new().with_quarantine(on);
    for strategy in BOTH {
        let store = made(&server, strategy, 60 * SECOND).await;
        store.init(&turn(false)).await.unwrap();
        let mut foreign = PgConnection::connect(&url(&server)).await.unwrap();
        let row = "BEGIN; INSERT INTO leasehold_locks (name, token, version, expires, kept) \
                   VALUES ('job', 1, 0, 'epoch', false)";
        sqlx::raw_sql(row).execute(&mut foreign).await.unwrap();
        let ours = Arc::clone(&store);
        let attempt =
            tokio::spawn(async move { ours.try_acquire(&request("job", 20 * SECOND)).await });
        says(&server, BLOCKED, "1").await;

        let hasty = format!("{}?timeout=2s&strategy={strategy}", url(&server));
        let hasty = connect(&hasty).await.unwrap();
        let error = hasty.init(&turn(true)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("repeat init"), "{error}");
        sqlx::raw_sql("ROLLBACK").execute(&mut foreign).await.unwrap();
        let attempt = attempt.await.unwrap().unwrap();
        assert!(store.init(&turn(true)).await.unwrap().grants_in > 10 * SECOND);
        if let Attempt::Granted(grant) = attempt {
            store.release(&grant, ReleaseOptions::default()).await.unwrap();
        }
        let answer = store.try_acquire(&request("job", SECOND)).await.unwrap();
        assert!(matches!(answer, Attempt::Quarantined(_)), "{strategy}: {answer:?}");
    }
}

/// An old, longer lease may be running when the server crashes.
#[tokio::test]
async fn a_quarantine_is_as_long_as_the_longest_lease_ever_was() {
    let mut server = start().await;
    for (first, second) in [(60, 1), (1, 60)] {
        let store = made(&server, Strategy::PrimaryKey, first * SECOND).await;
        granted(&store, &request("job", first * SECOND)).await;
        let init = Init::new().with_longest_lease(second * SECOND);
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

/// With the quarantine off, a crash makes a second holder, as `Guarantees` says. The second
/// holder's token is larger, so a fence tells the two apart. When the quarantine is turned on, it
/// begins with a whole wait: the first holder may still believe in its lock.
#[tokio::test]
async fn a_crash_without_a_quarantine_makes_a_second_holder_and_turning_it_on_waits() {
    let mut server = start().await;
    for strategy in BOTH {
        let turn = |on| Init::new().with_quarantine(on);
        let store = made(&server, strategy, 20 * SECOND).await;
        assert_eq!(store.guarantees().quarantine, QuarantineUse::On);
        assert_eq!(store.init(&turn(false)).await.unwrap().grants_in, Duration::ZERO);
        let first = granted(&store, &request("believed", 20 * SECOND)).await;
        server.restart(Data::Keep).await.unwrap();
        let store = open(&server, strategy).await;
        let promised = store.guarantees();
        assert_eq!(promised.quarantine, QuarantineUse::Off);
        assert!(!promised.exclusion.holds() && promised.tokens.holds());
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
        assert!(again.token > first.token, "{strategy}");
        let waiting = request("believed", SECOND);
        let answer = store.enqueue(&waiting).await.unwrap();
        assert!(matches!(answer, Enqueued::Waiting(..)), "{answer:?}");

        let left = store.init(&turn(true)).await.unwrap().grants_in;
        assert!(left > 10 * SECOND, "{strategy}: {left:?}");
        assert!(store.guarantees().exclusion.holds());
        // Neither by an attempt nor by a release with a handoff.
        store.release(&again, ReleaseOptions::default()).await.unwrap();
        for asks in [waiting, request("other", SECOND)] {
            let answer = store.try_acquire(&asks).await.unwrap();
            assert!(matches!(answer, Attempt::Quarantined(_)), "{strategy}: {answer:?}");
        }
        // It is on already.
        assert!(store.init(&turn(true)).await.unwrap().grants_in <= left);
    }
}
