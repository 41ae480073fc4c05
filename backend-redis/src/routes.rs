//! Which connection serves which bucket.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use crate::{failure::LastFailure, keys::Bucket, link::Link, topology::Place};

/// At most one connection to a server; whoever needs one holds the lock while it is made.
pub(crate) type Line = Arc<tokio::sync::Mutex<Tried>>;

/// What came of the last try to connect.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    pub(crate) link: Option<Arc<Link>>,
    pub(crate) failure: LastFailure,
}

/// The last failure to find a bucket's server; whoever looks for it holds the lock.
pub(crate) type Search = tokio::sync::Mutex<LastFailure>;

/// The connections in use: for each bucket the one to its server, and for each server its line.
#[derive(Debug)]
pub(crate) struct Routes {
    buckets: Box<[RwLock<Option<Arc<Link>>>]>,
    searches: Box<[Search]>,
    lines: Mutex<HashMap<Place, Line>>,
}

impl Routes {
    pub(crate) fn new(buckets: usize) -> Self {
        Self {
            buckets: (0..buckets).map(|_| RwLock::default()).collect(),
            searches: (0..buckets).map(|_| Search::default()).collect(),
            lines: Mutex::default(),
        }
    }

    /// The connection of a bucket, if it is alive.
    pub(crate) fn current(&self, bucket: Bucket) -> Option<Arc<Link>> {
        let link = self.buckets[bucket.index()].read().unwrap_or_else(PoisonError::into_inner);
        link.as_ref().filter(|link| !link.is_dead()).cloned()
    }

    pub(crate) fn set(&self, bucket: Bucket, link: Option<Arc<Link>>) {
        *self.buckets[bucket.index()].write().unwrap_or_else(PoisonError::into_inner) = link;
    }

    pub(crate) fn search(&self, bucket: Bucket) -> &Search {
        &self.searches[bucket.index()]
    }

    /// The line to a server.
    pub(crate) fn line(&self, place: &Place) -> Line {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lines.entry(place.clone()).or_default())
    }

    /// Whether there is a connection to a server, or one is being made.
    pub(crate) fn may_use(&self, place: &Place) -> bool {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.get(place).is_some_and(is_used)
    }

    /// Lets go of connections that have ended, and of those that nobody is to use any more.
    pub(crate) fn prune(&self) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.retain(|_, line| is_used(line));
    }

    /// All connections that are alive, each with one of the buckets that it serves.
    pub(crate) fn alive(&self) -> Vec<Arc<Link>> {
        let mut links: Vec<Arc<Link>> = Vec::new();
        for bucket in 0..self.buckets.len() {
            let link = self.current(Bucket(bucket as u16));
            links.extend(link.filter(|link| !links.iter().any(|known| Arc::ptr_eq(known, link))));
        }
        links
    }

    /// Lets go of all connections.
    pub(crate) fn clear(&self) {
        for bucket in &self.buckets {
            *bucket.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn is_used(line: &Line) -> bool {
    // One that is being made has its maker.
    line.try_lock().map_or(true, |tried| tried.link.as_ref().is_some_and(|link| !link.is_dead()))
}
