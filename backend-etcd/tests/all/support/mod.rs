//! Helpers of the tests.

pub(crate) mod cluster;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Busy, Enqueued, Env as _, FencingToken, Grant, Guard, Instant, LockClient,
    LockName, OwnerId, OwnerLabel, ReleaseOptions, Request, SystemEnv, Waiter,
};
use servers::{Etcd, EtcdOptions, Proxy, Streams};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

/// Longer than any test takes: what is left behind stays.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// Longer than any wait on a busy machine, and shorter than the lease: what is left behind blocks
/// others.
pub(crate) const WAIT: Duration = Duration::from_secs(20);

pub(crate) async fn single() -> Etcd {
    Etcd::single(EtcdOptions::new()).await.unwrap()
}

pub(crate) async fn connect(address: SocketAddr, timeout: &str) -> Arc<dyn Backend> {
    connect_all(&[address], timeout).await
}

pub(crate) async fn connect_all(members: &[SocketAddr], timeout: &str) -> Arc<dyn Backend> {
    let members: Vec<_> = members.iter().map(ToString::to_string).collect();
    let url = format!("etcd://{}?timeout={timeout}", members.join(","));
    backend_etcd::connect(&url).await.unwrap()
}

/// One etcd and two clients.
pub(crate) async fn pair() -> (Etcd, [Arc<dyn Backend>; 2]) {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let clients = [connect(address, "10s").await, connect(address, "10s").await];
    (etcd, clients)
}

/// One etcd, a client of it, and a client behind a proxy. `timeout` is the time limit of the
/// second.
pub(crate) async fn proxied(timeout: &str) -> (Etcd, Proxy, [Arc<dyn Backend>; 2]) {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let proxy = Proxy::start(address).await.unwrap();
    let clients = [connect(address, "10s").await, connect(proxy.address(), timeout).await];
    (etcd, proxy, clients)
}

/// The same with a proxy that can hold up single calls and streams. Each release of its client
/// revokes the lease.
pub(crate) async fn streamed(timeout: &str) -> (Etcd, Streams, [Arc<dyn Backend>; 2]) {
    let etcd = single().await;
    let address = etcd.endpoints()[0];
    let streams = Streams::start(address).await.unwrap();
    let url = format!("etcd://{}?timeout={timeout}&spare_leases=0", streams.address());
    let behind = backend_etcd::connect(&url).await.unwrap();
    let clients = [connect(address, "10s").await, behind];
    (etcd, streams, clients)
}

pub(crate) fn name() -> LockName {
    LockName::new("job").unwrap()
}

pub(crate) fn request() -> Request {
    request_for("job")
}

pub(crate) fn request_for(name: &str) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("test").unwrap();
    Request::new(LockName::new(name).unwrap(), owner, label, LEASE, SystemEnv.now())
}

/// A request whose token is so far ahead of the clock that the clock raises no later offset.
pub(crate) fn ahead() -> Request {
    let mut request = request();
    request.floor = FencingToken::new(SystemEnv.wall_micros() + 20_000_000).unwrap();
    request
}

/// A grant to this request, which is repeated after errors that allow it.
pub(crate) async fn granted(backend: &dyn Backend, request: &Request) -> Grant {
    let acquiring = async {
        loop {
            match backend.try_acquire(request).await {
                Ok(Attempt::Granted(grant)) => return grant,
                Ok(other) => panic!("not granted: {other:?}"),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    timeout(WAIT, acquiring).await.expect("an answer")
}

pub(crate) async fn busy(backend: &dyn Backend, request: &Request) -> Busy {
    match backend.try_acquire(request).await.unwrap() {
        Attempt::Busy(busy) => busy,
        other => panic!("two holders: {other:?}"),
    }
}

/// The waiter of a new queue entry.
pub(crate) async fn waits(backend: &dyn Backend, request: &Request) -> Box<dyn Waiter> {
    match backend.enqueue(request).await.unwrap() {
        Enqueued::Waiting(waiter, _) => waiter,
        other => panic!("two holders: {other:?}"),
    }
}

/// The grant to a waiter that is woken by pushes only: it does not poll.
pub(crate) async fn pushed(
    backend: &dyn Backend,
    request: &Request,
    waiter: &mut dyn Waiter,
) -> Grant {
    let granted = async {
        loop {
            waiter.next().await;
            if let Some(grant) = backend.try_acquire(request).await.unwrap().granted() {
                return grant;
            }
        }
    };
    timeout(WAIT, granted).await.expect("its turn is pushed")
}

pub(crate) async fn release(backend: &dyn Backend, grant: &Grant) {
    backend.release(grant, ReleaseOptions::default()).await.unwrap();
}

/// Waits until this holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(WAIT, waiting).await.expect(what);
}

/// How many requests wait for `job`.
pub(crate) async fn waiting(backend: &dyn Backend) -> Option<u64> {
    backend.inspect(&name()).await.unwrap().and_then(|state| state.waiting)
}

/// Waits until this many requests wait for `job`.
pub(crate) async fn queue_of(backend: &dyn Backend, count: u64) {
    until("a queue", async || waiting(backend).await == Some(count)).await;
}

/// The keys of all entries of `job`.
pub(crate) async fn entries(etcd: &Etcd) -> String {
    etcd.ctl(&["get", "--prefix", "--keys-only", "leasehold/job/"]).await.unwrap()
}

/// The leases of the entries of a name, newest entry first.
pub(crate) async fn leases(etcd: &Etcd, name: &str) -> Vec<i64> {
    let prefix = format!("leasehold/{name}/");
    let args = ["get", "--prefix", "-w=fields", "--sort-by=CREATE", "--order=DESCEND", &prefix];
    let shown = etcd.ctl(&args).await.unwrap();
    let leases = shown.lines().filter_map(|line| line.strip_prefix("\"Lease\" : "));
    leases.map(|lease| lease.parse().unwrap()).collect()
}

/// How many watches a single etcd has.
pub(crate) async fn watchers(etcd: &Etcd) -> f64 {
    etcd.members()[0].metric("etcd_debugging_mvcc_watcher_total").await.unwrap()
}

/// A client that holds `job`, and one that waits for it.
pub(crate) async fn held_and_waited_for(
    holder: Arc<dyn Backend>,
    waiter: Arc<dyn Backend>,
) -> (Guard, JoinHandle<Guard>) {
    let guard =
        LockClient::new(Arc::clone(&holder)).lock("job").lease(LEASE).acquire().await.unwrap();
    let waiter = LockClient::new(waiter);
    let waiting = tokio::spawn(async move {
        waiter.lock("job").lease(LEASE).wait(WAIT * 3).acquire().await.unwrap()
    });
    queue_of(&*holder, 1).await;
    (guard, waiting)
}

/// Neither the holder nor the waiter has lost anything: after the release, the waiter gets the lock
/// with a higher token.
pub(crate) async fn hands_over(guard: Guard, waiting: JoinHandle<Guard>) -> Guard {
    assert!(guard.is_valid());
    let token = guard.token();
    guard.release().await.unwrap();
    let next = timeout(WAIT, waiting).await.expect("it is served").unwrap();
    assert!(next.token() > token);
    next
}

/// Waits until a lock with this lease has been renewed after `since`.
pub(crate) async fn renewed(guard: &Guard, since: Instant, lease: Duration) {
    until("a renewal", async || {
        assert!(guard.is_valid(), "lost");
        SystemEnv.now() + guard.remaining() > since + lease
    })
    .await;
}

/// The revision of etcd, as `etcdctl` shows it.
pub(crate) async fn revision(etcd: &Etcd) -> String {
    let status = etcd.ctl(&["endpoint", "status", "--write-out=fields"]).await.unwrap();
    let line = status.lines().find(|line| line.starts_with("\"Revision\"")).unwrap();
    line.rsplit(' ').next().unwrap().to_owned()
}
