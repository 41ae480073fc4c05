//! What the tests on real servers share.
#![allow(dead_code, clippy::unwrap_used)] // not every test uses all of it

pub(crate) mod belief;
pub(crate) mod changes;
pub(crate) mod clusters;
pub(crate) mod sentinels;
pub(crate) mod talk;

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Redis, RedisOptions, Server as _};
use lock_core::{
    Attempt, Backend, Busy, Enqueued, Env as _, Grant, Init, LockName, OwnerId, OwnerLabel,
    Quarantined, Renewal, Request, SystemEnv, Waiter,
};

/// A server whose store grants at once.
pub(crate) async fn server() -> Redis {
    server_with(RedisOptions::new()).await
}

pub(crate) async fn server_with(options: RedisOptions) -> Redis {
    let server = Redis::start(options).await.unwrap();
    first_use(&*connect(&url(&server)).await).await;
    server
}

pub(crate) async fn first_use(store: &dyn Backend) {
    store.init(&Init::new().with_first_use(true)).await.unwrap();
}

pub(crate) fn url(server: &Redis) -> String {
    format!("redis://{}", server.address())
}

pub(crate) async fn connect(url: &str) -> Arc<dyn Backend> {
    backend_redis::connect(url).await.unwrap()
}

pub(crate) fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

pub(crate) fn request(text: &str, lease: Duration) -> Request {
    let label = OwnerLabel::new("test").unwrap();
    let owner = OwnerId::from_bits(SystemEnv.random());
    Request::new(name(text), owner, label, lease, SystemEnv.now())
}

pub(crate) async fn granted(store: &dyn Backend, request: &Request) -> Grant {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Granted(grant) => grant,
        other => panic!("{} should have been free: {other:?}", request.name),
    }
}

pub(crate) async fn busy(store: &dyn Backend, request: &Request) -> Busy {
    match store.try_acquire(request).await.unwrap() {
        Attempt::Busy(busy) => busy,
        other => panic!("{} should have been busy: {other:?}", request.name),
    }
}

pub(crate) async fn place(store: &dyn Backend, request: &Request) -> (Box<dyn Waiter>, Busy) {
    match store.enqueue(request).await.unwrap() {
        Enqueued::Waiting(turn, busy) => (turn, busy),
        other => panic!("{} should have been busy: {other:?}", request.name),
    }
}

/// How often the server ran a command.
pub(crate) async fn calls(server: &Redis, command: &str) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]).await.unwrap();
    let field = format!("cmdstat_{command}:calls=");
    let value = stats.lines().find_map(|line| line.strip_prefix(&field));
    value.map_or(0, |value| value.split(',').next().unwrap().parse().unwrap())
}

/// Waits until nothing is known of a name: no holder, nobody waiting.
pub(crate) async fn free(store: &dyn Backend, text: &str) {
    until(text, "still held", || async { store.inspect(&name(text)).await.unwrap().is_none() })
        .await;
}

/// Waits until that many places wait for a name.
pub(crate) async fn queued(store: &dyn Backend, text: &str, places: u64) {
    let there = || async {
        let state = store.inspect(&name(text)).await.unwrap();
        state.is_some_and(|state| state.waiting == Some(places))
    };
    until(text, "nobody queued", there).await;
}

async fn until<F: Future<Output = bool>>(text: &str, otherwise: &str, holds: impl Fn() -> F) {
    let asking = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let limit = Duration::from_secs(60);
    assert!(tokio::time::timeout(limit, asking).await.is_ok(), "{text}: {otherwise}");
}

/// What a store says of `a` once it is no more busy with a failover.
pub(crate) async fn quarantined(store: &dyn Backend) -> Quarantined {
    let asking = async {
        loop {
            match store.try_acquire(&request("a", Duration::from_millis(100))).await {
                Ok(Attempt::Quarantined(told)) => return told,
                Err(error) if error.is_retryable() => tokio::task::yield_now().await,
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asking).await.unwrap()
}

/// Renews, which has to go well.
pub(crate) async fn renewed(store: &dyn Backend, grants: &[&Grant]) {
    let answers = store.renew(grants, SystemEnv.now()).await;
    let all = answers.iter().all(|answer| matches!(answer, Renewal::Renewed { .. }));
    assert!(all && answers.len() == grants.len(), "{answers:?}");
}
