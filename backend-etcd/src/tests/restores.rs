//! Clusters that were restored, or may have been because a connection was begun.

use etcd_client::{Txn, TxnOp, TxnResponse};
use lock_core::{Backend as _, Init};
use servers::{Mode, Proxy};

use super::*;
use crate::{
    restore::quarantine,
    steps::admin::{put_init, running_quarantine},
};

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

/// No transaction compares the lead. Only the connections show whether it was carried out before or
/// after a restore.
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

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_first_use_ends_no_later_quarantine() {
    let (_etcd, [one, other]) = pair().await;
    let before =
        running_quarantine(&one, &one.restore.history_token().await.unwrap()).await.unwrap();
    // The quarantine waits out the old longest lease.
    let shorter = Init::new().with_longest_lease(Duration::from_secs(20));
    assert!(other.init(&shorter).await.unwrap().grants_in > Duration::ZERO);
    one.restore.history.doubt();
    assert!(put_init(&one, &FIRST_USE, before).await.unwrap());
    assert!(quarantine(&other.rpc, &other.layout).await.unwrap().is_some(), "it was ended");
    // It ends a quarantine that had begun before.
    one.init(&FIRST_USE).await.unwrap();
    assert!(quarantine(&other.rpc, &other.layout).await.unwrap().is_none(), "it goes on");
}
