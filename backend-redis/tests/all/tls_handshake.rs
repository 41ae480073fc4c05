//! Which peers TLS accepts, and how long a handshake may take.

use std::{
    error::Error as _,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use backend_redis::RedisBuilder;
use lock_core::{Error, ErrorKind};
use rustls::crypto::{CryptoProvider, ring};
use servers::{ClientCertificates, Redis, RedisCluster, RedisOptions, Sentinels};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    net::TcpListener,
    process::Command,
};

const SOON: Duration = Duration::from_secs(30);
/// Set in a child process: the port of its store.
const PORT: &str = "LEASEHOLD_TEST_PORT";
/// Set in a child process: the URL, and the provider that its application has installed.
const URL: &str = "LEASEHOLD_TEST_URL";
const PROVIDER: &str = "LEASEHOLD_TEST_PROVIDER";

async fn encrypted(asked: ClientCertificates) -> Redis {
    Redis::start(RedisOptions::new().tls(asked)).await.unwrap()
}

fn at(host: &str, port: u16) -> RedisBuilder {
    RedisBuilder::tls(host, port).timeout(SOON)
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// The cause of the error.
fn cause(error: &Error) -> String {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("no connection to the server"), "{error}");
    error.source().unwrap().to_string()
}

#[tokio::test]
async fn a_server_says_why_it_refuses_a_certificate() {
    let server = encrypted(ClientCertificates::Required).await;
    let other = encrypted(ClientCertificates::Required).await;
    let port = server.tls_address().unwrap().port();
    let [files, others] = [&server, &other].map(|server| server.certificates().unwrap());
    let trusting = at("127.0.0.1", port).roots(read(&files.ca));
    let known = |cert: &Path, key: &Path| trusting.clone().certificate(read(cert), read(key));
    known(&files.client_cert, &files.client_key).build().await.unwrap();
    for (builder, why) in [
        (trusting.clone(), "CertificateRequired"),
        (known(&others.client_cert, &others.client_key), "DecryptError"),
    ] {
        let cause = cause(&builder.build().await.unwrap_err());
        assert!(cause.contains(why), "{why}: {cause}");
    }
}

/// A child process whose environment says which authorities its system trusts.
#[tokio::test]
#[ignore = "a process of the test below, started by it"]
async fn part() {
    let port = std::env::var(PORT).unwrap().parse().unwrap();
    match at("127.0.0.1", port).build().await {
        Ok(_) => println!("\nconnected"),
        Err(error) => println!("\n{}", cause(&error)),
    }
}

#[tokio::test]
async fn without_authorities_those_of_the_system_are_trusted() {
    let server = encrypted(ClientCertificates::NotAsked).await;
    let files = server.certificates().unwrap();
    let port = server.tls_address().unwrap().port().to_string();
    for (system, said) in [
        (files.ca.as_path(), "connected"),
        (&files.client_cert, "UnknownIssuer"),
        (Path::new("/nowhere"), "/nowhere"),
    ] {
        let part = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tls_handshake::part", "--ignored", "--nocapture"])
            .env(PORT, &port)
            .env("SSL_CERT_FILE", system)
            .env_remove("SSL_CERT_DIR")
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(SOON, part).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains(said), "{said}: {output:?}");
    }
}

/// A child process whose application installs a provider of cryptography with this many key
/// exchanges, or none.
#[tokio::test]
#[ignore = "a process of the test below, started by it"]
async fn application() {
    let count = |provider: &CryptoProvider| provider.kx_groups.len().to_string();
    let told = || CryptoProvider::get_default().map_or("none".to_owned(), |all| count(all));
    let before = std::env::var(PROVIDER).unwrap();
    if let Ok(most) = before.parse() {
        let mut provider = ring::default_provider();
        provider.kx_groups.truncate(most);
        provider.install_default().unwrap();
    }
    assert_eq!(told(), before);
    let url = std::env::var(URL).unwrap();
    let connected = backend_redis::connect(&url).await.map(drop);
    println!("\nconnected: {}, provider: {}", connected.is_ok(), told());
}

#[tokio::test]
async fn the_applications_provider_is_used_and_none_is_installed() {
    let options = || RedisOptions::new().tls(ClientCertificates::NotAsked);
    let single = encrypted(ClientCertificates::NotAsked).await;
    let group = Sentinels::start(0, options()).await.unwrap();
    let cluster = RedisCluster::start(1, 0, options()).await.unwrap();
    let (node, master) = (&cluster.nodes()[0], Sentinels::MASTER);
    for (scheme, at, path, files) in [
        ("rediss", single.tls_address().unwrap(), "", single.certificates()),
        ("rediss+sentinel", group.tls_endpoints()[0], master, group.certificates()),
        ("rediss+cluster", node.tls_address().unwrap(), "", cluster.certificates()),
    ] {
        let url = format!("{scheme}://{at}/{path}?timeout=20s&ca={}", files.unwrap().ca.display());
        // Without a key exchange no connection is possible.
        for (provider, connects) in [("none", true), ("1", true), ("0", false)] {
            let part = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tls_handshake::application", "--ignored", "--nocapture"])
                .env(URL, &url)
                .env(PROVIDER, provider)
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .output();
            let output = tokio::time::timeout(SOON, part).await.unwrap().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let said = format!("connected: {connects}, provider: {provider}\n");
            assert!(output.status.success() && text.contains(&said), "{scheme} {said}: {output:?}");
        }
    }
}

/// Reads to the end of a connection.
async fn gone(mut client: impl AsyncRead + Unpin) {
    let mut read = Vec::new();
    tokio::time::timeout(SOON, client.read_to_end(&mut read)).await.unwrap().unwrap();
    assert!(!read.is_empty(), "nobody began to shake hands");
}

#[tokio::test]
async fn a_handshake_without_an_answer_ends_in_time_or_with_its_caller() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let limit = Duration::from_secs(2);
    let begun = Instant::now();
    let error = RedisBuilder::tls("127.0.0.1", port).timeout(limit).build().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("no connection to the server within 2s"), "{error}");
    assert!(begun.elapsed() >= limit);
    gone(silent.accept().await.unwrap().0).await;

    let connecting = tokio::spawn(at("127.0.0.1", port).build());
    let client = silent.accept().await.unwrap().0;
    assert_eq!(client.peek(&mut [0]).await.unwrap(), 1);
    connecting.abort();
    gone(client).await;
}
