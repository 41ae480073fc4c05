//! What the tests share.

pub(crate) mod cluster;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use conformance_tests::kit::{Etcd, EtcdOptions};
use lock_core::{
    Backend, Env as _, Guard, LockClient, LockName, OwnerId, OwnerLabel, Request, SystemEnv,
};
use tokio::task::JoinHandle;

/// Longer than any test takes: what is left behind stays.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// Shorter than the lease: what is left behind is in the way.
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

pub(crate) fn name() -> LockName {
    LockName::new("job").unwrap()
}

pub(crate) fn request() -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    Request::new(name(), owner, OwnerLabel::new("test").unwrap(), LEASE, SystemEnv.now())
}

/// The leases of the places of a name, newest place first.
pub(crate) async fn leases(etcd: &Etcd, name: &str) -> Vec<i64> {
    let prefix = format!("leasehold/{name}/");
    let args = ["get", "--prefix", "-w=fields", "--sort-by=CREATE", "--order=DESCEND", &prefix];
    let shown = etcd.ctl(&args).await.unwrap();
    let leases = shown.lines().filter_map(|line| line.strip_prefix("\"Lease\" : "));
    leases.map(|lease| lease.parse().unwrap()).collect()
}

/// Until somebody waits behind the holder.
pub(crate) async fn somebody_waits(backend: &dyn Backend) {
    let waits = async {
        while backend.inspect(&name()).await.unwrap().and_then(|state| state.waiting) != Some(1) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(WAIT, waits).await.expect("somebody waits");
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
    somebody_waits(&*holder).await;
    (guard, waiting)
}

/// The guard that was waited for.
pub(crate) async fn served(waiting: JoinHandle<Guard>) -> Guard {
    tokio::time::timeout(WAIT, waiting).await.expect("it is served").unwrap()
}
