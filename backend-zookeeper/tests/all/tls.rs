//! TLS and client certificates.

use std::{net::SocketAddr, path::Path};

use backend_zookeeper::connect;
use lock_core::{ConnectionSecurity, Error, ErrorKind};
use servers::{Certificates, ClientCertificates, ZooKeeper, ZooKeeperOptions};

use crate::support::{granted, name, plain, release, request};

async fn start(options: ZooKeeperOptions) -> (ZooKeeper, SocketAddr, Certificates) {
    let zookeeper = ZooKeeper::single(options).await.unwrap();
    let address = zookeeper.tls_endpoints()[0];
    let files = zookeeper.certificates().unwrap().clone();
    (zookeeper, address, files)
}

fn asks() -> ZooKeeperOptions {
    ZooKeeperOptions::new().tls(ClientCertificates::Required)
}

fn url(address: SocketAddr, ca: &Path) -> String {
    format!("zookeeper://{address}?tick=200ms&timeout=20s&ca={}", ca.display())
}

/// The options for the client's certificate of these files.
fn own(files: &Certificates) -> String {
    format!("&cert={}&key={}", files.client_cert.display(), files.client_key.display())
}

/// The refusal of a server that can be reached.
async fn refusal(url: &str) -> Error {
    let error = connect(url).await.expect_err(url);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{url}: {error:#}");
    assert!(!format!("{error:#}").contains("no answer within"), "{url}: {error:#}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_trusts_only_a_server_that_its_authority_signed() {
    let options = ZooKeeperOptions::new().tls(ClientCertificates::NotAsked);
    let (zookeeper, address, files) = start(options).await;
    let folder = tempfile::tempdir().unwrap();
    let other = Certificates::create(folder.path(), "client").unwrap();

    let backend = connect(&url(address, &files.ca)).await.unwrap();
    let grant = granted(&*backend, &request()).await;
    release(&*backend, &grant).await;
    assert_eq!(backend.guarantees().connection, ConnectionSecurity::Local);

    let unknown = refusal(&url(address, &other.ca)).await;
    assert!(format!("{unknown:#}").contains("invalid peer certificate"), "{unknown:#}");
    // A server without TLS, and a client without it.
    let server = refusal(&url(zookeeper.endpoints()[0], &files.ca)).await;
    assert!(format!("{server:#}").contains("with TLS"), "{server:#}");
    refusal(&format!("zookeeper://{address}?tick=200ms&timeout=20s")).await;
}

/// In TLS 1.3 a server refuses a client after the handshake.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_ask_for_a_certificate() {
    for (version, suite) in [
        ("TLSv1.2", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        ("TLSv1.3", "TLS_AES_128_GCM_SHA256"),
    ] {
        let options = asks().line(format!("ssl.protocol={version}"));
        let options = options.line(format!("ssl.ciphersuites={suite}"));
        let (_zookeeper, address, files) = start(options).await;
        let folder = tempfile::tempdir().unwrap();
        let other = Certificates::create(folder.path(), "client").unwrap();
        let url = url(address, &files.ca);
        let backend = connect(&(url.clone() + &own(&files))).await.unwrap();
        let grant = granted(&*backend, &request()).await;
        release(&*backend, &grant).await;
        for refused in [url.clone(), url + &own(&other)] {
            let error = refusal(&refused).await;
            assert!(format!("{error:#}").contains("fatal alert"), "{version}: {error:#}");
        }
    }
}

/// ZooKeeper's scheme `x509`: the owner of a node is the subject of the certificate.
#[tokio::test(flavor = "multi_thread")]
async fn the_nodes_of_a_certificate_are_closed_to_others() {
    let (zookeeper, address, files) = start(asks()).await;
    // The server's own certificate has another subject, and is for clients, too.
    let mut theirs = files.clone();
    (theirs.client_cert, theirs.client_key) = (files.server_cert.clone(), files.server_key.clone());
    let mine = url(address, &files.ca) + "&acl=creator";
    let backend = connect(&(mine.clone() + &own(&files))).await.unwrap();
    let grant = granted(&*backend, &request()).await;
    let again = connect(&(mine.clone() + &own(&files))).await.unwrap();
    assert!(again.inspect(&name()).await.unwrap().is_some());

    let error = connect(&(mine + &own(&theirs))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error:#}");
    let anybody = plain(zookeeper.endpoints()[0]).await;
    anybody.get_data("/leasehold/job").await.expect_err("not its own");
    release(&*backend, &grant).await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_refused_before_a_server_is_asked() {
    let [here, there] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let files = Certificates::create(here.path(), "client").unwrap();
    let other = Certificates::create(there.path(), "client").unwrap();
    let (ca, cert, key) =
        (files.ca.display(), files.client_cert.display(), files.client_key.display());
    let foreign = other.client_key.display();
    for (options, kind, why) in [
        (format!("ca={key}"), ErrorKind::InvalidInput, "(ca)"),
        (format!("ca={ca}&cert={cert}"), ErrorKind::InvalidInput, "need each other"),
        (format!("cert={cert}&key={key}"), ErrorKind::InvalidInput, "no authority (ca)"),
        (format!("ca={ca}&cert={key}&key={key}"), ErrorKind::InvalidInput, "for each other"),
        (format!("ca={ca}&cert={cert}&key={foreign}"), ErrorKind::InvalidInput, "for each other"),
        (format!("ca={ca}&cert={cert}&key={cert}"), ErrorKind::InvalidInput, "for each other"),
        ("ca=/nowhere".to_owned(), ErrorKind::Config, "/nowhere"),
    ] {
        let error = connect(&format!("zookeeper://h.invalid?{options}")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{options}: {error:#}");
        assert!(error.to_string().contains(why), "{options}: {error:#}");
    }
    let url = format!("zookeeper://h.invalid,a..b?ca={ca}");
    let error = connect(&url).await.unwrap_err();
    assert!(error.to_string().contains("\"a..b:2181\""), "{error:#}");
}
