//! Stores whose records have another version.

use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use lock_core::{Attempt, Backend, Env as _, Error, Renewal, SystemEnv};
use servers::Etcd;
use verification::versions::{Versioned, refused};

use crate::support::{name, request, single};

const SETTINGS: &str = "leasehold/%leasehold/settings";

struct Cluster(Etcd);

#[async_trait]
impl Versioned for Cluster {
    async fn connect(&self) -> Result<Arc<dyn Backend>, Error> {
        let url = format!("etcd://{}?timeout=10s", self.0.endpoints()[0]);
        backend_etcd::connect(&url).await
    }

    async fn plant(&self, version: u64) {
        let address = self.0.endpoints()[0].to_string();
        let mut client = Client::connect([address], None).await.unwrap();
        // Repeated, because other clients may raise the offset meanwhile.
        loop {
            let found = client.get(SETTINGS, None).await.unwrap();
            let pair = &found.kvs()[0];
            let mut record: serde_json::Value = serde_json::from_slice(pair.value()).unwrap();
            record["version"] = version.into();
            let same = Compare::mod_revision(SETTINGS, CompareOp::Equal, pair.mod_revision());
            let put = TxnOp::put(SETTINGS, record.to_string(), None);
            let txn = Txn::new().when([same]).and_then([put]);
            if client.txn(txn).await.unwrap().succeeded() {
                return;
            }
        }
    }

    async fn contents(&self) -> String {
        self.0.ctl(&["get", "", "--prefix"]).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_in_every_step() {
    refused(&Cluster(single().await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_only_renews_sees_the_upgrade() {
    let cluster = Cluster(single().await);
    let store = cluster.connect().await.unwrap();
    let answer = store.try_acquire(&request()).await.unwrap();
    let Attempt::Granted(grant) = answer else { panic!("{answer:?}") };
    let renewal = async || store.renew(&[&grant], SystemEnv.now()).await.pop();
    let known = store.guarantees().record_version.unwrap();
    cluster.plant(known + 1).await;
    store.inspect(&name()).await.unwrap_err();
    let refused = renewal().await;
    assert!(!matches!(refused, Some(Renewal::Renewed { .. })), "{refused:?}");
    cluster.plant(known).await;
    let renewed = renewal().await;
    assert!(matches!(renewed, Some(Renewal::Renewed { .. })), "{renewed:?}");
}
