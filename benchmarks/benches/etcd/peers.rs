//! Who is compared.

use std::sync::Arc;

use conformance_tests::kit::Etcd;
use etcd_client::{Client, LockOptions};
use lock_core::LockClient;

pub(crate) fn address(etcd: &Etcd) -> String {
    etcd.endpoints()[0].to_string()
}

pub(crate) async fn plain(address: &str) -> Client {
    Client::connect([address], None).await.unwrap()
}

pub(crate) async fn ours(address: &str) -> LockClient {
    let backend = backend_etcd::connect(&format!("etcd://{address}")).await.unwrap();
    LockClient::new(Arc::clone(&backend))
}

/// The plain protocol's lock: its lease.
pub(crate) async fn lock(client: &Client, name: &str) -> i64 {
    let lease = client.lease_client().grant(10, None).await.unwrap().id();
    let options = LockOptions::new().with_lease(lease);
    client.lock_client().lock(name, Some(options)).await.unwrap();
    lease
}

pub(crate) async fn unlock(client: &Client, lease: i64) {
    client.lease_client().revoke(lease).await.unwrap();
}
