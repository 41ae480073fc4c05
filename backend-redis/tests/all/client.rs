//! What is to fail where a guard of the client is left out.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Data, Proxy, Redis, RedisOptions, Server as _, wait::until};
use lock_core::{
    Attempt, Backend, Env as _, Error, ErrorKind, Init, LockName, OwnerId, OwnerLabel, Quarantined,
    Request, SystemEnv,
};

use backend_redis::connect;

/// A grant never rests on a handshake older than this.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_secs(60);

async fn first_use(url: &str) -> Arc<dyn Backend> {
    let store = connect(url).await.unwrap();
    store.init(&Init::new().with_first_use(true)).await.unwrap();
    store
}

fn url(server: &Redis) -> String {
    format!("redis://{}", server.address())
}

fn request(name: &str, lease: Duration) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("client").unwrap();
    Request::new(LockName::new(name).unwrap(), owner, label, lease, SystemEnv.now())
}

async fn granted(store: &dyn Backend) {
    let answer = store.try_acquire(&request("a", LONG)).await.unwrap();
    assert!(matches!(answer, Attempt::Granted(_)), "{answer:?}");
}

/// What is said of a quarantine, once it is said.
async fn quarantined(store: &dyn Backend, lease: Duration) -> Quarantined {
    let asking = async {
        loop {
            match store.try_acquire(&request("b", lease)).await {
                Ok(Attempt::Quarantined(told)) => return told,
                Err(error) if error.is_retryable() => tokio::task::yield_now().await,
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(SOON, asking).await.unwrap()
}

/// A master with a replica that is in touch.
async fn replicated(options: RedisOptions) -> [Redis; 2] {
    let options = options.line("repl-diskless-sync-delay 0");
    let master = Redis::start(options.clone()).await.unwrap();
    let follow = format!("replicaof 127.0.0.1 {}", master.address().port());
    let replica = Redis::start(options.line(follow)).await.unwrap();
    until("a replica in step", SOON, || async {
        let known = master.cli(&["INFO", "replication"]).await?;
        Ok(known.contains("state=online").then_some(()))
    })
    .await
    .unwrap();
    [master, replica]
}

fn is_refused<T>(answer: Result<T, Error>, kind: ErrorKind) {
    let error = answer.map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
}

#[tokio::test]
async fn a_new_connection_asks_again_who_the_server_is() {
    let options = RedisOptions::new().aof().line("appendfsync always");
    let mut server = Redis::start(options).await.unwrap();
    let store = first_use(&url(&server)).await;
    granted(&*store).await;
    server.restart(Data::Keep).await.unwrap();
    quarantined(&*store, LONG).await;
}

/// The only thread stands still, so that nothing runs in the background, and the connection lives on.
#[tokio::test]
async fn after_a_stall_the_server_is_asked_again_who_it_is() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let store = first_use(&url(&server)).await;
    granted(&*store).await;
    std::thread::scope(|scope| {
        let meanwhile = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                // It loses nothing, but nobody can know that.
                for role in [["127.0.0.1", "1"], ["NO", "ONE"]] {
                    let [host, port] = role;
                    assert_eq!(server.cli(&["REPLICAOF", host, port]).await.unwrap(), "OK");
                }
            });
            std::thread::sleep(CONFIRMED_WITHIN);
        });
        meanwhile.join().unwrap();
    });
    // Not in a loop: only the first attempt can rest on what was known before.
    let answer = store.try_acquire(&request("b", LONG)).await.unwrap();
    assert!(matches!(answer, Attempt::Quarantined(_)), "{answer:?}");
}

#[tokio::test]
async fn a_handshake_is_confirmed_while_nobody_asks() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let store = first_use(&format!("redis://{}", proxy.address())).await;
    for _ in 0..2 {
        let sent = proxy.counters().to_server.passed;
        let limit = Duration::from_secs(6);
        proxy.until("a question", limit, |now| now.to_server.passed > sent).await.unwrap();
    }
    drop(store);
}

#[tokio::test]
async fn a_replica_is_no_store() {
    let server = Redis::start(RedisOptions::new().line("replicaof 127.0.0.1 1")).await.unwrap();
    is_refused(connect(&url(&server)).await, ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_server_that_may_evict_is_no_store() {
    let options = RedisOptions::new().line("maxmemory-policy allkeys-lru");
    let server = Redis::start(options).await.unwrap();
    is_refused(connect(&url(&server)).await, ErrorKind::Config);
}

#[tokio::test]
async fn nothing_is_granted_once_a_server_may_evict() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let store = first_use(&url(&server)).await;
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await.unwrap();
    let heard = async || Ok((!store.guarantees().exclusion.holds()).then_some(()));
    until("the policy to be heard of", SOON, heard).await.unwrap();
    is_refused(store.try_acquire(&request("a", LONG)).await, ErrorKind::Config);
}

#[tokio::test]
async fn nothing_is_promised_where_an_old_master_may_go_on() {
    let [master, _replica] = replicated(RedisOptions::new()).await;
    let store = connect(&url(&master)).await.unwrap();
    let promised = store.guarantees();
    assert!(!promised.exclusion.holds(), "{:?}", promised.exclusion);
}

#[tokio::test]
async fn a_quarantine_waits_for_an_old_master() {
    let limits =
        RedisOptions::new().line("min-replicas-to-write 1").line("min-replicas-max-lag 10");
    let [master, _replica] = replicated(limits).await;
    let store = connect(&format!("{}?longest_lease=3s", url(&master))).await.unwrap();
    let told = quarantined(&*store, Duration::from_secs(1)).await;
    assert!(told.remaining > Duration::from_secs(10), "{told:?}");
}

#[tokio::test]
async fn nothing_is_granted_that_too_few_replicas_have() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let options = "wait_replicas=1&wait_timeout=100ms";
    let store = first_use(&format!("{}?{options}", url(&server))).await;
    let error = store.try_acquire(&request("a", LONG)).await.unwrap_err();
    assert!(error.to_string().contains("0 replicas acknowledged"), "{error}");
}

#[tokio::test]
async fn what_is_changed_on_a_server_shows() {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    let store = connect(&url(&server)).await.unwrap();
    for (policy, promised) in [("noeviction", true), ("volatile-ttl", false), ("noeviction", true)]
    {
        let set = ["CONFIG", "SET", "maxmemory-policy", policy];
        assert_eq!(server.cli(&set).await.unwrap(), "OK");
        until(policy, Duration::from_secs(20), || async {
            Ok((store.guarantees().exclusion.holds() == promised).then_some(()))
        })
        .await
        .unwrap();
    }
}

/// A client of a store that has the default settings, with others.
async fn disagrees(option: &str) {
    let server = Redis::start(RedisOptions::new()).await.unwrap();
    first_use(&url(&server)).await;
    is_refused(connect(&format!("{}?{option}", url(&server))).await, ErrorKind::Config);
}

#[tokio::test]
async fn a_client_with_another_longest_lease_is_refused() {
    disagrees("longest_lease=5s").await;
}

#[tokio::test]
async fn a_client_with_another_quarantine_is_refused() {
    disagrees("quarantine=off").await;
}
