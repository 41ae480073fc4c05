//! TLS, client certificates, users.
#![allow(clippy::unwrap_used)]

use conformance_tests::kit::{ClientCertificates, Etcd, EtcdOptions};
use lock_core::{ErrorKind, LockClient};

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_opens_the_door_and_none_does_not() {
    let options = EtcdOptions::new().tls(ClientCertificates::Required);
    let etcd = Etcd::single(options).await.unwrap();
    let files = etcd.certificates().unwrap();
    let url = format!(
        "etcd://{}?timeout=5s&ca={}&cert={}&key={}",
        etcd.endpoints()[0],
        files.ca.display(),
        files.client_cert.display(),
        files.client_key.display()
    );
    let client = LockClient::new(backend_etcd::connect(&url).await.unwrap());
    client.lock("job").acquire().await.unwrap().release().await.unwrap();

    let ca = files.ca.display();
    let without = format!("etcd://{}?timeout=500ms&ca={ca}", etcd.endpoints()[0]);
    assert!(backend_etcd::connect(&without).await.is_err());

    // Without an authority none is trusted: a certificate of our own makes no server one that is believed.
    let (cert, key) = (files.client_cert.display(), files.client_key.display());
    let blind = format!("etcd://{}?timeout=500ms&cert={cert}&key={key}", etcd.endpoints()[0]);
    let error = backend_etcd::connect(&blind).await.unwrap_err();
    assert!(format!("{error:?}").contains("invalid peer certificate"), "{error:?}");
    // Nor is another authority, or another name.
    let other = Etcd::single(EtcdOptions::new().tls(ClientCertificates::Required)).await.unwrap();
    let strange =
        url.replace(&ca.to_string(), &other.certificates().unwrap().ca.display().to_string());
    let error = backend_etcd::connect(&strange).await.unwrap_err();
    assert!(format!("{error:?}").contains("invalid peer certificate"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_opens_the_door_and_a_wrong_one_is_told_and_not_shown() {
    let options = EtcdOptions::new().root_password("open sesame");
    let etcd = Etcd::single(options).await.unwrap();
    let address = etcd.endpoints()[0];
    let url = format!("etcd://root:open%20sesame@{address}");
    let client = LockClient::new(backend_etcd::connect(&url).await.unwrap());
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
    assert!(!format!("{client:?}").contains("sesame"));

    for user in ["root:close%20sesame@", ""] {
        let error = backend_etcd::connect(&format!("etcd://{user}{address}")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{error} {error:?}");
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
    }
}
