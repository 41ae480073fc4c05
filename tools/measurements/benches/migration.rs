//! What a lock costs in phase `Both` of a migration, beside the same calls made by hand: a lock in
//! each store and at most one raise. The two stores alone run beside them.
//!
//! `cargo bench -p measurements --bench migration`
#![allow(clippy::unwrap_used, missing_docs)]

use std::{sync::Arc, time::Duration};

use backend_migration::{Migration, Phase};
use lock_core::{
    Backend, Env as _, FencingToken, LockName, OwnerId, OwnerLabel, ReleaseOptions, Request,
    SystemEnv,
};
use measurements::bench::{Call, Site, call, latencies};

fn request(name: &str, lease: Duration) -> Request {
    let (name, label) = (LockName::new(name).unwrap(), OwnerLabel::new("bench").unwrap());
    let owner = OwnerId::from_bits(SystemEnv.random());
    Request::new(name, owner, label, lease, SystemEnv.now())
}

/// Acquire and release of one store.
fn lock(store: &Arc<dyn Backend>, name: &'static str, lease: Duration) -> Call {
    let store = Arc::clone(store);
    call(move |_| {
        let store = Arc::clone(&store);
        async move {
            let grant = store.try_acquire(&request(name, lease)).await.unwrap();
            store.release(&grant.granted().unwrap(), ReleaseOptions::default()).await.unwrap();
        }
    })
}

/// The calls that a migration makes: the request to the second store has the first token as its
/// floor, and the lower of the two tokens is raised.
async fn by_hand(stores: [Arc<dyn Backend>; 2], lease: Duration) {
    let mut request = request("hand", lease);
    let first = stores[0].try_acquire(&request).await.unwrap().granted().unwrap();
    request.floor = FencingToken::new(first.token.get() - 1).unwrap();
    let second = stores[1].try_acquire(&request).await.unwrap().granted().unwrap();
    if first.token < second.token {
        stores[0].raise(&first, second.token).await.unwrap();
    }
    if second.token < first.token {
        stores[1].raise(&second, first.token).await.unwrap();
    }
    stores[1].release(&second, ReleaseOptions::default()).await.unwrap();
    stores[0].release(&first, ReleaseOptions::default()).await.unwrap();
}

async fn measure(names: [&'static str; 2]) {
    let sites = [Site::start(names[0]).await, Site::start(names[1]).await];
    let stores = [sites[0].store().await, sites[1].store().await];
    let both = Migration::new(Arc::clone(&stores[0]), Arc::clone(&stores[1]), Phase::Both);
    let both: Arc<dyn Backend> = Arc::new(both.await.unwrap());
    let lease = both.guarantees().longest_lease;
    // The migration asks the store with the lower identity first.
    let mut ordered = stores.clone();
    if stores[0].identity().await.unwrap() > stores[1].identity().await.unwrap() {
        ordered.reverse();
    }
    println!("\n{} and {}: acquire and release, median", names[0], names[1]);
    let kinds = [
        ("the same calls by hand", call(move |_| by_hand(ordered.clone(), lease))),
        ("both", lock(&both, "both", lease)),
        (names[0], lock(&stores[0], "alone", lease)),
        (names[1], lock(&stores[1], "alone", lease)),
    ];
    println!("  both / by hand: {:.2}", latencies(&kinds).await.ratio(1, 0));
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        measure(["redis", "etcd"]).await;
        measure(["sqlite", "postgres"]).await;
    });
}
