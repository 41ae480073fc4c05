//! An operator changes how the tables of a store are stored. A logged table of locks outlives a
//! crash and a promotion with its old rows, and an unlogged table of settings outlives neither.

use std::sync::Arc;

use backend_sql::{
    Strategy,
    postgres::{PostgresFence, connect},
};
use lock_core::{
    Attempt, Backend, Enqueued, Error, ErrorKind, FencingToken, Init, ReleaseOptions, Request,
};
use servers::{Data, Postgres, Server as _};
use sqlx::{Connection as _, PgConnection};

use crate::support::of_the_database;
use crate::support::postgres::{
    BOTH, LEASE, assert_renewed, granted, made, open, request, says, start, url,
};

/// The remedies that the errors name.
const UNLOGGED: &str = "SET UNLOGGED";
const LOGGED: &str = "SET LOGGED";

async fn store_as(server: &Postgres, table: &str, how: &str) {
    server.sql(&format!("ALTER TABLE leasehold_{table} {how}")).await.unwrap();
}

/// That the store is refused with this remedy, which helps as it stands.
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>, table: &str, remedy: &str) {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{table}: {error}");
    let remedy = format!("ALTER TABLE public.leasehold_{table} {remedy}");
    assert!(error.to_string().contains(&remedy), "{error}");
}

async fn quarantined(store: &Arc<dyn Backend>, request: &Request) {
    let answer = store.try_acquire(request).await.unwrap();
    assert!(matches!(answer, Attempt::Quarantined(_)), "{answer:?}");
}

/// Stops what the replica gets of its primary.
async fn cut_off(replica: &Postgres) {
    replica.sql("ALTER SYSTEM SET primary_conninfo = ''").await.unwrap();
    replica.sql("SELECT pg_reload_conf()").await.unwrap();
    says(replica, "SELECT count(*) FROM pg_stat_wal_receiver", "0").await;
}

/// A standby that has not received the last grant is promoted. Its tables have the old rows, by
/// which the lock is free.
#[tokio::test]
async fn a_lagging_standby_with_logged_tables_grants_no_second_holder() {
    for (strategy, tables, is_seen) in [
        (BOTH[0], &["locks", "marker"][..], true),
        (BOTH[1], &["locks", "marker"], true),
        (BOTH[0], &["marker"], true),
        (BOTH[0], &["locks"], true),
        // No client runs until the operator has made the tables unlogged again.
        (BOTH[0], &["locks", "marker"], false),
        (BOTH[0], &["marker"], false),
    ] {
        let server = start().await;
        let ours = made(&server, strategy, LEASE).await;
        // The same client then takes it without reading the marker.
        let earlier = granted(&ours, &request("job", LEASE)).await;
        ours.release(&earlier, ReleaseOptions::default()).await.unwrap();
        for table in tables {
            store_as(&server, table, LOGGED).await;
        }
        let replica = server.replica().await.unwrap();
        cut_off(&replica).await;
        let first = ours.try_acquire(&request("job", LEASE)).await;
        server.sql("CHECKPOINT").await.unwrap();
        replica.promote().await.unwrap();
        let stale = "SELECT count(*) FROM leasehold_locks WHERE expires > clock_timestamp() AND owner IS NOT NULL";
        assert_eq!(replica.sql(stale).await.unwrap(), "0", "the fault did not happen");
        if !is_seen {
            for table in tables {
                store_as(&replica, table, UNLOGGED).await;
            }
            quarantined(&open(&replica, strategy).await, &request("job", LEASE)).await;
            continue;
        }
        let theirs = connect(&format!("{}?strategy={strategy}", url(&replica))).await;
        let second = match &theirs {
            Ok(store) => store.try_acquire(&request("job", LEASE)).await.map(Attempt::granted),
            Err(error) => Err(error.clone()),
        };
        let both = first.is_ok() && matches!(second, Ok(Some(_)));
        assert!(!both, "{strategy}, {tables:?}: two holders, {first:?} and {second:?}");
        refused(first, tables[0], UNLOGGED);
        refused(second, tables[0], UNLOGGED);
        // The operator does what the error says.
        for table in tables {
            store_as(&replica, table, UNLOGGED).await;
        }
        quarantined(&open(&replica, strategy).await, &request("job", LEASE)).await;
    }
}

/// The tables change while a client runs. It keeps what it holds, and is granted nothing more,
/// however it asks.
#[tokio::test]
async fn a_table_that_becomes_logged_is_noticed_by_each_statement_that_grants() {
    for (table, before, after) in
        [("locks", UNLOGGED, LOGGED), ("marker", UNLOGGED, LOGGED), ("settings", LOGGED, UNLOGGED)]
    {
        let server = start().await;
        for strategy in BOTH {
            let store = made(&server, strategy, LEASE).await;
            let held = granted(&store, &request("held", LEASE)).await;
            let to_next = granted(&store, &request("to next", LEASE)).await;
            let to_waiter = granted(&store, &request("to waiter", LEASE)).await;
            let (waiting, _waiter) = crate::support::postgres::enqueue(&store, "to waiter").await;
            let known = granted(&store, &request("known", LEASE)).await;
            store.release(&known, ReleaseOptions::default()).await.unwrap();
            store_as(&server, table, after).await;
            for name in ["known", "new"] {
                refused(store.try_acquire(&request(name, LEASE)).await, table, before);
            }
            let next = request("to next", LEASE);
            let options = ReleaseOptions::new().with_next(&next);
            let released = store.release(&to_next, options).await.unwrap();
            assert!(!matches!(released.next, Some(Enqueued::Granted(_))), "{released:?}");
            store.release(&to_waiter, ReleaseOptions::default()).await.unwrap();
            refused(store.try_acquire(&waiting).await, table, before);
            refused(
                store
                    .try_acquire(&request("shared", LEASE).with_mode(lock_core::Mode::Shared))
                    .await,
                table,
                before,
            );
            assert_renewed(&store, &held).await;
            refused(connect(&url(&server)).await, table, before);
            refused(store.init(&Init::new()).await, table, before);
            store_as(&server, table, before).await;
            // Of the other two tables, a loss would have emptied the marker meanwhile.
            match table {
                "marker" => quarantined(&store, &request("new", LEASE)).await,
                _ => drop(granted(&store, &request("new", LEASE)).await),
            }
            assert_renewed(&store, &held).await;
        }
    }
}

/// An operator makes the tables logged and unlogged again, and no client runs meanwhile: data may
/// have been lost. (The client that released a name takes it again without the marker.) Whatever
/// else writes the marker's table anew looks the same.
#[tokio::test]
async fn a_marker_that_was_written_anew_is_followed_by_a_quarantine() {
    let server = start().await;
    let logged_for_a_time = "ALTER TABLE leasehold_locks SET LOGGED; ALTER TABLE leasehold_marker SET LOGGED; \
        ALTER TABLE leasehold_locks SET UNLOGGED; ALTER TABLE leasehold_marker SET UNLOGGED";
    for (strategy, anew) in [
        (BOTH[0], logged_for_a_time),
        (BOTH[1], logged_for_a_time),
        (BOTH[0], "VACUUM FULL leasehold_marker"),
    ] {
        let store = made(&server, strategy, LEASE).await;
        let held = granted(&store, &request("held", LEASE)).await;
        let known = granted(&store, &request("known", LEASE)).await;
        store.release(&known, ReleaseOptions::default()).await.unwrap();
        server.sql(anew).await.unwrap();
        if anew == logged_for_a_time {
            quarantined(&store, &request("known", LEASE)).await;
        }
        quarantined(&open(&server, strategy).await, &request("new", LEASE)).await;
        assert_renewed(&store, &held).await;
    }
}

/// No promise depends on how the table of queue entries is stored.
#[tokio::test]
async fn a_logged_table_of_queue_entries_does_no_harm() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey, LEASE).await;
    store_as(&server, "queue", LOGGED).await;
    granted(&open(&server, Strategy::PrimaryKey).await, &request("job", LEASE)).await;
    granted(&store, &request("other", LEASE)).await;
}

/// A crash empties the settings with the locks. To make their row anew is no first use.
#[tokio::test]
async fn settings_that_a_crash_has_emptied_are_followed_by_a_quarantine() {
    for printed in [false, true] {
        let mut server = start().await;
        let store = made(&server, Strategy::PrimaryKey, LEASE).await;
        granted(&store, &request("job", LEASE)).await;
        store_as(&server, "settings", UNLOGGED).await;
        server.restart(Data::Keep).await.unwrap();
        let rows = server.sql("SELECT count(*) FROM leasehold_settings").await.unwrap();
        assert_eq!(rows, "0", "the fault did not happen");
        refused(connect(&url(&server)).await, "settings", LOGGED);
        store_as(&server, "settings", LOGGED).await;
        if printed {
            let schema = backend_sql::postgres::schema(&url(&server)).unwrap();
            server.sql(&schema).await.unwrap();
        }
        let store = open(&server, Strategy::PrimaryKey).await;
        if !printed {
            let error = store.try_acquire(&request("job", LEASE)).await.unwrap_err();
            assert!(error.to_string().contains("`leasehold init`"), "{error}");
            assert!(!store.init(&Init::new()).await.unwrap().grants_in.is_zero());
        }
        quarantined(&store, &request("job", LEASE)).await;
    }
}

/// A crash would forget the tokens and keep the data that the fence guards.
#[tokio::test]
async fn a_fence_whose_table_is_unlogged_admits_nothing() {
    let server = start().await;
    let mut session = PgConnection::connect(&url(&server)).await.unwrap();
    let token = FencingToken::new(7).unwrap();
    let fence = PostgresFence::new("leasehold").unwrap();
    fence.create(&mut session).await.unwrap();
    fence.admit(&mut session, "account", token).await.unwrap();
    store_as(&server, "fence", UNLOGGED).await;
    for fence in [fence, PostgresFence::new("leasehold").unwrap()] {
        let admitting = fence.admit(&mut session, "account", token).await;
        refused(admitting.map_err(of_the_database), "fence", LOGGED);
        refused(fence.create(&mut session).await, "fence", LOGGED);
    }
    store_as(&server, "fence", LOGGED).await;
    let fence = PostgresFence::new("leasehold").unwrap();
    fence.admit(&mut session, "account", token).await.unwrap();
}
