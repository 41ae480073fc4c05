//! A foreign transaction locks the row of a lock that one of our clients holds.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use lock_core::{
    Backend, Env as _, Event, EventKind, Grant, Guard, Instant, LockClient, LockName, LossReason,
    Renewal, SystemEnv,
};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    time::timeout,
};

use super::{WAIT, granted, request_for};

/// Long enough that a renewal in time needs no quick machine.
const LEASE: Duration = Duration::from_secs(10);
/// A renewal waits for a locked row for a part of it: longer than a slow machine needs to see that.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(1200);
const NAMES: usize = 20;
/// The foreign transaction locks this name's row.
pub(crate) const LOCKED: &str = "job 07";

fn names() -> impl Iterator<Item = String> {
    (0..NAMES).map(|at| format!("job {at:02}"))
}

/// When the client sent a renewal that the store has confirmed, or why the lock is lost.
type Renewed = (LockName, Result<Instant, LossReason>);

/// A client of this store, and what becomes of its locks.
fn observed(store: Arc<dyn Backend>) -> (LockClient, UnboundedReceiver<Renewed>) {
    let (tell, told) = unbounded_channel();
    let observer = move |event: &Event<'_>| {
        let renewed = match event.kind {
            EventKind::Renewed { took, .. } => Ok(SystemEnv.now() - took),
            EventKind::Lost { reason, .. } => Err(reason),
            _ => return,
        };
        let _ = tell.send((event.name.clone(), renewed));
    };
    (LockClient::new(store).observed_by(Arc::new(observer)).unwrap(), told)
}

/// Waits until each of these locks was renewed by a request that was sent from now on. None of them
/// may be lost, also not before.
async fn all_renewed(guards: &[Guard], told: &mut UnboundedReceiver<Renewed>) {
    let now = SystemEnv.now();
    let mut left: HashSet<_> = guards.iter().map(|guard| guard.name().clone()).collect();
    while !left.is_empty() {
        let next = timeout(WAIT, told.recv()).await.unwrap();
        match next.unwrap() {
            (name, Ok(sent)) if sent > now => drop(left.remove(&name)),
            (name, Err(why)) if name.as_str() != LOCKED => panic!("{name} was lost, too: {why}"),
            _ => {}
        }
    }
}

/// The row of one lock of many is locked for longer than its lease. Its holder learns of the loss
/// in time, and the other locks go on. `lock` begins the transaction, and `commit` ends it.
pub(crate) async fn one_of_many<T>(
    store: Arc<dyn Backend>,
    lock: impl AsyncFnOnce() -> T,
    commit: impl AsyncFnOnce(T),
) {
    let (client, mut told) = observed(store);
    let guards = join_all(names().map(|name| client.lock(name).lease(LEASE).acquire())).await;
    let mut guards: Vec<_> = guards.into_iter().map(Result::unwrap).collect();
    let foreign = lock().await;
    let unlucky = guards.iter().position(|guard| guard.name().as_str() == LOCKED).unwrap();
    let unlucky = guards.swap_remove(unlucky);
    let why = timeout(WAIT, unlucky.lost()).await.unwrap();
    assert!(matches!(why, LossReason::Unreachable | LossReason::Expired), "{why}");
    all_renewed(&guards, &mut told).await;
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
/// batch waits for it. `waits` returns when a statement waits for the row. The store's longest
/// lease is [`LONG_LEASE`]; `patient` is another client of it, whose calls may take a minute.
pub(crate) async fn what_is_answered<T>(
    store: Arc<dyn Backend>,
    patient: Arc<dyn Backend>,
    lock: impl AsyncFn() -> T,
    waits: impl AsyncFnOnce(),
    commit: impl AsyncFn(T),
) {
    let mut grants = Vec::new();
    for name in names() {
        grants.push(granted(&store, &request_for(&name, LONG_LEASE)).await);
    }
    let gone = grants.len() - 1;
    store.force_release(&grants[gone].name).await.unwrap();
    let all: Vec<&Grant> = grants.iter().collect();

    let foreign = lock().await;
    let answers = store.renew(&all, SystemEnv.now()).await;
    check(&all, &answers, true);
    // Also in a batch of its own.
    let unlucky = *all.iter().find(|grant| grant.name.as_str() == LOCKED).unwrap();
    let answers = store.renew(&[unlucky], SystemEnv.now()).await;
    assert!(matches!(answers[..], [Renewal::Unknown(_)]), "{answers:?}");
    commit(foreign).await;

    let foreign = lock().await;
    let end = async {
        waits().await;
        commit(foreign).await;
    };
    let (answers, ()) = tokio::join!(patient.renew(&all, SystemEnv.now()), end);
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
    let (client, mut told) = observed(store);
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
    timeout(WAIT, released).await.unwrap().unwrap();
    all_renewed(&guards, &mut told).await;
    for attempt in attempts {
        // The client gives it up.
        assert!(timeout(WAIT, attempt).await.unwrap().unwrap().is_err());
    }
    // Now the clean-ups wait for the row.
    all_renewed(&guards, &mut told).await;
    commit(foreign).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
    client.close().await;
}
