//! A foreign client that only sets a string if there is none.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lock_core::{Init, LockClient};
use servers::{Redis, RedisOptions, Server as _};

/// Leasehold clients hand the lock to each other without a pause, and the foreign client polls
/// every 100 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_client_that_polls_is_served_among_many_leasehold_clients() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let url = format!("redis://{}?layout=redis-py", server.address());
    let store = backend_foreign::connect(&url).await.unwrap();
    store.init(&Init::new().with_first_use(true)).await.unwrap();
    let (client, grants) = (LockClient::new(store), Arc::new(AtomicU64::new(0)));
    let ours: Vec<_> = (0..4)
        .map(|_| {
            let (client, grants) = (client.clone(), Arc::clone(&grants));
            tokio::spawn(async move {
                loop {
                    let guard = client.lock("job").acquire().await.unwrap();
                    grants.fetch_add(1, Ordering::Relaxed);
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    let opened = redis::Client::open(format!("redis://{}", server.address())).unwrap();
    let mut stranger = opened.get_multiplexed_async_connection().await.unwrap();
    let mut served = 0;
    let polling = async {
        // Until both sides had the lock often enough.
        while served < 3 || grants.load(Ordering::Relaxed) < 100 {
            let mut set = redis::cmd("SET");
            set.arg("job").arg("stranger").arg("NX").arg("PX").arg(20_000);
            let taken: Option<String> = set.query_async(&mut stranger).await.unwrap();
            if taken.is_some() {
                served += 1;
                let holder: String =
                    redis::cmd("GET").arg("job").query_async(&mut stranger).await.unwrap();
                assert_eq!(holder, "stranger");
                let _: u64 = redis::cmd("DEL").arg("job").query_async(&mut stranger).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), polling)
        .await
        .expect("the foreign client is served");
    for task in &ours {
        assert!(!task.is_finished(), "a leasehold client has ended");
        task.abort();
    }
}
