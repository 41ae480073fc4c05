//! A cluster whose snapshot is restored with the same names, URLs and cluster token, as by an
//! operator who repeats the flags of the installation. Locks are lost, and the revision goes back.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use futures_util::future::try_join_all;
use lock_core::{Attempt, Backend, Init, Quarantined, Request};
use servers::{Etcd, EtcdOptions};

use super::{busy, granted, release, request_for};

/// The longest lease, and so the length of a quarantine. A cluster is restored within it, also on a
/// busy machine.
pub(crate) const LONGEST: Duration = Duration::from_secs(12);
/// Far more than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Cluster {
    pub(crate) etcd: Etcd,
    folder: tempfile::TempDir,
}

/// As many requests that write nothing as in the log of an etcd that was used for a while.
const OTHERS: usize = 300;

impl Cluster {
    /// A cluster that others have used, so that clients can detect a restore.
    pub(crate) async fn start(members: usize) -> Self {
        Self::used(members, OTHERS, LONGEST).await
    }

    /// The same with one member, and with tokens that may be two minutes ahead of the clock.
    pub(crate) async fn with_long_leases() -> Self {
        Self::used(1, OTHERS, LONGEST * 10).await
    }

    /// A new cluster. Its log is so short that a restored log is soon as long.
    pub(crate) async fn young() -> Self {
        Self::used(1, 0, LONGEST).await
    }

    async fn used(members: usize, others: usize, longest: Duration) -> Self {
        let options = EtcdOptions::new();
        let etcd = match members {
            1 => Etcd::single(options).await.unwrap(),
            _ => Etcd::three(options).await.unwrap(),
        };
        let cluster = Self { etcd, folder: tempfile::tempdir().unwrap() };
        cluster.used_by_others(others).await;
        let longest_lease = Some(longest);
        let init = Init::new().with_first_use(true).with_longest_lease(longest_lease);
        cluster.connect().await.init(&init).await.unwrap();
        cluster
    }

    /// A client that requests nothing in the background, with one lease of this request's length in
    /// its pool.
    pub(crate) async fn with_a_pooled_lease(
        &self,
        address: SocketAddr,
        request: impl Fn() -> Request,
    ) -> Arc<dyn Backend> {
        let url = format!("etcd://{address}?timeout=10s&spare_leases=0");
        let backend = backend_etcd::connect(&url).await.unwrap();
        let other = self.connect().await;
        let held = granted(&*other, &request()).await;
        // A refused attempt returns its lease to the pool.
        busy(&*backend, &request()).await;
        release(&*other, &held).await;
        backend
    }

    pub(crate) async fn connect(&self) -> Arc<dyn Backend> {
        let members: Vec<_> = self.etcd.endpoints().iter().map(ToString::to_string).collect();
        backend_etcd::connect(&format!("etcd://{}", members.join(","))).await.unwrap()
    }

    /// Sends this many requests that enter the log and write nothing.
    pub(crate) async fn used_by_others(&self, times: usize) {
        let client = Client::connect([self.etcd.endpoints()[0].to_string()], None).await.unwrap();
        let never = Compare::version("any", CompareOp::Less, 0);
        let txn = Txn::new().when([never]).and_then([TxnOp::put("any", "", None)]);
        let sent = (0..times).map(|_| {
            let (mut kv, txn) = (client.kv_client(), txn.clone());
            async move { kv.txn(txn).await }
        });
        try_join_all(sent).await.unwrap();
    }

    pub(crate) async fn save(&self) {
        self.etcd.save_snapshot(&self.folder.path().join("snapshot")).await.unwrap();
    }

    pub(crate) async fn restore(&mut self) {
        let before = self.revision().await;
        self.etcd.restore_snapshot(&self.folder.path().join("snapshot")).await.unwrap();
        assert!(self.revision().await < before, "the fault did not happen");
    }

    pub(crate) async fn revision(&self) -> i64 {
        let text = self.etcd.ctl(&["get", "k", "-w", "json"]).await.unwrap();
        let (_, rest) = text.split_once("\"revision\":").unwrap();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    }

    pub(crate) async fn is_quarantined(&self) -> bool {
        let key = "leasehold/%leasehold/quarantine";
        !self.etcd.ctl(&["get", key, "--keys-only"]).await.unwrap().is_empty()
    }
}

pub(crate) fn request(name: &str) -> Request {
    let mut request = request_for(name);
    request.lease = LONGEST;
    request
}

/// Tries until the members serve again after a restore.
pub(crate) async fn attempt(backend: &dyn Backend, request: &Request) -> Attempt {
    let attempts = async {
        loop {
            match backend.try_acquire(request).await {
                Ok(attempt) => return attempt,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, attempts).await.expect("an answer")
}

pub(crate) async fn held_back(backend: &dyn Backend, name: &str) -> Quarantined {
    match attempt(backend, &request(name)).await {
        Attempt::Quarantined(held_back) => held_back,
        other => panic!("two holders: {other:?}"),
    }
}
