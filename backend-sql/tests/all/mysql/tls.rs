//! TLS to MySQL.

use std::path::Path;

use crate::support::{
    mariadb::{request, start, used_once},
    tls::{Words, installed, words_are_used_or_refused},
};
use backend_sql::mysql::{connect, schema};
use lock_core::{ErrorKind, Init};
use servers::{ClientCertificates, Mariadb, MariadbOptions, Server as _};

/// TLS as the URL asks for it: the server has to show a certificate of this authority, and we show
/// ours.
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
        used_once(&store, &request("job")).await;
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

#[tokio::test]
async fn what_is_said_of_tls_is_used_or_refused_by_its_name() {
    let words = Words {
        scheme: "mysql",
        mode: "ssl-mode",
        not_modes: ["sslmode", "ssl_mode"],
        modes: ["disabled", "preferred", "required", "verify_ca", "verify_identity"],
        authority: "ssl-ca",
        certificate: "ssl-cert",
        key: "ssl-key",
    };
    words_are_used_or_refused(&words, schema, connect).await;
}

/// Without a check of the certificate, and without TLS where the server has none.
#[tokio::test]
async fn each_mode_does_what_is_said_of_it() {
    installed().await;
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
        (1, "required", Some(ErrorKind::Config)),
        (1, "verify_ca", Some(ErrorKind::Config)),
    ] {
        let address = servers[server].address();
        let url = format!("mysql://ciphered@{address}/test?ssl-mode={mode}");
        let kind = connect(&url).await.err().map(|error| error.kind());
        assert_eq!(kind, refused, "{server} {mode}");
    }
}
