//! The guards of several locks.

use std::{fmt, ops::Deref, time::Duration};

use futures_util::future::{join_all, select_all};

use crate::{Error, Guard, LossReason};

/// The guards of several locks, in the order in which they were given to [`all`](super::all()).
/// Dropping them releases all locks.
#[must_use = "dropping the guards releases the locks"]
pub struct Guards(pub(super) Vec<Guard>);

impl Guards {
    /// Whether the holder may still rely on all locks. This only reads the clock.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.iter().all(Guard::is_valid)
    }

    /// How long the holder may rely on all locks without another renewal; zero if one is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Waits until one lock is lost, and returns its index and the reason. The other locks are
    /// still held.
    ///
    /// # Cancel safety
    ///
    /// As [`Guard::lost`].
    pub async fn lost(&self) -> (usize, LossReason) {
        let (reason, at, _) = select_all(self.iter().map(|guard| Box::pin(guard.lost()))).await;
        (at, reason)
    }

    /// Releases all locks, and waits for the answers.
    ///
    /// # Durations
    ///
    /// It ends within the clients' `call_timeout`.
    ///
    /// # Errors
    ///
    /// The first error of [`Guard::release`], in the order of the guards. An error does not stop
    /// the other releases.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the releases go on in the background.
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
    /// One guard, for code that handles one lock and several locks alike.
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
