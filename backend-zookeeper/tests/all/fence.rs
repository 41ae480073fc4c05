//! A fence for data in ZooKeeper refuses a holder that was overtaken.

use backend_zookeeper::{
    Fence,
    zookeeper_client::{Acls, Client, CreateMode},
};
use lock_core::{FenceError, FencingToken};

use crate::support::{name, plain, single};

const DATA: &str = "/report";

async fn write(client: &Client, token: FencingToken, value: &str) -> Result<(), FenceError> {
    let fence = Fence::new("/fences/of us");
    let add = |writer: &mut backend_zookeeper::zookeeper_client::MultiWriter<'_>| {
        writer.add_set_data(DATA, value.as_bytes(), None)
    };
    let written = fence.write(client, "a/b", token, add).await?;
    assert_eq!(written.len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_changes_nothing_and_names_the_token_that_was_admitted() {
    let zookeeper = single().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create(DATA, b"", &open).await.unwrap();
    let read = async || String::from_utf8(client.get_data(DATA).await.unwrap().0).unwrap();
    let tokens = [9, 10, 1_700_000_000_000_000];
    let [first, second, last] = tokens.map(|token| FencingToken::new(token).unwrap());
    // Several at once: each is admitted, or later than another one.
    let all = [first, second].map(|token| write(&client, token, "early"));
    let [_, admitted] = futures_util::future::join_all(all).await.try_into().unwrap();
    admitted.unwrap();
    write(&client, second, "second").await.unwrap();
    match write(&client, first, "late").await.unwrap_err() {
        FenceError::Stale(stale) => {
            assert_eq!((stale.offered, stale.admitted), (first, second));
            assert_eq!(stale.resource, "a/b");
        }
        other => panic!("{other}"),
    }
    assert_eq!(read().await, "second");
    // What ZooKeeper refuses takes the token with it.
    client.delete(DATA, None).await.unwrap();
    let refused = write(&client, last, "nowhere").await.unwrap_err();
    assert!(matches!(refused, FenceError::Store(_)), "{refused}");
    client.create(DATA, b"", &open).await.unwrap();
    write(&client, second, "second again").await.unwrap();
    let path = Fence::new("/fences/of us").path("a/b").unwrap();
    for other in ["", "42", "leasehold-token:", "leasehold-token:x"] {
        client.set_data(&path, other.as_bytes(), None).await.unwrap();
        let refused = write(&client, last, "y").await.unwrap_err();
        assert!(matches!(refused, FenceError::Store(_)), "{other:?}: {refused}");
        assert!(refused.to_string().contains(&path), "{other:?}: {refused}");
        assert_eq!(client.get_data(&path).await.unwrap().0, other.as_bytes());
    }
    assert_eq!(read().await, "second again");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_fence_may_be_closed_to_others() {
    let zookeeper = single().await;
    let server = zookeeper.endpoints()[0];
    let mine = Client::connector().with_auth("digest", b"me:open sesame");
    let (mine, other) = (mine.connect(&server.to_string()).await.unwrap(), plain(server).await);
    let token = FencingToken::new(9).unwrap();
    let fence = Fence::new("/fences").own_nodes(true);
    for _ in 0..2 {
        fence.write(&mine, "report", token, |_| Ok(())).await.unwrap();
    }
    let refused = fence.write(&other, "report", token, |_| Ok(())).await.unwrap_err();
    assert!(refused.to_string().contains("refuses the access"), "{refused}");
    let path = fence.path("report").unwrap();
    other.set_data(&path, b"leasehold-token:10", None).await.expect_err("not its own");
    other.delete(&path, None).await.expect_err("not its own");
}

/// The root is always there, and nobody can make it.
#[tokio::test(flavor = "multi_thread")]
async fn a_fence_may_stand_in_the_root() {
    let zookeeper = single().await;
    let client = plain(zookeeper.endpoints()[0]).await;
    let (fence, name) = (Fence::new("/"), name());
    for token in [9, 10].map(|token| FencingToken::new(token).unwrap()) {
        fence.write(&client, name.as_str(), token, |_| Ok(())).await.unwrap();
    }
    assert_eq!(client.get_data("/job").await.unwrap().0, b"leasehold-token:10");
}
