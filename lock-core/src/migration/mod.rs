//! Two stores as one, while a fleet moves from the first to the second.
//!
//! Not there yet: the coordination records. Nothing here sees the phases of other processes, so that
//! an operator must keep them within one step of each other; `Guarantees` names that as an assumption.

mod backend;
mod pair;
mod promise;

use std::{fmt, sync::Arc};

use crate::{Backend, Error, ErrorKind};

/// How far a process is in a migration. Neighbours may run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Only the old store is used.
    Old,
    /// A lock is held in both stores or not at all.
    Both,
    /// Only the new store is used.
    New,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Old => "old",
            Self::Both => "both",
            Self::New => "new",
        })
    }
}

/// A backend over an old and a new store.
///
/// In [`Phase::Both`] a waiter polls and is not served in order.
#[derive(Debug)]
pub struct Migration {
    /// In the order of acquisition in [`Phase::Both`]; otherwise the old and the new store.
    stores: [Arc<dyn Backend>; 2],
    phase: Phase,
}

impl Migration {
    /// Moves from `old` to `new`; this process is in `phase`.
    ///
    /// # Errors
    /// In [`Phase::Both`]: `Config` if the two are one store, or one of them cannot raise a token;
    /// `Unsupported` if one of them has no identity; otherwise as the stores' own.
    pub async fn new(
        old: Arc<dyn Backend>,
        new: Arc<dyn Backend>,
        phase: Phase,
    ) -> Result<Self, Error> {
        let mut stores = [old, new];
        if phase == Phase::Both {
            if let Some(store) = stores.iter().find(|store| !store.guarantees().raise) {
                let message = format!("{} cannot raise a token, which moving needs", store.kind());
                return Err(Error::new(ErrorKind::Config, message).at("migration", "new"));
            }
            let identities = [stores[0].identity().await?, stores[1].identity().await?];
            if identities[0] == identities[1] {
                let message = format!("both stores are {}; two are needed", identities[0]);
                return Err(Error::new(ErrorKind::Config, message).at("migration", "new"));
            }
            // Not by role: a fleet that rolls back takes the stores in the same order.
            if identities[0] > identities[1] {
                stores.reverse();
            }
        }
        Ok(Self { stores, phase })
    }

    /// The phase of this process.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The only store in use, outside [`Phase::Both`].
    fn only(&self) -> Option<&dyn Backend> {
        match self.phase {
            Phase::Old => Some(&*self.stores[0]),
            Phase::Both => None,
            Phase::New => Some(&*self.stores[1]),
        }
    }
}
