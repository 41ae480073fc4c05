//! The tables and rows of PostgreSQL: their names, what is swept away, and what is not.

use std::sync::Arc;

use backend_sql::{
    Strategy,
    postgres::{connect, schema},
};
use futures_util::future::join_all;
use lock_core::{Attempt, FencingToken, Grant, Init, ReleaseOptions};
use servers::{Clock, Postgres, PostgresOptions, wait::until};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::support::postgres::{
    BLOCKED, BOTH, SECOND, WAIT, busy, granted, made_apart as made, open_apart as open, says,
    start, sweep, url, used_once,
};
use crate::support::{request, request_for};

/// The names of tables are quoted. Only the locks, their queue, and the marker of their loss are
/// unlogged.
#[tokio::test]
async fn tables_have_the_given_prefix_and_the_fence_is_logged() {
    let server = start().await;
    for strategy in BOTH {
        let prefix = format!("User_{}", strategy.to_string().replace('-', "_"));
        let url = format!("{}?strategy={strategy}&table_prefix={prefix}", url(&server));
        server.sql(&schema(&url).unwrap()).await.unwrap();
        let store = connect(&url).await.unwrap();
        for _ in 0..2 {
            used_once(&store, &request("job")).await;
        }
        let kinds = format!(
            "SELECT string_agg(relname || ' ' || relpersistence::text, ', ' ORDER BY relname) \
             FROM pg_class WHERE relkind = 'r' AND relname LIKE '{prefix}%'"
        );
        let expected = format!(
            "{prefix}_fence p, {prefix}_locks u, {prefix}_marker u, \
             {prefix}_queue u, {prefix}_records p, {prefix}_settings p"
        );
        assert_eq!(server.sql(&kinds).await.unwrap(), expected);
    }
}

/// If the commit fails after the row was answered, there is no grant.
#[tokio::test]
async fn a_grant_whose_commit_fails_is_none() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    let fails = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'at commit'; END $$;
             CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON primary_key_locks
            DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()";
    server.sql(fails).await.unwrap();
    let answer = store.try_acquire(&request("job")).await;
    assert!(answer.is_err(), "{answer:?}");
    assert!(store.list(None).await.unwrap().locks.is_empty());
}

/// A client of the other strategy may have swept a row away and made another, with the version that
/// a client remembers from the old one.
#[tokio::test]
async fn a_version_remembered_from_a_row_that_was_swept_away_takes_nothing_held() {
    let server = start().await;
    for (ours, theirs) in [(BOTH[1], BOTH[0]), (BOTH[0], BOTH[1])] {
        server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await.unwrap();
        let open = async |strategy| {
            connect(&format!("{}?strategy={strategy}", url(&server))).await.unwrap()
        };
        let remembering = open(ours).await;
        remembering.init(&Init::default()).await.unwrap();
        let other = open(theirs).await;
        used_once(&remembering, &request("job")).await;
        // As a sweep does, once the watermark is up.
        let version = "SELECT version FROM leasehold_locks";
        let left = server.sql(version).await.unwrap();
        server.sql("DELETE FROM leasehold_locks").await.unwrap();
        let held = granted(&other, &request("job")).await;
        server.sql(&format!("UPDATE leasehold_locks SET version = {left}")).await.unwrap();
        let busy = busy(&remembering, &request("job")).await;
        assert_eq!(busy.token, held.token);
        // The row is free and still has the remembered version. By now that costs only a read.
        other.release(&held, ReleaseOptions::default()).await.unwrap();
        assert!(granted(&remembering, &request("job")).await.token > held.token);
    }
}

/// A name that was swept away gets a larger token when it comes back. Rows that are held or have
/// tombstones are not swept.
#[tokio::test]
async fn a_sweep_forgets_free_rows_and_no_token() {
    let server = start().await;
    let store = open(&server, Strategy::PrimaryKey).await;
    let longest = 600 * SECOND;
    let init = Init::new().with_longest_lease(longest);
    store.init(&init).await.unwrap();
    let ahead = |grant: &Grant| FencingToken::new(grant.token.get() + 20_000_000).unwrap();
    let swept = granted(&store, &request("swept")).await;
    store.raise(&swept, ahead(&swept)).await.unwrap();
    store.release(&swept, ReleaseOptions::default()).await.unwrap();
    // For longer than this takes on any machine.
    let held = granted(&store, &request_for("held", longest)).await;
    let late = request("late");
    store.abandon(&late).await.unwrap();
    // Each sweep believes a watermark that is a minute old.
    let old = "UPDATE primary_key_marker SET raised = raised - interval '2 minutes'";
    for _ in 0..2 {
        sweep(&server, &store, "primary_key").await;
        server.sql(old).await.unwrap();
    }
    sweep(&server, &store, "primary_key").await;
    let names = "SELECT string_agg(name, ' ' ORDER BY name) FROM primary_key_locks";
    let names = server.sql(names).await.unwrap();
    assert!(!names.contains("swept") && names.contains("held late"), "{names}");
    assert!(store.try_acquire(&late).await.unwrap().granted().is_none());
    assert_eq!(store.list(None).await.unwrap().locks.len(), 1, "{held:?}");
    assert!(granted(&store, &request("swept")).await.token > ahead(&swept));
}

/// The server's clock was a year ahead and is corrected: sweeping goes on, so the table does not
/// grow for a year.
#[tokio::test]
async fn a_clock_that_is_set_back_does_not_end_sweeping() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    let swept = used_once(&store, &request("swept")).await;
    let year = "UPDATE primary_key_marker SET raised = clock_timestamp() + interval '1 year'";
    server.sql(year).await.unwrap();
    for _ in 0..2 {
        sweep(&server, &store, "primary_key").await;
        // A sweep believes a watermark that is a minute old.
        let old = "UPDATE primary_key_marker SET raised = raised - interval '2 minutes'";
        server.sql(old).await.unwrap();
    }
    sweep(&server, &store, "primary_key").await;
    assert_eq!(store.inspect(&swept.name).await.unwrap(), None);
    assert!(granted(&store, &request("swept")).await.token > swept.token);
}

/// A statement that inserts a row waits for another insert for over a minute. Meanwhile a sweep
/// deletes a token that leads the clock, and raises the watermark, which the statement has read
/// before.
#[tokio::test]
async fn a_statement_that_waited_too_long_makes_no_row_with_an_old_watermark() {
    let clock = Clock::new().await.unwrap();
    let server = Postgres::start(PostgresOptions::new().clock(&clock)).await.unwrap();
    for strategy in BOTH {
        let prefix = strategy.to_string().replace('-', "_");
        made(&server, strategy).await;
        let plain = url(&server);
        let url = format!("{plain}?strategy={strategy}&table_prefix={prefix}&timeout=5m");
        for (name, abandons) in [("taken", false), ("abandoned", true)] {
            let mut operator = PgConnection::connect(&plain).await.unwrap();
            let insert = format!(
                "BEGIN; INSERT INTO {prefix}_locks (name, token, version, expires, kept) \
                 VALUES ('{name}', 1, 1, now(), false)"
            );
            operator.execute(AssertSqlSafe(insert)).await.unwrap();
            let (store, wanted) = (connect(&url).await.unwrap(), request(name));
            let waiting = tokio::spawn(async move {
                match abandons {
                    true => store.abandon(&wanted).await.map(|()| None).unwrap(),
                    false => store.try_acquire(&wanted).await.unwrap().granted(),
                }
            });
            says(&server, BLOCKED, "1").await;
            let raise = format!(
                "UPDATE {prefix}_marker SET watermark = \
                 greatest(watermark, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + 3600000000"
            );
            server.sql(&raise).await.unwrap();
            let watermark = format!("SELECT watermark FROM {prefix}_marker");
            let watermark: u64 = server.sql(&watermark).await.unwrap().parse().unwrap();
            clock.step(61.0).unwrap();
            operator.execute("ROLLBACK").await.unwrap();
            let grant = match waiting.await.unwrap() {
                Some(grant) => grant,
                None => granted(&open(&server, strategy).await, &request(name)).await,
            };
            assert!(grant.token.get() > watermark, "{strategy}, {name}: {}", grant.token);
        }
    }
}

/// Processes that start at once, each of which makes the tables ready.
#[tokio::test]
async fn all_who_make_the_tables_at_once_have_made_them() {
    let server = start().await;
    for round in 0..5 {
        let inits = (0..8).map(async |_| {
            let url = format!("{}?table_prefix=round_{round}&listen=off", url(&server));
            let store = connect(&url).await.unwrap();
            store.init(&Init::default()).await.unwrap();
            store
        });
        let stores = join_all(inits).await;
        let grant = granted(&stores[0], &request("job")).await;
        let attempt = stores[1].try_acquire(&request("job")).await.unwrap();
        assert!(matches!(attempt, Attempt::Busy(_)), "{attempt:?}");
        stores[0].release(&grant, ReleaseOptions::default()).await.unwrap();
        join_all(stores.iter().map(|store| store.close())).await;
    }
}

/// A process looks which tables are there, and another one makes them before it goes on.
#[tokio::test]
async fn tables_that_another_makes_meanwhile_are_not_taken_for_lost_ones() {
    let server = start().await;
    let plain = url(&server);
    let url = format!("{plain}?timeout=60s&listen=off");
    let trigger = "CREATE FUNCTION waits() RETURNS event_trigger LANGUAGE plpgsql AS \
                   $$ BEGIN PERFORM pg_advisory_xact_lock_shared(7); END $$; \
                   CREATE EVENT TRIGGER waits ON ddl_command_start EXECUTE FUNCTION waits()";
    server.sql(trigger).await.unwrap();
    let mut gate = PgConnection::connect(&plain).await.unwrap();
    gate.execute("SELECT pg_advisory_lock(7)").await.unwrap();
    let store = connect(&url).await.unwrap();
    let first = {
        let store = Arc::clone(&store);
        tokio::spawn(async move { store.init(&Init::default()).await.unwrap() })
    };
    says(&server, ADVISORY, "1").await;
    // The trigger stops no session with this role.
    let mut other = PgConnection::connect(&plain).await.unwrap();
    other.execute("SET session_replication_role = replica").await.unwrap();
    let schema = schema(&url).unwrap();
    let second = tokio::spawn(async move {
        sqlx::raw_sql(AssertSqlSafe(schema)).execute(&mut other).await.map(drop)
    });
    let settled = async || {
        let waits = server.sql(ADVISORY).await?;
        Ok((waits == "2" || second.is_finished()).then_some(()))
    };
    until("the other to be ready, or to wait", WAIT, settled).await.unwrap();
    gate.execute("SELECT pg_advisory_unlock(7)").await.unwrap();
    first.await.unwrap();
    second.await.unwrap().unwrap();
    granted(&store, &request("job")).await;
}

/// Sessions that wait for an advisory lock.
const ADVISORY: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";

/// A longer lease would outlast the quarantine after a crash, which is as long as the longest.
#[tokio::test]
async fn no_lease_is_longer_than_the_longest_of_tables_that_were_made_after_the_client() {
    let server = start().await;
    for strategy in BOTH {
        let early = open(&server, strategy).await;
        let init = Init::new().with_longest_lease(SECOND);
        open(&server, strategy).await.init(&init).await.unwrap();
        let error = early.try_acquire(&request("job")).await.unwrap_err();
        assert!(error.to_string().contains("longest lease, 1s"), "{error}");
        assert!(early.list(None).await.unwrap().locks.is_empty());
    }
}

#[tokio::test]
async fn rows_that_cannot_be_read_hold_their_locks_and_hide_no_other() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let table = format!("{}_locks", strategy.to_string().replace('-', "_"));
        let columns = [
            "label = chr(7)",
            "label = repeat('x', 300)",
            "owner = 'somebody'",
            "token = -1",
            "token = -9223372036854775808, expires = 'infinity'",
            "token = 9223372036854775807, turn = 'infinity'",
        ];
        let no_name = "'a' || chr(10)";
        crate::support::damaged_rows_hold_their_locks(
            &store,
            &columns,
            no_name,
            async |name, columns| {
                let sql = format!("UPDATE {table} SET {columns} WHERE name = '{name}'");
                server.sql(&sql).await.unwrap();
            },
        )
        .await;
        // Nor do they stop an operator who sets the tokens back.
        let set = format!("UPDATE {table} SET token = -9223372036854775808");
        server.sql(&set).await.unwrap();
        store.init(&Init::new().with_reset_tokens(true)).await.unwrap();
    }
}
