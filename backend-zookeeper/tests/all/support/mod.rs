//! Helpers of the tests.

pub(crate) mod silence;
pub(crate) mod touches;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Busy, Env as _, Grant, Instant, LockName, OwnerId, OwnerLabel,
    ReleaseOptions, Request, SystemEnv, drift_margin,
};
use servers::{ZooKeeper, ZooKeeperOptions};
use tokio::time::{sleep, timeout};
use zookeeper_client::Client;

/// Longer than any test takes: what is left behind stays.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// Longer than any wait on a busy machine, and shorter than the lease: what is left behind blocks
/// others.
pub(crate) const WAIT: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(20);

pub(crate) async fn single() -> ZooKeeper {
    ZooKeeper::single(ZooKeeperOptions::new()).await.unwrap()
}

/// A client without a backend. Its connection lasts while its server or this machine stalls for two
/// fifths of this session; by default that would be 2.4 s.
pub(crate) async fn plain(server: SocketAddr) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(40));
    connector.connect(&server.to_string()).await.unwrap()
}

/// The nodes of the sessions of all clients. The number in a name is never used again.
pub(crate) async fn sessions(client: &Client) -> Vec<String> {
    let mut nodes = client.list_children("/leasehold/%leasehold/sessions").await.unwrap();
    nodes.sort();
    nodes
}

/// The entries of `job`.
pub(crate) async fn entries(client: &Client) -> Vec<String> {
    client.list_children("/leasehold/job").await.unwrap()
}

pub(crate) async fn connect(servers: &[SocketAddr], timeout: &str) -> Arc<dyn Backend> {
    let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
    let url = format!("zookeeper://{}?tick=200ms&timeout={timeout}", servers.join(","));
    backend_zookeeper::connect(&url).await.unwrap()
}

/// One server and two clients.
pub(crate) async fn pair() -> (ZooKeeper, [Arc<dyn Backend>; 2]) {
    let zookeeper = single().await;
    let servers = zookeeper.endpoints();
    let clients = [connect(&servers, "20s").await, connect(&servers, "20s").await];
    (zookeeper, clients)
}

pub(crate) fn name() -> LockName {
    LockName::new("job").unwrap()
}

pub(crate) fn request() -> Request {
    request_for("job", LEASE)
}

pub(crate) fn request_for(name: &str, lease: Duration) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("test").unwrap();
    Request::new(LockName::new(name).unwrap(), owner, label, lease, SystemEnv.now())
}

/// The answer to this request, which is repeated after errors that allow it.
pub(crate) async fn answer(backend: &dyn Backend, request: &Request) -> Attempt {
    let asking = async {
        loop {
            match backend.try_acquire(request).await {
                Ok(attempt) => return attempt,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
            sleep(PAUSE).await;
        }
    };
    timeout(WAIT * 3, asking).await.expect("an answer")
}

pub(crate) async fn granted(backend: &dyn Backend, request: &Request) -> Grant {
    match answer(backend, request).await {
        Attempt::Granted(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

/// The grant to a new request, when the lock is free.
pub(crate) async fn eventually_granted(backend: &dyn Backend) -> Grant {
    let mut last = None;
    let acquiring = async {
        loop {
            match backend.try_acquire(&request()).await {
                Ok(Attempt::Granted(grant)) => return grant,
                other => last = Some(other),
            }
            sleep(PAUSE).await;
        }
    };
    let grant = timeout(WAIT * 3, acquiring).await;
    grant.unwrap_or_else(|_| panic!("it stays held: {last:?}"))
}

pub(crate) async fn busy(backend: &dyn Backend, request: &Request) -> Busy {
    match answer(backend, request).await {
        Attempt::Busy(busy) => busy,
        other => panic!("two holders: {other:?}"),
    }
}

/// Releases a lock. This is repeated after errors that allow it.
pub(crate) async fn release(backend: &dyn Backend, grant: &Grant) {
    let releasing = async {
        while let Err(error) = backend.release(grant, ReleaseOptions::default()).await {
            assert!(error.is_retryable(), "{error}");
            sleep(PAUSE).await;
        }
    };
    timeout(WAIT * 3, releasing).await.expect("it is released");
}

/// Until when the holder of this grant believes in it.
pub(crate) fn end(grant: &Grant) -> Instant {
    grant.from + grant.lease - drift_margin(grant.lease)
}

/// Asserts that the holder of this grant does not believe in it any more.
pub(crate) fn is_over(grant: &Grant) {
    let left = end(grant).since(SystemEnv.now());
    assert!(left.is_zero(), "two holders: the first is valid for another {left:?}");
}

/// Waits until this holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            sleep(PAUSE).await;
        }
    };
    timeout(WAIT, waiting).await.expect(what);
}

/// A number that `mntr` shows.
pub(crate) async fn monitored(zookeeper: &ZooKeeper, key: &str) -> u64 {
    let all = zookeeper.members()[0].ask("mntr").await.unwrap();
    let line = all.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('\t'));
    line.expect(key).parse().unwrap()
}

/// The last transaction of a single server.
pub(crate) async fn zxid(zookeeper: &ZooKeeper) -> u64 {
    let all = zookeeper.members()[0].ask("srvr").await.unwrap();
    let zxid = all.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).unwrap();
    u64::from_str_radix(zxid, 16).unwrap()
}
