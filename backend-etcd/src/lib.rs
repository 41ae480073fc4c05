//! Locks of leasehold in etcd.
//!
//! A lock is a key that lives by a lease, in the layout of etcd's own lock tools ([`KeyLayout`]),
//! so that `etcdctl lock` and this backend exclude each other. Its token is the sum of the key's
//! create revision and an offset that follows the clock. Waiters have entries in etcd's own queue,
//! and one watch stream per client wakes them.
//!
//! Restoring a snapshot loses locks and sets etcd's revision back. A client detects most restores
//! when it connects. The operator must report every restore (`init` with `restored`), because some
//! cannot be detected. After a detection or a report, nothing is granted until every lease that may
//! have been lost has expired.
//!
//! [`Fence`] and [`HeldKey`] guard data in the same etcd, in the transaction that writes the data.

#![warn(missing_debug_implementations)]

mod backend;
mod builder;
mod fence;
#[cfg(test)]
mod fuzz;
mod guarantees;
mod keys;
mod leases;
mod restore;
mod rpc;
mod steps;
mod store;
#[cfg(test)]
mod tests;
mod tunables;
mod waiting;

// Callers of a fence build transactions of this version's types.
pub use etcd_client;

pub use self::{
    builder::{EtcdBuilder, connect},
    fence::{Fence, HeldKey},
    keys::layout::{EntryKey, KeyLayout},
};
