//! Waiting for many names, and behind others that give up.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, Enqueued, ReleaseOptions, Request, Signal};
use tokio::{task::JoinSet, time::timeout};

use super::{LEASE, WAIT, granted, request_for};

/// Many names, for one client.
pub(crate) const NAMES: usize = 250;

/// One place in each of these names, which wait for a signal.
pub(crate) async fn wait_for(store: &Arc<dyn Backend>, names: &[String]) -> JoinSet<Request> {
    let mut waiting = JoinSet::new();
    for name in names {
        let request = request_for(name, LEASE);
        let Enqueued::Waiting(mut turn, _) = store.enqueue(&request).await.unwrap() else {
            panic!("{name} is not held");
        };
        waiting.spawn(async move {
            let signal = turn.next().await;
            assert!(matches!(signal, Signal::Recheck | Signal::Granted(_)), "{signal:?}");
            turn.leave().await.unwrap();
            request
        });
    }
    waiting
}

/// What a turn that is dropped half-way through its wait leaves to the others.
pub(crate) async fn the_first_goes(holder: Arc<dyn Backend>, store: Arc<dyn Backend>) {
    let names: Vec<_> = (0..3).map(|at| format!("job {at}")).collect();
    let held = granted(&holder, &request_for(&names[2], LEASE)).await;
    for name in &names[..2] {
        granted(&holder, &request_for(name, LEASE)).await;
    }
    // On a runtime that ends while it waits.
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
    let told = timeout(WAIT, waiting.join_next()).await.unwrap().unwrap().unwrap();
    assert_eq!(told.name, held.name);
}
