//! A grant that a majority has lost, as where it stood on a bare majority and one node of that forgot.
//!
//! Its holder is told at once, but may be in the middle of what it was promised the time for. So what
//! other nodes still have of the grant goes on keeping everybody out until that time is over: freed
//! before, it and nodes that never had the grant would be a majority for the next.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lock_core::{Env as _, Grant, Instant, OwnerId, SystemEnv};

use crate::quorum::Quorum;

/// The owners of lost grants that may still be believed in.
#[derive(Debug, Default)]
pub(crate) struct Spared(Mutex<HashSet<OwnerId>>);

impl Spared {
    fn owners(&self) -> MutexGuard<'_, HashSet<OwnerId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has(&self, owner: OwnerId) -> bool {
        self.owners().contains(&owner)
    }
}

/// Forgets an owner, also where the task is dropped with its runtime.
struct Sparing(Arc<Quorum>, OwnerId);

impl Drop for Sparing {
    fn drop(&mut self) {
        self.0.spared.owners().remove(&self.1);
    }
}

impl Quorum {
    /// Gives back what nodes have of a lost grant, but not before `until`.
    pub(crate) fn spare(self: &Arc<Self>, grant: &Grant, until: Instant) {
        if !self.spared.owners().insert(grant.owner) {
            return;
        }
        let (sparing, lease) = (Sparing(Arc::clone(self), grant.owner), grant.lease);
        let call = self.freeing(&grant.name, grant.owner, ["", "", "", ""]);
        self.behind(async move {
            let quorum = &sparing.0;
            tokio::select! {
                // The nodes' leases are the bound.
                () = quorum.closed() => {}
                () = SystemEnv.sleep_until(until) => {
                    for at in 0..quorum.peers.len() {
                        quorum.free_behind(at, Arc::clone(&call), lease);
                    }
                }
            }
        });
    }
}
