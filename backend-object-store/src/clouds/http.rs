//! HTTP, with the provider of cryptography and the authorities that the other stores use.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use object_store::{
    ClientConfigKey, ClientOptions, Result,
    client::{HttpClient, HttpConnector},
};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};

/// Makes clients of HTTP.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) timeout: Duration,
}

impl Connector {
    /// That of the options, if it is shorter: where there are no credentials, the client asks an
    /// address that exists on instances in the cloud only.
    fn connect_timeout(&self, options: &ClientOptions) -> Duration {
        let given = options.get_config_value(&ClientConfigKey::ConnectTimeout);
        let given = given.and_then(|text| humantime::parse_duration(&text).ok());
        given.map_or(self.timeout, |given| given.min(self.timeout))
    }
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let https_only = allows_http.as_deref() != Some("true");
        let made = tls().and_then(|tls| {
            let client = reqwest::Client::builder()
                .tls_backend_preconfigured(tls)
                .https_only(https_only)
                .connect_timeout(self.connect_timeout(options))
                .timeout(self.timeout)
                // A redirect would repeat a write at another place.
                .redirect(reqwest::redirect::Policy::none());
            // A proxy may be on another machine, and would see the token of an unencrypted request.
            Ok(if https_only { client } else { client.no_proxy() }.build()?)
        });
        let client =
            made.map_err(|source| object_store::Error::Generic { store: "object-store", source })?;
        Ok(HttpClient::new(client))
    }
}

/// The system's authorities. They are read once, since there are hundreds.
static ROOTS: LazyLock<Arc<RootCertStore>> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    Arc::new(roots)
});

fn tls() -> std::result::Result<ClientConfig, Cause> {
    let config = ClientConfig::builder_with_provider(provider()?)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(Arc::clone(&ROOTS))
        .with_no_client_auth();
    Ok(config)
}

/// The one that the application has installed, or that of a feature.
fn provider() -> std::result::Result<Arc<CryptoProvider>, Cause> {
    if let Some(installed) = CryptoProvider::get_default() {
        return Ok(Arc::clone(installed));
    }
    #[cfg(feature = "tls-ring")]
    return Ok(Arc::new(rustls::crypto::ring::default_provider()));
    #[cfg(all(feature = "tls-aws-lc", not(feature = "tls-ring")))]
    return Ok(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    #[cfg(not(any(feature = "tls-aws-lc", feature = "tls-ring")))]
    Err("this build has no provider of cryptography: add the cargo feature tls-ring or tls-aws-lc, \
         or install one as the default of rustls in the application"
        .into())
}
