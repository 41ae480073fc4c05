//! The addresses of a store's servers.

use std::{fmt, net::Ipv6Addr, path::PathBuf};

use lock_core::{ConnectionSecurity, Error, ErrorKind, is_loopback};

use crate::sys;

/// Replaces the host of a node that should announce one and has none.
pub(crate) const UNNAMED: &str = "?";

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Tcp(String, u16),
    Tls(String, u16),
    Unix(PathBuf),
}

impl Address {
    /// The address of another server of the same store, as this server names it. Without a host
    /// name it is on the same host.
    pub(crate) fn beside(&self, host: &str, port: u16) -> Option<Self> {
        match self {
            // It need not be the host that was asked.
            _ if host == UNNAMED => None,
            Self::Tcp(here, _) => Some(Self::Tcp(named(host, here), port)),
            Self::Tls(here, _) => Some(Self::Tls(named(host, here), port)),
            Self::Unix(_) => None,
        }
    }
}

fn named(host: &str, here: &str) -> String {
    if host.is_empty() { here.to_owned() } else { host.to_owned() }
}

impl Address {
    /// How a connection to it is protected.
    pub(crate) fn security(&self) -> ConnectionSecurity {
        match self {
            Self::Unix(_) => ConnectionSecurity::Local,
            Self::Tls(..) => ConnectionSecurity::Verified,
            Self::Tcp(host, _) if is_loopback(host) => ConnectionSecurity::Local,
            Self::Tcp(..) => ConnectionSecurity::Plain,
        }
    }

    /// # Errors
    /// `InvalidInput` for an unusable address; `Unsupported` for a Unix socket where there are
    /// none. The error does not repeat a host: if a URL stands there, it has a password.
    fn check(&self) -> Result<(), Error> {
        let refuse = |message: &str| Err(Error::new(ErrorKind::InvalidInput, message));
        let (host, port) = match self {
            Self::Tcp(host, port) | Self::Tls(host, port) => (host, *port),
            Self::Unix(path) => return sys::check_socket(path),
        };
        if port == 0 {
            return refuse("port 0 is not allowed; must be between 1 and 65535");
        }
        // A link-local address has its zone after a %.
        let address = host.split_once('%').map_or(host.as_str(), |(address, _)| address);
        let named = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if address.parse::<Ipv6Addr>().is_ok() || !host.is_empty() && host.chars().all(named) {
            return Ok(());
        }
        refuse(
            "a host of the store is not allowed; must be a name of letters, digits, and . - _, or an \
             IPv4 or an IPv6 address, with nothing else in it",
        )
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) | Self::Tls(host, port) if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            Self::Tcp(host, port) | Self::Tls(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The sentinels of one master.
#[derive(Clone, Debug)]
pub(crate) struct SentinelGroup {
    pub(crate) master: String,
    pub(crate) sentinels: Vec<Address>,
}

/// How a store is made of servers.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    Single(Address),
    Sentinel(SentinelGroup),
    /// Some nodes, which the client asks first.
    Cluster(Vec<Address>),
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(address) => address.fmt(f),
            Self::Sentinel(group) => write!(f, "the master {:?} of sentinels", group.master),
            Self::Cluster(seeds) => {
                let seeds: Vec<_> = seeds.iter().map(ToString::to_string).collect();
                write!(f, "the cluster of {}", seeds.join(","))
            }
        }
    }
}

impl Topology {
    fn addresses(&self) -> &[Address] {
        match self {
            Self::Single(address) => std::slice::from_ref(address),
            Self::Sentinel(group) => &group.sentinels,
            Self::Cluster(seeds) => seeds,
        }
    }

    /// How the connections are protected.
    pub(crate) fn security(&self) -> ConnectionSecurity {
        self.addresses().iter().map(Address::security).min().unwrap_or(ConnectionSecurity::Plain)
    }

    /// Whether the connections use TLS.
    pub(crate) fn tls(&self) -> bool {
        matches!(self.addresses().first(), Some(Address::Tls(..)))
    }

    /// # Errors
    /// `InvalidInput` for a description that makes no sense.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.addresses().iter().try_for_each(Address::check)?;
        let refuse = |message: &str| Err(Error::new(ErrorKind::InvalidInput, message));
        match self {
            Self::Single(_) => Ok(()),
            Self::Sentinel(group) if group.sentinels.is_empty() => {
                refuse("no sentinel is given; must be one or more")
            }
            Self::Sentinel(group) if group.master.is_empty() => {
                refuse("the master's name is empty; must be a name of `sentinel monitor`")
            }
            Self::Cluster(seeds) if seeds.is_empty() => {
                refuse("no node of the cluster is given; must be one or more")
            }
            Self::Sentinel(_) | Self::Cluster(_) => Ok(()),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Whether a replica may be promoted without this client's knowledge.
    pub(crate) fn fails_over(&self) -> bool {
        !matches!(self, Self::Single(_))
    }
}
