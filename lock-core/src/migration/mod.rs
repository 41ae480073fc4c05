//! Two stores as one, while a fleet moves from the first to the second.

mod backend;
mod both;
mod fleet;
mod forward;
#[cfg(test)]
mod fuzz;
mod pair;
mod place;
mod promise;
mod record;
mod single;

use std::{fmt, sync::Arc};

use serde::Serialize;

pub use self::fleet::{Direction, Fleet, Member, Refusal, Step};
use self::{both::Both, promise::Made, record::Record, single::Single};
use crate::{Backend, Env, Error, ErrorKind, OwnerLabel, SystemEnv};

/// How far a process is in a migration. Neighbours may run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
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
/// In [`Phase::Both`] a lock is held in both stores, under the larger of their two tokens, which both
/// have before anybody sees it. A waiter is woken as the stores wake theirs, and not served in order.
/// In the other phases it is the one store, with tokens above those of the other.
///
/// Each process keeps a record of its phase in both stores, which [`Fleet::survey`] reads. In the
/// phases `Old` and `New` a process whose record is lost in the store that it uses neither acquires
/// nor renews until it is written anew.
#[derive(Debug)]
pub struct Migration {
    phase: Phase,
    /// The old and the new store.
    stores: [Arc<dyn Backend>; 2],
    record: Arc<Record>,
    backend: Active,
}

#[derive(Debug)]
enum Active {
    Single(Single),
    Both(Both),
}

impl Migration {
    /// Moves from `old` to `new`; this process is in `phase`. Its record names it `host:pid`.
    ///
    /// # Errors
    /// `Config` if the two are one store; while a process two phases away is alive, or was less than
    /// a longest lease ago, naming it; in an end phase if the store's clock is behind the other's by
    /// its longest lease; in [`Phase::Both`] if one of the stores cannot raise a token. `Unsupported`
    /// if one of them has no identity. Otherwise as the stores' own: both are asked in each phase.
    ///
    /// *Cancel safety*: a record that was written is given back in the background.
    pub async fn new(
        old: Arc<dyn Backend>,
        new: Arc<dyn Backend>,
        phase: Phase,
    ) -> Result<Self, Error> {
        let label = OwnerLabel::of_this_process();
        Self::with_env(old, new, phase, label, Arc::new(SystemEnv)).await
    }

    /// The same with a label of its own, in the real world or a simulated one.
    ///
    /// # Errors
    /// As [`Migration::new`].
    pub async fn with_env(
        old: Arc<dyn Backend>,
        new: Arc<dyn Backend>,
        phase: Phase,
        label: OwnerLabel,
        env: Arc<dyn Env>,
    ) -> Result<Self, Error> {
        let stores = [old, new];
        let ordered = in_order(stores.clone()).await?;
        let record = Record::open(stores.clone(), phase, label, env).await?;
        let single = |side: usize| {
            let (store, record) = (Arc::clone(&stores[side]), Arc::clone(&record));
            Active::Single(Single { store, record, promised: Made::default() })
        };
        let backend = match phase {
            Phase::Old => single(0),
            Phase::New => single(1),
            Phase::Both => {
                let (places, promised) = (Arc::default(), Made::default());
                Active::Both(Both { stores: ordered, places, promised })
            }
        };
        Ok(Self { phase, stores, record, backend })
    }

    /// The phase of this process.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }
}

/// The two stores in the order of acquisition. Not by role: a fleet that rolls back takes them in the
/// same order.
async fn in_order(mut stores: [Arc<dyn Backend>; 2]) -> Result<[Arc<dyn Backend>; 2], Error> {
    let refuse =
        |message: String| Err(Error::new(ErrorKind::Config, message).at("migration", "new"));
    // Told before the first step is made, not in the midst of it.
    if let Some(store) = stores.iter().find(|store| !store.guarantees().raise) {
        return refuse(format!("{} cannot raise a token, which moving needs", store.kind()));
    }
    let identities = [stores[0].identity().await?, stores[1].identity().await?];
    if identities[0] == identities[1] {
        return refuse(format!("both stores are {}; two are needed", identities[0]));
    }
    if identities[0] > identities[1] {
        stores.reverse();
    }
    Ok(stores)
}
