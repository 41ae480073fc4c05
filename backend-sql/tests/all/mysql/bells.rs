//! Bells of MySQL: what wakes a waiter. A waiter that listens to a bell checks nothing by itself,
//! and these waiters are not polled. So one that goes on was woken.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use backend_sql::{Strategy, mysql::connect};
use lock_core::{Backend, Grant, LockClient, OwnerId, ReleaseOptions, Signal, Waiter};
use servers::{Mariadb, Mode as ProxyMode, Proxy, Server as _, wait::until};
use sqlx::{Connection as _, MySqlConnection};
use tokio::time::timeout;

use crate::support::mariadb::{
    BOTH, LEASE, WAIT, assert_renewed, busy, counted, enqueue, granted, made, open, prefix,
    request, session, stopped, url,
};

/// The session that has the bell of an owner.
async fn bell_of(server: &Mariadb, owner: OwnerId) -> Option<u64> {
    let sql = format!("SELECT IFNULL(IS_USED_LOCK('leasehold.{owner}'), 0)");
    server.sql(&sql).await.unwrap().parse().ok().filter(|session| *session != 0)
}

async fn hangs(server: &Mariadb, owner: OwnerId) -> u64 {
    let hangs = async || Ok(bell_of(server, owner).await);
    until("the bell to hang", WAIT, hangs).await.unwrap()
}

/// Sessions that listen to a bell.
const LISTEN: &str = "information_schema.processlist \
                      WHERE state = 'User lock' AND info LIKE 'SELECT IF(GET_LOCK%'";

/// Waits until so many sessions listen to a bell.
async fn listening(server: &Mariadb, count: usize) {
    let sql = format!("SELECT COUNT(*) FROM {LISTEN}");
    let listen = async || Ok((server.sql(&sql).await? == count.to_string()).then_some(()));
    until(&format!("{count} to listen"), WAIT, listen).await.unwrap();
}

async fn release(store: &Arc<dyn Backend>, held: &Grant) {
    store.release(held, ReleaseOptions::default()).await.unwrap();
}

async fn pushed(mut waiter: Box<dyn Waiter>) -> Grant {
    let Ok(signal) = timeout(WAIT, waiter.next()).await else {
        panic!("nobody has woken the waiter")
    };
    match signal {
        Signal::Granted(grant) => grant,
        other => panic!("{other:?}"),
    }
}

/// Awaits a waiter in a task of its own.
fn waits(waiter: Box<dyn Waiter>) -> tokio::task::JoinHandle<Grant> {
    tokio::spawn(pushed(waiter))
}

/// Keeps a client's claim to a lock that a release has granted it.
async fn confirmed(store: &Arc<dyn Backend>, grant: Grant) -> Grant {
    assert_renewed(store, &grant).await;
    grant
}

/// Each waits for the one before it, and each release wakes one.
#[tokio::test]
async fn a_release_rings_for_the_next() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let held = granted(&store, &request("job")).await;
        let mut waiting = Vec::new();
        for count in 1..=3 {
            let store = open(&server, strategy).await;
            let waiter = enqueue(&store, &request("job")).await;
            waiting.push((store, waits(waiter)));
            listening(&server, count).await;
        }
        let (mut holder, mut held) = (store, held);
        for (store, waiter) in waiting {
            release(&holder, &held).await;
            held = confirmed(&store, waiter.await.unwrap()).await;
            holder = store;
        }
        release(&holder, &held).await;
    }
}

/// A holder that has taken a free lock looks for waiters once. Later its renewals tell.
#[tokio::test]
async fn a_holder_learns_by_its_renewal_that_somebody_waits() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let (holder, store) = (made(&server, strategy).await, open(&server, strategy).await);
        let before = counted(&server, "Com_stmt_execute").await;
        let held = granted(&holder, &request("job")).await;
        let taken = counted(&server, "Com_stmt_execute").await;
        assert!(taken > before);
        let looked =
            async || Ok((counted(&server, "Com_stmt_execute").await > taken).then_some(()));
        until("the holder to look", WAIT, looked).await.unwrap();
        let waiter = waits(enqueue(&store, &request("job")).await);
        assert_eq!(bell_of(&server, held.owner).await, None, "{strategy}");
        assert_renewed(&holder, &held).await;
        listening(&server, 1).await;
        release(&holder, &held).await;
        confirmed(&store, waiter.await.unwrap()).await;
    }
}

/// Before the bells' time is over, which is longer than any wait here.
#[tokio::test]
async fn whoever_leaves_the_queue_rings() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let (holder, store) = (made(&server, strategy).await, open(&server, strategy).await);
        let other = open(&server, strategy).await;
        for is_abandoned in [false, true] {
            let held = granted(&holder, &request("job")).await;
            let (leaves, stays) = (request("job"), request("job"));
            let first = enqueue(&store, &leaves).await;
            hangs(&server, leaves.owner).await;
            let waiter = waits(enqueue(&other, &stays).await);
            hangs(&server, held.owner).await;
            listening(&server, 1).await;
            match is_abandoned {
                true => store.abandon(&leaves).await.unwrap(),
                false => first.leave().await.unwrap(),
            }
            release(&holder, &held).await;
            let grant = waiter.await.unwrap();
            assert_eq!(grant.owner, stays.owner, "{strategy}");
            release(&other, &grant).await;
        }
    }
}

/// All bells of a client ring if its session for them ends, and hang again.
#[tokio::test]
async fn a_lost_session_rings_and_its_bells_hang_again() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let (holder, store) = (made(&server, strategy).await, open(&server, strategy).await);
        let held = granted(&holder, &request("job")).await;
        let waiter = waits(enqueue(&store, &request("job")).await);
        listening(&server, 1).await;
        let session = hangs(&server, held.owner).await;
        server.sql(&format!("KILL {session}")).await.unwrap();
        let again = async || {
            let bell = bell_of(&server, held.owner).await;
            Ok(bell.filter(|again| *again != session))
        };
        until("the bell to hang again", WAIT, again).await.unwrap();
        listening(&server, 1).await;
        release(&holder, &held).await;
        waiter.await.unwrap();
    }
}

/// The session that listens ends: its waiter checks, and listens on another one.
#[tokio::test]
async fn a_waiter_whose_own_session_ends_listens_again() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let (holder, store) = (made(&server, strategy).await, open(&server, strategy).await);
        let held = granted(&holder, &request("job")).await;
        let waiter = waits(enqueue(&store, &request("job")).await);
        listening(&server, 1).await;
        let id = format!("SELECT id FROM {LISTEN}");
        let session = server.sql(&id).await.unwrap();
        server.sql(&format!("KILL {session}")).await.unwrap();
        let again = async || {
            let again = server.sql(&id).await?;
            Ok((!again.is_empty() && again != session).then_some(()))
        };
        until("the waiter to listen again", WAIT, again).await.unwrap();
        release(&holder, &held).await;
        waiter.await.unwrap();
    }
}

/// All connections of the holder's process end, as if it had been killed.
#[tokio::test]
async fn a_crash_of_the_holder_rings() {
    let (clock, server) = stopped().await;
    for strategy in BOTH {
        let store = made(&server, strategy).await;
        let proxy = Proxy::start(server.address()).await.unwrap();
        let url = format!(
            "{}&strategy={strategy}&table_prefix={}",
            url(proxy.address()),
            prefix(strategy)
        );
        let holder = connect(&url).await.unwrap();
        let _held = granted(&holder, &request("job")).await;
        let mut waiter = enqueue(&store, &request("job")).await;
        let waiting = tokio::spawn(async move { timeout(WAIT, waiter.next()).await });
        listening(&server, 1).await;
        proxy.set(ProxyMode::Cut).await.unwrap();
        // It checks from then on, until the lease of the dead is over.
        clock.step(2.0 * LEASE.as_secs_f64()).unwrap();
        let signal = waiting.await.unwrap().expect("nobody has woken the waiter");
        assert!(matches!(signal, Signal::Recheck), "{strategy}: {signal:?}");
    }
}

/// The core polls a waiter as often as the last answer says: here twice in five seconds. A poll
/// costs two statements. So four waiters cost 3.2 a second, besides one in half a minute on the
/// session that listens.
#[tokio::test]
async fn a_waiter_that_listens_is_polled_seldom() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let (holder, store) = (made(&server, strategy).await, open(&server, strategy).await);
        let held = granted(&holder, &request("job")).await;
        let waits_for = request("job");
        let mut waiter = enqueue(&store, &waits_for).await;
        let awaited = tokio::spawn(async move { waiter.next().await });
        listening(&server, 1).await;
        let count = async || counted(&server, "Com_stmt_execute").await;
        let before = count().await;
        let answer = busy(&store, &waits_for).await;
        let cost = count().await - before;
        assert_eq!(answer.retry_after, Duration::from_millis(2_500), "{strategy}");
        assert!(cost <= 2, "{strategy}: {cost} statements");
        awaited.abort();
        release(&holder, &held).await;
    }
}

/// A poll that finds its entry locked, as by the heartbeat of another client, tries again: a waiter
/// that listens sends few heartbeats, and one that is lost could cost it its turn.
#[tokio::test]
async fn a_heartbeat_that_meets_a_locked_entry_is_sent_again() {
    let (_clock, server) = stopped().await;
    for strategy in BOTH {
        let (holder, store) = (made(&server, strategy).await, open(&server, strategy).await);
        let held = granted(&holder, &request("job")).await;
        let waits_for = request("job");
        let mut waiter = enqueue(&store, &waits_for).await;
        let awaited = tokio::spawn(async move { waiter.next().await });
        listening(&server, 1).await;
        let mut foreign = session(&server).await;
        let lock = format!("BEGIN; SELECT * FROM {}_queue FOR UPDATE", prefix(strategy));
        sqlx::raw_sql(sqlx::AssertSqlSafe(lock)).execute(&mut foreign).await.unwrap();
        let before = counted(&server, "Com_insert_select").await;
        busy(&store, &waits_for).await;
        assert_eq!(counted(&server, "Com_insert_select").await - before, 3, "{strategy}");
        sqlx::raw_sql("ROLLBACK").execute(&mut foreign).await.unwrap();
        busy(&store, &waits_for).await;
        assert_eq!(counted(&server, "Com_insert_select").await - before, 4, "{strategy}");
        awaited.abort();
        release(&holder, &held).await;
    }
}

/// Sessions in the database `test`, but for those of the tests' own client.
async fn sessions(server: &Mariadb) -> usize {
    let sql = "SELECT COUNT(*) FROM information_schema.processlist \
               WHERE id <> CONNECTION_ID() AND db = 'test'";
    server.sql(sql).await.unwrap().parse().unwrap()
}

/// While it waits, a client has one session for its bells and one for each name that it waits for,
/// up to four. Without waiters it has none of these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_has_few_sessions_for_bells_and_none_while_nobody_waits() {
    let (_clock, server) = stopped().await;
    let strategy = Strategy::PrimaryKey;
    let holder = LockClient::new(made(&server, strategy).await);
    let client = LockClient::new(open(&server, strategy).await);
    let names: Vec<_> = (0..6).map(|at| format!("job {at}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(holder.lock(name.as_str()).acquire().await.unwrap());
    }
    let waiting: Vec<_> =
        names.iter().map(|name| tokio::spawn(client.lock(name.as_str()).acquire())).collect();
    listening(&server, 4).await;
    // Each client has up to five in its pool, and one for its bells.
    let all = sessions(&server).await;
    assert!(all <= 2 * (5 + 1) + 4, "{all} sessions");
    for guard in guards {
        guard.release().await.unwrap();
    }
    for waiting in waiting {
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
    let two = async || Ok((sessions(&server).await == 2).then_some(()));
    until("a session of each client to be left", WAIT, two).await.unwrap();
}

/// Where the server has few sessions left, or this user, waiters poll.
#[tokio::test]
async fn bells_leave_the_last_sessions_to_others() {
    let (_clock, server) = stopped().await;
    let strategy = Strategy::PrimaryKey;
    drop(made(&server, strategy).await);
    let app =
        "GRANT ALL ON test.* TO app@'127.0.0.1' IDENTIFIED BY '' WITH MAX_USER_CONNECTIONS 12";
    server.sql(app).await.unwrap();
    for (user, limit, most) in [("app", "", 8), ("root", "SET GLOBAL max_connections = 30", 24)] {
        let url = url(server.address()).replace("root", user);
        let store = format!("{url}&strategy={strategy}&table_prefix={}", prefix(strategy));
        let (holder, store) = (connect(&store).await.unwrap(), connect(&store).await.unwrap());
        let held = granted(&holder, &request("job")).await;
        if !limit.is_empty() {
            server.sql(limit).await.unwrap();
        }
        let other = async |_| MySqlConnection::connect(&url).await.unwrap();
        let others = futures_util::future::join_all((0..most).map(other)).await;
        let waiter = waits(enqueue(&store, &request("job")).await);
        assert_renewed(&holder, &held).await;
        release(&holder, &held).await;
        let grant = waiter.await.unwrap();
        assert_eq!(bell_of(&server, grant.owner).await, None, "{user}");
        release(&store, &grant).await;
        drop(others);
    }
}

/// As behind a proxy that puts all sessions of a client on one session of the server. That session
/// has the bell already, so it hears it at once.
#[tokio::test]
async fn a_waiter_whose_bells_ring_at_once_pauses_between_its_checks() {
    const STATEMENTS: u64 = 100;
    let (_clock, server) = stopped().await;
    let strategy = Strategy::PrimaryKey;
    let holder = made(&server, strategy).await;
    let listen = "SELECT IF(GET_LOCK(?, ?), RELEASE_LOCK(?), 0)";
    let rings = "SELECT IF(CONCAT(?, ?, ?) = '', 0, 1)";
    let proxy = Proxy::altering(server.address(), &[(listen, rings)]).await.unwrap();
    let url = format!("{}&table_prefix={}", url(proxy.address()), prefix(strategy));
    let store = connect(&url).await.unwrap();
    let held = granted(&holder, &request("job")).await;
    let waiter = waits(enqueue(&store, &request("job")).await);
    assert_renewed(&holder, &held).await;
    hangs(&server, held.owner).await;
    let heard = async || Ok((proxy.counters().altered > 0).then_some(()));
    until("the waiter to listen", WAIT, heard).await.unwrap();
    let (begun, before) = (Instant::now(), counted(&server, "Com_stmt_execute").await);
    let asked = async || {
        let asked = counted(&server, "Com_stmt_execute").await - before;
        Ok((asked >= STATEMENTS).then_some(()))
    };
    until("the waiter to ask often", WAIT, asked).await.unwrap();
    // The longer it waits, the longer the pauses. On a slow machine this takes longer, too.
    assert!(begun.elapsed() > Duration::from_millis(250), "{:?}", begun.elapsed());
    release(&holder, &held).await;
    confirmed(&store, waiter.await.unwrap()).await;
}
