//! MySQL, on real MariaDB servers, beyond what the suite asks of every store.

use std::time::Duration;

use crate::support::mariadb::{
    BOTH, LEASE, assert_renewed, busy, counted, granted, made, open, prefix, request, start, url,
    used_once,
};
use backend_sql::{
    Strategy,
    mysql::{MysqlBuilder, connect, schema},
};
use futures_util::future::join_all;
use lock_core::{
    Attempt, Enqueued, Env as _, ErrorKind, FencingToken, Init, LockClient, LossReason,
    QuarantineUse, ReleaseOptions, ReleaseOutcome, Renewal, SystemEnv,
};
use servers::{Clock, Data, Mariadb, MariadbOptions, Server as _};
use sqlx::mysql::MySqlPoolOptions;

#[tokio::test]
async fn a_batch_is_renewed_in_its_order_whatever_the_names() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    let mut grants = Vec::new();
    for on in ["a\"b\\c", "'; DROP TABLE primary_key_locks; --", "schloß 🔒", "A", "a", "{now}?1"]
    {
        let mut asked = request(on);
        asked.lease = LEASE / 2;
        grants.push(granted(&store, &asked).await);
    }
    store.force_release(&grants[3].name).await.unwrap();
    // A lease is what is asked for, also by a renewal.
    grants[4].lease = LEASE;
    let borrowed: Vec<_> = grants.iter().collect();
    let answers = store.renew(&borrowed, SystemEnv.now()).await;
    for (at, answer) in answers.iter().enumerate() {
        match answer {
            Renewal::Renewed { .. } => assert_ne!(at, 3),
            Renewal::Lost(LossReason::Gone) => assert_eq!(at, 3),
            other => panic!("{at}: {other:?}"),
        }
    }
    let state = store.inspect(&grants[4].name).await.unwrap().unwrap();
    assert!(state.holder.unwrap().remaining > LEASE / 2);
}

#[tokio::test]
async fn a_store_without_tables_says_how_to_make_them() {
    let server = start().await;
    let url = url(server.address());
    let store = connect(&url).await.unwrap();
    let error = store.try_acquire(&request("job")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("init` makes them"), "{error}");
    // The printed schema does as well, and twice does no harm.
    for _ in 0..2 {
        server.sql(&schema(&url).unwrap()).await.unwrap();
    }
    granted(&store, &request("job")).await;
    let error = connect(&format!("{url}&longest_lease=1m")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    for (wrong, kind) in [
        (url.replace("/test", "/nothing"), ErrorKind::Config),
        (url.replace("root@", "nobody:secret@"), ErrorKind::Auth),
    ] {
        let error = connect(&wrong).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

/// What the server flushes decides on whether exclusion is promised.
#[tokio::test]
async fn exclusion_is_promised_by_what_the_server_flushes() {
    let server = start().await;
    let promised = made(&server, Strategy::PrimaryKey).await.guarantees();
    assert!(promised.exclusion.holds() && promised.tokens.holds());
    assert_eq!(promised.quarantine, QuarantineUse::Unavailable);
    for value in ["2", "0"] {
        let set = format!("SET GLOBAL innodb_flush_log_at_trx_commit = {value}");
        server.sql(&set).await.unwrap();
        let promised = open(&server, Strategy::PrimaryKey).await.guarantees();
        let said = promised.exclusion.to_string();
        let part = format!("innodb_flush_log_at_trx_commit is {value}");
        assert!(said.contains(&part), "{said}");
        assert!(promised.tokens.holds());
    }
    let options = MariadbOptions::new().flag("--log-bin=binlog").flag("--server-id=1");
    let server = Mariadb::start(options).await.unwrap();
    let promised = made(&server, Strategy::PrimaryKey).await.guarantees();
    assert!(promised.exclusion.to_string().contains("sync_binlog"), "{}", promised.exclusion);
    server.sql("SET GLOBAL sync_binlog = 1").await.unwrap();
    assert!(open(&server, Strategy::PrimaryKey).await.guarantees().exclusion.holds());
}

#[tokio::test]
async fn tokens_rise_over_a_clock_that_is_set_back() {
    let clock = Clock::new().await.unwrap();
    let server = Mariadb::start(MariadbOptions::new().clock(&clock)).await.unwrap();
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let first = used_once(&store, &request("job")).await;
        clock.step(-3600.0).unwrap();
        let behind = store.clock_difference_micros().await.unwrap().unwrap();
        assert!(behind < -1_800_000_000, "the fault did not happen: {behind}");
        let second = granted(&store, &request("job")).await;
        assert!(second.token > first.token, "{strategy}");
        clock.step(3600.0).unwrap();
        // A step forward ends leases early, which is an assumption; their holders learn it.
        let answers = store.renew(&[&second], SystemEnv.now()).await;
        assert!(matches!(answers[..], [Renewal::Lost(LossReason::Gone)]), "{answers:?}");
        let third = granted(&store, &request("job")).await;
        assert!(third.token > second.token, "{strategy}");
    }
}

/// Names of tables are quoted.
#[tokio::test]
async fn tables_are_named_as_they_are_told() {
    let server = start().await;
    for strategy in BOTH {
        // Not quoted it would begin with a number.
        let prefix = format!("1e{}", strategy.to_string().len());
        let url = url(server.address());
        let url = format!("{url}&strategy={strategy}&table_prefix={prefix}");
        server.sql(&schema(&url).unwrap()).await.unwrap();
        let store = connect(&url).await.unwrap();
        for _ in 0..2 {
            used_once(&store, &request("job")).await;
        }
        let rows = format!("SELECT COUNT(*) FROM `{prefix}_locks`");
        assert_eq!(server.sql(&rows).await.unwrap(), "1");
    }
}

/// Both strategies exclude each other on the same tables.
#[tokio::test]
async fn the_strategies_share_their_tables() {
    let server = start().await;
    let one = made(&server, Strategy::PrimaryKey).await;
    let pool = MySqlPoolOptions::new().connect(&url(server.address())).await.unwrap();
    let other = MysqlBuilder::with_pool(pool).strategy(Strategy::Optimistic);
    let other = other.table_prefix(prefix(Strategy::PrimaryKey)).build().await.unwrap();
    let mut last = FencingToken::ZERO;
    for (ours, theirs) in [(&one, &other), (&other, &one), (&one, &other)] {
        let grant = granted(ours, &request("job")).await;
        assert!(grant.token > last);
        last = grant.token;
        busy(theirs, &request("job")).await;
        ours.release(&grant, ReleaseOptions::default()).await.unwrap();
    }
}

/// What was committed outlives a crash of the server: no quarantine is needed.
#[tokio::test]
async fn a_killed_server_keeps_its_locks() {
    let mut server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let grant = granted(&store, &request("job")).await;
        let before = server.process().pid().unwrap();
        server.restart(Data::Keep).await.unwrap();
        assert_ne!(server.process().pid().unwrap(), before, "the fault did not happen");
        // By the connections from before, too, all of which are broken.
        for store in [&store, &open(&server, strategy).await] {
            let answer = match store.try_acquire(&request("job")).await {
                // Whether the first try was carried out, a connection that broke does not tell.
                Err(error) if error.is_ambiguous() => store.try_acquire(&request("job")).await,
                answer => answer,
            };
            let Attempt::Busy(busy) = answer.unwrap() else {
                panic!("{strategy}: a lock was lost");
            };
            assert_eq!(busy.token, grant.token);
        }
        assert_renewed(&store, &grant).await;
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
        assert!(granted(&store, &request("job")).await.token > grant.token);
    }
    let longest = Duration::from_secs(60);
    let init = Init::new().with_longest_lease(longest);
    let store = open(&server, Strategy::PrimaryKey).await;
    assert_eq!(store.init(&init).await.unwrap().longest_lease, longest);
    let quarantine = Init::new().with_quarantine(true);
    assert_eq!(store.init(&quarantine).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// One round trip for an uncontended acquire, and one for a release.
#[tokio::test]
async fn a_lock_that_nobody_else_wants_costs_two_statements() {
    let server = start().await;
    for strategy in BOTH {
        let client = LockClient::new(made(&server, strategy).await);
        for _ in 0..5 {
            client.lock("job").acquire().await.unwrap().release().await.unwrap();
        }
        let before = counted(&server, "Com_stmt_execute").await;
        for _ in 0..100 {
            client.lock("job").acquire().await.unwrap().release().await.unwrap();
        }
        let count = counted(&server, "Com_stmt_execute").await - before;
        // There may be one sweep among them.
        assert!((200..=210).contains(&count), "{strategy}: {count} statements");
    }
}

#[tokio::test]
async fn a_request_that_a_release_carries_gets_the_lock_where_nobody_waits() {
    let server = start().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let held = granted(&store, &request("job")).await;
        let next = request("job");
        let options = ReleaseOptions::new().with_next(&next);
        let answer = store.release(&held, options).await.unwrap().next;
        let Some(Enqueued::Granted(grant)) = answer else { panic!("{answer:?}") };
        assert!(grant.token > held.token);
        busy(&store, &request("job")).await;
        // A second release of what is gone hands nothing on.
        let released = store.release(&held, ReleaseOptions::new().with_next(&request("job"))).await;
        let released = released.unwrap();
        assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
        assert!(released.next.is_none(), "{released:?}");
    }
}

/// From one task of a client to the next one.
#[tokio::test]
async fn a_handoff_within_a_client_costs_one_statement() {
    const TASKS: u64 = 50;
    let server = start().await;
    for strategy in BOTH {
        let client = LockClient::new(made(&server, strategy).await);
        let first = client.lock("job").acquire().await.unwrap();
        let take = async || client.lock("job").acquire().await.unwrap().release().await.unwrap();
        let each = join_all((0..TASKS).map(|_| take()));
        let before = counted(&server, "Com_stmt_execute").await;
        tokio::join!(each, async { first.release().await.unwrap() });
        let count = counted(&server, "Com_stmt_execute").await - before;
        // The first of them may have an entry to add and to remove, and there may be a sweep.
        assert!((TASKS..TASKS + 20).contains(&count), "{strategy}: {count} statements");
    }
}
