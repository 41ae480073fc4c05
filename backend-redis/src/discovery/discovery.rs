//! Finds the server of a bucket.

use std::sync::Arc;

use lock_core::Error;

use crate::{
    discovery::{cluster::Map, sentinel::Watch},
    keys::Bucket,
    settings::{Address, Settings, Topology},
};

/// Finds the server of a bucket. Clones share what they know.
#[derive(Clone, Debug)]
pub(crate) enum Discovery {
    Fixed(Address),
    Sentinel(Arc<Watch>),
    Cluster(Arc<Map>),
}

impl Discovery {
    pub(crate) fn new(settings: &Settings) -> Self {
        match &settings.topology {
            Topology::Single(address) => Self::Fixed(address.clone()),
            Topology::Sentinel(group) => Self::Sentinel(Watch::new(group, settings)),
            Topology::Cluster(seeds) => Self::Cluster(Map::new(seeds, settings)),
        }
    }

    /// Where the bucket is served, as far as is known now.
    pub(crate) async fn locate(&self, bucket: Bucket) -> Result<Address, Error> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            Self::Sentinel(watch) => watch.locate().await,
            Self::Cluster(map) => map.locate(bucket.slot()).await,
        }
    }

    /// Where the slot of a user's own key is served.
    pub(crate) async fn locate_slot(&self, slot: u16) -> Result<Address, Error> {
        match self {
            Self::Cluster(map) => map.locate(slot).await,
            Self::Fixed(_) | Self::Sentinel(_) => self.locate(Bucket::FIRST).await,
        }
    }

    /// The question for a server on a new connection, where [`recognise`](Self::recognise) wants to know.
    pub(crate) fn question(&self) -> Option<redis::Cmd> {
        matches!(self, Self::Cluster(_)).then(Map::question)
    }

    /// Whether the server at this place is one of the store's.
    pub(crate) fn recognise(&self, address: &Address, answer: redis::Value) -> Result<(), Error> {
        match self {
            Self::Fixed(_) | Self::Sentinel(_) => Ok(()),
            Self::Cluster(map) => map.recognise(address, answer),
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
    pub(crate) async fn has_left(&self, address: &Address) -> bool {
        match self {
            Self::Fixed(_) | Self::Cluster(_) => false,
            Self::Sentinel(watch) => watch.has_left(address).await,
        }
    }

    /// A node said that another one serves this slot.
    pub(crate) fn moved(&self, slot: u16, address: &Address) {
        if let Self::Cluster(map) = self {
            map.moved(slot, address);
        }
    }

    /// A server cannot be used; tells whether another may be known by asking.
    pub(crate) fn doubt(&self, address: &Address) -> bool {
        if let Self::Cluster(map) = self {
            map.doubt(address);
        }
        matches!(self, Self::Cluster(_))
    }
}
