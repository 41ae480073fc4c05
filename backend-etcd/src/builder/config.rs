//! The builder of a store.

use std::{fmt, sync::Arc, time::Duration};

use etcd_client::{Certificate, Client, ConnectOptions, Identity, TlsOptions};
use lock_core::{
    Backend, ConnectionSecurity, Credentials, CredentialsProvider, Error, ErrorKind, is_loopback,
    plaintext_refusal,
};

use crate::{
    keys::{layout::KeyLayout, settings::check_longest},
    rpc::{Login, Members, Rpc, failure, late},
    store::Store,
    tunables,
};

/// Builds the backend for a store in etcd.
#[derive(Clone)]
pub struct EtcdBuilder {
    pub(super) endpoints: Vec<String>,
    pub(super) user: Option<(String, String)>,
    credentials: Option<CredentialsProvider>,
    tls: Option<TlsOptions>,
    pub(super) prefix: String,
    longest_lease: Option<Duration>,
    spare_leases: usize,
    pub(super) timeout: Duration,
    plaintext: bool,
}

impl EtcdBuilder {
    /// The default prefix of all keys.
    pub const DEFAULT_PREFIX: &'static str = "leasehold/";
    /// How many spare leases of each length the client keeps by default.
    pub const DEFAULT_SPARE_LEASES: usize = tunables::SPARE_LEASES;

    /// The cluster with these members, such as `10.0.0.1:2379`. They must not contain a user or a
    /// password: see [`user`](Self::user).
    #[must_use]
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            user: None,
            credentials: None,
            tls: None,
            prefix: Self::DEFAULT_PREFIX.to_owned(),
            longest_lease: None,
            spare_leases: Self::DEFAULT_SPARE_LEASES,
            timeout: tunables::TIMEOUT,
            plaintext: false,
        }
    }

    /// Authenticates as this user, and again when etcd's authentication token has expired. Default:
    /// no user.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Sets a provider of the user and the password, instead of [`user`](Self::user). It is called
    /// in `build`, and when etcd no longer accepts the client's authentication token because it has
    /// expired or the password was changed. It must return a user. The call counts towards the time
    /// limit of the connection or request that needs it. Default: none.
    #[must_use]
    pub fn credentials(mut self, provider: CredentialsProvider) -> Self {
        self.credentials = Some(provider);
        self
    }

    /// Connects with TLS, and trusts servers whose certificate this authority (PEM) signed.
    /// Default: no TLS.
    #[must_use]
    pub fn tls(mut self, authority: impl AsRef<[u8]>) -> Self {
        let options = self.tls.take().unwrap_or_default();
        self.tls = Some(options.ca_certificate(Certificate::from_pem(authority)));
        self
    }

    /// Authenticates with this certificate and its key (PEM). Implies TLS. Default: none.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> Self {
        let options = self.tls.take().unwrap_or_default();
        self.tls = Some(options.identity(Identity::from_pem(certificate, key)));
        self
    }

    /// Whether the client may send a password unencrypted over a network, to any server that
    /// answers for a host. If not, the client refuses a password without TLS, unless all hosts are
    /// this machine. Default: no.
    #[must_use]
    pub fn plaintext(mut self, allowed: bool) -> Self {
        self.plaintext = allowed;
        self
    }

    pub(super) fn security(&self) -> ConnectionSecurity {
        let of = |endpoint: &String| {
            let host = endpoint.strip_prefix("http://").unwrap_or(endpoint);
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
            match is_loopback(host) {
                true => ConnectionSecurity::Local,
                false if self.tls.is_some() || host.starts_with("https://") => {
                    ConnectionSecurity::Verified
                }
                false => ConnectionSecurity::Plain,
            }
        };
        self.endpoints.iter().map(of).min().unwrap_or(ConnectionSecurity::Plain)
    }

    /// The prefix of all keys. Default: `leasehold/`, so that `etcdctl lock leasehold/NAME` takes
    /// the same lock as `NAME` here.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The longest lease that the store must have. A store with another longest lease is refused.
    /// Default: that of the store, or 30 s for a new store.
    #[must_use]
    pub fn longest_lease(mut self, longest: Duration) -> Self {
        self.longest_lease = Some(longest);
        self
    }

    /// How many unused leases of each length the client keeps at most, so that an acquire need not
    /// request one: 0 to 1,000. They are refilled as fast as they are used, expire if they are not
    /// used, and are revoked when the client closes. Default: 16.
    #[must_use]
    pub fn spare_leases(mut self, most: usize) -> Self {
        self.spare_leases = most;
        self
    }

    /// The time limit of a call: 1 ms to 1 h. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Connects, writes the settings if there are none, and checks them against this builder.
    ///
    /// # Errors
    /// `InvalidInput` for a setting that is not allowed; `Unavailable`, `Timeout`,
    /// `OutcomeUnknown`, `Auth` or `Config` for a cluster that cannot be used.
    pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
        let servers = self.endpoints.join(",").replace("http://", "");
        self.open().await.map_err(|error| {
            match error.kind() {
                // An endpoint that is refused may have a password in it.
                ErrorKind::InvalidInput => error,
                _ => error.on_server(servers),
            }
            .at("etcd", "connect")
        })
    }

    async fn open(self) -> Result<Arc<dyn Backend>, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        if self.endpoints.is_empty() {
            return refuse("no endpoint of etcd is given; at least one is needed".to_owned());
        }
        if self.endpoints.iter().any(|endpoint| endpoint.contains('@')) {
            let message = "an endpoint of etcd has an @ in it, and is not shown, since a password may stand before it; it must be \
                           HOST:PORT; set the user with `user` or `credentials`";
            return refuse(message.to_owned());
        }
        if let Some(longest) = self.longest_lease {
            check_longest(longest)?;
        }
        if self.user.is_some() && self.credentials.is_some() {
            let message = "both a user and a provider of credentials are given; only one of the two is allowed";
            return refuse(message.to_owned());
        }
        if self.spare_leases > tunables::MOST_SPARE_LEASES {
            let (asked, most) = (self.spare_leases, tunables::MOST_SPARE_LEASES);
            return refuse(format!("spare_leases {asked} must be between 0 and {most}"));
        }
        if !tunables::TIMEOUTS.contains(&self.timeout) {
            let shown = humantime::format_duration(self.timeout);
            return refuse(format!("timeout {shown} must be between 1ms and 1h"));
        }
        // The client library uses the application's provider of cryptography, then its own, and
        // panics without any.
        #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
        if rustls::crypto::CryptoProvider::get_default().is_none()
            && (self.tls.is_some() || self.endpoints.iter().any(|at| at.starts_with("https:")))
        {
            let message = "TLS needs a provider of cryptography: enable the feature tls-ring or tls-aws-lc, or \
                           install one as the default of rustls in the application";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let security = self.security();
        let has_password = self.credentials.is_some()
            || self.user.as_ref().is_some_and(|(_, password)| !password.is_empty());
        if has_password && security == ConnectionSecurity::Plain && !self.plaintext {
            return Err(plaintext_refusal("TLS (ca=FILE, or cert=FILE and key=FILE)"));
        }
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.timeout)
            // Detects a connection that hangs, and ends its calls and streams. etcd accepts pings
            // only while there is a stream.
            .with_keep_alive(tunables::PING_EVERY, tunables::PING_ANSWER)
            .with_keep_alive_while_idle(false)
            // A member that is cut off from the others must return an error instead of letting the
            // client wait.
            .with_require_leader(true);
        if let Some(tls) = self.tls {
            options = options.with_tls(tls);
        }
        let user = self.user.map(|(name, password)| Credentials::new(name, password).into());
        let login = Login::new(self.credentials.or(user));
        let by = tokio::time::Instant::now() + self.timeout;
        let members = Members::new();
        let connecting =
            Client::connect_with_balanced_channel(&self.endpoints, Some(options), members.clone());
        let client = match tokio::time::timeout_at(by, connecting).await {
            Ok(client) => client.map_err(|error| Error::from(failure(error)))?,
            Err(_) => return Err(late(self.timeout)),
        };
        let rpc = Rpc::new(client, login, members, self.timeout);
        rpc.log_in(by).await?;
        let layout = KeyLayout::new(self.prefix);
        Ok(Store::open(rpc, layout, security, self.longest_lease, self.spare_leases).await?)
    }
}

impl fmt::Debug for EtcdBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An endpoint with a password is refused, but only in `build`.
        let shown = |endpoint: &String| match endpoint.rsplit_once('@') {
            Some((_, host)) => format!("…@{host}"),
            None => endpoint.clone(),
        };
        f.debug_struct("EtcdBuilder")
            .field("endpoints", &self.endpoints.iter().map(shown).collect::<Vec<_>>())
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("tls", &self.tls.is_some())
            .field("prefix", &self.prefix)
            .field("longest_lease", &self.longest_lease)
            .field("spare_leases", &self.spare_leases)
            .field("timeout", &self.timeout)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn an_endpoint_with_a_password_is_refused_and_not_shown() {
        for endpoint in ["https://u:sesame@h:2379", "u:sesame@127.0.0.1:2379", "u:se@same@h"] {
            let builder = EtcdBuilder::new(["h1:2379", endpoint]).plaintext(true);
            let shown = format!("{builder:?}");
            let error = builder.build().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            let all = format!("{shown} {error} {error:?}");
            assert!(!all.contains("sesame") && !all.contains("se@"), "{all}");
            assert!(shown.contains("h1:2379"), "{shown}");
        }
    }
}
