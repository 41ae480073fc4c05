//! A foreign transaction locks the row of a lock that one of our clients holds.

use std::{cell::Cell, sync::Arc, time::Duration};

use futures_util::future::{join_all, select_all};
use lock_core::{Backend, Env as _, Grant, LockClient, LossReason, Renewal, SystemEnv};
use tokio::time::{Instant, timeout};

use super::{WAIT, granted, request_for};

const LEASE: Duration = Duration::from_secs(3);
const NAMES: usize = 20;
/// The foreign transaction locks this name's row.
pub(crate) const LOCKED: &str = "job 07";

fn names() -> impl Iterator<Item = String> {
    (0..NAMES).map(|at| format!("job {at:02}"))
}

/// The row of one lock of many is locked for longer than its lease. Its holder learns of the loss
/// in time, and the other locks go on. `lock` begins the transaction, and `commit` ends it.
pub(crate) async fn one_of_many<T>(
    store: Arc<dyn Backend>,
    lock: impl AsyncFnOnce() -> T,
    commit: impl AsyncFnOnce(T),
) {
    let client = LockClient::new(store);
    let guards = join_all(names().map(|name| client.lock(name).lease(LEASE).acquire())).await;
    let mut guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
    let began = Instant::now();
    let foreign = lock().await;
    let unlucky = guards.iter().position(|guard| guard.name().as_str() == LOCKED).unwrap();
    let unlucky = guards.swap_remove(unlucky);

    let mut others: Vec<_> = guards.iter().map(|guard| Box::pin(guard.lost())).collect();
    tokio::select! {
        why = timeout(WAIT, unlucky.lost()) => assert_eq!(why.unwrap(), LossReason::Unreachable),
        (why, at, _) = select_all(&mut others) => panic!("{} was lost, too: {why}", guards[at].name()),
    }
    // It may have been renewed just before.
    assert!(began.elapsed() < 2 * LEASE, "told after {:?}", began.elapsed());
    if let Ok((why, at, _)) = timeout(2 * LEASE, select_all(&mut others)).await {
        panic!("{} was lost, too: {why}", guards[at].name());
    }
    drop(others);
    assert!(guards.iter().all(|guard| guard.is_valid()));
    commit(foreign).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
    let again = client.lock(LOCKED).lease(LEASE).wait(WAIT).acquire().await.unwrap();
    assert!(again.token() > unlucky.token());
    again.release().await.unwrap();
    client.close().await;
}

/// Checks the answers of a batch while one row is locked, and when the row becomes free while the
/// batch waits for it. `waits` returns when a statement waits for the row.
pub(crate) async fn what_is_answered<T>(
    store: Arc<dyn Backend>,
    lock: impl AsyncFn() -> T,
    waits: impl AsyncFnOnce(),
    commit: impl AsyncFn(T),
) {
    let mut grants = Vec::new();
    for name in names() {
        grants.push(granted(&store, &request_for(&name, 10 * LEASE)).await);
    }
    let gone = grants.len() - 1;
    store.force_release(&grants[gone].name).await.unwrap();
    let all: Vec<&Grant> = grants.iter().collect();

    let foreign = lock().await;
    let sent = SystemEnv.now();
    let answers = store.renew(&all, sent).await;
    let took = SystemEnv.now().since(sent);
    assert!(took < 10 * LEASE / 6, "the others' answers took {took:?}");
    check(&all, &answers, true);
    // Also in a batch of its own.
    let unlucky = *all.iter().find(|grant| grant.name.as_str() == LOCKED).unwrap();
    let answers = store.renew(&[unlucky], SystemEnv.now()).await;
    assert!(matches!(answers[..], [Renewal::Unknown(_)]), "{answers:?}");
    commit(foreign).await;

    let foreign = lock().await;
    let seen = Cell::new(false);
    let end = async {
        waits().await;
        seen.set(true);
        commit(foreign).await;
    };
    let renewed = async {
        loop {
            let answers = store.renew(&all, SystemEnv.now()).await;
            // A renewal that nobody saw waiting, on a busy machine, says nothing.
            if seen.get() {
                return answers;
            }
        }
    };
    let (answers, ()) = tokio::join!(renewed, end);
    check(&all, &answers, false);
}

fn check(all: &[&Grant], answers: &[Renewal], locked: bool) {
    for (at, (grant, answer)) in all.iter().zip(answers).enumerate() {
        match answer {
            Renewal::Lost(LossReason::Gone) => assert_eq!(at + 1, all.len()),
            Renewal::Unknown(error) => {
                assert!(locked && grant.name.as_str() == LOCKED, "{}: {error}", grant.name);
                assert!(error.is_retryable(), "{error}");
            }
            Renewal::Renewed { .. } => {
                assert!(!(locked && grant.name.as_str() == LOCKED) && at + 1 < all.len());
            }
            other => panic!("{}: {other:?}", grant.name),
        }
    }
}

/// Attempts for a name whose row is locked use as many connections as they may. Meanwhile, and also
/// during their clean-up, the client renews and releases its other locks.
pub(crate) async fn attempts_cost_no_other_lock<T>(
    store: Arc<dyn Backend>,
    lock: impl AsyncFnOnce() -> T,
    waits: impl AsyncFnOnce(),
    commit: impl AsyncFnOnce(T),
) {
    let client = LockClient::new(store);
    let guards = join_all(names().map(|name| client.lock(name).lease(LEASE).acquire())).await;
    let mut guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
    let wanted = guards.iter().position(|guard| guard.name().as_str() == LOCKED).unwrap();
    guards.swap_remove(wanted).release().await.unwrap();
    let foreign = lock().await;
    let attempts: Vec<_> =
        (0..12).map(|_| tokio::spawn(client.lock(LOCKED).lease(LEASE).try_acquire())).collect();
    waits().await;
    let released = guards.pop().unwrap().release();
    // It does not wait for attempts.
    timeout(LEASE, released).await.unwrap().unwrap();
    // Longer than the attempts last, and so for their clean-up, too.
    let mut others: Vec<_> = guards.iter().map(|guard| Box::pin(guard.lost())).collect();
    if let Ok((why, at, _)) = timeout(3 * LEASE, select_all(&mut others)).await {
        panic!("{} was lost: {why}", guards[at].name());
    }
    drop(others);
    commit(foreign).await;
    for attempt in attempts {
        // The client has given it up by then.
        assert!(attempt.await.unwrap().is_err());
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
    client.close().await;
}
