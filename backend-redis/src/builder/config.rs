//! How a store is described: by a builder or a URL.

use std::{path::PathBuf, sync::Arc, time::Duration};

use lock_core::{Backend, CredentialsProvider, Error};

use crate::tunables::{LATE_AFTER, TIMEOUT};
use crate::{
    backend::Redis,
    settings::{Address, Login, SentinelGroup, Settings, Topology},
};

/// Describes a store on one Redis server.
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

    /// A server with TLS, whose certificate must be for `host`.
    #[must_use]
    pub fn tls(host: impl Into<String>, port: u16) -> Self {
        Self::at(Topology::Single(Address::Tls(host.into(), port)))
    }

    /// A server behind a unix socket.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(Topology::Single(Address::Unix(path.into())))
    }

    /// The master that sentinels watch under this name (`mymaster` in Redis's own example), found and
    /// followed by asking the sentinels at these hosts and ports. Several are given so that one may
    /// be down.
    #[must_use]
    pub fn sentinel<H: Into<String>>(
        master: impl Into<String>,
        sentinels: impl IntoIterator<Item = (H, u16)>,
    ) -> Self {
        Self::watched(master.into(), tcp_addresses(sentinels))
    }

    /// The same, with TLS to the sentinels and to the master.
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

    /// The user and the password for the sentinels, if they want any; those of the master are
    /// [`username`](Self::username) and [`password`](Self::password). Only with
    /// [`RedisBuilder::sentinel`]. Default: none.
    #[must_use]
    pub fn sentinel_login(mut self, username: Option<String>, password: Option<String>) -> Self {
        self.settings.sentinel_login.username = username;
        self.settings.sentinel_login.password = password;
        self
    }

    /// Sets the provider that is asked for the user and the password of the sentinels on each new connection to one of them, in place of
    /// [`sentinel_login`](Self::sentinel_login). Default: none.
    #[must_use]
    pub fn sentinel_credentials(mut self, provider: CredentialsProvider) -> Self {
        self.settings.sentinel_login.provider = Some(provider);
        self
    }

    /// How many replicas have to acknowledge each grant and each renewal (`WAIT`). A grant that too few
    /// acknowledge is released and counts as not acquired; a renewal is not believed. All clients
    /// must ask for the same. Default: 0, which asks none.
    #[must_use]
    pub fn wait_replicas(mut self, replicas: u32) -> Self {
        self.settings.wait_replicas = replicas;
        self
    }

    /// How long they have for it; less than the time limit of a command. While it is waited, nothing
    /// else is answered on the connection. Only with [`RedisBuilder::wait_replicas`]. Default: 500 ms.
    #[must_use]
    pub fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.settings.wait_timeout = Some(timeout);
        self
    }

    /// A Redis Cluster, found by asking the nodes at these hosts and ports; one would do, several are
    /// given so that one may be down. Database 0.
    #[must_use]
    pub fn cluster<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::at(Topology::Cluster(tcp_addresses(nodes)))
    }

    /// The same with TLS.
    #[must_use]
    pub fn cluster_tls<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::at(Topology::Cluster(tls_addresses(nodes)))
    }

    /// How long a master may go on taking writes after a replica was promoted in its place: the
    /// quarantine is as much longer. Default: `min-replicas-max-lag` and 5 s, in a cluster twice the
    /// `cluster-node-timeout` and 4 s, read from the server where CONFIG GET is permitted.
    #[must_use]
    pub fn failover_margin(mut self, margin: Duration) -> Self {
        self.settings.failover_margin = Some(margin);
        self
    }

    /// When an attempt that waited on its way to the server, and whose caller has long given up, no
    /// longer takes effect. At most 50 s, so that the trace of a given-up attempt, which stops an
    /// earlier one, lives longer. Default: 30 s.
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
            },
        }
    }

    /// The same description from a URL, as for [`connect`](crate::connect).
    ///
    /// # Errors
    /// `InvalidInput` for a URL that is not of that form. No message shows the URL.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        crate::builder::url::parse(url, "")
    }

    /// The ACL user; without a password, one that needs none (`nopass`). Default: the server's default
    /// user.
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

    /// Sets the provider that is asked for the user and the password on each new connection, in place of [`username`](Self::username) and
    /// [`password`](Self::password): for passwords and tokens that change while the client runs. `build` asks, too. The
    /// call counts in the time limit of the connection. Default: none.
    #[must_use]
    pub fn credentials(mut self, provider: CredentialsProvider) -> Self {
        self.settings.login.provider = Some(provider);
        self
    }

    /// Whether a password may go over a network unencrypted, to any server that answers for a host: that is refused otherwise,
    /// where there is no TLS and a host is not this machine. Default: no.
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

    /// The beginning of all keys. Default: `leasehold`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.prefix = prefix.into();
        self
    }

    /// How long connecting and each command may take. Default: 5 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// The longest lease that this client believes the store to have; a store that has another is
    /// refused. Default: what the store has, or 30 s for one that has lost its settings; so where the store
    /// has more, exclusion is promised only to clients that are told.
    #[must_use]
    pub fn longest_lease(mut self, longest: Duration) -> Self {
        self.settings.longest_lease = Some(longest);
        self
    }

    /// Whether a loss of data is followed by a quarantine; a store that is set otherwise is refused.
    /// Default: what the store has, or on for one that has lost its settings.
    #[must_use]
    pub fn quarantine(mut self, on: bool) -> Self {
        self.settings.quarantine = Some(on);
        self
    }

    /// Whether a server may be used whose `maxmemory-policy` may remove held locks; exclusion is not promised
    /// there. Where it is not allowed and the policy is changed while a client is connected, nothing is granted any more
    /// from a second later on, until it is set back, and what is held goes on. Default: no.
    #[must_use]
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.settings.allow_eviction = allow;
        self
    }

    /// The authorities to trust, as PEM, in place of the system's. Only with TLS.
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

    /// Connects, and compares settings with those of the store. Writes nothing.
    ///
    /// # Errors
    /// `InvalidInput` for a setting that is not allowed; `Unavailable`, `Auth` or `Config` for a
    /// server that cannot be used.
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
