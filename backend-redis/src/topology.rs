//! Where the servers of a store are, and which of them serves a bucket.

use std::{fmt, net::Ipv6Addr, os::unix::net::SocketAddr as UnixAddress, path::PathBuf, sync::Arc};

use lock_core::{Error, ErrorKind, Link, is_loopback};

use crate::{
    cluster::Map,
    keys::Bucket,
    sentinel::{Group, Watch},
    settings::Settings,
};

/// What stands for the host of a node that has none to announce.
pub(crate) const UNNAMED: &str = "?";

/// Where one server is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Tcp(String, u16),
    Tls(String, u16),
    Unix(PathBuf),
}

impl Place {
    /// Another server of the same store, as this one names it; without a name it is on the same host.
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

impl Place {
    /// How a connection to it is protected.
    pub(crate) fn link(&self) -> Link {
        match self {
            Self::Unix(_) => Link::Local,
            Self::Tls(..) => Link::Verified,
            Self::Tcp(host, _) if is_loopback(host) => Link::Local,
            Self::Tcp(..) => Link::Plain,
        }
    }

    /// # Errors
    /// `InvalidInput` for what is no place. A host is not repeated: a URL in its place has a password.
    fn check(&self) -> Result<(), Error> {
        let refuse = |message: &str| Err(Error::new(ErrorKind::InvalidInput, message));
        let (host, port) = match self {
            Self::Tcp(host, port) | Self::Tls(host, port) => (host, *port),
            Self::Unix(path) => {
                let usable = UnixAddress::from_pathname(path).is_ok();
                let usable = usable && !path.as_os_str().is_empty();
                return if usable {
                    Ok(())
                } else {
                    refuse(
                        "the path of the socket is empty or too long for one; allowed are about 100 bytes",
                    )
                };
            }
        };
        if port == 0 {
            return refuse("port 0 is not allowed; allowed are 1 to 65535");
        }
        // An address of a link has its zone behind it.
        let address = host.split_once('%').map_or(host.as_str(), |(address, _)| address);
        let named = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
        if address.parse::<Ipv6Addr>().is_ok() || !host.is_empty() && host.chars().all(named) {
            return Ok(());
        }
        refuse(
            "a host of the store is not allowed; allowed are a name of letters, digits, and . - _, or an \
             IPv4 or an IPv6 address, with nothing else in it",
        )
    }
}

impl fmt::Display for Place {
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

/// How a store is made of servers.
#[derive(Clone, Debug)]
pub(crate) enum Topology {
    Single(Place),
    Sentinel(Group),
    /// Nodes to ask first.
    Cluster(Vec<Place>),
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(place) => place.fmt(f),
            Self::Sentinel(group) => write!(f, "the master {:?} of sentinels", group.master),
            Self::Cluster(seeds) => {
                let seeds: Vec<_> = seeds.iter().map(ToString::to_string).collect();
                write!(f, "the cluster of {}", seeds.join(","))
            }
        }
    }
}

impl Topology {
    fn places(&self) -> &[Place] {
        match self {
            Self::Single(place) => std::slice::from_ref(place),
            Self::Sentinel(group) => &group.sentinels,
            Self::Cluster(seeds) => seeds,
        }
    }

    /// How connections are protected.
    pub(crate) fn link(&self) -> Link {
        self.places().iter().map(Place::link).min().unwrap_or(Link::Plain)
    }

    /// Whether connections are with TLS.
    pub(crate) fn tls(&self) -> bool {
        matches!(self.places().first(), Some(Place::Tls(..)))
    }

    /// # Errors
    /// `InvalidInput` for what cannot be meant.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.places().iter().try_for_each(Place::check)?;
        let refuse = |message: &str| Err(Error::new(ErrorKind::InvalidInput, message));
        match self {
            Self::Single(_) => Ok(()),
            Self::Sentinel(group) if group.sentinels.is_empty() => {
                refuse("no sentinel is given; allowed are one or more")
            }
            Self::Sentinel(group) if group.master.is_empty() => {
                refuse("the master's name is empty; allowed is a name of `sentinel monitor`")
            }
            Self::Cluster(seeds) if seeds.is_empty() => {
                refuse("no node of the cluster is given; allowed are one or more")
            }
            Self::Sentinel(_) | Self::Cluster(_) => Ok(()),
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Whether a replica may be promoted without anybody's asking us.
    pub(crate) fn fails_over(&self) -> bool {
        !matches!(self, Self::Single(_))
    }
}

/// Finds the server of a bucket. Clones share what they know.
#[derive(Clone, Debug)]
pub(crate) enum Finder {
    Fixed(Place),
    Sentinel(Arc<Watch>),
    Cluster(Arc<Map>),
}

impl Finder {
    pub(crate) fn new(settings: &Settings) -> Self {
        match &settings.topology {
            Topology::Single(place) => Self::Fixed(place.clone()),
            Topology::Sentinel(group) => Self::Sentinel(Watch::new(group, settings)),
            Topology::Cluster(seeds) => Self::Cluster(Map::new(seeds, settings)),
        }
    }

    /// Where the bucket is served, as far as is known now.
    pub(crate) async fn locate(&self, bucket: Bucket) -> Result<Place, Error> {
        match self {
            Self::Fixed(place) => Ok(place.clone()),
            Self::Sentinel(watch) => watch.locate().await,
            Self::Cluster(map) => map.locate(bucket.slot()).await,
        }
    }

    /// Where the slot of a user's own key is served.
    pub(crate) async fn locate_slot(&self, slot: u16) -> Result<Place, Error> {
        match self {
            Self::Cluster(map) => map.locate(slot).await,
            Self::Fixed(_) | Self::Sentinel(_) => self.locate(Bucket::FIRST).await,
        }
    }

    /// What to ask a server on a new connection, where [`recognise`](Self::recognise) wants to know.
    pub(crate) fn question(&self) -> Option<redis::Cmd> {
        matches!(self, Self::Cluster(_)).then(Map::question)
    }

    /// Whether the server at this place is one of the store's.
    pub(crate) fn recognise(&self, place: &Place, answer: redis::Value) -> Result<(), Error> {
        match self {
            Self::Fixed(_) | Self::Sentinel(_) => Ok(()),
            Self::Cluster(map) => map.recognise(place, answer),
        }
    }

    /// Whether [`has_left`](Self::has_left) can ever be.
    pub(crate) fn may_tell_of_another(&self) -> bool {
        matches!(self, Self::Sentinel(_))
    }

    /// Lets go of all connections, and makes no other.
    pub(crate) fn close(&self) {
        if let Self::Sentinel(watch) = self {
            watch.close();
        }
    }

    /// Whether a server that still calls itself a master was replaced by another.
    pub(crate) async fn has_left(&self, place: &Place) -> bool {
        match self {
            Self::Fixed(_) | Self::Cluster(_) => false,
            Self::Sentinel(watch) => watch.has_left(place).await,
        }
    }

    /// A node said that another one serves this slot.
    pub(crate) fn moved(&self, slot: u16, place: &Place) {
        if let Self::Cluster(map) = self {
            map.moved(slot, place);
        }
    }

    /// A server cannot be used; tells whether another may be known by asking.
    pub(crate) fn doubt(&self, place: &Place) -> bool {
        if let Self::Cluster(map) = self {
            map.doubt(place);
        }
        matches!(self, Self::Cluster(_))
    }
}
