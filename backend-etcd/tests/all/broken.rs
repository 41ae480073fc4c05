//! A proxy changes the keys that transactions compare, one at a time. The case for that comparison must then fail.

use std::sync::Arc;

use backend_etcd::{Fence, FenceError};
use conformance_tests::{
    broken::{
        Broken, Clients, Setup, Verdict,
        cases::{first_use, granted, not_granted, request, words},
        try_all,
    },
    kit::{Change, Etcd, EtcdOptions, Proxy},
};
use etcd_client::{Client, TxnOp};
use lock_core::{Backend, FencingToken, Init, Mode, Request};

use crate::support::{self, LEASE};

struct OneEtcd {
    etcd: Etcd,
    proxy: Proxy,
}

#[async_trait::async_trait]
impl Setup for OneEtcd {
    async fn start(changes: &[Change<'_>]) -> Self {
        let etcd = Etcd::single(EtcdOptions::new()).await.unwrap();
        let proxy = Proxy::changing(etcd.endpoints()[0], changes).await.unwrap();
        Self { etcd, proxy }
    }

    fn altered(&self) -> u64 {
        self.proxy.counters().altered
    }
}

#[async_trait::async_trait]
impl Clients for OneEtcd {
    async fn open(&self) -> Arc<dyn Backend> {
        support::connect(self.proxy.address(), "5s").await
    }
}

const BROKEN: &[Broken<OneEtcd>] = &[
    Broken {
        what: "S1: every grant compares the quarantine's key",
        changes: &[Change::Text("%leasehold/quarantine", "%leasehold/elsewhere.")],
        case: |setup| Box::pin(an_attempt_in_quarantine(setup)),
    },
    Broken {
        what: "S6: every grant compares the tombstone of its owner",
        changes: &[Change::Text("%leasehold/abandoned/", "%leasehold/elsewhere/")],
        case: |setup| Box::pin(a_late_request(setup)),
    },
    Broken {
        what: "S1: a reader compares the entries of all writers",
        // The end of the range of its comparison: tag, length, and the name with the mark of readers.
        changes: &[Change::Text("\u{0d}leasehold/a/~", "\u{0d}leasehold/a/!")],
        case: |setup| Box::pin(a_reader_beside_a_writer(setup)),
    },
    Broken {
        what: "S6: a reader compares the key that names its entry",
        changes: &[Change::Text("%leasehold/readers/", "%leasehold/reade__/")],
        case: |setup| Box::pin(a_repeat_by_a_reader(setup)),
    },
    Broken {
        what: "S2: the fence compares the token that was admitted",
        // A comparison as it is encoded in the request: the tag of its key, the key's length, the key. The
        // write has another tag. The key that is compared instead has no value yet.
        changes: &[Change::Text("\u{1a}\u{0b}fences/data", "\u{1a}\u{0b}fences/none")],
        case: |setup| Box::pin(a_stale_write(setup)),
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_broken_variant_is_detected() {
    try_all(&[], BROKEN).await;
}

async fn an_attempt_in_quarantine(setup: &mut OneEtcd) -> Verdict {
    let direct = support::connect(setup.etcd.endpoints()[0], "5s").await;
    let through = first_use(setup).await;
    granted(&*through, &request("warm", LEASE)).await?;
    // A changed longest lease waits out the old one.
    let init = Init::new().with_longest_lease(LEASE * 2);
    direct.init(&init).await.map_err(words)?;
    let key = "leasehold/%leasehold/quarantine";
    let there = setup.etcd.ctl(&["get", key, "--keys-only"]).await.unwrap();
    assert!(!there.is_empty(), "there is no quarantine");
    not_granted(&*setup.open().await, &request("a", LEASE)).await
}

/// The tombstone is written without the proxy.
async fn a_late_request(setup: &mut OneEtcd) -> Verdict {
    let direct = support::connect(setup.etcd.endpoints()[0], "5s").await;
    let late = request("a", LEASE);
    direct.abandon(&late).await.map_err(words)?;
    not_granted(&*setup.open().await, &late).await
}

fn reader() -> Request {
    request("a", LEASE).with_mode(Mode::Shared)
}

async fn a_reader_beside_a_writer(setup: &mut OneEtcd) -> Verdict {
    let store = first_use(setup).await;
    granted(&*store, &request("a", LEASE)).await?;
    not_granted(&*setup.open().await, &reader()).await
}

/// The first attempt is made without the proxy.
async fn a_repeat_by_a_reader(setup: &mut OneEtcd) -> Verdict {
    let direct = support::connect(setup.etcd.endpoints()[0], "5s").await;
    let request = reader();
    let first = granted(&*direct, &request).await?;
    let again = granted(&*setup.open().await, &request).await?;
    if again.token == first.token { Ok(()) } else { Err("it has two entries".into()) }
}

async fn a_stale_write(setup: &mut OneEtcd) -> Verdict {
    let client = Client::connect([setup.proxy.address().to_string()], None).await.unwrap();
    let fence = Fence::new("fences/");
    let admit = async |token| {
        let token = FencingToken::new(token).unwrap();
        let guarded = fence.guard("data", token, [TxnOp::put("data", token.to_string(), None)]);
        let answer = client.kv_client().txn(guarded).await.unwrap();
        fence.admitted("data", token, &answer)
    };
    admit(2).await.map_err(words)?;
    match admit(1).await {
        Err(FenceError::Stale(_)) => Ok(()),
        other => Err(format!("a stale write: {other:?}")),
    }
}
