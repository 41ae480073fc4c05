//! Cases that look inside the backend, each on a real server, and each for one guard of the code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod claims;
mod entries;
mod leases;
mod restores;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use conformance_tests::kit::{Etcd, EtcdOptions};
use etcd_client::{Client, ConnectOptions};
use lock_core::{
    Attempt, Backend as _, ConnectionSecurity, Enqueued, Env as _, FencingToken, Grant, LockName,
    OwnerId, OwnerLabel, ReleaseOptions, Request, SystemEnv, Waiter,
};

use crate::{
    keys::layout::KeyLayout,
    rpc::{Login, Members, Rpc},
    store::Store,
};

/// Longer than any case takes.
const LEASE: Duration = Duration::from_secs(30);
/// Far more than any wait takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

async fn start() -> Etcd {
    Etcd::single(EtcdOptions::new()).await.unwrap()
}

/// A client of its own, with no lease in stock but those that are put there.
async fn open(address: SocketAddr) -> Arc<Store> {
    open_within(address, Duration::from_secs(5)).await
}

/// One whose calls take no longer.
async fn open_within(address: SocketAddr, limit: Duration) -> Arc<Store> {
    open_keeping(address, limit, 0).await
}

/// The same with up to so many leases in stock.
async fn open_keeping(address: SocketAddr, limit: Duration, spares: usize) -> Arc<Store> {
    let members = Members::new();
    let options = Some(ConnectOptions::new());
    let endpoints = [address.to_string()];
    let client = Client::connect_with_balanced_channel(endpoints, options, members.clone());
    let rpc = Rpc::new(client.await.unwrap(), Login::new(None), members, limit);
    Store::open(rpc, KeyLayout::new("leasehold/"), ConnectionSecurity::Local, None, spares)
        .await
        .unwrap()
}

/// One etcd and two clients.
async fn pair() -> (Etcd, [Arc<Store>; 2]) {
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

async fn granted(store: &Store, request: &Request) -> Grant {
    store.try_acquire(request).await.unwrap().granted().expect("a grant")
}

async fn not_granted(store: &Store, request: &Request) {
    let attempt = store.try_acquire(request).await.unwrap();
    assert!(!matches!(attempt, Attempt::Granted(_)), "granted: {attempt:?}");
}

async fn release(store: &Store, grant: &Grant) {
    store.release(grant, ReleaseOptions::default()).await.unwrap();
}

async fn waits(store: &Store, request: &Request) -> Box<dyn Waiter> {
    match store.enqueue(request).await.unwrap() {
        Enqueued::Waiting(waiter, _) => waiter,
        other => panic!("no place: {other:?}"),
    }
}

/// Ends a lease beside the backend.
async fn end(etcd: &Etcd, lease: i64) {
    etcd.ctl(&["lease", "revoke", &format!("{lease:x}")]).await.unwrap();
}

async fn waiting(store: &Store, on: &str) -> Option<u64> {
    store.inspect(&name(on)).await.unwrap().and_then(|state| state.waiting)
}
