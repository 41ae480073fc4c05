//! ShedLock's table with rows that the test writes. The tests with real clients are in clients/.

use std::{sync::Arc, time::Duration};

use backend_migration::{Direction, Fleet, Migration, Phase, Step};
use lock_core::{
    Backend, ConnectionSecurity, ErrorKind, Init, Mode, Promise, QuarantineUse, ReleaseOptions,
    ReleaseOutcome,
};
use servers::{Mariadb, MariadbOptions};
use sqlx::Connection as _;
use verification::missing_guards::cases::{LONG, granted, name, not_granted, request};

use crate::{
    operations,
    server::{Kind, Server},
};

const KINDS: [Kind; 2] = [Kind::Postgres, Kind::Mysql];

async fn store(server: &Server) -> Arc<dyn Backend> {
    let store = backend_foreign::connect(&server.url("shedlock")).await.unwrap();
    store.init(&Init::default()).await.unwrap();
    store
}

/// Writes a row as a client of ShedLock did that locked it `ago` seconds ago.
async fn foreign_row(server: &Server, name: &str, ago: u32, for_seconds: u32) {
    let (now, second) = match server {
        Server::Mysql(_) => ("UTC_TIMESTAMP(3)", "SECOND"),
        _ => ("timezone('utc', clock_timestamp())", "'1 second'"),
    };
    let times = |count| format!("{count} * INTERVAL {second}");
    let (until, at) = match server {
        Server::Mysql(_) => (
            format!("{now} + INTERVAL {for_seconds} SECOND"),
            format!("{now} - INTERVAL {ago} SECOND"),
        ),
        _ => (format!("{now} + {}", times(for_seconds)), format!("{now} - {}", times(ago))),
    };
    server.sql(&format!("DELETE FROM shedlock WHERE name = '{name}'")).await;
    let row = format!("INSERT INTO shedlock VALUES ('{name}', {until}, {at}, 'host-7')");
    server.sql(&row).await;
}

#[tokio::test]
async fn the_row_is_in_shedlocks_form_and_the_rest_in_the_companion_table() {
    for kind in KINDS {
        let server = Server::start(kind).await;
        server.make_table().await;
        let store = store(&server).await;
        let grant = granted(&*store, &request("a", LONG)).await.unwrap();
        let holder = server.sql("SELECT locked_by FROM shedlock WHERE name = 'a'").await;
        assert_eq!(holder.trim(), grant.owner.to_string());
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
        // The row stays, because ShedLock remembers that it exists.
        assert_eq!(server.sql("SELECT count(*) FROM shedlock").await.trim(), "1");
        foreign_row(&server, "a", 0, 60).await;
        not_granted(&*store, &request("a", LONG)).await.unwrap();
        let state = store.inspect(&grant.name).await.unwrap().unwrap();
        let holder = state.holder.expect("it is held");
        assert_eq!(holder.label.as_str(), "a shedlock client: host-7");
        assert!(holder.remaining > Duration::from_secs(50), "{holder:?}");
        assert!(store.list(None).await.unwrap().locks.iter().any(|held| held.name == grant.name));
        // A late release does not free the foreign lock.
        let late = store.release(&grant, ReleaseOptions::default()).await.unwrap();
        assert_eq!(late.outcome, ReleaseOutcome::NotHeld);
        assert_eq!(store.force_release(&grant.name).await.unwrap(), ReleaseOutcome::Released);
        let next = granted(&*store, &request("a", LONG)).await.unwrap();
        assert!(next.token > grant.token, "{} came after {}", next.token, grant.token);
    }
}

#[tokio::test]
async fn the_guarantees_say_what_is_withheld() {
    for kind in KINDS {
        let server = Server::start(kind).await;
        let store = store(&server).await;
        let promised = store.guarantees();
        assert!(!promised.push && !promised.fair && !promised.shared.holds() && promised.raise);
        assert_eq!(promised.quarantine, QuarantineUse::Unavailable);
        assert_eq!(promised.connection, ConnectionSecurity::Local);
        let Promise::Holds { assuming } = &promised.tokens else { panic!("{promised:?}") };
        assert!(assuming.iter().any(|it| it.id == "foreign-holders-are-not-fenced"));
        match (&promised.exclusion, kind) {
            (Promise::Holds { assuming }, Kind::Mysql) => {
                assert!(assuming.iter().any(|it| it.id == "foreign-clients-use-the-servers-clock"));
            }
            // The test server does not flush.
            (Promise::Withheld { why }, Kind::Postgres) => {
                assert!(why.starts_with("fsync is off"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        let shared = request("a", LONG).with_mode(Mode::Shared);
        let error = store.init(&Init::default().with_restored(true)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        // In a store without readers, a reader is a writer.
        granted(&*store, &shared).await.unwrap();
        not_granted(&*store, &request("a", LONG)).await.unwrap();
    }
}

/// In MySQL an abandon waits for the same row as the attempt. (For PostgreSQL a case in
/// missing_guards/tables tests this.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_is_abandoned_while_it_waits_for_its_row_gets_nothing() {
    let server = Server::start(Kind::Mysql).await;
    store(&server).await.close().await;
    // A long time limit: on a busy machine the statements wait for as long as this test takes to
    // see them.
    let url = server.url("shedlock") + "&timeout=60s";
    let store = backend_foreign::connect(&url).await.unwrap();
    let first = granted(&*store, &request("a", LONG)).await.unwrap();
    store.release(&first, ReleaseOptions::default()).await.unwrap();
    let waiting = async |count: &str| {
        let blocked =
            "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
        let seen = async {
            while server.sql(blocked).await.trim() != count {
                // InnoDB refreshes this table only if nobody has read it for 100 ms.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(2 * LONG, seen).await.expect("statements wait for the row");
    };
    let url = format!("mysql://root@{}/test?ssl-mode=disabled", server.address());
    let mut other = sqlx::MySqlConnection::connect(&url).await.unwrap();
    let mut held = other.begin().await.unwrap();
    let hold = "SELECT name FROM shedlock WHERE name = 'a' FOR UPDATE";
    sqlx::raw_sql(hold).execute(&mut *held).await.unwrap();
    let late = request("a", LONG);
    let attempt = {
        let (store, late) = (Arc::clone(&store), late.clone());
        tokio::spawn(async move { store.try_acquire(&late).await })
    };
    waiting("1").await;
    let abandon = {
        let (store, late) = (Arc::clone(&store), late.clone());
        tokio::spawn(async move { store.abandon(&late).await })
    };
    waiting("2").await;
    held.commit().await.unwrap();
    let _ = attempt.await.unwrap();
    abandon.await.unwrap().unwrap();
    let state = store.inspect(&name("a")).await.unwrap().unwrap();
    assert!(state.holder.is_none(), "{state:?}");
    not_granted(&*store, &late).await.unwrap();
    let next = granted(&*store, &request("a", LONG)).await.unwrap();
    assert!(next.token > first.token);
}

#[tokio::test]
async fn a_table_that_cannot_keep_the_times_or_names_is_refused() {
    for kind in KINDS {
        let server = Server::start(kind).await;
        server.make_table().await;
        let store = store(&server).await;
        let error = store.try_acquire(&request(&"x".repeat(65), LONG)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("must be at most 64"), "{error}");
        granted(&*store, &request(&"x".repeat(64), LONG)).await.unwrap();
        let changes = match kind {
            Kind::Postgres => [
                (
                    "ALTER TABLE shedlock ALTER lock_until TYPE timestamptz",
                    "timestamp with time zone; it must be",
                ),
                (
                    "ALTER TABLE shedlock ALTER lock_until TYPE timestamp(0)",
                    "timestamp(0) without time zone; it must be",
                ),
            ],
            _ => [
                (
                    "ALTER TABLE shedlock MODIFY lock_until TIMESTAMP NOT NULL",
                    "is a timestamp; it must be",
                ),
                (
                    "ALTER TABLE shedlock MODIFY lock_until DATETIME NOT NULL",
                    "is a datetime; it must be",
                ),
            ],
        };
        for (change, part) in changes {
            server.sql(change).await;
            let error = backend_foreign::connect(&server.url("shedlock")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

/// Sessions of other clients would convert the times differently.
#[tokio::test]
async fn a_timestamp_of_another_zone_is_refused() {
    let options = MariadbOptions::new().flag("--default-time-zone=+02:00");
    let server = Server::Mysql(Mariadb::start(options).await.unwrap());
    // The table that init creates has no time zone.
    let made = store(&server).await;
    granted(&*made, &request("a", LONG)).await.unwrap();
    server.sql("ALTER TABLE shedlock MODIFY lock_until TIMESTAMP(3) NOT NULL").await;
    let error = backend_foreign::connect(&server.url("shedlock")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("of the server's time zone +02:00"), "{error}");
}

/// A zone for the server, which it has from its tables: `summer` are the months in which summer
/// time begins and ends.
fn zone(id: u32, name: &str, summer: Option<[u32; 2]>) -> String {
    let mut sql = format!(
        "INSERT INTO mysql.time_zone VALUES ({id}, 'N'); INSERT INTO mysql.time_zone_name VALUES ('{name}', {id}); \
         INSERT INTO mysql.time_zone_transition_type VALUES ({id}, 0, 0, 0, 'GMT'), ({id}, 1, 3600, 1, 'BST');"
    );
    for year in 2020..2037 {
        for (kind, month) in summer.into_iter().flat_map(|[begins, ends]| [(1, begins), (0, ends)])
        {
            let at =
                format!("TIMESTAMPDIFF(SECOND, '1970-01-01', '{year}-{month:02}-28 01:00:00')");
            sql += &format!("INSERT INTO mysql.time_zone_transition VALUES ({id}, {at}, {kind});");
        }
    }
    sql
}

/// A client of ShedLock that locks in winter until a moment in summer, or is written to in summer,
/// is an hour off. In half of the year nothing can be seen of it.
#[tokio::test]
async fn a_timestamp_of_a_zone_that_has_summer_time_is_refused_whatever_its_name() {
    let server = Server::start(Kind::Mysql).await;
    server.make_table().await;
    let summers = [Some([3, 10]), Some([10, 3]), None];
    let names = ["GMT", "UTC", "Africa/Abidjan"];
    for (id, (name, summer)) in (900..).zip(names.into_iter().zip(summers)) {
        server.sql(&zone(id, name, summer)).await;
        server.sql(&format!("SET GLOBAL time_zone = '{name}'")).await;
        // In January and in July of 2030, in this zone.
        let both = "UNIX_TIMESTAMP('2030-01-01') + UNIX_TIMESTAMP('2030-07-01')";
        let is_utc = format!("SET time_zone = '{name}'; SELECT {both} = 1893456000 + 1909094400");
        let is_utc = server.sql(&is_utc).await;
        assert_eq!(is_utc.trim() == "1", summer.is_none(), "{name} is not as the test needs it");
        let opened = match backend_foreign::connect(&server.url("shedlock")).await {
            Ok(store) => store.init(&Init::default()).await.map(drop),
            Err(error) => Err(error),
        };
        let Some(_) = summer else { return opened.unwrap() };
        let error = match opened {
            Err(error) => error,
            Ok(()) => backend_foreign::connect(&server.url("shedlock")).await.unwrap_err(),
        };
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        let told = error.to_string();
        assert!(
            told.contains(&format!("time zone {name}, which is not UTC all the year")),
            "{told}"
        );
    }
}

#[tokio::test]
async fn a_timestamp_is_refused_where_the_server_gives_each_session_a_zone() {
    let server = Server::start(Kind::Mysql).await;
    server.make_table().await;
    let made = store(&server).await;
    granted(&*made, &request("a", LONG)).await.unwrap();
    server.sql("SET GLOBAL init_connect = 'SET time_zone = \"+02:00\"'").await;
    let error = backend_foreign::connect(&server.url("shedlock")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("init_connect"), "{error}");
    server.sql("ALTER TABLE shedlock MODIFY lock_until DATETIME(3) NOT NULL, MODIFY locked_at DATETIME(3) NOT NULL").await;
    backend_foreign::connect(&server.url("shedlock")).await.unwrap();
}

#[tokio::test]
async fn each_table_is_a_store_of_its_own_and_schema_creates_it() {
    for kind in KINDS {
        let server = Server::start(kind).await;
        let first = store(&server).await;
        let url = format!("{}&table=jobs&longest_lease=1m", server.url("shedlock"));
        server.sql(&backend_foreign::schema(&url).unwrap()).await;
        let other = backend_foreign::connect(&url).await.unwrap();
        assert_eq!(other.guarantees().longest_lease, Duration::from_secs(60));
        assert_ne!(first.identity().await.unwrap(), other.identity().await.unwrap());
        granted(&*first, &request("a", LONG)).await.unwrap();
        granted(&*other, &request("a", LONG)).await.unwrap();
        assert_eq!(server.sql("SELECT count(*) FROM jobs").await.trim(), "1");
        let wrong = server.url("shedlock") + "&longest_lease=2m";
        let error = backend_foreign::connect(&wrong).await.unwrap_err();
        assert!(error.to_string().contains("the store's is 30s"), "{error}");
    }
}

/// A client of ShedLock keeps no migration record, and counts as a process in phase `old`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_shedlock_keeps_processes_out_of_phase_new() {
    for kind in KINDS {
        let server = Server::start(kind).await;
        // Each process has its own connections.
        let stores = async || {
            let old = store(&server).await;
            let new = format!("{}&table=new", server.url("shedlock"));
            let new = backend_foreign::connect(&new).await.unwrap();
            new.init(&Init::default()).await.unwrap();
            [old, new]
        };
        let enter = async |phase| {
            let [old, new] = stores().await;
            Migration::new(old, new, phase).await
        };
        let [old, new] = stores().await;
        let next = || async { Fleet::survey(&*old, &*new).await.unwrap().next(Direction::Forward) };
        let _both = enter(Phase::Both).await.unwrap();
        assert_eq!(next().await.unwrap(), Step::Enter(Phase::New), "none was seen");
        foreign_row(&server, "job", 60, 0).await;
        let refusal = next().await.unwrap_err().to_string();
        assert!(refusal.contains("a shedlock client, seen"), "{refusal}");
        let error = enter(Phase::New).await.unwrap_err().to_string();
        assert!(error.contains("a shedlock client, seen"), "{error}");
        foreign_row(&server, "job", 601, 0).await;
        assert_eq!(next().await.unwrap(), Step::Enter(Phase::New));
    }
}

#[tokio::test]
async fn invalid_urls_are_refused_with_an_explanation_and_without_the_url() {
    for (url, part) in [
        ("postgres://u:hunter2@localhost/db?layout=hunter2", "it must be shedlock"),
        ("mysql://u:hunter2@localhost/db?layout=advisory", "it must be shedlock"),
        ("postgres://u:hunter2@localhost/db", "it must be shedlock"),
        ("postgres://localhost/db?layout=shedlock&layout=shedlock", "layout is given twice"),
        ("postgres://localhost/db?layout=shedlock&table=a-b", "table \"a-b\" is not allowed"),
        ("postgres://localhost/db?layout=shedlock&strategy=optimistic", "strategy is no option"),
        ("mysql://localhost/db?layout=shedlock&table_prefix=x", "table_prefix is no option"),
        ("postgres://localhost/db?layout=shedlock&hunter2=1", "unknown option in the URL"),
        ("postgres://u:hunter2@h.invalid/db?layout=shedlock", "plaintext=on in the URL"),
    ] {
        let error = backend_foreign::connect(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{url}: {error}");
        assert!(error.to_string().contains(part), "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    }
}

/// Force repairs it.
#[tokio::test]
async fn a_token_at_the_limit_is_reported_and_repaired() {
    for kind in KINDS {
        let server = Server::start(kind).await;
        let store = store(&server).await;
        let first = granted(&*store, &request("a", LONG)).await.unwrap();
        store.release(&first, ReleaseOptions::default()).await.unwrap();
        server.sql("UPDATE shedlock_leasehold SET token = 9007199254740991").await;
        let error = store.try_acquire(&request("a", LONG)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("used up"), "{error}");
        store.force_release(&first.name).await.unwrap();
        let next = granted(&*store, &request("a", LONG)).await.unwrap();
        assert!(next.token > first.token);
    }
}

/// The rights in docs/backends/foreign.md.
#[tokio::test]
async fn the_documented_rights_are_enough() {
    const PAGE: &str = include_str!("../../../docs/backends/foreign.md");
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `shedlock"));
    let rows = rows.filter_map(|row| row.split_once("` | "));
    let rights: Vec<_> = rows.filter(|(_, rights)| rights.starts_with("SELECT")).collect();
    assert_eq!(rights.len(), 3, "{rights:?}");
    for kind in KINDS {
        let server = Server::start(kind).await;
        store(&server).await;
        let (make, user) = match kind {
            Kind::Postgres => ("CREATE ROLE worker LOGIN", "worker"),
            _ => ("CREATE USER worker@'127.0.0.1'", "worker@'127.0.0.1'"),
        };
        server.sql(make).await;
        for (table, rights) in &rights {
            let rights = rights.trim_end_matches(" |");
            server.sql(&format!("GRANT {rights} ON shedlock{table} TO {user}")).await;
        }
        let url = server.url("shedlock");
        let url = url.replace("postgres@", "worker@").replace("root@", "worker@");
        let store = backend_foreign::connect(&url).await.unwrap();
        operations::use_each(&*store).await;
        let refused = store.init(&Init::default().with_longest_lease(LONG)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Auth, "{refused}");
    }
}
