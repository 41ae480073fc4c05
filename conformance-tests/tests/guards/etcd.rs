//! etcd: guards that are keys which its transactions compare, and the record by which a restore is known.

use std::time::Duration;

use conformance_tests::kit::{Etcd, EtcdOptions, Proxy};
use leasehold::etcd::{
    EtcdFence, FenceError,
    etcd_client::{Client, TxnOp},
};
use lock_core::{FencingToken, Init};

use super::wire::{
    Guard, LONG, Stage, Verdict, first_use, granted, not_granted, open, request, try_all,
};

struct OneEtcd {
    etcd: Etcd,
    proxy: Proxy,
}

impl OneEtcd {
    /// The way on which something is left out.
    fn url(&self) -> String {
        format!("etcd://{}", self.proxy.address())
    }

    fn direct(&self) -> String {
        format!("etcd://{}", self.etcd.endpoints()[0])
    }
}

#[async_trait::async_trait]
impl Stage for OneEtcd {
    async fn start(texts: &[(&str, &str)]) -> Self {
        let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
        let proxy = Proxy::altering(etcd.endpoints()[0], texts).await.unwrap();
        Self { etcd, proxy }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }
}

const GUARDS: &[Guard<OneEtcd>] = &[
    Guard {
        what: "section 5: every grant compares the quarantine's key",
        texts: &[("%leasehold/quarantine", "%leasehold/elsewhere.")],
        case: |stage| Box::pin(an_attempt_in_quarantine(stage)),
    },
    Guard {
        what: "S6: every grant compares the tombstone of its owner",
        texts: &[("%leasehold/abandoned/", "%leasehold/elsewhere/")],
        case: |stage| Box::pin(an_abandoned_owner(stage)),
    },
    Guard {
        what: "section 2: the fence compares the token that was admitted",
        // A comparison as it stands in the request: the tag of its key, the key's length, the key. The
        // write has another tag. What is compared instead has no value yet.
        texts: &[("\u{1a}\u{0b}fences/data", "\u{1a}\u{0b}fences/none")],
        case: |stage| Box::pin(a_stale_write(stage)),
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_guard_of_etcd_is_missed_when_it_is_left_out() {
    try_all(GUARDS).await;
}

async fn an_attempt_in_quarantine(stage: &mut OneEtcd) -> Verdict {
    let direct = first_use(&stage.direct()).await;
    let through = open(&stage.url()).await;
    granted(&*through, &request("warm", LONG)).await?;
    // A changed longest lease waits out the old one.
    let longest_lease = Some(Duration::from_secs(25));
    let init = Init { longest_lease, ..Init::default() };
    direct.init(&init).await.map_err(|error| error.to_string())?;
    let key = "leasehold/%leasehold/quarantine";
    let there = stage.etcd.ctl(&["get", key, "--keys-only"]).await.unwrap();
    assert!(!there.is_empty(), "there is no quarantine to wait for");
    not_granted(&*open(&stage.url()).await, &request("a", LONG)).await
}

async fn an_abandoned_owner(stage: &mut OneEtcd) -> Verdict {
    let direct = first_use(&stage.direct()).await;
    let through = open(&stage.url()).await;
    let given_up = request("a", LONG);
    direct.abandon(&given_up).await.map_err(|error| error.to_string())?;
    not_granted(&*through, &given_up).await
}

async fn a_stale_write(stage: &mut OneEtcd) -> Verdict {
    let client = Client::connect([stage.proxy.address().to_string()], None).await.unwrap();
    let fence = EtcdFence::new("fences/");
    let admit = async |token| {
        let token = FencingToken::new(token).unwrap();
        let guarded = fence.guard("data", token, [TxnOp::put("data", token.to_string(), None)]);
        let answer = client.kv_client().txn(guarded).await.unwrap();
        fence.admitted("data", token, &answer)
    };
    admit(2).await.map_err(|error| error.to_string())?;
    match admit(1).await {
        Err(FenceError::Stale(_)) => Ok(()),
        other => Err(format!("a stale write: {other:?}")),
    }
}

const SETTINGS: &str = "leasehold/%leasehold/settings";

/// A snapshot is put back, and a client asks that has seen nothing of it; `forgets` takes from the record
/// what a restore is known by.
async fn a_restore(forgets: bool) -> Verdict {
    let mut etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
    let url = format!("etcd://{}", etcd.endpoints()[0]);
    let folder = tempfile::tempdir().unwrap();
    let snapshot = folder.path().join("snapshot");
    let store = first_use(&url).await;
    granted(&*store, &request("warm", LONG)).await?;
    if forgets {
        let text = etcd.ctl(&["get", SETTINGS, "--print-value-only"]).await.unwrap();
        let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
        record["lead"] = i64::MIN.into();
        etcd.ctl(&["put", SETTINGS, &record.to_string()]).await.unwrap();
    }
    etcd.save_snapshot(&snapshot).await.unwrap();
    store.close().await;
    drop(store);
    let lost = open(&url).await;
    granted(&*lost, &request("a", LONG)).await?;
    drop(lost);
    etcd.restore_snapshot(&snapshot).await.unwrap();
    not_granted(&*open(&url).await, &request("a", LONG)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_is_missed_when_the_record_does_not_tell_of_it() {
    a_restore(false).await.unwrap();
    let verdict = a_restore(true).await;
    assert!(verdict.is_err(), "SURVIVED: known by something else, so that the record is not tried");
}
