//! TLS to PostgreSQL.

use std::{env, process::Command};

use backend_sql::postgres::{connect, schema};
use lock_core::{ErrorKind, Init};
use servers::{ClientCertificates, Postgres, PostgresOptions, Server as _};

use crate::support::request;
use crate::support::{
    postgres::{self, granted},
    tls::{Words, installed, words_are_used_or_refused},
};

const URL: &str = "LEASEHOLD_TEST_URL";

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

#[tokio::test]
async fn what_is_said_of_tls_is_used_or_refused_by_its_name() {
    let words = Words {
        scheme: "postgres",
        mode: "sslmode",
        not_modes: ["ssl_mode", "ssl-mode"],
        modes: ["disable", "prefer", "require", "verify-ca", "verify-full"],
        authority: "sslrootcert",
        certificate: "sslcert",
        key: "sslkey",
    };
    words_are_used_or_refused(&words, schema, connect).await;
}

/// Without a check of the certificate, and without TLS where the server has none.
#[tokio::test]
async fn each_mode_does_what_is_said_of_it() {
    installed().await;
    let with = PostgresOptions::new().tls(ClientCertificates::NotAsked);
    let servers = [Postgres::start(with).await.unwrap(), postgres::start().await];
    let not_trusted = (ErrorKind::Unavailable, "no TLS connection");
    let no_tls = (ErrorKind::Config, "the server has no TLS");
    for (server, mode, tls) in [
        (0, "disable", Ok("f")),
        (0, "prefer", Ok("t")),
        (0, "require", Ok("t")),
        (0, "verify-full", Err(not_trusted)),
        (1, "prefer", Ok("f")),
        (1, "require", Err(no_tls)),
        (1, "verify-ca", Err(no_tls)),
    ] {
        let server = &servers[server];
        let url = format!("{}?sslmode={mode}&application_name={mode}", postgres::url(server));
        let tls = match tls {
            Ok(tls) => tls,
            Err((kind, text)) => {
                let error = connect(&url).await.unwrap_err();
                assert_eq!(error.kind(), kind, "{mode}: {error}");
                assert!(error.to_string().contains(text), "{mode}: {error}");
                continue;
            }
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

/// If the URL names no mode, the driver takes it from the environment, and would ignore an unknown
/// one.
#[tokio::test]
async fn a_mode_in_the_environment_is_used_or_refused_too() {
    for (mode, query, part) in [
        ("verify_full", "", Some("PGSSLMODE in the environment is not understood")),
        ("verify_full", "?sslmode=disable", None),
        ("verify-full", "?sslrootcert=ca.pem", None),
        ("require", "?sslrootcert=ca.pem", Some("sslrootcert in the URL is of no use")),
    ] {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args([
            "--exact",
            "postgres::tls::a_url_in_this_environment",
            "--ignored",
            "--nocapture",
        ]);
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
