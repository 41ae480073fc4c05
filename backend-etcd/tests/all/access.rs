//! TLS, client certificates, users.

use std::{net::SocketAddr, path::Path};

use lock_core::{ErrorKind, LockClient};
use servers::{Certificates, ClientCertificates, Etcd, EtcdOptions, Mode, Proxy};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use crate::support::{WAIT, request, single, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_or_missing_password_is_refused_and_no_password_is_shown() {
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

fn url(address: SocketAddr, ca: Option<&Path>, client: &Certificates) -> String {
    let (cert, key) = (client.client_cert.display(), client.client_key.display());
    let ca = ca.map(|file| format!("&ca={}", file.display())).unwrap_or_default();
    format!("etcd://{address}?timeout=5s&cert={cert}&key={key}{ca}")
}

/// Another address of the same server, which its certificate does not contain.
async fn unnamed_address(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = TcpStream::connect(server).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut server).await });
        }
    });
    address
}

/// A client's own certificate authenticates the client. It does not make the client trust a server.
#[tokio::test(flavor = "multi_thread")]
async fn client_and_server_verify_each_other() {
    let etcd = Etcd::single(EtcdOptions::new().tls(ClientCertificates::Required)).await.unwrap();
    let (address, files) = (etcd.endpoints()[0], etcd.certificates().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let other = Certificates::create(folder.path(), "root").unwrap();
    let trusted = url(address, Some(&files.ca), files);
    let client = LockClient::new(backend_etcd::connect(&trusted).await.unwrap());
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
    let without = format!("etcd://{address}?timeout=500ms&ca={}", files.ca.display());
    backend_etcd::connect(&without).await.expect_err("no client certificate");
    for (what, url) in [
        (
            "a host that is not in the certificate",
            url(unnamed_address(address).await, Some(&files.ca), files),
        ),
        ("an authority that did not sign it", url(address, Some(&other.ca), files)),
        ("a client certificate alone", url(address, None, files)),
    ] {
        let error = backend_etcd::connect(&url).await.expect_err(what);
        assert!(format!("{error:#}").contains("invalid peer certificate"), "{what}: {error:#}");
    }
}

/// A later connection is verified like the first one.
#[tokio::test(flavor = "multi_thread")]
async fn another_server_at_the_same_address_is_not_used() {
    let options = || EtcdOptions::new().tls(ClientCertificates::Required);
    let (etcd, fake) =
        (Etcd::single(options()).await.unwrap(), Etcd::single(options()).await.unwrap());
    let plain = single().await;
    let proxy = Proxy::start(etcd.endpoints()[0]).await.unwrap();
    let files = etcd.certificates().unwrap();
    let url = url(proxy.address(), Some(&files.ca), files);
    let client = LockClient::new(backend_etcd::connect(&url).await.unwrap());
    client.lock("job").acquire().await.unwrap().release().await.unwrap();
    for other in [&fake, &plain] {
        proxy.redirect(other.endpoints()[0]);
        proxy.set(Mode::Reset).await.unwrap();
        let before = proxy.counters().accepted;
        proxy.set(Mode::Pass).await.unwrap();
        // The first may still go over the connection that was reset.
        until("a connection", async || {
            client.backend().try_acquire(&request()).await.unwrap_err();
            proxy.counters().accepted > before
        })
        .await;
        let keys = other.ctl(&["get", "--prefix", "--keys-only", "leasehold/"]).await.unwrap();
        assert_eq!(keys, "", "it got a request for a lock");
    }
    proxy.redirect(etcd.endpoints()[0]);
    proxy.set(Mode::Reset).await.unwrap();
    proxy.set(Mode::Pass).await.unwrap();
    client.lock("job").wait(WAIT).acquire().await.unwrap().release().await.unwrap();
}
