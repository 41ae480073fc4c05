//! Grants that a majority has lost, but on which their holders may still rely.

use std::{
    collections::HashSet,
    sync::{Arc, MutexGuard},
};

use lock_core::{Mutex, OwnerId};

/// The owners of such grants.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetainedGrants(Arc<Mutex<HashSet<OwnerId>>>);

impl RetainedGrants {
    fn owners(&self) -> MutexGuard<'_, HashSet<OwnerId>> {
        self.0.lock()
    }

    pub(crate) fn has(&self, owner: OwnerId) -> bool {
        self.owners().contains(&owner)
    }

    /// Enters an owner until the returned value is dropped. `None` if the owner is there already.
    pub(crate) fn enter(&self, owner: OwnerId) -> Option<Retained> {
        self.owners().insert(owner).then(|| Retained(self.clone(), owner))
    }
}

/// Removes the owner when it is dropped, also if its task is dropped with the runtime.
pub(crate) struct Retained(RetainedGrants, OwnerId);

impl Drop for Retained {
    fn drop(&mut self) {
        self.0.owners().remove(&self.1);
    }
}
