//! Users, passwords and ACLs.

use std::time::Duration;

use lock_core::{Credentials, ErrorKind};
use servers::{ZooKeeper, ZooKeeperOptions};

use crate::support::{granted, name, plain, release, request};

/// Both ways to authenticate, each with nodes for the user alone.
#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_user_are_closed_to_others() {
    let options = ZooKeeperOptions::new().sasl_user("job", "open sesame");
    let zookeeper = ZooKeeper::single(options).await.unwrap();
    let address = zookeeper.endpoints()[0];
    for (auth, user) in [("digest", "me"), ("sasl", "job")] {
        let url = |user: &str, acl: &str| {
            format!("zookeeper://{user}{address}/{auth}?tick=200ms&timeout=20s&acl={acl}")
        };
        let mine = url(&format!("{user}:open%20sesame@"), &format!("creator&auth={auth}"));
        let backend = backend_zookeeper::connect(&mine).await.unwrap();
        let grant = granted(&*backend, &request()).await;
        assert!(!format!("{backend:?} {grant:?}").contains("sesame"));
        release(&*backend, &grant).await;
        let again = backend_zookeeper::connect(&mine).await.unwrap();
        assert!(again.inspect(&name()).await.unwrap().is_some());

        let client = plain(address).await;
        client.delete(&format!("/{auth}/job"), None).await.expect_err("not its own");
        for other in ["", "me:close%20sesame@"] {
            let error = backend_zookeeper::connect(&url(other, "open")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Auth, "{other}: {error}");
            assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
        }
    }
    let wrong =
        format!("zookeeper://job:close%20sesame@{address}/sasl?tick=200ms&timeout=20s&auth=sasl");
    let error = backend_zookeeper::connect(&wrong).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::Auth, "{error} {error:?}");
}

/// The provider is asked for each new session, and its error is the error of the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_asked_for_the_password() {
    let zookeeper = ZooKeeper::single(ZooKeeperOptions::new()).await.unwrap();
    let server = zookeeper.endpoints()[0].to_string();
    let builder = || backend_zookeeper::ZooKeeperBuilder::new([server.clone()]);
    let given = Credentials::new("me", "open sesame");
    let builder = builder().own_nodes(true).tick(Duration::from_millis(200));
    let builder = builder.timeout(Duration::from_secs(20));
    let one = builder.clone().credentials(given.clone().into()).build().await.unwrap();
    granted(&*one, &request()).await;
    let other = builder.user("me", "open sesame").build().await.unwrap();
    assert!(other.inspect(&name()).await.unwrap().is_some());
}
