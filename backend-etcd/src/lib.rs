//! Locks of leasehold in etcd.
//!
//! A lock is a key that lives by a lease, in the layout of etcd's own lock tools ([`KeyLayout`]), so
//! that `etcdctl lock` and we exclude each other. Its token is the key's create revision and an offset
//! that follows the clock. Waiters stand in etcd's own queue and are woken by one watch.
//!
//! What is not there yet: a guard against restored snapshots (see the assumptions in `Guarantees`), and
//! a `Fence` for data in etcd.

mod acquire;
mod backend;
mod config;
mod enqueue;
mod error;
mod keepalive;
mod layout;
mod ledger;
mod operate;
mod place;
mod promises;
mod queue;
mod rpc;
mod settings;
mod store;
mod watch;

pub use self::{
    config::{EtcdBuilder, connect},
    layout::{KeyLayout, PlaceKey},
    ledger::{Credit, Ledger},
};
