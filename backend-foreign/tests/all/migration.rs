//! A migration from another library's locks. Foreign clients keep no migration record, and count as
//! processes in phase `old`.

use std::{sync::Arc, time::Duration};

use backend_migration::{Direction, Fleet, Migration, Phase, Step};
use lock_core::{Backend, ErrorKind, Init, LockClient, TryAcquire};
use servers::{Redis, RedisOptions, Server as _};

const EPOCH: &str = "leasehold-foreign:redis-py:{0}:epoch";

async fn stores(server: &Redis) -> [Arc<dyn Backend>; 2] {
    let old = format!("redis://{}?layout=redis-py", server.address());
    let old = backend_foreign::connect(&old).await.unwrap();
    let new = backend_redis::connect(&format!("redis://{}", server.address())).await.unwrap();
    for store in [&old, &new] {
        store.init(&Init::new().with_first_use(true)).await.unwrap();
    }
    [old, new]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_client_keeps_processes_out_of_phase_new() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let [old, new] = stores(&server).await;
    // Each process has its own connections.
    let enter = async |phase| {
        let [old, new] = stores(&server).await;
        Migration::new(old, new, phase).await
    };
    let both = LockClient::new(Arc::new(enter(Phase::Both).await.unwrap()));
    let guard = both.lock("job").acquire().await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    let next = || async { Fleet::survey(&*old, &*new).await.unwrap().next(Direction::Forward) };
    assert_eq!(next().await.unwrap(), Step::Enter(Phase::New), "none was seen");

    server.cli(&["SET", "job", "theirs", "PX", "60000"]).await.unwrap();
    let refused = both.lock("job").try_acquire().await.unwrap();
    assert!(matches!(refused, TryAcquire::Busy(_)), "{refused:?}");
    let refusal = next().await.unwrap_err();
    let refusal = refusal.to_string();
    for part in ["still in phase old", "a redis-py client, seen", "others may have been silent"] {
        assert!(refusal.contains(part), "{refusal}");
    }
    let error = enter(Phase::New).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("a redis-py client, seen"), "{error}");
    // Phases old and both may run at the same time.
    for phase in [Phase::Both, Phase::Old] {
        enter(phase).await.unwrap().close().await;
    }

    // As if it had been silent for longer than it counts as running.
    server.cli(&["DEL", "job"]).await.unwrap();
    assert_eq!(server.cli(&["HSET", EPOCH, "theirs", "1"]).await.unwrap().trim(), "0");
    both.close().await;
    let new = tokio::time::timeout(Duration::from_secs(90), async {
        loop {
            match enter(Phase::New).await {
                Ok(new) => break new,
                // Records of processes that were closed here may end only with their leases.
                Err(error) if error.kind() == ErrorKind::Config => {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    let client = LockClient::new(Arc::new(new.await.expect("phase new is entered")));
    let guard = client.lock("job").acquire().await.unwrap();
    assert!(guard.token() > token, "{} came after {token}", guard.token());
}
