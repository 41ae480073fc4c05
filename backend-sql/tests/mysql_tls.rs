//! TLS to MySQL.
#![cfg(feature = "mysql")]
#![allow(clippy::unwrap_used)]

mod on_mariadb;

use std::path::Path;

use backend_sql::mysql::{connect, schema};
use conformance_tests::kit::{ClientCertificates, Mariadb, MariadbOptions, Server as _};
use lock_core::{ErrorKind, Init, Release};
use on_mariadb::{granted, request, start};
use rustls::crypto::CryptoProvider;

/// TLS as the URL asks for it: the server has to show a certificate of this authority, and we show ours.
#[tokio::test]
async fn tls_is_used_and_a_wrong_certificate_refused() {
    let options = MariadbOptions::new().tls(ClientCertificates::NotAsked);
    let server = Mariadb::start(options).await.unwrap();
    let files = server.certificates().unwrap();
    for (user, needs) in [("ciphered", "SSL"), ("certified", "X509")] {
        let create = format!(
            "CREATE USER {user}@'127.0.0.1' REQUIRE {needs}; \
             GRANT ALL ON test.* TO {user}@'127.0.0.1'"
        );
        server.sql(&create).await.unwrap();
    }
    let port = server.address().port();
    let to = |user: &str, ca: &Path| {
        let mode = format!("ssl-mode=verify_identity&ssl-ca={}", ca.display());
        format!("mysql://{user}@localhost:{port}/test?{mode}")
    };
    let ours =
        format!("&ssl-cert={}&ssl-key={}", files.client_cert.display(), files.client_key.display());
    for url in [to("ciphered", &files.ca), to("certified", &files.ca) + &ours] {
        let store = connect(&url).await.unwrap();
        store.init(&Init::default()).await.unwrap();
        let grant = granted(&store, &request("job")).await;
        store.release(&grant, Release::default()).await.unwrap();
    }
    // These show that the server does ask for it.
    let plain = format!("mysql://ciphered@localhost:{port}/test?ssl-mode=disabled");
    for refused in [plain, to("certified", &files.ca)] {
        let error = connect(&refused).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Auth, "{error}");
    }
    // The server's own certificate is not its authority's.
    let error = connect(&to("ciphered", &files.client_cert)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("no TLS connection"), "{error}");
}

/// A misspelt word never means no TLS, and no word is passed over.
#[tokio::test]
async fn what_is_said_of_tls_is_used_or_refused_by_its_name() {
    for (query, part) in [
        (
            "ssl-mode=verify-ca",
            "ssl-mode in the URL is not understood; allowed are disabled, preferred",
        ),
        ("ssl-mode=secret", "required, verify_ca, verify_identity"),
        ("ssl-mode=", "ssl-mode"),
        ("sslmode=required", "an option in the URL of a MySQL store is not known"),
        ("ssl_mode=required", "is not known; allowed are"),
        ("ssl-mode=required&ssl-mode=disabled", "is given twice"),
        ("ssl-ca=ca.pem", "ssl-ca in the URL is of no use with ssl-mode preferred"),
        ("ssl-mode=required&ssl-ca=ca.pem", "allowed are verify_ca, verify_identity"),
        ("ssl-mode=preferred&ssl-cert=a.pem&ssl-key=a.key", "ssl-cert"),
        ("ssl-mode=required&ssl-cert=a.pem", "of no use without ssl-key"),
        ("ssl-mode=required&ssl-key=a.key", "of no use without ssl-cert"),
        ("statement-cache-capacity=secret", "statement-cache-capacity"),
    ] {
        let url = format!("mysql://me:secret@localhost/test?{query}");
        let error = schema(&url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(part), "{query}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    for query in [
        "ssl-mode=VERIFY_CA&ssl-ca=ca.pem",
        "ssl-mode=required&ssl-cert=a.pem&ssl-key=a.key",
        "ssl-mode=verify_identity",
    ] {
        schema(&format!("mysql://localhost/test?{query}")).unwrap();
    }
    for query in [
        "ssl-mode=verify_ca&ssl-ca=/no/such.pem",
        "ssl-mode=required&ssl-cert=/no/such.pem&ssl-key=/no/such.key",
    ] {
        let error = connect(&format!("mysql://localhost:1/test?{query}")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{query}: {error}");
        assert!(error.to_string().contains("cannot be read"), "{query}: {error}");
    }
}

/// Without a check of the certificate, and without TLS where the server has none.
#[tokio::test]
async fn each_mode_does_what_is_said_of_it() {
    // For verify_ca the driver takes the process's, and installs nothing for the other modes.
    assert!(CryptoProvider::get_default().is_none());
    let error = connect("mysql://localhost:1/test?ssl-mode=verify_ca").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("CryptoProvider::install_default"), "{error}");
    assert!(CryptoProvider::get_default().is_none());
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let with = MariadbOptions::new().tls(ClientCertificates::NotAsked);
    let servers = [Mariadb::start(with).await.unwrap(), start().await];
    for server in &servers {
        let create = "CREATE USER ciphered@'127.0.0.1' REQUIRE SSL; \
                      GRANT ALL ON test.* TO ciphered@'127.0.0.1'";
        server.sql(create).await.unwrap();
    }
    for (server, mode, refused) in [
        (0, "disabled", Some(ErrorKind::Auth)),
        (0, "preferred", None),
        (0, "required", None),
        (0, "verify_identity", Some(ErrorKind::Unavailable)),
        (1, "preferred", Some(ErrorKind::Auth)),
        (1, "required", Some(ErrorKind::Unavailable)),
        (1, "verify_ca", Some(ErrorKind::Unavailable)),
    ] {
        let address = servers[server].address();
        let url = format!("mysql://ciphered@{address}/test?ssl-mode={mode}");
        let kind = connect(&url).await.err().map(|error| error.kind());
        assert_eq!(kind, refused, "{server} {mode}");
    }
}
