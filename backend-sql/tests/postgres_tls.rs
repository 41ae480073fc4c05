//! TLS to PostgreSQL.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)]

mod support;

use std::{env, process::Command, time::Duration};

use backend_sql::postgres::{connect, schema};
use conformance_tests::kit::{ClientCertificates, Postgres, PostgresOptions, Server as _};
use lock_core::{ErrorKind, Init, Request};
use rustls::crypto::CryptoProvider;

use self::support::granted;

const LEASE: Duration = Duration::from_secs(20);
const URL: &str = "LEASEHOLD_TEST_URL";

fn request(name: &str) -> Request {
    support::request(name, LEASE)
}

#[tokio::test]
async fn tls_is_used_and_a_wrong_certificate_refused() {
    let options = PostgresOptions::new().tls(ClientCertificates::NotAsked);
    let server = Postgres::start(options).await.unwrap();
    let files = server.certificates().unwrap();
    let to = |ca: &std::path::Path| {
        let mode = format!("sslmode=verify-full&sslrootcert={}", ca.display());
        let port = server.address().port();
        format!("postgres://postgres@localhost:{port}/postgres?{mode}&application_name=tls")
    };
    let store = connect(&to(&files.ca)).await.unwrap();
    store.init(&Init::default()).await.unwrap();
    granted(&store, &request("job")).await;
    assert!(store.guarantees().push);
    let plain = "SELECT count(*) FILTER (WHERE NOT ssl), count(*) > 1 \
        FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'tls'";
    assert_eq!(server.sql(plain).await.unwrap(), "0|t", "the connection for messages, too");
    // The server's own certificate is not its authority's.
    let error = connect(&to(&files.client_cert)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("no TLS connection"), "{error}");
}

/// A misspelt word never means no TLS, and no word is passed over.
#[tokio::test]
async fn what_is_said_of_tls_is_used_or_refused_by_its_name() {
    for (query, part) in [
        (
            "sslmode=verify_full",
            "sslmode in the URL is not understood; allowed are disable, prefer",
        ),
        ("sslmode=secret", "require, verify-ca, verify-full"),
        ("sslmode=", "sslmode"),
        // The driver never tries TLS with it.
        ("sslmode=allow", "sslmode"),
        ("ssl_mode=require", "an option in the URL of a PostgreSQL store is not known"),
        ("ssl-mode=require", "is not known; allowed are"),
        ("sslmode=require&sslmode=disable", "is given twice"),
        ("sslrootcert=ca.pem", "sslrootcert in the URL is of no use with sslmode prefer"),
        ("sslmode=require&sslrootcert=ca.pem", "allowed are verify-ca, verify-full"),
        ("sslmode=prefer&sslcert=a.pem&sslkey=a.key", "sslcert"),
        ("sslmode=require&sslcert=a.pem", "of no use without sslkey"),
        ("sslmode=require&sslkey=a.key", "of no use without sslcert"),
        ("statement-cache-capacity=secret", "statement-cache-capacity"),
    ] {
        let url = format!("postgres://me:secret@localhost/test?{query}");
        let error = schema(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(part), "{query}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    for query in [
        "sslmode=VERIFY-CA&sslrootcert=ca.pem",
        "sslmode=require&sslcert=a.pem&sslkey=a.key",
        "sslmode=verify-full",
    ] {
        schema(&format!("postgres://localhost/test?{query}")).unwrap();
    }
    for query in [
        "sslmode=verify-full&sslrootcert=/no/such.pem",
        "sslmode=require&sslcert=/no/such.pem&sslkey=/no/such.key",
    ] {
        let error = connect(&format!("postgres://localhost:1/test?{query}")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{query}: {error}");
        assert!(error.to_string().contains("cannot be read"), "{query}: {error}");
    }
}

/// Without a check of the certificate, and without TLS where the server has none.
#[tokio::test]
async fn each_mode_does_what_is_said_of_it() {
    // For verify-ca the driver takes the process's, and installs nothing for the other modes.
    assert!(CryptoProvider::get_default().is_none());
    let error = connect("postgres://localhost:1/test?sslmode=verify-ca").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("CryptoProvider::install_default"), "{error}");
    assert!(CryptoProvider::get_default().is_none());
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let with = PostgresOptions::new().tls(ClientCertificates::NotAsked);
    let servers = [Postgres::start(with).await.unwrap(), support::start().await];
    for (server, mode, tls) in [
        (0, "disable", Some("f")),
        (0, "prefer", Some("t")),
        (0, "require", Some("t")),
        (0, "verify-full", None),
        (1, "prefer", Some("f")),
        (1, "require", None),
        (1, "verify-ca", None),
    ] {
        let server = &servers[server];
        let url = format!("{}?sslmode={mode}&application_name={mode}", support::url(server));
        let Some(tls) = tls else {
            let error = connect(&url).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{mode}: {error}");
            assert!(error.to_string().contains("no TLS connection"), "{mode}: {error}");
            continue;
        };
        let store = connect(&url).await.unwrap();
        let used = format!(
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
             WHERE application_name = '{mode}'"
        );
        assert_eq!(server.sql(&used).await.unwrap(), tls, "{mode}");
        store.close().await;
    }
}

/// Where the URL is silent the driver takes what the environment says, and passes over what it does not know.
#[tokio::test]
async fn a_mode_in_the_environment_is_used_or_refused_too() {
    for (mode, query, part) in [
        ("verify_full", "", Some("PGSSLMODE in the environment is not understood")),
        ("verify_full", "?sslmode=disable", None),
        ("verify-full", "?sslrootcert=ca.pem", None),
        ("require", "?sslrootcert=ca.pem", Some("sslrootcert in the URL is of no use")),
    ] {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "a_url_in_this_environment", "--ignored", "--nocapture"]);
        child.env("PGSSLMODE", mode).env(URL, format!("postgres://localhost/test{query}"));
        let said = String::from_utf8(child.output().unwrap().stdout).unwrap();
        assert!(said.contains(part.unwrap_or("it is understood")), "{mode} {query}: {said}");
    }
}

/// Not a test by itself.
#[test]
#[ignore = "a part of another"]
fn a_url_in_this_environment() {
    match schema(&env::var(URL).unwrap()) {
        Ok(_) => println!("it is understood"),
        Err(error) => println!("{error}"),
    }
}
