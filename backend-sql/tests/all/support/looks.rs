//! What waiting for many names costs a database that pushes nothing, and that it serves each of them.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend, Enqueued, Env as _, Grant, ReleaseOptions, Request, Signal, SystemEnv};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use super::{LEASE, WAIT, granted, request_for};

/// More than one look can ask for.
pub(crate) const NAMES: usize = 250;
/// No client looks more often.
const SHORTEST: Duration = Duration::from_millis(7);

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

/// How many statements there are in a while, and how many looks of one statement fit into it.
pub(crate) async fn rate<Count: AsyncFn() -> u64>(count: &Count) -> (u64, u64) {
    let (before, began) = (count().await, Instant::now());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let seen = count().await - before;
    (seen, (began.elapsed().as_millis() / SHORTEST.as_millis()) as u64 + 1)
}

/// Many names that others hold are waited for by one client. `count` tells how many statements there were.
pub(crate) async fn many_names<Count: AsyncFn() -> u64>(
    holder: Arc<dyn Backend>,
    store: Arc<dyn Backend>,
    count: Count,
) {
    let names: Vec<_> = (0..NAMES).map(|at| format!("it's \"{at}\" schloß")).collect();
    let mut held: Vec<Grant> = Vec::new();
    for name in &names {
        held.push(granted(&holder, &request_for(name, LEASE)).await);
    }
    let (quiet, _) = rate(&count).await;
    assert!(quiet == 0, "{quiet} statements while nobody waits");

    for (some, in_one) in [(1, 1), (100, 1), (NAMES, 3)] {
        let all: Vec<_> = held.iter().collect();
        holder.renew(&all, SystemEnv.now()).await;
        let mut waiting = wait_for(&store, &names[..some]).await;
        let (seen, looks) = rate(&count).await;
        assert!(seen > 0, "nobody looks");
        assert!(seen <= looks * in_one, "{seen} statements in {looks} looks at {some} names");
        assert!(waiting.try_join_next().is_none(), "somebody was told of a name that is held");
        // Each is served, and nobody else is told.
        for at in [0, some / 2, some - 1] {
            let Some(place) = held.iter().position(|grant| grant.name.as_str() == names[at]) else {
                continue;
            };
            let grant = held.swap_remove(place);
            holder.release(&grant, ReleaseOptions::default()).await.unwrap();
            let told = timeout(WAIT, waiting.join_next()).await.unwrap().unwrap().unwrap();
            assert_eq!(told.name, grant.name);
        }
        // Those that give up leave nobody who looks.
        waiting.shutdown().await;
        let quiet = timeout(WAIT, async { while rate(&count).await.0 > 0 {} }).await;
        assert!(quiet.is_ok(), "statements when nobody waits any more");
        for name in &names {
            if !held.iter().any(|grant| grant.name.as_str() == name) {
                held.push(granted(&holder, &request_for(name, LEASE)).await);
            }
        }
    }
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
