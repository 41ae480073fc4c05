//! Cases of the backend's own guards, each as short as what it shows allows.

mod claims;
mod fences;
mod history;
mod leases;
mod names;
mod places;
mod releases;
mod settings;
mod stores;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use conformance_tests::kit::{Etcd, EtcdOptions};
use etcd_client::{Client, ConnectOptions};
use lock_core::{
    Attempt, Backend as _, Enqueued, Env as _, FencingToken, Grant, Link, LockName, OwnerId,
    OwnerLabel, Release, Request, SystemEnv, Turn,
};

use crate::{layout::KeyLayout, members::Members, rpc::Rpc, store::EtcdBackend};

/// Longer than any case takes.
const LEASE: Duration = Duration::from_secs(30);
/// Far more than what is waited for takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn start() -> Etcd {
    Etcd::single(EtcdOptions::new()).await.unwrap()
}

/// A client of its own, with no lease in stock but those that are put there.
async fn open(address: SocketAddr) -> Arc<EtcdBackend> {
    open_within(address, Duration::from_secs(5)).await
}

/// One whose calls take no longer.
async fn open_within(address: SocketAddr, limit: Duration) -> Arc<EtcdBackend> {
    open_keeping(address, limit, 0).await
}

/// The same with up to so many leases in stock.
async fn open_keeping(address: SocketAddr, limit: Duration, spares: usize) -> Arc<EtcdBackend> {
    let members = Members::new();
    let options = Some(ConnectOptions::new());
    let endpoints = [address.to_string()];
    let client = Client::connect_with_balanced_channel(endpoints, options, members.clone());
    let rpc = Rpc::new(client.await.unwrap(), members, limit);
    EtcdBackend::open(rpc, KeyLayout::new("leasehold/"), Link::Local, None, spares).await.unwrap()
}

/// One etcd and two clients.
async fn pair() -> (Etcd, [Arc<EtcdBackend>; 2]) {
    let etcd = start().await;
    let address = etcd.endpoints()[0];
    let both = [open(address).await, open(address).await];
    (etcd, both)
}

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn request(on: &str) -> Request {
    let owner = OwnerId::from_bits(SystemEnv.random());
    Request::new(name(on), owner, OwnerLabel::new("case").unwrap(), LEASE, SystemEnv.now())
}

/// With a token so far ahead of the clock that this does not lift the offset of those after it.
fn ahead(on: &str) -> Request {
    let mut request = request(on);
    request.floor = FencingToken::new(SystemEnv.wall_micros() + 20_000_000).unwrap();
    request
}

async fn granted(store: &EtcdBackend, request: &Request) -> Grant {
    store.try_acquire(request).await.unwrap().granted().expect("a grant")
}

async fn not_granted(store: &EtcdBackend, request: &Request) {
    let attempt = store.try_acquire(request).await.unwrap();
    assert!(!matches!(attempt, Attempt::Granted(_)), "granted: {attempt:?}");
}

async fn release(store: &EtcdBackend, grant: &Grant) {
    store.release(grant, Release::default()).await.unwrap();
}

async fn waits(store: &EtcdBackend, request: &Request) -> Box<dyn Turn> {
    match store.enqueue(request).await.unwrap() {
        Enqueued::Waiting(turn, _) => turn,
        other => panic!("no place: {other:?}"),
    }
}

/// Ends a lease beside the backend.
async fn end(etcd: &Etcd, lease: i64) {
    etcd.ctl(&["lease", "revoke", &format!("{lease:x}")]).await.unwrap();
}

async fn waiting(store: &EtcdBackend, on: &str) -> Option<u64> {
    store.inspect(&name(on)).await.unwrap().and_then(|state| state.waiting)
}
