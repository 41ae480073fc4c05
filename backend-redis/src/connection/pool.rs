//! Which connection serves which bucket.

use std::{collections::HashMap, sync::Arc};

use lock_core::{Mutex, RwLock};

use crate::{
    connection::{Connection, last_failure::LastFailure},
    keys::Bucket,
    settings::Address,
};

/// At most one connection to a server. The caller that makes it holds the lock.
pub(crate) type ConnectionSlot = Arc<tokio::sync::Mutex<ConnectionTry>>;

/// The result of the last try to connect.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTry {
    pub(crate) connection: Option<Arc<Connection>>,
    pub(crate) failure: LastFailure,
}

/// The last failure to find a bucket's server. The caller that searches holds the lock.
pub(crate) type Search = tokio::sync::Mutex<LastFailure>;

/// The connections in use: for each bucket the one to its server, and for each server its slot.
#[derive(Debug)]
pub(crate) struct Pool {
    buckets: Box<[RwLock<Option<Arc<Connection>>>]>,
    searches: Box<[Search]>,
    slots: Mutex<HashMap<Address, ConnectionSlot>>,
}

impl Pool {
    pub(crate) fn new(buckets: usize) -> Self {
        Self {
            buckets: (0..buckets).map(|_| RwLock::default()).collect(),
            searches: (0..buckets).map(|_| Search::default()).collect(),
            slots: Mutex::default(),
        }
    }

    /// The connection of a bucket, if it is alive.
    pub(crate) fn current(&self, bucket: Bucket) -> Option<Arc<Connection>> {
        let connection = self.buckets[bucket.index()].read();
        connection.as_ref().filter(|connection| !connection.commands.is_dead()).cloned()
    }

    pub(crate) fn set(&self, bucket: Bucket, connection: Option<Arc<Connection>>) {
        *self.buckets[bucket.index()].write() = connection;
    }

    pub(crate) fn search(&self, bucket: Bucket) -> &Search {
        &self.searches[bucket.index()]
    }

    /// The connection slot of a server.
    pub(crate) fn slot(&self, address: &Address) -> ConnectionSlot {
        let mut slots = self.slots.lock();
        Arc::clone(slots.entry(address.clone()).or_default())
    }

    /// Whether there is a connection to a server, or one is being made.
    pub(crate) fn may_use(&self, address: &Address) -> bool {
        let slots = self.slots.lock();
        slots.get(address).is_some_and(is_used)
    }

    /// Drops connections that have ended, and those that nothing will use again.
    pub(crate) fn prune(&self) {
        let mut slots = self.slots.lock();
        slots.retain(|_, slot| is_used(slot));
    }

    /// All live connections, each with one of the buckets that it serves.
    pub(crate) fn alive(&self) -> Vec<Arc<Connection>> {
        let mut connections: Vec<Arc<Connection>> = Vec::new();
        for bucket in 0..self.buckets.len() {
            let connection = self.current(Bucket(bucket as u16));
            connections.extend(connection.filter(|connection| {
                !connections.iter().any(|known| Arc::ptr_eq(known, connection))
            }));
        }
        connections
    }

    /// Drops all connections.
    pub(crate) fn clear(&self) {
        for bucket in &self.buckets {
            *bucket.write() = None;
        }
        self.slots.lock().clear();
    }
}

fn is_used(slot: &ConnectionSlot) -> bool {
    // If the lock is taken, a caller is making the connection.
    slot.try_lock().map_or(true, |tried| {
        tried.connection.as_ref().is_some_and(|connection| !connection.commands.is_dead())
    })
}
