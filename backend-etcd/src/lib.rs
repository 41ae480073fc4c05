//! Locks of leasehold in etcd.
//!
//! A lock is a key that lives by a lease, in the layout of etcd's own lock tools ([`KeyLayout`]), so
//! that `etcdctl lock` and we exclude each other. Its token is the key's create revision and an offset
//! that follows the clock.
//!
//! What is not there yet: a queue (waiters poll), a guard against restored snapshots, and a `Fence`
//! for data in etcd.

mod acquire;
mod backend;
mod config;
mod error;
mod keepalive;
mod layout;
mod ledger;
mod operate;
mod place;
mod promises;
mod rpc;
mod settings;
mod store;

pub use self::{
    config::{EtcdBuilder, connect},
    layout::{KeyLayout, PlaceKey},
    ledger::{Credit, Ledger},
};
