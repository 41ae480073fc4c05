//! Passwords that change while a client runs.

use std::{sync::Arc, time::Duration};

use backend_redis::RedisBuilder;
use lock_core::{
    Backend, Error, ErrorKind, LockClient, ReleaseOutcome,
    test_util::{Answer, Vault},
};
use servers::{Redis, RedisOptions, Sentinels, Server as _};

use crate::support::{direct, first_use, granted, request, server};

const LEASE: Duration = Duration::from_secs(20);
const WAIT: Duration = Duration::from_secs(30);
/// The time limit of a connection that a test makes hang; long enough for one that does not hang.
const SHORT: Duration = Duration::from_secs(3);

/// Sets the user's only password.
async fn set_password(server: &Redis, password: &str) {
    let rules = [
        "ACL",
        "SETUSER",
        "worker",
        "on",
        "resetpass",
        &format!(">{password}"),
        "~*",
        "&*",
        "+@all",
    ];
    assert_eq!(server.cli(&rules).await.unwrap(), "OK");
}

/// Ends the connections that were made with an earlier password.
async fn end_connections(server: &Redis) {
    let ended = server.cli(&["CLIENT", "KILL", "USER", "worker"]).await.unwrap();
    assert_ne!(ended, "0", "nobody was connected");
}

fn builder(server: &Redis, vault: &Vault) -> RedisBuilder {
    RedisBuilder::tcp("127.0.0.1", server.address().port()).credentials(vault.provider("worker"))
}

async fn open(server: &Redis, vault: &Vault) -> Arc<dyn Backend> {
    builder(server, vault).build().await.unwrap()
}

/// The first error with this text. Earlier errors may say that the connection broke.
async fn refused(store: &dyn Backend, part: &str) -> Error {
    for _ in 0..100 {
        let error = store.try_acquire(&request("b", LEASE)).await.unwrap_err();
        if format!("{error:#}").contains(part) {
            return error;
        }
    }
    panic!("no error says {part:?}");
}

fn shows_no_secret(shown: &dyn std::fmt::Debug) {
    let shown = format!("{shown:?} {shown:#?}");
    assert!(!shown.contains("hunter"), "{shown}");
}

#[tokio::test]
async fn a_new_connection_is_made_with_the_password_of_then() {
    let server = server().await;
    set_password(&server, "hunter1").await;
    let vault = Vault::new("hunter1");
    shows_no_secret(&builder(&server, &vault));
    let store = open(&server, &vault).await;
    shows_no_secret(&store);
    let client = LockClient::new(Arc::clone(&store));
    let guard = client.lock("a").lease(LEASE).acquire().await.unwrap();
    let before = vault.asked();

    set_password(&server, "hunter2").await;
    end_connections(&server).await;
    // The provider still has the old one.
    let error = client.lock("b").wait(WAIT).acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Auth, "{error:#}");
    shows_no_secret(&error);
    assert!(vault.asked() > before, "it was not asked again");

    vault.answers(Answer::Password("hunter2"));
    client.lock("b").wait(WAIT).acquire().await.unwrap().release().await.unwrap();
    let before = vault.asked();
    client.lock("b").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(vault.asked(), before, "it was asked for a connection that was there");
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_failing_provider_is_reported_with_its_error_and_called_again() {
    let server = server().await;
    set_password(&server, "hunter1").await;
    let vault = Vault::new("hunter1");
    for kind in [ErrorKind::Auth, ErrorKind::Unavailable] {
        vault.answers(Answer::Fails(kind));
        let error = builder(&server, &vault).build().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:#}");
        assert!(format!("{error:#}").contains("provider failed"), "{error:#}");
        assert!(format!("{error:#}").contains("the vault is sealed"), "{error:#}");
    }

    vault.answers(Answer::Password("hunter1"));
    let store = open(&server, &vault).await;
    let grant = granted(&*store, &request("a", LEASE)).await;
    end_connections(&server).await;
    vault.answers(Answer::Fails(ErrorKind::OutcomeUnknown));
    let error = refused(&*store, "the vault is sealed").await;
    // Nothing was sent to the server.
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
    vault.answers(Answer::Password("hunter1"));
    let released = store.release(&grant, Default::default()).await.unwrap();
    assert_eq!(released.outcome, ReleaseOutcome::Released);
}

#[tokio::test]
async fn a_hanging_provider_ends_with_the_time_limit() {
    let server = server().await;
    set_password(&server, "hunter1").await;
    let vault = Vault::new("hunter1");
    let store = builder(&server, &vault).timeout(SHORT).build().await.unwrap();
    end_connections(&server).await;
    vault.answers(Answer::Hangs);
    let error = refused(&*store, "credentials provider did not answer").await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:#}");
    let late = builder(&server, &vault).timeout(SHORT).build();
    let error = late.await.unwrap_err();
    assert!(error.to_string().contains("credentials provider did not answer"), "{error:#}");
    vault.answers(Answer::Password("hunter1"));
    granted(&*store, &request("b", LEASE)).await;
}

#[tokio::test]
async fn sentinels_and_master_have_providers_of_their_own() {
    let app = "user worker on >hunter2 ~* &* +@all";
    let group = Sentinels::start_patient(1, RedisOptions::new().line(app), WAIT).await.unwrap();
    for sentinel in group.endpoints() {
        let mut sentinel = direct::talk_to(sentinel).await;
        let rules = "ACL SETUSER watcher on >hunter3 +@all";
        direct::said(&mut sentinel, &rules.split(' ').collect::<Vec<_>>()).await;
        direct::said(&mut sentinel, &["ACL", "SETUSER", "default", "off"]).await;
    }
    let (masters, sentinels) = (Vault::new("hunter2"), Vault::new("hunter3"));
    let hosts = group.endpoints().into_iter().map(|at| (at.ip().to_string(), at.port()));
    let builder = RedisBuilder::sentinel(Sentinels::MASTER, hosts)
        .credentials(masters.provider("worker"))
        .sentinel_credentials(sentinels.provider("watcher"));
    let store = builder.clone().build().await.unwrap();
    first_use(&*store).await;
    granted(&*store, &request("a", LEASE)).await;
    assert!(masters.asked() > 0 && sentinels.asked() > 0);
    sentinels.answers(Answer::Fails(ErrorKind::Auth));
    let error = builder.build().await.unwrap_err();
    assert!(format!("{error:#}").contains("the vault is sealed"), "{error:#}");
}

/// Refused before any server is asked: the host does not exist.
#[tokio::test]
async fn what_cannot_be_meant_is_refused_and_no_password_leaves_in_plain_text() {
    let vault = Vault::new("hunter1");
    let elsewhere = RedisBuilder::tcp("h.invalid", 6379).credentials(vault.provider("worker"));
    let both = elsewhere.clone().plaintext(true).password("hunter2");
    for (builder, part) in [(elsewhere, "plaintext=on"), (both, "needs one of the two")] {
        let error = builder.build().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:#}");
        assert!(error.to_string().contains(part), "{error:#}");
        shows_no_secret(&error);
    }
    assert_eq!(vault.asked(), 0);
}
