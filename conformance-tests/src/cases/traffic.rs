//! L4: the requests for a handoff do not grow with the number of waiters.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use lock_core::{Attempt, Backend, Env as _, ReleaseOptions, Request, Signal, SystemEnv};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{cases, fair, pushes};
use crate::setting::{Setting, enqueued, granted, refused};

cases! {
    "L4" a_release_does_not_wake_every_waiter pushes;
    "L4" a_waiter_further_back_polls_less_often fair;
}

const WAITERS: usize = 12;

/// Each waiter that is woken sends a request. So a release must wake few of them, also if all use
/// one connection.
async fn a_release_does_not_wake_every_waiter(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let held = granted(&*one, &setting.request(&name)).await;
    let stop = CancellationToken::new();
    let (heard, mut signals) = mpsc::channel(1024);
    let (mut requests, mut waiters) = (Vec::new(), Vec::new());
    for each in 0..WAITERS {
        let request = setting.request(&name);
        let (mut entry, _) = enqueued(&*other, &request).await;
        requests.push(request);
        let (heard, stop) = (heard.clone(), stop.clone());
        waiters.push(tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => break entry.leave().await.unwrap(),
                    signal = entry.next() => heard.send((each, signal)).await.unwrap(),
                }
                // If the store signals without end, the other tasks must still run.
                tokio::task::yield_now().await;
            }
        }));
    }
    while signals.try_recv().is_ok() {}
    one.release(&held, ReleaseOptions::default()).await.unwrap();

    let mut woken = BTreeSet::new();
    let served = timeout(setting.patience(), serve(&other, &requests, &mut signals, &mut woken));
    let served = served.await.expect("the release must serve a waiter");
    // Signals may also come a little later, and they count, too.
    tokio::time::sleep(Duration::from_millis(200)).await;
    while let Ok((each, _)) = signals.try_recv() {
        woken.insert(each);
    }
    woken.remove(&served);
    stop.cancel();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert!(
        woken.len() < WAITERS / 2,
        "one release woke {} of {WAITERS} waiters besides the first",
        woken.len()
    );
}

/// Waits as the core does, by signal and by polling for the oldest request; returns which request
/// was served.
async fn serve(
    backend: &Arc<dyn Backend>,
    requests: &[Request],
    signals: &mut mpsc::Receiver<(usize, Signal)>,
    woken: &mut BTreeSet<usize>,
) -> usize {
    loop {
        let each = match timeout(Duration::from_millis(100), signals.recv()).await {
            Ok(Some((each, Signal::Granted(_)))) => return each,
            Ok(Some((_, Signal::Lost(why)))) => panic!("the store lost a queue entry: {why}"),
            Ok(Some((each, Signal::Recheck))) => {
                woken.insert(each);
                each
            }
            Ok(None) => panic!("no waiter is left"),
            Err(_) => 0,
        };
        let mut again = requests[each].clone();
        again.sent = SystemEnv.now();
        if let Attempt::Granted(_) = backend.try_acquire(&again).await.unwrap() {
            return each;
        }
    }
}

/// A waiter polls at the rate that the store tells it. This is the traffic besides handoffs.
async fn a_waiter_further_back_polls_less_often(setting: &Setting) {
    let (one, other) = (setting.connect().await, setting.connect().await);
    let name = setting.name("job");
    let held = granted(&*one, &setting.request(&name)).await;
    let (mut requests, mut entries) = (Vec::new(), Vec::new());
    for _ in 0..WAITERS {
        let request = setting.request(&name);
        entries.push(enqueued(&*other, &request).await.0);
        requests.push(request);
    }
    let mut pauses = Vec::new();
    for mut again in requests {
        again.sent = SystemEnv.now();
        pauses.push(refused(&*other, &again).await.retry_after);
    }
    // A store may let the waiters of a client poll together, each a little earlier.
    let slower = pauses.windows(2).all(|pair| pair[1] >= pair[0] * 2 / 3);
    assert!(slower, "a waiter polls more often than the one before it: {pauses:?}");
    let (first, last) = (pauses[0], pauses[WAITERS - 1]);
    assert!(last >= first * 5 / 4, "the last of {WAITERS} polls as often as the first: {pauses:?}");
    let longest = setting.promised().longest_poll;
    assert!(last <= longest, "polls are longer apart than `longest_poll`, {longest:?}: {pauses:?}");
    // A lease that is nearly over would make polls shorter and hide the rate.
    assert!(first >= setting.lease().min(Duration::from_millis(100)), "too short: {pauses:?}");
    for entry in entries {
        entry.leave().await.unwrap();
    }
    one.release(&held, ReleaseOptions::default()).await.unwrap();
}
