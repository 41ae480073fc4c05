//! Users, passwords and ACLs.

use std::time::Duration;

use backend_zookeeper::ZooKeeperBuilder;
use lock_core::{
    ErrorKind,
    test_util::{Answer, Vault},
};
use servers::{ZooKeeper, ZooKeeperOptions};

use crate::support::{LEASE, granted, name, plain, release, request, request_for, single};

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

/// Each lease length has a session.
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_asked_once_for_each_session_and_its_error_is_returned() {
    let zookeeper = single().await;
    let vault = Vault::new("open sesame");
    let builder = ZooKeeperBuilder::new([zookeeper.endpoints()[0].to_string()])
        .own_nodes(true)
        .longest_lease(LEASE)
        .tick(Duration::from_millis(200))
        .timeout(Duration::from_secs(20));
    let given = || builder.clone().credentials(vault.provider("me"));
    let one = given().build().await.unwrap();
    granted(&*one, &request()).await;
    assert_eq!(vault.asked(), 1);
    let shorter = |name: &str| request_for(name, LEASE / 2);
    for name in ["a", "b"] {
        granted(&*one, &shorter(name)).await;
        assert_eq!(vault.asked(), 2, "{name}");
    }
    let other = builder.clone().user("me", "open sesame").build().await.unwrap();
    assert!(other.inspect(&name()).await.unwrap().is_some());

    let third = request_for("c", LEASE / 3);
    vault.answers(Answer::Fails(ErrorKind::Auth));
    for error in [one.try_acquire(&third).await.unwrap_err(), given().build().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Auth, "{error:#}");
        assert!(format!("{error:#}").contains("the vault is sealed"), "{error:#}");
    }
    // For ZooKeeper, who has another password is somebody else.
    vault.answers(Answer::Password("close sesame"));
    let error = one.try_acquire(&third).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error:#}");
    vault.answers(Answer::Password("open sesame"));
    granted(&*one, &third).await;
}
