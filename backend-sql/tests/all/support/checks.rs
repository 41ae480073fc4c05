//! Waits for many names, and behind others that give up.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, Enqueued, ReleaseOptions, Request, Signal};
use servers::wait::until;
use tokio::{task::JoinSet, time::timeout};

use super::{LEASE, WAIT, enqueue, granted, request_for};

/// Many names, for one client.
pub(crate) const NAMES: usize = 250;

/// Waits for a signal for each of these names.
pub(crate) async fn wait_for(store: &Arc<dyn Backend>, names: &[String]) -> JoinSet<Request> {
    let mut waiting = JoinSet::new();
    for name in names {
        let request = request_for(name, LEASE);
        let Enqueued::Waiting(mut waiter, _) = store.enqueue(&request).await.unwrap() else {
            panic!("{name} is not held");
        };
        waiting.spawn(async move {
            let signal = waiter.next().await;
            assert!(matches!(signal, Signal::Recheck | Signal::Granted(_)), "{signal:?}");
            waiter.leave().await.unwrap();
            request
        });
    }
    waiting
}

/// Waiters are dropped while they wait, and another one is still served.
pub(crate) async fn the_first_goes(holder: Arc<dyn Backend>, store: Arc<dyn Backend>) {
    let names: Vec<_> = (0..3).map(|at| format!("job {at}")).collect();
    let held = granted(&holder, &request_for(&names[2], LEASE)).await;
    for name in &names[..2] {
        granted(&holder, &request_for(name, LEASE)).await;
    }
    // The first waits on a runtime that ends.
    let (store_too, first) = (Arc::clone(&store), names[..1].to_vec());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let _waiting = wait_for(&store_too, &first).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        });
    })
    .join()
    .unwrap();
    let mut gone = wait_for(&store, &names[1..2]).await;
    let mut waiting = wait_for(&store, &names[2..]).await;
    gone.shutdown().await;
    holder.release(&held, ReleaseOptions::default()).await.unwrap();
    let first = timeout(WAIT, waiting.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(first.name, held.name);
}

/// The core drops a waiter's `next` before each poll. Here the check then waits for a lock on the
/// table, which `lock` takes and `unlock` gives back. `store` has one connection.
pub(crate) async fn a_check_that_nobody_awaits_keeps_its_session<L>(
    store: Arc<dyn Backend>,
    sessions: impl AsyncFn() -> String,
    lock: impl AsyncFn() -> L,
    look_waits: impl AsyncFn(),
    unlock: impl AsyncFnOnce(L),
) {
    let held = granted(&store, &request_for("job", LEASE)).await;
    let waits = request_for("job", LEASE);
    let mut waiter = enqueue(&store, &waits).await;
    let before = sessions().await;
    assert!(!before.is_empty());
    let locked = lock().await;
    for _ in 0..3 {
        tokio::select! {
            signal = waiter.next() => panic!("{signal:?}"),
            () = look_waits() => {}
        }
    }
    unlock(locked).await;
    store.release(&held, ReleaseOptions::default()).await.unwrap();
    timeout(WAIT, waiter.next()).await.unwrap();
    let same = async || Ok((sessions().await == before).then_some(()));
    until("the session to be the same", WAIT, same).await.unwrap();
}
