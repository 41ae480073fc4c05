//! What all clients of a store in PostgreSQL agree on, changed while it is used.

use std::{sync::Arc, time::Duration};

use backend_sql::{
    Strategy,
    postgres::{connect, schema},
};
use conformance_tests::kit::{Data, Proxy, Server as _};
use lock_core::{Attempt, Enqueued, ErrorKind, Init, ReleaseOptions};
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

/// The same by the SQL that is printed, and where the settings are gone, too.
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

/// An attempt that has read the settings of before waits for a row while the quarantine is turned on: `init` does not
/// answer before it has ended, and what it was granted then is no proof of anything.
#[tokio::test]
async fn a_quarantine_that_is_on_binds_attempts_that_waited_for_it() {
    let server = start().await;
    let turn = |on| Init::new().with_quarantine(on);
    for strategy in BOTH {
        let store = made(&server, strategy, 60 * SECOND).await;
        store.init(&turn(false)).await.unwrap();
        let mut foreign = PgConnection::connect(&url(&server)).await.unwrap();
        let row = "BEGIN; INSERT INTO leasehold_locks (name, token, version, expires_2, kept) \
                   VALUES ('job', 1, 0, 'epoch', false)";
        sqlx::raw_sql(row).execute(&mut foreign).await.unwrap();
        let ours = Arc::clone(&store);
        let attempt =
            tokio::spawn(async move { ours.try_acquire(&request("job", 20 * SECOND)).await });
        says(&server, BLOCKED, "1").await;

        let hasty = format!("{}?timeout=1s&strategy={strategy}", url(&server));
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

/// A lease of before may be running when the server crashes.
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

/// Locks that were lost while it was off may still be believed in.
#[tokio::test]
async fn a_quarantine_that_is_turned_on_begins_with_a_whole_wait() {
    let mut server = start().await;
    for strategy in BOTH {
        let turn = |on| Init::new().with_quarantine(on);
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
        store.release(&again, ReleaseOptions::default()).await.unwrap();
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
        let init = Init::new().with_longest_lease(60 * SECOND);
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
