//! How a store is described: by a builder or a URL.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use lock_core::{Backend, Env as _, Error, ErrorKind, StoreSettings, SystemEnv};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo as _, ProtocolVersion,
    RedisConnectionInfo, RedisResult, TlsCertificates,
};

use crate::{
    backend::Redis,
    guarantees::SHORTEST_LEASE,
    sentinel::Group,
    store::{Agreed, Store},
    topology::{Place, Topology},
};

/// A version of Redis's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// Pushes come on a second connection.
    Resp2,
    /// Pushes come on the connection of the commands.
    Resp3,
}

/// How many replicas have to acknowledge grants and renewals, and how soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) replicas: u32,
    pub(crate) within: Duration,
}

/// A user and its password.
#[derive(Clone, Default)]
pub(crate) struct Login {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

/// Everything that a connection needs to know.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) topology: Topology,
    pub(crate) login: Login,
    pub(crate) database: i64,
    pub(crate) prefix: String,
    pub(crate) timeout: Duration,
    pub(crate) longest_lease: Option<Duration>,
    pub(crate) quarantine: Option<bool>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) allow_eviction: bool,
    pub(crate) failover_margin: Option<Duration>,
    pub(crate) wait_replicas: u32,
    pub(crate) wait_timeout: Duration,
    pub(crate) late_after: Duration,
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Settings {
    /// Without user, password and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("topology", &self.topology)
            .field("database", &self.database)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .field("longest_lease", &self.longest_lease)
            .field("quarantine", &self.quarantine)
            .field("protocol", &self.protocol)
            .field("allow_eviction", &self.allow_eviction)
            .field("failover_margin", &self.failover_margin)
            .field("wait_replicas", &self.wait_replicas)
            .field("wait_timeout", &self.wait_timeout)
            .field("late_after", &self.late_after)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Whose acknowledgement is waited for, if any.
    pub(crate) fn acknowledgement(&self) -> Option<Acknowledgement> {
        let Self { wait_replicas: replicas, wait_timeout: within, .. } = *self;
        (replicas > 0).then_some(Acknowledgement { replicas, within })
    }

    pub(crate) fn first_agreed(&self) -> Agreed {
        Agreed {
            longest: self.longest_lease.unwrap_or(StoreSettings::DEFAULT_LONGEST_LEASE),
            quarantine: self.quarantine.unwrap_or(true),
        }
    }

    /// The driver's description of the same.
    pub(crate) fn client(&self, place: &Place, version: ProtocolVersion) -> RedisResult<Client> {
        self.client_of(place, version, &self.login, self.database)
    }

    /// The same with another login, for a sentinel.
    pub(crate) fn client_of(
        &self,
        place: &Place,
        version: ProtocolVersion,
        login: &Login,
        database: i64,
    ) -> RedisResult<Client> {
        let mut redis = RedisConnectionInfo::default()
            .set_db(database)
            .set_protocol(version)
            .set_skip_set_lib_name();
        if let Some(username) = &login.username {
            redis = redis.set_username(username);
        }
        if let Some(password) = &login.password {
            redis = redis.set_password(password);
        }
        let address = match place {
            Place::Tcp(host, port) => ConnectionAddr::Tcp(host.clone(), *port),
            Place::Unix(path) => ConnectionAddr::Unix(path.clone()),
            Place::Tls(host, port) => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            },
        };
        let info = address.into_connection_info()?.set_redis_settings(redis);
        if !matches!(place, Place::Tls(..)) {
            return Client::open(info);
        }
        // Another crate may have brought a second provider, and then there is no default.
        rustls::crypto::ring::default_provider().install_default().ok();
        let client_tls = self
            .identity
            .clone()
            .map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
        Client::build_with_tls(info, TlsCertificates { client_tls, root_cert: self.roots.clone() })
    }
}

/// Describes a store on one Redis server.
#[derive(Clone, Debug)]
pub struct RedisBuilder {
    pub(crate) settings: Settings,
}

impl RedisBuilder {
    const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
    /// Tombstones live for 60 s: see `TOMB_MS` in scripts/common.lua.
    const LATEST: Duration = Duration::from_secs(50);

    /// A server without TLS.
    #[must_use]
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        Self::at(Topology::Single(Place::Tcp(host.into(), port)))
    }

    /// A server with TLS, whose certificate must be for `host`.
    #[must_use]
    pub fn tls(host: impl Into<String>, port: u16) -> Self {
        Self::at(Topology::Single(Place::Tls(host.into(), port)))
    }

    /// A server behind a unix socket.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(Topology::Single(Place::Unix(path.into())))
    }

    /// The master that sentinels watch under this name (`mymaster` in Redis's own example), found and
    /// followed by asking the sentinels at these hosts and ports. Several are given so that one may
    /// be down.
    #[must_use]
    pub fn sentinel<H: Into<String>>(
        master: impl Into<String>,
        sentinels: impl IntoIterator<Item = (H, u16)>,
    ) -> Self {
        Self::watched(master.into(), tcp_places(sentinels))
    }

    /// The same, with TLS to the sentinels and to the master.
    #[must_use]
    pub fn sentinel_tls<H: Into<String>>(
        master: impl Into<String>,
        sentinels: impl IntoIterator<Item = (H, u16)>,
    ) -> Self {
        Self::watched(master.into(), tls_places(sentinels))
    }

    fn watched(master: String, sentinels: Vec<Place>) -> Self {
        Self::at(Topology::Sentinel(Group { master, sentinels, login: Login::default() }))
    }

    /// The user and the password for the sentinels, if they want any; those of the master are
    /// [`username`](Self::username) and [`password`](Self::password). Only with
    /// [`RedisBuilder::sentinel`]. Default: none.
    #[must_use]
    pub fn sentinel_login(mut self, username: Option<String>, password: Option<String>) -> Self {
        if let Topology::Sentinel(group) = &mut self.settings.topology {
            group.login = Login { username, password };
        }
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
    /// else is answered on the connection. Default: 500 ms.
    #[must_use]
    pub fn wait_timeout(mut self, timeout: Duration) -> Self {
        self.settings.wait_timeout = timeout;
        self
    }

    /// A Redis Cluster, found by asking the nodes at these hosts and ports; one would do, several are
    /// given so that one may be down. Version 7 or newer, database 0.
    #[must_use]
    pub fn cluster<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::at(Topology::Cluster(tcp_places(nodes)))
    }

    /// The same with TLS.
    #[must_use]
    pub fn cluster_tls<H: Into<String>>(nodes: impl IntoIterator<Item = (H, u16)>) -> Self {
        Self::at(Topology::Cluster(tls_places(nodes)))
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
                database: 0,
                prefix: "leasehold".to_owned(),
                timeout: Duration::from_secs(5),
                longest_lease: None,
                quarantine: None,
                protocol: None,
                allow_eviction: false,
                failover_margin: None,
                wait_replicas: 0,
                wait_timeout: Duration::from_millis(500),
                late_after: Duration::from_secs(30),
                roots: None,
                identity: None,
            },
        }
    }

    /// The same description from a URL, as for [`connect`](crate::connect).
    ///
    /// # Errors
    /// `InvalidInput` for a URL that is not of that form. No message shows the URL.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        crate::url::parse(url)
    }

    /// The ACL user. Default: the server's default user.
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

    /// The number of the database. Default: 0.
    #[must_use]
    pub fn database(mut self, number: u32) -> Self {
        self.settings.database = number.into();
        self
    }

    /// What all keys begin with. Default: `leasehold`.
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
    /// refused. Default: what the store has, or 30 s for one that has lost its settings.
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

    /// The protocol. Default: RESP3 where the server has it.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.settings.protocol = Some(protocol);
        self
    }

    /// Whether a server may be used whose `maxmemory-policy` may remove held locks. Default: no.
    #[must_use]
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.settings.allow_eviction = allow;
        self
    }

    /// The authorities to trust, as PEM, in place of the system's. Only with [`RedisBuilder::tls`].
    #[must_use]
    pub fn roots(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.settings.roots = Some(pem.into());
        self
    }

    /// The client's certificate chain and key, as PEM. Only with [`RedisBuilder::tls`]. Default: none.
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
            self.check()?;
            Store::open(self.settings, SystemEnv.random()).await
        };
        let store = open.await.map_err(|error| error.at("redis", "connect"))?;
        Ok(Arc::new(Redis(Arc::new(store))))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let Settings { topology, prefix, timeout, longest_lease, roots, identity, .. } =
            &self.settings;
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidInput, message));
        topology.check()?;
        if topology.is_cluster() && self.settings.database != 0 {
            return refuse(format!(
                "database {} is not allowed; a cluster has only database 0",
                self.settings.database
            ));
        }
        let margin = self.settings.failover_margin;
        let allowed = |letter: char| letter.is_ascii_graphic() && !"{}".contains(letter);
        if prefix.is_empty() || prefix.len() > 100 || !prefix.chars().all(allowed) {
            return refuse(format!(
                "prefix {prefix:?} is not allowed; allowed are 1 to 100 visible ASCII characters \
                 without braces"
            ));
        }
        let show = humantime::format_duration;
        if *timeout < Duration::from_millis(1) || *timeout > Duration::from_secs(3600) {
            return refuse(format!(
                "timeout {} is not allowed; allowed are 1ms to 1h",
                show(*timeout)
            ));
        }
        let within = self.settings.wait_timeout;
        let waits = self.settings.wait_replicas > 0;
        if waits && (within < Duration::from_millis(1) || within >= *timeout) {
            return refuse(format!(
                "wait timeout {} is not allowed; allowed is 1ms to less than the timeout, {}",
                show(within),
                show(*timeout)
            ));
        }
        let late = self.settings.late_after;
        if late < Duration::from_millis(10) || late > RedisBuilder::LATEST {
            return refuse(format!(
                "late_after {} is not allowed; allowed are 10ms to {}",
                show(late),
                show(RedisBuilder::LATEST)
            ));
        }
        if let Some(margin) = margin.filter(|margin| *margin > RedisBuilder::LONGEST) {
            return refuse(format!(
                "failover margin {} is not allowed; allowed is up to {}",
                show(margin),
                show(RedisBuilder::LONGEST)
            ));
        }
        if let Some(longest) = longest_lease {
            check_longest(*longest)?;
        }
        if (roots.is_some() || identity.is_some()) && !topology.tls() {
            return refuse("certificates are for TLS; allowed is rediss:// with them".into());
        }
        Ok(())
    }
}

fn tcp_places<H: Into<String>>(hosts: impl IntoIterator<Item = (H, u16)>) -> Vec<Place> {
    hosts.into_iter().map(|(host, port)| Place::Tcp(host.into(), port)).collect()
}

fn tls_places<H: Into<String>>(hosts: impl IntoIterator<Item = (H, u16)>) -> Vec<Place> {
    hosts.into_iter().map(|(host, port)| Place::Tls(host.into(), port)).collect()
}

pub(crate) fn check_longest(longest: Duration) -> Result<(), Error> {
    if longest < SHORTEST_LEASE || longest > RedisBuilder::LONGEST {
        let show = humantime::format_duration;
        let message = format!(
            "longest lease {} is not allowed; allowed are {} to {}",
            show(longest),
            show(SHORTEST_LEASE),
            show(RedisBuilder::LONGEST)
        );
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    if !longest.subsec_nanos().is_multiple_of(1_000_000) {
        let message = "the longest lease is not a multiple of 1ms";
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}
