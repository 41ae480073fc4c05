//! Locks of leasehold in Apache ZooKeeper.
//!
//! A lock is the first of the ephemeral sequential nodes in the directory of its name, so that
//! Curator's `InterProcessMutex` and this backend exclude each other. The node lives by a session,
//! which all locks of one lease length share. Its token is the sum of its sequence number and an
//! offset that follows the clock of ZooKeeper's leader. A waiter watches only its predecessor.
//!
//! A session proves less than its name says: a follower that is cut off from the leader answers
//! reads and pings long after the leader has ended the session. So validity counts only from
//! requests that the leader knows of; see the module `session`.

#![warn(missing_debug_implementations)]

mod backend;
mod builder;
mod error;
mod fence;
mod guarantees;
mod keys;
mod session;
mod steps;
mod store;
mod tunables;
mod waiting;

/// The client library, for users' own data beside a [`Fence`].
pub use zookeeper_client;

pub use self::{
    builder::{ZooKeeperBuilder, connect},
    fence::Fence,
};
