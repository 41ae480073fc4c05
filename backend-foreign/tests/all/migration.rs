//! From the locks of another library to ours: its clients keep no record, and count as processes in phase `old`.

use std::{sync::Arc, time::Duration};

use backend_migration::{Direction, Fleet, Migration, Phase, Step};
use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use lock_core::{Backend, ErrorKind, Init, LockClient, TryAcquire};

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
async fn a_client_of_the_other_library_keeps_processes_out_of_phase_new() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let [old, new] = stores(&server).await;
    // Each process has connections of its own.
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
    let told = refusal.to_string();
    assert!(
        told.contains("still in phase old") && told.contains("a redis-py client, seen"),
        "{told}"
    );
    assert!(told.contains("others may have been silent"), "{told}");
    let error = enter(Phase::New).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("a redis-py client, seen"), "{error}");
    // Old and both may run beside it.
    enter(Phase::Both).await.unwrap().close().await;
    let beside = enter(Phase::Old).await.unwrap();
    beside.close().await;

    // It is silent for longer than it counts as alive.
    server.cli(&["DEL", "job"]).await.unwrap();
    assert_eq!(server.cli(&["HSET", EPOCH, "theirs", "1"]).await.unwrap().trim(), "0");
    both.close().await;
    let new = tokio::time::timeout(Duration::from_secs(90), async {
        loop {
            match enter(Phase::New).await {
                Ok(new) => break new,
                // Records of those that were closed here end with their leases.
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
