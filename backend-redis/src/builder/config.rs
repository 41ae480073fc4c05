//! The builder of a store.

use std::{path::PathBuf, sync::Arc, time::Duration};

use lock_core::{Backend, CredentialsProvider, Error};

use crate::tunables::{LATE_AFTER, TIMEOUT};
use crate::{
    backend::Redis,
    settings::{Address, Login, SentinelGroup, Settings, Topology},
};

/// Describes a store on one Redis server, on a master with sentinels, or on a cluster.
#[derive(Clone, Debug)]
pub struct RedisBuilder {
    pub(crate) settings: Settings,
}

impl RedisBuilder {
    /// A server without TLS.
    #[must_use]
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::at(Topology::Single(Address::Tcp(host.into(), port)))
    }

    /// A server with TLS. Its certificate must be for `host`.
    #[must_use]
    pub fn tls(host: impl Into<String>, port: u16) -> Self {
        Self::at(Topology::Single(Address::Tls(host.into(), port)))
    }

    /// A server behind a unix socket.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(Topology::Single(Address::Unix(path.into())))
    }

    /// The master that sentinels watch under this name (`mymaster` in Redis's own example). The
    /// client asks the sentinels at these hosts and ports for the master, and follows a failover.
    /// Give several, so that one may be down.
    #[must_use]
    pub fn sentinel<H: Into<String>>(
        master: impl Into<String>,
        sentinels: impl IntoIterator<Item = (H, u16)>,
    ) -> Self {
        Self::watched(master.into(), tcp_addresses(sentinels))
    }

    /// As [`sentinel`](Self::sentinel), with TLS to the sentinels and to the master.
    #[must_use]
    pub fn sentinel_tls<H: Into<String>>(
        master: impl Into<String>,
        sentinels: impl IntoIterator<Item = (H, u16)>,
    ) -> Self {
        Self::watched(master.into(), tls_addresses(sentinels))
    }

    fn watched(master: String, sentinels: Vec<Address>) -> Self {
        Self::at(Topology::Sentinel(SentinelGroup { master, sentinels }))
    }

    /// The user and the password for the sentinels, if they need any. Those for the master are
    /// [`username`](Self::username) and [`password`](Self::password). Only with
    /// [`RedisBuilder::sentinel`]. Default: none.
    #[must_use]
    pub fn sentinel_login(mut self, username: Option<String>, password: Option<String>) -> Self {
        self.settings.sentinel_login.username = username;
        self.settings.sentinel_login.password = password;
        self
    }

    /// Sets a provider for the user and the password of the sentinels, in place of
    /// [`sentinel_login`](Self::sentinel_login). The client calls it for each new connection to a
    /// sentinel. Default: none.
    #[must_use]
    pub fn sentinel_credentials(mut self, provider: CredentialsProvider) -> Self {
        self.settings.sentinel_login.provider = Some(provider);
        self
    }

    /// How many replicas must acknowledge each grant and each renewal (`WAIT`). If too few
    /// acknowledge a grant, the client releases it, and the lock counts as not acquired. If too few
    /// acknowledge a renewal, the client does not count it. All clients must use the same number.
    /// Default: 0, no acknowledgement.
    #[must_use]
    pub fn wait_replicas(mut self, replicas: u32) -> Self {
        self.settings.wait_replicas = replicas;
        self
    }

    /// How long the replicas have to acknowledge. Must be less than the time limit of a command.
    /// During this time the connection gives no other answer. Only with
    /// [`RedisBuilder::wait_replicas`]. Default: 500 ms.
    #[must_use]
    pub fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.settings.wait_timeout = Some(timeout);
        self
    }

    /// A Redis Cluster. The client asks the nodes at these hosts and ports for the map of the
    /// cluster. One node is enough; give several, so that one may be down. Database 0.
    #[must_use]
    pub fn cluster<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::at(Topology::Cluster(tcp_addresses(nodes)))
    }

    /// As [`cluster`](Self::cluster), with TLS.
    #[must_use]
    pub fn cluster_tls<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::at(Topology::Cluster(tls_addresses(nodes)))
    }

    /// How long an old master may accept writes after a replica was promoted in its place. The
    /// quarantine is longer by this time. Default: `min-replicas-max-lag` plus 5 s; in a cluster
    /// twice the `cluster-node-timeout` plus 4 s. The client reads these from the server if CONFIG
    /// GET is permitted.
    #[must_use]
    pub fn failover_margin(mut self, margin: Duration) -> Self {
        self.settings.failover_margin = Some(margin);
        self
    }

    /// When an attempt is too late to take effect: it was delayed on its way to the server, and its
    /// caller gave up long ago. At most 50 s, so that the tombstone of an abandoned attempt, which
    /// stops earlier requests, lives longer. Default: 30 s.
    #[must_use]
    pub fn late_after(mut self, span: Duration) -> Self {
        self.settings.late_after = span;
        self
    }

    pub(crate) fn at(topology: Topology) -> Self {
        Self {
            settings: Settings {
                topology,
                login: Login::default(),
                sentinel_login: Login::default(),
                database: 0,
                prefix: "leasehold".to_owned(),
                timeout: TIMEOUT,
                longest_lease: None,
                quarantine: None,
                allow_eviction: false,
                failover_margin: None,
                wait_replicas: 0,
                wait_timeout: None,
                late_after: LATE_AFTER,
                roots: None,
                identity: None,
                plaintext: false,
                witness: false,
            },
        }
    }

    /// A builder from a URL, as for [`connect`](crate::connect).
    ///
    /// # Errors
    /// `InvalidInput` for a URL that is not of that form. No message shows the URL.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        crate::builder::url::parse(url, "")
    }

    /// The ACL user. Without a password, it must be a user that needs none (`nopass`). Default: the
    /// server's default user.
    #[must_use]
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.settings.login.username = Some(username.into());
        self
    }

    /// The user's password. Default: none.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.settings.login.password = Some(password.into());
        self
    }

    /// Sets a provider for the user and the password, in place of [`username`](Self::username) and
    /// [`password`](Self::password). The client calls it for each new connection, also in `build`.
    /// Use it for passwords and tokens that change while the client runs. The call counts in the
    /// time limit of the connection. Default: none.
    #[must_use]
    pub fn credentials(mut self, provider: CredentialsProvider) -> Self {
        self.settings.login.provider = Some(provider);
        self
    }

    /// Whether the client may send a password unencrypted over a network, to any server that
    /// answers for a host. Without this, a password is refused if there is no TLS and a host is not
    /// this machine. Default: no.
    #[must_use]
    pub fn plaintext(mut self, allowed: bool) -> Self {
        self.settings.plaintext = allowed;
        self
    }

    /// The number of the database. Default: 0.
    #[must_use]
    pub fn database(mut self, number: u32) -> Self {
        self.settings.database = number.into();
        self
    }

    /// The prefix of all keys. Default: `leasehold`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// The time limit of connecting and of each command. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// The longest lease that the store should have. A store that has another is refused. Default:
    /// what the store has, or 30 s if the store has lost its settings. If the store has more than
    /// 30 s, exclusion is promised only to clients that set this.
    #[must_use]
    pub fn longest_lease(mut self, longest: Duration) -> Self {
        self.settings.longest_lease = Some(longest);
        self
    }

    /// Whether a loss of data starts a quarantine. A store with the other setting is refused.
    /// Default: what the store has, or on if the store has lost its settings.
    #[must_use]
    pub fn quarantine(mut self, on: bool) -> Self {
        self.settings.quarantine = Some(on);
        self
    }

    /// Whether a server may be used whose `maxmemory-policy` may remove held locks. Exclusion is
    /// not promised there. If this is not allowed and the policy changes while a client is
    /// connected, the client gets no new grants from a second later until the policy is set back;
    /// held locks can be renewed and released. Default: no.
    #[must_use]
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.settings.allow_eviction = allow;
        self
    }

    /// The certificate authorities to trust, as PEM, in place of the system's. Only with TLS.
    #[must_use]
    pub fn roots(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.settings.roots = Some(pem.into());
        self
    }

    /// The client's certificate chain and key, as PEM. Only with TLS. Default: none.
    #[must_use]
    pub fn certificate(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.settings.identity = Some((chain.into(), key.into()));
        self
    }

    /// Connects, and compares the settings with those of the store. Writes nothing.
    ///
    /// # Errors
    /// `InvalidInput` for a setting that is not allowed. `Unavailable`, `Auth` or `Config` if a
    /// server cannot be used.
    pub async fn build(self) -> Result<Arc<dyn Backend>, Error> {
        let open = async {
            self.settings.check()?;
            Redis::open(self.settings).await
        };
        let redis = open.await.map_err(|error| error.at("redis", "connect"))?;
        Ok(Arc::new(redis))
    }
}

fn tcp_addresses<H: Into<String>>(hosts: impl IntoIterator<Item = (H, u16)>) -> Vec<Address> {
    hosts.into_iter().map(|(host, port)| Address::Tcp(host.into(), port)).collect()
}

fn tls_addresses<H: Into<String>>(hosts: impl IntoIterator<Item = (H, u16)>) -> Vec<Address> {
    hosts.into_iter().map(|(host, port)| Address::Tls(host.into(), port)).collect()
}
