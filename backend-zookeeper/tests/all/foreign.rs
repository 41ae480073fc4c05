//! Entries of other libraries, what does not belong into the directory of a lock, and another kind
//! of server.

use lock_core::{ErrorKind, Holder, LockName, OwnerId, ReleaseOutcome};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::support::{
    LEASE, busy, eventually_granted, granted, name, pair, plain, release, request, request_for,
};

/// Makes a node, as another library does.
async fn create(client: &Client, path: &str, mode: CreateMode) -> String {
    let options = mode.with_acls(Acls::anyone_all());
    let (_, number) = client.create(path, b"10.0.0.7", &options).await.unwrap();
    match mode {
        CreateMode::EphemeralSequential => format!("{path}{number}"),
        _ => path.to_owned(),
    }
}

/// Makes a child in the directory of `job`.
async fn child(client: &Client, node: &str, mode: CreateMode) -> String {
    create(client, &format!("/leasehold/job/{node}"), mode).await
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
        let session = format!("session {} 10.0.0.7", client.session_id());
        assert_eq!(holder.label.as_str(), session);
        let shown = one.inspect(&name()).await.unwrap().unwrap();
        assert_eq!(shown.holder.unwrap().label.as_str(), session);
        client.delete(&theirs, None).await.unwrap();
        assert!(eventually_granted(&*one).await.token > first.token);
    }
}

/// Only names that leasehold has used have a node of their own.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_does_not_show_the_locks_of_other_libraries() {
    let (zookeeper, [one, _]) = pair().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    let held = granted(&*one, &request()).await;
    create(&client, "/leasehold/theirs", CreateMode::Persistent).await;
    create(&client, "/leasehold/theirs/lock-", CreateMode::EphemeralSequential).await;
    let theirs = LockName::new("theirs").unwrap();
    assert!(one.inspect(&theirs).await.unwrap().unwrap().holder.is_some());
    let listed = one.list(None).await.unwrap().locks;
    let listed: Vec<_> = listed.iter().map(|lock| (&lock.name, lock.token)).collect();
    assert_eq!(listed, [(&held.name, held.token)]);
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
    for _ in 0..2 {
        for backend in [&one, &other] {
            let grant = granted(&**backend, &request()).await;
            assert!(Some(grant.token) > last, "the token {} after {last:?}", grant.token);
            last = Some(grant.token);
            release(&**backend, &grant).await;
        }
        client.delete("/leasehold/job", None).await.unwrap();
    }
}

/// It has a node that ZooKeeper does not have.
#[tokio::test(flavor = "multi_thread")]
async fn clickhouse_keeper_is_refused() {
    let (zookeeper, [one, _]) = pair().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    for path in ["/keeper", "/keeper/api_version"] {
        create(&client, path, CreateMode::Persistent).await;
    }
    let url = format!("zookeeper://{}?tick=200ms&timeout=20s", zookeeper.endpoints()[0]);
    // A client that is connected refuses it with its next session.
    let another = request_for("job", LEASE / 2);
    for error in [
        backend_zookeeper::connect(&url).await.unwrap_err(),
        one.try_acquire(&another).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("this is ClickHouse Keeper"), "{error}");
    }
}
