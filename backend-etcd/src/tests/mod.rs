//! Tests that need the inside of the backend, on real servers. Each is for one condition of the
//! code.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod claims;
mod entries;
mod returns;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use etcd_client::{Client, ConnectOptions};
use lock_core::{
    Attempt, Backend as _, ConnectionSecurity, Enqueued, Env as _, FencingToken, Grant, LockName,
    OwnerId, OwnerLabel, ReleaseOptions, Request, SystemEnv, Waiter,
};
use servers::{Etcd, EtcdOptions};

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

/// A client whose pool is never refilled.
async fn open(address: SocketAddr) -> Arc<Store> {
    open_within(address, Duration::from_secs(5)).await
}

/// The same with this time limit of a call.
async fn open_within(address: SocketAddr, limit: Duration) -> Arc<Store> {
    open_with_pool(address, limit, 0).await
}

/// The same with a pool of up to this many leases.
async fn open_with_pool(address: SocketAddr, limit: Duration, pool: usize) -> Arc<Store> {
    let members = Members::new();
    let options = Some(ConnectOptions::new());
    let endpoints = [address.to_string()];
    let client = Client::connect_with_balanced_channel(endpoints, options, members.clone());
    let rpc = Rpc::new(client.await.unwrap(), Login::new(None), members, limit);
    Store::open(rpc, KeyLayout::new("leasehold/"), ConnectionSecurity::Local, None, pool)
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

/// A request whose token is so far ahead of the clock that the clock raises no later offset.
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

/// The number of the cluster's history.
async fn history(store: &Store) -> u64 {
    store.restore.history_token().await.unwrap().history
}

async fn release(store: &Store, grant: &Grant) {
    store.release(grant, ReleaseOptions::default()).await.unwrap();
}

async fn waits(store: &Store, request: &Request) -> Box<dyn Waiter> {
    match store.enqueue(request).await.unwrap() {
        Enqueued::Waiting(waiter, _) => waiter,
        other => panic!("no entry: {other:?}"),
    }
}

/// Revokes a lease without the backend.
async fn end(etcd: &Etcd, lease: i64) {
    etcd.ctl(&["lease", "revoke", &format!("{lease:x}")]).await.unwrap();
}

async fn waiting(store: &Store, on: &str) -> Option<u64> {
    store.inspect(&name(on)).await.unwrap().and_then(|state| state.waiting)
}
