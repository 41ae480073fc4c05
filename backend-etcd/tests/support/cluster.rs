//! A snapshot of etcd is restored with the same names, URLs and cluster token, as an operator does who
//! repeats the flags of the installation: locks are lost, and the revision goes back.

use std::{sync::Arc, time::Duration};

use conformance_tests::kit::{Etcd, EtcdOptions};
use lock_core::{
    Attempt, Backend, Env as _, Init, LockName, OwnerId, OwnerLabel, Quarantined, Request,
    SystemEnv,
};

/// What a quarantine lasts here.
pub(crate) const LONGEST: Duration = Duration::from_secs(4);
/// Far more than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) struct Cluster {
    pub(crate) etcd: Etcd,
    folder: tempfile::TempDir,
}

impl Cluster {
    pub(crate) async fn start(members: usize) -> Self {
        let options = EtcdOptions::new();
        let etcd = match members {
            1 => Etcd::single(options).await.unwrap(),
            _ => Etcd::three(options).await.unwrap(),
        };
        let cluster = Self { etcd, folder: tempfile::tempdir().unwrap() };
        let longest_lease = Some(LONGEST);
        let init = Init { first_use: true, longest_lease, ..Init::default() };
        cluster.connect().await.init(&init).await.unwrap();
        cluster
    }

    pub(crate) async fn connect(&self) -> Arc<dyn Backend> {
        let members: Vec<_> = self.etcd.endpoints().iter().map(ToString::to_string).collect();
        backend_etcd::connect(&format!("etcd://{}", members.join(","))).await.unwrap()
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
    let owner = OwnerId::from_bits(SystemEnv.random());
    let label = OwnerLabel::new("restore").unwrap();
    Request::new(LockName::new(name).unwrap(), owner, label, LONGEST, SystemEnv.now())
}

/// Asks until the members serve again after a restore.
pub(crate) async fn attempt(backend: &dyn Backend, request: &Request) -> Attempt {
    let asking = async {
        loop {
            match backend.try_acquire(request).await {
                Ok(attempt) => return attempt,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("an answer")
}

pub(crate) async fn held_back(backend: &dyn Backend, name: &str) -> Quarantined {
    match attempt(backend, &request(name)).await {
        Attempt::Quarantined(held_back) => held_back,
        other => panic!("two holders: {other:?}"),
    }
}
