//! Clusters that were restored, or may have been because a connection was begun.

use conformance_tests::kit::{Mode, Proxy};
use etcd_client::{Txn, TxnOp, TxnResponse};
use lock_core::{Attempt, Backend as _, Init};

use super::*;
use crate::{
    restore::quarantine,
    steps::admin::{put_init, running_quarantine},
};

/// One etcd, and a snapshot of it.
struct Restorable {
    etcd: Etcd,
    folder: tempfile::TempDir,
}

impl Restorable {
    async fn start() -> (Self, Arc<Store>) {
        let cluster = Self { etcd: start().await, folder: tempfile::tempdir().unwrap() };
        let store = cluster.open().await;
        granted(&store, &request("warm")).await;
        (cluster, store)
    }

    async fn open(&self) -> Arc<Store> {
        open(self.etcd.endpoints()[0]).await
    }

    async fn save(&self) {
        self.etcd.save_snapshot(&self.folder.path().join("snapshot")).await.unwrap();
    }

    async fn restore(&mut self) {
        self.etcd.restore_snapshot(&self.folder.path().join("snapshot")).await.unwrap();
    }
}

/// Sends a transaction over any connection, without the check around a grant.
async fn send(store: &Store, txn: Txn) -> TxnResponse {
    let sending = async {
        loop {
            if let Ok(answer) = store.rpc.txn(txn.clone()).await {
                return answer;
            }
        }
    };
    tokio::time::timeout(PATIENCE, sending).await.expect("an answer")
}

async fn attempt(store: &Store, request: &Request) -> Attempt {
    let asking = async {
        loop {
            match store.try_acquire(request).await {
                Ok(attempt) => return attempt,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("an answer")
}

/// A lease granted before the longest lease was shortened goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_is_as_long_as_any_lease_that_may_be_held() {
    let (cluster, store) = Restorable::start().await;
    let init = Init::new().with_longest_lease(LEASE / 10);
    store.init(&init).await.unwrap();
    cluster.etcd.ctl(&["del", "--prefix", "leasehold/%leasehold/"]).await.unwrap();
    let mut short = request("job");
    short.lease = LEASE / 10;
    match store.try_acquire(&short).await.unwrap() {
        Attempt::Quarantined(held_back) => {
            assert!(held_back.remaining > LEASE / 5, "{held_back:?}")
        }
        other => panic!("the loss was not detected: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_another_longest_lease_is_refused() {
    let (cluster, _known) = Restorable::start().await;
    let url = format!("etcd://{}?longest_lease=40s", cluster.etcd.endpoints()[0]);
    let error = crate::connect(&url).await.expect_err("it is not refused");
    assert_eq!(error.kind(), lock_core::ErrorKind::Config, "{error}");
}

/// The longest lease was lengthened after the snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_is_as_long_as_the_lost_settings_allowed() {
    let (mut cluster, store) = Restorable::start().await;
    cluster.save().await;
    let init = Init::new().with_longest_lease(10 * LEASE).with_first_use(true);
    store.init(&init).await.unwrap();
    granted(&store, &request("job")).await;
    cluster.restore().await;
    match attempt(&store, &request("job")).await {
        Attempt::Quarantined(held_back) => {
            assert!(held_back.remaining > 5 * LEASE, "{held_back:?}")
        }
        other => panic!("the loss was not detected: {other:?}"),
    }
}

/// No transaction compares the lead. Only the connections show whether it was carried out before or after a restore.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_begun_meanwhile_leaves_a_grant_in_doubt() {
    let etcd = start().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let store = open(proxy.address()).await;
    let token = store.restore.history_token().await.unwrap();
    let read = || Txn::new().and_then([TxnOp::get("any", None)]);
    let answer = send(&store, read()).await;
    assert!(store.restore.history.is_same(&store.rpc, &token, &answer));
    proxy.set(Mode::Reset).await.unwrap();
    proxy.set(Mode::Pass).await.unwrap();
    let answer = send(&store, read()).await;
    assert!(
        !store.restore.history.is_same(&store.rpc, &token, &answer),
        "it is believed without an observation"
    );
}

const FIRST_USE: Init = Init::new().with_first_use(true);

/// Changes the longest lease: the quarantine waits out the old one.
async fn begin_quarantine(store: &Store, longest: u64) {
    let longest_lease = Some(Duration::from_secs(longest));
    let settings = store.init(&Init::new().with_longest_lease(longest_lease)).await.unwrap();
    assert!(settings.grants_in > Duration::ZERO, "there is no quarantine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_first_use_ends_no_later_quarantine() {
    let (_etcd, [one, other]) = pair().await;
    let before =
        running_quarantine(&one, &one.restore.history_token().await.unwrap()).await.unwrap();
    begin_quarantine(&other, 20).await;
    one.restore.history.doubt();
    assert!(put_init(&one, &FIRST_USE, before).await.unwrap());
    assert!(quarantine(&other.rpc, &other.layout).await.unwrap().is_some(), "it was ended");
    // It ends a quarantine that had begun before.
    one.init(&FIRST_USE).await.unwrap();
    assert!(quarantine(&other.rpc, &other.layout).await.unwrap().is_none(), "it goes on");
}
