//! Requests to a store, with the answers that a test expects. The tests of Redlock use this file,
//! too.

use std::time::Duration;

use futures_util::future::join_all;
use lock_core::{
    Attempt, Backend, Busy, Enqueued, Env as _, Error, Grant, Init, LockName, OwnerId, OwnerLabel,
    ReleaseOptions, ReleaseOutcome, Renewal, Request, SystemEnv, Waiter,
};
use servers::Redis;

pub(crate) async fn first_use(store: &dyn Backend) {
    store.init(&Init::new().with_first_use(true)).await.unwrap();
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

pub(crate) async fn enqueued(store: &dyn Backend, request: &Request) -> (Box<dyn Waiter>, Busy) {
    match store.enqueue(request).await.unwrap() {
        Enqueued::Waiting(waiter, busy) => (waiter, busy),
        other => panic!("{} should have been busy: {other:?}", request.name),
    }
}

pub(crate) async fn renewed(store: &dyn Backend, grants: &[&Grant]) {
    let answers = store.renew(grants, SystemEnv.now()).await;
    let all = answers.iter().all(|answer| matches!(answer, Renewal::Renewed { .. }));
    assert!(all && answers.len() == grants.len(), "{answers:?}");
}

/// How many requests a test of batches makes at the same time.
pub(crate) const MANY: usize = 40;

pub(crate) fn many_requests(prefix: &str, lease: Duration) -> Vec<Request> {
    (0..MANY).map(|number| request(&format!("{prefix} {number}"), lease)).collect()
}

/// Makes all attempts at the same time: the first is sent alone, and the others share a batch.
pub(crate) async fn attempts(
    store: &dyn Backend,
    requests: &[Request],
) -> Vec<Result<Attempt, Error>> {
    join_all(requests.iter().map(|request| store.try_acquire(request))).await
}

pub(crate) async fn releases(store: &dyn Backend, grants: &[Grant]) -> Vec<ReleaseOutcome> {
    let released = grants.iter().map(|grant| store.release(grant, ReleaseOptions::default()));
    join_all(released).await.into_iter().map(|released| released.unwrap().outcome).collect()
}

pub(crate) fn grants(answers: Vec<Result<Attempt, Error>>) -> Vec<Grant> {
    answers.into_iter().filter_map(|answer| answer.unwrap().granted()).collect()
}

/// How often the server ran a command.
pub(crate) async fn calls(server: &Redis, command: &str) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]).await.unwrap();
    let field = format!("cmdstat_{command}:calls=");
    let value = stats.lines().find_map(|line| line.strip_prefix(&field));
    value.map_or(0, |value| value.split(',').next().unwrap().parse().unwrap())
}
