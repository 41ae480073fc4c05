//! Several held locks as one.

use std::{fmt, ops::Deref, time::Duration};

use futures_util::future::{join_all, select_all};

use crate::{Error, Guard, LossReason};

/// Several held locks, in the order in which they were given to [`all`](super::all()). Dropping them releases all.
#[must_use = "dropping the guards releases the locks"]
pub struct Guards(pub(super) Vec<Guard>);

impl Guards {
    /// Whether all of them may still be relied on. Needs only the clock.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.iter().all(Guard::is_valid)
    }

    /// How long all of them may be relied on without another renewal; zero when one is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Waits until one of them is lost, and returns which, and the reason. The others are still held.
    ///
    /// *Durations, cancel safety*: as [`Guard::lost`].
    pub async fn lost(&self) -> (usize, LossReason) {
        let (reason, at, _) = select_all(self.iter().map(|guard| Box::pin(guard.lost()))).await;
        (at, reason)
    }

    /// Releases all of them, and waits for the answers.
    ///
    /// *Durations*: it ends within the clients' `call_timeout`.
    ///
    /// *Errors*: the first error of [`Guard::release`], in the order of the guards. All are released, also after an
    /// error.
    ///
    /// *Cancel safety*: the releases go on in the background.
    pub async fn release(self) -> Result<(), Error> {
        join_all(self.0.into_iter().map(Guard::release)).await.into_iter().collect()
    }

    /// The separate guards.
    #[must_use]
    pub fn into_vec(self) -> Vec<Guard> {
        self.0
    }
}

impl From<Guard> for Guards {
    /// A set of one guard, for code that handles one lock like several.
    fn from(guard: Guard) -> Self {
        Self(vec![guard])
    }
}

impl Deref for Guards {
    type Target = [Guard];

    fn deref(&self) -> &[Guard] {
        &self.0
    }
}

impl fmt::Debug for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}
