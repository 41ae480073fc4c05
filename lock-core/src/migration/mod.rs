//! Two stores as one, while a fleet moves from the first to the second.

mod backend;
mod both;
mod forward;
mod pair;
mod place;
mod promise;

use std::{fmt, sync::Arc};

use self::{both::Both, promise::Made};
use crate::{Backend, Env, Error, ErrorKind, SystemEnv};

/// How far a process is in a migration. Neighbours may run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Debug)]
pub struct Migration {
    phase: Phase,
    side: Side,
}

#[derive(Debug)]
enum Side {
    One(Arc<dyn Backend>, Made),
    Both(Both),
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
        let env: Arc<dyn Env> = Arc::new(SystemEnv);
        let side = match phase {
            Phase::Old => Side::One(old, Made::default()),
            Phase::New => Side::One(new, Made::default()),
            Phase::Both => Side::Both(in_order(old, new, env).await?),
        };
        Ok(Self { phase, side })
    }

    /// The phase of this process.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }
}

/// The two stores in the order of acquisition. Not by role: a fleet that rolls back takes them in the
/// same order.
async fn in_order(
    old: Arc<dyn Backend>,
    new: Arc<dyn Backend>,
    env: Arc<dyn Env>,
) -> Result<Both, Error> {
    let mut stores = [old, new];
    let refuse =
        |message: String| Err(Error::new(ErrorKind::Config, message).at("migration", "new"));
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
    Ok(Both { stores, env, places: Arc::default(), promised: Made::default() })
}
