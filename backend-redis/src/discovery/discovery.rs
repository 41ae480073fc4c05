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

    /// The server of the bucket, as far as is known now.
    pub(crate) async fn locate(&self, bucket: Bucket) -> Result<Address, Error> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            Self::Sentinel(watch) => watch.locate().await,
            Self::Cluster(map) => map.locate(bucket.slot()).await,
        }
    }

    /// The server of the slot of a user's own key.
    pub(crate) async fn locate_slot(&self, slot: u16) -> Result<Address, Error> {
        match self {
            Self::Cluster(map) => map.locate(slot).await,
            Self::Fixed(_) | Self::Sentinel(_) => self.locate(Bucket::FIRST).await,
        }
    }

    /// The question for a server on a new connection, if [`recognise`](Self::recognise) needs one.
    pub(crate) fn question(&self) -> Option<redis::Cmd> {
        matches!(self, Self::Cluster(_)).then(Map::question)
    }

    /// Checks that the server at this address belongs to the store.
    pub(crate) fn recognise(&self, address: &Address, answer: redis::Value) -> Result<(), Error> {
        match self {
            Self::Fixed(_) | Self::Sentinel(_) => Ok(()),
            Self::Cluster(map) => map.recognise(address, answer),
        }
    }

    /// Whether [`has_left`](Self::has_left) can ever return true.
    pub(crate) fn may_see_replacements(&self) -> bool {
        matches!(self, Self::Sentinel(_))
    }

    /// Drops all connections, and makes no new ones.
    pub(crate) fn close(&self) {
        if let Self::Sentinel(watch) = self {
            watch.close();
        }
    }

    /// A connection to a server was dropped by the network without a word, and so may those to
    /// sentinels have been.
    pub(crate) fn distrust(&self) {
        if let Self::Sentinel(watch) = self {
            watch.distrust();
        }
    }

    /// Whether another server has replaced one that still takes itself for a master.
    pub(crate) async fn has_left(&self, address: &Address) -> bool {
        match self {
            Self::Fixed(_) | Self::Cluster(_) => false,
            Self::Sentinel(watch) => watch.has_left(address).await,
        }
    }

    /// A node answered that another one serves this slot.
    pub(crate) fn moved(&self, slot: u16, address: &Address) {
        if let Self::Cluster(map) = self {
            map.moved(slot, address);
        }
    }

    /// A server cannot be used. Returns whether asking may find another.
    pub(crate) fn doubt(&self, address: &Address) -> bool {
        if let Self::Cluster(map) = self {
            map.doubt(address);
        }
        matches!(self, Self::Cluster(_))
    }
}
