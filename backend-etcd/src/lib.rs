//! Locks of leasehold in etcd.
//!
//! A lock is a key that lives by a lease, in the layout of etcd's own lock tools ([`KeyLayout`]), so
//! that `etcdctl lock` and we exclude each other. Its token is the key's create revision and an offset
//! that follows the clock. Waiters stand in etcd's own queue and are woken by one watch.
//!
//! The restore of a snapshot loses locks, and sets the revision back. An operator says so (`init` with
//! `restored`), or a client notices it when it connects, as it mostly can: then nothing is granted until every
//! lease that may have been lost is over.
//!
//! Data that is kept in etcd, too, is guarded by [`Fence`] or [`HeldKey`] in the very transaction that
//! writes it.

mod acquire;
mod backend;
mod claim;
mod config;
mod connection;
mod enqueue;
mod error;
mod fence;
mod history;
mod hold;
mod keepalive;
mod layout;
mod ledger;
mod members;
mod operate;
mod place;
mod promises;
mod quarantine;
mod queue;
mod release;
mod rpc;
mod seats;
mod settings;
mod spares;
mod store;
mod watch;

// Whoever fences builds transactions of this version's types.
pub use etcd_client;

pub use self::{
    config::{EtcdBuilder, connect},
    fence::{Fence, FenceError, HeldKey},
    layout::{KeyLayout, PlaceKey},
    ledger::{Credit, Ledger},
};
