//! A fence for data in etcd refuses a holder that was overtaken.

use std::time::Duration;

use backend_etcd::{
    Fence, HeldKey,
    etcd_client::{Client, Txn, TxnOp},
};
use lock_core::{FenceError, FencingToken, Guard, LockClient};
use servers::Etcd;

use crate::support::single;

async fn start() -> (Etcd, LockClient, Client) {
    let etcd = single().await;
    let address = etcd.endpoints()[0].to_string();
    let locks = backend_etcd::connect(&format!("etcd://{address}")).await.unwrap();
    let client = Client::connect([address], None).await.unwrap();
    (etcd, LockClient::new(locks), client)
}

/// Two guards. The holder of the first does not know yet that it was overtaken.
async fn overtaken(locks: &LockClient) -> (Guard, Guard) {
    let lease = Duration::from_secs(30);
    let first = locks.lock("job").lease(lease).acquire().await.unwrap();
    locks.backend().force_release(first.name()).await.unwrap();
    let second = locks.lock("job").lease(lease).acquire().await.unwrap();
    (first, second)
}

async fn write(
    client: &Client,
    fence: &Fence,
    token: FencingToken,
    value: &str,
) -> Result<(), FenceError> {
    let guarded = fence.guard("report", token, [TxnOp::put("report/today", value, None)]);
    let answer = client.kv_client().txn(guarded).await.unwrap();
    fence.admitted("report", token, &answer)
}

async fn read(etcd: &Etcd, key: &str) -> String {
    etcd.ctl(&["get", key, "--print-value-only"]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_changes_nothing_and_names_the_token_that_was_admitted() {
    let (etcd, locks, client) = start().await;
    let fence = Fence::new("fences/");
    let (first, second) = overtaken(&locks).await;
    // Until the second has written, the token of the first is the highest that the fence knows.
    write(&client, &fence, first.token(), "first").await.unwrap();
    write(&client, &fence, first.token(), "first again").await.unwrap();
    write(&client, &fence, second.token(), "second").await.unwrap();
    match write(&client, &fence, first.token(), "late").await.unwrap_err() {
        FenceError::Stale(stale) => {
            assert_eq!((stale.offered, stale.admitted), (first.token(), second.token()));
            assert_eq!(stale.resource, "report");
        }
        other => panic!("{other}"),
    }
    assert_eq!(read(&etcd, "report/today").await, "second");
    write(&client, &fence, second.token(), "second again").await.unwrap();
    assert_eq!(read(&etcd, "report/today").await, "second again");
    // Another resource has its own highest token.
    let guarded = fence.guard("other", first.token(), []);
    let answer = client.kv_client().txn(guarded).await.unwrap();
    fence.admitted("other", first.token(), &answer).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_all_sizes_are_compared_as_numbers() {
    let (_etcd, _locks, client) = start().await;
    let fence = Fence::new("");
    let tokens = [0, 9, 10, 99, 1_700_000_000_000_000, FencingToken::MAX.get()];
    let tokens = tokens.map(|token| FencingToken::new(token).unwrap());
    for token in tokens {
        write(&client, &fence, token, "x").await.unwrap();
        write(&client, &fence, token, "x").await.unwrap();
        for older in tokens.into_iter().filter(|older| *older < token) {
            assert!(write(&client, &fence, older, "x").await.is_err(), "{older} after {token}");
        }
    }
}

/// For example text that sorts below all tokens or above them, or a number that no fence wrote.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_another_value_admits_nobody_and_is_not_overwritten() {
    let (etcd, _locks, client) = start().await;
    let (fence, token) = (Fence::new("fences/"), FencingToken::new(1_700_000_000_000_000).unwrap());
    let others = ["", "!", "-1", "x", "0", "42", "0000000000000007", "leasehold-token:"];
    for other in others {
        client.kv_client().put(fence.key("report"), other, None).await.unwrap();
        let refused = write(&client, &fence, token, "y").await.unwrap_err();
        assert!(matches!(refused, FenceError::Store(_)), "{other:?}: {refused}");
        assert!(refused.to_string().contains("fences/report"), "{other:?}: {refused}");
        assert_eq!(read(&etcd, &fence.key("report")).await, other);
        assert_eq!(read(&etcd, "report/today").await, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_needs_the_held_key_fails_as_soon_as_the_lock_is_gone() {
    let (etcd, locks, client) = start().await;
    let (first, second) = overtaken(&locks).await;
    let write = async |held: &HeldKey, value: &str| {
        let put = TxnOp::put("report/today", value, None);
        let txn = Txn::new().when(held.is_held()).and_then([put]);
        client.kv_client().txn(txn).await.unwrap().succeeded()
    };
    let [late, present] = [&first, &second].map(|guard| HeldKey::of(guard).unwrap());
    assert!(!write(&late, "late").await);
    assert!(write(&present, "second").await);
    second.release().await.unwrap();
    assert!(!write(&present, "after the release").await);
    assert_eq!(read(&etcd, "report/today").await, "second");

    let elsewhere = LockClient::new(std::sync::Arc::new(lock_core::Memory::new()));
    let guard = elsewhere.lock("job").acquire().await.unwrap();
    assert_eq!(HeldKey::of(&guard), None);
}
