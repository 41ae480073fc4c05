//! A store whose records have another version.

use lock_core::{Attempt, ErrorKind};
use zookeeper_client::Client;

use crate::support::{connect, granted, pair, request, request_for, until};

/// Also at a client that knows the settings of this version.
#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_refused_by_every_attempt() {
    let (zookeeper, [one, _]) = pair().await;
    granted(&*one, &request()).await;
    let client = Client::connect(&zookeeper.endpoints()[0].to_string()).await.unwrap();
    let path = "/leasehold/%leasehold/settings";
    let (settings, _) = client.get_data(path).await.unwrap();
    let settings = String::from_utf8(settings).unwrap();
    let later = settings.replacen("\"version\":1", "\"version\":2", 1);
    assert_ne!(later, settings);
    client.set_data(path, later.as_bytes(), None).await.unwrap();
    let free = request_for("free", crate::support::LEASE);
    let error = one.try_acquire(&free).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
    one.enqueue(&request()).await.unwrap_err();
    one.init(&lock_core::Init::new()).await.unwrap_err();
    let url = format!("zookeeper://{}?tick=200ms", zookeeper.endpoints()[0]);
    let error = backend_zookeeper::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    client.set_data(path, settings.as_bytes(), None).await.unwrap();
    // The attempts have left no entry for as long as their client lives.
    let again = connect(&zookeeper.endpoints(), "10s").await;
    until("the lock is free", async || {
        let free = request_for("free", crate::support::LEASE);
        matches!(again.try_acquire(&free).await, Ok(Attempt::Granted(_)))
    })
    .await;
}
