//! Entries of other libraries, and what does not belong into the directory of a lock.

use lock_core::{ErrorKind, Holder, OwnerId, ReleaseOutcome};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::{busy, eventually_granted, granted, name, pair, plain, release, request};

/// Makes a child in the directory of `job`, as another library does.
async fn child(client: &Client, node: &str, mode: CreateMode) -> String {
    let options = mode.with_acls(Acls::anyone_all());
    let path = format!("/leasehold/job/{node}");
    let (_, number) = client.create(&path, b"10.0.0.7", &options).await.unwrap();
    match mode {
        CreateMode::EphemeralSequential => format!("{path}{number}"),
        _ => path,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_another_library_holds_the_lock() {
    let (zookeeper, [one, _]) = pair().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    let first = granted(&*one, &request()).await;
    for node in [
        "_c_01234567-89ab-cdef-0123-456789abcdef-lock-",
        "_c_0123456789abcdef0123456789abcdef-lock-",
        "0123456789abcdef0123456789abcdef__lock__",
    ] {
        one.force_release(&name()).await.unwrap();
        let theirs = child(&client, node, CreateMode::EphemeralSequential).await;
        let holder = busy(&*one, &request()).await.holder.unwrap();
        assert_eq!(holder.owner, OwnerId::FOREIGN);
        assert!(holder.label.as_str().contains("10.0.0.7"), "{holder:?}");
        client.delete(&theirs, None).await.unwrap();
        assert!(eventually_granted(&*one).await.token > first.token);
    }
}

/// It has no place in the queue, so it blocks the lock until an operator removes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_no_entry_blocks_until_it_is_removed() {
    let (zookeeper, [one, _]) = pair().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    granted(&*one, &request()).await;
    one.force_release(&name()).await.unwrap();
    child(&client, "leader", CreateMode::Persistent).await;
    let holder = busy(&*one, &request()).await.holder.unwrap();
    assert_eq!(holder.remaining, Holder::WITHOUT_END);
    let below = child(&client, "leader/below", CreateMode::Persistent).await;
    let error = one.force_release(&name()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("/leasehold/job/leader has children"), "{error}");
    client.delete(&below, None).await.unwrap();
    assert_eq!(one.force_release(&name()).await.unwrap(), ReleaseOutcome::Released);
    granted(&*one, &request()).await;
}

/// Curator's parents are containers, which ZooKeeper removes when they are empty. Their numbers
/// begin again.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_increase_over_the_removal_of_the_directory() {
    let (zookeeper, [one, other]) = pair().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    let mut last = None;
    for _ in 0..20 {
        for backend in [&one, &other] {
            let grant = granted(&**backend, &request()).await;
            assert!(Some(grant.token) > last, "{} after {last:?}", grant.token);
            last = Some(grant.token);
            release(&**backend, &grant).await;
        }
        client.delete("/leasehold/job", None).await.unwrap();
    }
}
