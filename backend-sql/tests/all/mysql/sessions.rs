//! MySQL in sessions of any time zone, SQL mode and isolation level.

use std::{sync::Arc, time::Duration};

use crate::support::{
    checks,
    mariadb::{
        BOTH, LEASE, LEVELS, WAIT, busy, count, granted, isolate, made, prefix, request, session,
        start, url,
    },
};
use backend_sql::{Strategy, mysql::MysqlBuilder};
use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Env as _, FencingToken, Grant, LockClient, LossReason, OwnerLabel,
    ReleaseOptions, ReleaseOutcome, Renewal, SystemEnv,
};
use servers::{Mariadb, Server as _, wait::until};
use sqlx::{
    AssertSqlSafe, Connection as _, Executor as _,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
};

/// MySQL's default, nothing, and all at once that changes the meaning of SQL.
const MODES: [&str; 3] = [
    "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO",
    "",
    "ORACLE,EMPTY_STRING_IS_NULL,SIMULTANEOUS_ASSIGNMENT,HIGH_NOT_PRECEDENCE,NO_BACKSLASH_ESCAPES,\
     PAD_CHAR_TO_FULL_LENGTH,TIME_ROUND_FRACTIONAL,NO_UNSIGNED_SUBTRACTION",
];

/// By a pool whose sessions are as the server makes them.
async fn plain(server: &Mariadb, strategy: Strategy, connections: u32) -> Arc<dyn Backend> {
    let options: MySqlConnectOptions = url(server.address()).parse().unwrap();
    let options = options.timezone(None).pipes_as_concat(false).no_engine_substitution(false);
    let pool =
        MySqlPoolOptions::new().max_connections(connections).connect_with(options).await.unwrap();
    let builder = MysqlBuilder::with_pool(pool).strategy(strategy);
    let builder = builder.timeout(Duration::from_secs(60));
    builder.table_prefix(prefix(strategy)).build().await.unwrap()
}

/// The others that use the database.
const SESSIONS: &str = "SELECT COALESCE(GROUP_CONCAT(id), '') FROM information_schema.processlist \
                        WHERE id <> CONNECTION_ID() AND db = 'test'";

/// Between two renewals, or between two jobs.
#[tokio::test]
async fn a_client_that_does_nothing_keeps_one_session() {
    let server = start().await;
    let store = made(&server, Strategy::PrimaryKey).await;
    let names: Vec<_> = (0..20).map(|at| request(&format!("name {at}"))).collect();
    join_all(names.iter().map(|request| granted(&store, request))).await;
    let one = async || {
        let found = server.sql(SESSIONS).await?;
        Ok((!found.is_empty() && !found.contains(',')).then_some(found))
    };
    let before = until("one session to be left", WAIT, one).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(server.sql(SESSIONS).await.unwrap(), before);
}

#[tokio::test]
async fn a_check_that_nobody_awaits_keeps_its_session() {
    let server = start().await;
    let strategy = Strategy::PrimaryKey;
    made(&server, strategy).await.close().await;
    let waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE '%lock%'";
    let lock = async || {
        let mut other = session(&server).await;
        let tables = format!("LOCK TABLES {0}_locks WRITE, {0}_queue WRITE", prefix(strategy));
        other.execute(AssertSqlSafe(tables)).await.unwrap();
        other
    };
    checks::a_check_that_nobody_awaits_keeps_its_session(
        plain(&server, strategy, 1).await,
        async || server.sql(SESSIONS).await.unwrap(),
        lock,
        async || {
            let waits = async || Ok((server.sql(waiting).await? == "1").then_some(()));
            until("the check to wait", WAIT, waits).await.unwrap();
        },
        async |other| other.close().await.unwrap(),
    )
    .await;
}

/// Renews until the answer is known: a busy server may be late.
async fn renewed(store: &Arc<dyn Backend>, grant: &Grant) -> Renewal {
    let known = || async {
        let answer = store.renew(&[grant], SystemEnv.now()).await.remove(0);
        Ok((!matches!(answer, Renewal::Unknown(_))).then_some(answer))
    };
    until("a renewal to be answered", WAIT, known).await.unwrap()
}

/// Each step of the contract, with answers that depend on how a statement's parts are evaluated.
async fn steps(ours: &Arc<dyn Backend>, theirs: &Arc<dyn Backend>) {
    let mut mine = request("job");
    mine.lease = LEASE / 2;
    let grant = granted(ours, &mine).await;
    let wall = SystemEnv.wall_micros();
    assert!(grant.token.get().abs_diff(wall) < 60_000_000, "{} at {wall}", grant.token);
    // A repeat is the same grant, with the lease anew, and never shorter.
    mine.lease = LEASE;
    assert_eq!(granted(ours, &mine).await.token, grant.token);
    mine.lease = LEASE / 2;
    assert_eq!(granted(ours, &mine).await.token, grant.token);
    let mut stranger = request("job");
    stranger.label = OwnerLabel::new("").unwrap();
    let busy = busy(theirs, &stranger).await;
    let holder = busy.holder.unwrap();
    assert_eq!((holder.owner, busy.token), (mine.owner, grant.token));
    assert_eq!(holder.label, mine.label);
    assert!(holder.remaining > LEASE / 2 && holder.remaining <= LEASE);

    let answer = renewed(ours, &grant).await;
    assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
    let ahead = FencingToken::new(grant.token.get() + 500_000).unwrap();
    ours.raise(&grant, ahead).await.unwrap();
    let not_theirs = Grant::new(&stranger, grant.token);
    let released = theirs.release(&not_theirs, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::NotHeld);
    let released = ours.release(&grant, ReleaseOptions::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);

    // One with an empty label, whose lease ends by itself, and then somebody else's.
    stranger.lease = Duration::from_millis(100);
    let next = granted(theirs, &stranger).await;
    assert!(next.token > ahead);
    let answer = renewed(ours, &grant).await;
    assert!(matches!(answer, Renewal::Lost(_)), "{answer:?}");
    let third = loop {
        let third = request("job");
        if let Attempt::Granted(grant) = ours.try_acquire(&third).await.unwrap() {
            break grant;
        }
    };
    assert!(third.token > next.token);
    let answer = renewed(theirs, &next).await;
    assert!(matches!(answer, Renewal::Lost(LossReason::TakenOver)), "{answer:?}");

    // Kept for a last while: nothing of its owner's lengthens or ends that.
    let keep = ReleaseOptions::new().with_keep(LEASE);
    assert_eq!(ours.release(&third, keep).await.unwrap().outcome, ReleaseOutcome::Released);
    let answer = renewed(ours, &third).await;
    assert!(matches!(answer, Renewal::Lost(LossReason::Gone)), "{answer:?}");
    let mut again = request("job");
    again.owner = third.owner;
    assert!(ours.try_acquire(&again).await.unwrap().granted().is_none());
    ours.abandon(&again).await.unwrap();
    assert!(theirs.try_acquire(&request("job")).await.unwrap().granted().is_none());
    assert_eq!(ours.list(None).await.unwrap().locks.len(), 1);
    assert_eq!(ours.force_release(&third.name).await.unwrap(), ReleaseOutcome::Released);
    assert_eq!(ours.force_release(&third.name).await.unwrap(), ReleaseOutcome::NotHeld);

    abandoned(ours, theirs).await;
}

/// Abandoned owners take nothing: on a name that is not there, one that is free, one that they
/// hold.
async fn abandoned(ours: &Arc<dyn Backend>, theirs: &Arc<dyn Backend>) {
    for name in ["new", "new", "job"] {
        let late = request(name);
        ours.abandon(&late).await.unwrap();
        assert!(ours.try_acquire(&late).await.unwrap().granted().is_none());
        let held = request(name);
        granted(ours, &held).await;
        ours.abandon(&held).await.unwrap();
        assert!(ours.try_acquire(&held).await.unwrap().granted().is_none());
        let free = granted(theirs, &request(name)).await;
        assert!(ours.try_acquire(&late).await.unwrap().granted().is_none());
        ours.abandon(&held).await.unwrap();
        let answer = renewed(theirs, &free).await;
        assert!(matches!(answer, Renewal::Renewed { .. }), "{answer:?}");
        theirs.release(&free, ReleaseOptions::default()).await.unwrap();
    }
}

#[tokio::test]
async fn each_step_means_the_same_in_any_session() {
    let server = start().await;
    for strategy in BOTH {
        for (at, level) in LEVELS.iter().enumerate() {
            for mode in MODES {
                let zone = ["+13:00", "-12:00", "+05:45", "SYSTEM"][at];
                let set = format!(
                    "SET GLOBAL tx_isolation = '{}', GLOBAL sql_mode = '{mode}', \
                     GLOBAL time_zone = '{zone}'",
                    level.replace(' ', "-")
                );
                server.sql(&set).await.unwrap();
                println!("{strategy}, {level}, {mode}");
                let prefix = prefix(strategy);
                let drop = ["locks", "settings"]
                    .map(|table| format!("DROP TABLE IF EXISTS {prefix}_{table};"));
                server.sql(&drop.concat()).await.unwrap();
                let identity = made(&server, strategy).await.identity().await.unwrap();
                assert!(identity.len() >= 32, "{identity}");
                let (ours, theirs) =
                    (plain(&server, strategy, 2).await, plain(&server, strategy, 2).await);
                steps(&ours, &theirs).await;
            }
        }
    }
}

/// Conflicts are repeated inside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_count_without_losing_one_at_any_isolation_level() {
    let server = start().await;
    // The default of later versions: a statement that would change a row that was changed since it
    // began is refused.
    server.sql("SET GLOBAL innodb_snapshot_isolation = ON").await.unwrap();
    for (level, strategy) in LEVELS.iter().flat_map(|level| BOTH.map(|each| (level, each))) {
        isolate(&server, level).await;
        made(&server, strategy).await;
        println!("{level}, {strategy}");
        let clients = join_all((0..4).map(|_| plain(&server, strategy, 2))).await;
        count(clients.into_iter().map(LockClient::new).collect(), 5).await;
    }
}
