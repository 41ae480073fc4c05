//! TLS to MySQL.
#![cfg(feature = "mysql")]
#![allow(clippy::unwrap_used)]

mod on_mariadb;

use std::path::Path;

use backend_sql::mysql::connect;
use conformance_tests::kit::{ClientCertificates, Mariadb, MariadbOptions, Server as _};
use lock_core::{ErrorKind, Init, Release};
use on_mariadb::{granted, request};

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
