//! The builder of a store.

use std::{fmt, sync::Arc, time::Duration};

use lock_core::{
    Backend, ConnectionSecurity, Credentials, CredentialsProvider, Error, ErrorKind, check_span,
    is_loopback, plaintext_refusal,
};

use crate::{
    keys::{layout::Layout, settings::check_longest},
    session::{Access, Connect, Sessions, Tls},
    store::Store,
    tunables,
};

/// Builds the backend for a store in ZooKeeper.
#[derive(Clone)]
pub struct ZooKeeperBuilder {
    pub(super) servers: Vec<String>,
    pub(super) user: Option<(String, String)>,
    credentials: Option<CredentialsProvider>,
    authority: Option<Vec<u8>>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) prefix: String,
    longest_lease: Option<Duration>,
    tick: Duration,
    pub(super) timeout: Duration,
    plaintext: bool,
    own_nodes: bool,
    sasl: bool,
}

impl ZooKeeperBuilder {
    /// The default prefix of all paths.
    pub const DEFAULT_PREFIX: &'static str = "/leasehold";

    /// The ensemble with these servers, such as `10.0.0.1:2181`. They must not contain a user or a
    /// password: see [`user`](Self::user).
    #[must_use]
    pub fn new<S: Into<String>>(servers: impl IntoIterator<Item = S>) -> Self {
        Self {
            servers: servers.into_iter().map(Into::into).collect(),
            user: None,
            credentials: None,
            authority: None,
            certificate: None,
            prefix: Self::DEFAULT_PREFIX.to_owned(),
            longest_lease: None,
            tick: tunables::TICK,
            timeout: tunables::TIMEOUT,
            plaintext: false,
            own_nodes: false,
            sasl: false,
        }
    }

    /// Authenticates by the scheme `digest` as this user. Default: no user.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Sets a provider of the user and the password, instead of [`user`](Self::user). It is called
    /// for each new session. Default: none.
    #[must_use]
    pub fn credentials(mut self, provider: CredentialsProvider) -> Self {
        self.credentials = Some(provider);
        self
    }

    /// Whether the user authenticates by SASL with DIGEST-MD5, which the servers must have in their
    /// JAAS configuration. Default: no, by ZooKeeper's own scheme `digest`.
    #[must_use]
    pub fn sasl(mut self, sasl: bool) -> Self {
        self.sasl = sasl;
        self
    }

    /// Connects with TLS, and trusts servers whose certificate this authority (PEM) signed.
    /// Default: no TLS. If the application has installed no provider of cryptography, `build`
    /// installs that of the feature for the whole process, since the client library takes no other.
    #[must_use]
    pub fn tls(mut self, authority: impl AsRef<[u8]>) -> Self {
        self.authority = Some(authority.as_ref().to_vec());
        self
    }

    /// Authenticates with this certificate and its key (PEM), by ZooKeeper's scheme `x509`. Only
    /// with [`tls`](Self::tls). Default: none.
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> Self {
        self.certificate = Some((certificate.as_ref().to_vec(), key.as_ref().to_vec()));
        self
    }

    /// Whether only clients with the same user, or the same subject of a client certificate, may
    /// use the nodes that this client makes. Without it, everybody may: then Curator's clients
    /// without a user can take part. Default: no.
    #[must_use]
    pub fn own_nodes(mut self, own: bool) -> Self {
        self.own_nodes = own;
        self
    }

    /// Whether the client may send a password unencrypted over a network. If not, the client
    /// refuses a password without TLS, unless all servers are this machine. Default: no.
    #[must_use]
    pub fn plaintext(mut self, allowed: bool) -> Self {
        self.plaintext = allowed;
        self
    }

    /// The path under which all nodes stand. A lock `job` is the directory `job` in it. Default:
    /// [`DEFAULT_PREFIX`](Self::DEFAULT_PREFIX).
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The longest lease that the store must have, so that clients that expect another one fail. A
    /// new store gets it. Default: that of the store, or 30 s for a new store.
    #[must_use]
    pub fn longest_lease(mut self, longest: Duration) -> Self {
        self.longest_lease = Some(longest);
        self
    }

    /// `tickTime` of the servers, or longer: 1 ms to 1 min. Leases are at least five ticks long.
    /// Default: 2 s, ZooKeeper's default.
    #[must_use]
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// The time limit of a call: 1 ms to 1 h. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(super) fn security(&self) -> ConnectionSecurity {
        let is_local = |server: &String| {
            is_loopback(server.rsplit_once(':').map_or(server.as_str(), |(host, _)| host))
        };
        match self.servers.iter().all(is_local) {
            true => ConnectionSecurity::Local,
            false if self.authority.is_some() => ConnectionSecurity::Verified,
            false => ConnectionSecurity::Plain,
        }
    }

    /// Connects, writes the settings if there are none, and checks them against this builder.
    ///
    /// # Errors
    /// `InvalidInput` for a setting that is not allowed; `Unavailable`, `OutcomeUnknown`, `Auth` or
    /// `Config` for servers that cannot be used.
    pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
        let servers = self.servers.join(",");
        let opened = self.open().await.map_err(|error| {
            match error.kind() {
                // A server that is refused may have a password in it.
                ErrorKind::InvalidInput => error,
                _ => error.on_server(servers),
            }
            .at("zookeeper", "connect")
        });
        Ok(opened?)
    }

    pub(crate) async fn open(self) -> Result<Arc<Store>, Error> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        if self.servers.is_empty() {
            return refuse("no server of ZooKeeper is given; at least one is needed".to_owned());
        }
        if self.servers.iter().any(|server| server.contains(['@', '/', ','])) {
            let message = "a server of ZooKeeper has an @, a / or a comma in it, and is not shown, since a password \
                           may stand before it; it must be HOST:PORT; set the user with `user` or `credentials`";
            return refuse(message.to_owned());
        }
        check_prefix(&self.prefix)?;
        let (least, most) = tunables::TIMEOUTS.into_inner();
        check_span("timeout", self.timeout, least, most)?;
        let (least, most) = tunables::TICKS.into_inner();
        check_span("tick", self.tick, least, most)?;
        if let Some(longest) = self.longest_lease {
            check_longest(longest, self.tick * tunables::SHORTEST_TICKS)?;
        }
        if self.user.is_some() && self.credentials.is_some() {
            let message = "both a user and a provider of credentials are given; only one of the two is allowed";
            return refuse(message.to_owned());
        }
        let security = self.security();
        let has_password = self.user.is_some() || self.credentials.is_some();
        if has_password && security == ConnectionSecurity::Plain && !self.plaintext {
            return Err(plaintext_refusal("TLS (ca=FILE)"));
        }
        if self.own_nodes && !has_password && self.certificate.is_none() {
            let message = "only clients with the same user may use the nodes (acl=creator), and no user or client \
                           certificate is given";
            return refuse(message.to_owned());
        }
        if self.sasl && !has_password {
            return refuse("no user is given for SASL (auth=sasl)".to_owned());
        }
        let tls = match (&self.authority, &self.certificate) {
            (Some(ca), own) => Some(Tls::new(&self.servers, ca, own.as_ref())?),
            (None, Some(_)) => {
                let message = "a client certificate (cert, key) is given, and no authority (ca) to check the servers by";
                return refuse(message.to_owned());
            }
            (None, None) => None,
        };
        let user = self.user.map(|(name, password)| Credentials::new(name, password).into());
        let connect = Connect {
            servers: self.servers.join(","),
            credentials: self.credentials.or(user),
            tick: self.tick,
            timeout: self.timeout,
            access: if self.own_nodes { Access::Creator } else { Access::Open },
            sasl: self.sasl,
            tls,
        };
        let layout = Layout::new(&self.prefix);
        let sessions = Sessions::new(connect, layout.clone());
        Store::open(sessions, layout, security, self.longest_lease).await
    }
}

/// A prefix is a path: it may be empty.
fn check_prefix(prefix: &str) -> Result<(), Error> {
    let parts = prefix.strip_suffix('/').unwrap_or(prefix);
    let is_path = parts.is_empty()
        || parts.strip_prefix('/').is_some_and(|parts| {
            let bad = |part: &str| {
                matches!(part, "" | "." | ".." | "zookeeper") || part.chars().any(char::is_control)
            };
            !parts.split('/').any(bad)
        });
    match is_path {
        true => Ok(()),
        false => {
            let message = format!(
                "prefix {prefix:?} must be a path such as /leasehold, without empty parts, `.`, `..` and `zookeeper`"
            );
            Err(Error::new(ErrorKind::InvalidInput, message))
        }
    }
}

impl fmt::Debug for ZooKeeperBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A server with a password is refused, but only in `build`.
        let shown = |server: &String| match server.rsplit_once('@') {
            Some((_, host)) => format!("…@{host}"),
            None => server.clone(),
        };
        f.debug_struct("ZooKeeperBuilder")
            .field("servers", &self.servers.iter().map(shown).collect::<Vec<_>>())
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("tls", &self.authority.is_some())
            .field("prefix", &self.prefix)
            .field("longest_lease", &self.longest_lease)
            .field("tick", &self.tick)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
