//! Which server serves a bucket: by sentinels, or by the map of a cluster.

mod cluster;
mod discovery;
pub(crate) mod redirect;
pub(crate) mod sentinel;
pub(crate) mod shards;

pub(crate) use self::discovery::Discovery;
