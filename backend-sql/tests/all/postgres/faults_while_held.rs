//! Faults of a PostgreSQL server while a lock is held and another client waits for it.

use std::{sync::Arc, time::Duration};

use backend_sql::Strategy;
use lock_core::{
    Attempt, Env as _, Guard, Instant, LockClient, LossReason, ReleaseOptions, Renewal, SystemEnv,
};
use servers::{Clock, Postgres, PostgresOptions, Server as _};
use tokio::{task::JoinHandle, time::timeout};

use crate::support::postgres::{
    BOTH, WAIT, WAITING, assert_renewed, busy, granted, made, open, request, says, start, url,
};

const LEASE: Duration = Duration::from_secs(3);

/// A lock that one client holds and another waits for.
struct Scene {
    guard: Guard,
    /// The waiter's guard, and when it got it.
    waiter: JoinHandle<(Guard, Instant)>,
}

impl Scene {
    async fn set(server: &Postgres, strategy: Strategy) -> Self {
        let ours = LockClient::new(made(server, strategy, LEASE).await);
        let theirs = LockClient::new(open(server, strategy).await);
        let guard = ours.lock("job").lease(LEASE).acquire().await.unwrap();
        let lock = theirs.lock("job").lease(LEASE);
        let waiter = tokio::spawn(async {
            let guard = lock.acquire().await.unwrap();
            (guard, SystemEnv.now())
        });
        says(server, WAITING, "1").await;
        Self { guard, waiter }
    }

    /// The holder learns that it has lost, and the waiter is served, with a larger token.
    async fn end(self) -> (LossReason, Instant) {
        let why = timeout(WAIT, self.guard.lost()).await.unwrap();
        assert!(!self.guard.is_valid(), "{why}");
        let (next, at) = timeout(WAIT, self.waiter).await.unwrap().unwrap();
        assert!(next.token() > self.guard.token());
        next.release().await.unwrap();
        (why, at)
    }
}

/// Asserts that nothing was granted while a holder may have believed in a lost lease.
fn waited_out(lost: Instant, granted: Instant) {
    assert!(granted.since(lost) >= LEASE, "granted while a lease may have been running");
}

/// One session is killed. The postmaster lives on, and empties the tables while another client
/// holds a lock.
#[tokio::test]
async fn one_session_killed_while_another_holds() {
    let server = start().await;
    let started = server.sql("SELECT pg_postmaster_start_time()").await.unwrap();
    for strategy in BOTH {
        let scene = Scene::set(&server, strategy).await;
        let pool = sqlx::PgPool::connect(&url(&server)).await.unwrap();
        let pid = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&pool).await;
        let pid: i32 = pid.unwrap();
        let killed = SystemEnv.now();
        server.kill_backend(u32::try_from(pid).unwrap()).await.unwrap();
        // The waiter may already have made a new row.
        let token = scene.guard.token();
        let held = format!("SELECT count(*) FROM leasehold_locks WHERE token = {token}");
        assert_eq!(server.sql(&held).await.unwrap(), "0", "the fault did not happen");
        let now = server.sql("SELECT pg_postmaster_start_time()").await.unwrap();
        assert_eq!(now, started, "the whole server has restarted");
        let (_, granted) = scene.end().await;
        waited_out(killed, granted);
    }
}

/// The server is paused for longer than a lease. The holder learns of its loss by its own clock,
/// and the waiter is served when the server goes on. The reason depends on whether the machine let
/// the holder send a renewal meanwhile.
#[tokio::test]
async fn paused_while_held_and_waited_for() {
    let server = start().await;
    for strategy in BOTH {
        let scene = Scene::set(&server, strategy).await;
        server.pause().unwrap();
        timeout(WAIT, scene.guard.lost()).await.unwrap();
        assert!(!scene.waiter.is_finished(), "granted by a server that stands still");
        server.resume().unwrap();
        let why = scene.end().await.0;
        assert!(matches!(why, LossReason::Unreachable | LossReason::Expired), "{why}");
    }
}

/// A replica is promoted while a lock is held: no second holder before the lease is over, and
/// larger tokens. `Guarantees` names what is not covered: an old primary that goes on beside it.
#[tokio::test]
async fn promoted_while_held() {
    for strategy in BOTH {
        let mut server = start().await;
        let ours = made(&server, strategy, LEASE).await;
        let exclusion = ours.guarantees().exclusion.to_string();
        assert!(
            exclusion.contains("an old primary that is cut off takes no writes"),
            "{exclusion}"
        );
        let client = LockClient::new(ours);
        let guard = client.lock("job").lease(LEASE).acquire().await.unwrap();
        let replica = server.replica().await.unwrap();
        assert!(guard.is_valid(), "the copy took too long for this test");
        let cut = SystemEnv.now();
        server.kill().unwrap();
        replica.promote().await.unwrap();
        assert_eq!(replica.sql("SELECT pg_is_in_recovery()").await.unwrap(), "f");
        let store = open(&replica, strategy).await;
        let attempt = store.try_acquire(&request("job", LEASE)).await.unwrap();
        assert!(matches!(attempt, Attempt::Quarantined(_)), "{attempt:?}");
        let next = LockClient::new(store).lock("job").lease(LEASE).acquire();
        let next = timeout(WAIT, next).await.unwrap().unwrap();
        waited_out(cut, SystemEnv.now());
        assert!(!guard.is_valid() && next.token() > guard.token(), "{strategy}");
        next.release().await.unwrap();
    }
}

/// A replica that has not been promoted grants nothing.
#[tokio::test]
async fn a_replica_takes_no_locks() {
    let server = start().await;
    let store = made(&server, BOTH[0], LEASE).await;
    granted(&store, &request("job", LEASE)).await;
    let replica = server.replica().await.unwrap();
    let error = match backend_sql::postgres::connect(&url(&replica)).await {
        Ok(store) => store.try_acquire(&request("other", LEASE)).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(error.is_retryable(), "{error}");
}

/// If the clock is stepped back, a lease lasts longer, but a released lock is free at once. If it
/// is stepped forward over the end of a lease, another client gets the lock, which `Guarantees`
/// names.
#[tokio::test]
async fn the_clock_is_stepped_while_a_lock_is_held() {
    let clock = Clock::new().await.unwrap();
    let server = Postgres::start(PostgresOptions::new().clock(&clock)).await.unwrap();
    for strategy in BOTH {
        let store = made(&server, strategy, LEASE).await;
        let exclusion = store.guarantees().exclusion.to_string();
        assert!(exclusion.contains("clock is not stepped forward"), "{exclusion}");
        let other = open(&server, strategy).await;
        let grant = granted(&store, &request("job", LEASE)).await;
        clock.step(-3600.0).unwrap();
        let ahead = store.clock_difference_micros().await.unwrap().unwrap();
        assert!(ahead < -1_800_000_000, "the fault did not happen");
        busy(&other, &request("job", LEASE)).await;
        assert_renewed(&store, &grant).await;
        let waiting = LockClient::new(Arc::clone(&other));
        let waiter = tokio::spawn(waiting.lock("job").lease(LEASE).acquire());
        says(&server, WAITING, "1").await;
        store.release(&grant, ReleaseOptions::default()).await.unwrap();
        let guard = timeout(WAIT, waiter).await.unwrap().unwrap().unwrap();
        assert!(guard.token() > grant.token);
        guard.release().await.unwrap();

        let held = granted(&store, &request("job", LEASE)).await;
        clock.step(7200.0).unwrap();
        let next = granted(&other, &request("job", LEASE)).await;
        assert!(next.token > held.token);
        let answer = store.renew(&[&held], SystemEnv.now()).await;
        assert!(matches!(answer[..], [Renewal::Lost(LossReason::TakenOver)]), "{answer:?}");
        clock.step(-3600.0).unwrap();
    }
}
