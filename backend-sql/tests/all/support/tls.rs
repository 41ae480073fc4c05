//! The TLS options of URLs, and the process's provider of cryptography.

use std::sync::Arc;

use lock_core::{Backend, Error, ErrorKind};
use rustls::crypto::CryptoProvider;
use tokio::sync::OnceCell;

/// Checks that the mode without a check of the name is refused while the process has no provider of
/// cryptography, and that the other modes install none. Then installs one. This happens once, since
/// the tests are one process.
pub(crate) async fn installed() {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let install = || async {
        assert!(CryptoProvider::get_default().is_none());
        let errors = [
            #[cfg(feature = "mysql")]
            backend_sql::mysql::connect("mysql://localhost:1/test?ssl-mode=verify_ca").await.err(),
            #[cfg(feature = "postgres")]
            backend_sql::postgres::connect("postgres://localhost:1/test?sslmode=verify-ca")
                .await
                .err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.to_string().contains("CryptoProvider::install_default"), "{error}");
        }
        assert!(CryptoProvider::get_default().is_none());
        rustls::crypto::ring::default_provider().install_default().unwrap();
    };
    INSTALLED.get_or_init(install).await;
}

/// The names of the TLS options and modes of a database.
pub(crate) struct Words {
    pub(crate) scheme: &'static str,
    pub(crate) mode: &'static str,
    /// The names of the option in another database, and in none.
    pub(crate) not_modes: [&'static str; 2],
    /// From no TLS to the strictest mode.
    pub(crate) modes: [&'static str; 5],
    pub(crate) authority: &'static str,
    pub(crate) certificate: &'static str,
    pub(crate) key: &'static str,
}

/// A misspelt option never means no TLS, and no option is ignored.
pub(crate) async fn words_are_used_or_refused(
    words: &Words,
    schema: impl Fn(&str) -> Result<String, Error>,
    connect: impl AsyncFn(&str) -> Result<Arc<dyn Backend>, Error>,
) {
    let Words { scheme, mode, not_modes, modes, authority, certificate, key } = words;
    let [none, prefer, require, check, full] = modes;
    let mixed =
        full.replace(['-', '_'], "*").replace('*', if full.contains('-') { "_" } else { "-" });
    let all = modes.join(", ");
    for (query, part) in [
        (
            format!("{mode}={mixed}"),
            format!("{mode} in the URL is not understood; it must be one of {all}"),
        ),
        (format!("{mode}=secret"), all),
        (format!("{mode}="), (*mode).to_owned()),
        // A word of PostgreSQL's with which its driver never tries TLS.
        (format!("{mode}=allow"), (*mode).to_owned()),
        (format!("{}={require}", not_modes[0]), format!("in the URL, did you mean {mode}?")),
        (format!("{}={require}", not_modes[1]), format!("in the URL, did you mean {mode}?")),
        (format!("{mode}={require}&{mode}={none}"), "is given twice".to_owned()),
        (
            format!("{authority}=ca.pem"),
            format!("{authority} in the URL is of no use with {mode} {prefer}"),
        ),
        (
            format!("{mode}={require}&{authority}=ca.pem"),
            format!("the mode must be one of {check}, {full}"),
        ),
        (format!("{mode}={prefer}&{certificate}=a.pem&{key}=a.key"), (*certificate).to_owned()),
        (format!("{mode}={require}&{certificate}=a.pem"), format!("of no use without {key}")),
        (format!("{mode}={require}&{key}=a.key"), format!("of no use without {certificate}")),
        ("statement-cache-capacity=secret".to_owned(), "statement-cache-capacity".to_owned()),
    ] {
        let error = schema(&format!("{scheme}://me:secret@localhost/test?{query}")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&part), "{query}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    for query in [
        format!("{mode}={}&{authority}=ca.pem", check.to_uppercase()),
        format!("{mode}={require}&{certificate}=a.pem&{key}=a.key"),
        format!("{mode}={full}"),
    ] {
        schema(&format!("{scheme}://localhost/test?{query}")).unwrap();
    }
    for query in [
        format!("{mode}={full}&{authority}=/no/such.pem"),
        format!("{mode}={require}&{certificate}=/no/such.pem&{key}=/no/such.key"),
    ] {
        let error = connect(&format!("{scheme}://localhost:1/test?{query}")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{query}: {error}");
        assert!(error.to_string().contains("cannot be read"), "{query}: {error}");
    }
}
