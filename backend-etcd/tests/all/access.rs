//! TLS, client certificates, users, passwords and authentication tokens.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use backend_etcd::{
    EtcdBuilder,
    etcd_client::{Client, ConnectOptions},
};
use futures_util::future::join_all;
use lock_core::{
    Backend, Credentials, Env as _, ErrorKind, LockClient, SystemEnv,
    test_util::{Answer, Vault},
};
use servers::{Certificates, ClientCertificates, Etcd, EtcdOptions, Mode, Proxy};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use crate::support::{
    LEASE, WAIT, hands_over, held_and_waited_for, renewed, request, single, until,
};

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

const FIRST: &str = "sesame1";

const SECOND: &str = "sesame2";

async fn start(options: EtcdOptions) -> (Etcd, SocketAddr) {
    let etcd = Etcd::single(options.root_password(FIRST)).await.unwrap();
    let address = etcd.endpoints()[0];
    (etcd, address)
}

fn builder(address: SocketAddr, vault: &Vault) -> EtcdBuilder {
    EtcdBuilder::new([address.to_string()]).credentials(vault.provider("root"))
}

async fn open(address: SocketAddr, vault: &Vault) -> Arc<dyn Backend> {
    builder(address, vault).build().await.unwrap()
}

/// A client of the operator, who changes users.
async fn operator(address: SocketAddr) -> Client {
    let options = ConnectOptions::new().with_user("root", FIRST).with_auto_token_refresh(true);
    Client::connect([address.to_string()], Some(options)).await.unwrap()
}

/// Makes etcd reject all authentication tokens.
async fn void_tokens(address: SocketAddr) {
    let anybody = Client::connect([address.to_string()], None).await.unwrap();
    operator(address).await.auth_disable().await.unwrap();
    anybody.auth_client().auth_enable().await.unwrap();
}

fn shows_no_secret(shown: &dyn std::fmt::Debug) {
    let shown = format!("{shown:?} {shown:#?}");
    assert!(!shown.contains("sesame"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_change_of_the_password_the_provider_is_called_and_a_waiter_keeps_its_entry() {
    let (_etcd, address) = start(EtcdOptions::new()).await;
    let vault = Vault::new(FIRST);
    shows_no_secret(&builder(address, &vault));
    let store = open(address, &vault).await;
    shows_no_secret(&store);
    let other = Vault::new(FIRST);
    let (guard, waiting) = held_and_waited_for(store.clone(), open(address, &other).await).await;
    let before = vault.asked();

    // The waiter's provider has the new password in time.
    other.answers(Answer::Password(SECOND));
    operator(address).await.user_change_password("root", SECOND).await.unwrap();
    // The holder's provider still has the old one.
    let error = store.try_acquire(&request()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error:#}");
    shows_no_secret(&error);
    assert!(vault.asked() > before, "the provider was not called again");

    vault.answers(Answer::Password(SECOND));
    let client = LockClient::new(store);
    client.lock("other").wait(WAIT).acquire().await.unwrap().release().await.unwrap();
    hands_over(guard, waiting).await.release().await.unwrap();
    assert!(other.asked() > 1, "the waiter's token did not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_with_a_rejected_token_call_the_provider_once() {
    let (_etcd, address) = start(EtcdOptions::new()).await;
    let vault = Vault::new(FIRST);
    let client = LockClient::new(open(address, &vault).await);
    assert_eq!(vault.asked(), 1);
    void_tokens(address).await;
    let acquires = (0..16).map(|number| client.lock(format!("job-{number}")).acquire());
    for guard in join_all(acquires).await {
        guard.unwrap().release().await.unwrap();
    }
    assert_eq!(vault.asked(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_of_a_provider_is_reported_and_the_provider_called_again() {
    let (_etcd, address) = start(EtcdOptions::new()).await;
    let vault = Vault::new(FIRST);
    let short = Duration::from_secs(3);
    let store = builder(address, &vault).timeout(short).build().await.unwrap();
    void_tokens(address).await;
    for (answer, kind, part) in [
        (Answer::Fails(ErrorKind::Auth), ErrorKind::Auth, "the vault is sealed"),
        (Answer::Fails(ErrorKind::Timeout), ErrorKind::Unavailable, "the vault is sealed"),
        (Answer::Hangs, ErrorKind::Unavailable, "credentials provider did not answer"),
    ] {
        vault.answers(answer);
        let at_first = builder(address, &vault).timeout(short).build().await.unwrap_err();
        for error in [at_first, store.try_acquire(&request()).await.unwrap_err()] {
            assert_eq!(error.kind(), kind, "{error:#}");
            assert!(format!("{error:#}").contains(part), "{error:#}");
        }
    }
    vault.answers(Answer::Password(FIRST));
    let client = LockClient::new(store);
    client.lock("job").lease(LEASE).wait(WAIT).acquire().await.unwrap().release().await.unwrap();
}

/// Nothing is sent to a server: these hosts do not exist.
#[tokio::test]
async fn contradictory_credentials_are_refused_and_no_password_is_sent_in_plain_text() {
    let vault = Vault::new(FIRST);
    let elsewhere = EtcdBuilder::new(["h.invalid"]).credentials(vault.provider("root"));
    let both = elsewhere.clone().plaintext(true).user("root", SECOND);
    for (builder, part) in [(elsewhere, "plaintext=on"), (both, "only one of the two")] {
        let error = builder.build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:#}");
        assert!(error.to_string().contains(part), "{error:#}");
        shows_no_secret(&error);
    }
    assert_eq!(vault.asked(), 0);
    let nobody = Credentials::of_default_user(FIRST).into();
    let error = EtcdBuilder::new(["127.0.0.1:1"]).credentials(nobody).build().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:#}");
    shows_no_secret(&error);
}

/// The user and the password are in the URL.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_tokens_cost_neither_lock_nor_entry() {
    let (_etcd, address) = start(EtcdOptions::new()).await;
    let url = format!("etcd://root:{FIRST}@{address}");
    let connect = async || backend_etcd::connect(&url).await.unwrap();
    let (guard, waiting) = held_and_waited_for(connect().await, connect().await).await;
    let lease = Duration::from_secs(6);
    let short = LockClient::new(connect().await).lock("short").lease(lease);
    let short = short.acquire().await.unwrap();
    let options = ConnectOptions::new().with_user("root", FIRST);
    let witness = Client::connect([address.to_string()], Some(options)).await.unwrap();
    witness.kv_client().get("k", None).await.unwrap();
    void_tokens(address).await;
    let since = SystemEnv.now();
    assert!(witness.kv_client().get("k", None).await.is_err(), "the fault did not happen");
    renewed(&short, since, lease).await;
    drop(hands_over(guard, waiting).await);
    short.release().await.unwrap();
}

/// This also happens while an operator switches authentication off and on again to make etcd reject
/// all tokens.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_while_authentication_is_off_is_a_retryable_error() {
    let etcd = single().await;
    let url = format!("etcd://root:sesame@{}", etcd.endpoints()[0]);
    let error = backend_etcd::connect(&url).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("authentication switched off"), "{error}");
}
