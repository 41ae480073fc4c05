//! The order of service when clients take turns on one name again and again.
//!
//! A stalled client may lose its entry. So the clock of a server must stand still: then nothing
//! that the server counts depends on how fast the machine is.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant as Started},
};

use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Enqueued, Env as _, Grant, ReleaseOptions, Renewal, Request, Signal,
    SystemEnv,
};

use super::{LEASE, request_for};
use servers::wait::until;

const HANG: Duration = Duration::from_secs(120);

/// A client that has not polled for this long may have lost its turn, as on a machine that stops.
/// SQLite counts on a clock that no test can stop: an entry lives for 4 s without a heartbeat, and
/// a poll sends one if the last one is 1.5 s old.
fn turn(store: &dyn Backend) -> Duration {
    if store.kind() == "sqlite" { Duration::from_millis(2_400) } else { Duration::MAX }
}

/// Which client was served, in order.
type Order = Mutex<Vec<usize>>;

/// Waits as the core does: for a signal, and by polling. Also returns how many clients had been
/// served when the entry was in the queue. `None` if this client was too slow to keep its entry or
/// its grant.
async fn served(
    store: &Arc<dyn Backend>,
    request: &Request,
    order: &Order,
) -> Option<(Grant, usize)> {
    let (mut heard, turn) = (Started::now(), turn(&**store));
    let enqueued = store.enqueue(request).await.unwrap();
    let from = order.lock().unwrap().len();
    let (mut waiter, mut busy) = match enqueued {
        Enqueued::Granted(grant) => return Some((grant, from)),
        Enqueued::Waiting(waiter, busy) => (waiter, busy),
        other => panic!("{other:?}"),
    };
    let mut is_late = false;
    loop {
        let signal = tokio::select! {
            signal = waiter.next() => signal,
            () = tokio::time::sleep(busy.retry_after) => Signal::Recheck,
        };
        if let Signal::Granted(grant) = signal {
            let renewed = store.renew(&[&grant], SystemEnv.now()).await;
            let is_ours = matches!(renewed[..], [Renewal::Renewed { .. }]);
            return (is_ours && !is_late && heard.elapsed() < turn).then_some((grant, from));
        }
        let asked = Started::now();
        let mut again = request.clone();
        again.sent = SystemEnv.now();
        let answer = store.try_acquire(&again).await.unwrap();
        is_late |= heard.elapsed() > turn;
        heard = asked;
        match answer {
            Attempt::Granted(grant) => return (!is_late).then_some((grant, from)),
            Attempt::Busy(still) => busy = still,
            other => panic!("{other:?}"),
        }
    }
}

/// Once a client is in the queue, each other client is served at most once before it, however long
/// they hold the lock. This counts grants, so a slow machine makes no difference.
pub(crate) async fn nobody_is_served_twice_before_another(
    stores: Vec<Arc<dyn Backend>>,
    rounds: usize,
    hold: Duration,
) {
    let order: Arc<Order> = Arc::default();
    // The clients begin together: each waits in the queue before the first of them is served.
    let (first, clients) = (Arc::clone(&stores[0]), stores.len());
    let held = first.try_acquire(&request_for("hot", LEASE)).await.unwrap().granted().unwrap();
    let tasks = stores.into_iter().enumerate().map(|(own, store)| {
        let order = Arc::clone(&order);
        tokio::spawn(async move {
            let mut checked = 0;
            for _ in 0..rounds {
                let request = request_for("hot", LEASE);
                let Some((grant, from)) = served(&store, &request, &order).await else {
                    store.abandon(&request).await.unwrap();
                    continue;
                };
                let before = {
                    let mut order = order.lock().unwrap();
                    order.push(own);
                    order[from..order.len() - 1].to_vec()
                };
                for (at, other) in before.iter().enumerate() {
                    let twice = before[..at].contains(other);
                    assert!(!twice, "{other} was served twice before {own}: {before:?}");
                    checked += 1;
                }
                tokio::time::sleep(hold).await;
                store.release(&grant, ReleaseOptions::default()).await.unwrap();
            }
            checked
        })
    });
    let tasks = tasks.collect::<Vec<_>>();
    let all_wait = async || {
        let state = first.inspect(&held.name).await.unwrap();
        let waiting = state.and_then(|state| state.waiting);
        Ok((waiting >= Some(clients as u64)).then_some(()))
    };
    until("all clients to wait", HANG, all_wait).await.unwrap();
    first.release(&held, ReleaseOptions::default()).await.unwrap();
    let checked: Vec<usize> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    assert!(checked.iter().sum::<usize>() > 0, "nobody ever waited");
}
